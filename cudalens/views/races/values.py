"""The results of running a race in other orders: values that differ, pictures of them, and the order that shows it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from cudalens.analysis import units
from cudalens.frames.exploration import Exploration, RaceVerdict, columns_of_race
from cudalens.views.races.model import DifferenceView, RaceView, ScheduleView, TaskView, ValueView, value_view
from cudalens.views.sections.markup import Node, element, svg
from cudalens.views.sections.model import Block, Column, Custom, Items, Note, Row, Section, Table, Text
from cudalens.views.sections.write_html import to_html

_MAX_PICTURED_RACES: Final = 6

#: Maximum number of elements of a value in plain text.
_MAX_TEXT: Final = 4

#: Maximum number of values with pictures; the others have one line each.
_MAX_PICTURED: Final = 3

_SAMPLES: Final = (
    Column("Element"),
    Column("Program's order", align="right"),
    Column("Order that shows it", align="right"),
)
_ROW: Final = 30
_BOX: Final = 22
_SLOT_CHARS: Final = 16
_CHAR: Final = 6.6
_GAP: Final = 10
_LABEL: Final = 150
_LABEL_CHARS: Final = 22
_ATEN: Final = "aten::"


def headline(value: ValueView) -> str:
    """The verdict in one line."""
    times = units.plural(value.num_schedules, "schedule")
    if value.verdict == "confirmed":
        count = len(value.differences)
        differ = f"{units.plural(count, 'value')} differ{'s' * (count == 1)}"
        return f"Confirmed by value: {differ} when the later access comes first"
    if value.verdict == "benign":
        return f"Benign so far: the same bits in {times} with the accesses in reverse order"
    return "Not tried: no schedule reversed its accesses"


def difference_line(difference: DifferenceView) -> str:
    """``3,412 of 65,536 elements differ, first at [3, 17]: 0.0 instead of 1.7``."""
    if difference.error:
        return f"raises {difference.error}"
    values = f"{difference.found} instead of {difference.expected}"
    if not difference.shape:
        return values
    are = "element differs" if difference.num_elements == 1 else "elements differ"
    count = f"{units.count(difference.num_differing)} of {units.count(difference.num_elements)} {are}"
    return f"{count}, first at {list(difference.first_index)}: {values}"


def section_of(race: RaceView, cells: int) -> Iterator[Section]:
    """The section about values in a race's card; none if other orders were not tried.

    Args:
        race: The race.
        cells: Maximum number of rows and columns of pictures.
    """
    value = race.value
    if value is None:
        return
    mark = {"confirmed": "cl-value-confirmed", "benign": "cl-value-benign"}.get(value.verdict, "cl-race-note")
    caption = Note((Text(headline(value), "strong", css=mark), "."), "caption")
    yield Section("race-value", "cl-race", blocks=(caption, *_blocks(value, cells)))


def _blocks(value: ValueView, cells: int) -> Iterator[Block]:
    """The values that differ, the first ones with pictures; then the order that shows it."""
    for position, difference in enumerate(value.differences):
        yield from _difference(difference, cells if position < _MAX_PICTURED else 0)
    if value.schedule is not None:
        yield from _order(value.schedule)


def _difference(difference: DifferenceView, cells: int) -> Iterator[Block]:
    yield Note((Text(difference.name, "code"), f": {difference_line(difference)}"), "line")
    if not difference.shape or not difference.heat or difference.num_elements < 2 or not cells:
        return
    pictures = Custom(element("div", *maps(difference, cells=cells), class_="cl-value-maps"))
    meaning = "; ".join(filter(None, (scale(difference), cells_words(difference))))
    caption = Note(f"{difference.layout}: {meaning}.", is_in_text=False)
    title, is_open = "Both results, and where in the tensor", difference.num_differing > 0
    yield Section("", "cl-race", title, blocks=(pictures, *_samples(difference), caption), is_open=is_open)


def _samples(difference: DifferenceView) -> Iterator[Table]:
    """A sample of elements with both values."""
    rows = [Row((Text(str(list(index)), "code"), *both)) for index, *both in difference.samples]
    num_rows = max(difference.num_differing, len(rows))
    if rows:
        yield Table(_SAMPLES, rows, num_rows, _MAX_TEXT, more=("element", ""), key="samples")


def _order(schedule: ScheduleView) -> Iterator[Block]:
    yield Custom(
        element("div", timelines_svg(schedule), class_="cl-race-scroll", tabindex=0, role="group"),
        "\n".join(_orders(schedule)),
    )
    if schedule.left_out:
        yield Note(f"{units.plural(schedule.left_out, 'task')} farther away not shown")
    again = f"san.replay_schedule({schedule.seed!r}), %cudasan explore --replay {schedule.seed}"
    command = "san.confirm(program), %cudasan confirm" if schedule.is_delayed else again
    yield Note(("Repeat it: ", Text(command, "code")))


def _orders(schedule: ScheduleView) -> Iterator[str]:
    """Both orders, one line each, with the two accesses in brackets."""
    names = {
        task.number: f"[{_name(task)}]" if task.number in (schedule.first, schedule.second) else _name(task)
        for task in schedule.tasks
    }
    yield from wrap(f"Program order: {' '.join(names.values())}", 100)
    yield from wrap(f"{_title(schedule)}: {' '.join(names[n] for n in schedule.order)}", 100)


def timelines_svg(schedule: ScheduleView) -> Node:
    """Two timelines, one above the other: the program's order, and the one that shows the race."""
    lanes = list(dict.fromkeys(task.lane for task in schedule.tasks))
    by_number = {task.number: task for task in schedule.tasks}
    height = len(lanes) * _ROW + 24
    own = [task.number for task in schedule.tasks]
    parts = [
        *_timeline("Program order", [by_number[n] for n in own], lanes, schedule, 0),
        *_timeline(_title(schedule), [by_number[n] for n in schedule.order], lanes, schedule, height + 12),
    ]
    slots = max(len(own), 1)
    width = _LABEL + slots * (_slot(schedule) + _GAP)
    style = {"font_family": "system-ui, sans-serif", "font_size": 12, "fill": "currentColor"}
    return svg(
        width,
        2 * height + 12,
        "the tasks in the program's order, and in the order that shows the race",
        *parts,
        **style,
    )


def _title(schedule: ScheduleView) -> str:
    return "Delayed run that shows it" if schedule.is_delayed else "Order that shows it"


def _slot(schedule: ScheduleView) -> float:
    longest = max((len(_name(task)) for task in schedule.tasks), default=1)
    return longest * _CHAR + 16


def _timeline(
    title: str, tasks: list[TaskView], lanes: list[str], schedule: ScheduleView, top: float
) -> Iterator[Node]:
    slot = _slot(schedule)
    end = _LABEL + len(tasks) * (slot + _GAP)
    yield element("text", title, x=0, y=f"{top + 12:g}", font_weight=600)
    for row, lane in enumerate(lanes):
        middle = top + 24 + row * _ROW + _BOX / 2
        label = lane if len(lane) <= _LABEL_CHARS else f"{lane[: _LABEL_CHARS - 1]}…"
        yield element("text", label, x=0, y=f"{middle + 4:g}", fill_opacity=0.75)
        taken = [_LABEL + at * (slot + _GAP) for at, task in enumerate(tasks) if task.lane == lane]
        for left, right in _between(taken, slot, end):
            line = {"x": f"{left:g}", "y": f"{middle - 0.5:g}", "width": f"{right - left:g}", "height": 1}
            yield element("rect", **line, fill="currentColor", fill_opacity=0.3)
    for position, task in enumerate(tasks):
        y = top + 24 + lanes.index(task.lane) * _ROW
        yield from _box(
            task, _LABEL + position * (slot + _GAP), y, slot, task.number in (schedule.first, schedule.second)
        )


def _between(taken: list[float], width: float, end: float) -> Iterator[tuple[float, float]]:
    """The intervals of a lane that no box covers."""
    left = float(_LABEL)
    for start in [*taken, end]:
        if start > left:
            yield left, start
        left = start + width


def _box(task: TaskView, x: float, y: float, width: float, is_access: bool) -> Iterator[Node]:
    colour, opacity = (RED, 0.22) if is_access else ("currentColor", 0.1)
    box = {"x": f"{x:.1f}", "y": f"{y:g}", "width": f"{width:.1f}", "height": _BOX, "rx": 4}
    title = element("title", " ".join(part for part in (task.name, task.place, task.source) if part))
    edge = {"stroke": RED, "stroke_width": 1.5} if is_access else {}
    yield element("rect", title, **box, fill=colour, fill_opacity=opacity, **edge)
    yield element("text", _name(task), x=f"{x + width / 2:.1f}", y=f"{y + 15:g}", text_anchor="middle")


def _name(task: TaskView) -> str:
    name = task.name.removeprefix(_ATEN)
    return name if len(name) <= _SLOT_CHARS else f"{name[: _SLOT_CHARS - 1]}…"


def exploration_html(exploration: Exploration) -> str:
    """The result of trying other orders, as HTML with its style sheet."""
    confirmed = [race.race for race in exploration.confirmed]
    blocks: list[Block] = [_race(race, exploration, _cells_of(confirmed, race)) for race in exploration.races]
    for other in exploration.others:
        title = f"Values differ in schedule {other.seed} without a reported race:"
        blocks.append(Items(tuple(str(difference) for difference in other.differences), title))
    compared = f"Compared: {', '.join(exploration.outputs)}." if exploration.outputs else ""
    blocks += [Note(note) for note in (compared, *exploration.notes) if note]
    shown = Section("races", "cl-race", verdict=exploration.verdict, blocks=tuple(blocks))
    return to_html(shown, has_style=True)


def _cells_of(confirmed: list[int], race: RaceVerdict) -> int:
    """Rows and columns of the pictures of a race; fewer for later races, so that a saved notebook stays small."""
    position = confirmed.index(race.race) if race.race in confirmed else _MAX_PICTURED_RACES
    if not position:
        return MAX_CELLS
    return MAX_CELLS // 2 if position < _MAX_PICTURED_RACES else 0


def _race(race: RaceVerdict, exploration: Exploration, cells: int) -> Section:
    value = value_view(columns_of_race(race, exploration.steps))
    assert value is not None
    facts = f"{headline(value).partition(':')[0]}: {race.why}" if race.why else headline(value)
    values = Section("race-value", "cl-race", blocks=tuple(_blocks(value, cells)))
    body = Section("race", "cl-race", blocks=(Note(race.text, "what"), values))
    title, is_open = f"Race {race.race + 1}", value.verdict == "confirmed"
    return Section("race-fold", "cl-race", title=title, facts=facts, blocks=(body,), is_open=is_open)


RED: Final = "#e5484d"
BLUE: Final = "#3b8eea"
YELLOW: Final = "#d9a400"

MAX_CELLS: Final = 64

#: Shades of a picture: few, so that neighbours are alike and drawn as one.
_SIZE: Final = 168.0
_LEAST: Final = 14.0
_LEVELS: Final = 8

_NOT_FINITE: Final = _LEVELS + 1

Grid = tuple[tuple[float, ...], ...]


def maps(difference: DifferenceView, *, cells: int = MAX_CELLS) -> list[Node]:
    """The pictures that there are: both results on one scale, then the difference; each with what it says.

    Args:
        difference: What differs.
        cells: Rows and columns, at most.
    """
    chosen = _chosen(difference.heat, cells)
    found = []
    values = [_taken(grid, chosen) for grid in (difference.expected_map, difference.found_map) if grid]
    if len(values) == 2:
        low, high = _range(values)
        titles = ("in the program's order", "in the order that shows it")
        for title, grid in zip(titles, values, strict=True):
            picture = _svg([[_level(v, low, high) for v in row] for row in grid], BLUE, f"{difference.name} {title}")
            found.append(_figure(picture, f"{title[0].upper()}{title[1:]}"))
    found.append(_figure(heat_map(difference, cells=cells), "Where they differ"))
    return found


def scale(difference: DifferenceView) -> str:
    """What the colours mean, in words."""
    largest = f", the stronger the more: {difference.max_abs} at most" if difference.max_abs else ""
    differs = f"red where bits differ{largest}"
    values = [grid for grid in (difference.expected_map, difference.found_map) if grid]
    if len(values) < 2:
        return differs
    low, high = _range(values)
    kind = "magnitude" if difference.dtype.startswith("complex") else "value"
    blue = f"{kind} {low:.4g} everywhere" if low == high else f"{kind} {low:.4g} (pale) to {high:.4g} (strong)"
    has_others = any(not math.isfinite(v) for grid in values for row in grid for v in row)
    return f"{blue}{', yellow: NaN or infinite' if has_others else ''}; {differs}"


def cells_words(difference: DifferenceView) -> str:
    """What a cell shows where it covers several elements."""
    if not difference.heat or difference.num_elements <= len(difference.heat) * len(difference.heat[0]):
        return ""
    return "each cell shows the one of its elements that differs most"


def heat_map(difference: DifferenceView, *, cells: int = MAX_CELLS) -> Node:
    """The tensor as a grid of cells, redder where a cell's elements differ more."""
    shares = _taken(difference.heat, _chosen(difference.heat, cells))
    levels = [[0 if not share else _level(share, 0.0, 1.0) for share in row] for row in shares]
    return _svg(levels, RED, f"where {difference.name} differs")


def _figure(picture: Node, caption: str) -> Node:
    return element("div", element("span", caption), picture, class_="cl-value-figure")


def _level(value: float, low: float, high: float) -> int:
    """1 to `_LEVELS`; the lowest value is still seen."""
    if not math.isfinite(value):
        return _NOT_FINITE
    share = (value - low) / (high - low) if high > low else 0.0
    return 1 + round(min(max(share, 0.0), 1.0) * (_LEVELS - 1))


def _range(grids: Sequence[Grid]) -> tuple[float, float]:
    known = [v for grid in grids for row in grid for v in row if math.isfinite(v)]
    return min(known, default=0.0), max(known, default=0.0)


def _chosen(heat: Grid, cells: int) -> list[list[tuple[int, int]]]:
    """Row and column of the cells that are drawn: of several that become one, the one that differs most."""
    if not heat:
        return []
    rows, columns = (_stretches(length, cells) for length in (len(heat), len(heat[0])))
    return [
        [max(((r, c) for r in down for c in across), key=lambda at: heat[at[0]][at[1]]) for across in columns]
        for down in rows
    ]


def _stretches(length: int, most: int) -> list[range]:
    size = -(-length // most)
    return [range(low, min(low + size, length)) for low in range(0, length, size)]


def _taken(grid: Grid, chosen: list[list[tuple[int, int]]]) -> Grid:
    return tuple(tuple(grid[row][column] for row, column in line) for line in chosen)


def _svg(levels: Sequence[Sequence[int]], colour: str, label: str) -> Node:
    """A picture of cells; level 0 is the ground."""
    rows, columns = len(levels), len(levels[0])
    width = _SIZE if columns > 1 else 24.0
    height = min(_SIZE, max(_LEAST, width * min(rows / columns, 1.0))) if rows > 1 else _LEAST
    shapes = [element("rect", x=0, y=0, width=columns, height=rows, fill="currentColor", fill_opacity=0.07)]
    for level in sorted({level for row in levels for level in row} - {0}):
        path = "".join(_runs(levels, level))
        ink, share = (YELLOW, 1.0) if level == _NOT_FINITE else (colour, 0.12 + 0.88 * (level - 1) / (_LEVELS - 1))
        share = max(share, 0.25) if colour == RED else share
        shapes.append(element("path", d=path, fill=ink, fill_opacity=f"{share:.2f}"))
    frame = {"viewBox": f"0 0 {columns} {rows}", "preserveAspectRatio": "none"}
    return svg(width, height, label, *shapes, **frame)


def _runs(levels: Sequence[Sequence[int]], level: int) -> Iterator[str]:
    """Stretches of one level, each a rectangle of a path; rows that are alike become one."""
    y = 0
    while y < len(levels):
        end = y + 1
        while end < len(levels) and list(levels[end]) == list(levels[y]):
            end += 1
        row, x = levels[y], 0
        while x < len(row):
            stop = x
            while stop < len(row) and row[stop] == level:
                stop += 1
            if stop > x:
                yield f"M{x} {y}h{stop - x}v{end - y}h{x - stop}z"
            x = max(stop, x + 1)
        y = end
