"""The figures that assertions compare, and how each is measured on a Trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.assertions.grammar import BYTES, COUNT, PERCENT, TIME
from cudalens.analysis.findings import RULES, findings
from cudalens.analysis.memory.totals import is_memory_snapshot
from cudalens.analysis.summary import summarize, wall_ns
from cudalens.analysis.time.device_time import device_time
from cudalens.analysis.time.sync_groups import summarize_syncs, syncs
from cudalens.frames import GPU_ACTIVITIES, RUNTIME_CATEGORIES, Trace, is_category

#: A figure's value by what it is measured as.
Measures = Mapping[str, float]


class NotRecordedError(Exception):
    """A figure that the run did not record; the message names the option that records it."""


@dataclass(frozen=True)
class Known:
    """A figure.

    Attributes:
        kinds: The measures that it has.
        measure: Measures it.
        meaning: Its definition, for the documentation.
    """

    kinds: frozenset[str]
    measure: Callable[[Trace], Measures]
    meaning: str


def _shared(value_ns: float, trace: Trace) -> Measures:
    """A time, and its share of the measured window."""
    wall = wall_ns(trace)
    return {TIME: value_ns, PERCENT: 100 * value_ns / wall if wall else 0.0}


def _busy(trace: Trace) -> int:
    busy = device_time(trace)["busy_ns"]
    if pd.isna(busy):
        raise NotRecordedError("no device was used in this run")
    return int(busy)


def _device(field: str) -> Callable[[Trace], Measures]:
    def measure(trace: Trace) -> Measures:
        value = device_time(trace)[field]
        if pd.isna(value):
            raise NotRecordedError("no device was used in this run")
        return _shared(int(value), trace)

    return measure


def _step(which: Callable[[Any], float]) -> Callable[[Trace], Measures]:
    def measure(trace: Trace) -> Measures:
        names = trace.events["name"].array
        hits = np.array([name.startswith("ProfilerStep#") for name in names.categories.tolist()] + [False])[names.codes]
        lengths = trace.events["dur"].to_numpy()[hits & trace.events["device"].isna().to_numpy()]
        if not len(lengths):
            raise NotRecordedError(
                "no step was recorded; profile with --repeat N, or call step() in the profiled block"
            )
        return {TIME: float(which(lengths))}

    return measure


def _peak(column: str) -> Callable[[Trace], Measures]:
    def measure(trace: Trace) -> Measures:
        known = trace.memory[trace.memory[column].notna()]
        kinds = known["device_type"].astype(str)
        on_device = known[(kinds != "cpu") & known["device_type"].notna()]
        # Memory of a device, where the run used one.
        known = on_device if len(on_device) else known
        if not len(known):
            raise NotRecordedError("memory was not recorded; profile with --memory (cudalens.profile(memory=True))")
        return {BYTES: float(known[column].max())}

    return measure


def _copied(way: str) -> Callable[[Trace], Measures]:
    def measure(trace: Trace) -> Measures:
        events = trace.events[is_category(trace.events["cat"].array, ("gpu_memcpy",))]
        mine = events[events["name"].astype(str).str.contains(way, regex=True)]
        if len(mine) and mine["num_bytes"].isna().all():
            raise NotRecordedError("the sizes of copies were not recorded")
        return {BYTES: float(mine["num_bytes"].fillna(0).sum())}

    return measure


def _host_wait(trace: Trace) -> Measures:
    found = summarize_syncs(syncs(trace))
    return _shared(found.hidden_ns + found.explicit_ns, trace)


def _host_syncs(trace: Trace) -> Measures:
    events, info = trace.events, trace.info
    has_calls = is_category(events["cat"].array, RUNTIME_CATEGORIES).any() or info.options.get("syncs")
    if is_category(events["cat"].array, GPU_ACTIVITIES).any() and not has_calls:
        raise NotRecordedError(
            "no calls of the CUDA runtime were recorded, so waits cannot be seen; profile with --syncs"
        )
    return {COUNT: float(summarize_syncs(syncs(trace)).num_hidden)}


def _races(trace: Trace) -> Measures:
    if trace.info.judged is None and not len(trace.races):
        raise NotRecordedError(
            "races were not looked for; switch the sanitizer on with %cudasan on (cudalens.sanitize())"
        )
    return {COUNT: float((~trace.races["is_suppressed"]).sum())}


def _count(function: Callable[[Trace], float]) -> Callable[[Trace], Measures]:
    return lambda trace: {COUNT: float(function(trace))}


def _memory_actions(*names: str) -> Callable[[Trace], Measures]:
    def measure(trace: Trace) -> Measures:
        if not len(trace.memory):
            raise NotRecordedError("memory was not recorded; profile with --memory (cudalens.profile(memory=True))")
        return {COUNT: float(trace.memory["action"].isin(names).sum())}

    return measure


_SHARE = frozenset({TIME, PERCENT})
_TIME, _BYTES, _COUNT = frozenset({TIME}), frozenset({BYTES}), frozenset({COUNT})

#: Figures that have a name alone.
FIGURES: Final[Mapping[str, Known]] = {
    "wall": Known(_TIME, lambda trace: {TIME: float(wall_ns(trace))}, "length of the measured window"),
    "busy": Known(_SHARE, lambda t: _shared(_busy(t), t), "time in which any device was at work"),
    "idle": Known(_SHARE, lambda t: _shared(wall_ns(t) - _busy(t), t), "the rest of the measured window"),
    "compute": Known(_SHARE, _device("comp_ns"), "time of kernels that compute"),
    "communication": Known(_SHARE, _device("comm_ns"), "time of collectives' kernels"),
    "exposed_communication": Known(_SHARE, _device("exposed_comm_ns"), "of it, with nothing computed beside it"),
    "copies": Known(_SHARE, _device("mem_ns"), "time of copies and memory sets on the device"),
    "exposed_copies": Known(_SHARE, _device("exposed_mem_ns"), "of it, with no kernel beside it"),
    "host_wait": Known(_SHARE, _host_wait, "time in which the host waited for the GPU"),
    "step": Known(_TIME, _step(np.mean), "mean length of a step"),
    "step_median": Known(_TIME, _step(np.median), "median length of a step"),
    "step_max": Known(_TIME, _step(np.max), "length of the longest step"),
    "peak_memory": Known(_BYTES, _peak("allocated_bytes"), "most that was allocated at once, of the fullest device"),
    "reserved_memory": Known(_BYTES, _peak("reserved_bytes"), "most that the allocator had reserved at once"),
    "copied_to_device": Known(_BYTES, _copied("HtoD|HostToDevice"), "bytes copied from the host to a device"),
    "copied_to_host": Known(_BYTES, _copied("DtoH|DeviceToHost"), "bytes copied from a device to the host"),
    "kernels": Known(_COUNT, _count(lambda t: summarize(t).num_kernels), "kernels"),
    "launches": Known(_COUNT, _count(lambda t: summarize(t).num_launches), "calls that launched work"),
    "ops": Known(_COUNT, _count(lambda t: summarize(t).num_ops), "CPU operators"),
    "events": Known(_COUNT, _count(len), "events of the trace"),
    "steps": Known(_COUNT, _count(lambda t: summarize(t).num_steps or 0), "steps"),
    "host_syncs": Known(_COUNT, _host_syncs, "waits for the GPU not asked for by name"),
    "syncs": Known(_COUNT, _count(lambda t: len(t.syncs)), "all waits of the host for the GPU"),
    "races": Known(_COUNT, _races, "kinds of stream races, without suppressed ones"),
    "ooms": Known(_COUNT, _memory_actions("oom"), "allocations that failed"),
    "allocations": Known(_COUNT, _memory_actions("alloc"), "allocations"),
    "findings": Known(_COUNT, _count(lambda t: len(findings(t))), "findings, as cudalens.analysis.findings lists them"),
    "problems": Known(_COUNT, _count(lambda t: sum(p.count for p in t.info.problems)), "damage in the data"),
}

#: Parts of the figures about events of a name: how many, their summed durations, mean, median and longest.
PARTS: Final[Mapping[str, frozenset[str]]] = {
    "count": _COUNT,
    "time": _SHARE,
    "mean": _TIME,
    "median": _TIME,
    "max": _TIME,
}

#: Figures about events whose name has a regular expression in it, with the categories that they look at.
NAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "kernel": ("kernel",),
    "op": ("cpu_op",),
    "range": ("user_annotation",),
    "device": GPU_ACTIVITIES,
}

NAMES: Final = (*FIGURES, *(f'{name}("…").{"|".join(PARTS)}' for name in NAMED), 'finding("rule")')

#: Figures that a memory snapshot has.
_OF_MEMORY: Final = frozenset({"peak_memory", "reserved_memory", "ooms", "allocations", "problems"})

_RULE_NAMES: Final = re.compile(r"``(\w+)``")


def rules() -> tuple[str, ...]:
    """Names of the rules of findings, from the docstrings of `RULES`."""
    return tuple(name for rule in RULES for name in _RULE_NAMES.findall((rule.__doc__ or "").partition(":")[0]))


def kinds_of(name: str, argument: str | None, part: str | None) -> frozenset[str] | None:
    """The measures of a figure; None where there is no figure of that name.

    Raises:
        ValueError: It has a wrong argument or part.
    """
    if name in NAMED:
        return _kinds_of_named(name, argument, part)
    if name == "finding":
        if argument not in rules() or part is not None:
            raise ValueError(f'expected finding("rule") < time, with one of the rules {", ".join(rules())}')
        return _SHARE
    if name not in FIGURES:
        return None
    if argument is not None or part is not None:
        raise ValueError(f"{name} takes nothing in brackets, and has no parts")
    return FIGURES[name].kinds


def _kinds_of_named(name: str, argument: str | None, part: str | None) -> frozenset[str]:
    if argument is None or part is None or part not in PARTS:
        raise ValueError(f'expected {name}("…") with one of .{", .".join(PARTS)}')
    try:
        re.compile(argument)
    except re.error as error:
        raise ValueError(f"{argument!r} is no regular expression: {error}") from None
    return PARTS[part]


def measure(trace: Trace, name: str, argument: str | None, part: str | None) -> Measures:
    """The value of a figure on `trace`.

    Raises:
        NotRecordedError: The run did not record it.
    """
    if is_memory_snapshot(trace) and name not in _OF_MEMORY:
        raise NotRecordedError(f"a memory snapshot has no {name}; compare snapshots with Trace.memory_diff")
    if name in FIGURES:
        return FIGURES[name].measure(trace)
    if name == "finding":
        found = [one.cost_ns or 0 for one in findings(trace) if one.rule == argument]
        return _shared(sum(found), trace)
    return _of_events(trace, name, argument or "", part or "")


def _of_events(trace: Trace, name: str, pattern: str, part: str) -> Measures:
    events = trace.events
    names = events["name"].array
    search = re.compile(pattern).search
    hits = np.array([search(text) is not None for text in names.categories.tolist()] + [False])[names.codes]
    lengths = events["dur"].to_numpy()[hits & is_category(events["cat"].array, NAMED[name])]
    if part == "count":
        return {COUNT: float(len(lengths))}
    if part == "time":
        return _shared(float(lengths.sum()), trace)
    if not len(lengths):
        raise NotRecordedError(f"no {name} has {pattern!r} in its name")
    return {TIME: float({"mean": lengths.mean, "median": lambda: np.median(lengths), "max": lengths.max}[part]())}
