"""The accesses to one set of bytes that matter for races: the last write, and the last reads that are not ordered.

If a later access of the same kind to the same bytes is ordered after an earlier one, the earlier one is redundant: an
access that races with it also races with the later one, and an access ordered after the later one is ordered after
both. So a cell holds one write and one read in almost all programs, and more only while accesses are unordered
(FastTrack: Flanagan and Freund, PLDI 2009).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cudalens.sanitizer.engine.accesses import RecordedAccess, find_access_info
from cudalens.sanitizer.engine.clocks import Line, VectorClock
from cudalens.sanitizer.engine.regions import Region


class Cell:
    """The recorded accesses of one exact set of bytes.

    The last write and the last read have their own attributes; accesses that are not ordered before them are in `more`.

    Attributes:
        region: The bytes.
        near: Other cells of the block that share a byte with it, and whether this one covers them.
        writer: Line of the last write; None if there is none.
        write_clock: Its clock.
        write: Its `AccessInfo`.
        reader: Line of the last read since; None if there is none.
        read_clock: Its clock.
        read: Its `AccessInfo`.
        more: Older accesses, one per line and kind; None while there are none.
    """

    __slots__ = ("more", "near", "read", "read_clock", "reader", "region", "write", "write_clock", "writer")

    def __init__(self, region: Region) -> None:
        self.region = region
        self.near: list[tuple[Cell, bool]] = []
        self.writer: Line | None = None
        self.write_clock = 0
        self.write: Any = None
        self.reader: Line | None = None
        self.read_clock = 0
        self.read: Any = None
        self.more: dict[tuple[Line, bool], RecordedAccess] | None = None

    @property
    def entries(self) -> list[RecordedAccess]:
        """All recorded accesses: `more` first, then the last write, then the last read."""
        found = list(self.more.values()) if self.more else []
        if self.writer is not None:
            found.append((self.writer, self.write_clock, True, self.write))
        if self.reader is not None:
            found.append((self.reader, self.read_clock, False, self.read))
        return found

    def spelled(self, entry: RecordedAccess) -> RecordedAccess:
        """An entry of this cell with an `AccessInfo` that does not refer to the cell."""
        line, clock, is_write, info = entry
        return (line, clock, is_write, find_access_info(info, self, is_write)) if type(info) is list else entry

    def unordered(self, line: Line, is_write: bool) -> Iterator[RecordedAccess]:
        """The entries that an access of these bytes by `line` would race with now."""
        if self.writer is None and self.reader is None and self.more is None:
            return
        vector = line.vector
        for entry in self.entries:
            if (is_write or entry[2]) and entry[0] is not line and vector.get(entry[0].index, 0) < entry[1]:
                yield entry

    def passes_near(self, line: Line, is_write: bool) -> bool:
        """Whether an access is ordered after all entries of overlapping cells; a write then clears covered cells.

        May return False if a full check is needed.
        """
        known = line.vector.get
        for other, _ in self.near:
            writer, reader = other.writer, other.reader
            if (
                other.more is not None
                or (writer is not None and writer is not line and known(writer.index, 0) < other.write_clock)
                or (
                    is_write and reader is not None and reader is not line and known(reader.index, 0) < other.read_clock
                )
            ):
                return False
        if is_write:
            for other, is_covered in self.near:
                if is_covered:
                    other.writer = other.write = other.reader = other.read = None
        return True

    def note(self, line: Line, is_write: bool, info: Any) -> None:
        """Record an access and drop the entries that it makes redundant."""
        left = [
            entry
            for entry in self.entries
            if (entry[2] and not is_write) or (entry[0] is not line and line.vector.get(entry[0].index, 0) < entry[1])
        ]
        left.append((line, line.clock, is_write, info))
        self._set(left)

    def forget_known(self, vector: VectorClock) -> None:
        """Drop entries that are complete at `vector`."""
        if self.writer is not None or self.reader is not None:
            self._set([e for e in self.entries if vector.get(e[0].index, 0) < e[1]])

    def forget_ordered(self, line: Line) -> None:
        """Drop entries that `line` is ordered after: a write of all these bytes has replaced them."""
        if self.writer is not None or self.reader is not None:
            vector = line.vector
            self._set([e for e in self.entries if e[0] is not line and vector.get(e[0].index, 0) < e[1]])

    def take_in(self, entries: Iterable[RecordedAccess]) -> None:
        """Record entries of another cell, all earlier than those of this one."""
        mine = self.entries
        have = {(e[0], e[2]) for e in mine}
        self._set([e for e in entries if (e[0], e[2]) not in have] + mine)

    def _set(self, entries: list[RecordedAccess]) -> None:
        """Store the last write and the last read in their attributes, and the others in `more`."""
        self.writer = self.reader = self.write = self.read = self.more = None
        more: dict[tuple[Line, bool], RecordedAccess] = {}
        for entry in reversed(entries):
            line, clock, is_write, info = entry
            if is_write and self.writer is None:
                self.writer, self.write_clock, self.write = line, clock, info
            elif not is_write and self.reader is None:
                self.reader, self.read_clock, self.read = line, clock, info
            else:
                more.setdefault((line, is_write), entry)
        self.more = dict(reversed(more.items())) or None
