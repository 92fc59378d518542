"""Live gauges: readings taken on a thread, and the section with the last readings of each GPU.

A page that shows the gauges sends a heartbeat every few seconds. While a cell runs, the ipykernel reads no message.
So only heartbeats that are missing while it is idle mean that the page is closed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from cudalens.analysis import units
from cudalens.device.inventory.readings import Gpu, visible_numbers
from cudalens.device.sampler import Sample, Sampler
from cudalens.views.sections.markup import SVG, Node, element
from cudalens.views.sections.model import Cards, Custom, Note, Section
from cudalens.views.timeline.readings import GAUGES, Gauge

DEFAULT_HZ: Final = 2.0
#: Moments that are kept: two minutes at the default rate.
HISTORY: Final = 240

#: Without a heartbeat for so long, the page counts as closed. Browsers wake a hidden page once a minute.
HEARTBEAT_S: Final = 150.0

#: Time from the last view's close message to the end: a page that is reloaded sends a heartbeat before.
CLOSE_S: Final = 20.0

#: What a reading holds, in this order.
COLUMNS: Final = (*(gauge.column for gauge in GAUGES), "slowed_by")

Moment = dict[str, Any]


class Presence:
    """Whether a page shows the gauges: views that sent a heartbeat, and the time in which none could be received."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._views: dict[str, float] = {}
        self._quiet_since = now()
        self._limit_s = HEARTBEAT_S
        self.is_cell_running = False

    def heartbeat(self, view: str) -> None:
        """Record a heartbeat of a view."""
        self._views[view] = self._quiet_since = self._now()
        self._limit_s = HEARTBEAT_S

    def left(self, view: str) -> None:
        """Record that a view has closed."""
        self._views.pop(view, None)
        self._quiet_since = self._now()
        self._limit_s = HEARTBEAT_S if self._views else CLOSE_S

    def cell(self, is_running: bool) -> None:
        """Record that a cell begins or ends; no heartbeat is received while it runs."""
        self.is_cell_running, self._quiet_since = is_running, self._now()

    @property
    def is_over(self) -> bool:
        """Whether no page shows the gauges any longer."""
        return not self.is_cell_running and self._now() - self._quiet_since > self._limit_s


class GaugeFeed:
    """Readings of the GPUs that the program sees, moment by moment, until it is stopped or no page shows them.

    Args:
        rate_hz: Readings per second.
        on_moment: Called on the sampling thread with each `Moment`: ``t`` (epoch ms) and ``rows`` (per GPU the values
            of `COLUMNS`, None where unknown).
        on_gpus: Called on the sampling thread when the GPUs that are read have changed.
        on_end: Called once with the reason of the end, on the thread that ended it.
        presence: Whether a page shows the gauges.

    Attributes:
        gpus: What is known of the GPUs that are read, for the page.
        history: The last moments, oldest first.
        ended: Why it has ended, or "".
    """

    def __init__(
        self,
        rate_hz: float = DEFAULT_HZ,
        *,
        on_moment: Callable[[Moment], object] = lambda moment: None,
        on_gpus: Callable[[], object] = lambda: None,
        on_end: Callable[[str], object] = lambda why: None,
        presence: Presence | None = None,
    ) -> None:
        self.rate_hz = rate_hz
        self.presence = presence or Presence()
        self.gpus: list[dict[str, Any]] = []
        self.history: deque[Moment] = deque(maxlen=HISTORY)
        self.ended = ""
        self._order: list[int] = []
        self._on_moment, self._on_gpus, self._on_end = on_moment, on_gpus, on_end
        self._ending = threading.Lock()
        self._sampler = Sampler(
            rate_hz,
            only=lambda gpus: list(visible_numbers(gpus)),
            on_samples=self._samples,
            on_change=self._changed,
        )

    @property
    def is_running(self) -> bool:
        """Whether it is reading."""
        return not self.ended and self._sampler.is_running

    @property
    def source(self) -> str:
        """The source of the readings."""
        return self._sampler.label

    @property
    def is_modelled(self) -> bool:
        """Whether the readings are modelled."""
        return self._sampler.is_modelled

    @property
    def problems(self) -> list[str]:
        """The values that cannot be read, one line each."""
        return [f"{what}: {why}" for what, why in self._sampler.unread.items()]

    def start(self) -> None:
        """Begin to read.

        Raises:
            MetricsError: There is nothing to read; the message gives the reason and what to do.
        """
        self._sampler.start()

    def read(self) -> None:
        """Take a reading now, in the calling thread, in addition to those of the sampling thread."""
        self._sampler.take()

    def stop(self, why: str = "stopped") -> None:
        """End reading and the thread. Can be called twice."""
        if not self._ending.acquire(blocking=False):
            return
        self.ended = why
        self._sampler.stop()
        self._on_end(why)

    def _changed(self) -> None:
        self.history.clear()
        self._describe()
        self._on_gpus()

    def _describe(self) -> None:
        index = visible_numbers(self._sampler.machine)
        known = sorted(self._sampler.gpus, key=lambda gpu: index.get(gpu.number, len(index)))
        self._order = [gpu.number for gpu in known]
        self.gpus = [_described(gpu, index.get(gpu.number)) for gpu in known]

    def _samples(self, samples: Sequence[Sample]) -> None:
        if self.ended:
            return
        if not self.gpus and self._sampler.gpus:
            self._describe()
            self._on_gpus()
        if samples:
            by_number = {sample.number: sample for sample in samples}
            rows = [_values(by_number.get(number)) for number in self._order]
            moment = {"t": samples[0].ts // 1_000_000, "rows": rows}
            self.history.append(moment)
            self._on_moment(moment)
        if self.presence.is_over:
            self.stop("no page shows it any more")


def _values(sample: Sample | None) -> list[Any]:
    """Return the values of `COLUMNS`; all None for a GPU that is lost."""
    return [None if sample is None else getattr(sample.reading, column) for column in COLUMNS]


def _described(gpu: Gpu, index: int | None) -> dict[str, Any]:
    """Return a GPU for the page: what it is called, and the value at which each gauge is full."""
    full = {
        "gpu_busy_pct": 100.0,
        "memory_used_bytes": gpu.total_memory_bytes,
        "power_watts": gpu.power_limit_watts,
        "temperature_celsius": 100.0,
        "clock_mhz": gpu.clock_mhz,
    }
    return {"label": f"GPU {gpu.number}" if index is None else f"cuda:{index}", "name": gpu.name, "full": full}


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
    spark = Node("svg", frame, (path,))  # the moments, the last at the right
    return element(
        "div",
        element("span", gauge.title, class_="cl-gauge-title"),
        element("span", _text(gauge, last, gpu), class_="cl-gauge-value"),
        spark,
        bar,
        class_="cl-gauge",
    )


def _text(gauge: Gauge, value: float | None, gpu: dict[str, Any]) -> str:
    text = gauge.text(value)
    total = gpu["full"].get(gauge.column)
    return f"{text} of {units.size(total)}" if gauge.column == "memory_used_bytes" and total and text != "-" else text
