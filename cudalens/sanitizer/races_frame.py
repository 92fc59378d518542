"""Make the ``races`` frame of a Trace, and the ``stacks`` frame of its call stacks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from cudalens.frames import StackTable
from cudalens.frames.catalog_frames import frame_of_rows
from cudalens.sanitizer.engine import HOST, Access, Race, Region
from cudalens.sanitizer.engine.races import stream_name

if TYPE_CHECKING:
    from cudalens.sanitizer.fixes.candidates import Fix

#: Bytes of a strided region that are looked at one by one.
_MAX_COUNTED: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """A race with its fix and context.

    Attributes:
        race: The race.
        fix: Its fix; None if none was found.
        between: The records of both streams between the two accesses, as `cudalens.sanitizer.fixes.recorded.between`
            returns them; None if the run was not recorded.
        is_suppressed: Whether a suppression matches it.
        seen_ns: Time of its first occurrence, ns on the clock of the events; None if not measured.
        value: Whether it changes values, as columns of the frame (`cudalens.frames.exploration`); None if other orders
            were not run.
    """

    race: Race
    fix: Fix | None = None
    between: Sequence[dict[str, Any]] | None = None
    is_suppressed: bool = False
    seen_ns: int | None = None
    value: Mapping[str, Any] | None = None


def races_frames(
    findings: Iterable[Finding | Race], *, stack_depth: int | None = None, stacks: StackTable | None = None
) -> dict[str, pd.DataFrame]:
    """Return the frames ``races`` and ``stacks``.

    Args:
        findings: The races or findings, in the order of the rows.
        stack_depth: Stack frames of each access at most; None for all.
        stacks: Table to which the call stacks are added; by default one of their own.

    Returns:
        Both frames by name, empty with the catalog's columns where there is no race.
    """
    table = StackTable() if stacks is None else stacks
    rows = [_row(f if isinstance(f, Finding) else Finding(f), _Stacks(table, stack_depth)) for f in findings]
    return {"races": frame_of_rows("races", rows), "stacks": table.to_frame()}


def overlap(first: Region, second: Region) -> tuple[int, int, int | None]:
    """Return the bytes that two regions share, which do overlap.

    Returns:
        First and last address of them, and how many; None where the regions are strided and too large to count.
    """
    low, high = max(first.start, second.start), min(first.end, second.end)
    strided = [region for region in (first, second) if not region.is_contiguous]
    if not strided:
        return low, high - 1, high - low
    if max(region.run * math.prod(region.shape) for region in strided) > _MAX_COUNTED:
        return low, high - 1, None
    shared = reduce(np.intersect1d, [_addresses(region) for region in strided])
    shared = shared[(shared >= low) & (shared < high)]
    return int(shared[0]), int(shared[-1]), len(shared)


def _addresses(region: Region) -> np.ndarray:
    """Return the region's addresses in order, each once."""
    found = np.arange(region.start, region.start + region.run)
    for count, stride in zip(region.shape, region.strides, strict=True):
        found = np.unique(np.add.outer(np.arange(count) * stride, found))
    return found


class _Stacks:
    """Puts call stacks, as the collector took them, into a stack table."""

    def __init__(self, table: StackTable, depth: int | None) -> None:
        self._table, self._depth = table, depth

    def add(self, stack: object) -> int | None:
        if stack is None:
            return None
        from cudalens.device.stacks import frames_of  # needs torch, as the recording of a stack does

        entries = [f"{f.file}({f.line}): {f.function}" for f in frames_of(stack, depth=self._depth)]
        return self._table.add(entries) if entries else None


def _row(finding: Finding, stacks: _Stacks) -> dict[str, Any]:
    race = finding.race
    low, high, count = overlap(race.first.region, race.second.region)
    base, block, freed = _base(race.second), race.second.memory, race.first.memory
    row = {
        "ts": finding.seen_ns,
        "kind": race.kind.value,
        "count": race.count,
        "is_suppressed": finding.is_suppressed,
        "overlap_low_byte": low - base,
        "overlap_high_byte": high - base,
        "overlap_bytes": count,
        "block_bytes": None if block is None else block.num_bytes,
        "block_name": (block.name or None) if block is not None else None,
        "between": None if finding.between is None else json.dumps(list(finding.between), ensure_ascii=False),
        "fix": None if finding.fix is None else finding.fix.words,
        "fix_diff": None if finding.fix is None else finding.fix.diff or None,
        **(finding.value or {}),
    }
    row |= _access("first", race.first, stacks) | _access("second", race.second, stacks)
    if block is not None:
        row |= _site("alloc", block.place, block.stack, stacks)
    if freed is not None:
        row |= _site("free", freed.freed_place, freed.freed_stack, stacks)
    return row


def _base(touch: Access) -> int:
    return touch.region.start if touch.memory is None else touch.memory.start


def _access(side: str, touch: Access, stacks: _Stacks) -> dict[str, Any]:
    is_host, number = touch.stream == HOST, touch.stream.stream
    fields = {
        "op": touch.op or None,
        "argument": touch.argument or None,
        "is_write": touch.is_write,
        "device": None if is_host else touch.stream.device,
        "stream": number if isinstance(number, int) and not is_host else None,
        "stream_name": stream_name(touch.stream),
        "tensor": touch.tensor,
        "shape": None if touch.shape is None else json.dumps(list(touch.shape)),
        "stride": None if touch.stride is None else json.dumps(list(touch.stride)),
        "dtype": touch.dtype or None,
        "low_byte": touch.region.start - _base(touch),
        "high_byte": touch.region.end - 1 - _base(touch),
        "captured_place": None if touch.captured is None else str(touch.captured),
        "captured_source": getattr(touch.captured, "source", None) or None,
    }
    return {f"{side}_{name}": value for name, value in fields.items()} | _site(side, touch.place, touch.stack, stacks)


def _site(side: str, place: Any, stack: object, stacks: _Stacks) -> dict[str, Any]:
    return {
        f"{side}_place": None if place is None else str(place),
        f"{side}_source": getattr(place, "source", None) or None,
        f"{side}_stack": stacks.add(stack),
    }
