"""Which of a program's tasks come before which: streams, events, synchronisations. No torch.

A task is something that is done at a time of its own: the work of a stream, or what the host does with memory. Tasks
stand on lanes: one for each stream, one for the host. A lane's tasks run in their order, and each may need a number of
tasks of other lanes to be done first: its *needs*, a vector clock (C. Fidge, 1988; F. Mattern, 1989). Every order that
keeps to the lanes and the needs can happen on a device whose kernels take any time: a linear extension of this partial
order is what is called a schedule here, and there is no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

#: The host's lane.
HOST: Final = 0

#: How many tasks of each lane are done; a lane that is not named has none.
Clock = dict[int, int]


@dataclass(slots=True)
class Task:
    """A task's place in the partial order.

    Attributes:
        lane: Where it stands.
        index: Its position there, from 0.
        needs: How many tasks of each lane are done before it; of its own lane, all that stand before it.
    """

    lane: int
    index: int
    needs: Clock


@dataclass
class Program:
    """Tasks, numbered in the order in which the host issued them, and their lanes.

    Attributes:
        tasks: By number.
        lanes: Numbers of each lane's tasks, in their order.
    """

    tasks: list[Task] = field(default_factory=list)
    lanes: list[list[int]] = field(default_factory=lambda: [[]])

    def __len__(self) -> int:
        return len(self.tasks)

    def comes_before(self, first: int, second: int) -> bool:
        """Whether `first` is done before `second` in every schedule."""
        a, b = self.tasks[first], self.tasks[second]
        if a.lane == b.lane:
            return a.index < b.index
        return b.needs.get(a.lane, 0) > a.index

    def is_unordered(self, one: int, other: int) -> bool:
        """Whether either may be done first."""
        return one != other and not self.comes_before(one, other) and not self.comes_before(other, one)

    def is_legal(self, order: Sequence[int]) -> bool:
        """Whether an order of all tasks is a schedule."""
        if sorted(order) != list(range(len(self.tasks))):
            return False
        progress = Progress(self)
        for number in order:
            if not progress.is_ready(number):
                return False
            progress.do(number)
        return True


class Progress:
    """How far a schedule has come.

    Args:
        program: Whose tasks are done.
    """

    __slots__ = ("_done", "_program")

    def __init__(self, program: Program) -> None:
        self._program = program
        self._done = [0] * len(program.lanes)

    def is_ready(self, number: int) -> bool:
        """Whether a task can be done next."""
        task, done = self._program.tasks[number], self._done
        return done[task.lane] == task.index and all(done[lane] >= count for lane, count in task.needs.items())

    def ready(self) -> list[int]:
        """The tasks that can be done next, one of each lane at most, in the program's order."""
        return sorted(number for number in self.heads() if self.is_ready(number))

    def heads(self) -> Iterator[int]:
        """The next task of each lane that has one left."""
        for lane, done in zip(self._program.lanes, self._done, strict=True):
            if done < len(lane):
                yield lane[done]

    def is_done(self, number: int) -> bool:
        """Whether a task has been done."""
        task = self._program.tasks[number]
        return self._done[task.lane] > task.index

    def do(self, number: int) -> None:
        """A task that is ready is done."""
        self._done[self._program.tasks[number].lane] += 1

    def undo(self, number: int) -> None:
        """The last task of its lane is taken back."""
        self._done[self._program.tasks[number].lane] -= 1


class Builder:
    """Makes a `Program` of what the host does, in its order.

    The rules are those of the CUDA programming guide: work of a stream runs in order; an event that is waited for
    brings along what its stream held when it was recorded, and one that was never recorded brings nothing; what the
    host waits for is done before whatever it does next; nothing runs before it was issued. The legacy default stream
    and blocking streams of its device wait for each other.

    Attributes:
        program: What has been made so far.
    """

    def __init__(self) -> None:
        self.program = Program()
        self._clocks: list[Clock] = [{}]
        self._events: dict[int, Clock] = {}
        self._peers: dict[int, list[int]] = {}
        self._devices: dict[int, list[int]] = {}
        self._legacy: dict[int, int] = {}

    def lane(self, device: int, *, is_legacy: bool = False, is_blocking: bool = False) -> int:
        """A lane for another stream.

        Args:
            device: Its device.
            is_legacy: It is the device's legacy default stream.
            is_blocking: It and that stream wait for each other.
        """
        number = len(self._clocks)
        self._clocks.append({})
        self.program.lanes.append([])
        mates = self._devices.setdefault(device, [])
        if is_legacy:
            self._legacy[device] = number
            self._peers[number] = [mate for mate in mates if self._peers.get(mate) is not None]
            for mate in self._peers[number]:
                self._peers[mate] = [number]
        elif is_blocking:
            legacy = self._legacy.get(device)
            self._peers[number] = [] if legacy is None else [legacy]
            if legacy is not None:
                self._peers[legacy].append(number)
        mates.append(number)
        return number

    def add(self, lane: int, needs: Iterable[Clock] = ()) -> int:
        """A task is put on a lane; returns its number.

        Args:
            lane: The lane.
            needs: What it needs beside what its lane and the host say.
        """
        task = self._task(lane, [self.reached(lane), self._clocks[HOST], *needs])
        self._clocks[lane] = {**task.needs, lane: task.index + 1}
        return len(self.program.tasks) - 1

    def _task(self, lane: int, clocks: Iterable[Clock]) -> Task:
        program, numbers = self.program, self.program.lanes[lane]
        task = Task(lane, len(numbers), joined(clocks))
        task.needs[lane] = task.index
        numbers.append(len(program.tasks))
        program.tasks.append(task)
        return task

    def need(self, number: int, clock: Clock) -> None:
        """The last task of its lane needs more than was known when it was put there."""
        task = self.program.tasks[number]
        task.needs = {**joined([task.needs, clock]), task.lane: task.index}
        self._join(task.lane, clock)

    def reached(self, lane: int) -> Clock:
        """What is done once all is done that the lane holds now."""
        return joined([self._clocks[lane], *(self._clocks[peer] for peer in self._peers.get(lane, ()))])

    def record(self, event: int, lane: int) -> None:
        """An event marks what a lane holds."""
        self._events[event] = self.reached(lane)

    def wait(self, event: int, lane: int) -> None:
        """What is put on a lane from now on waits for an event."""
        self._join(lane, self._events.get(event, {}))

    def synchronize_event(self, event: int) -> None:
        """The host waits for an event."""
        self._join(HOST, self._events.get(event, {}))

    def synchronize(self, lane: int) -> None:
        """The host waits for a stream."""
        self._join(HOST, self.reached(lane))

    def synchronize_device(self, device: int) -> None:
        """The host waits for all streams of a device."""
        for lane in self._devices.get(device, ()):
            self._join(HOST, self._clocks[lane])

    def _join(self, lane: int, clock: Clock) -> None:
        self._clocks[lane] = joined([self._clocks[lane], clock])


def joined(clocks: Iterable[Clock]) -> Clock:
    """What is done once all of these are."""
    found: Clock = {}
    for clock in clocks:
        for lane, count in clock.items():
            if count > found.get(lane, 0):
                found[lane] = count
    return found
