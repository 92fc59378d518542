"""Live gauges as a section: the last readings of each GPU, and lines of the readings before them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from cudalens.analysis import units
from cudalens.views.devices.gauges_feed import COLUMNS, GaugeFeed
from cudalens.views.sections.markup import SVG, Node, element
from cudalens.views.sections.model import Cards, Custom, Note, Section
from cudalens.views.timeline.readings import GAUGES, Gauge

_WIDTH: Final = 150
_HEIGHT: Final = 24
_MAX_CARDS: Final = 16
_SLOWED: Final = COLUMNS.index("slowed_by")


def verdict(feed: GaugeFeed) -> str:
    """``cuda:0 busy 87 %, 12.3 GiB of 79.2 GiB, 412 W, 65 °C``; of several GPUs the busiest."""
    if not feed.history or not feed.gpus:
        return next(iter(feed.problems), "no reading yet")
    rows = feed.history[-1]["rows"]
    busiest = max(range(len(rows)), key=lambda k: -1.0 if rows[k][0] is None else rows[k][0])
    texts = [_text(gauge, rows[busiest][k], feed.gpus[busiest]) for k, gauge in enumerate(GAUGES[:4])]
    if (share := rows[busiest][0]) is not None:
        texts[0] = f"busy {texts[0]}" if share else "idle"
    known = ", ".join(text for text in texts if text != "-") or "no value"
    others = f"; {units.plural(len(rows), 'GPU')}, {'this one the busiest' if share else 'none busier'}"
    return f"{feed.gpus[busiest]['label']}: {known}{others if len(rows) > 1 else ''}"


def about(feed: GaugeFeed) -> str:
    """Where the readings come from, how often, and whether they ended."""
    when = f"{datetime.fromtimestamp(feed.history[-1]['t'] / 1000, UTC):%H:%M:%S} UTC" if feed.history else "no time"
    rate = f"{feed.rate_hz:g} readings a second"
    who = feed.source if feed.is_modelled else f"read by {feed.source or 'no source'}"
    return f"{who}, {rate}; {feed.ended or 'live'}; as of {when}"


def badge(feed: GaugeFeed) -> str:
    """``simulated: <spec>`` for modelled readings, else ""."""
    return f"simulated: {feed.source.removeprefix('model of ')}" if feed.is_modelled else ""


def section(feed: GaugeFeed) -> Section:
    """Return the verdict and a card for each GPU."""
    moments = list(feed.history)
    cards = [
        _card(gpu, [moment["rows"][k] for moment in moments if k < len(moment["rows"])])
        for k, gpu in enumerate(feed.gpus[:_MAX_CARDS])
    ]
    return Section(
        "gauges",
        "cl-gauge",
        verdict=verdict(feed),
        badge=badge(feed),
        notes=tuple(feed.problems),
        blocks=(Note(about(feed), "about"), Cards(tuple(cards))),
    )


def _card(gpu: dict[str, Any], rows: Sequence[Sequence[Any]]) -> Section:
    gauges = [_gauge(gauge, k, gpu, [row[k] for row in rows]) for k, gauge in enumerate(GAUGES)]
    last = rows[-1] if rows else [None] * len(COLUMNS)
    line = ", ".join(f"{gauge.title} {_text(gauge, last[k], gpu)}" for k, gauge in enumerate(GAUGES))
    slowed = (Note(f"clocks throttled by {last[_SLOWED]}", "slowed"),) if last[_SLOWED] else ()
    blocks = (Custom(element("div", *gauges), line), *slowed)
    return Section("", "cl-gauge", title=f"{gpu['label']}  {gpu['name']}", blocks=blocks)


def _gauge(gauge: Gauge, number: int, gpu: dict[str, Any], values: Sequence[float | None]) -> Node:
    """One gauge: its title, its value, how full it is, and the moments before."""
    last = values[-1] if values else None
    known = [value for value in values if value is not None]
    full = gpu["full"].get(gauge.column) or max(known, default=0.0) or 1.0
    share = 0.0 if last is None else min(1.0, max(0.0, last / full))
    bar = element("div", element("div", style=f"width:{100 * share:.1f}%"), class_=f"cl-gauge-bar cl-gauge-{number}")
    return element(
        "div",
        element("span", gauge.title, class_="cl-gauge-title"),
        element("span", _text(gauge, last, gpu), class_="cl-gauge-value"),
        _spark(values, full),
        bar,
        class_="cl-gauge",
    )


def _spark(values: Sequence[float | None], full: float) -> Node:
    """Return a small line of the moments, the last at the right."""
    step = _WIDTH / max(len(values) - 1, 1)
    points = [
        f"{k * step:.1f} {_HEIGHT - 1 - (_HEIGHT - 2) * min(1.0, max(0.0, value / full)):.1f}"
        for k, value in enumerate(values)
        if value is not None
    ]
    path = element("path", d=f"M{'L'.join(points)}" if points else None, fill="none", stroke="currentColor")
    frame = {
        "xmlns": SVG,
        "viewBox": f"0 0 {_WIDTH} {_HEIGHT}",
        "preserveAspectRatio": "none",
        "class": "cl-gauge-spark",
    }
    return Node("svg", frame, (path,))


def _text(gauge: Gauge, value: float | None, gpu: dict[str, Any]) -> str:
    text = gauge.text(value)
    total = gpu["full"].get(gauge.column)
    return f"{text} of {units.size(total)}" if gauge.column == "memory_used_bytes" and total and text != "-" else text
