"""What a recording in a file holds before and after its measured window, and what the host did there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.findings.idle_attribution import ALLOCATE, COMPILE, LOADER
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.intervals import Intervals, intersect, length, subtract, union
from cudalens.analysis.time.work import WAITING
from cudalens.frames import RUNTIME_CATEGORIES
from cudalens.frames.build import STEP_PREFIX

if TYPE_CHECKING:
    from cudalens.analysis.event_arrays import Ints
    from cudalens.frames import Trace

#: A call of the runtime before the first work that takes this long creates the context.
_CONTEXT_NS: Final = 20_000_000
#: The name of the time in which no event of the host was recorded.
NOTHING: Final = "nothing recorded"
_READ: Final = (
    r"^(?:p?read(?:64|v)?|fread|f?open(?:at)?|mmap)$|\btorch[./]serialization\.py|\bload_state_dict\b"
    r"|\bfrom_pretrained\b"
)
_WARMUP: Final = r"(?i)warm.?up"
_NOT_CALLS: Final = rf"^{STEP_PREFIX}|{WAITING}"

#: What the host did, by patterns of names; of several at a time, the first.
_CAUSES: Final = {
    "compiling or loading code": COMPILE,
    "allocating driver memory": ALLOCATE,
    "waiting for data": LOADER,
    "reading files": _READ,
    "a warm-up": _WARMUP,
}


@dataclass(frozen=True)
class OutsideTime:
    """The part of a recording before or after its measured window.

    Attributes:
        is_before: Whether it is before the window.
        length_ns: Its length.
        causes: What the host did, with the time of each, longest first; their sum is `length_ns`.
        longest: The name of the host's event with the longest self time in it; None if nothing was recorded.
        longest_ns: That time.
    """

    is_before: bool
    length_ns: int
    causes: tuple[tuple[str, int], ...]
    longest: str | None
    longest_ns: int


@once_per_trace
def outside_times(trace: Trace) -> tuple[OutsideTime, ...]:
    """The parts of `trace` before and after its measured window, without empty ones."""
    arrays = TraceArrays(trace)
    window = arrays.window
    sides = (
        (True, window.recorded_start, window.start),
        (False, window.end, window.recorded_end),
    )
    return tuple(_outside_time(arrays, *side) for side in sides if side[2] > side[1])


def _outside_time(arrays: TraceArrays, is_before: bool, start: int, end: int) -> OutsideTime:
    part = union(np.array([start]), np.array([end]))
    remaining, causes = part, []
    for name, rows in _rows_by_cause(arrays, is_before):
        times = intersect(remaining, arrays.time_of(rows))
        remaining = subtract(remaining, times)
        causes.append((name, length(times)))
    causes.append((NOTHING, length(remaining)))
    known = tuple(sorted((cause for cause in causes if cause[1]), key=lambda cause: -cause[1]))
    row, row_ns = _longest_row(arrays, part)
    return OutsideTime(is_before, end - start, known, None if row < 0 else arrays.name_of(row), row_ns)


def _rows_by_cause(arrays: TraceArrays, is_before: bool) -> list[tuple[str, Ints]]:
    calls = np.flatnonzero(arrays.is_in(*RUNTIME_CATEGORIES))
    found = []
    if is_before:
        first_calls = calls[arrays.ts[calls] < arrays.window.start]
        found.append(("creating the context", first_calls[arrays.dur[first_calls] >= _CONTEXT_NS]))
    found += [(name, arrays.host(pattern)) for name, pattern in _CAUSES.items()]
    others = np.flatnonzero((arrays.thread >= 0) & ~arrays.is_in("Trace", "overhead"))
    others = others[~arrays.is_named(_NOT_CALLS, others)]
    in_ops = np.flatnonzero(arrays.is_in("cpu_op"))
    return [*found, ("operators", in_ops), ("other calls of the runtime", calls), ("other recorded events", others)]


def _longest_row(arrays: TraceArrays, part: Intervals) -> tuple[int, int]:
    """The host's row with the most self time in `part`, limited to it, and that time; -1 and 0 if there is none."""
    start, end = int(part.start[0]), int(part.end[0])
    inside = (arrays.thread >= 0) & (arrays.ts < end) & (arrays.end > start)
    inside &= ~arrays.is_in("Trace", "overhead") & ~arrays.is_named(_NOT_CALLS)
    rows = np.flatnonzero(inside)
    if not len(rows):
        return -1, 0
    overlap = np.minimum(arrays.end[rows], end) - np.maximum(arrays.ts[rows], start)
    own = np.minimum(arrays.self_dur[rows], overlap)
    at = int(np.argmax(own))
    return int(rows[at]), int(own[at])
