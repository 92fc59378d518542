"""The races of a Trace as views show them: one object a race, worst first, texts cleaned and limited in length."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any, Final

import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.frames import Trace
from cudalens.frames.exploration import MAX_DIFFERENCES, MAX_TASKS
from cudalens.views.sections.clean_text import clean, printable, records, whole

#: Stack frames of one stack that are shown.
MAX_STACK: Final = 60

#: Longest diff that is shown whole, in characters.
MAX_DIFF: Final = 20_000

_MAX_STEPS: Final = 400
_ATEN: Final = "aten::"

#: The host's name among the streams.
HOST: Final = "the host"

#: Kinds of races, the worst first: memory of another tensor, then values that were never written, then lost writes.
_HARM: Final = (
    "use after free",
    "read after write",
    "host access",
    "write after write",
    "write after read",
)

#: Titles of the kinds whose name does not say that it is a race.
KIND_TITLES: Final = {"host access": "race with the host"}


@dataclass(frozen=True, slots=True)
class StackLine:
    """One stack frame: its place (``file:line``) and function."""

    place: str
    function: str

    def __str__(self) -> str:
        return f"{self.place} in {self.function}" if self.place else self.function

    @property
    def words(self) -> str:
        """``In[7], line 5, in scale_grads``."""
        file, _, line = self.place.rpartition(":")
        parts = (file, line and f"line {line}", "" if self.function == "<module>" else f"in {self.function}")
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Site:
    """A point in the user's program: place, line of source, call stack innermost first; empty where unknown.

    `captured` is set for an operation of a CUDA graph: where it was captured. Its place is that of the replay.
    """

    place: str = ""
    source: str = ""
    stack: tuple[StackLine, ...] = ()
    captured: Captured | None = None


@dataclass(frozen=True, slots=True)
class Captured:
    """Where an operation of a CUDA graph was captured: place and line of source."""

    place: str
    source: str


@dataclass(frozen=True, slots=True)
class Step:
    """What happened between the two accesses of a race.

    Attributes:
        act: ``launch``, ``event_record``, ``event_wait`` …, as the frame's column ``between`` has it.
        stream: Name of the stream, as of an access; the host's where it is the host's doing.
        name: Operator of a launch, tensor of an allocation.
        event: Number of the cuda_event, or "".
        count: Number of steps, if one entry covers several.
    """

    act: str
    stream: str
    name: str = ""
    event: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class AccessView:
    """One access of a race; empty texts where a fact is not known.

    Attributes:
        op: Operator.
        argument: Its argument.
        is_write: It writes.
        stream: Name of the stream.
        tensor: Name of the tensor.
        layout: dtype and shape, as ``float32[2, 3]``, with strides where it is not contiguous.
        low: First byte, from the start of its block.
        high: Last byte.
        site: Where in the program.
    """

    op: str
    argument: str
    is_write: bool
    stream: str
    tensor: str
    layout: str
    low: int
    high: int
    site: Site

    @property
    def verb(self) -> str:
        """``writes`` or ``reads``."""
        return "writes" if self.is_write else "reads"

    @property
    def title(self) -> str:
        """The operator without torch's own namespace, or a general word."""
        return self.op.removeprefix(_ATEN) or "an operation"


@dataclass(frozen=True, slots=True)
class RaceView:
    """One race.

    Attributes:
        row: Row in ``trace.races``.
        kind: As in the frame.
        count: How often it was seen.
        first: The earlier access.
        second: The later one.
        overlap_low: First byte that both touch, from the start of the second's block.
        overlap_high: Last one.
        overlap_bytes: How many; None where that is beyond counting.
        block_bytes: Size of the second's block; None where unknown.
        block_name: Its name, or "".
        alloc: Where it was allocated.
        free: Where the first's block was freed.
        between: What happened in between; None where that was not recorded.
        fix: What to do, in words; "" where nothing was found.
        fix_diff: Lines of the unified diff.
        value: Whether it shows in values; None where other orders were not tried.
    """

    row: int
    kind: str
    count: int
    first: AccessView
    second: AccessView
    overlap_low: int
    overlap_high: int
    overlap_bytes: int | None
    block_bytes: int | None
    block_name: str
    alloc: Site
    free: Site
    between: tuple[Step, ...] | None
    fix: str
    fix_diff: tuple[str, ...]
    value: ValueView | None = None

    @property
    def is_confirmed(self) -> bool:
        """Whether it shows in values."""
        return self.value is not None and self.value.verdict == "confirmed"

    @property
    def places(self) -> tuple[str, str]:
        """Where both accesses are: a line of the program each, or the operator if that was not recorded."""
        first, second = (side.site.place or side.title for side in (self.first, self.second))
        return first, second

    @property
    def title(self) -> str:
        """The kind, as a heading."""
        return KIND_TITLES.get(self.kind, self.kind) or "race"

    @property
    def tensor(self) -> str:
        """The memory that they race for, in a few words."""
        return self.second.tensor or self.block_name or self.second.layout or "memory"


@once_per_trace
def race_views(trace: Trace) -> list[RaceView]:
    """The races of `trace` that are not suppressed, worst first: those confirmed by value, then by kind and count."""
    races = trace.races
    shown = races[~races["is_suppressed"]]
    stacks = _stacks(trace.stacks, shown)
    views = [_race(int(row), fields, stacks) for row, fields in zip(shown.index, records(shown), strict=True)]
    return sorted(views, key=lambda race: (not race.is_confirmed, harm(race.kind), -race.count, race.row))


def harm(kind: str) -> int:
    """Rank of a kind of race, 0 for the worst; unknown kinds last."""
    return _HARM.index(kind) if kind in _HARM else len(_HARM)


def folded(first: tuple[StackLine, ...], second: tuple[StackLine, ...]) -> tuple[int, int, int]:
    """How two stacks part: number of stack frames of each in which they differ, and of those in common outside."""
    common = 0
    for one, two in zip(reversed(first), reversed(second), strict=False):
        if one != two:
            break
        common += 1
    return len(first) - common, len(second) - common, common


def _stacks(stacks: pd.DataFrame, races: pd.DataFrame) -> Mapping[int, tuple[StackLine, ...]]:
    """The stacks that `races` name, by id."""
    names = [f"{act}_stack" for act in ("first", "second", "alloc", "free")]
    wanted = {int(number) for name in names for number in races[name].dropna()}
    found: dict[int, list[StackLine]] = {}
    for entry in records(stacks[stacks["stack"].isin(wanted)]):
        lines = found.setdefault(int(entry["stack"]), [])
        if len(lines) < MAX_STACK:
            place = "" if entry["file"] is None else f"{entry['file']}:{entry['line'] or '?'}"
            lines.append(StackLine(clean(place), clean(entry["function"] or "?")))
    return {number: tuple(lines) for number, lines in found.items()}


def _race(row: int, fields: dict[str, Any], stacks: Mapping[int, tuple[StackLine, ...]]) -> RaceView:
    return RaceView(
        row=row,
        kind=clean(fields["kind"]),
        count=int(fields["count"]),
        first=_access(fields, "first", stacks),
        second=_access(fields, "second", stacks),
        overlap_low=int(fields["overlap_low_byte"]),
        overlap_high=int(fields["overlap_high_byte"]),
        overlap_bytes=whole(fields["overlap_bytes"]),
        block_bytes=whole(fields["block_bytes"]),
        block_name=clean(fields["block_name"]),
        alloc=_site(fields, "alloc", stacks),
        free=_site(fields, "free", stacks),
        between=_between(fields["between"]),
        fix=clean(fields["fix"], 2000),
        fix_diff=_diff(fields["fix_diff"]),
        value=value_view(fields),
    )


def _access(fields: dict[str, Any], side: str, stacks: Mapping[int, tuple[StackLine, ...]]) -> AccessView:
    def text(name: str) -> str:
        return clean(fields[f"{side}_{name}"])

    return AccessView(
        op=text("op"),
        argument=text("argument"),
        is_write=bool(fields[f"{side}_is_write"]),
        stream=text("stream_name") or "unknown stream",
        tensor=text("tensor"),
        layout=_layout(text("dtype"), text("shape"), text("stride")),
        low=int(fields[f"{side}_low_byte"]),
        high=int(fields[f"{side}_high_byte"]),
        site=replace(_site(fields, side, stacks), captured=_captured(fields, side)),
    )


def _captured(fields: dict[str, Any], side: str) -> Captured | None:
    place = clean(fields[f"{side}_captured_place"])
    return Captured(place, clean(fields[f"{side}_captured_source"]).strip()) if place else None


def _layout(dtype: str, shape: str, stride: str) -> str:
    """``float32[2, 3]``, with its strides where those are not the contiguous ones."""
    if not shape:
        return dtype
    return f"{dtype}{shape}" + (f", strides {stride}" if stride else "")


def _site(fields: dict[str, Any], side: str, stacks: Mapping[int, tuple[StackLine, ...]]) -> Site:
    stack = fields[f"{side}_stack"]
    return Site(
        place=clean(fields[f"{side}_place"]),
        source=clean(fields[f"{side}_source"]).strip(),
        stack=() if stack is None else stacks.get(int(stack), ()),
    )


def _between(text: str | None) -> tuple[Step, ...] | None:
    """The column ``between``; None where it is missing, or no list of objects."""
    try:
        entries = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(entries, list):
        return None
    steps = [_chain_step(entry) for entry in entries[:_MAX_STEPS] if isinstance(entry, dict)]
    return tuple(step for step in steps if step.act not in ("first", "second"))


def _chain_step(entry: dict[str, Any]) -> Step:
    def text(name: str) -> str:
        return clean(entry.get(name), 120)

    count = entry.get("count")
    return Step(
        act=text("act"),
        stream=text("stream") or HOST,
        name=text("op").removeprefix(_ATEN) or text("tensor"),
        event=text("event"),
        count=count if isinstance(count, int) else 1,
    )


def _diff(text: str | None) -> tuple[str, ...]:
    """Lines of a diff, that can still be applied: tabs stay tabs and no line is cut, though the end may be."""
    if not text:
        return ()
    shown = text[:MAX_DIFF].rstrip("\n").split("\n")
    if len(text) > MAX_DIFF:
        shown[-1] = f"… [{len(text):,} characters; trace.races holds all]"
    return tuple(printable(line.rstrip("\r"), keep="\t") for line in shown)


#: Elements of a tensor that are listed, at most.
MAX_SAMPLES: Final = 8

_VERDICTS: Final = ("confirmed", "benign", "unknown")
_MAX_CELLS: Final = 64
_MAX_TEXT: Final = 200
_MAX_JSON: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class DifferenceView:
    """A value that differs; the attributes are those of `cudalens.frames.exploration.Difference`, as text."""

    name: str
    num_differing: int
    num_elements: int
    first_index: tuple[int, ...]
    expected: str
    found: str
    max_abs: str
    shape: tuple[int, ...]
    dtype: str
    heat: tuple[tuple[float, ...], ...]
    error: str
    expected_map: tuple[tuple[float, ...], ...] = ()
    found_map: tuple[tuple[float, ...], ...] = ()
    samples: tuple[tuple[tuple[int, ...], str, str], ...] = ()

    @property
    def layout(self) -> str:
        """``float32[64, 64]``."""
        return f"{self.dtype}{list(self.shape)}" if self.shape else self.dtype


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task of a schedule."""

    number: int
    lane: str
    name: str
    place: str
    source: str


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule next to the program's own order.

    Attributes:
        seed: What it can be done again from.
        tasks: In the program's order.
        order: Their numbers, in the schedule's order.
        first: Number of the race's first access.
        second: Of its second one.
        left_out: Tasks that are not among these.
    """

    seed: str
    tasks: tuple[TaskView, ...]
    order: tuple[int, ...]
    first: int | None
    second: int | None
    left_out: int

    @property
    def is_delayed(self) -> bool:
        """Whether it was a run on a real device, and not done again task by task."""
        return self.seed.startswith("hold:")


@dataclass(frozen=True, slots=True)
class ValueView:
    """What is known of a race's values.

    Attributes:
        verdict: confirmed, benign or unknown.
        num_schedules: Orders in which its accesses changed places.
        differences: What differs where it is confirmed.
        schedule: The order that confirms it, or None.
    """

    verdict: str
    num_schedules: int
    differences: tuple[DifferenceView, ...]
    schedule: ScheduleView | None


def value_view(fields: Mapping[str, Any]) -> ValueView | None:
    """Of a row of ``trace.races``; None where other orders were not tried."""
    verdict = fields.get("value_verdict")
    if verdict not in _VERDICTS:
        return None
    differs = _parsed(fields.get("differs"), list)[:MAX_DIFFERENCES]
    schedule = _parsed(fields.get("schedule"), dict)
    return ValueView(
        str(verdict),
        _whole(fields.get("num_schedules")) or 0,
        tuple(_difference(item) for item in differs if isinstance(item, dict)),
        _schedule(schedule) if schedule else None,
    )


def _parsed(text: Any, kind: type) -> Any:
    try:
        value = json.loads(text) if isinstance(text, str) and len(text) <= _MAX_JSON else kind()
    except (ValueError, RecursionError):
        return kind()
    return value if isinstance(value, kind) else kind()


def _difference(item: Mapping[str, Any]) -> DifferenceView:
    found = "memory that was never written" if item.get("is_unwritten") is True else _number(item.get("found"))
    heat = _grid(item.get("heat"), _share)
    expected_map, found_map = (_like(_grid(item.get(name), _value), heat) for name in ("expected_map", "found_map"))
    return DifferenceView(
        clean(item.get("name"), _MAX_TEXT),
        _whole(item.get("num_differing")) or 0,
        _whole(item.get("num_elements")) or 0,
        _wholes(item.get("first_index")),
        _number(item.get("expected")),
        found,
        "" if item.get("max_abs") is None else _number(item.get("max_abs")),
        _wholes(item.get("shape")),
        clean(item.get("dtype"), _MAX_TEXT),
        heat,
        clean(item.get("error"), _MAX_TEXT),
        expected_map,
        found_map,
        _samples(item.get("samples")),
    )


def _samples(value: Any) -> tuple[tuple[tuple[int, ...], str, str], ...]:
    items = value[:MAX_SAMPLES] if isinstance(value, list) else []
    return tuple(
        (_wholes(item[0]), _number(item[1]), _number(item[2]))
        for item in items
        if isinstance(item, list) and len(item) == 3
    )


def _schedule(item: Mapping[str, Any]) -> ScheduleView:
    entries = item.get("tasks")
    tasks = [_task(entry) for entry in (entries if isinstance(entries, list) else [])[: MAX_TASKS + 2]]
    numbers = {task.number for task in tasks if task is not None}
    order = [number for number in dict.fromkeys(_wholes(item.get("order"))) if number in numbers]
    return ScheduleView(
        clean(item.get("seed"), _MAX_TEXT),
        tuple(task for task in tasks if task is not None),
        tuple(order),
        _whole(item.get("first")),
        _whole(item.get("second")),
        _whole(item.get("left_out")) or 0,
    )


def _task(entry: Any) -> TaskView | None:
    number = _whole(entry.get("number")) if isinstance(entry, dict) else None
    if number is None:
        return None
    texts = [clean(entry.get(name), _MAX_TEXT) for name in ("lane", "name", "place", "source")]
    return TaskView(number, *texts)


def _grid(value: Any, number: Callable[[Any], float]) -> tuple[tuple[float, ...], ...]:
    rows = value[:_MAX_CELLS] if isinstance(value, list) else []
    cells = [tuple(number(cell) for cell in row[:_MAX_CELLS]) for row in rows if isinstance(row, list)]
    return tuple(row for row in cells if row and len(row) == len(cells[0]))


def _like(grid: tuple[tuple[float, ...], ...], heat: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
    """A grid, if it has as many cells as another."""
    return grid if heat and len(grid) == len(heat) and len(grid[0]) == len(heat[0]) else ()


def _share(cell: Any) -> float:
    value = _value(cell)
    return min(max(value, 0.0), 1.0) if value == value else 0.0


def _value(cell: Any) -> float:
    try:
        return float(cell) if isinstance(cell, int | float) else nan
    except OverflowError:
        return inf


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def _wholes(value: Any) -> tuple[int, ...]:
    items = value[:_MAX_CELLS] if isinstance(value, list) else []
    return tuple(number for item in items if (number := _whole(item)) is not None)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else clean(value, _MAX_TEXT)
