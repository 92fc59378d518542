"""Read slices of ``traceEvents`` with the compiled scanner, if it was built; the Python reader returns the same.

The scanner handles strictly typed text only. For everything else `scan` returns None, and `RecordDecoder` decodes the
slice.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import SYNTAX_ERRORS, decoder
from cudalens.traces.chrome.values import COUNTED, CURRENT_CATEGORY, MARK, MISSING, SPECS, UNKNOWN, MemoryArgs, kind_of

try:
    from cudalens.traces.chrome._scanner import finish, new_tables, start, undo
except ImportError:  # built without a compiler, or from another version's source
    new_tables = None  # type: ignore[assignment]

#: Set to 0 to read with the Python reader alone.
SWITCH: Final = "CUDALENS_SCANNER"

_KIND_OF_TYPE: Final = {int | None: "i", float | None: "f", str | None: "s", msgspec.Raw: "j"}
_SPEC_FIELDS: Final = {field.name: field for spec in SPECS.values() for field in msgspec.structs.fields(spec)}
#: The arguments that become columns. Of two names of one, that which decides where both are given comes first.
FIELDS: Final = tuple(sorted(_SPEC_FIELDS, key=lambda name: (name != "old_shapes", name.startswith("old_"))))
_KINDS: Final = {name: _KIND_OF_TYPE[field.type] for name, field in _SPEC_FIELDS.items()}
_KEYS: Final = {field.encode_name.encode(): name for name, field in _SPEC_FIELDS.items()}
_MEMORY_KEYS: Final = {field.encode_name.encode(): field.name for field in msgspec.structs.fields(MemoryArgs)}
_WANTED: Final = (*((key, _KINDS[name]) for key, name in _KEYS.items()), *((key, "m") for key in _MEMORY_KEYS))
_DTYPES: Final = {"i": np.int64, "f": np.float32, "s": np.int32, "j": np.int32}
_SEED: Final = secrets.randbits(64)

Track = tuple[str | None, int | str | None, int | str | None]


class ScannedColumn(NamedTuple):
    """An argument of some rows of a slice.

    Attributes:
        rows: Row numbers within the slice, ascending, shape (k,).
        values: Its values if it is a number (int64 or float32), else numbers of its texts, shape (k,).
        raw: Its JSON texts that no slice before had, in the order of their numbers.
        texts: The strings in `raw`.
    """

    rows: NDArray[np.int32]
    values: NDArray[Any]
    raw: Sequence[bytes]
    texts: Sequence[str]


class ScannedAllocations(NamedTuple):
    """The allocator's instants in a slice, k of them.

    Attributes:
        ts: Their times, ns, shape (k,).
        pid: Their processes.
        tid: Their threads.
        values: The fields of `MemoryArgs`, each of shape (k,); the smallest int64 where missing.
    """

    ts: Ints
    pid: list[int | str | None]
    tid: list[int | str | None]
    values: dict[str, Ints]


class Scanned(NamedTuple):
    """The entries of a slice; the complete events as columns of length n.

    Attributes:
        num_entries: Number of entries, of every phase.
        is_exact: Whether later slices need exact decimals, as `RecordDecoder` decides it.
        ts: Starts, ns, shape (n,).
        dur: Durations, ns, shape (n,); the smallest int64 where an entry has none.
        name: Numbers of the names, shape (n,).
        names: The names that no slice before had, in the order of their numbers.
        track: Positions in `tracks`, shape (n,).
        tracks: The distinct combinations of category, process and thread of all slices so far.
        fields: The arguments by the name of their field.
        allocations: The allocator's instants.
        others: Start and end in the text of each entry of another phase, except flows.
    """

    num_entries: int
    is_exact: bool
    ts: Ints
    dur: Ints
    name: NDArray[np.int32]
    names: list[str]
    track: NDArray[np.int32]
    tracks: list[Track]
    fields: dict[str, ScannedColumn]
    allocations: ScannedAllocations
    others: list[list[int]]


def is_scanner_built() -> bool:
    """Return whether the compiled scanner can be imported."""
    return new_tables is not None


def is_scanner_in_use() -> bool:
    """Return whether the compiled scanner was built, and is not switched off by the environment."""
    return is_scanner_built() and os.environ.get(SWITCH) != "0"


class Scanner:
    """Scans the slices of one file; distinct texts are numbered over all of them."""

    def __init__(self) -> None:
        self._tables = None if new_tables is None else new_tables(_WANTED, _SEED)
        self._labels: list[int | str] = []
        self._tracks: list[Track] = []
        self._before = 0, 0
        self._begun: tuple[bytes, int, bool] | None = None

    def begin(self, data: bytes, size: int, is_exact: bool) -> None:
        """Scan the first `size` bytes of `data` in another thread; `scan` of the same waits for it."""
        if self._tables is None:
            return
        self._before = len(self._labels), len(self._tracks)
        start(self._tables, data, size, is_exact)
        self._begun = data, size, is_exact

    def scan(self, data: bytes, size: int, is_exact: bool) -> Scanned | None:
        """Return the entries in `data`, the contents of a JSON list; None if they are left to the Python reader.

        Args:
            data: The text.
            size: Its length; what follows is ignored.
            is_exact: Whether times must be converted from exact decimals.
        """
        if self._tables is None or (found := self._found(data, size, is_exact)) is None:
            return None
        try:
            scanned = self._scanned(*found)
        except (*SYNTAX_ERRORS, ValueError):
            scanned = None
        if scanned is None:
            self.undo()
        return scanned

    def _found(self, data: bytes, size: int, is_exact: bool) -> tuple[Any, ...] | None:
        """Return what the extension finds in `data`; another text that was begun is forgotten."""
        if self._begun is not None and not (self._begun[0] is data and self._begun[1:] == (size, is_exact)):
            finish(self._tables)
            self._begun = None
            self.undo()
        if self._begun is None:
            self.begin(data, size, is_exact)
        self._begun = None
        return finish(self._tables)

    def undo(self) -> None:
        """Remove the last slice, which is decoded by the Python reader."""
        undo(self._tables)
        del self._labels[self._before[0] :], self._tracks[self._before[1] :]

    def _scanned(
        self,
        num_entries: int,
        needs_exact: int,
        has_long: int,
        ts: bytes,
        dur: bytes,
        name: bytes,
        names: list[bytes],
        track: bytes,
        codes: bytes,
        labels: list[bytes],
        fields: dict[bytes, Any],
        odd: bytes,
        others: bytes,
        *memory: bytes,
    ) -> Scanned | None:
        starts = np.frombuffer(ts, np.int64)
        if (len(starts) and starts.min() == MISSING) or (has_long and others):
            return None
        if labels:
            self._labels += _decoded(labels, list[int | str])
        new = _tracks(np.frombuffer(codes, np.int32).reshape(-1, 3), self._labels)
        if any(cat == COUNTED for cat, _, _ in new):
            return None  # their arguments have any name
        self._tracks += new
        tracks = np.frombuffer(track, np.int32)
        if self._needs_python(tracks, np.frombuffer(odd, np.int32).reshape(-1, 2)):
            return None
        return Scanned(
            num_entries,
            bool(needs_exact),
            starts,
            np.frombuffer(dur, np.int64),
            np.frombuffer(name, np.int32),
            _decoded(names, list[str]),
            tracks,
            self._tracks,
            {_KEYS[key]: _column(_KEYS[key], *parts) for key, parts in fields.items() if key in _KEYS},
            _allocations(memory[0], memory[1], self._tracks, fields),
            np.frombuffer(others, np.int64).reshape(-1, 2).tolist(),
        )

    def _needs_python(self, tracks: NDArray[np.int32], odd: NDArray[np.int32]) -> bool:
        """Return whether an argument of an unusual type becomes a column of its row; `odd` has rows and fields."""
        pairs = dict.fromkeys(zip(tracks[odd[:, 0]].tolist(), odd[:, 1].tolist(), strict=True))
        return any(_has_field(self._tracks[track][0], _WANTED[number][0]) for track, number in pairs)


@lru_cache(1 << 12)
def _has_field(category: str | None, key: bytes) -> bool:
    """Return whether the argument `key` of entries of `category` becomes a column."""
    kind = kind_of(CURRENT_CATEGORY.get(category, category) if category else UNKNOWN)
    return _KEYS[key] in getattr(SPECS.get(kind), "__struct_fields__", ())


def _decoded(raw: list[bytes], kind: Any) -> Any:
    return decoder(kind).decode(b"".join((b"[", b",".join(raw), b"]")))


def _tracks(codes: NDArray[np.int32], labels: list[int | str]) -> list[Any]:
    """Return the tracks by their labels; a negative code is a label that is missing."""
    return [tuple(labels[code] if code >= 0 else None for code in track) for track in codes.tolist()]


def _allocations(ts: bytes, track: bytes, tracks: list[Any], fields: dict[bytes, Any]) -> ScannedAllocations:
    times, of_track = np.frombuffer(ts, np.int64), np.frombuffer(track, np.int32)
    keys = [tracks[number] for number in of_track.tolist()]
    if any(cat == MARK for cat, _, _ in keys):
        raise ValueError("an instant for viewers")
    values = {}
    for key, name in _MEMORY_KEYS.items():
        values[name] = np.full(len(times), MISSING)
        if key in fields:
            values[name][np.frombuffer(fields[key][0], np.int32)] = np.frombuffer(fields[key][1], np.int64)
    return ScannedAllocations(times, [pid for _, pid, _ in keys], [tid for _, _, tid in keys], values)


def _column(name: str, rows: bytes, values: bytes, raw: list[bytes]) -> ScannedColumn:
    kind = _KINDS[name]
    texts: list[str] = _decoded(raw, list[str]) if kind == "s" and raw else []
    return ScannedColumn(np.frombuffer(rows, np.int32), np.frombuffer(values, _DTYPES[kind]), raw, texts)
