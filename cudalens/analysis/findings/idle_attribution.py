"""What the host did while the devices had nothing to do: each idle stretch that the host caused, told apart by reason.

A stretch between two pieces of device work is the host's when the work that ends it was launched too late: the launch
began after the stretch did, less the time that the fastest launches of the same trace take to reach the device. Within
the host's stretches, reasons are told apart in this order: reading data, compiling, asking the driver for memory, the
profiler's own doings; what remains of a stretch that begins while the host waits for the GPU (the wait emptied the
queue), up to the end of the wait, and after it unless the host then was long at something else; of the rest, pieces of
`LONG_NS` and more are other work of the host, shorter ones are launching.

So the parts are disjoint, and their sum is at most the idle time between the first and the last device work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis.time.intervals import Intervals, intersect, subtract, union

if TYPE_CHECKING:
    from cudalens.analysis.findings.trace_arrays import Scene

Ints = NDArray[np.int64]

#: A host that launches nothing for so long is at other work: launching takes some 10 µs an operator.
LONG_NS: Final = 1_000_000

#: No launch that finds an idle device takes longer to reach it (5 µs is usual), but for clocks that differ.
MAX_LATENCY_NS: Final = 20_000

#: By how much a wait may seem to end before the work that it waited for.
_SKEW_NS: Final = 5_000

LOADER: Final = r"^enumerate\(DataLoader\)#"
COMPILE: Final = (
    r"\(dynamo_timed\)$|^Lazy Function Loading$|^Module Loading$|^(?:cu|hip)(?:Module|Library)Load|^cudaLibraryLoad"
    r"|^hipModuleLoad|^TorchDynamo Cache Miss"
)
ALLOCATE: Final = (
    r"^(?:cuda|hip)(?:Malloc|MallocAsync|Free|FreeAsync|HostAlloc|HostMalloc|MallocHost|FreeHost|HostFree)$"
    r"|^cuMem(?:Alloc|Free|Create|Map|Unmap|Release|SetAccess|AddressReserve)(?:_v\d)?$"
)
PROFILER: Final = r"^(?:Activity Buffer Request|Buffer Flush|Instrumentation|Resource)$"

REASONS: Final = {"loader": LOADER, "compile": COMPILE, "allocate": ALLOCATE, "profiler": PROFILER}


@dataclass(frozen=True)
class Piece:
    """Stretches of idle time with one reason.

    Attributes:
        start: Start, ns, shape (n,).
        end: End, ns.
        ended_by: Index of the device work that ended the whole stretch.
        wait: Row of ``trace.syncs`` that the stretch began in, -1 for none.
    """

    start: Ints
    end: Ints
    ended_by: Ints
    wait: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def length(self) -> Ints:
        """Length of each, ns."""
        return self.end - self.start

    @property
    def total_ns(self) -> int:
        """Length of all, ns."""
        return int(self.length.sum())


@dataclass(frozen=True)
class Blame:
    """The idle time that the host caused.

    Attributes:
        named: The stretches by reason: loader, compile, allocate, profiler.
        sync: Those after waits for the GPU.
        busy: Those in which the host was at other work.
        launch: Those in which it was launching.
        queued: Stretches shorter than `MAX_LATENCY_NS` whose work had been launched in time: what a device needs from
            one piece of work to the next.
    """

    named: dict[str, Intervals]
    sync: Piece
    busy: Piece
    launch: Piece
    queued: Piece


def blame(scene: Scene) -> Blame:
    """Tell apart what the host did in the idle stretches of `scene`."""
    gaps, is_host = _gaps(scene)
    remaining = union(gaps.start[is_host], gaps.end[is_host])
    named = {}
    for reason, pattern in REASONS.items():
        times = scene.time_of(scene.matching(pattern))
        named[reason] = intersect(remaining, times)
        remaining = subtract(remaining, times)
    short = ~is_host & (gaps.length < MAX_LATENCY_NS)
    queued = Piece(gaps.start[short], gaps.end[short], gaps.ended_by[short])
    return Blame(named, *_of_rest(scene, remaining, _only(gaps, is_host)), queued)


def _gaps(scene: Scene) -> tuple[Piece, NDArray[np.bool_]]:
    """The idle stretches between device work, and which of them the host caused."""
    work, busy = scene.work, scene.busy
    start, end = busy.end[:-1], busy.start[1:]
    first = np.searchsorted(work.start, end, "left")
    launch = work.launch[first]
    at = scene.ts[np.maximum(launch, 0)]
    delay = end - at
    sane = (launch >= 0) & (delay >= 0) & (delay <= MAX_LATENCY_NS)
    latency = int(np.percentile(delay[sane], 5)) if sane.any() else 0
    return Piece(start, end, first), (launch >= 0) & (at + latency > start)


def _only(piece: Piece, chosen: NDArray[np.bool_]) -> Piece:
    return Piece(piece.start[chosen], piece.end[chosen], piece.ended_by[chosen])


def _of_rest(scene: Scene, rest: Intervals, gaps: Piece) -> tuple[Piece, Piece, Piece]:
    """What remains of the host's stretches: after waits, at other work, launching."""
    if not len(rest.start):
        none = Piece(*(np.empty(0, np.int64),) * 4)
        return none, none, none
    of_gap = np.searchsorted(gaps.start, rest.start, "right") - 1
    wait, wait_end = _waits_at(scene, gaps.start)
    ended_by, wait, until = gaps.ended_by[of_gap], wait[of_gap], wait_end[of_gap]
    # Cut in two where the wait ends; without one the second part is all.
    cut = np.clip(np.where(wait >= 0, until, rest.start), rest.start, rest.end)
    in_wait = Piece(rest.start, cut, ended_by, wait)
    after = Piece(cut, rest.end, ended_by, wait)
    is_long = after.length >= LONG_NS
    is_after = ~is_long & (wait >= 0)
    sync = Piece(
        *(np.concatenate(parts) for parts in zip(_fields(in_wait, wait >= 0), _fields(after, is_after), strict=True))
    )
    return sync, Piece(*_fields(after, is_long)), Piece(*_fields(after, ~is_long & (wait < 0)))


def _fields(piece: Piece, chosen: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints, Ints]:
    some = chosen & (piece.length > 0)
    return piece.start[some], piece.end[some], piece.ended_by[some], piece.wait[some]


def _waits_at(scene: Scene, at: Ints) -> tuple[Ints, Ints]:
    """For each instant the row of the wait for the GPU that the host was in, -1 for none, and when that ended."""
    syncs = scene.trace.syncs
    known = np.flatnonzero(syncs["dur"].notna().to_numpy())
    if not len(known):
        return np.full(len(at), -1, np.int64), np.zeros(len(at), np.int64)
    start = syncs["ts"].to_numpy()[known]
    end = start + syncs["dur"].array[known].to_numpy(dtype=np.int64)
    order = np.argsort(start, kind="stable")
    # The host returns some microseconds after the device has ended, unless their clocks differ by as much.
    place = np.searchsorted(start[order], at, "right") - 1
    found = order[np.maximum(place, 0)]
    inside = (place >= 0) & (end[found] >= at - _SKEW_NS)
    return np.where(inside, known[found], -1), np.where(inside, end[found], 0)
