"""Collect the host's waits for the GPU: the line of the program, its call stack, and the duration if it is known.

torch fires a gpu_trace callback before the host waits, and a warning of the sync debug mode after the operation
returns. A wait that causes both is one sighting. The runtime calls of a profile give the blocking call and its exact
duration; `cudalens.frames.syncs` merges the two.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, TypeAlias

from torch import _C

from cudalens.device import clock, gpu_trace, own_work, stacks
from cudalens.device.streams import current_device
from cudalens.frames.catalog_frames import frame_of_rows
from cudalens.frames.stacks import StackTable
from cudalens.frames.sync_kinds import Evidence, called_name, kind_of
from cudalens.frames.syncs import CALLBACK, WARNING

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.device.stacks import Place

_MESSAGE: Final = "called a synchronizing"
_PROTOTYPE: Final = "Synchronization debug mode is a prototype feature"
_SET, _GET = "_cuda_set_sync_debug_mode", "_cuda_get_sync_debug_mode"
_OFF, _WARN = 0, 1

_Entry: TypeAlias = "tuple[Any, ...]"

_module: Any = _C


class _Filters(list[_Entry]):
    """``warnings.filters`` with an entry that stays first, also in the copies that ``catch_warnings`` makes."""

    def __init__(self, entries: Iterable[_Entry], first: _Entry) -> None:
        super().__init__([first, *(entry for entry in entries if entry is not first)])
        self._first = first

    def insert(self, index: SupportsIndex, entry: _Entry) -> None:
        super().insert(max(int(index), 1) if self._has_first else index, entry)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _Filters(found, self._first) if isinstance(index, slice) and self._has_first else found

    def __setitem__(self, index: Any, value: Any) -> None:
        had_first = self._has_first
        super().__setitem__(index, value)
        if had_first and not self._has_first:
            super().insert(0, self._first)

    def copy(self) -> list[_Entry]:
        return self[:]

    def clear(self) -> None:
        self[:] = []

    @property
    def _has_first(self) -> bool:
        return len(self) > 0 and super().__getitem__(0) is self._first

    def let_go(self) -> list[_Entry]:
        """Remove the entry that stays first; returns the other entries."""
        if self._has_first:
            super().pop(0)
        return list(self)


class _Matcher:
    """Replaces a filter's pattern: its ``match`` is called with the text of every warning."""

    def __init__(self, debug: SyncDebug) -> None:
        self._debug = debug

    def match(self, text: str) -> bool:
        """Return whether a warning is to be captured."""
        return self._debug.captures(text)


class SyncDebug:
    """Listens to the sync debug mode between `start` and `stop`.

    Args:
        on_sync: Called after (on the virtual device: before) each operation that torch warns of, in the thread that is
            warned.

    Attributes:
        is_on: Whether warnings are captured.
    """

    def __init__(self, on_sync: Callable[[], None]) -> None:
        self._on_sync = on_sync
        self.is_on = False
        self._is_setting = False
        self._users = _OFF
        self._set: Callable[[int], None] = lambda mode: None
        self._get: Callable[[], int] = lambda: _OFF
        self._wrappers: dict[str, Any] = {}
        self._plain: list[_Entry] = []
        self._ours: _Filters | None = None
        self._entry: _Entry = ("ignore", _Matcher(self), UserWarning, None, 0)

    def start(self) -> None:
        """Start, if there is a real or virtual device; does nothing otherwise."""
        if not (hasattr(_module, _SET) and hasattr(_module, _GET)):
            return
        self._set, self._get = getattr(_module, _SET), getattr(_module, _GET)
        self._users = int(self._get())
        self._plain = warnings.filters  # type: ignore[assignment]
        warnings.filters = self._ours = _Filters(self._plain, self._entry)
        _filters_changed()
        self.is_on = True
        self._wrappers = {_SET: self._users_set, _GET: self._users_get}
        for name, wrapper in self._wrappers.items():
            setattr(_module, name, wrapper)
        self._apply()

    def stop(self) -> None:
        """Stop, and restore the program's setting and filters."""
        if not self.is_on:
            return
        self._apply(self._users)
        self.is_on = False
        for name, original in ((_SET, self._set), (_GET, self._get)):
            if vars(_module).get(name) is self._wrappers[name]:
                setattr(_module, name, original)
        present: Any = warnings.filters
        if present is self._ours and self._ours is not None:
            self._plain[:] = self._ours.let_go()
            warnings.filters = self._plain
        else:  # a block such as `catch_warnings` may restore these lists later: they must act like plain lists
            for filters in (present, self._ours):
                if isinstance(filters, _Filters):
                    filters.let_go()
        _filters_changed()

    def captures(self, text: str) -> bool:
        """Handle the text of a warning; returns whether it is captured."""
        if not self.is_on:
            return False
        if text.startswith(_MESSAGE):
            self._on_sync()
            return self._users == _OFF
        return self._is_setting and text.startswith(_PROTOTYPE)

    def _apply(self, mode: int | None = None) -> None:
        self._is_setting = True
        try:
            self._set(max(self._users, _WARN) if mode is None else mode)
        finally:
            self._is_setting = False

    def _users_set(self, mode: int) -> None:
        """Called when the program sets the mode."""
        if not self.is_on:
            self._set(mode)
            return
        self._set(mode)  # raises for an invalid mode
        self._users = int(mode)
        self._apply()

    def _users_get(self) -> int:
        """Called when the program reads the mode."""
        return self._users if self.is_on else int(self._get())


def _filters_changed() -> None:
    """Invalidate Python's registry of warnings that were already shown."""
    changed = getattr(warnings, "_filters_mutated", None)
    if changed is not None:
        changed()
        return
    locked = getattr(warnings, "_filters_mutated_lock_held", None)  # Python 3.14
    lock = getattr(warnings, "_lock", None)
    if locked is not None and lock is not None:
        with lock:
            locked()


#: Maximum number of call stacks per run; later waits have only their place.
MAX_STACKS: Final = 20_000

#: The runtime call that follows each of torch's callbacks.
_CALLS: Final = {
    gpu_trace.StreamSynchronized: "cudaStreamSynchronize",
    gpu_trace.DeviceSynchronized: "cudaDeviceSynchronize",
    gpu_trace.EventSynchronized: "cudaEventSynchronize",
}

#: The runtime call that empties the allocator's cache.
_RELEASE: Final = "cudaFree"

#: torch.cuda.empty_cache() calls this function of torch._C; torch fires no callback for it.
_EMPTY_CACHE: Final = "_cuda_emptyCache"

_STREAM: Final = _CALLS[gpu_trace.StreamSynchronized]


@dataclass(slots=True)
class _Sighting:
    """A wait that was observed."""

    ts: int
    tid: int
    call: str
    place: Place
    stack: stacks.CodeStack
    device: int
    has_callback: bool = False
    has_warning: bool = False
    end_ns: int | None = None


class SyncCollector:
    """Records every wait for the GPU that torch reports between `start` and `stop`.

    Args:
        is_wanted: Whether it is enabled.
        now: The events' clock, ns.

    Attributes:
        own_work: Thread, start and end of work of cudalens, whose waits are not recorded.
    """

    name = "sync finder"

    def __init__(self, *, is_wanted: bool = True, now: Callable[[], int] | None = None) -> None:
        self._is_wanted = is_wanted
        self._now = now or _now
        self._debug = SyncDebug(self._on_warning)
        self._subscription: gpu_trace.Subscription | None = None
        self._lock = threading.RLock()
        self._seen: list[_Sighting] = []
        self._open: dict[int, list[_Sighting]] = {}
        self._num_stacks = 0
        self.own_work: list[tuple[int, int, int]] = []
        self._own_starts: dict[int, list[int]] = {}
        self._empty_cache: Any = None
        self._empty_cache_wrapper: Any = None

    def start(self) -> None:
        """Begin to record."""
        own_work.watchers.append(self._on_own_work)
        if not self._is_wanted:
            return
        quick: dict[Any, Any] = dict.fromkeys(gpu_trace.REGISTRIES.values(), _ignore)
        quick |= {record: partial(self._on_callback, call) for record, call in _CALLS.items()}
        self._subscription = gpu_trace.subscribe(_ignore, quick=quick)
        try:
            self._debug.start()
            self._watch_empty_cache()
        except BaseException:
            own_work.watchers.remove(self._on_own_work)
            self._subscription.close()
            self._debug.stop()
            raise

    def settle(self) -> None:
        """Stop recording at the end of the program's part. Can be called twice."""
        self._debug.stop()
        if self._on_own_work in own_work.watchers:
            own_work.watchers.remove(self._on_own_work)
        if self._empty_cache_wrapper is not None and vars(_C).get(_EMPTY_CACHE) is self._empty_cache_wrapper:
            setattr(_C, _EMPTY_CACHE, self._empty_cache)
        if self._subscription is not None:
            self._subscription.close()

    def stop(self) -> None:
        """Stop recording.

        Raises:
            Exception: The error that ended the subscription, if there was one.
        """
        self.settle()
        if self._subscription is not None and self._subscription.error is not None:
            raise self._subscription.error

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the frames ``syncs`` and ``stacks``; empty if the collector is disabled."""
        if not self._is_wanted:
            return {}
        writer, pid = _Writer(), os.getpid()
        rows = [writer.row(sighting) | {"pid": pid} for sighting in self._seen]
        return {
            "syncs": frame_of_rows("syncs", sorted(rows, key=lambda row: row["ts"])),
            "stacks": writer.table.to_frame(),
        }

    def _on_own_work(self, begins: bool) -> None:
        """Work of cudalens begins or ends on the calling thread."""
        tid, now = threading.get_native_id(), self._now()
        starts = self._own_starts.setdefault(tid, [])
        if begins:
            starts.append(now)
        elif starts:
            self.own_work.append((tid, starts.pop(), now))

    def _watch_empty_cache(self) -> None:
        empty_cache = getattr(_C, _EMPTY_CACHE, None)
        if empty_cache is None:
            return

        def wrapper() -> None:
            if self._subscription is None or not self._subscription.is_open:
                empty_cache()
                return
            now, tid = self._now(), threading.get_native_id()
            place, stack = stacks.place(2), self._stack()
            sighting = _Sighting(now, tid, _RELEASE, place, stack, current_device(), has_callback=True)
            self._note(sighting)
            try:
                empty_cache()
            finally:
                sighting.end_ns = self._now()

        self._empty_cache, self._empty_cache_wrapper = empty_cache, wrapper
        setattr(_C, _EMPTY_CACHE, wrapper)

    def _on_callback(self, call: str, *pointers: int) -> None:
        """Called by torch when the host is about to wait."""
        now, tid = self._now(), threading.get_native_id()
        place = stacks.place(2)
        with self._lock:
            last = next(reversed(self._open.get(tid, ())), None)
            is_only_warned = last is not None and last.has_warning and not last.has_callback
            if call == _STREAM and last is not None and is_only_warned and last.place is place:
                last.ts, last.has_callback = now, True  # the virtual device warns first
                self._open[tid].clear()
                return
            self._note(_Sighting(now, tid, call, place, self._stack(), current_device(), has_callback=True))

    def _on_warning(self) -> None:
        """Called with a warning of torch: the host has waited, or on the virtual device waits next."""
        now, tid = self._now(), threading.get_native_id()
        place = stacks.place(2)
        with self._lock:
            waiting = self._open.get(tid) or self._elsewhere(tid)
            found = next((sighting for sighting in waiting if sighting.has_callback), None)
            if found is None:
                self._note(_Sighting(now, tid, _STREAM, place, self._stack(), current_device(), has_warning=True))
                return
            waiting.remove(found)
            found.has_warning = True
            if not waiting:  # torch emits all warnings of one operation at its end
                found.end_ns = now
            if found.place is stacks.NOWHERE:  # autograd's thread: torch warns its caller
                found.place, found.stack, found.end_ns = place, self._stack(), None

    def _elsewhere(self, tid: int) -> list[_Sighting]:
        """Waits of threads without Python that have no warning yet: torch warns their caller."""
        for other, waiting in self._open.items():
            if other != tid and waiting and waiting[0].place is stacks.NOWHERE:
                return waiting
        return []

    def _note(self, sighting: _Sighting) -> None:
        if own_work.is_own_work():
            return
        self._seen.append(sighting)
        if self._debug.is_on and sighting.call == _STREAM:
            self._open.setdefault(sighting.tid, []).append(sighting)

    def _stack(self) -> stacks.CodeStack:
        self._num_stacks += 1
        return stacks.walk(3) if self._num_stacks <= MAX_STACKS else ()


def _now() -> int:
    return clock.now_ns()  # looked up at each call: a virtual device replaces it


def _ignore(*arguments: object) -> None:
    """Ignore a record."""


class _Writer:
    """Makes rows of sightings; each place and each call stack is resolved once."""

    def __init__(self) -> None:
        self.table = StackTable()
        self._places: dict[Place, dict[str, Any]] = {}
        self._stacks: dict[tuple[tuple[int, int], ...], int | None] = {}

    def row(self, sighting: _Sighting) -> dict[str, Any]:
        """Return a sighting as a row, without the operator, which needs the events."""
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
                name for name, saw in ((CALLBACK, sighting.has_callback), (WARNING, sighting.has_warning)) if saw
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
