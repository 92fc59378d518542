"""Trying a log's other orders, and telling which of its races show in values.

A race is confirmed when two schedules that differ in nothing but in which of its accesses comes first leave different
bits behind (conflicting accesses alone count: nothing else can change a value). Where races can only change places
together, and values differ when they do, each of them is confirmed by that schedule.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import torch

from cudalens.errors import ExploreError
from cudalens.frames.exploration import Difference, Exploration, RaceVerdict, Shown, Step
from cudalens.virtual.explorer.conflicts import Pair, unordered_conflicts
from cudalens.virtual.explorer.differences import differences
from cudalens.virtual.explorer.image import UNWRITTEN, Image
from cudalens.virtual.explorer.outcomes import Outcome, Seen, outcome_of
from cudalens.virtual.explorer.outputs import Output, digest
from cudalens.virtual.explorer.schedules import (
    Schedule,
    all_orders,
    at_random,
    in_program_order,
    rushed,
    schedule_of,
    stalled,
    with_delays,
)

if TYPE_CHECKING:
    from cudalens.virtual.explorer.logged import LoggedOp
    from cudalens.virtual.explorer.op_log import OpLog
    from cudalens.virtual.explorer.places import Span

#: Unordered pairs that are looked for, at most.
MAX_CONFLICTS: Final = 10_000

#: Pairs of one race that are turned around on purpose; a loop makes many.
_PAIRS_OF_RACE: Final = 4

#: Schedules that are kept to be shown where no reported race is turned around in them.
_MAX_SHOWN: Final = 8

#: What is changed of bytes that nobody wrote, to see who depends on them.
_OTHER: Final = 0x15

#: The races, by number, and the other conflicts that a schedule turns around.
Turned = frozenset[int | Pair]


@dataclass(frozen=True, slots=True)
class Suspect:
    """A race that was reported.

    Attributes:
        text: In one line.
        pairs: The tasks that are its accesses, in the program's order.
    """

    text: str
    pairs: Sequence[Pair]


@dataclass(slots=True)
class _Run:
    """A schedule that has been tried."""

    schedule: Schedule
    turned: Turned
    differences: tuple[Difference, ...]
    digest: tuple[object, ...]


class Explorer:
    """Tries the orders of one log.

    Args:
        log: It has been stopped.
        outputs: Variables to compare, by name.
        source: Where the program ran, as a Trace names it.
        lanes: Names of the lanes.
        max_bytes: Memory that it may be done in again.

    Raises:
        ExploreError: The log says why not, or there is nothing to do again.
    """

    def __init__(
        self, log: OpLog, outputs: Mapping[str, Output], *, source: str, lanes: Sequence[str], max_bytes: int
    ) -> None:
        if log.problem is not None:
            raise ExploreError(f"this program cannot be done again in other orders: {log.problem}.")
        self._log = log
        self._ops: Sequence[LoggedOp] = log.ops
        self._program, self._source, self._lanes = log.program, source, lanes
        self._outputs = dict(outputs)
        self._blank: dict[int, list[Span]] = {}
        for number, span in log.memory.blank:
            self._blank.setdefault(number, []).append(span)
        touched = [span for op in log.ops for span in op.touched()] + [o.place.storage for o in outputs.values()]
        self._image = self._reserved(touched, log, max_bytes)
        self._variables = {name: output.place for name, output in outputs.items()}
        self._names = _names(log.ops) | {name: name for name in outputs}
        self.notes: list[str] = []
        self._expected: Outcome | None = None

    def _reserved(self, touched: list, log: OpLog, max_bytes: int) -> Image:  # type: ignore[type-arg]
        num_bytes = Image.size_of(touched, log.memory.initial)
        if num_bytes > max_bytes:
            raise ExploreError(
                f"doing this program again takes {num_bytes / 2**20:,.0f} MiB of host memory, more than the "
                f"{max_bytes / 2**20:,.0f} MiB allowed. Watch a shorter block, or smaller tensors, or allow for more: "
                "explore_bytes="
            )
        return Image(touched, log.memory.initial)

    def explore(self, suspects: Sequence[Suspect], *, budget: int, seed: int) -> Exploration:
        """Try other orders.

        Args:
            suspects: The races that were reported.
            budget: How many orders beside the program's own, at most.
            seed: The first seed of random ones.
        """
        expected = self._in_program_order()
        conflicts = unordered_conflicts(self._program, self._ops, at_most=MAX_CONFLICTS)
        turners = _turners(suspects, conflicts)
        runs = [_Run(in_program_order(self._program), frozenset(), (), _digest(expected))]
        few = self._if_few(budget)
        known: dict[object, tuple[Difference, ...]] = {runs[0].digest: ()}
        for schedule in self._chosen(self._aimed(suspects, conflicts), few, budget, seed):
            outcome = self._outcome(schedule)
            bits = _digest(outcome)
            if bits not in known:
                known[bits] = tuple(differences(expected, outcome, self._names))
            runs.append(_Run(schedule, _turned(schedule, turners), known[bits], bits))
        return self._told(suspects, runs, is_exhaustive=few is not None)

    def replay(self, seed: str | int) -> Shown:
        """Do one schedule again, and say what differs.

        Raises:
            ExploreError: The seed is none of this program.
        """
        schedule = schedule_of(self._program, seed)
        told = tuple(differences(self._in_program_order(), self._outcome(schedule), self._names))
        conflicts = unordered_conflicts(self._program, self._ops, at_most=MAX_CONFLICTS)
        turned = [pair for pair in _turned(schedule, {pair: [pair] for pair in conflicts}) if isinstance(pair, tuple)]
        return Shown(schedule.seed, schedule.order, told, tuple((second, first) for first, second in sorted(turned)))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The tasks, as they are shown."""
        return tuple(
            Step(number, self._lanes[op.lane], op.name, str(op.site), op.site.source)
            for number, op in enumerate(self._ops)
        )

    def _outcome(
        self, schedule: Schedule, unwritten: int = UNWRITTEN, blank: Mapping[int, Sequence[Span]] = MappingProxyType({})
    ) -> Outcome:
        before = torch.get_num_threads()
        torch.set_num_threads(self._log.num_threads or before)
        try:
            return outcome_of(self._ops, schedule.order, self._image, self._variables, unwritten=unwritten, blank=blank)
        finally:
            torch.set_num_threads(before)

    def _in_program_order(self) -> Outcome:
        """What comes of the program's own order."""
        if self._expected is None:
            order = in_program_order(self._program)
            as_run = self._outcome(order)
            if self._log.num_threads is None:
                self._log.num_threads = self._choose_threads(order, as_run)
            self._expected = self._outcome(order)
            self._check(as_run, self._expected, self._outcome(order, UNWRITTEN ^ _OTHER, self._blank))
        return self._expected

    def _choose_threads(self, order: Schedule, as_run: Outcome) -> int:
        """As many as the program had, or one: where operators give other bits each time, or where one is faster.

        Small operators wait longer for threads than they compute, on a busy machine many times as long.
        """
        many = torch.get_num_threads()
        begin = time.perf_counter()
        is_same = _digest(self._outcome(order)) == _digest(as_run)
        middle = time.perf_counter()
        if not is_same:
            self.notes.append("an operator gives other bits each time on several threads; one thread was used.")
            return 1
        self._log.num_threads = 1
        self._outcome(order)
        return 1 if time.perf_counter() - middle < middle - begin else many

    def _check(self, as_run: Outcome, expected: Outcome, other: Outcome) -> None:
        """Compare with what the run itself gave, and with what comes of other bytes where nobody wrote any."""
        for name, output in self._outputs.items():
            if digest(expected.values[name]) != digest(other.values[name]):
                self.notes.append(f"`{name}` depends on memory that nobody wrote, in the program's own order too.")
            elif digest(as_run.values[name]) != output.digest and digest(expected.values[name]) != output.digest:
                self.notes.append(
                    f"`{name}` is not what the run gave when its tasks are done again in their own order: something "
                    "that torch does not see wrote it. What is said of it may not hold."
                )

    def _if_few(self, budget: int) -> list[tuple[int, ...]] | None:
        """All orders but the program's own, where these are no more than may be tried."""
        orders = list(itertools.islice(all_orders(self._program), budget + 2))
        return orders[1:] if len(orders) <= budget + 1 else None

    def _chosen(
        self, aimed: Iterator[Schedule], few: list[tuple[int, ...]] | None, budget: int, seed: int
    ) -> Iterator[Schedule]:
        """Schedules to be tried, no two alike."""
        seen = {in_program_order(self._program).order}
        wanted = itertools.chain(aimed, self._any(few, seed))
        tries = itertools.islice(wanted, 20 * budget + len(few or ()))
        for schedule in tries:
            if len(seen) > budget:
                return
            if schedule.order not in seen:
                seen.add(schedule.order)
                yield schedule

    def _aimed(self, suspects: Sequence[Suspect], conflicts: list[Pair]) -> Iterator[Schedule]:
        """Those that turn around one pair each: of the races first, of one after the other."""
        known = [suspect.pairs[:_PAIRS_OF_RACE] for suspect in suspects]
        rounds = [pair for of_round in itertools.zip_longest(*known) for pair in of_round if pair is not None]
        for first, second in dict.fromkeys([*rounds, *conflicts]):
            if self._program.is_unordered(first, second):
                yield rushed(self._program, second, first)
                yield stalled(self._program, first, second)

    def _any(self, few: list[tuple[int, ...]] | None, seed: int) -> Iterator[Schedule]:
        if few is not None:
            yield from (Schedule(f"legal:{number}", order) for number, order in enumerate(few, 2))
            return
        random = (at_random(self._program, seed + number) for number in itertools.count())
        late = itertools.chain(with_delays(self._program, 1), with_delays(self._program, 2))
        for drawn, delayed in itertools.zip_longest(random, late):
            yield drawn
            if delayed is not None:
                yield delayed

    def _told(self, suspects: Sequence[Suspect], runs: list[_Run], *, is_exhaustive: bool) -> Exploration:
        showing = _attributed(len(suspects), runs)
        verdicts = [self._verdict(n, suspect, runs, showing.get(n)) for n, suspect in enumerate(suspects)]
        others = [run for run in runs if run.differences and not any(isinstance(t, int) for t in run.turned)]
        return Exploration(
            self._source,
            len(runs) - 1,
            is_exhaustive,
            tuple(verdicts),
            tuple(_shown(run, suspects) for run in others[:_MAX_SHOWN]),
            tuple(self._names[seen] for seen in self._expected.values) if self._expected is not None else (),
            self.steps,
            tuple(self.notes),
        )

    def _verdict(self, number: int, suspect: Suspect, runs: list[_Run], run: _Run | None) -> RaceVerdict:
        count = sum(number in run.turned for run in runs)
        pairs = tuple(suspect.pairs)
        if run is not None:
            return RaceVerdict(number, suspect.text, "confirmed", count, pairs, _shown(run, [suspect]))
        if count:
            return RaceVerdict(number, suspect.text, "benign", count, pairs)
        why = (
            "no schedule within the budget turned it around"
            if pairs
            else "its accesses are not among the tasks that were noted; torch may not see them"
        )
        return RaceVerdict(number, suspect.text, "unknown", 0, pairs, why=why)


def _names(ops: Sequence[LoggedOp]) -> dict[Seen, str]:
    """What to call what the host saw, and operators that raise."""
    return {number: op.site.expression or f"{op.name} at {op.site}" for number, op in enumerate(ops)}


def _turners(suspects: Sequence[Suspect], conflicts: list[Pair]) -> dict[int | Pair, list[Pair]]:
    """What can be turned around, and by which pairs of tasks that shows."""
    found: dict[int | Pair, list[Pair]] = {n: list(suspect.pairs) for n, suspect in enumerate(suspects)}
    of_races = {pair for suspect in suspects for pair in suspect.pairs}
    return found | {pair: [pair] for pair in conflicts if pair not in of_races}


def _turned(schedule: Schedule, turners: Mapping[int | Pair, list[Pair]]) -> Turned:
    position = {number: place for place, number in enumerate(schedule.order)}
    return frozenset(
        key for key, pairs in turners.items() if any(position[first] > position[second] for first, second in pairs)
    )


def _digest(outcome: Outcome) -> tuple[object, ...]:
    values = ((seen, digest(value)) for seen, value in outcome.values.items())
    return (*values, *outcome.errors.items())


def _attributed(num_races: int, runs: list[_Run]) -> dict[int, _Run]:
    """The run that shows each race which shows, the one of the fewest changes."""
    runs = sorted(runs, key=lambda run: len(run.turned))
    found: dict[int, _Run] = {}
    for run in runs:
        for other in runs:
            gap = run.turned - other.turned
            if len(gap) == 1 and other.turned < run.turned and run.digest != other.digest and run.differences:
                (key,) = gap
                if isinstance(key, int):
                    found.setdefault(key, run)
    for run in runs:
        together = [key for key in run.turned if isinstance(key, int)]
        if run.differences and together and not any(key in found for key in together):
            found |= dict.fromkeys(together, run)
    return found


def _shown(run: _Run, suspects: Sequence[Suspect]) -> Shown:
    pairs = [pair for suspect in suspects for pair in suspect.pairs]
    position = {number: place for place, number in enumerate(run.schedule.order)}
    turned = [(second, first) for first, second in pairs if position[first] > position[second]]
    turned += [(pair[1], pair[0]) for pair in run.turned if isinstance(pair, tuple)]
    return Shown(run.schedule.seed, run.schedule.order, run.differences, tuple(dict.fromkeys(turned)))
