"""Waits of the host for the GPU as they happen: the user's place, its call stack, and for how long where that shows.

torch's gpu_trace callbacks come when the host is about to wait, the warnings of its sync debug mode when the operation
has returned: one wait that both tell of is one sighting. What blocked, and for how long exactly, the runtime calls of a
profile say; `cudalens.frames.syncs.build` puts the two together.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from torch import _C

from cudalens.device import clock, gpu_trace, stacks
from cudalens.device.streams import current_device
from cudalens.device.sync_debug import SyncDebug
from cudalens.frames.schema import frame_of_rows
from cudalens.frames.stacks import StackTable
from cudalens.frames.syncs.build import CALLBACK, WARNING
from cudalens.frames.syncs.kinds import Evidence, called_name, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from cudalens.device.stacks import Place

#: Call stacks that are kept of one run; later waits have their place alone.
MAX_STACKS: Final = 20_000

#: What the host calls after each of torch's callbacks.
_CALLS: Final = {
    gpu_trace.StreamSynchronized: "cudaStreamSynchronize",
    gpu_trace.DeviceSynchronized: "cudaDeviceSynchronize",
    gpu_trace.EventSynchronized: "cudaEventSynchronize",
}

#: What the host calls where the program empties the allocator's cache.
_RELEASE: Final = "cudaFree"

#: torch.cuda.empty_cache() calls this function of torch._C, of which torch tells nobody.
_EMPTY_CACHE: Final = "_cuda_emptyCache"

_STREAM: Final = _CALLS[gpu_trace.StreamSynchronized]


@dataclass(slots=True)
class _Sighting:
    """A wait that was seen."""

    ts: int
    tid: int
    call: str
    place: Place
    stack: stacks.CodeStack
    device: int
    is_told: bool = False
    is_warned: bool = False
    end_ns: int | None = None


class SyncCollector:
    """Notes every wait for the GPU that torch tells of between `start` and `stop`.

    Args:
        is_wanted: Whether it does anything at all.
        now: The events' clock, ns.
    """

    name = "sync finder"

    def __init__(self, *, is_wanted: bool = True, now: Callable[[], int] | None = None) -> None:
        self._is_wanted = is_wanted
        self._now = now or _now
        self._debug = SyncDebug(self._warned)
        self._subscription: gpu_trace.Subscription | None = None
        self._lock = threading.RLock()
        self._seen: list[_Sighting] = []
        self._open: dict[int, list[_Sighting]] = {}
        self._num_stacks = 0
        self._empty_cache: Any = None
        self._empties_told: Any = None

    def start(self) -> None:
        """Begin to listen."""
        if not self._is_wanted:
            return
        quick: dict[Any, Any] = dict.fromkeys(gpu_trace.REGISTRIES.values(), _pass_over)
        quick |= {record: partial(self._told, call) for record, call in _CALLS.items()}
        self._subscription = gpu_trace.subscribe(_pass_over, quick=quick)
        try:
            self._debug.start()
            self._watch_empty_cache()
        except BaseException:
            self._subscription.close()
            self._debug.stop()
            raise

    def settle(self) -> None:
        """The program's part has ended: listen no more. Nothing happens where that has been done."""
        self._debug.stop()
        if self._empties_told is not None and vars(_C).get(_EMPTY_CACHE) is self._empties_told:
            setattr(_C, _EMPTY_CACHE, self._empty_cache)
        if self._subscription is not None:
            self._subscription.close()

    def stop(self) -> None:
        """End listening."""
        self.settle()
        if self._subscription is not None and self._subscription.error is not None:
            raise self._subscription.error

    def frames(self) -> dict[str, pd.DataFrame]:
        """What was seen as the frames ``syncs`` and ``stacks``; nothing where nothing was looked for."""
        if not self._is_wanted:
            return {}
        writer, pid = _Writer(), os.getpid()
        rows = [writer.row(sighting) | {"pid": pid} for sighting in self._seen]
        return {
            "syncs": frame_of_rows("syncs", sorted(rows, key=lambda row: row["ts"])),
            "stacks": writer.table.to_frame(),
        }

    def _watch_empty_cache(self) -> None:
        empty_cache = getattr(_C, _EMPTY_CACHE, None)
        if empty_cache is None:
            return

        def empties_told() -> None:
            if self._subscription is None or not self._subscription.is_open:
                empty_cache()
                return
            now, tid = self._now(), threading.get_native_id()
            sighting = _Sighting(now, tid, _RELEASE, stacks.place(2), self._stack(), current_device(), is_told=True)
            self._note(sighting)
            try:
                empty_cache()
            finally:
                sighting.end_ns = self._now()

        self._empty_cache, self._empties_told = empty_cache, empties_told
        setattr(_C, _EMPTY_CACHE, empties_told)

    def _told(self, call: str, *pointers: int) -> None:
        """A callback of torch: the host is about to wait."""
        now, tid = self._now(), threading.get_native_id()
        place = stacks.place(2)
        with self._lock:
            last = self._open.get(tid, [])[-1:]
            if call == _STREAM and last and last[0].is_warned and not last[0].is_told and last[0].place is place:
                last[0].ts, last[0].is_told = now, True  # the virtual device warns first
                self._open[tid].clear()
                return
            self._note(_Sighting(now, tid, call, place, self._stack(), current_device(), is_told=True))

    def _warned(self) -> None:
        """A warning of torch: the host has waited, or on the virtual device will at once."""
        now, tid = self._now(), threading.get_native_id()
        place = stacks.place(2)
        with self._lock:
            waiting = self._open.get(tid) or self._elsewhere(tid)
            found = next((sighting for sighting in waiting if sighting.is_told), None)
            if found is None:
                self._note(_Sighting(now, tid, _STREAM, place, self._stack(), current_device(), is_warned=True))
                return
            waiting.remove(found)
            found.is_warned = True
            if not waiting:  # several warnings of one operation come at its end
                found.end_ns = now
            if found.place is stacks.NOWHERE:  # autograd's thread, whose warnings come where it was called
                found.place, found.stack, found.end_ns = place, self._stack(), None

    def _elsewhere(self, tid: int) -> list[_Sighting]:
        """Waits of threads without Python that have not been warned of: torch warns their caller."""
        for other, waiting in self._open.items():
            if other != tid and waiting and waiting[0].place is stacks.NOWHERE:
                return waiting
        return []

    def _note(self, sighting: _Sighting) -> None:
        self._seen.append(sighting)
        if self._debug.is_on and sighting.call == _STREAM:
            self._open.setdefault(sighting.tid, []).append(sighting)

    def _stack(self) -> stacks.CodeStack:
        self._num_stacks += 1
        return stacks.walk(3) if self._num_stacks <= MAX_STACKS else ()


def _now() -> int:
    return clock.now_ns()  # looked up at each call: a virtual device replaces it


def _pass_over(*arguments: object) -> None:
    """Listens to what is of no interest here."""


class _Writer:
    """Makes rows of sightings; each place and each call stack is looked up once."""

    def __init__(self) -> None:
        self.table = StackTable()
        self._places: dict[Place, dict[str, Any]] = {}
        self._stacks: dict[tuple[tuple[int, int], ...], int | None] = {}

    def row(self, sighting: _Sighting) -> dict[str, Any]:
        """A sighting as a row; its kind and operator are for those to tell who know the events."""
        where = self._where(sighting.place)
        return where | {
            "ts": sighting.ts,
            "dur": None if sighting.end_ns is None else sighting.end_ns - sighting.ts,
            "kind": kind_of(Evidence((sighting.call,), called=called_name(where["expression"] or ""))),
            "call": sighting.call,
            "stack": self._stack(sighting.stack),
            "device": sighting.device,
            "tid": sighting.tid,
            "seen_by": ", ".join(
                name for name, saw in ((CALLBACK, sighting.is_told), (WARNING, sighting.is_warned)) if saw
            ),
        }

    def _where(self, place: Place) -> dict[str, Any]:
        known = self._places.get(place)
        if known is None:
            names = ("place", "source", "expression")
            values = (str(place), place.source or None, place.expression or None) if place.code else (None,) * 3
            known = self._places[place] = dict(zip(names, values, strict=True))
        return known

    def _stack(self, stack: stacks.CodeStack) -> int | None:
        key = tuple((id(code), instruction) for code, instruction in stack)
        if key not in self._stacks:
            entries = [f"{entry.file}({entry.line}): {entry.function}" for entry in stacks.named(stack)]
            self._stacks[key] = self.table.add(entries) if entries else None
        return self._stacks[key]
