"""The call stacks of a snapshot: each distinct one once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.build import categorical, nullable
from cudalens.frames.schema import empty_frame
from cudalens.frames.snapshots.values import Place, text

Ints = NDArray[np.int64]

_KNOWN: Final = frozenset({"filename", "name", "line"})
_NO_FILE: Final = frozenset({"", "??"})
_MAX_LINE: Final = (1 << 31) - 1
_LISTS_AT_ONCE: Final = 1 << 16


class SnapshotStacks:
    """Collects the lists of stack frames that a snapshot's rows carry, innermost first.

    torch shares the dicts of stack frames between lists, and lists between rows. Lists are told apart by a hash of the
    identities of their dicts, with multipliers drawn by chance (two differ by it but for a chance of about 2**-58); one
    of each is looked at, and what has equal content has one number. The snapshot must live as long as lists are being
    added.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._multipliers = np.empty(0, np.uint64)
        self._number_of_hash: dict[int, int] = {}
        self._by_content: dict[tuple[int, ...], int] = {}
        self._frame_by_object: dict[int, int] = {}
        self._frames: dict[tuple[Any, Any, Any, str | None], int] = {}

    def numbers(self, lists: Sequence[Any], position: str) -> pd.arrays.IntegerArray:
        """The stack's number for each of `lists`; missing for None and for an empty list.

        Raises:
            TraceFormatError: One is no list of dicts.
        """
        if not lists:
            return nullable(np.empty(0, np.int64), np.empty(0, bool))
        which, identities = pd.factorize(np.fromiter(map(id, lists), np.int64, len(lists)))
        first = np.empty(len(identities), np.int64)
        first[which[::-1]] = np.arange(len(lists))[::-1]
        distinct = [lists[i] for i in first.tolist()]
        numbers = np.full(len(distinct), -1, np.int64)
        filled = [
            i for i, entry in enumerate(distinct) if entry is not None and self._place.require(entry, list, position)
        ]
        for begin in range(0, len(filled), _LISTS_AT_ONCE):
            part = filled[begin : begin + _LISTS_AT_ONCE]
            numbers[part] = self._numbers([distinct[i] for i in part], position)
        missing = numbers[which] < 0
        return nullable(np.where(missing, 0, numbers[which]), missing)

    @property
    def max_depth(self) -> int:
        """Number of stack frames of the deepest stack."""
        return max(map(len, self._by_content), default=0)

    @property
    def depths(self) -> Ints:
        """Number of stack frames of each stack, by its number."""
        return np.fromiter(map(len, self._by_content), np.int64, len(self._by_content))

    def to_frame(self) -> pd.DataFrame:
        """The table as the Trace's ``stacks`` frame."""
        if not self._by_content:
            return empty_frame("stacks")
        depths = self.depths
        which = np.fromiter((n for stack in self._by_content for n in stack), np.int64, int(depths.sum()))
        files, functions, extras = (_coded([frame[i] for frame in self._frames]) for i in (0, 1, 3))
        lines = np.array([-1 if frame[2] is None else frame[2] for frame in self._frames], np.int32)[which]
        ends = np.cumsum(depths)
        return pd.DataFrame(
            {
                "stack": np.repeat(np.arange(len(depths)), depths),
                "position": (np.arange(len(which)) - np.repeat(ends - depths, depths)).astype(np.int32),
                "file": files[which],
                "line": nullable(np.maximum(lines, 0), lines < 0),
                "function": functions[which],
                "extra": extras[which],
            },
            copy=False,
        )

    def _numbers(self, lists: list[list[Any]], position: str) -> list[int]:
        """The number of each of `lists`, none of which is empty."""
        hashes, known = self._hashes(lists), self._number_of_hash
        for i, key in enumerate(hashes):
            if key not in known:
                known[key] = self._content(lists[i], position)
        return [known[key] for key in hashes]

    def _hashes(self, lists: list[list[Any]]) -> list[int]:
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        ends = np.cumsum(lengths)
        identities = np.fromiter(map(id, chain.from_iterable(lists)), np.uint64, int(ends[-1]))
        position = np.arange(len(identities)) - np.repeat(ends - lengths, lengths)
        if (longest := int(lengths.max())) > len(self._multipliers):
            more = np.random.default_rng().integers(
                0, 1 << 64, longest - len(self._multipliers), np.uint64
            ) | np.uint64(1)
            self._multipliers = np.append(self._multipliers, more)
        hashes: list[int] = np.add.reduceat(identities * self._multipliers[position], ends - lengths).tolist()
        return hashes

    def _content(self, entry: list[Any], position: str) -> int:
        known = self._frame_by_object
        content = tuple(
            known[id(frame)] if id(frame) in known else self._frame(frame, f"{position}: frames") for frame in entry
        )
        return self._by_content.setdefault(content, len(self._by_content))

    def _frame(self, frame: Any, position: str) -> int:
        self._place.require(frame, dict, position)
        file, name, line = frame.get("filename"), frame.get("name"), frame.get("line")
        key = (
            text(file) if type(file) is str and file not in _NO_FILE else None,
            text(name) if type(name) is str and name else None,
            line if type(line) is int and 0 < line <= _MAX_LINE else None,
            self._place.fields_to_json(frame, frame.keys() - _KNOWN, position),
        )
        number = self._frames.setdefault(key, len(self._frames))
        self._frame_by_object[id(frame)] = number
        return number


def _coded(values: list[str | None]) -> pd.Categorical:
    codes, names = pd.factorize(np.array([*values, None], object)[:-1])
    return categorical(codes, list(names))
