"""Pictures of a race: the bytes that both accesses touch, and the operations on their streams.

Lines and texts have the colour of the surrounding text (``currentColor``). Red is the only fixed colour, a mid-tone
that is readable on light and dark backgrounds. So the pictures need no style sheet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cudalens.analysis import units
from cudalens.views.races.model import AccessView, RaceView, Step
from cudalens.views.sections.markup import Node, element, svg

RED: Final = "#e5484d"

_BAR: Final = 1000.0
_BAR_HEIGHT: Final = 11
_LEAST: Final = 4.0


def bytes_bars(race: RaceView) -> tuple[Node, Node]:
    """A bar over the block's bytes for the earlier and one for the later access: what it touches, red where both do."""
    low, high = _extent(race)
    scale = _BAR / max(high - low, 1)
    first = _bytes_bar("earlier", race, race.first, first_offset(race), (low, scale))
    return first, _bytes_bar("later", race, race.second, 0, (low, scale))


def _bytes_bar(which: str, race: RaceView, side: AccessView, offset: int, axis: tuple[int, float]) -> Node:
    touched = _span(side.low + offset, side.high + offset, *axis)
    shared = _span(race.overlap_low, race.overlap_high, *axis)
    parts = (_bar(0, _BAR, "currentColor", 0.08), _bar(*touched, "currentColor", 0.45), _bar(*shared, RED, 1.0))
    node = svg(_BAR, _BAR_HEIGHT, f"bytes that the {which} access touches, red where both do", *parts)
    # Stretched to the available width: it has no text that this would distort.
    stretched = {"width": "100%", "preserveAspectRatio": "none"}
    return Node(node.tag, node.attributes | stretched, node.children)


def first_offset(race: RaceView) -> int:
    """Start of the earlier access's block, in bytes from the start of the later one's.

    It is 0 except for memory that was freed and allocated again in other sizes. Then the overlap determines it: the
    overlap begins at the start of the earlier access, or ends at its end, or the later access is inside of the earlier
    one and any offset that covers it is correct.
    """
    first, second = race.first, race.second
    if race.kind != "use after free":
        return 0
    if race.overlap_low > second.low:
        return race.overlap_low - first.low
    if race.overlap_high < second.high:
        return race.overlap_high - first.high
    return 0 if first.low <= race.overlap_low and race.overlap_high <= first.high else race.overlap_low - first.low


def _extent(race: RaceView) -> tuple[int, int]:
    """First byte that is drawn, and the byte after the last."""
    offset = first_offset(race)
    lows = [race.first.low + offset, race.second.low, race.overlap_low]
    highs = [race.first.high + offset, race.second.high, race.overlap_high]
    whole = [] if race.block_bytes is None else [0]
    return min(lows + whole), max(max(highs) + 1, race.block_bytes or 0)


def _span(first: int, last: int, low: int, scale: float) -> tuple[float, float]:
    """Left edge and width; never too narrow to be seen."""
    width = max((last - first + 1) * scale, _LEAST)
    return min((first - low) * scale, _BAR - width), width


def _bar(x: float, width: float, fill: str, opacity: float) -> Node:
    box = {"x": f"{x:.1f}", "y": 0, "width": f"{width:.1f}", "height": _BAR_HEIGHT}
    return element("rect", **box, fill=fill, fill_opacity=opacity)


_LABEL_CHARS: Final = 26
_LANE: Final = 72
_TOP: Final = 8
_BOX: Final = 34
_MAX_LANES: Final = 5
_MAX_SLOTS: Final = 16

#: Upper estimate of the width of a character, px.
_CHAR: Final = 6.6

_ACT_WORDS: Final = {
    "event_record": "record",
    "event_wait": "wait",
    "event_sync": "wait",
    "stream_sync": "host waits",
    "device_sync": "waits for all",
    "record_stream": "record_stream",
    "alloc": "alloc",
    "free": "free",
}
_MISSING: Final = "nothing orders these two"
_WORK: Final = frozenset({"launch", "host_access"})
_LEFT_OUT: Final = "left out"


@dataclass(frozen=True, slots=True)
class _Slot:
    """One item on a lane: `lane` by number, its texts, and whether it is one of the two accesses."""

    lane: int
    act: str
    label: str
    detail: str
    event: str = ""
    is_access: bool = False

    @property
    def width(self) -> float:
        if self.act in _WORK:
            return min(max(len(self.label), len(self.detail)) * _CHAR + 18, 200)
        return max(40.0, max(len(self.label), len(self.detail)) * _CHAR * 0.9 + 12)


def happens_before_svg(race: RaceView) -> Node:
    """Lanes of the streams in the order in which the program issued the work, and the edge that is missing in red."""
    lanes, num_hidden = _lanes(race)
    slots = _slots(race, lanes)
    gutter = max(len(units.shorten(name, _LABEL_CHARS)) for name in lanes) * (_CHAR + 0.4) + 10
    edges = _edges(slots, gutter)
    # Right end of the words at the middle of the missing edge.
    label_end = (edges[0] + slots[0].width / 2 + edges[-1] + slots[-1].width / 2) / 2 + 20 + len(_MISSING) * _CHAR
    width = max(edges[-1] + slots[-1].width + 14, label_end)
    height = _TOP + len(lanes) * _LANE + 16
    note = "issue order →" + (f" · {units.plural(num_hidden, 'other stream')} not shown" if num_hidden else "")
    parts = [
        *_lane_lines(lanes, slots, edges, (gutter, width)),
        *_waits(slots, edges),
        *(node for slot, x in zip(slots, edges, strict=True) for node in _drawn(slot, x)),
        *_missing_edge(slots, edges),
        _text(note, gutter, height - 3, 10, opacity=0.65),
    ]
    label = f"{race.first.title} on {race.first.stream}, then {race.second.title} on {race.second.stream}: {_MISSING}"
    return svg(width, height, label, *parts, fill="currentColor", font_family="system-ui,sans-serif", font_size=11)


def _lanes(race: RaceView) -> tuple[list[str], int]:
    """Streams to draw, the two of the race first, and the number of other streams."""
    others = [step.stream for step in race.between or () if step.act != _LEFT_OUT]
    names = list(dict.fromkeys([race.first.stream, race.second.stream, *others]))
    return names[:_MAX_LANES], max(0, len(names) - _MAX_LANES)


def _slots(race: RaceView, lanes: list[str]) -> list[_Slot]:
    steps = [step for step in race.between or () if step.stream in lanes or step.act == _LEFT_OUT]
    middle = _merged(steps, lanes)
    if len(middle) > _MAX_SLOTS:  # the first and the last slots, and between them one with the number of the others
        half = _MAX_SLOTS // 2
        middle = [*middle[:half], _gap(middle[half].lane, len(middle) - 2 * half), *middle[-half:]]
    return [_access_slot(race.first, lanes), *middle, _access_slot(race.second, lanes)]


def _access_slot(access: AccessView, lanes: list[str]) -> _Slot:
    detail = f"{access.verb} {access.argument or access.tensor}".strip()
    return _Slot(
        lanes.index(access.stream), "launch", units.shorten(access.title, 26), units.shorten(detail, 28), is_access=True
    )


def _merged(steps: list[Step], lanes: list[str]) -> list[_Slot]:
    """One slot per step; consecutive work on one stream is one slot."""
    slots: list[_Slot] = []
    counts: list[int] = []
    for step in steps:
        lane = lanes.index(step.stream) if step.stream in lanes else 0
        last = slots[-1] if slots else None
        if step.act in _WORK and last is not None and last.act in _WORK and last.lane == lane:
            counts[-1] += 1
            slots[-1] = _Slot(lane, step.act, units.plural(counts[-1], "operation"), "")
            continue
        slots.append(_slot(step, lane))
        counts.append(1)
    return slots


def _slot(step: Step, lane: int) -> _Slot:
    if step.act in _WORK:
        return _Slot(lane, step.act, units.shorten(step.name or "operation", 18), "")
    if step.act == _LEFT_OUT:
        return _gap(lane, step.count)
    word = _ACT_WORDS.get(step.act, units.shorten(step.act.replace("_", " "), 16))
    detail = f"event {step.event}" if step.event else step.name
    return _Slot(lane, step.act, word, units.shorten(detail, 14), step.event)


def _gap(lane: int, count: int) -> _Slot:
    return _Slot(lane, "launch", f"… {units.count(count)} more", "")


def _edges(slots: list[_Slot], gutter: float) -> list[float]:
    """Left edge of each slot. Two slots without others between them leave space for the missing edge."""
    gap = 60.0 if len(slots) == 3 else 150.0
    if len(slots) > 3:
        gap = 10.0
    edges, x = [], gutter + 10.0
    for slot in slots:
        edges.append(x)
        x += slot.width + gap
    return edges


def _middle(lane: int) -> float:
    return _TOP + lane * _LANE + _LANE / 2


def _lane_lines(lanes: list[str], slots: list[_Slot], edges: list[float], span: tuple[float, float]) -> list[Node]:
    """The names of the lanes, and their lines along `span`, interrupted by the boxes."""
    nodes = []
    for lane, name in enumerate(lanes):
        y = _middle(lane)
        boxes = [(x, x + s.width) for s, x in zip(slots, edges, strict=True) if s.lane == lane and s.act in _WORK]
        stops = [*(x for x, _ in boxes), span[1]]
        starts = [span[0], *(end for _, end in boxes)]
        path = "".join(f"M{start:.1f} {y:g}H{stop:.1f}" for start, stop in zip(starts, stops, strict=True))
        nodes.append(element("path", d=path, stroke="currentColor", stroke_opacity=0.3, fill="none"))
        label = element(
            "text", element("title", name), units.shorten(name, _LABEL_CHARS), x=0, y=f"{y + 4:g}", font_weight=600
        )
        nodes.append(label)
    return nodes


def _drawn(slot: _Slot, x: float) -> list[Node]:
    return _work(slot, x) if slot.act in _WORK else _mark(slot, x)


def _work(slot: _Slot, x: float) -> list[Node]:
    """A box on its lane, red-edged for the two accesses."""
    middle = _middle(slot.lane)
    half = _BOX / 2 if slot.is_access else _BOX / 3
    stroke = {"stroke": RED, "stroke_width": 2} if slot.is_access else {"stroke": "currentColor", "stroke_opacity": 0.5}
    box = {"x": f"{x:.1f}", "y": f"{middle - half:g}", "width": f"{slot.width:.1f}", "height": f"{2 * half:g}", "rx": 4}
    centre = x + slot.width / 2
    texts = [_text(slot.label, centre, middle + (-3 if slot.detail else 4), 11, anchor="middle", bold=slot.is_access)]
    if slot.detail:
        texts.append(_text(slot.detail, centre, middle + 11, 10.5, anchor="middle"))
    return [element("rect", fill="currentColor", fill_opacity=0.07, **box, **stroke), *texts]


def _mark(slot: _Slot, x: float) -> list[Node]:
    """A diamond on its lane with its word above and its event below."""
    middle, centre = _middle(slot.lane), x + slot.width / 2
    return [
        element("path", d=f"M{centre:.1f} {middle - 6:g}l6 6l-6 6l-6 -6z", fill="currentColor"),
        _text(slot.label, centre, middle - 11, 10, anchor="middle"),
        *([_text(slot.detail, centre, middle + 18, 10, anchor="middle", opacity=0.75)] if slot.detail else []),
    ]


def _waits(slots: list[_Slot], edges: list[float]) -> list[Node]:
    """Arrows from where an event was recorded to where it was waited for."""
    recorded: dict[str, int] = {}
    arrows = []
    for k, slot in enumerate(slots):
        if slot.act == "event_record" and slot.event:
            recorded[slot.event] = k
        elif slot.act in ("event_wait", "event_sync") and slot.event in recorded:
            one = recorded[slot.event]
            arrows += _arrow(
                (edges[one] + slots[one].width / 2, _middle(slots[one].lane)),
                (edges[k] + slot.width / 2, _middle(slot.lane)),
            )
    return arrows


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> list[Node]:
    (x0, y0), (x1, y1) = start, end
    bend = (x1 - x0) / 2
    stop = x1 - 8
    curve = f"M{x0:.1f} {y0:g}C{x0 + bend:.1f} {y0:g} {x1 - bend:.1f} {y1:g} {stop:.1f} {y1:g}"
    line = {"stroke": "currentColor", "stroke_opacity": 0.6, "fill": "none", "stroke_width": 1.3}
    head = f"M{x1 - 7:.1f} {y1:g}l-6 -3v6z"
    return [element("path", d=curve, **line), element("path", d=head, fill="currentColor", fill_opacity=0.6)]


def _missing_edge(slots: list[_Slot], edges: list[float]) -> list[Node]:
    """The red dashed arrow from the first slot, the earlier access, to the last; with a cross and words on it."""
    one, two = slots[0], slots[-1]
    x0, y0 = edges[0] + one.width, _middle(one.lane)
    x1, y1 = edges[-1], _middle(two.lane)
    if len(slots) > 2:  # from below the first box to above the second, clear of the boxes and marks on the lanes
        down = 1 if y1 >= y0 else -1
        x0, y0 = edges[0] + one.width / 2, y0 + down * _BOX / 2
        x1, y1 = edges[-1] + two.width / 2, y1 - down * _BOX / 2
        middle = (y0 + y1) / 2
        curve = f"M{x0:.1f} {y0:g}C{x0:.1f} {middle + down * 6:g} {x1:.1f} {middle - down * 6:g} {x1:.1f} {y1:g}"
        head = f"M{x1:.1f} {y1:g}l-4 {-7 * down}h8z"
    else:
        bend = (x1 - x0) / 2
        curve = f"M{x0:.1f} {y0:g}C{x0 + bend:.1f} {y0:g} {x1 - bend:.1f} {y1:g} {x1 - 6:.1f} {y1:g}"
        head = f"M{x1:.1f} {y1:g}l-7 -4v8z"
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    line = {"stroke": RED, "stroke_width": 2, "stroke_dasharray": "5 4", "fill": "none"}
    cross = {"stroke": RED, "stroke_width": 2.2, "fill": "none"}
    label = _text(_MISSING, x + 12, y - 5, 11, bold=True, class_="cl-race-missing", fill=RED)
    return [
        element("path", d=curve, **line),
        element("path", d=head, fill=RED),
        element("path", d=f"M{x - 5:.1f} {y - 5:g}l10 10m0 -10l-10 10", **cross),
        label,
    ]


def _text(
    words: str, x: float, y: float, size: float, *, anchor: str | None = None, bold: bool = False, **more: object
) -> Node:
    weight = 600 if bold else None
    return element(
        "text", words, x=f"{x:.1f}", y=f"{y:g}", font_size=size, text_anchor=anchor, font_weight=weight, **more
    )
