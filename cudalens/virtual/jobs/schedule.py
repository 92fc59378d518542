"""Compute the times of all ranks of a job together: each waits for the others in collectives, nothing else is shared.

The program of each rank ran alone. Its record is a list of what the host did, of the work of each stream, and of what
waited for what. `simulate` runs these lists again with one host and its streams per class of ranks. A stream stops at
a collective until every rank of the group has arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cudalens.virtual.jobs.communicator import Collective
from cudalens.virtual.jobs.mismatch import check_match, describe_deadlock, describe_last
from cudalens.virtual.jobs.operators import PAIRS
from cudalens.virtual.profile.recorder import Call, Recorder
from cudalens.virtual.timing.machine import QUEUE_DEPTH

if TYPE_CHECKING:
    from cudalens.virtual.jobs.layout import Layout
    from cudalens.virtual.jobs.topology import Cluster

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: What the host does.
_LAUNCH, _RECORD, _STREAM_WAIT, _SYNC_STREAM, _SYNC_EVENT, _SYNC_DEVICE, _CALL = range(7)
#: What is in the queue of a stream.
_WORK, _MARK, _AWAIT = range(3)

#: A kernel beside a collective takes longer: NCCL's kernels occupy up to 24 of 132 SMs of an H100.
_SHARED_SMS: Final = 24 / 132
#: A collective beside kernels takes longer, because they use the memory bandwidth that it needs: measured in recorded
#: traces as 1.0 to 1.3.
_SHARED_LINKS: Final = 0.1
#: Times are computed again with the cost of the overlaps found before until no rank's costs change by more than this
#: share of its time, at most so often. Each pass moves the end of a wait by a kernel or two.
_LEAST_CHANGE: Final = 1e-4
_MOST_PASSES: Final = 24


class _Step(NamedTuple):
    """Something that the host does: `gap_ns` after the call before, for `cost_ns`."""

    kind: int
    gap_ns: int
    cost_ns: int
    stream: int
    number: int  # of the work or of the wait, or the correlation id of the record


#: Calls that the program does not wait for on another thread, such as that of a DataLoader which pins batches.
_PINNING: Final = ("cudaFreeHost", "cudaHostAlloc")
#: Such a call.
BESIDE: Final = _Step(_CALL, 0, 0, -1, -1)


@dataclass
class RankProgram:
    """What one rank did.

    Attributes:
        steps: What the host did.
        durations_ns: Of each work.
        streams: The stream of each work.
        rooms: The part of the device that each work uses.
        correlation_ids: Of each work.
        collectives: By the number of the work.
        marks: By stream, the correlation ids of records that something waited for.
        calls_ns: Start and end of each step in the record; shape (steps, 2).
        awaited: Of each wait, the correlation id of the record that it waits for.
        recorded: The correlation ids of these records.
        started_at: The line at which the program made its first process group.
    """

    steps: list[_Step]
    durations_ns: Ints
    streams: Ints
    rooms: Floats
    correlation_ids: list[int]
    collectives: dict[int, Collective]
    calls_ns: Ints
    awaited: list[int | None]
    recorded: frozenset[int]
    started_at: str


def read_program(recorder: Recorder, collectives: Mapping[int, Collective], started_at: str) -> RankProgram:
    """Read what a rank did from its record.

    Args:
        recorder: The record, closed.
        collectives: By the correlation id of their launch.
        started_at: The line at which the program made its first process group.
    """
    numbers = {id(stream): number for number, stream in enumerate(_streams(recorder))}
    works = {placed.correlation_id: number for number, (_, _, placed) in enumerate(recorder.works)}
    waits = {wait.correlation_id: number for number, wait in enumerate(recorder.waits)}
    recorded_on = {
        wait.awaited.record_id: numbers[id(wait.awaited.stream)]
        for wait in recorder.waits
        if wait.awaited is not None and wait.awaited.stream is not None and wait.awaited.record_id is not None
    }
    steps, calls_ns, last_ns = [], [], recorder.start_ns
    for act in recorder.acts:
        if not isinstance(act, Call):
            continue
        gap, cost, number = max(act.start_ns - last_ns, 0), act.end_ns - act.start_ns, act.correlation_id
        if act.tid != recorder.tid and act.name in _PINNING:
            last_ns += cost
            steps.append(BESIDE)
            calls_ns.append((act.start_ns, act.end_ns))
            continue
        if number in works:
            stream = numbers[id(recorder.works[works[number]][0])]
            step = _Step(_LAUNCH, gap, cost, stream, works[number])
        elif number in waits:
            step = _wait_step(recorder, waits[number], gap, numbers)
        elif number in recorded_on:
            step = _Step(_RECORD, gap, cost, recorded_on[number], number)
        else:
            step = _Step(_CALL, gap, cost, -1, -1)
        steps.append(step)
        calls_ns.append((act.start_ns, act.end_ns))
        last_ns = act.end_ns
    return RankProgram(
        steps,
        np.array([work.duration_ns for _, work, _ in recorder.works], np.int64),
        np.array([numbers[id(stream)] for stream, _, _ in recorder.works], np.int64),
        np.array([work.room if work.kind == "kernel" else 0.0 for _, work, _ in recorder.works]),
        [placed.correlation_id for _, _, placed in recorder.works],
        {works[number]: found for number, found in collectives.items() if number in works},
        np.array(calls_ns, np.int64).reshape(-1, 2),
        [wait.awaited.record_id if wait.awaited is not None else None for wait in recorder.waits],
        frozenset(step.number for step in steps if step.kind == _RECORD),
        started_at,
    )


def _streams(recorder: Recorder) -> list[Any]:
    found = {id(stream): stream for stream, _, _ in recorder.works}
    for wait in recorder.waits:
        for stream in (wait.stream, wait.awaited.stream if wait.awaited is not None else None):
            if stream is not None:
                found.setdefault(id(stream), stream)
    return list(found.values())


def _wait_step(recorder: Recorder, number: int, gap: int, numbers: Mapping[int, int]) -> _Step:
    """Return the step of a wait; one of the host costs `sync_ns` beside the wait itself."""
    wait = recorder.waits[number]
    spec = wait.device.spec
    record_id = wait.awaited.record_id if wait.awaited is not None else None
    if wait.name == "Stream Wait Event":
        assert wait.stream is not None
        return _Step(_STREAM_WAIT, gap, spec.event_ns, numbers[id(wait.stream)], number)
    if wait.name == "Event Synchronize" and record_id is not None:
        return _Step(_SYNC_EVENT, gap, spec.sync_ns, -1, number)
    if wait.stream is not None:
        return _Step(_SYNC_STREAM, gap, spec.sync_ns, numbers[id(wait.stream)], number)
    if wait.awaited is not None and wait.awaited.stream is not None:
        return _Step(_SYNC_STREAM, gap, spec.sync_ns, numbers[id(wait.awaited.stream)], number)
    return _Step(_SYNC_DEVICE, gap, spec.sync_ns, -1, number)


@dataclass
class RankTimes:
    """The times of one class of ranks.

    Attributes:
        calls_ns: Start and end of each step of the host; shape (steps, 2).
        starts_ns: Of each work; a collective starts when the rank arrives.
        ends_ns: Of each work.
        waits_ns: Start and end of each wait of a stream; (-1, -1) for those of the host; shape (waits, 2).
    """

    calls_ns: Ints
    starts_ns: Ints
    ends_ns: Ints
    waits_ns: Ints


@dataclass
class RankSpeed:
    """How fast one rank is.

    Attributes:
        slowdown: Factor of the durations of its kernels.
        jitter: Standard deviation of the logarithm of each kernel's duration.
        seed: Of the random numbers.
    """

    slowdown: float = 1.0
    jitter: float = 0.0
    seed: int = 0

    def apply(self, program: RankProgram) -> Floats:
        """Return the durations of a rank's work."""
        durations: Floats = program.durations_ns.astype(np.float64)
        is_kernel = np.ones(len(durations), bool)
        is_kernel[list(program.collectives)] = False
        durations[is_kernel] *= self.slowdown
        if self.jitter:
            noise = np.random.default_rng(self.seed).normal(0.0, self.jitter, len(durations))
            durations[is_kernel] *= np.exp(noise - self.jitter**2 / 2)[is_kernel]
        return durations


@dataclass
class _Meeting:
    """A collective that ranks arrive at."""

    expected: frozenset[int]
    arrived: dict[int, tuple[float, int, Collective]] = field(default_factory=dict)
    end_ns: float = -1.0


class _Queue:
    """A stream: its work in order."""

    __slots__ = ("items", "tail_ns")

    def __init__(self) -> None:
        self.items: deque[tuple[int, float, int]] = deque()
        self.tail_ns = 0.0


class _Actor:
    """The host and the streams of one class of ranks."""

    def __init__(self, simulation: _Simulation, colour: int, rank: int, program: RankProgram, durations: Any) -> None:
        self.simulation, self.colour, self.rank, self.program = simulation, colour, rank, program
        self.durations = durations.tolist()
        self.now_ns, self.at = 0.0, 0
        num_streams = 1 + max((step.stream for step in program.steps), default=0)
        self.queues = [_Queue() for _ in range(num_streams)]
        self.starts = [-1.0] * len(self.durations)
        self.ends = [-1.0] * len(self.durations)
        self.marks: dict[int, float] = {}
        self.calls = np.zeros((len(program.steps), 2))
        self.waits = np.full((len(program.awaited), 2), -1.0)
        self.oldest, self.launched = 0, list[int]()
        self.meeting: _Meeting | None = None

    def is_done(self) -> bool:
        """Whether everything has ended."""
        return self.at == len(self.program.steps) and not any(queue.items for queue in self.queues)

    def run(self) -> bool:
        """Go on as far as possible; returns whether anything happened."""
        has_moved = False
        while True:
            moved = self._run_host()
            for number, queue in enumerate(self.queues):
                if queue.items:
                    moved = self._run_queue(number, queue) or moved
            if not moved:
                return has_moved
            has_moved = True

    def _run_host(self) -> bool:
        steps, begin = self.program.steps, self.at
        while self.at < len(steps) and self._run_step(steps[self.at]):
            self.at += 1
        return self.at > begin

    def _run_step(self, step: _Step) -> bool:
        """Do what the host does next; returns False if it must wait for what is not known yet."""
        kind = step.kind
        now = self.now_ns + step.gap_ns
        if kind == _LAUNCH:
            ready = self._queue_free_ns(now)
            if ready is None:
                return False
            now = ready
            latency = self.simulation.latency_ns
            self.queues[step.stream].items.append((_WORK, now + step.cost_ns + latency, step.number))
            self.launched.append(step.number)
        elif kind == _RECORD:
            self.queues[step.stream].items.append((_MARK, now + step.cost_ns, step.number))
        elif kind == _STREAM_WAIT:
            self.queues[step.stream].items.append((_AWAIT, now, step.number))
        elif kind != _CALL:
            until = self._sync_ns(step)
            if until is None:
                return False
            end = max(now, until) + step.cost_ns
            self.calls[self.at] = now, end
            self.now_ns = end
            return True
        end = now + step.cost_ns
        self.calls[self.at] = now, end
        self.now_ns = end
        return True

    def _queue_free_ns(self, now: float) -> float | None:
        """When the host may launch: while too many launches are pending, it waits for the oldest."""
        ends, launched = self.ends, self.launched
        while self.oldest < len(launched) and 0 <= ends[launched[self.oldest]] <= now:
            self.oldest += 1
        if len(launched) - self.oldest < QUEUE_DEPTH:
            return now
        end = ends[launched[self.oldest]]
        return None if end < 0 else max(now, end)

    def _sync_ns(self, step: _Step) -> float | None:
        """Until when the host waits; None if that is not known yet."""
        if step.kind == _SYNC_EVENT:
            return self._mark_ns(step.number)
        if step.kind == _SYNC_STREAM:
            queue = self.queues[step.stream]
            return None if queue.items else queue.tail_ns
        if any(queue.items for queue in self.queues):
            return None
        return max(queue.tail_ns for queue in self.queues)

    def _mark_ns(self, wait: int) -> float | None:
        """When the event of a wait is complete; 0 for one that was recorded before the record began."""
        record_id = self.program.awaited[wait]
        if record_id is None or record_id not in self.program.recorded:
            return 0.0
        return self.marks.get(record_id)

    def _run_queue(self, number: int, queue: _Queue) -> bool:
        items, has_moved = queue.items, False
        while items:
            kind, issued_ns, what = items[0]
            if kind == _WORK:
                if not self._run_work(queue, issued_ns, what):
                    return has_moved
            elif kind == _MARK:
                self.marks[what] = max(queue.tail_ns, issued_ns)
            else:
                until = self._mark_ns(what)
                if until is None:
                    return has_moved
                start = max(queue.tail_ns, issued_ns)
                queue.tail_ns = max(queue.tail_ns, until)
                self.waits[what] = start, max(start, queue.tail_ns)
            items.popleft()
            has_moved = True
        return has_moved

    def _run_work(self, queue: _Queue, issued_ns: float, number: int) -> bool:
        collective = self.program.collectives.get(number)
        start = max(queue.tail_ns, issued_ns)
        if collective is None:
            end = start + self.durations[number]
        else:
            found = self.simulation.meet(self, collective, number, start)
            if found is None:
                return False
            end = found
        self.starts[number], self.ends[number] = start, end
        queue.tail_ns = end
        return True

    def times(self) -> RankTimes:
        """The times so far."""
        return RankTimes(
            self.calls.round().astype(np.int64),
            np.array(self.starts).round().astype(np.int64),
            np.array(self.ends).round().astype(np.int64),
            self.waits.round().astype(np.int64),
        )


class _Simulation:
    """One pass over all classes of ranks."""

    def __init__(self, job: JobPrograms, durations: Mapping[int, Floats]) -> None:
        self.job = job
        self.latency_ns = job.cluster.spec.kernel_latency_ns
        self._meetings: dict[Hashable, _Meeting] = {}
        self._groups: dict[tuple[int, int], tuple[Hashable, frozenset[int]]] = {}
        self._actors = {
            colour: _Actor(self, colour, rank, job.programs[job.program_of[rank]], durations[colour])
            for colour, rank in job.representatives.items()
        }

    def run(self) -> dict[int, RankTimes]:
        """Run all classes to their end.

        Raises:
            CollectiveMismatchError: Ranks wait for each other and none can go on, or make different collectives.
        """
        actors = list(self._actors.values())
        while True:
            moved = [actor.run() for actor in actors]
            if all(actor.is_done() for actor in actors):
                return {actor.colour: actor.times() for actor in actors}
            if not any(moved):
                last = {
                    actor.rank: describe_last(actor.program.collectives.values(), actor.program.started_at)
                    for actor in actors
                }
                raise describe_deadlock(self._blocked(), last)

    def _blocked(self) -> dict[int, Collective | None]:
        """The collective at which each representative waits; None for a rank whose program has ended."""
        found: dict[int, Collective | None] = {}
        for actor in self._actors.values():
            waiting = [
                actor.program.collectives[what]
                for queue in actor.queues
                for kind, _, what in list(queue.items)[:1]
                if kind == _WORK and what in actor.program.collectives
            ]
            found[actor.rank] = waiting[0] if waiting else None
        return found

    def meet(self, actor: _Actor, collective: Collective, number: int, ready_ns: float) -> float | None:
        """A class arrives at a collective; returns the end once it is known."""
        key, expected = self._key(actor, collective)
        meeting = self._meetings.get(key)
        if meeting is None:
            meeting = self._meetings[key] = _Meeting(expected)
        if actor.colour not in meeting.arrived:
            for other, (_, _, theirs) in meeting.arrived.items():
                check_match(self._actors[other].rank, theirs, actor.rank, collective)
            meeting.arrived[actor.colour] = ready_ns, number, collective
        if len(meeting.arrived) < len(meeting.expected):
            return None
        if meeting.end_ns < 0:
            latest = max(ready for ready, _, _ in meeting.arrived.values())
            extra = max(self._actors[one].durations[at] for one, (_, at, _) in meeting.arrived.items())
            meeting.end_ns = latest + extra
        return meeting.end_ns

    def _key(self, actor: _Actor, collective: Collective) -> tuple[Hashable, frozenset[int]]:
        group, expected = self._group(actor, collective.role)
        if collective.kind not in PAIRS:
            return (group, collective.seq), expected
        assert collective.peer is not None
        colours = self.job.colours
        _, peer = self.job.layout.counterpart(collective, self.job.program_of[actor.rank], actor.rank)
        pair = actor.colour, colours[collective.peer if peer is None else peer]
        source, target = pair if collective.kind == "send" else (pair[1], pair[0])
        return (group, source, target, collective.seq), frozenset(pair)

    def _group(self, actor: _Actor, role: int) -> tuple[Hashable, frozenset[int]]:
        """A key for a group of a class, and the classes of its members."""
        found = self._groups.get((actor.colour, role))
        if found is None:
            layout, colours = self.job.layout, self.job.colours
            members = layout.group(actor.rank, role)
            key = frozenset((colours[one], layout.role_of(one, members, role)) for one in members)
            found = self._groups[actor.colour, role] = key, frozenset(colours[one] for one in members)
        return found


@dataclass
class JobPrograms:
    """What all ranks of a job do.

    Attributes:
        cluster: The GPUs.
        layout: The process groups.
        programs: By the rank that ran.
        program_of: By rank, the rank that ran and did the same.
        colours: By rank, the class of ranks whose times are equal.
    """

    cluster: Cluster
    layout: Layout
    programs: Mapping[int, RankProgram]
    program_of: Mapping[int, int]
    colours: Mapping[int, int]

    @property
    def representatives(self) -> dict[int, int]:
        """The lowest rank of each class."""
        found: dict[int, int] = {}
        for rank in sorted(self.colours):
            found.setdefault(self.colours[rank], rank)
        return found


def simulate(job: JobPrograms, speeds: Mapping[int, RankSpeed]) -> dict[int, RankTimes]:
    """Compute the times of each class of ranks.

    Args:
        job: The job.
        speeds: By rank; ranks without an entry have the usual speed.

    Raises:
        CollectiveMismatchError: Ranks wait for each other and none can go on, or make different collectives.
    """
    plain, durations = {}, {}
    for colour, rank in job.representatives.items():
        program = job.programs[job.program_of[rank]]
        durations[colour] = speeds.get(rank, RankSpeed()).apply(program)
        for number, collective in program.collectives.items():
            durations[colour][number] = _collective_ns(job, rank, collective)
        plain[colour] = durations[colour].copy()
    times = _Simulation(job, durations).run()
    for _ in range(_MOST_PASSES - 1):
        is_settled = True
        for colour, rank in job.representatives.items():
            program, before = job.programs[job.program_of[rank]], durations[colour]
            durations[colour] = plain[colour] + overlap_cost(program, times[colour], plain[colour])
            change = np.abs(durations[colour] - before).sum()
            is_settled &= bool(change <= _LEAST_CHANGE * plain[colour].sum())
        if is_settled:
            break
        times = _Simulation(job, durations).run()
    return times


def _collective_ns(job: JobPrograms, rank: int, collective: Collective) -> int:
    ranks, peer = job.layout.counterpart(collective, job.program_of[rank], rank)
    if collective.kind not in PAIRS:
        return job.cluster.collective_ns(collective.kind, ranks, collective.num_bytes)
    assert peer is not None
    return job.cluster.collective_ns("send", (rank, peer), collective.num_bytes)


def overlap_cost(program: RankProgram, times: RankTimes, durations: Floats) -> Floats:
    """Return by how much each work is longer because of work on other streams, ns.

    A kernel loses the SMs of the collectives beside it; a collective loses a part of the memory bandwidth. Two kernels
    that need more than the device has share it.
    """
    extra = np.zeros(len(durations))
    is_collective = np.zeros(len(durations), bool)
    is_collective[list(program.collectives)] = True
    is_compute = ~is_collective & (program.rooms > 0)
    # Of its length L, a kernel that is beside a collective for a part of it computes L * (1 - SMs of NCCL * part).
    beside = _covered_ns(times, np.flatnonzero(is_compute), np.flatnonzero(is_collective))
    length = np.maximum((times.ends_ns - times.starts_ns)[is_compute], 1)
    lost = _SHARED_SMS * np.minimum(beside / length, 1.0) * program.rooms[is_compute]
    extra[is_compute] += durations[is_compute] * lost / (1 - lost)
    compute_ns = _covered_ns(times, np.flatnonzero(is_collective), np.flatnonzero(is_compute))
    extra[is_collective] += _SHARED_LINKS * np.minimum(compute_ns, durations[is_collective])
    main = np.bincount(program.streams[is_compute]).argmax() if is_compute.any() else -1
    on_main = is_compute & (program.streams == main)
    elsewhere = is_compute & (program.streams != main)
    for ours, theirs in ((on_main, elsewhere), (elsewhere, on_main)):
        shared = _covered_ns(times, np.flatnonzero(ours), np.flatnonzero(theirs))
        extra[ours] += np.minimum(shared, durations[ours]) * program.rooms[ours]
    return extra


def _covered_ns(times: RankTimes, rows: Ints, by: Ints) -> Floats:
    """Return for how long each of `rows` runs while one of `by` runs, ns."""
    if not len(rows) or not len(by):
        return np.zeros(len(rows))
    starts, ends = _union(times.starts_ns[by], times.ends_ns[by])
    lengths = np.concatenate([[0], np.cumsum(ends - starts)])

    def covered_before(at: Ints) -> Ints:
        """Return the length of the union before each time."""
        number = np.searchsorted(starts, at, side="right")
        inside = np.minimum(at - starts[np.maximum(number - 1, 0)], (ends - starts)[np.maximum(number - 1, 0)])
        return np.where(number > 0, lengths[np.maximum(number - 1, 0)] + inside, 0)

    found: Floats = covered_before(times.ends_ns[rows]) - covered_before(times.starts_ns[rows]) * 1.0
    return found


def _union(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return the union of intervals, sorted."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    is_first = np.concatenate([[True], starts[1:] > ends[:-1]])
    first = np.flatnonzero(is_first)
    return starts[first], ends[np.concatenate([first[1:] - 1, [len(ends) - 1]])]
