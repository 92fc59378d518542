"""Idle time and launches: gaps and their causes, shares of the devices' time, launch calls, queues of streams."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cudalens.analysis import units
from cudalens.analysis.time.idle import CAUSES, idle_causes, idle_time
from cudalens.analysis.time.launch import FULL_QUEUE, launch_statistics, queue_lengths
from cudalens.analysis.time.overlap import temporal_breakdown
from cudalens.frames import Ranks, Trace
from cudalens.views.figures.style import (
    MAX_BARS,
    MAX_POINTS,
    Mode,
    add_points,
    bars,
    colors_of,
    finished,
    group_color,
    idle_color,
    label,
    lanes,
    nothing,
    series_color,
)

WORDS: Final = {
    "host": "host was busy",
    "sync": "host had waited for the device",
    "launch": "launch was on its way",
    "dependency": "waited for other work",
    "unknown": "unknown",
}


def cause_color(cause: str, mode: Mode) -> str:
    """Return the colour of a cause of idle time."""
    groups = {"host": "op", "sync": "sync", "launch": "runtime", "dependency": "range"}
    return group_color(groups[cause]) if cause in groups else idle_color(mode)


def causes(
    trace: Trace | Ranks,
    *,
    mode: Mode = "auto",
    by: Literal["device", "stream"] = "device",
    min_ns: int = 0,
    step: int | None = None,
) -> go.Figure:
    """Draw a bar per device or stream of `idle_causes`."""
    frame = idle_causes(trace, by, min_ns=min_ns, step=step)
    if not len(frame):
        return nothing("No gap between pieces of device work", trace, mode)
    frame = frame.assign(lane=lanes(frame))
    names = list(dict.fromkeys(frame["lane"]))
    drawn = go.Figure()
    for cause in CAUSES:
        rows = frame[frame["cause"] == cause].set_index("lane")
        if not len(rows):
            continue
        times = [int(rows["part_ns"].get(name, 0)) for name in names]
        hover = [
            f"{WORDS[cause]}: {units.duration(ns)}{_cause_top(rows, name)}"
            for ns, name in zip(times, names, strict=True)
        ]
        bars(drawn, names, [ns / 1e6 for ns in times], WORDS[cause], cause_color(cause, mode), hover, "idle, ms")
    total = int(frame["part_ns"].sum())
    parts = frame.groupby("cause", observed=True)["part_ns"].sum().sort_values(ascending=False)
    shares = [f"{WORDS[str(cause)]} {units.percent(100 * ns / total)}" for cause, ns in parts.items() if ns]
    title = f"{units.duration(total)} idle: {', '.join(shares[:3])}"
    return finished(drawn, title, trace, mode, rows=len(names))


def _cause_top(rows: Any, name: str) -> str:
    top = rows["top"].get(name)
    return "" if not isinstance(top, str) else f"<br>most: {label(top, 80)}, {units.duration(rows['top_ns'].get(name))}"


def gaps(
    trace: Trace | Ranks,
    *,
    mode: Mode = "auto",
    by: Literal["device", "stream"] = "device",
    min_ns: int = 0,
    step: int | None = None,
) -> go.Figure:
    """Draw a point per gap of `idle_time`; at most 3,000, the longest."""
    frame = idle_time(trace, by, min_ns=min_ns, step=step)
    if not len(frame):
        return nothing("No gap between pieces of device work", trace, mode)
    shown = frame.nlargest(MAX_POINTS, "gap_ns")
    zero = int(frame["ts"].min())
    drawn = go.Figure()
    for cause in CAUSES:
        rows = shown[shown["cause"] == cause]
        if len(rows):
            where = rows["host_line"].astype(object).where(rows["host_line"].notna(), rows["host_op"].astype(object))
            found = []
            for lane, gap, place, following in zip(lanes(rows), rows["gap_ns"], where, rows["next_op"], strict=True):
                text = f"{units.duration(gap)} on {lane}"
                text += f"<br>host in {label(place, 80)}" if isinstance(place, str) else ""
                found.append(text + (f"<br>ended by {label(following, 80)}" if isinstance(following, str) else ""))
            x, y = (rows["ts"] - zero) / 1e6, rows["gap_ns"] / 1e3
            add_points(drawn, x, y, WORDS[cause], found, color=cause_color(cause, mode), size=7, opacity=0.8)
    drawn.update_xaxes(title_text="ms after the first gap")
    drawn.update_yaxes(title_text="length of the gap, µs", type="log", exponentformat="none")
    worst = frame.iloc[int(np.argmax(frame["gap_ns"].to_numpy()))]
    line = next((worst[k] for k in ("host_line", "host_op", "next_op") if isinstance(worst[k], str)), "")
    total = f"{units.duration(int(frame['gap_ns'].sum()))} idle in {units.plural(len(frame), 'gap')}"
    at_line = f", {units.shorten(line, 50)}" if line else ""
    title = f"{total}; the longest {units.duration(worst['gap_ns'])}: {WORDS[str(worst['cause'])]}{at_line}"
    return finished(drawn, title, trace, mode)


_SHARES: Final = (
    ("comp", "computing", "kernel"),
    ("exposed_comm", "communicating, not hidden", "comm"),
    ("exposed_mem", "copying, not hidden", "memory"),
)


def shares(
    trace: Trace | Ranks,
    *,
    mode: Mode = "auto",
    by: Literal["device", "stream", "step"] | None = None,
    step: int | None = None,
) -> go.Figure:
    """Draw a bar per row of `temporal_breakdown`; at most 20, the longest."""
    frame = temporal_breakdown(trace, by, step=step)
    if not len(frame):
        return nothing("No device work was recorded", trace, mode)
    shown = frame.nlargest(MAX_BARS, "span_ns").sort_index()
    drawn = go.Figure()
    names = [name or "all devices" for name in lanes(shown)]
    for part, text, group in (*_SHARES, ("idle", "idle", "")):
        color = group_color(group) if group else idle_color(mode)
        times, shares = shown[f"{part}_ns"].tolist(), shown[f"{part}_pct"].fillna(0).tolist()
        hover = [f"{text}: {units.duration(ns)}, {units.percent(pct)}" for ns, pct in zip(times, shares, strict=True)]
        bars(drawn, names, shares, text, color, hover, "% of the time from first start to last end")
    drawn.update_xaxes(range=[0, 100])
    span = int(frame["span_ns"].sum())
    parts = {text: int(frame[f"{part}_ns"].sum()) for part, text, _ in (*_SHARES, ("idle", "idle", ""))}
    listed = [f"{text} {units.percent(100 * ns / span)}" for text, ns in parts.items() if ns and span]
    what = "ranks" if "rank" in frame and frame["rank"].is_unique else "rows"
    start = f"{len(frame)} {what}, together {units.duration(span)}" if len(frame) > 1 else f"Of {units.duration(span)}"
    title = f"{start}: {', '.join(listed)}"
    return finished(drawn, title, trace, mode, rows=len(shown))


def launches(
    trace: Trace | Ranks,
    *,
    mode: Mode = "auto",
    step: int | None = None,
    call_cutoff_ns: int = 50_000,
    delay_cutoff_ns: int = 100_000,
    full_queue: int = FULL_QUEUE,
) -> go.Figure:
    """Draw a point per launch of `launch_statistics`; at most 3,000, evenly chosen."""
    frame = launch_statistics(
        trace, step=step, call_cutoff_ns=call_cutoff_ns, delay_cutoff_ns=delay_cutoff_ns, full_queue=full_queue
    )
    if not len(frame):
        return nothing("No launch of device work was recorded", trace, mode)
    shown = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, MAX_POINTS).astype(int))]
    short, blocked = shown["is_short"].to_numpy(), shown["is_blocked"].to_numpy()
    drawn = go.Figure()
    _launch_points(drawn, shown[~short & ~blocked], "work takes longer than its launch", group_color("kernel"))
    _launch_points(drawn, shown[short & ~blocked], "launch takes longer than its work", group_color("comm"))
    _launch_points(drawn, shown[blocked], "blocked: the queue was full", group_color("sync"))
    span = [max(int(shown["call_ns"].min()), 100) / 1e3, max(int(shown["call_ns"].max()), 200) / 1e3]
    line = {"color": colors_of(mode)["muted"], "dash": "dot", "width": 1}
    drawn.add_scatter(x=span, y=span, mode="lines", line=line, name="equal", hoverinfo="skip")
    drawn.update_xaxes(title_text="the call on the host, µs", type="log", exponentformat="none")
    drawn.update_yaxes(title_text="its work on the device, µs", type="log", exponentformat="none")
    short_pct = 100 * frame["is_short"].mean()
    free = frame["latency_ns"].dropna()
    facts = [f"{units.percent(short_pct)} of {units.plural(len(frame), 'launch')} took longer than their work"]
    facts += [f"latency {units.duration(float(free.median()))} (median)"] if len(free) else []
    num_blocked = int(frame["is_blocked"].sum())
    facts += [f"{units.count(num_blocked)} blocked on a full queue"] if num_blocked else []
    title = "; ".join(facts)
    return finished(drawn, title, trace, mode)


def _launch_points(drawn: go.Figure, rows: pd.DataFrame, name: str, color: str) -> None:
    if not len(rows):
        return
    hover = [
        f"{label(work, 80)}<br>{label(call)}: {units.duration(call_ns)}, work {units.duration(work_ns)}<br>"
        f"started {units.duration(delay)} after the call; {length} in front of it"
        for work, call, call_ns, work_ns, delay, length in zip(
            *(rows[k] for k in ("work_name", "call", "call_ns", "work_ns", "delay_ns", "queue_length")), strict=True
        )
    ]
    call, work = (np.maximum(rows[column], 100) / 1e3 for column in ("call_ns", "work_ns"))
    add_points(drawn, call, work, name, hover, color=color, size=6, opacity=0.6)


def queues(trace: Trace | Ranks, *, mode: Mode = "auto") -> go.Figure:
    """Return a line per stream of `queue_lengths`; of long ones the largest length in each of 1,500 intervals."""
    frame = queue_lengths(trace)
    if not len(frame):
        return nothing("No device work was recorded", trace, mode)
    zero = int(frame["ts"].min())
    drawn = go.Figure()
    for i, (name, rows) in enumerate(frame.assign(lane=lanes(frame)).groupby("lane", sort=False)):
        ts, length = _thinned(rows["ts"].to_numpy(), rows["queue_length"].to_numpy())
        drawn.add_scatter(
            x=(ts - zero) / 1e6,
            y=length,
            mode="lines",
            line={"shape": "hv", "width": 1.5, "color": series_color(i)},
            name=name,
            hovertemplate="%{y} in the queue at %{x:.3f} ms<extra>" + name + "</extra>",
        )
    drawn.update_xaxes(title_text="ms after the first launch")
    drawn.update_yaxes(title_text="pieces of work in the queue", rangemode="tozero")
    longest = int(frame["queue_length"].max())
    if longest >= FULL_QUEUE:
        title = f"Up to {units.count(longest)} pieces of work waited: the host ran ahead until the queue was full"
    else:
        ahead = "the host ran ahead of the device" if longest > 1 else "the host never ran ahead of the device"
        title = f"At most {units.plural(longest, 'piece')} of work in a queue: {ahead}"
    return finished(drawn, title, trace, mode)


def _thinned(ts: Any, length: Any) -> tuple[Any, Any]:
    """Return the highest and the last length of each interval, so that no peak is lost."""
    if len(ts) <= MAX_POINTS:
        return ts, length
    bucket = (ts - ts[0]) // max((int(ts[-1]) - int(ts[0])) // (MAX_POINTS // 2), 1)
    first = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    top = np.maximum.reduceat(length, first)
    last = np.append(first[1:], len(ts)) - 1
    return np.stack([ts[first], ts[last]], 1).ravel(), np.stack([top, length[last]], 1).ravel()
