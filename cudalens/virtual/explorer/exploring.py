"""Run a log in other orders, and decide which of its races change values.

A race is confirmed if two schedules that differ only in which of its accesses comes first give different bits (only
conflicting accesses count: nothing else can change a value). If races can only be reversed together, and values differ
when they are, each of them is confirmed by that schedule.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import torch

from cudalens.errors import ExploreError
from cudalens.frames.exploration import Difference, Exploration, RaceVerdict, Shown, Step
from cudalens.virtual.explorer.logged import UNWRITTEN, Image, LoggedOp, Place, Span, merged
from cudalens.virtual.explorer.orders import (
    Program,
    Schedule,
    all_orders,
    at_random,
    in_program_order,
    rushed,
    schedule_of,
    stalled,
    with_delays,
)
from cudalens.virtual.explorer.outcomes import Outcome, Output, Seen, differences, digest, outcome_of

if TYPE_CHECKING:
    from cudalens.virtual.explorer.op_log import OpLog


# Find unordered tasks that access the same bytes, of which one writes: pairs whose order can change a value.

#: Two tasks in the order in which the host issued them.
Pair = tuple[int, int]

#: Larger places count as overlapping if their extents overlap.
MAX_EXACT_BYTES: Final = 16 << 20


def unordered_conflicts(program: Program, ops: Sequence[LoggedOp], *, at_most: int) -> list[Pair]:
    """Pairs of unordered tasks that access the same byte, of which one writes it.

    Args:
        program: The order of the tasks.
        ops: The tasks.
        at_most: The maximum number of pairs.
    """
    found: set[Pair] = set()
    for numbers in _by_extent(ops):
        for position, second in enumerate(numbers):
            for first in numbers[:position]:
                if program.is_unordered(first, second) and conflict(ops[first], ops[second]):
                    found.add((first, second))
                    if len(found) >= at_most:
                        return sorted(found)
    return sorted(found)


def _by_extent(ops: Sequence[LoggedOp]) -> list[list[int]]:
    """Return the tasks that access each extent of memory."""
    spans = [sorted({*op.written(), *(place.span for place in op.reads)}) for op in ops]
    extents = merged(span for of_op in spans for span in of_op)
    owner: dict[Span, int] = {}
    position = 0
    for span in sorted({span for of_op in spans for span in of_op if span.start < span.end}):
        while not extents[position].overlaps(span):
            position += 1
        owner[span] = position
    found: dict[int, list[int]] = defaultdict(list)
    for number, of_op in enumerate(spans):
        for extent in sorted({owner[span] for span in of_op if span in owner}):
            found[extent].append(number)
    return list(found.values())


def conflict(one: LoggedOp, other: LoggedOp) -> bool:
    """Return whether two tasks access the same byte and one of them writes it."""
    mine, theirs = _written(one), _written(other)
    return _any_overlap(mine, theirs) or _any_overlap(mine, other.reads) or _any_overlap(one.reads, theirs)


def _written(op: LoggedOp) -> list[Place]:
    places = [*op.writes, *(place for _, place in op.makes), *(after for _, after in op.moves)]
    return places + [Place(span, torch.uint8, (span.end - span.start,), (1,), 0) for span, _ in op.contents]


def _any_overlap(places: Sequence[Place], others: Sequence[Place]) -> bool:
    return any(overlap(place, other) for place in places for other in others)


def overlap(one: Place, other: Place) -> bool:
    """Return whether two tensors share a byte; tensors with gaps are compared element by element."""
    mine, theirs = one.span, other.span
    if not mine.overlaps(theirs):
        return False
    start, end = min(mine.start, theirs.start), max(mine.end, theirs.end)
    if (_is_dense(one) and _is_dense(other)) or end - start > MAX_EXACT_BYTES:
        return True
    taken = torch.zeros(end - start, dtype=torch.bool)
    _bytes(taken, one, start).fill_(True)
    return bool(_bytes(taken, other, start).any())


def _is_dense(place: Place) -> bool:
    span, count = place.span, 1
    for length in place.size:
        count *= length
    return span.end - span.start == count * place.dtype.itemsize


def _bytes(memory: torch.Tensor, place: Place, start: int) -> torch.Tensor:
    """Return each byte of a tensor, in a buffer whose first byte is at `start`."""
    item = place.dtype.itemsize
    stride = (*(step * item for step in place.stride), 1)
    return memory.as_strided((*place.size, item), stride, place.span.start - start)


#: The maximum number of unordered pairs.
MAX_CONFLICTS: Final = 10_000

#: The number of pairs per race for which schedules are constructed; a loop has many pairs.
_PAIRS_OF_RACE: Final = 4

#: The number of schedules shown that reverse no reported race but change values.
_MAX_SHOWN: Final = 8

#: XOR mask for unwritten bytes, to find values that depend on them.
_OTHER: Final = 0x15

#: The races (by number) and other conflicts that a schedule reverses.
Reversed = frozenset[int | Pair]


@dataclass(frozen=True, slots=True)
class Suspect:
    """A reported race.

    Attributes:
        text: A description in one line.
        pairs: The task pairs of its accesses, in program order.
    """

    text: str
    pairs: Sequence[Pair]


@dataclass(slots=True)
class _Run:
    """An executed schedule and its result."""

    schedule: Schedule
    reversed_keys: Reversed
    differences: tuple[Difference, ...]
    digest: tuple[object, ...]


class Explorer:
    """Explores the orders of one log.

    Args:
        log: A stopped log.
        outputs: The variables to compare, by name.
        source: The device of the program, as in a Trace.
        lanes: The names of the lanes.
        max_bytes: The limit of memory for the reruns.

    Raises:
        ExploreError: The program cannot be run again, or needs too much memory.
    """

    def __init__(
        self, log: OpLog, outputs: Mapping[str, Output], *, source: str, lanes: Sequence[str], max_bytes: int
    ) -> None:
        if log.problem is not None:
            raise ExploreError(f"this program cannot be run again in other orders: {log.problem}.")
        self._log = log
        self._ops: Sequence[LoggedOp] = log.ops
        self._program, self._source, self._lanes = log.program, source, lanes
        self._outputs = dict(outputs)
        self._blank: dict[int, list[Span]] = {}
        for number, span in log.memory.blank:
            self._blank.setdefault(number, []).append(span)
        touched = [span for op in log.ops for span in op.touched()] + [o.place.storage for o in outputs.values()]
        num_bytes = Image.size_of(touched, log.memory.initial)
        if num_bytes > max_bytes:
            raise ExploreError(
                f"running this program again needs {num_bytes / 2**20:,.0f} MiB of host memory; the limit is "
                f"{max_bytes / 2**20:,.0f} MiB. Explore a shorter block or smaller tensors, or raise explore_bytes."
            )
        self._image = Image(touched, log.memory.initial)
        self._variables = {name: output.place for name, output in outputs.items()}
        self._names = _names(log.ops) | {name: name for name in outputs}
        self.notes: list[str] = []
        self._expected: Outcome | None = None

    def explore(self, suspects: Sequence[Suspect], *, budget: int, seed: int) -> Exploration:
        """Run other orders.

        Args:
            suspects: The reported races.
            budget: The maximum number of orders besides program order.
            seed: The first seed of random orders.
        """
        expected = self._in_program_order()
        conflicts = unordered_conflicts(self._program, self._ops, at_most=MAX_CONFLICTS)
        # Return the races and conflicts that can be reversed, with their pairs of tasks.
        found: dict[int | Pair, list[Pair]] = {n: list(suspect.pairs) for n, suspect in enumerate(suspects)}
        of_races = {pair for suspect in suspects for pair in suspect.pairs}
        pairs_by_key = found | {pair: [pair] for pair in conflicts if pair not in of_races}
        runs = [_Run(in_program_order(self._program), frozenset(), (), _digest(expected))]
        first_orders = list(itertools.islice(all_orders(self._program), budget + 2))
        # All orders except program order, if the budget covers them.
        few = first_orders[1:] if len(first_orders) <= budget + 1 else None
        known: dict[object, tuple[Difference, ...]] = {runs[0].digest: ()}
        for schedule in self._chosen(self._aimed(suspects, conflicts), few, budget, seed):
            outcome = self._outcome(schedule)
            bits = _digest(outcome)
            if bits not in known:
                known[bits] = tuple(differences(expected, outcome, self._names))
            runs.append(_Run(schedule, _reversed(schedule, pairs_by_key), known[bits], bits))
        return self._exploration(suspects, runs, is_exhaustive=few is not None)

    def replay(self, seed: str | int) -> Shown:
        """Run one schedule, and return the differences.

        Raises:
            ExploreError: The seed is not valid for this program.
        """
        schedule = schedule_of(self._program, seed)
        found = tuple(differences(self._in_program_order(), self._outcome(schedule), self._names))
        conflicts = unordered_conflicts(self._program, self._ops, at_most=MAX_CONFLICTS)
        reversed_keys = [
            pair for pair in _reversed(schedule, {pair: [pair] for pair in conflicts}) if isinstance(pair, tuple)
        ]
        return Shown(
            schedule.seed, schedule.order, found, tuple((second, first) for first, second in sorted(reversed_keys))
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        """The tasks for display."""
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
        """Return the outcome of program order."""
        if self._expected is None:
            order = in_program_order(self._program)
            as_run = self._outcome(order)
            if self._log.num_threads is None:
                self._log.num_threads = self._choose_threads(order, as_run)
            self._expected = self._outcome(order)
            self._check(as_run, self._expected, self._outcome(order, UNWRITTEN ^ _OTHER, self._blank))
        return self._expected

    def _choose_threads(self, order: Schedule, as_run: Outcome) -> int:
        """Return the number of threads for reruns: as in the run, or one if that is faster or needed for equal results.

        On a busy machine, small operators spend more time waiting for threads than computing.
        """
        many = torch.get_num_threads()
        begin = time.perf_counter()
        is_same = _digest(self._outcome(order)) == _digest(as_run)
        middle = time.perf_counter()
        if not is_same:
            self.notes.append("an operator is not deterministic on several threads; one thread was used.")
            return 1
        self._log.num_threads = 1
        self._outcome(order)
        return 1 if time.perf_counter() - middle < middle - begin else many

    def _check(self, as_run: Outcome, expected: Outcome, other: Outcome) -> None:
        """Compare with the original run, and with a rerun that has other values in unwritten bytes."""
        for name, output in self._outputs.items():
            if digest(expected.values[name]) != digest(other.values[name]):
                self.notes.append(f"`{name}` depends on uninitialized memory, also in program order.")
            elif digest(as_run.values[name]) != output.digest and digest(expected.values[name]) != output.digest:
                self.notes.append(
                    f"`{name}` differs from the original run when its tasks are run again in program order: something "
                    "outside of torch wrote it. The verdicts about it may be wrong."
                )

    def _chosen(
        self, aimed: Iterator[Schedule], few: list[tuple[int, ...]] | None, budget: int, seed: int
    ) -> Iterator[Schedule]:
        """The schedules to run, without duplicates."""
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
        """Schedules that reverse one pair each: the pairs of races first, round robin over the races."""
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

    def _exploration(self, suspects: Sequence[Suspect], runs: list[_Run], *, is_exhaustive: bool) -> Exploration:
        showing = _attributed(len(suspects), runs)
        verdicts = [self._verdict(n, suspect, runs, showing.get(n)) for n, suspect in enumerate(suspects)]
        others = [run for run in runs if run.differences and not any(isinstance(t, int) for t in run.reversed_keys)]
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
        count = sum(number in run.reversed_keys for run in runs)
        pairs = tuple(suspect.pairs)
        if run is not None:
            return RaceVerdict(number, suspect.text, "confirmed", count, pairs, _shown(run, [suspect]))
        if count:
            return RaceVerdict(number, suspect.text, "benign", count, pairs)
        why = (
            "no schedule within the budget reversed it"
            if pairs
            else "its accesses are not among the logged tasks; they may bypass torch"
        )
        return RaceVerdict(number, suspect.text, "unknown", 0, pairs, why=why)


def _names(ops: Sequence[LoggedOp]) -> dict[Seen, str]:
    """Return the names of values that the host read, and of operators that raised."""
    return {number: op.site.expression or f"{op.name} at {op.site}" for number, op in enumerate(ops)}


def _reversed(schedule: Schedule, pairs_by_key: Mapping[int | Pair, list[Pair]]) -> Reversed:
    position = {number: place for place, number in enumerate(schedule.order)}
    return frozenset(
        key for key, pairs in pairs_by_key.items() if any(position[first] > position[second] for first, second in pairs)
    )


def _digest(outcome: Outcome) -> tuple[object, ...]:
    values = ((seen, digest(value)) for seen, value in outcome.values.items())
    return (*values, *outcome.errors.items())


def _attributed(num_races: int, runs: list[_Run]) -> dict[int, _Run]:
    """For each confirmed race, the run that confirms it with the fewest changes."""
    runs = sorted(runs, key=lambda run: len(run.reversed_keys))
    found: dict[int, _Run] = {}
    for run in runs:
        for other in runs:
            gap = run.reversed_keys - other.reversed_keys
            if (
                len(gap) == 1
                and other.reversed_keys < run.reversed_keys
                and run.digest != other.digest
                and run.differences
            ):
                (key,) = gap
                if isinstance(key, int):
                    found.setdefault(key, run)
    for run in runs:
        together = [key for key in run.reversed_keys if isinstance(key, int)]
        if run.differences and together and not any(key in found for key in together):
            found |= dict.fromkeys(together, run)
    return found


def _shown(run: _Run, suspects: Sequence[Suspect]) -> Shown:
    pairs = [pair for suspect in suspects for pair in suspect.pairs]
    position = {number: place for place, number in enumerate(run.schedule.order)}
    reversed_keys = [(second, first) for first, second in pairs if position[first] > position[second]]
    reversed_keys += [(pair[1], pair[0]) for pair in run.reversed_keys if isinstance(pair, tuple)]
    return Shown(run.schedule.seed, run.schedule.order, run.differences, tuple(dict.fromkeys(reversed_keys)))
