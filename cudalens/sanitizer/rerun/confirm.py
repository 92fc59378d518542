"""Whether races change values: compare runs with a delayed stream to runs in program order."""

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
from cudalens.sanitizer.rerun.delayed_run import Aim, Delayed, InOrder, attempted, synchronize, warm_up
from cudalens.sanitizer.rerun.program import Program, State, copied, difference, fingerprints
from cudalens.sanitizer.rerun.tasks import Spot, Task, reported_tasks

#: Default number of delayed runs for each race.
DEFAULT_RUNS: Final = 20

#: Number of races that are tried, from the first.
MAX_RACES: Final = 16

#: Number of pairs of tasks of one race that are tried in turn; a loop has many.
_MAX_PAIRS: Final = 4

#: Number of runs in which a pair keeps its order before it is dropped.
_MAX_MISSES: Final = 3

_MAX_OTHERS: Final = 8
_LEAST_HOLD_NS: Final = 20_000_000
_MOST_HOLD_NS: Final = 2_000_000_000

#: Duration of a hold relative to the time of the host from one access to the other.
_SLACK: Final = 4

#: Factor for the next hold after one that ended too early.
_LONGER: Final = 5

#: Default time after which no further run starts, s.
DEFAULT_LIMIT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Suspect:
    """A race that was reported.

    Attributes:
        text: One line of text.
        first: Its first access.
        second: Its second access.
    """

    text: str
    first: Spot
    second: Spot


@dataclass(frozen=True, slots=True)
class _Reference:
    """The result of a run in program order.

    Attributes:
        tasks: Its tasks.
        issued_s: Time at which the host issued each, s.
        values: Copies of its outputs.
        prints: Their fingerprints; numbers are their own.
    """

    tasks: list[Task]
    issued_s: list[float]
    values: dict[str, Any]
    prints: dict[str, Any]


@dataclass(slots=True)
class _Attempts:
    """The attempts with one pair of tasks.

    Attributes:
        first: The task that is delayed.
        second: The task that should run before it.
        hold_ns: The longest delay in the next run, ns.
        num_misses: Number of runs in which they kept their order.
        is_ordered: Whether the second waits for the first.
    """

    first: Task
    second: Task
    hold_ns: int
    num_misses: int = 0
    is_ordered: bool = False

    @property
    def is_open(self) -> bool:
        """Whether another run can succeed."""
        return not self.is_ordered and self.num_misses < _MAX_MISSES


class Confirmer:
    """Runs a program repeatedly.

    Args:
        program: The program.
        suspects: The races.
        runs: Number of delayed runs for each race.
        hold_ns: The longest delay of a stream, ns; None to derive it from the time of the host between the accesses.
        limit_s: Time after which no further run starts, s.
        lane: Returns the name of a stream by its device and handle.
        source: The device of the program, as in a Trace.
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
        self._interrupts = DeferredInterrupts("confirmation")

    def confirm(self) -> Exploration:
        """Run it at most ``2 + 2 * runs * races`` times, and restore the state at the end.

        Raises:
            ExploreError: It cannot run repeatedly.
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
            is_delayed=True,
        )

    def _warm_up(self) -> None:
        try:
            for device in {first.device for pairs in self._pairs for first, _ in pairs if first.device is not None}:
                warm_up(device)
        except Exception as error:  # Triton raises many types
            raise _own_error(error) from error

    @defers_interrupts("confirmation")
    def _end(self) -> None:
        """Release all holds and restore the state, also after an error."""
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
        """Two runs in program order: values that differ between them are not compared."""
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
            listed = ", ".join(f"`{name}`" for name in names[:_MAX_OTHERS])
            more = f" and {len(names) - _MAX_OTHERS} more" if len(names) > _MAX_OTHERS else ""
            self._notes.append(f"not compared, since two runs in the program's order differ in it: {listed}{more}")

    def _in_order(self) -> _Reference:
        """One run in program order; the state is restored afterwards.

        Raises:
            ExploreError: The program raises, or cannot be observed.
        """
        listener = InOrder(self._state)
        with ExitStack() as stack:
            reporter = stack.enter_context(reported_tasks(listener, self._spots))
            result, error = attempted(self._program.run, stack.pop_all())
        self._wait(listener.tasks, error or reporter.failure)
        if reporter.failure is not None:
            raise _own_error(reporter.failure)
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
        """Wait for all tasks of a run in program order.

        Raises:
            ExploreError: CUDA reports an error, after which the device cannot be used.
        """
        self._devices |= {task.device for task in tasks if task.device is not None}
        try:
            synchronize(self._devices)
        except RuntimeError as broken:
            self._broken = _line(error or broken)
            raise ExploreError(
                f"run again, in its own order, the program ends with a CUDA error: {self._broken} The device "
                "cannot be used any more; restart this process."
            ) from broken

    def _outputs(self, result: Any) -> dict[str, Any]:
        """Return the outputs that the program created or wrote."""
        found = self._program.outputs(result)
        return {n: v for n, v in found.items() if not isinstance(v, torch.Tensor) or self._state.was_written(v)}

    def _judged(self, number: int, suspect: Suspect, reference: _Reference) -> RaceVerdict:
        pairs = self._pairs[number]
        numbers = tuple((first.number, second.number) for first, second in pairs)
        tried = [_Attempts(first, second, self._hold_for(first, second, reference)) for first, second in pairs]
        why = self._why_not(number, pairs)
        num_reversed = 0
        for run in range(0 if why else self._runs):
            open_ones = [one for one in tried if one.is_open]
            if not open_ones or self._is_over():
                break
            shown, is_reversed = self._attempt(open_ones[run % len(open_ones)], reference)
            num_reversed += is_reversed
            if shown is not None and is_reversed:
                self._note_together(number, shown)
                return RaceVerdict(number, suspect.text, "confirmed", num_reversed, numbers, shown)
            if shown is not None and len(self._others) < _MAX_OTHERS:
                self._others.append(shown)
            if self._broken is not None:
                break
        if num_reversed:
            return RaceVerdict(number, suspect.text, "benign", num_reversed, numbers)
        if not why and tried and all(one.is_ordered for one in tried):
            why = "its first access still came first: the second one, or the host before it, waits for it"
        why = why or "held as long as allowed, its first access still came first"
        return RaceVerdict(number, suspect.text, "unknown", 0, numbers, why=why)

    def _is_over(self) -> bool:
        self._interrupts.deliver()
        if time.monotonic() < self._ends_s:
            return False
        self._notes.append(f"no further run was started after {self._limit_s:,.0f} s")
        return True

    def _why_not(self, number: int, pairs: Sequence[tuple[Task, Task]]) -> str:
        """Why a race cannot be tried; empty if it can."""
        if number >= MAX_RACES:
            return f"only the first {MAX_RACES} races are tried at a time"
        if self._broken is not None:
            return "the device cannot be used any more"
        if time.monotonic() >= self._ends_s:
            return f"the limit of {self._limit_s:,.0f} s was reached"
        return "" if pairs else "its accesses were not seen on two streams when the program ran again"

    def _note_together(self, number: int, shown: Shown) -> None:
        """Add a note with the other races that the confirming schedule reverses: it confirms them together."""
        place = {task: at for at, task in enumerate(shown.order)}
        others = [
            other + 1
            for other, pairs in enumerate(self._pairs)
            if other != number and any(place[a.number] > place[b.number] for a, b in pairs)
        ]
        if others:
            names = ", ".join(map(str, others))
            self._notes.append(f"in schedule {shown.seed!r} of race {number + 1} other races are reversed too: {names}")

    def _hold_for(self, first: Task, second: Task, reference: _Reference) -> int:
        needed_s = reference.issued_s[second.number] - reference.issued_s[first.number]
        least = max(_LEAST_HOLD_NS, round(_SLACK * needed_s * 1e9))
        return self._hold_ns or min(least, _MOST_HOLD_NS)

    def _attempt(self, pair: _Attempts, reference: _Reference) -> tuple[Shown | None, bool]:
        """One run: the schedule if values differ in it, and whether it reversed the accesses."""
        listener = Delayed(self._state, Aim(pair.first, pair.second, pair.hold_ns))
        shown, is_reversed = self._delayed(listener, reference)
        pair.num_misses += not is_reversed
        pair.is_ordered = listener.is_ordered
        if not is_reversed and self._hold_ns is None:
            pair.hold_ns = min(pair.hold_ns * _LONGER, _MOST_HOLD_NS)
        return shown, is_reversed

    def _delayed(self, listener: Delayed, reference: _Reference) -> tuple[Shown | None, bool]:
        aim = listener.aim
        with ExitStack() as stack:
            stack.callback(listener.end)
            reporter = stack.enter_context(reported_tasks(listener, self._spots))
            result, error = attempted(self._program.run, stack.pop_all())
        self._num_runs += 1
        self._devices |= {task.device for task in listener.tasks if task.device is not None}
        try:
            synchronize(self._devices)
        except RuntimeError as broken:  # CUDA's errors persist until the process ends
            self._broken = _line(error or broken)
            order = _completed((aim.second.number, aim.first.number), reference)
            return Shown(aim.seed, order, (_raised(error or broken),)), True
        if reporter.failure is not None:
            raise _own_error(reporter.failure)
        if error is not None:
            differences: tuple[Difference, ...] = (_raised(error),)
        else:
            differences = self._differences(self._outputs(result), reference)
        is_reversed = listener.is_reversed
        reversed_pairs = ((aim.second.number, aim.first.number),) if is_reversed else ()
        order = _completed(listener.order(), reference) if differences else ()
        del result
        self._state.restore()
        differences = self._lasting(differences, reference)
        return Shown(aim.seed, order, differences, reversed_pairs) if differences else None, is_reversed

    def _lasting(self, differences: tuple[Difference, ...], reference: _Reference) -> tuple[Difference, ...]:
        """Return the differences without values that a further run in program order changes as well."""
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
        differing: list[Difference] = []
        for name, expected in reference.values.items():
            if name not in found:
                missing = "NameError: it is not there"
                differing.append(Difference(name, 0, 0, (), None, None, None, (), "", error=missing))
            elif prints[name] != reference.prints[name]:
                differing += filter(None, [difference(name, expected, found[name])])
        return tuple(differing)

    def _step(self, task: Task) -> Step:
        lane = "host" if task.device is None or task.stream is None else self._lane(task.device, task.stream)
        return Step(task.number, lane, task.name, str(task.place), task.place.source)


def _own_error(failure: Exception) -> ExploreError:
    """Return the error for a failure in the observation of the program."""
    if isinstance(failure, torch.OutOfMemoryError):
        error = ExploreError(
            "there is not enough memory to keep the tensors that the program writes, which a repeated run needs: "
            f"{_line(failure)} Confirm it on a smaller input."
        )
    else:
        error = ExploreError(
            f"the streams of the program could not be delayed: {type(failure).__name__}: {_line(failure)} Its state "
            "is restored. `cudalens doctor` reports whether cudalens's kernels run here."
        )
    error.__cause__ = failure
    return error


def pairs_of(suspect: Suspect, tasks: Sequence[Task]) -> list[tuple[Task, Task]]:
    """Return the tasks of a race's accesses: each first one with the next second one on another stream."""
    firsts, seconds = _found(suspect.first, tasks), _found(suspect.second, tasks)
    pairs: list[tuple[Task, Task]] = []
    for first in firsts:
        later = next((s for s in seconds if s.number > first.number and s.lane != first.lane), None)
        if later is not None and first.device is not None:
            pairs.append((first, later))
    return pairs[:_MAX_PAIRS]


def _completed(order: Sequence[int], reference: _Reference) -> tuple[int, ...]:
    """Return an order of all tasks of the program; missing ones keep their place of program order."""
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
    text = f"{type(error).__name__}: {_line(error)}"
    return Difference("the program", 0, 0, (), None, None, None, (), "", error=text)


def _what(task: Task) -> tuple[str, str, int]:
    return task.name, task.place.filename, task.place.line


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
