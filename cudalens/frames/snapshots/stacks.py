"""The call stacks of a snapshot: each distinct one once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames.catalog_frames import empty_frame, frame_of
from cudalens.frames.column_arrays import Ints, masked, text_column
from cudalens.frames.snapshots.values import Validator, text

_KNOWN: Final = frozenset({"filename", "name", "line"})
_NO_FILE: Final = frozenset({"", "??"})
_MAX_LINE: Final = (1 << 31) - 1
_LISTS_AT_ONCE: Final = 1 << 16


class SnapshotStacks:
    """Collects the lists of stack frames that a snapshot's rows carry, innermost first.

    torch shares the dicts of stack frames between lists, and lists between rows. A hash of the identities of their
    dicts, with random multipliers, distinguishes the lists (the probability of a collision is about 2**-58). One list
    of each hash is read, and lists of equal content get one number. The snapshot must stay alive while lists are added.
    """

    def __init__(self, check: Validator) -> None:
        self._check = check
        self._multipliers = np.empty(0, np.uint64)
        self._number_of_hash: dict[int, int] = {}
        self._by_content: dict[tuple[int, ...], int] = {}
        self._frame_by_object: dict[int, int] = {}
        self._frames: dict[tuple[Any, Any, Any, str | None], int] = {}

    def numbers(self, lists: Sequence[Any], position: str) -> pd.arrays.IntegerArray:
        """Return the stack's number for each of `lists`; missing for None and for an empty list.

        Raises:
            TraceFormatError: One is not a list of dicts.
        """
        if not lists:
            return masked(np.empty(0, np.int64))
        which, identities = pd.factorize(np.fromiter(map(id, lists), np.int64, len(lists)))
        first = np.empty(len(identities), np.int64)
        first[which[::-1]] = np.arange(len(lists))[::-1]
        distinct = [lists[i] for i in first.tolist()]
        numbers = np.full(len(distinct), -1, np.int64)
        require = self._check.require
        filled = [i for i, entry in enumerate(distinct) if entry is not None and require(entry, list, position)]
        for begin in range(0, len(filled), _LISTS_AT_ONCE):
            part = filled[begin : begin + _LISTS_AT_ONCE]
            numbers[part] = self._numbers([distinct[i] for i in part], position)
        return masked(numbers[which])

    def to_frame(self) -> pd.DataFrame:
        """Return the table as the Trace's ``stacks`` frame."""
        if not self._by_content:
            return empty_frame("stacks")
        depths: Ints = np.fromiter(map(len, self._by_content), np.int64, len(self._by_content))
        which = np.fromiter((n for stack in self._by_content for n in stack), np.int64, int(depths.sum()))
        files, functions, extras = (text_column(frame[i] for frame in self._frames) for i in (0, 1, 3))
        lines = np.array([-1 if frame[2] is None else frame[2] for frame in self._frames], np.int32)[which]
        ends = np.cumsum(depths)
        return frame_of(
            "stacks",
            {
                "stack": np.repeat(np.arange(len(depths)), depths),
                "position": (np.arange(len(which)) - np.repeat(ends - depths, depths)).astype(np.int32),
                "file": files[which],
                "line": masked(lines),
                "function": functions[which],
                "extra": extras[which],
            },
        )

    def _numbers(self, lists: list[list[Any]], position: str) -> list[int]:
        """Return the number of each of `lists`, all of which are non-empty."""
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
            more = np.random.default_rng().integers(0, 1 << 64, longest - len(self._multipliers), np.uint64)
            self._multipliers = np.append(self._multipliers, more | np.uint64(1))
        return np.add.reduceat(identities * self._multipliers[position], ends - lengths).tolist()

    def _content(self, entry: list[Any], position: str) -> int:
        known = self._frame_by_object
        content = tuple(
            known[id(frame)] if id(frame) in known else self._frame(frame, f"{position}: frames") for frame in entry
        )
        return self._by_content.setdefault(content, len(self._by_content))

    def _frame(self, frame: Any, position: str) -> int:
        self._check.require(frame, dict, position)
        file, name, line = frame.get("filename"), frame.get("name"), frame.get("line")
        key = (
            text(file) if type(file) is str and file not in _NO_FILE else None,
            text(name) if type(name) is str and name else None,
            line if type(line) is int and 0 < line <= _MAX_LINE else None,
            self._check.fields_to_json(frame, frame.keys() - _KNOWN, position),
        )
        number = self._frames.setdefault(key, len(self._frames))
        self._frame_by_object[id(frame)] = number
        return number
