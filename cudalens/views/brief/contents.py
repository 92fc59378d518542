"""What a brief can contain: each fact with its number and the expression that reproduces the number.

Expressions are Python: the names of `cudalens.analysis`, and ``trace``. Texts of the Trace are cleaned and shortened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis import Finding, TopCost, units
from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.facts import found_in, memory_at_end, memory_high, summarize
from cudalens.analysis.findings import MOST
from cudalens.analysis.memory.holders import memory_holders
from cudalens.analysis.memory.totals import is_memory_snapshot
from cudalens.analysis.trust.check import TrustReport, trust
from cudalens.frames import Trace
from cudalens.views.foreign import printable
from cudalens.views.memory.words import has_memory
from cudalens.views.sections.verdict import has_profile, verdict

#: A fact, as plain values that JSON can hold.
Fact = dict[str, Any]

_ROWS: Final = 3
_NAME: Final = 60
_KERNEL: Final = 88
#: Parts of kernels' names that most of them have.
_USUAL: Final = re.compile(r"^void |\bat::native::|\(anonymous namespace\)::|\bat::|::\{lambda\(.*")
_SENTENCE: Final = 400
_HOLDERS: Final = 3


def name(trace: Trace) -> Fact:
    """Return what ran: its name alone."""
    return {"name": text(trace.info.name, 40)}


def run(trace: Trace) -> Fact:
    """Return what ran: name, source, devices, version of torch, how it ended."""
    info = trace.info
    facts = {
        **name(trace),
        "source": text(info.source, 40),
        "devices": text(", ".join(dict.fromkeys(device.name for device in info.devices)), 60),
        "torch": text(str(info.versions.get("torch", "")), 20),
        "status": "" if info.status == "ok" else info.status,
        "times": "modelled, not measured" if info.is_simulated else "",
    }
    return {name: value for name, value in facts.items() if value}


def answer(trace: Trace, width: int) -> str:
    """Return the verdict in at most `width` characters."""
    return text(verdict(trace), width)


def numbers(trace: Trace) -> Iterator[Fact]:
    """Yield the numbers of the verdict: times and counts; none of a memory snapshot."""
    if not has_profile(trace):
        return
    found = summarize(trace)
    for what, field, unit in (
        ("measured window", "wall_ns", "ns"),
        ("GPU busy", "device_busy_ns", "ns"),
        ("CPU operators busy", "host_busy_ns", "ns"),
        ("mean step", "step_mean_ns", "ns"),
        ("steps", "num_steps", ""),
        ("GPU kernels", "num_kernels", ""),
        ("launches", "num_launches", ""),
        ("operators", "num_ops", ""),
    ):
        if value := getattr(found, field):
            yield _number(what, value, unit, f"summarize(trace).{field}")


def short_finding(found: Finding, number: int) -> Fact:
    """Return a finding without its sentence, advice and rows."""
    facts: Fact = {"rule": found.rule, "title": text(found.title, _NAME), "gain_ns": found.gain_ns}
    if found.share_pct is not None:
        facts["share_pct"] = round(found.share_pct, 1)
    facts["confidence"] = found.confidence
    if found.place:
        facts["place"] = text(units.short_place(found.place), _NAME)
    return facts | {"expr": f"findings(trace)[{number}]"}


def whole_finding(found: Finding, number: int) -> Fact:
    """Return a finding with its sentence, its advice and its first rows."""
    facts = short_finding(found, number) | {"what": text(found.what, _SENTENCE), "try": text(found.advice, _SENTENCE)}
    return facts | ({"rows": list(found.rows[:_ROWS]), "num_rows": len(found.rows)} if found.rows else {})


def all_findings(trace: Trace) -> tuple[Finding, ...]:
    """Return the findings that a brief can contain, in their order."""
    return found_in(trace)[:MOST]


def costs(trace: Trace) -> Iterator[Fact]:
    """Yield the ten largest costs, each with the most expensive of its rows; none of a memory snapshot."""
    if not has_profile(trace):
        return
    for number, cost in enumerate(summarize(trace).top):
        yield {
            "name": text(_USUAL.sub("", cost.name), _KERNEL),
            "cat": text(cost.cat, _NAME),
            "self_ns": cost.self_ns,
            "share_pct": round(cost.share_pct, 1),
            "count": cost.count,
            "rows": _rows(trace, cost),
            "expr": f"summarize(trace).top[{number}]",
        }


def _rows(trace: Trace, cost: TopCost) -> list[int]:
    events = trace.events
    is_it = (events["name"] == cost.name).to_numpy() & (events["cat"] == cost.cat).to_numpy()
    rows = np.flatnonzero(is_it & (events["device"].notna().to_numpy() == cost.is_device))
    own = events["self_dur"].to_numpy()[rows]
    return rows[np.argsort(-own, kind="stable")[:_ROWS]].tolist()


def memory(trace: Trace) -> Iterator[Fact]:
    """Peaks of memory; for a snapshot also fragmentation and the largest holders."""
    if not has_memory(trace):
        for kind, peak in (summarize(trace).peak_memory_bytes or {}).items():
            expr = f"summarize(trace).peak_memory_bytes[{kind!r}]"
            yield _number(f"peak allocated ({text(kind, 20)})", peak, "bytes", expr)
        return
    high = memory_high(trace)
    if not pd.isna(high["num_bytes"]):
        what = f"peak allocated (cuda:{high['device']})" if len(trace.memory) else f"allocated (cuda:{high['device']})"
        yield _number(what, int(high["num_bytes"]), "bytes", 'memory_peak(trace)["num_bytes"]')
    for row, device in enumerate(memory_at_end(trace).to_dict("records")):
        for key, what in (("reserved_bytes", "reserved at the end"), ("external_bytes", "free in used segments")):
            expr = f'fragmentation(trace)["{key}"].iloc[{row}]'
            yield _number(f"{what} (cuda:{device['device']})", int(device[key]), "bytes", expr)
    for row, held in enumerate(memory_holders(trace).head(_HOLDERS).to_dict("records")):
        holder = held["holder"]
        who = f"held by {text(holder, _NAME)}" if isinstance(holder, str) else "without a known variable"
        yield _number(who, int(held["num_bytes"]), "bytes", f'memory_holders(trace)["num_bytes"].iloc[{row}]')


def trusted(trace: Trace) -> Fact:
    """Return the verdict on how far the Trace can be trusted."""
    if is_memory_snapshot(trace):
        return {"verdict": "not checked: a memory snapshot has no events"}
    return {"verdict": text(_report(trace).verdict, 160), "expr": "trust(trace).verdict"}


@once_per_trace
def _report(trace: Trace) -> TrustReport:
    return trust(trace)


def doubts(trace: Trace) -> Iterator[Fact]:
    """Yield what the checks of trust found, worst first."""
    if is_memory_snapshot(trace):
        return
    for number, found in enumerate(_report(trace).trust.findings):
        facts: Fact = {"severity": found.severity, "rule": found.rule, "count": found.count}
        facts["what"] = text(found.what, 200)
        if found.rows:
            facts["rows"] = list(found.rows[:_ROWS])
        yield facts | {"expr": f"trust(trace).trust.findings[{number}]"}


def not_recorded(trace: Trace) -> list[str]:
    """Return what was not recorded, each with what records it."""
    events = trace.events
    if is_memory_snapshot(trace):
        missing = [
            (trace.memory.empty, "the allocator's history (cudalens.memory_history())"),
            (trace.blocks["names"].isna().all(), "variables (cudalens.memory_snapshot() in the program)"),
        ]
        return [what for is_missing, what in missing if is_missing]
    missing = [
        (summarize(trace).device_busy_ns is None, "work of a GPU"),
        (summarize(trace).num_steps is None, "steps (cudalens.step() in the profiled block)"),
        (events["stack"].isna().all(), "source lines (stacks=True)"),
        (events["shapes"].isna().all(), "input shapes (shapes=True)"),
        (trace.memory.empty, "memory (memory=True)"),
        (events["module"].isna().all(), "modules (modules=True)"),
        (events["flops"].isna().all(), "FLOPs (flops=True)"),
        (trace.metrics.empty, "utilization and clocks (metrics=True)"),
        (trace.info.judged is None, "stream races (cudalens.sanitize())"),
    ]
    return [what for is_missing, what in missing if is_missing]


def text(value: str, width: int) -> str:
    """`value` as one line of at most `width` characters, cut in the middle."""
    return units.shorten(printable(value), width).replace("…", "..")


def _number(what: str, value: float, unit: str, expr: str) -> Fact:
    return {"what": what, "value": round(value), **({"unit": unit} if unit else {}), "expr": expr}
