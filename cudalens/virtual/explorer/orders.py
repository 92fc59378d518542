"""The partial order of a program's tasks, and schedules that keep it. No torch.

A task is work of a stream, or an access of the host to memory. Each stream has a lane, and the host has one. The tasks
of a lane run in order, and each task may need a number of tasks of other lanes to be done first: its *needs*, a vector
clock (C. Fidge, 1988; F. Mattern, 1989). A schedule is a linear extension of this partial order; on a device whose
kernels may take any time, exactly the schedules can happen.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from cudalens.errors import ExploreError

#: The host's lane.
HOST: Final = 0

#: The number of finished tasks of each lane; 0 for a missing lane.
Clock = dict[int, int]


@dataclass(slots=True)
class Task:
    """The position of a task in the partial order.

    Attributes:
        lane: Its lane.
        index: Its position in the lane, from 0.
        needs: The number of tasks of each lane that come before it; for its own lane, all earlier ones.
    """

    lane: int
    index: int
    needs: Clock


@dataclass
class Program:
    """Tasks and their lanes. Tasks are numbered in the order in which the host issued them.

    Attributes:
        tasks: The tasks by number.
        lanes: The task numbers of each lane, in order.
    """

    tasks: list[Task] = field(default_factory=list)
    lanes: list[list[int]] = field(default_factory=lambda: [[]])

    def __len__(self) -> int:
        return len(self.tasks)

    def comes_before(self, first: int, second: int) -> bool:
        """Return whether `first` comes before `second` in every schedule."""
        a, b = self.tasks[first], self.tasks[second]
        if a.lane == b.lane:
            return a.index < b.index
        return b.needs.get(a.lane, 0) > a.index

    def is_unordered(self, one: int, other: int) -> bool:
        """Return whether the order of two tasks is not determined."""
        return one != other and not self.comes_before(one, other) and not self.comes_before(other, one)

    def is_legal(self, order: Sequence[int]) -> bool:
        """Return whether an order of all tasks is a schedule."""
        if sorted(order) != list(range(len(self.tasks))):
            return False
        progress = Progress(self)
        for number in order:
            if not progress.is_ready(number):
                return False
            progress.do(number)
        return True


class Progress:
    """The state of a partially executed schedule.

    Args:
        program: The program.
    """

    __slots__ = ("_done", "_program")

    def __init__(self, program: Program) -> None:
        self._program = program
        self._done = [0] * len(program.lanes)

    def is_ready(self, number: int) -> bool:
        """Return whether a task can be executed next."""
        task, done = self._program.tasks[number], self._done
        return done[task.lane] == task.index and all(done[lane] >= count for lane, count in task.needs.items())

    def ready(self) -> list[int]:
        """Return the tasks that can be executed next, at most one per lane, in program order."""
        return sorted(number for number in self.heads() if self.is_ready(number))

    def heads(self) -> Iterator[int]:
        """Yield the next task of each lane that has one."""
        for lane, done in zip(self._program.lanes, self._done, strict=True):
            if done < len(lane):
                yield lane[done]

    def is_done(self, number: int) -> bool:
        """Return whether a task has been executed."""
        task = self._program.tasks[number]
        return self._done[task.lane] > task.index

    def do(self, number: int) -> None:
        """Execute a task that is ready."""
        self._done[self._program.tasks[number].lane] += 1

    def undo(self, number: int) -> None:
        """Undo the last task of a lane."""
        self._done[self._program.tasks[number].lane] -= 1


class Builder:
    """Builds a `Program` from the calls of the host, in their order.

    The rules are those of the CUDA programming guide: work of a stream runs in order; an event that is waited for adds
    the work that its stream held when it was recorded, and an event that was never recorded adds nothing; what the host
    waits for is done before its next action; nothing runs before it was issued. The legacy default stream and the
    blocking streams of its device wait for each other.

    Attributes:
        program: The program so far.
    """

    def __init__(self) -> None:
        self.program = Program()
        self._clocks: list[Clock] = [{}]
        self._events: dict[int, Clock] = {}
        self._peers: dict[int, list[int]] = {}
        self._devices: dict[int, list[int]] = {}
        self._legacy: dict[int, int] = {}

    def lane(self, device: int, *, is_legacy: bool = False, is_blocking: bool = False) -> int:
        """Create a lane for a stream.

        Args:
            device: Its device.
            is_legacy: Whether it is the device's legacy default stream.
            is_blocking: Whether it and that stream wait for each other.
        """
        number = len(self._clocks)
        self._clocks.append({})
        self.program.lanes.append([])
        others = self._devices.setdefault(device, [])
        if is_legacy:
            self._legacy[device] = number
            self._peers[number] = [other for other in others if self._peers.get(other) is not None]
            for other in self._peers[number]:
                self._peers[other] = [number]
        elif is_blocking:
            legacy = self._legacy.get(device)
            self._peers[number] = [] if legacy is None else [legacy]
            if legacy is not None:
                self._peers[legacy].append(number)
        others.append(number)
        return number

    def add(self, lane: int, needs: Iterable[Clock] = ()) -> int:
        """Add a task to a lane; returns its number.

        Args:
            lane: The lane.
            needs: What it needs in addition to its lane and the host.
        """
        task = self._task(lane, [self.reached(lane), self._clocks[HOST], *needs])
        self._clocks[lane] = {**task.needs, lane: task.index + 1}
        return len(self.program.tasks) - 1

    def _task(self, lane: int, clocks: Iterable[Clock]) -> Task:
        program, numbers = self.program, self.program.lanes[lane]
        task = Task(lane, len(numbers), merged_clocks(clocks))
        task.needs[lane] = task.index
        numbers.append(len(program.tasks))
        program.tasks.append(task)
        return task

    def need(self, number: int, clock: Clock) -> None:
        """Add needs to the last task of a lane."""
        task = self.program.tasks[number]
        task.needs = {**merged_clocks([task.needs, clock]), task.lane: task.index}
        self._merge(task.lane, clock)

    def reached(self, lane: int) -> Clock:
        """Return what is done once all current work of a lane is done."""
        return merged_clocks([self._clocks[lane], *(self._clocks[peer] for peer in self._peers.get(lane, ()))])

    def record(self, event: int, lane: int) -> None:
        """Record an event on a lane."""
        self._events[event] = self.reached(lane)

    def wait(self, event: int, lane: int) -> None:
        """Make all following tasks of a lane wait for an event."""
        self._merge(lane, self._events.get(event, {}))

    def synchronize_event(self, event: int) -> None:
        """The host waits for an event."""
        self._merge(HOST, self._events.get(event, {}))

    def synchronize(self, lane: int) -> None:
        """The host waits for a stream."""
        self._merge(HOST, self.reached(lane))

    def synchronize_device(self, device: int) -> None:
        """The host waits for all streams of a device."""
        for lane in self._devices.get(device, ()):
            self._merge(HOST, self._clocks[lane])

    def _merge(self, lane: int, clock: Clock) -> None:
        self._clocks[lane] = merged_clocks([self._clocks[lane], clock])


def merged_clocks(clocks: Iterable[Clock]) -> Clock:
    """Return the element-wise maximum of clocks."""
    found: Clock = {}
    for clock in clocks:
        for lane, count in clock.items():
            if count > found.get(lane, 0):
                found[lane] = count
    return found


# Schedules: those that reverse a race, random ones, and those with few delays.

PROGRAM: Final = "program"

#: The maximum number of priority changes of a random schedule.
_MAX_CHANGES: Final = 3

_SEED: Final = re.compile(r"rush:\d+<\d+|stall:\d+>\d+|delay:\d+(?:,\d+)*|(?:random|legal):\d+")
_FORMS: Final = "'program', 'random:17', 'rush:9<4', 'stall:4>9', 'delay:4,11' or 'legal:3'"


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of all tasks.

    A schedule has a *seed*, a short text that identifies it:

    =================  =====================================================================================
    ``program``        the order in which the host issued the tasks
    ``rush:9<4``       task 9 before task 4; only 9 and the tasks that it needs run earlier
    ``stall:4>9``      task 4 after task 9; only 4 and the tasks that need it run later
    ``delay:4,11``     at steps 4 and 11, the next lane gets the lowest priority
    ``random:17``      random, with seed 17
    ``legal:3``        the third of all schedules, if there are few enough to run all
    =================  =====================================================================================

    Delay-bounded scheduling is M. Emmi, S. Qadeer, Z. Rakamaric, "Delay-bounded scheduling" (POPL 2011): most ordering
    errors appear with one or two delays. The random schedules alternate between random steps and random priorities with
    a few changes, after S. Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs"
    (ASPLOS 2010).

    Attributes:
        seed: Its seed.
        order: The task numbers in order.
    """

    seed: str
    order: tuple[int, ...]


def schedule_of(program: Program, seed: str | int) -> Schedule:
    """Return the schedule of a seed; a number is the seed of a random schedule.

    Raises:
        ExploreError: The text is not a seed, or is not valid for this program.
    """
    text = f"random:{seed}" if isinstance(seed, int) else str(seed).strip()
    if text == PROGRAM:
        return in_program_order(program)
    if _SEED.fullmatch(text) is None:
        raise ExploreError(f"{seed!r} is not the seed of a schedule; expected {_FORMS}, as shown in reports.")
    kind, numbers = text.partition(":")[0], [int(n) for n in re.findall(r"\d+", text)]
    if kind in ("rush", "stall"):
        one, other = numbers
        if max(one, other) >= len(program) or not program.is_unordered(one, other):
            raise ExploreError(
                f"tasks {one} and {other} of this program cannot be reordered: it has {len(program)} tasks, and these "
                "are not two unordered ones. Use a seed from the report of this exploration."
            )
        return rushed(program, one, other) if kind == "rush" else stalled(program, one, other)
    if kind == "random":
        return at_random(program, numbers[0])
    if kind == "delay":
        return delayed(program, tuple(numbers))
    number = numbers[0]
    order = next(itertools.islice(all_orders(program), max(number - 1, 0), None), None)
    if order is None or number < 1:
        raise ExploreError(f"this program has no schedule number {number}; use a seed from its report.")
    return Schedule(f"legal:{number}", order)


def in_program_order(program: Program) -> Schedule:
    """Return the order in which the host issued the tasks."""
    return Schedule(PROGRAM, tuple(range(len(program))))


def rushed(program: Program, second: int, first: int) -> Schedule:
    """`second` and the tasks that it needs before `first`; otherwise program order."""
    early = {n for n in range(second + 1) if n == second or program.comes_before(n, second)}
    head = sorted({*range(min(first, second)), *early})
    taken = set(head)
    return Schedule(f"rush:{second}<{first}", (*head, *(n for n in range(len(program)) if n not in taken)))


def stalled(program: Program, first: int, second: int) -> Schedule:
    """`first` and the tasks that need it after `second`; otherwise program order."""
    last = max(first, second)
    late = [n for n in range(len(program)) if n <= last and (n == first or program.comes_before(first, n))]
    is_late = set(late)
    head = [n for n in range(last + 1) if n not in is_late]
    return Schedule(f"stall:{first}>{second}", (*head, *late, *range(last + 1, len(program))))


def delayed(program: Program, steps: tuple[int, ...]) -> Schedule:
    """At each of these steps the next lane gets the lowest priority.

    Args:
        program: The tasks.
        steps: Step numbers, from 0.
    """
    rank = dict.fromkeys(range(len(program.lanes)), 0)
    progress, order, delayed_steps = Progress(program), [], set(steps)
    for step in range(len(program)):
        ready = progress.ready()
        chosen = min(ready, key=lambda n: (rank[program.tasks[n].lane], n))
        if step in delayed_steps:
            rank[program.tasks[chosen].lane] = max(rank.values()) + 1
            chosen = min(ready, key=lambda n: (rank[program.tasks[n].lane], n))
        progress.do(chosen)
        order.append(chosen)
    return Schedule("delay:" + ",".join(map(str, steps)), tuple(order))


def with_delays(program: Program, num_delays: int) -> Iterator[Schedule]:
    """Yield the schedules with that many delays, early steps first."""
    for steps in itertools.combinations(range(len(program)), num_delays):
        yield delayed(program, steps)


def at_random(program: Program, seed: int) -> Schedule:
    """Return a random schedule."""
    draw = Random(seed)  # noqa: S311 - not for security
    if seed % 2:
        return Schedule(f"random:{seed}", _drawn(program, draw))
    # The lane with the highest priority runs; at a few steps it gets the lowest priority.
    lanes = list(range(len(program.lanes)))
    draw.shuffle(lanes)
    rank = {lane: place for place, lane in enumerate(lanes)}
    changes = {draw.randrange(max(len(program), 1)) for _ in range(draw.randint(0, _MAX_CHANGES))}
    progress, order = Progress(program), []
    for step in range(len(program)):
        chosen = min(progress.ready(), key=lambda n: rank[program.tasks[n].lane])
        progress.do(chosen)
        order.append(chosen)
        if step in changes:
            rank[program.tasks[chosen].lane] = max(rank.values()) + 1
    return Schedule(f"random:{seed}", tuple(order))


def _drawn(program: Program, draw: Random) -> tuple[int, ...]:
    """Each step is chosen at random from the tasks that are ready."""
    progress, order = Progress(program), []
    for _ in range(len(program)):
        order.append(draw.choice(progress.ready()))
        progress.do(order[-1])
    return tuple(order)


def all_orders(program: Program) -> Iterator[tuple[int, ...]]:
    """Yield all schedules, program order first; there may be very many."""
    progress, order = Progress(program), list[int]()
    left = [iter(progress.ready())]
    if not len(program):
        yield ()
        return
    while left:
        number = next(left[-1], None)
        if number is None:
            left.pop()
            if order:
                progress.undo(order.pop())
            continue
        progress.do(number)
        order.append(number)
        if len(order) == len(program):
            yield tuple(order)
            progress.undo(order.pop())
        else:
            left.append(iter(progress.ready()))
