"""Sentences on a watched run: its verdict, its changes without those that have no cause in the program, its cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from cudalens.analysis import units
from cudalens.watching.run import WatchedChange, WatchedRecording, WatchedRun

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
_NUM_RECENT: Final = 200
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

    The step time is the median since the last change, and the change is the largest one that still holds. Without a
    change, the verdict of the last recording: ``...; recorded step 4,108: 20.0 ms, GPU busy 71 %``.
    """
    facts, dur = run.facts, run.columns["dur"]
    if not len(dur):
        return _NO_STEP if not facts.num_steps else f"{units.plural(facts.num_steps, 'step')}, no step time yet"
    groups = group_changes(run.changes)
    changed = describe_changes(largest_that_holds(groups), run) if groups else ""
    recent_dur = dur[np.asarray(run.columns["step"]) >= groups[-1][0].step] if groups else dur
    recent_dur = recent_dur if len(recent_dur) else dur[-1:]
    recent = [one for one in run.recordings if one.verdict]
    said = f"; {recorded(recent[-1])}: {recent[-1].verdict}" if recent and not changed else ""
    line = f"step {facts.num_steps:,}: {units.duration(float(np.median(recent_dur[-_NUM_RECENT:])))} a step"
    return f"{line}; {changed}" if changed else f"{line}{said}"


def recorded(one: WatchedRecording) -> str:
    """``recorded step 7`` or ``recorded steps 7 to 9``."""
    last = one.step + one.num_steps - 1
    return f"recorded steps {one.step:,} to {last:,}" if one.num_steps > 1 else f"recorded step {one.step:,}"


def simulated_badge(run: WatchedRun) -> str:
    """Return ``simulated`` for times of a virtual device, else ""."""
    return "simulated" if run.facts.clock == "virtual" else ""


def describe_changes(group: Sequence[WatchedChange], run: WatchedRun) -> str:
    """Return ``since step 4,120 (14:02:31): 18 % slower; +41 ms in data loading``.

    For several changes of one disturbance, `describe_disturbance` follows the time.
    """
    first = group[0]
    since = f"since step {first.step:,}"
    if run.facts.clock != "virtual":
        since += f" ({datetime.fromtimestamp(first.ts / 1e9, UTC).astimezone():%H:%M:%S})"
    if len(group) > 1:
        return f"{since}: {describe_disturbance(group)}"
    ratio = first.after_ns / first.before_ns - 1 if first.before_ns else 0.0
    cause = f"; {first.causes[0]}" if first.causes else ""
    return f"{since}: {units.time_change(ratio)}{cause}"


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
            f"{100 * facts.cost:.2g} % of the loop's time, measured; budget {100 * facts.budget:g} %; "
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
        if series and _is_unspecific(one) and _is_unspecific(series[-1][-1]) and _turns(series[-1][-1], one):
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


def _turns(before: WatchedChange, after: WatchedChange) -> bool:
    return (before.after_ns > before.before_ns) != (after.after_ns > after.before_ns)
