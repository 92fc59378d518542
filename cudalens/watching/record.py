"""A watched run as a section with its pictures, and `WatchRecord`: to print, to show, to write as a page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.frames import Trace
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.markup import Node, element, svg
from cudalens.views.sections.model import Block, Column, Facts, Items, Picture, Row, Section, Table
from cudalens.views.sections.shown import Shown, write_page
from cudalens.views.timeline.svg import nice_step, timeline_svg
from cudalens.watching.causes import PARTS
from cudalens.watching.change_detector import LEAST_SHARE
from cudalens.watching.levels import Level, present_level
from cudalens.watching.run import WatchedChange, WatchedRecording, WatchedRun

_CHANGES: Final = (
    Column("since step", "step", "right"),
    Column("before", "before", "right"),
    Column("after", "after", "right"),
    Column("what changed", "causes", text_width=90),
)
_RECORDINGS: Final = (
    Column("step", "step", "right"),
    Column("kept because", "reason"),
    Column("a step", "time", "right"),
    Column("verdict", "verdict", text_width=80),
)
_MOST_CHANGES: Final = 20
#: Longest finding, in characters: its advice is at its end.
_MAX_FINDING: Final = 800


def section(run: WatchedRun, last: Trace | None = None) -> Section:
    """Return all that is known of a run.

    Args:
        run: The run.
        last: The Trace of the last recording, for its timeline; None to leave it out.
    """
    blocks: list[Block] = [Facts(run_facts(run))]
    drawn = (step_times(run), part_bars(run.recordings))
    blocks += [Picture(svg, is_wide=True) for svg in drawn if svg is not None]
    if run.changes:
        blocks.append(_changes(run))
    if run.recordings:
        blocks += [_findings(run.recordings[-1]), _recordings(run)]
    if last is not None and (timeline := timeline_svg(last)) is not None:
        step = run.recordings[-1].step if run.recordings else 0
        blocks.append(
            Section("", "cl-watch", title=f"Timeline of step {step:,}", blocks=(Picture(timeline, is_wide=True),))
        )
    return Section(
        "watch",
        "cl-watch",
        verdict=clean(verdict(run)),
        badge=simulated_badge(run),
        notes=tuple(map(clean, run.facts.notes)),
        blocks=tuple(blocks),
    )


def _changes(run: WatchedRun) -> Table:
    groups = group_changes(run.changes)
    rows = [
        Row(
            (
                f"{group[0].step:,}",
                units.duration(group[0].before_ns),
                units.duration(group[-1].after_ns),
                _causes(group, run),
            )
        )
        for group in groups[: -_MOST_CHANGES - 1 : -1]
    ]
    return Table(_CHANGES, rows, num_rows=len(groups), num_open=5, more=("change", "w.changes"), key="changes")


def _causes(group: Sequence[WatchedChange], run: WatchedRun) -> str:
    if len(group) > 1:
        return describe_disturbance(group)
    return clean("; ".join(group[0].causes)) or f"not known: {_missing_recording(group[0], run)}"


def _missing_recording(change: WatchedChange, run: WatchedRun) -> str:
    """Say why the recordings do not explain a change."""
    following = [other.step for other in run.changes if other.step > change.step]
    steps = [one.step for one in run.recordings]
    has_before = any(step < change.step for step in steps)
    has_after = any(change.step <= step and (not following or step < following[0]) for step in steps)
    if has_before and has_after:
        return "the steps that were recorded before and after do not show it"
    if has_before or has_after:
        return "no recording after it" if has_before else "no recording before it"
    return "no recording"


def _findings(one: WatchedRecording) -> Items:
    found = tuple(clean(text, _MAX_FINDING) for text in one.findings)
    return Items(found, title=f"Findings of step {one.step:,}" if one.findings else "")


def _recordings(run: WatchedRun) -> Table:
    rows = [
        Row((f"{one.step:,}", one.reason, units.duration(one.step_ns), clean(one.verdict)))
        for one in reversed(run.recordings)
    ]
    return Table(_RECORDINGS, rows, num_open=4, more=("recording", "w.traces"), key="recordings")


class WatchRecord(Shown):
    """A watched run: its steps, the changes of their time, and its recordings."""

    def __init__(self, run: WatchedRun) -> None:
        self._run = run

    @property
    def run(self) -> WatchedRun:
        """All that is known of the run."""
        return self._run

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return verdict(self._run)

    @property
    def steps(self) -> pd.DataFrame:
        """A row per step, as `cudalens.watching.run.WatchedRun.steps` defines it."""
        return self._run.steps()

    @property
    def traces(self) -> list[Trace]:
        """The Traces of the recordings that are kept, oldest first."""
        return [self._run.trace(recording) for recording in self._run.recordings]

    def summary(self) -> WatchRecord:
        """Itself, as `Trace.summary` returns what to print."""
        return self

    def to_html(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Write one offline page; returns its path.

        Args:
            path: The file.
            title: Title of the page; by default the name of the run.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        return write_page(path, title or self._run.facts.name, self._repr_html_())

    @property
    def section(self) -> Section:
        """Verdict, step times, parts of a step, changes, recordings, and the timeline of the last recording."""
        recordings = self._run.recordings
        return section(self._run, self._run.trace(recordings[-1]) if recordings else None)


WIDTH: Final = 720
_LEFT: Final = 74
_HEIGHT: Final = 170
_TOP: Final = 20
_BOTTOM: Final = 26
#: Columns of pixels that steps are grouped into.
_NUM_BINS: Final = 240
_MOST_BARS: Final = 8
_ROW: Final = 22
FONT: Final = {"font_family": "system-ui, sans-serif", "font_size": 11, "fill": "currentColor"}
_BAND, _MARK, _CHANGE = "#0072b2", "#d55e00", "#b3261e"

#: Colours of the parts of a step.
COLORS: Final = {
    "GPU compute": "#009e73",
    "communication": "#d55e00",
    "copies": "#d9b310",
    "idle: data loading": "#7a5195",
    "idle: sync": "#0072b2",
    "idle: launch": "#e69f00",
    "idle: dependency": "#9a6324",
    "idle: host": "#56b4e9",
    "idle: unknown": "#8a929b",
    "data loading": "#7a5195",
    "optimizer": "#e69f00",
    "operators": "#56b4e9",
    "Python and other": "#8a929b",
}


def step_times(run: WatchedRun) -> Node | None:
    """Step time over the run: the median of each group of steps, its middle half, slow steps, changes, recordings."""
    columns = run.columns
    if len(columns["step"]) < 2:
        return None
    step, dur, most = (np.asarray(columns[name], np.float64) for name in ("step", "dur", "max_dur"))
    first, last = float(step[0]), float(step[-1] + columns["num_steps"][-1])
    top_ns = _top(dur)
    x_of = _Scale(first, max(last, first + 1), _LEFT, WIDTH - 8)
    y_of = _Scale(0.0, top_ns, _HEIGHT - _BOTTOM, _TOP)
    mid = [
        (x_of(at), low, middle, high)
        for at, low, middle, high in _quartiles(step, np.minimum(dur, top_ns), first, last)
    ]
    slow = [(x_of(float(step[k])), most[k]) for k in np.flatnonzero(most > 1.5 * np.median(dur))[:_NUM_BINS]]
    label = f"Step times of steps {int(first):,} to {int(last) - 1:,}: median {units.duration(float(np.median(dur)))}"
    upper = [(x, y_of(high)) for x, _, _, high in mid]
    lower = [(x, y_of(low)) for x, low, _, _ in reversed(mid)]
    area = f"{_line([*upper, *lower])}z"
    return svg(
        WIDTH,
        _HEIGHT,
        label,
        *_axes(x_of, y_of, top_ns, float(most.max()), first, last),
        element("path", d=area, fill=_BAND, fill_opacity=".22", stroke="none"),
        element(
            "path", d=_line([(x, y_of(one)) for x, _, one, _ in mid]), fill="none", stroke=_BAND, stroke_width="1.6"
        ),
        element("path", d="".join(_dot(x, y_of(min(ns, top_ns))) for x, ns in slow), fill=_MARK, opacity=".8"),
        *(_change(one, x_of) for one in run.changes if one.step >= first),
        *(_tick(one, x_of) for one in run.recordings if one.step >= first),
    )


def _quartiles(step: Any, dur: Any, first: float, last: float) -> Any:
    """Mean step, lower quartile, median and upper quartile of the rows in each of `_NUM_BINS` equal stretches."""
    place = np.minimum(((step - first) / max(last - first, 1) * _NUM_BINS).astype(np.int64), _NUM_BINS - 1)
    order = np.lexsort((dur, place))
    ordered, place = dur[order], place[order]
    begin = np.flatnonzero(np.diff(place, prepend=-1))
    count = np.diff(np.append(begin, len(place)))
    means = np.add.reduceat(step[order], begin) / count
    parts = [ordered[begin + np.rint(share * (count - 1)).astype(np.int64)] for share in (0.25, 0.5, 0.75)]
    return np.stack([means, *parts], axis=1).tolist()


def _top(dur: Any) -> float:
    return float(max(np.percentile(dur, 98) * 1.25, np.median(dur) * 1.6, 1.0))


class _Scale:
    """A linear map from `low` … `high` to pixels."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._start = low, start
        self._factor = (end - start) / (high - low)

    def __call__(self, value: float) -> float:
        return round(self._start + (value - self._low) * self._factor, 1)


def _axes(x_of: _Scale, y_of: _Scale, top_ns: float, most_ns: float, first: float, last: float) -> list[Node]:
    title = "step time" if most_ns <= top_ns else f"step time, longest {units.duration(most_ns)}"
    nodes = [element("text", title, x=4, y=12, opacity=".75", **FONT)]
    tick = nice_step(top_ns / 3)
    for k in range(int(top_ns // tick) + 1):
        y = y_of(k * tick)
        line = f"M{_LEFT} {y}H{WIDTH - 8}"
        nodes.append(element("path", d=line, stroke="currentColor", stroke_opacity=".15", fill="none"))
        text = units.duration(k * tick) if k else "0"
        nodes.append(element("text", text, x=_LEFT - 6, y=y + 4, text_anchor="end", opacity=".75", **FONT))
    tick = max(nice_step((last - first) / 6), 1.0)
    at = np.ceil(first / tick) * tick
    while at < last:
        anchor = "end" if x_of(at) > WIDTH - 40 else "middle"
        text = f"step {int(at):,}" if at == np.ceil(first / tick) * tick else f"{int(at):,}"
        nodes.append(element("text", text, x=x_of(at), y=_HEIGHT - 6, text_anchor=anchor, opacity=".75", **FONT))
        at += tick
    return nodes


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def _dot(x: float, y: float) -> str:
    return f"M{x - 2:g} {y:g}a2 2 0 1 0 4 0a2 2 0 1 0-4 0z"


def _change(change: WatchedChange, x_of: _Scale) -> Node:
    line = f"M{x_of(change.step):g} {_TOP - 6}V{_HEIGHT - _BOTTOM}"
    return element("path", d=line, stroke=_CHANGE, stroke_width="1.4", stroke_dasharray="4 3", fill="none")


def _tick(recording: WatchedRecording, x_of: _Scale) -> Node:
    x, y = x_of(recording.step), _HEIGHT - _BOTTOM
    return element("path", d=f"M{x:g} {y}l-4 7h8z", fill="currentColor", opacity=".7")


def part_bars(recordings: Sequence[WatchedRecording]) -> Node | None:
    """Return the parts of the recorded steps as bars on one scale, the newest first."""
    shown = [one for one in recordings if one.parts][-_MOST_BARS:][::-1]
    if not shown:
        return None
    longest = max(sum(one.parts.values()) for one in shown)
    used = [name for name in PARTS if any(name in one.parts for one in shown)]
    nodes: list[Node] = []
    for k, one in enumerate(shown):
        nodes += _bar(one, k * _ROW, longest)
    legend, rows = _legend(used, len(shown) * _ROW + 8)
    height = len(shown) * _ROW + 8 + rows * 18
    return svg(WIDTH, height, "Parts of the recorded steps", *nodes, *legend)


def _bar(one: WatchedRecording, top: float, longest: float) -> list[Node]:
    x, nodes = float(_LEFT), []
    nodes.append(
        element("text", f"step {one.step:,}", x=_LEFT - 6, y=top + 14, text_anchor="end", opacity=".8", **FONT)
    )
    for name in PARTS:
        width = (WIDTH - 100 - _LEFT) * one.parts.get(name, 0.0) / longest
        if width > 0:
            title = element("title", f"{name}: {units.duration(one.parts[name])} per step")
            nodes.append(
                element(
                    "rect", title, x=f"{x:.1f}", y=top + 2, width=f"{width:.1f}", height=_ROW - 6, fill=COLORS[name]
                )
            )
            x += width
    nodes.append(element("text", units.duration(sum(one.parts.values())), x=f"{x + 6:.1f}", y=top + 14, **FONT))
    return nodes


def _legend(names: Sequence[str], top: float) -> tuple[list[Node], int]:
    x, row, nodes = float(_LEFT), 0, []
    for name in names:
        width = 26 + 6.6 * len(name)
        if x + width > WIDTH:
            x, row = float(_LEFT), row + 1
        y = top + row * 18
        nodes.append(element("rect", x=f"{x:.0f}", y=y, width=10, height=10, fill=COLORS[name]))
        nodes.append(element("text", name, x=f"{x + 15:.0f}", y=y + 9, opacity=".85", **FONT))
        x += width
    return nodes, row + 1


# Sentences on a watched run: its verdict, its changes without those that have no cause in the program, its cost.

_SOURCES: Final = {
    "optimizer": "steps of the optimizer",
    "dataloader": "batches of the DataLoader",
    "module": "calls of the outermost module",
    "program": "calls of step()",
    "none": "no step was found yet",
}
_NO_STEP: Final = (
    "No step was found yet: no optimizer, DataLoader or nn.Module ran. Call cudalens.step() at the end of each step."
)
_GAUGES: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    "gpu_busy_pct": ("GPU busy", lambda value: units.percent(value)),
    "memory_used_bytes": ("memory used", lambda value: units.size(value)),
    "power_watts": ("power", lambda value: f"{value:.0f} W"),
    "temperature_celsius": ("temperature", lambda value: f"{value:.0f} °C"),
    "clock_mhz": ("clock", lambda value: f"{value} MHz"),
    "slowed_by": ("throttled by", str),
}


def verdict(run: WatchedRun) -> str:
    """``step 4,120: 20.1 ms a step; since step 3,900: 18 % slower; +41 ms in data loading``.

    The step time is the median since the last change, and the change is the largest one that still holds. A change that
    is not decided yet is part of the step time: ``20.1 ms a step since step 3,900, 10.0 ms before``. Without a change,
    the verdict of the last recording: ``...; recorded step 4,108: 20.0 ms, GPU busy 71 %``.
    """
    facts, dur = run.facts, run.columns["dur"]
    if not len(dur):
        return _NO_STEP if not facts.num_steps else f"{units.plural(facts.num_steps, 'step')}, no step time yet"
    groups = group_changes(run.changes)
    level = present_level(run.columns, groups[-1][0].step if groups else 0)
    largest = largest_that_holds(groups) if groups else ()
    changed = describe_changes(largest, run, level) if largest and _still_holds(largest, level) else ""
    recent = [one for one in run.recordings if one.verdict]
    said = f"; {recorded(recent[-1])}: {recent[-1].verdict}" if recent and not changed else ""
    line = f"step {facts.num_steps:,}: {_describe_level(level)}"
    return f"{line}; {changed}" if changed else f"{line}{said}"


def _still_holds(group: Sequence[WatchedChange], level: Level | None) -> bool:
    """Whether a change that is not decided yet has not undone another one."""
    before, after = group[0].before_ns, group[-1].after_ns
    if level is None or level.before_ns is None or min(before, after) <= 0:
        return True
    return (level.step_ns > (before * after) ** 0.5) == (after > before)


def _describe_level(level: Level | None) -> str:
    """Return ``20.1 ms a step``, or ``20.1 ms a step since step 3,900, 10.0 ms before``."""
    if level is None:
        return "no step time"
    text = f"{units.duration(level.step_ns)} a step"
    if level.before_ns is None:
        return text
    return f"{text} since step {level.since:,}, {units.duration(level.before_ns)} before"


def recorded(one: WatchedRecording) -> str:
    """``recorded step 7`` or ``recorded steps 7 to 9``."""
    last = one.step + one.num_steps - 1
    return f"recorded steps {one.step:,} to {last:,}" if one.num_steps > 1 else f"recorded step {one.step:,}"


def simulated_badge(run: WatchedRun) -> str:
    """Return ``simulated`` for times of a virtual device, else ""."""
    return "simulated" if run.facts.clock == "virtual" else ""


def describe_changes(group: Sequence[WatchedChange], run: WatchedRun, level: Level | None = None) -> str:
    """Return ``since step 4,120 (14:02:31): 18 % slower; +41 ms in data loading``.

    If steps take another time by now than after the change, the line has both times of the change:
    ``at step 4,120: 18 % slower (20.1 to 23.7 ms); ...``. For several changes of one disturbance,
    `describe_disturbance` follows the time.
    """
    first = group[0]
    at = f"step {first.step:,}"
    if run.facts.clock != "virtual":
        at += f" ({datetime.fromtimestamp(first.ts / 1e9, UTC).astimezone():%H:%M:%S})"
    if len(group) > 1:
        return f"since {at}: {describe_disturbance(group)}"
    changed = units.time_change(first.after_ns / first.before_ns - 1 if first.before_ns else 0.0)
    cause = f"; {first.causes[0]}" if first.causes else ""
    if level is None or abs(level.step_ns - first.after_ns) < LEAST_SHARE * first.after_ns:
        return f"since {at}: {changed}{cause}"
    times = units.interval(units.duration(first.before_ns), units.duration(first.after_ns))
    return f"at {at}: {changed} ({times}){cause}"


def describe_disturbance(group: Sequence[WatchedChange]) -> str:
    """Return ``7 changes, slower and faster in turn, from 18.1 ms to 26.3 ms; ...`` for a disturbance."""
    levels = [group[0].before_ns, *(one.after_ns for one in group)]
    between = units.interval(units.duration(min(levels)), units.duration(max(levels)))
    turns = f"{len(group)} changes, slower and faster in turn, from {between}"
    return f"{turns}; other load on the machine is a usual cause"


def run_facts(run: WatchedRun) -> tuple[tuple[str, str], ...]:
    """Return facts of the run, as terms and texts."""
    facts = run.facts
    clock = {"host": "the host's clock", "device": "CUDA events", "virtual": "the virtual device's clock"}
    state = "running" if facts.status == "running" else {"ok": "ended"}.get(facts.status, facts.status)
    found = [
        ("Run", f"{facts.name}, {state}" + (f", rank {facts.rank}" if facts.rank is not None else "")),
        (
            "Steps",
            f"{facts.num_steps:,}: {_SOURCES.get(facts.source, facts.source)}, "
            f"by {clock.get(facts.clock, facts.clock)}",
        ),
        (
            "Cost",
            f"{units.percent(100 * facts.cost)} of the loop's time, measured; budget {100 * facts.budget:g} %; "
            f"{units.plural(facts.num_recordings, 'recording')}, {len(run.recordings)} kept",
        ),
    ]
    if memory := _memory(run):
        found.append(("Memory", memory))
    if gauges := ", ".join(_gauge(name, value) for name, value in facts.gauges.items() if name in _GAUGES):
        found.append(("GPU", gauges))
    return tuple(found)


def _gauge(name: str, value: float | str) -> str:
    title, text = _GAUGES[name]
    return f"{title} {text(value)}"


def _memory(run: WatchedRun) -> str:
    held = run.columns["allocated_bytes"]
    if not len(held) or held[-1] < 0:
        return ""
    retries = int(run.columns["num_retries"][-1])
    more = f", {units.plural(retries, 'retry').replace('retrys', 'retries')} of the allocator" if retries > 0 else ""
    return f"{units.size(float(held[-1]))} allocated{more}"


#: Changes in turn, slower and faster, that are one disturbance.
NUM_LEAST: Final = 3
#: Kinds of causes that say only that the same work took another time.
_UNSPECIFIC: Final = frozenset({"host", "idle"})


def group_changes(changes: Sequence[WatchedChange]) -> list[tuple[WatchedChange, ...]]:
    """Return the changes in order; those of one disturbance together, each other one alone.

    A disturbance is a series of at least `NUM_LEAST` changes that are slower and faster in turn, none of which has a
    cause in the program: data loading, a synchronisation, retries, a batch size, a clock, communication or GPU work.
    """
    series: list[list[WatchedChange]] = []
    for one in changes:
        before = series[-1][-1] if series else None
        turns = before is not None and (one.after_ns > one.before_ns) != (before.after_ns > before.before_ns)
        if before is not None and turns and _is_unspecific(one) and _is_unspecific(before):
            series[-1].append(one)
        else:
            series.append([one])
    return [part for found in series for part in _split(found)]


def largest_that_holds(groups: Sequence[Sequence[WatchedChange]]) -> Sequence[WatchedChange]:
    """The changes to name first: of those that still hold, the one by the largest factor; the later one of equal ones.

    A change holds until the level is nearer to that before it than to that after it. The change that ends it is named
    only if it is the last one and no other holds: a loop that is slow for a while and then as fast as before has
    nothing to report but that.
    """
    holding: list[Sequence[WatchedChange]] = []
    is_recovery = False
    for group in groups:
        level = group[-1].after_ns
        remaining = [earlier for earlier in holding if _holds(earlier, level)]
        is_recovery = len(remaining) < len(holding)
        holding = remaining if is_recovery else [*remaining, group]
    return max(reversed(holding), key=_size, default=groups[-1])


def _holds(group: Sequence[WatchedChange], level_ns: float) -> bool:
    """Return whether `level_ns` is nearer to the level after `group` than to that before it, as a factor."""
    before, after = group[0].before_ns, group[-1].after_ns
    middle = (before * after) ** 0.5
    return (level_ns > middle) == (after > before)


def _size(group: Sequence[WatchedChange]) -> float:
    """Return the factor between the largest and the smallest level of `group`."""
    levels = [group[0].before_ns, *(one.after_ns for one in group)]
    return max(levels) / max(min(levels), 1.0)


def _split(series: list[WatchedChange]) -> list[tuple[WatchedChange, ...]]:
    return [tuple(series)] if len(series) >= NUM_LEAST else [(one,) for one in series]


def _is_unspecific(change: WatchedChange) -> bool:
    return set(change.kinds) <= _UNSPECIFIC
