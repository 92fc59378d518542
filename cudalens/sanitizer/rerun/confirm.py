"""Whether races show in values: runs that are steered toward the other order, against runs in the program's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import torch

from cudalens.device.interrupts import DeferredInterrupts, defers_interrupts
from cudalens.errors import ExploreError
from cudalens.frames.exploration import Difference, Exploration, RaceVerdict, Shown, Step
from cudalens.sanitizer.rerun.delayed_run import Aim, InOrder, Steered, attempted, synchronize, warm_up
from cudalens.sanitizer.rerun.program import Program, State
from cudalens.sanitizer.rerun.tasks import Spot, Task, telling
from cudalens.sanitizer.rerun.values import copied, difference, fingerprints

#: Steered runs for each race, unless the user says otherwise.
DEFAULT_RUNS: Final = 20

#: Races that are tried, from the first.
MAX_RACES: Final = 16

#: Pairs of tasks of one race that are tried in turn; a loop makes many.
_MAX_PAIRS: Final = 4

#: Runs in which a pair keeps its order, after which it is given up.
_MAX_MISSES: Final = 3

#: A hold may last this many times as long as the host took from one access to the other.
_MAX_OTHERS: Final = 8
_LEAST_HOLD_NS: Final = 20_000_000
_MOST_HOLD_NS: Final = 2_000_000_000
_SLACK: Final = 4

#: A hold that was over too early lasts this many times as long the next time.
_LONGER: Final = 5

#: After so long no further run is begun, unless the user says otherwise, s.
DEFAULT_LIMIT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Suspect:
    """A race that was reported.

    Attributes:
        text: In one line.
        first: Where its first access is.
        second: Where its second one is.
    """

    text: str
    first: Spot
    second: Spot


@dataclass(frozen=True, slots=True)
class _Reference:
    """What the program's own order comes to.

    Attributes:
        tasks: Its tasks.
        issued_s: When the host issued each, s.
        values: Copies of its outputs.
        prints: Their fingerprints; of numbers, themselves.
    """

    tasks: list[Task]
    issued_s: list[float]
    values: dict[str, Any]
    prints: dict[str, Any]


@dataclass(slots=True)
class _Attempts:
    """What was tried of one pair of tasks.

    Attributes:
        first: The task that is held.
        second: The one that shall overtake it.
        hold_ns: For how long at most, the next time.
        num_misses: Runs in which they kept their order.
        is_ordered: One of them waits for the other.
    """

    first: Task
    second: Task
    hold_ns: int
    num_misses: int = 0
    is_ordered: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is worth another run."""
        return not self.is_ordered and self.num_misses < _MAX_MISSES


class Confirmer:
    """Runs a program again and again.

    Args:
        program: The program.
        suspects: The races.
        runs: Steered runs for each race.
        hold_ns: How long a stream is held at most, ns; None for what the host needs from one access to the other.
        limit_s: After so long no further run is begun, s.
        lane: What a stream is called, by its device and handle.
        source: Where the program runs, as a Trace names it.
    """

    def __init__(
        self,
        program: Program,
        suspects: Sequence[Suspect],
        *,
        runs: int = DEFAULT_RUNS,
        hold_ns: int | None = None,
        limit_s: float = DEFAULT_LIMIT_S,
        lane: Callable[[int, int], str],
        source: str,
    ) -> None:
        self._program, self._suspects, self._runs, self._hold_ns = program, suspects, runs, hold_ns
        self._limit_s, self._ends_s = limit_s, time.monotonic() + limit_s
        self._lane, self._source = lane, source
        self._spots = [spot for suspect in suspects for spot in (suspect.first, suspect.second)]
        self._state = State(program)
        self._devices = {torch.cuda.current_device()}
        self._notes: list[str] = []
        self._others: list[Shown] = []
        self._pairs: list[list[tuple[Task, Task]]] = []
        self._num_runs = 0
        self._broken: str | None = None
        self._interrupts = DeferredInterrupts()

    def confirm(self) -> Exploration:
        """Run it, at most ``2 + 2 * runs * races`` times; afterwards everything is as it was.

        Raises:
            ExploreError: It cannot run again.
        """
        self._interrupts.install()
        try:
            reference = self._reference()
            self._pairs = [pairs_of(suspect, reference.tasks) for suspect in self._suspects]
            self._warm_up()
            races = [self._judged(n, suspect, reference) for n, suspect in enumerate(self._suspects)]
        finally:
            self._end()
            self._interrupts.remove()
            self._interrupts.deliver()
        steps = tuple(self._step(task) for task in reference.tasks)
        return Exploration(
            self._source,
            self._num_runs,
            False,
            tuple(races),
            tuple(self._others),
            tuple(reference.prints),
            steps,
            tuple(dict.fromkeys(self._notes)),
            is_steered=True,
        )

    def _warm_up(self) -> None:
        try:
            for device in {first.device for pairs in self._pairs for first, _ in pairs if first.device is not None}:
                warm_up(device)
        except Exception as error:  # Triton has errors of many kinds
            raise _ours(error) from error

    @defers_interrupts
    def _end(self) -> None:
        """Whatever happened: nothing is held, and everything is as it was."""
        if self._broken is None:
            try:
                synchronize(self._devices)
                self._state.restore()
            except RuntimeError as broken:
                self._broken = _line(broken)
        if self._broken is not None:
            self._state.restore_host()
            self._notes.append(
                f"a run ended with an error of CUDA's: {self._broken} The device cannot be used any more; "
                "restart this process"
            )

    def _reference(self) -> _Reference:
        """Two runs in the program's order: what differs between them says nothing of any race."""
        first, second = self._in_order(), self._in_order()
        unsteady = [name for name in first.prints if first.prints[name] != second.prints.get(name)]
        self._note_unsteady(unsteady)
        steady = {name: value for name, value in second.values.items() if name not in unsteady}
        prints = {name: second.prints[name] for name in steady}
        if [_what(task) for task in first.tasks] != [_what(task) for task in second.tasks]:
            self._notes.append("two runs in the program's order did not do the same tasks")
        return _Reference(second.tasks, second.issued_s, steady, prints)

    def _note_unsteady(self, names: Sequence[str]) -> None:
        if names:
            told = ", ".join(f"`{name}`" for name in names[:_MAX_OTHERS])
            more = f" and {len(names) - _MAX_OTHERS} more" if len(names) > _MAX_OTHERS else ""
            self._notes.append(f"not compared, since two runs in the program's order differ in it: {told}{more}")

    def _in_order(self) -> _Reference:
        """One run, of which everything is as before afterwards.

        Raises:
            ExploreError: The program raises, or cannot be watched.
        """
        listener = InOrder(self._state)
        with ExitStack() as stack:
            teller = stack.enter_context(telling(listener, self._spots))
            result, error = attempted(self._program.run, stack.pop_all())
        self._wait(listener.tasks, error or teller.failure)
        if teller.failure is not None:
            raise _ours(teller.failure)
        if error is not None:
            raise ExploreError(
                f"run again, in its own order, the program raises {type(error).__name__}: {_line(error)} "
                "It must be able to run repeatedly; recreate inside it what it consumes."
            ) from error
        values = {name: copied(value) for name, value in self._outputs(result).items()}
        prints = fingerprints(values)
        del result
        self._state.restore()
        return _Reference(listener.tasks, listener.issued_s, values, prints)

    def _wait(self, tasks: Sequence[Task], error: Exception | None) -> None:
        """Wait for all that a run in the program's order issued.

        Raises:
            ExploreError: It broke the device.
        """
        self._devices |= {task.device for task in tasks if task.device is not None}
        try:
            synchronize(self._devices)
        except RuntimeError as broken:
            self._broken = _line(error or broken)
            raise ExploreError(
                f"run again, in its own order, the program ends with an error of CUDA's: {self._broken} The device "
                "cannot be used any more; restart this process."
            ) from broken

    def _outputs(self, result: Any) -> dict[str, Any]:
        """What the program left, as far as it made or wrote it."""
        found = self._program.outputs(result)
        return {n: v for n, v in found.items() if not isinstance(v, torch.Tensor) or self._state.was_written(v)}

    def _judged(self, number: int, suspect: Suspect, reference: _Reference) -> RaceVerdict:
        pairs = self._pairs[number]
        numbers = tuple((first.number, second.number) for first, second in pairs)
        tried = [_Attempts(first, second, self._hold_for(first, second, reference)) for first, second in pairs]
        why = self._why_not(number, pairs)
        num_turned = 0
        for run in range(0 if why else self._runs):
            open_ones = [one for one in tried if one.is_open]
            if not open_ones or self._is_over():
                break
            shown, is_turned = self._attempt(open_ones[run % len(open_ones)], reference)
            num_turned += is_turned
            if shown is not None and is_turned:
                self._note_together(number, shown)
                return RaceVerdict(number, suspect.text, "confirmed", num_turned, numbers, shown)
            if shown is not None and len(self._others) < _MAX_OTHERS:
                self._others.append(shown)
            if self._broken is not None:
                break
        if num_turned:
            return RaceVerdict(number, suspect.text, "benign", num_turned, numbers)
        return RaceVerdict(number, suspect.text, "unknown", 0, numbers, why=why or self._why_kept(tried))

    def _is_over(self) -> bool:
        self._interrupts.deliver()
        if time.monotonic() < self._ends_s:
            return False
        self._notes.append(f"after {self._limit_s:,.0f} s no further run was begun")
        return True

    def _why_not(self, number: int, pairs: Sequence[tuple[Task, Task]]) -> str:
        """Why a race cannot be tried; empty text where it can."""
        if number >= MAX_RACES:
            return f"only the first {MAX_RACES} races are tried at a time"
        if self._broken is not None:
            return "the device cannot be used any more"
        if time.monotonic() >= self._ends_s:
            return f"the {self._limit_s:,.0f} s that it may take were over"
        return "" if pairs else "its accesses were not seen on two streams when the program ran again"

    def _why_kept(self, tried: Sequence[_Attempts]) -> str:
        """Why no run turned its accesses around."""
        if tried and all(one.is_ordered for one in tried):
            return "its first access still came first: the second one, or the host before it, waits for it"
        return "held as long as allowed, its first access still came first"

    def _note_together(self, number: int, shown: Shown) -> None:
        """Say which other races changed places in the schedule that confirms one: it confirms them together."""
        place = {task: at for at, task in enumerate(shown.order)}
        others = [
            other + 1
            for other, pairs in enumerate(self._pairs)
            if other != number and any(place[a.number] > place[b.number] for a, b in pairs)
        ]
        if others:
            names = ", ".join(map(str, others))
            self._notes.append(
                f"in schedule {shown.seed!r} of race {number + 1} other races change places too: {names}"
            )

    def _hold_for(self, first: Task, second: Task, reference: _Reference) -> int:
        needed_s = reference.issued_s[second.number] - reference.issued_s[first.number]
        least = max(_LEAST_HOLD_NS, round(_SLACK * needed_s * 1e9))
        return self._hold_ns or min(least, _MOST_HOLD_NS)

    def _attempt(self, pair: _Attempts, reference: _Reference) -> tuple[Shown | None, bool]:
        """One run: the schedule if values differ in it, and whether the accesses changed places."""
        listener = Steered(self._state, Aim(pair.first, pair.second, pair.hold_ns))
        shown, is_turned = self._steered(listener, reference)
        pair.num_misses += not is_turned
        pair.is_ordered = listener.is_ordered
        if not is_turned and self._hold_ns is None:
            pair.hold_ns = min(pair.hold_ns * _LONGER, _MOST_HOLD_NS)
        return shown, is_turned

    def _steered(self, listener: Steered, reference: _Reference) -> tuple[Shown | None, bool]:
        aim = listener.aim
        with ExitStack() as stack:
            stack.callback(listener.end)
            teller = stack.enter_context(telling(listener, self._spots))
            result, error = attempted(self._program.run, stack.pop_all())
        self._num_runs += 1
        self._devices |= {task.device for task in listener.tasks if task.device is not None}
        try:
            synchronize(self._devices)
        except RuntimeError as broken:  # CUDA's own errors stay until the process ends: nothing can be read any more
            self._broken = _line(error or broken)
            order = _completed((aim.second.number, aim.first.number), reference)
            return Shown(aim.seed, order, (_raised(error or broken),)), True
        if teller.failure is not None:
            raise _ours(teller.failure)
        if error is not None:
            differences: tuple[Difference, ...] = (_raised(error),)
        else:
            differences = self._differences(self._outputs(result), reference)
        is_turned = listener.is_turned
        turned = ((aim.second.number, aim.first.number),) if is_turned else ()
        order = _completed(listener.order(), reference) if differences else ()
        del result
        self._state.restore()
        differences = self._lasting(differences, reference)
        return Shown(aim.seed, order, differences, turned) if differences else None, is_turned

    def _lasting(self, differences: tuple[Difference, ...], reference: _Reference) -> tuple[Difference, ...]:
        """The differences in values that a further run in the program's order has as they were: they are no chance."""
        if not differences:
            return ()
        again = self._in_order().prints
        unsteady = [name for name in reference.prints if again.get(name) != reference.prints[name]]
        self._note_unsteady(unsteady)
        for name in unsteady:
            del reference.prints[name], reference.values[name]
        return tuple(one for one in differences if one.name not in unsteady)

    def _differences(self, found: Mapping[str, Any], reference: _Reference) -> tuple[Difference, ...]:
        prints = fingerprints({name: found[name] for name in reference.prints if name in found})
        told: list[Difference] = []
        for name, expected in reference.values.items():
            if name not in found:
                told.append(Difference(name, 0, 0, (), None, None, None, (), "", error="NameError: it is not there"))
            elif prints[name] != reference.prints[name]:
                told += filter(None, [difference(name, expected, found[name])])
        return tuple(told)

    def _step(self, task: Task) -> Step:
        lane = "host" if task.device is None or task.stream is None else self._lane(task.device, task.stream)
        return Step(task.number, lane, task.name, str(task.place), task.place.source)


def _ours(failure: Exception) -> ExploreError:
    """What went wrong in watching the program, and not in it."""
    if isinstance(failure, torch.OutOfMemoryError):
        told = ExploreError(
            "there is not enough memory to keep the tensors that the program writes, which a repeated run needs: "
            f"{_line(failure)} Confirm it on a smaller input."
        )
    else:
        told = ExploreError(
            f"the program could not be steered: {type(failure).__name__}: {_line(failure)} It is as it was before. "
            "`cudalens doctor` says whether kernels of our own run here."
        )
    told.__cause__ = failure
    return told


def pairs_of(suspect: Suspect, tasks: Sequence[Task]) -> list[tuple[Task, Task]]:
    """The tasks that are a race's accesses: each first one with the next second one on another stream."""
    firsts, seconds = _found(suspect.first, tasks), _found(suspect.second, tasks)
    pairs: list[tuple[Task, Task]] = []
    for first in firsts:
        later = next((s for s in seconds if s.number > first.number and s.lane != first.lane), None)
        if later is not None and first.device is not None:
            pairs.append((first, later))
    return pairs[:_MAX_PAIRS]


def _completed(order: Sequence[int], reference: _Reference) -> tuple[int, ...]:
    """An order of all the program's tasks; those that it lacks stand where they are in the program's."""
    known = [number for number in dict.fromkeys(order) if number < len(reference.tasks)]
    low = min(known, default=0)
    rest = [task.number for task in reference.tasks if task.number not in set(known)]
    return (*(n for n in rest if n < low), *known, *(n for n in rest if n >= low))


def _found(spot: Spot, tasks: Sequence[Task]) -> list[Task]:
    for is_it in spot.ways:
        if found := [task for task in tasks if is_it(task)]:
            return found
    return []


def _raised(error: Exception) -> Difference:
    told = f"{type(error).__name__}: {_line(error)}"
    return Difference("the program", 0, 0, (), None, None, None, (), "", error=told)


def _what(task: Task) -> tuple[str, str, int]:
    return task.name, task.place.filename, task.place.line


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
