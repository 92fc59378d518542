"""The clocks and tracks of a Perfetto trace: times on one clock; the process, thread or lane of each track.

A packet names its clock. Ids from 64 on belong to one sequence of packets, and may count from the packet before. A
snapshot gives the times of several clocks at one moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from cudalens.traces.chrome.reader import RecordTrace
from cudalens.traces.protobuf.wire import text

_REALTIME: Final = 1
_BOOTTIME: Final = 6
_FIRST_OF_SEQUENCE: Final = 64
_LIMIT: Final = 1 << 62


@dataclass
class _Clock:
    """A clock at a snapshot.

    Attributes:
        at: Its time then, in its own unit.
        trace_ns: Time of the trace's clock then, ns.
        unit_ns: Length of its unit, ns.
        is_incremental: Whether each time counts from the one before.
    """

    at: int
    trace_ns: int
    unit_ns: int
    is_incremental: bool


class Clocks:
    """The clocks of a file.

    Attributes:
        epoch_ns: What to add to the trace's clock for times from the epoch, ns; 0 if unknown.
    """

    def __init__(self) -> None:
        self._clocks: dict[tuple[int, int], _Clock] = {}
        self._main = _BOOTTIME
        self.epoch_ns = 0

    def add_snapshot(self, snapshot: Any, sequence: int) -> None:
        """Keep the clocks of a ClockSnapshot message."""
        times = {clock.clock_id: clock for clock in snapshot.clocks}
        if not self._clocks and snapshot.primary_trace_clock:
            self._main = snapshot.primary_trace_clock
        if self._main not in times:
            return
        main = times[self._main]
        trace_ns = main.timestamp * (main.unit_multiplier_ns or 1)
        for number, clock in times.items():
            key = (sequence if number >= _FIRST_OF_SEQUENCE else 0, number)
            unit = clock.unit_multiplier_ns or 1
            is_new = number >= _FIRST_OF_SEQUENCE or key not in self._clocks
            if is_new:
                self._clocks[key] = _Clock(clock.timestamp, trace_ns, unit, clock.is_incremental)
        if not self.epoch_ns and _REALTIME in times:
            shift = times[_REALTIME].timestamp - trace_ns
            self.epoch_ns = shift if 0 < shift < _LIMIT else 0

    def to_ns(self, value: int, clock_id: int, sequence: int) -> int:
        """Time of the trace's clock for `value` of a clock, ns; `value` itself if the clock is not known."""
        number = clock_id or self._main
        clock = self._clocks.get((sequence if number >= _FIRST_OF_SEQUENCE else 0, number))
        if clock is None:
            return value
        if not clock.is_incremental:
            return clock.trace_ns + (value - clock.at) * clock.unit_ns
        clock.trace_ns += value * clock.unit_ns
        return clock.trace_ns


#: Units of CounterDescriptor.
_UNITS: Final = {1: "ns", 2: "count", 3: "bytes"}
_MAX_PARENTS: Final = 64

Key = tuple[int | str | None, int | str | None]


@dataclass
class Track:
    """What a TrackDescriptor says.

    Attributes:
        name: Its name, "" if none.
        parent: Id of the track around it, 0 for none.
        pid: Process of a track of a process or thread.
        tid: Thread of a track of a thread.
        unit: Unit of a counter, "" if unknown.
        scale: Factor of a counter's values.
        is_incremental: Whether each value of a counter is added to the one before.
    """

    name: str = ""
    parent: int = 0
    pid: int | None = None
    tid: int | None = None
    unit: str = ""
    scale: int = 1
    is_incremental: bool = False


class Tracks:
    """The tracks by id."""

    def __init__(self) -> None:
        self._tracks: dict[int, Track] = {}
        self._processes: dict[int, str] = {}
        self._threads: dict[tuple[int, int], str] = {}
        self._keys: dict[int, Key] = {}
        self._used: set[Key] = set()

    def add(self, found: Any) -> None:
        """Keep a TrackDescriptor message."""
        track = self._tracks.setdefault(found.uuid, Track())
        track.name = text(found.name or found.static_name) or track.name
        track.parent = found.parent_uuid or track.parent
        if found.HasField("process"):
            track.pid = found.process.pid
            self.name_process(found.process)
        if found.HasField("thread"):
            track.pid, track.tid = found.thread.pid, found.thread.tid
            self.name_thread(found.thread)
        if found.HasField("counter"):
            counter = found.counter
            track.unit = text(counter.unit_name) or _UNITS.get(counter.unit, "")
            track.scale, track.is_incremental = counter.unit_multiplier or 1, counter.is_incremental

    def add_thread(self, uuid: int, pid: int, tid: int) -> None:
        """Make a track for a thread that has none in the file."""
        self._tracks.setdefault(uuid, Track(pid=pid, tid=tid))

    def name_process(self, process: Any) -> None:
        """Keep the name in a ProcessDescriptor message."""
        if process.process_name:
            self._processes[process.pid] = text(process.process_name)

    def name_thread(self, thread: Any) -> None:
        """Keep the name in a ThreadDescriptor message."""
        if thread.thread_name:
            self._threads[thread.pid, thread.tid] = text(thread.thread_name)

    def __getitem__(self, uuid: int) -> Track:
        return self._tracks.get(uuid) or Track()

    def key(self, uuid: int) -> Key:
        """Process and thread of a track; for one of neither, the names of its root and of itself."""
        if uuid not in self._keys:
            key = self._key(uuid)
            number = 1
            while key in self._used and self[uuid].tid is None:  # two tracks of one name are two lanes
                number += 1
                key = (key[0], f"{self._key(uuid)[1]} ({number})")
            self._used.add(key)
            self._keys[uuid] = key
        return self._keys[uuid]

    def _key(self, uuid: int) -> Key:
        track = self[uuid]
        if track.tid is not None:
            return track.pid, track.tid
        chain = self._around(uuid)
        pid = next((one.pid for one in chain if one.pid is not None), None)
        label = track.name or ("process" if track.pid is not None else f"track {uuid}")
        return (pid if pid is not None else chain[-1].name or None), label

    def _around(self, uuid: int) -> list[Track]:
        """Return a track and those around it, outermost last."""
        chain = [self[uuid]]
        while chain[-1].parent and len(chain) < _MAX_PARENTS:
            chain.append(self[chain[-1].parent])
        return chain

    def name_lanes(self, trace: RecordTrace) -> None:
        """Give the names of processes and threads to `trace`."""
        for pid, name in self._processes.items():
            trace.name(pid, None, name, what="process_name")
        for (pid, tid), name in self._threads.items():
            trace.name(pid, tid, name)

    def process_label(self, uuid: int) -> str | None:
        """Return the process of a track, for people; None for none."""
        pid = self.key(uuid)[0]
        if isinstance(pid, int):
            return self._processes.get(pid) or str(pid)
        return pid
