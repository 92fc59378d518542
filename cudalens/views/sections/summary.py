"""Traces in words: the verdict, one line that says what to know, and the summary, a short table beneath it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Final

import pandas as pd

from cudalens.analysis import summarize, units
from cudalens.analysis.facts import averages as averages_of
from cudalens.analysis.summary import Summary
from cudalens.analysis.time.averages import UNCOUNTED
from cudalens.frames import RunInfo, Trace
from cudalens.views.graphs import text as graphs_text
from cudalens.views.memory import text as memory_text
from cudalens.views.races import text as races_text
from cudalens.views.sections import findings, trust_text, waits
from cudalens.views.sections.write_text import to_text
from cudalens.views.timeline import metrics_text

_STATUS: Final = {"raised": "raised", "interrupted": "was interrupted"}
_MAX_NOTES: Final = 8

_TOP: Final = 10
_NAME_WIDTH: Final = 34
_HTML_NAME_WIDTH: Final = 56
_VERDICT_NAME_WIDTH: Final = 48

_NEGLIGIBLE: Final = 1000
"""By how much a peak of memory may be smaller than another before the verdict leaves it out."""


def verdict(trace: Trace, *, badge: bool = True) -> str:
    """One line with the answer first: races, graphs, wall time, how busy it was, the largest cost, launches, memory.

    Args:
        trace: What ran.
        badge: Whether simulated times, repairs and losses are marked as such in the line itself.
    """
    return _verdict(trace, badge=badge)


def summary(trace: Trace) -> SummaryText:
    """The verdict, races, graphs and largest costs of `trace`; prints as text, shows as a table in a notebook."""
    found = [races_text.report_text(trace), graphs_text.report_text(trace)]
    found = [*(reversed(found) if graphs_text.has_failed(trace) else found), to_text(findings.section(trace))]
    found.append(to_text(waits.section(trace)))
    found.append(memory_text.report_text(trace))
    told = "\n\n".join(part for part in found if part)
    return SummaryText(_verdict(trace, badge=True), tuple(notes(trace.info)), _top_rows(trace), told)


def has_profile(trace: Trace) -> bool:
    """Whether `trace` was profiled, or there is nothing else that it could show: no races, no graphs, no blocks."""
    if memory_text.has_memory(trace):
        return bool((trace.events["cat"] != "user_annotation").any())
    is_recorded = len(trace.events) or len(trace.memory)
    return bool(is_recorded or not (races_text.verdict(trace) or len(trace.graphs)))


def what(trace: Trace) -> str:
    """What `trace` holds, as the heading of a page."""
    if has_profile(trace):
        return "Profile"
    if memory_text.has_memory(trace):
        return "Memory"
    return "CUDA graphs" if len(trace.graphs) else "Races"


def mark(info: RunInfo) -> str | None:
    """What must stand on the face of times that no clock measured: ``simulated: <spec>``; else None."""
    return f"simulated: {info.source.removeprefix('virtual:')}" if info.is_simulated else None


def badges(info: RunInfo) -> str | None:
    """What must stand on the face of a trace: that its times are simulated, that it is repaired or partial; or None."""
    return " · ".join(filter(None, (mark(info), trust_text.mark(info)))) or None


def notes(info: RunInfo) -> list[str]:
    """What went wrong, a line each: how the run ended, and damage that the reader survived."""
    lines = []
    if info.status != "ok":
        lines.append(f"The profiled code {_STATUS[info.status]}{f': {info.error}' if info.error else ''}")
    lines += [f"{units.count(p.count)}x {p.kind} (first: {p.where})" for p in info.problems[:_MAX_NOTES]]
    if len(info.problems) > _MAX_NOTES:
        lines.append(f"and {len(info.problems) - _MAX_NOTES} other kinds of damage")
    lines += trust_text.notes(info)
    return [units.shorten(line, 300) for line in lines]


@dataclass(frozen=True, repr=False)
class SummaryText:
    """A summary that prints.

    Attributes:
        verdict: The answer in one line.
        notes: What went wrong, a line each.
        rows: The largest costs, a row of texts each: name, kind, count, total, self, mean ± sd, share.
        found: Races, graphs and waits in words, or "".
    """

    verdict: str
    notes: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    found: str = ""

    def __str__(self) -> str:
        """At most 100 columns wide, but for the verdict and lines of source."""
        lines = [self.verdict, *(f"  ! {note}" for note in self.notes)]
        if self.found:
            lines += ["", self.found]
        if self.rows:
            lines += ["", *_aligned(self.rows)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """The same as printed."""
        return str(self)

    def _repr_html_(self) -> str:
        head, table = self.html_parts()
        return f'<div class="cudalens-summary">{head}{table}</div>'

    def html_parts(self) -> tuple[str, str]:
        """Verdict with notes, and the table, as HTML; every foreign text escaped. It needs no style sheet."""
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        answer, _, support = self.verdict.partition("; ")
        line = f"<strong>{escape(answer)}</strong>{escape(f'; {support}' if support else '')}"
        head = f"<p>{line}</p>" + (f"<ul>{notes}</ul>" if notes else "")
        if not self.rows:
            return head, ""
        titles = "".join(f"<th{_align(k)}>{escape(title)}</th>" for k, title in enumerate(COLUMNS))
        body = "".join(f"<tr>{''.join(_cell(text, k) for k, text in enumerate(row))}</tr>" for row in self.rows)
        return head, f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


_NUM_TEXTS: Final = 2
COLUMNS: Final = ("name", "kind", "count", "total", "self", "mean ± sd", "share")

KINDS: Final = {
    "cpu_op": "CPU op",
    "user_annotation": "range",
    "gpu_user_annotation": "GPU range",
    "cuda_runtime": "runtime",
    "cuda_driver": "driver",
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "set",
    "python_function": "Python",
    "cuda_sync": "sync",
}


def _align(column: int) -> str:
    """Texts to the left; written into the element, since some front ends strip style sheets."""
    return f' style="text-align:{"left" if column < _NUM_TEXTS else "right"};white-space:nowrap"'


def _cell(text: str, column: int) -> str:
    short = units.shorten(text, _HTML_NAME_WIDTH)
    title = "" if short == text else f' title="{escape(units.shorten(text, 1000))}"'
    return f"<td{_align(column)}{title}>{escape(short)}</td>"


def _top_rows(trace: Trace) -> tuple[tuple[str, ...], ...]:
    """The largest costs by name; the device's first, where there are any, then the host's."""
    averages = averages_of(trace)
    averages = averages[~averages["cat"].isin(UNCOUNTED)]
    device = averages[averages["is_device"]]
    host = averages[~averages["is_device"]]
    shown = host.head(_TOP) if device.empty else pd.concat([device.head(_TOP // 2), host.head(_TOP // 2)])
    return tuple(_row_texts(row) for row in shown.to_dict("records"))


def _row_texts(row: dict[Any, Any]) -> tuple[str, ...]:
    spread = f" ± {units.duration(row['std_ns'])}" if row["count"] > 1 else ""
    return (
        str(row["name"]),
        KINDS.get(str(row["cat"]), str(row["cat"])),
        units.count(int(row["count"])),
        units.duration(row["total_ns"]),
        units.duration(row["self_ns"]),
        units.duration(row["mean_ns"]) + spread,
        f"{units.percent(row['share_pct'])} {'GPU' if row['is_device'] else 'CPU'}",
    )


def _aligned(rows: tuple[tuple[str, ...], ...]) -> list[str]:
    """The table as lines: texts to the left, numbers to the right, two spaces between."""
    short = [COLUMNS, *((units.shorten(row[0], _NAME_WIDTH), *row[1:]) for row in rows)]
    widths = [max(len(row[k]) for row in short) for k in range(len(COLUMNS))]
    lines = [
        "  ".join(
            t.ljust(w) if k < _NUM_TEXTS else t.rjust(w) for k, (t, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in short
    ]
    return [lines[0], "─" * max(map(len, lines)), *lines[1:]]


def _verdict(trace: Trace, *, badge: bool) -> str:
    marked = badges(trace.info) if badge else None
    races, graphs = races_text.verdict(trace), graphs_text.verdict(trace)
    profile = _profile(trace, summarize(trace)) if has_profile(trace) else []
    # Wrong results are what to know first, then races; that there is no race supports the rest.
    found = [graphs, races] if graphs_text.has_failed(trace) else [races, graphs]
    known = [*found, *profile] if len(trace.races) else [graphs, *profile, races]
    known.insert(0 if memory_text.has_refused(trace) or not profile else len(known), memory_text.verdict(trace))
    line = "; ".join(part for part in (*known, *_outcome(trace.info)) if part)
    return f"[{marked}] {line}" if marked else line


def _profile(trace: Trace, result: Summary) -> list[str]:
    work = [*_steps(result), *_memory(result), metrics_text.metrics_verdict(trace), *_overhead(trace.info)]
    work = [*trust_text.overhead(trace.info), *work]
    cause = findings.verdict(trace)
    answer = f"{_busy(result)}: {cause}" if cause else _busy(result)
    answer = ", ".join(part for part in (answer, _standing(trace.info)) if part)
    return [answer, _largest(result), waits.verdict(trace), _work(result), *work]


def _busy(result: Summary) -> str:
    """Wall time, and the share of it that the device was at work; the CPU's operators where there is no device."""
    wall = units.duration(result.wall_ns)
    is_device = result.device_busy_ns is not None
    busy = result.device_busy_ns if result.device_busy_ns is not None else result.host_busy_ns
    if not result.wall_ns or busy is None:
        return wall
    who = "GPU" if is_device else "CPU ops"
    return f"{wall}, {who} busy {units.percent(100 * busy / result.wall_ns)}"


def _standing(info: RunInfo) -> str:
    """``18 % slower than the last 3 runs (12.1 ms)``; "" where it lies in the band of the earlier ones."""
    standing = info.standing
    if standing is None or standing.is_within:
        return ""
    word = "slower" if standing.change_pct > 0 else "faster"
    what = " a step" if standing.is_of_steps else ""
    code = " of other code" if standing.has_other_code else ""
    return (
        f"{units.percent(abs(standing.change_pct))} {word}{what} than the last {standing.num_runs} runs{code} "
        f"({units.duration(standing.median_ns)})"
    )


def _largest(result: Summary) -> str:
    if not result.top:
        return "no operator or kernel was recorded"
    cost = result.top[0]
    side = "GPU" if result.device_busy_ns is not None else "CPU self"
    return f"most in {units.shorten(cost.name, _VERDICT_NAME_WIDTH)} ({units.percent(cost.share_pct)} of {side} time)"


def _work(result: Summary) -> str:
    counted = [(result.num_launches, "launch"), (result.num_kernels, "kernel"), (result.num_ops, "CPU op")]
    return ", ".join(units.plural(number, noun) for number, noun in counted if number)


def _steps(result: Summary) -> list[str]:
    if not result.num_steps or result.step_mean_ns is None:
        return []
    spread = "" if result.step_std_ns is None else f" ± {units.duration(result.step_std_ns)}"
    return [f"{units.plural(result.num_steps, 'step')} of {units.duration(result.step_mean_ns)}{spread}"]


def _memory(result: Summary) -> list[str]:
    recorded = result.peak_memory_bytes or {}
    # A peak that is lost beside another one's tells nobody anything.
    peaks = {kind: peak for kind, peak in recorded.items() if peak >= max(recorded.values()) / _NEGLIGIBLE}
    return [f"peak memory {', '.join(f'{units.size(peak)} ({kind})' for kind, peak in peaks.items())}"] if peaks else []


def _overhead(info: RunInfo) -> list[str]:
    """What profiling itself cost; nothing of a trace that was read from a file."""
    if info.source.startswith("file:") or "file_events" in info.options:  # a virtual device's run keeps its source
        return []
    around = [(info.start_s, "start"), (info.stop_s, "stop"), (info.build_s, "frames")]
    known = [(seconds, what) for seconds, what in around if seconds]
    if not known:
        return []
    listed = ", ".join(f"{what} {units.duration(1e9 * seconds)}" for seconds, what in known)
    return [f"profiling cost {units.duration(1e9 * sum(seconds for seconds, _ in known))} more ({listed})"]


def _outcome(info: RunInfo) -> list[str]:
    number = sum(problem.count for problem in info.problems)
    return [
        *([] if info.status == "ok" else [f"the code {_STATUS[info.status]}"]),
        *([f"{units.plural(number, 'problem')} in the data"] if number else []),
    ]
