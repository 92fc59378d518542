"""A race by value as views show it: what the frame's columns say, cleaned and limited in size."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, nan
from typing import Any, Final

from cudalens.frames.exploration import MAX_DIFFERENCES, MAX_TASKS
from cudalens.views.foreign import clean

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
