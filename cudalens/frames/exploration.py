"""Results of running a program's tasks in other orders: which values differ, and which races change values.

The schedule explorer of the virtual device makes them, and reruns on a real device. No torch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

#: Of a race: values differ in some schedule; in no tested schedule; it could not be tested.
Verdict = Literal["confirmed", "benign", "unknown"]

#: Differences of a race that a Trace keeps.
MAX_DIFFERENCES: Final = 16

#: Tasks of a schedule that a Trace keeps.
MAX_TASKS: Final = 16

#: Tasks of an order that are printed.
MAX_ORDER: Final = 40

WORDS: Final[dict[Verdict, str]] = {
    "confirmed": "confirmed by value",
    "benign": "benign so far",
    "unknown": "not tried",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A tensor or a number that differs from its value in the program's order.

    Attributes:
        name: The variable, or the expression by which the host read it.
        num_differing: Elements whose bits differ.
        num_elements: All elements.
        first_index: Index of the first element that differs; empty for a number.
        expected: Its value in the program's order.
        found: Its value in the schedule; None if an operator raised.
        max_abs: Largest absolute difference between numbers; None if there is none (NaN, other dtypes).
        shape: Shape of the tensor.
        dtype: torch's name of the dtype, without ``torch.``.
        heat: For each cell of a grid over the tensor (its last axis as columns, all others as rows) the largest
            difference, as a share of the largest of all; 0 if no bit of the cell differs.
        error: The exception that an operator raised instead, or None.
        is_unwritten: Whether the value found is memory that was never written.
        expected_map: For each cell the value in the program's order of the element that differs most (the magnitude of
            complex numbers).
        found_map: Its value in the schedule.
        samples: Some elements that differ, the first ones and the one that differs most: index, value in the program's
            order, value in the schedule.
    """

    name: str
    num_differing: int
    num_elements: int
    first_index: tuple[int, ...]
    expected: Any
    found: Any
    max_abs: float | None
    shape: tuple[int, ...]
    dtype: str
    heat: tuple[tuple[float, ...], ...] = ()
    error: str | None = None
    is_unwritten: bool = False
    expected_map: tuple[tuple[float, ...], ...] = ()
    found_map: tuple[tuple[float, ...], ...] = ()
    samples: tuple[tuple[tuple[int, ...], Any, Any], ...] = ()

    def __str__(self) -> str:
        if self.error is not None:
            return f"`{self.name}` raises {self.error}"
        found = "memory that was never written" if self.is_unwritten else number(self.found)
        values = f"{found} instead of {number(self.expected)}"
        if not self.shape:
            return f"`{self.name}` differs: {values}"
        are = "element differs" if self.num_elements == 1 else "elements differ"
        count = f"{self.num_differing:,} of {self.num_elements:,} {are}"
        return f"`{self.name}`: {count}, first at {list(self.first_index)}: {values}"


def number(value: Any) -> str:
    """Return a value as short text, with enough digits to see a difference."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Step:
    """A task of a program.

    Attributes:
        number: Its number in the order in which the host issued the tasks, from 0.
        lane: Name of its stream; ``host`` for work of the host itself.
        name: The operator.
        place: Line of the user's program; empty if unknown.
        source: The source of that line.
    """

    number: int
    lane: str
    name: str
    place: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A schedule in which values differ.

    Attributes:
        seed: Seed to run it again (``san.replay_schedule``).
        order: Numbers of its tasks.
        differences: The values that differ.
        turned: Pairs of tasks in another order than in the program: the task that is later there, the earlier one.
    """

    seed: str
    order: tuple[int, ...]
    differences: tuple[Difference, ...]
    turned: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        order = " ".join(map(str, self.order[:MAX_ORDER])) + (" …" if len(self.order) > MAX_ORDER else "")
        values = "\n  ".join(map(str, self.differences)) or "the same bits as in the program's order"
        return f"schedule {self.seed!r}: {order}\n  {values}"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class RaceVerdict:
    """The verdict of the schedules on one race.

    Attributes:
        race: Its number among the sanitizer's races, from 0.
        text: The race in one line.
        verdict: The verdict.
        num_schedules: Schedules in which its two accesses are in reverse order.
        pairs: Numbers of the tasks of its accesses: the first in the program's order, the second.
        shown: The schedule that confirms it, or None.
        why: The reason for a verdict of ``unknown``.
    """

    race: int
    text: str
    verdict: Verdict
    num_schedules: int
    pairs: tuple[tuple[int, int], ...] = ()
    shown: Shown | None = None
    why: str = ""

    def __str__(self) -> str:
        if self.shown is not None:
            what = "; ".join(map(str, self.shown.differences))
            return f"{WORDS['confirmed']}: {what} (schedule {self.shown.seed!r})"
        if self.verdict == "unknown":
            return f"{WORDS['unknown']}: {self.why}"
        times = f"{self.num_schedules} schedule{'s' * (self.num_schedules != 1)}"
        return f"{WORDS['benign']}: the same bits in {times} with its accesses in reverse order"


def columns_of_race(verdict: RaceVerdict, steps: Sequence[Step]) -> dict[str, Any]:
    """Return a verdict as the columns of the frame ``races``.

    ``differs`` is a list of `Difference` as objects. ``schedule`` is an object with the ``seed``, the ``tasks`` around
    the two accesses (as `Step`, in the program's order), their numbers in the ``order`` of the schedule, the numbers of
    the ``first`` and the ``second`` access, and the number of tasks ``left_out``.
    """
    shown = verdict.shown
    found: dict[str, Any] = {"value_verdict": verdict.verdict, "num_schedules": verdict.num_schedules}
    if shown is None:
        return found | {"differs": None, "schedule": None}
    differs = [asdict(difference) for difference in shown.differences[:MAX_DIFFERENCES]]
    return found | {"differs": json.dumps(differs), "schedule": json.dumps(excerpt(shown, verdict.pairs, steps))}


def excerpt(shown: Shown, pairs: Sequence[tuple[int, int]], steps: Sequence[Step]) -> dict[str, Any]:
    """Return the tasks of a schedule around the accesses that are in reverse order in it, at most `MAX_TASKS`."""
    position = {number: place for place, number in enumerate(shown.order)}
    turned = [(first, second) for first, second in pairs if position[first] > position[second]]
    first, second = turned[0] if turned else (None, None)
    marked = [number for number in (first, second) if number is not None]
    near = sorted(range(len(steps)), key=lambda n: min((abs(n - at) for at in marked), default=n))
    kept = sorted({*marked, *near[:MAX_TASKS]})
    return {
        "seed": shown.seed,
        "tasks": [asdict(steps[number]) for number in kept],
        "order": [number for number in shown.order if number in set(kept)],
        "first": first,
        "second": second,
        "left_out": len(steps) - len(kept),
    }


@dataclass(frozen=True, slots=True)
class Exploration:
    """The results of running a program in other orders.

    Attributes:
        source: The device: ``virtual:h100``, ``cuda``.
        num_schedules: Number of distinct orders other than the program's own.
        is_exhaustive: Whether these are all possible orders.
        races: A verdict for each of the sanitizer's races.
        others: Schedules in which values differ, but no race of the sanitizer's is in reverse order.
        outputs: Names of the compared values.
        steps: The program's tasks.
        notes: Further notes for the reader.
        is_delayed: Whether they were runs of the program on a real device, each with delays that lead to another order;
            else the tasks were run one by one.
    """

    source: str
    num_schedules: int
    is_exhaustive: bool
    races: tuple[RaceVerdict, ...] = ()
    others: tuple[Shown, ...] = ()
    outputs: tuple[str, ...] = ()
    steps: tuple[Step, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    is_delayed: bool = False

    @property
    def confirmed(self) -> list[RaceVerdict]:
        """The races that change values."""
        return [race for race in self.races if race.verdict == "confirmed"]

    @property
    def differs(self) -> bool:
        """Whether any schedule changed any bit."""
        return bool(self.confirmed or self.others)

    @property
    def verdict(self) -> str:
        """The result in one line."""
        if self.is_delayed:
            benign = sum(race.verdict == "benign" for race in self.races)
            untried = sum(race.verdict == "unknown" for race in self.races)
            parts = [f"{len(self.confirmed)} of {_count(self.races, 'race')} confirmed by value"]
            parts += [f"{benign} benign so far"] if benign else []
            parts += [f"{untried} not tried"] if untried else []
            found = f"{', '.join(parts)}, in {_count(range(self.num_schedules), 'delayed run')}"
            if self.others:
                found += f"; values differ in {_count(self.others, 'run')} whose accesses kept their order"
            return f"{found}."
        tried = f"{self.num_schedules} other order{'s' * (self.num_schedules != 1)}"
        if self.is_exhaustive:
            tried = (
                "the one other order that is possible" if self.num_schedules == 1 else f"all {tried} that are possible"
            )
        if not self.num_schedules:
            return "No other order is possible: values do not depend on it."
        if not self.races and not self.others:
            return f"Same bits in {tried}: no race was reported, and no value depends on the order."
        if not self.differs:
            return f"Same bits in {tried}: {_count(self.races, 'race')} reported, none confirmed by value so far."
        found = f"{len(self.confirmed)} of {_count(self.races, 'race')} confirmed by value in {tried}"
        if self.others:
            found += f"; values differ in {_count(self.others, 'schedule')} without a reported race"
        return f"{found}."

    def __str__(self) -> str:
        lines = [self.verdict]
        lines += [f"  race {race.race + 1}: {race.text}\n    {race}" for race in self.races]
        lines += [f"  schedule {shown.seed!r}: {'; '.join(map(str, shown.differences))}" for shown in self.others]
        if self.outputs:
            lines.append(f"  compared: {', '.join(self.outputs)}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        from cudalens.views.races.values import exploration_html

        return exploration_html(self)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain types, for JSON."""
        return asdict(self)


def _count(things: Sequence[Any], word: str) -> str:
    return f"{len(things)} {word}{'s' * (len(things) != 1)}"
