"""Races by value: what differs, where in the tensor, and the order that shows it beside the program's own."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from cudalens.analysis import units
from cudalens.frames.exploration import Exploration, RaceVerdict, Shown, columns_of_race
from cudalens.views import assets
from cudalens.views.races.model import RaceView
from cudalens.views.races.value_maps import MAX_CELLS, RED, cells_words, maps, scale
from cudalens.views.races.value_model import DifferenceView, ScheduleView, TaskView, ValueView, value_view
from cudalens.views.sections.markup import Node, element, svg

_MAX_PICTURED_RACES: Final = 6

#: Elements that plain text tells of.
_MAX_SAID: Final = 4

#: Values whose pictures are drawn; of the others a line says what differs.
_MAX_PICTURED: Final = 3

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
    return "Not tried: no schedule turned its accesses around"


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


def text_lines(value: ValueView) -> Iterator[str]:
    """The verdict and what differs, for plain text."""
    yield headline(value)
    for difference in value.differences:
        yield f"{difference.name}: {difference_line(difference)}"
        more = [f"{list(at)}: {found} instead of {expected}" for at, expected, found in difference.samples[1:_MAX_SAID]]
        if more:
            yield f"  {'; '.join(more)}"
    if value.schedule is not None:
        yield from _orders(value.schedule)
        yield f"again: {_again(value.schedule)}"


def _orders(schedule: ScheduleView) -> Iterator[str]:
    """Both orders in a line each, the two accesses in brackets."""
    names = {
        task.number: f"[{_name(task)}]" if task.number in (schedule.first, schedule.second) else _name(task)
        for task in schedule.tasks
    }
    yield f"program order: {' '.join(names.values())}"
    yield f"{_title(schedule)[0].lower()}{_title(schedule)[1:]}: {' '.join(names[n] for n in schedule.order)}"


def section(race: RaceView, *, cells: int = MAX_CELLS) -> Node | None:
    """The part of a race's card that is about values; None where other orders were not tried.

    Args:
        race: The race.
        cells: Rows and columns of pictures, at most.
    """
    value = race.value
    if value is None:
        return None
    mark = {"confirmed": "cl-value-confirmed", "benign": "cl-value-benign"}.get(value.verdict, "cl-race-note")
    caption = element("p", element("strong", headline(value), class_=mark), ".")
    return element("div", caption, *_body(value, cells), class_="cl-race-value")


def _body(value: ValueView, cells: int) -> Iterator[Node]:
    """What differs, the first values with pictures; then the order that shows it."""
    for position, difference in enumerate(value.differences):
        yield _difference(difference, cells if position < _MAX_PICTURED else 0)
    if value.schedule is not None:
        yield _order(value.schedule)


def _difference(difference: DifferenceView, cells: int) -> Node:
    line = element("p", element("code", difference.name), f": {difference_line(difference)}", class_="cl-value-line")
    if not difference.shape or not difference.heat or difference.num_elements < 2 or not cells:
        return line
    pictures = element("div", *maps(difference, cells=cells), _samples(difference), class_="cl-value-maps")
    words = "; ".join(filter(None, (scale(difference), cells_words(difference))))
    caption = element("p", f"{difference.layout}: {words}.", class_="cl-race-note")
    summary = element("summary", "both results, and where in the tensor")
    fold = element("details", summary, pictures, caption, open=difference.num_differing > 0)
    return element("div", line, fold)


def _samples(difference: DifferenceView) -> Node | None:
    """Some elements, with both values."""
    if not difference.samples:
        return None
    titles = ("Element", "Program's order", "Order that shows it")
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    rows = [
        element(
            "tr",
            element("th", element("code", str(list(index))), scope="row"),
            element("td", expected),
            element("td", found),
        )
        for index, expected, found in difference.samples
    ]
    left = difference.num_differing - len(rows)
    more = element("p", f"and {units.count(left)} more", class_="cl-race-note") if left > 0 else None
    table = element("table", element("thead", head), element("tbody", *rows), class_="cl-value-samples")
    return element("div", table, more)


def _again(schedule: ScheduleView) -> str:
    if schedule.is_steered:
        return "san.confirm(program), %cudasan confirm"
    return f"san.replay_schedule({schedule.seed!r}), %cudasan explore --replay {schedule.seed}"


def _order(schedule: ScheduleView) -> Node:
    again = element("p", "Do it again: ", element("code", _again(schedule)), class_="cl-race-note")
    left = f"{units.plural(schedule.left_out, 'task')} farther away not shown" if schedule.left_out else None
    return element(
        "div",
        element("div", timelines_svg(schedule), class_="cl-race-scroll", tabindex=0, role="group"),
        element("p", left, class_="cl-race-note") if left else None,
        again,
    )


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
    return "Steered run that shows it" if schedule.is_steered else "Order that shows it"


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
    """The stretches of a lane that no box covers."""
    left = float(_LABEL)
    for start in [*taken, end]:
        if start > left:
            yield left, start
        left = start + width


def _box(task: TaskView, x: float, y: float, width: float, is_access: bool) -> Iterator[Node]:
    colour, opacity = (RED, 0.22) if is_access else ("currentColor", 0.1)
    frame = {"x": f"{x:.1f}", "y": f"{y:g}", "width": f"{width:.1f}", "height": _BOX, "rx": 4}
    told = element("title", " ".join(part for part in (task.name, task.place, task.source) if part))
    edge = {"stroke": RED, "stroke_width": 1.5} if is_access else {}
    yield element("rect", told, **frame, fill=colour, fill_opacity=opacity, **edge)
    yield element("text", _name(task), x=f"{x + width / 2:.1f}", y=f"{y + 15:g}", text_anchor="middle")


def _name(task: TaskView) -> str:
    name = task.name.removeprefix(_ATEN)
    return name if len(name) <= _SLOT_CHARS else f"{name[: _SLOT_CHARS - 1]}…"


def exploration_html(exploration: Exploration) -> str:
    """What came of trying other orders, as HTML that stands alone."""
    confirmed = [race.race for race in exploration.confirmed]
    parts = [_race(race, exploration, _cells_of(confirmed, race)) for race in exploration.races]
    parts += [_unreported(shown) for shown in exploration.others]
    compared = f"Compared: {', '.join(exploration.outputs)}." if exploration.outputs else None
    parts += [element("p", note, class_="cl-race-note") for note in filter(None, (compared, *exploration.notes))]
    verdict = f"<p><strong>{escape(exploration.verdict)}</strong></p>"
    body = "".join(part.html() for part in parts)
    return f'<style>{assets.style("races")}</style><div class="cudalens-races">{verdict}{body}</div>'


def _cells_of(confirmed: list[int], race: RaceVerdict) -> int:
    """Rows and columns of pictures: however many races there are, what a notebook saves stays of bearable size."""
    position = confirmed.index(race.race) if race.race in confirmed else _MAX_PICTURED_RACES
    return MAX_CELLS if not position else MAX_CELLS // 2 if position < _MAX_PICTURED_RACES else 0


def _race(race: RaceVerdict, exploration: Exploration, cells: int) -> Node:
    value = value_view(columns_of_race(race, exploration.steps))
    assert value is not None
    why = f": {race.why}" if race.why else ""
    head = headline(value) if not why else headline(value).partition(":")[0]
    summary = element("summary", element("strong", f"Race {race.race + 1}"), f" · {head}{why}")
    text = element("p", race.text, class_="cl-race-what")
    body = element("div", text, *_body(value, cells), class_="cl-race cl-race-value")
    return element("details", summary, body, class_="cl-race-fold", open=value.verdict == "confirmed")


def _unreported(shown: Shown) -> Node:
    items = [element("li", str(difference)) for difference in shown.differences]
    seed = element("code", shown.seed)
    return element(
        "div", element("p", "Values differ in schedule ", seed, " without a reported race:"), element("ul", *items)
    )
