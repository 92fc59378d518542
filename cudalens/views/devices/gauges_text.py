"""Live gauges in words and as a saved picture: the last readings, and the lines of the moments before them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from cudalens.analysis import units
from cudalens.views import assets
from cudalens.views.devices.gauges_feed import COLUMNS, GaugeFeed, Moment
from cudalens.views.sections.markup import SVG, Node, element
from cudalens.views.timeline.metrics_text import GAUGES, Gauge

_WIDTH: Final = 150
_HEIGHT: Final = 24
_MAX_CARDS: Final = 16
_SLOWED: Final = COLUMNS.index("slowed_by")


def gauges_verdict(feed: GaugeFeed) -> str:
    """``cuda:0 busy 87 %, 12.3 GiB of 79.2 GiB, 412 W, 65 °C``; of several GPUs the busiest."""
    if not feed.history or not feed.gpus:
        return next(iter(feed.problems), "no reading yet")
    rows = feed.history[-1]["rows"]
    busiest = max(range(len(rows)), key=lambda k: -1.0 if rows[k][0] is None else rows[k][0])
    texts = [_text(gauge, rows[busiest][k], feed.gpus[busiest]) for k, gauge in enumerate(GAUGES[:4])]
    if (share := rows[busiest][0]) is not None:
        texts[0] = f"busy {texts[0]}" if share else "idle"
    known = ", ".join(text for text in texts if text != "-") or "it tells nothing"
    others = f"; {units.plural(len(rows), 'GPU')}, {'this one the busiest' if share else 'none busier'}"
    return f"{feed.gpus[busiest]['label']}: {known}{others if len(rows) > 1 else ''}"


def gauges_about(feed: GaugeFeed) -> str:
    """Who reads, how often, and how it ended."""
    when = f"{datetime.fromtimestamp(feed.history[-1]['t'] / 1000, UTC):%H:%M:%S} UTC" if feed.history else "no time"
    rate = f"{feed.rate_hz:g} readings a second"
    who = feed.source if feed.is_modelled else f"read by {feed.source or 'nobody'}"
    return f"{who}, {rate}; {feed.ended or 'live'}; as of {when}"


def mark(feed: GaugeFeed) -> str:
    """What must stand on the face of readings that nobody took."""
    return f"simulated: {feed.source.removeprefix('model of ')}" if feed.is_modelled else ""


def gauges_text(feed: GaugeFeed) -> str:
    """The last readings as a small table, the verdict above it."""
    badge = f"[{mark(feed)}] " if feed.is_modelled else ""
    lines = [f"{badge}{gauges_verdict(feed)}", f"  {gauges_about(feed)}"]
    if feed.history:
        lines.append("")
        for gpu, row in zip(feed.gpus, feed.history[-1]["rows"], strict=False):
            texts = [f"{gauge.title} {_text(gauge, row[k], gpu)}" for k, gauge in enumerate(GAUGES)]
            slowed = f", held down by {row[_SLOWED]}" if row[_SLOWED] else ""
            lines.append(f"{gpu['label']}  {gpu['name']}: {', '.join(texts)}{slowed}")
    return "\n".join([*lines, *(f"  ! {problem}" for problem in feed.problems)])


def gauges_html(feed: GaugeFeed, widget_id: str | None = None) -> str:
    """The same as HTML that stands alone. `widget_id`: the live widget that hides it while it shows."""
    badge = element("span", mark(feed), class_="cl-gauge-badge") if feed.is_modelled else None
    moments = list(feed.history)
    cards = [
        _card(gpu, [moment["rows"][k] for moment in moments if k < len(moment["rows"])])
        for k, gpu in enumerate(feed.gpus[:_MAX_CARDS])
    ]
    notes = element("ul", *(element("li", problem) for problem in feed.problems), class_="cl-gauge-notes")
    body = element(
        "div",
        element("p", badge, element("strong", gauges_verdict(feed)), class_="cl-gauge-verdict"),
        element("div", *cards, class_="cl-gauge-cards"),
        notes if feed.problems else None,
        element("p", gauges_about(feed), class_="cl-gauge-about"),
        class_="cudalens-gauges",
        data_cudalens_static=widget_id,
    )
    return f"<style>{assets.style('gauges')}</style>{body.html()}"


def _card(gpu: dict[str, Any], rows: Sequence[Sequence[Any]]) -> Node:
    gauges = [_gauge(gauge, k, gpu, [row[k] for row in rows]) for k, gauge in enumerate(GAUGES)]
    slowed = rows[-1][_SLOWED] if rows else ""
    head = element("h4", element("span", gpu["label"], class_="cl-gauge-label"), f" {gpu['name']}")
    held = element("p", f"clocks held down by {slowed}", class_="cl-gauge-slowed") if slowed else None
    return element("article", head, *gauges, held, class_="cl-gauge-card")


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
    """A small line of the moments, the last at the right."""
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


def latest(feed: GaugeFeed) -> Moment:
    """The last moment; an empty one before the first."""
    return feed.history[-1] if feed.history else {}
