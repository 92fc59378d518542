"""How much a file may expand while it is read, and what damage in it a reader works around."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from cudalens.errors import TraceFormatError
from cudalens.frames.info import Problem


class Problems:
    """Number of occurrences of each kind of damage, and the first one."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, where: str, count: int = 1) -> None:
        """Count `kind`; `where` is kept for the first occurrence only."""
        before, first = self._found.get(kind, (0, where))
        self._found[kind] = (before + count, first)

    def count(self, *beginnings: str) -> int:
        """Occurrences of the kinds that begin with one of `beginnings`."""
        return sum(count for kind, (count, _) in self._found.items() if kind.startswith(beginnings))

    def __len__(self) -> int:
        return len(self._found)

    def first(self) -> str | None:
        """Return the first damage in words, or None."""
        return next((f"{kind} ({where})" for kind, (_, where) in self._found.items()), None)

    def to_tuple(self) -> tuple[Problem, ...]:
        """For `RunInfo.problems`, in order of first occurrence."""
        return tuple(Problem(kind, count, where) for kind, (count, where) in self._found.items())


#: Files may expand to this without regard to their size.
FREE_BYTES: Final = 96 << 20
#: How often the bytes of the file they may have after that; recorded traces have 10 to 40.
RATIO: Final = 100
#: The same for the rows of a Parquet file, whose equal values take no bytes.
ROWS_RATIO: Final = 400
#: Memory of what each byte of numbers or small messages describes, as measured, for formats that are decoded at once.
VALUE_BYTES: Final = 10
_MEMORY: Final = Path("/proc/meminfo")
_CONTAINER: Final = Path("/sys/fs/cgroup/memory.max")


def available_bytes() -> int:
    """Memory that a new allocation can have, of the machine and of its container; 4 GiB if unknown."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = _MEMORY.read_text().splitlines()
        found.append(int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) << 10)
    with suppress(OSError, ValueError):
        found.append(int(_CONTAINER.read_text()))  # "max" is no limit
    return min(found, default=4 << 30)


class Limit:
    """The most bytes that the contents of one file may have in memory."""

    def __init__(self, path: str | os.PathLike[str], max_bytes: int | None = None) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._available = available_bytes() if max_bytes is None else max_bytes

    def check(
        self, num_bytes: int, packed: int | None = None, *, what: str, position: str | None = None, ratio: int = RATIO
    ) -> None:
        """Refuse contents that are too large.

        Args:
            num_bytes: Bytes of the contents, known or so far.
            packed: Bytes of the file that they expanded from; None if it was not compressed.
            what: What has the bytes.
            position: Where it is, for the message.
            ratio: The most bytes for each of `packed`.

        Raises:
            TraceFormatError: `num_bytes` is above the limit.
        """
        limit = self._available
        if self._max_bytes is None and packed is not None:
            limit = min(limit, FREE_BYTES + ratio * packed)
        if num_bytes <= limit:
            return
        packed_text = "" if packed is None else f" from {packed:,} compressed bytes"
        raise TraceFormatError(
            self._path,
            position=position,
            found=f"{num_bytes:,} bytes or more in {what}{packed_text}",
            expected=f"at most {limit:,}, by the sizes of the file and of the free memory",
            hint=f"If the file can be trusted: cudalens.load(path, max_bytes={1 << num_bytes.bit_length():_}).",
        )
