"""The verdict: one line with the answer first, and the notes about what went wrong."""

from __future__ import annotations

from typing import Final

from cudalens.analysis import Summary, units
from cudalens.analysis.cached import attempt, failures
from cudalens.analysis.facts import missing_work, names_in_short, outside_times, summarize
from cudalens.analysis.findings import MIN_WALL_NS
from cudalens.analysis.findings.window_rules import NOTHING, OutsideTime
from cudalens.frames import RunInfo, Trace
from cudalens.frames.info import DAMAGED_NAMES, Problem
from cudalens.views.graphs import words as graphs_words
from cudalens.views.memory import words as memory_words
from cudalens.views.races import section as races_words
from cudalens.views.sections import findings, trust, waits
from cudalens.views.sections.trust import badges, band_words
from cudalens.views.timeline import readings

_STATUS: Final = {"raised": "raised", "interrupted": "was interrupted"}
_MAX_NOTES: Final = 8
_NAME_WIDTH: Final = 48
#: Share of a recording outside of its measured window from which on the verdict names it.
_NOTABLE_OUTSIDE: Final = 0.1
#: A recording that is so many times as long as its device work, which takes less than `MIN_WALL_NS`, is of no GPU run.
_MANY_TIMES: Final = 100
#: The category of events without one in their file: they can be of a host or of a device.
_UNKNOWN: Final = "unknown"
#: By how much a peak of memory may be smaller than another before the verdict leaves it out.
_NEGLIGIBLE: Final = 1000


def verdict(trace: Trace, *, badge: bool = True) -> str:
    """One line with the answer first: races, graphs, wall time, how busy it was, the first finding and its advice.

    Args:
        trace: What ran.
        badge: Whether simulated times, repairs and losses are marked as such in the line itself.
    """
    return attempt(trace, "the first line", "the first line could not be computed", _verdict, trace, badge=badge)


def _verdict(trace: Trace, *, badge: bool) -> str:
    races, graphs = races_words.races_verdict(trace), graphs_words.verdict(trace)
    profile = _profile(trace, summarize(trace)) if has_profile(trace) else []
    # Wrong results come first, then races; that there is no race supports the rest.
    found = [graphs, races] if graphs_words.has_failed(trace) else [races, graphs]
    known = [*found, *profile] if len(trace.races) else [graphs, *profile, races]
    known.append(_counters(trace))
    is_memory_first = memory_words.has_refused(trace) or not profile
    known.insert(0 if is_memory_first else len(known), memory_words.memory_verdict(trace))
    line = "; ".join(part for part in (*known, *_outcome(trace)) if part)
    marked = badges(trace.info) if badge else None
    return f"[{marked}] {line}" if marked else line


def details(trace: Trace) -> str:
    """What supports the verdict of a profile: the largest cost, waits, counts, steps, memory, overhead; or ""."""
    return attempt(trace, "the details", "", _details, trace) if has_profile(trace) else ""


def _details(trace: Trace) -> str:
    result = summarize(trace)
    known = [
        _outside(trace, result),
        _largest(trace, result) if findings.verdict(trace) else "",
        waits.verdict(trace),
        _work(result),
        slowdown(trace.info),
        _steps(result),
        _memory(result),
        readings.metrics_verdict(trace),
        _overhead(trace.info),
    ]
    return "; ".join(part for part in known if part)


def has_profile(trace: Trace) -> bool:
    """Whether `trace` was profiled, or there is nothing else that it could show: no races, no graphs, no blocks."""
    if memory_words.has_memory(trace):
        return bool((trace.events["cat"] != "user_annotation").any())
    is_recorded = len(trace.events) or len(trace.memory)
    return bool(is_recorded or not (races_words.races_verdict(trace) or len(trace.graphs) or len(trace.counters)))


def what(trace: Trace) -> str:
    """Return what `trace` holds, as the heading of a page."""
    if has_profile(trace):
        return "Profile"
    if memory_words.has_memory(trace):
        return "Memory"
    if len(trace.graphs):
        return "CUDA graphs"
    return "Counters" if len(trace.counters) and not len(trace.races) else "Races"


def notes(trace: Trace) -> list[str]:
    """What went wrong, a line each: how the run ended, damage that the reader survived, and what failed so far."""
    info = trace.info
    lines = []
    if info.status != "ok":
        lines.append(f"The profiled code {_STATUS[info.status]}{f': {info.error}' if info.error else ''}")
    lines += [_problem(problem) for problem in info.problems[:_MAX_NOTES]]
    if len(info.problems) > _MAX_NOTES:
        lines.append(f"and {len(info.problems) - _MAX_NOTES} other kinds of damage")
    lines += [f"{failure.kind}: {failure.where}" for failure in failures(trace)[:_MAX_NOTES]]
    if unread := info.extra.get("unread"):
        lines.append(f"Not read: {unread}")
    return [units.shorten(line, 300) for line in (*lines, *trust.trust_notes(info))]


def _problem(problem: Problem) -> str:
    """``2 events: negative dur (first: event 7)``; a lost name, which changes no number, in words of its own."""
    if problem.kind == DAMAGED_NAMES:
        return f"torch lost {units.plural(problem.count, 'function name')}; times are unaffected"
    return f"{units.count(problem.count)}x {problem.kind} (first: {problem.where})"


def _counters(trace: Trace) -> str:
    """Return what a recording of counters alone holds; "" for others."""
    counters = trace.counters
    if not len(counters) or has_profile(trace):
        return ""
    num_names = len(counters[["name", "series", "process"]].drop_duplicates())
    span_ns = int(counters["ts"].iloc[-1] - counters["ts"].iloc[0])
    values = units.plural(len(counters), "value")
    return f"{values} of {units.plural(num_names, 'counter')} over {units.duration(span_ns)}, in trace.counters"


def _profile(trace: Trace, result: Summary) -> list[str]:
    missing = missing_work(trace)
    if missing is not None:
        advice = missing.todo.partition(";")[0].removesuffix(".")
        return [
            f"{units.duration(result.recorded_ns)} recorded: {missing.sentence}",
            f"advice: {advice[:1].lower()}{advice[1:]}",
        ]
    cause = findings.verdict(trace)
    busy = ", ".join(filter(None, (_busy(result), _unused(trace.info, result), band_words(trace.info))))
    answer = f"{busy}: {cause}" if cause else busy
    answer = ", ".join(filter(None, (answer, _against_history(trace.info))))
    support = f"advice: {findings.first_advice(trace)}" if cause else _largest(trace, result)
    host = _host_time(trace.info, result)
    return [f"{host}; modelled: {answer}" if host else answer, support]


def _busy(result: Summary) -> str:
    """Wall time, and the share of it that the device was at work; the CPU's operators where there is no device.

    A file of another program may have neither.
    """
    wall = units.duration(result.wall_ns)
    if 0 < result.wall_ns < min(MIN_WALL_NS, result.recorded_ns / _MANY_TIMES):
        return f"{units.duration(result.recorded_ns)} recorded, with only {wall} from the first to the last GPU work"
    if result.recorded_ns - result.wall_ns > _NOTABLE_OUTSIDE * result.recorded_ns:
        wall = f"{wall} of {units.duration(result.recorded_ns)} recorded"
    busy = result.host_busy_ns if result.device_busy_ns is None else result.device_busy_ns
    if not result.wall_ns:
        return wall
    if busy is None:
        return f"{wall}, no GPU work and no CPU operator recognised"
    who = "CPU ops" if result.device_busy_ns is None else "GPU"
    return f"{wall}, {who} busy {units.percent(100 * busy / result.wall_ns)}"


def _unused(info: RunInfo, result: Summary) -> str:
    """``nothing ran on the GPU`` of a run whose GPU was recorded, as of a model that was never moved to it."""
    is_recorded = info.source == "cuda" or info.is_simulated
    if not is_recorded or info.options.get("cpu_only") or result.device_busy_ns is not None or not result.wall_ns:
        return ""
    return "nothing ran on the GPU"


def _outside(trace: Trace, result: Summary) -> str:
    """``recorded 41.6 s: 25.1 s before the first GPU work (24.6 s creating the context)``; "" if little is outside."""
    work = "event" if result.device_busy_ns is None else "GPU work"
    if result.recorded_ns - result.wall_ns <= _NOTABLE_OUTSIDE * result.recorded_ns:
        return ""
    sides = [one for one in outside_times(trace) if one.length_ns > _NOTABLE_OUTSIDE / 2 * result.recorded_ns]
    listed = ", ".join(_side(one, work) for one in sides)
    return f"recorded {units.duration(result.recorded_ns)}: {listed}" if listed else ""


def _side(one: OutsideTime, work: str) -> str:
    """``25.1 s before the first GPU work (24.6 s creating the context, longest cudaFree)``."""
    where = f"before the first {work}" if one.is_before else f"after the last {work}"
    cause, taken = one.causes[0]
    longest = ""
    if one.longest is not None and 2 * one.longest_ns > taken:
        longest = f", longest {units.shorten(one.longest, _NAME_WIDTH)}"
    what = f"{units.duration(taken)} {cause}"
    if cause == NOTHING:
        what = NOTHING if taken == one.length_ns else f"{NOTHING} for {units.duration(taken)}"
    return f"{units.duration(one.length_ns)} {where} ({what}{longest})"


def _host_time(info: RunInfo, result: Summary) -> str:
    """``the host took 204 ms between calls of torch, ...``, if a simulated run leaves out more than it shows."""
    num_ns = info.host_not_modelled_ns
    if num_ns <= result.wall_ns:
        return ""
    taken = units.duration(num_ns)  # by the program's Python, mostly, and by freeing large tensors
    return f"the host took {taken} between calls of torch, which the simulation leaves out (%cudadevice --measure-host)"


def _against_history(info: RunInfo) -> str:
    """``18 % slower than the last 3 runs (12.1 ms)``; "" where it is within the band of the earlier ones."""
    baseline = info.baseline
    if baseline is None or baseline.is_within:
        return ""
    change = units.time_change(baseline.change_pct / 100)
    step = " a step" if baseline.is_of_steps else ""
    code = " of other code" if baseline.has_other_code else ""
    return (
        f"{change}{step} {units.than(change)} the last {baseline.num_runs} runs{code} "
        f"({units.duration(baseline.median_ns)})"
    )


def _largest(trace: Trace, result: Summary) -> str:
    if not result.top:
        return "no operator or kernel was recorded"
    cost = result.top[0]
    side = "GPU" if cost.is_device else "CPU self"
    if cost.cat == _UNKNOWN:
        side = "recorded"
    name = names_in_short(trace).get(cost.name, cost.name)
    return f"most in {units.shorten(name, _NAME_WIDTH)} ({units.percent(cost.share_pct)} of {side} time)"


def _work(result: Summary) -> str:
    counted = [(result.num_launches, "launch"), (result.num_kernels, "kernel"), (result.num_ops, "CPU op")]
    return ", ".join(units.plural(number, noun) for number, noun in counted if number)


def slowdown(info: RunInfo) -> str:
    """By how much profiling slowed the code; "" where that was not measured."""
    cost = info.overhead
    if cost is None:
        return ""
    if cost.unprofiled_ns is None or cost.slowdown_pct is None:
        return f"its slowdown by profiling is not known: the unprofiled run raised {cost.error or 'something'}"
    kind = "means" if cost.low_pct is None else "medians"
    runs = f", {kind} of {cost.num_profiled} runs" if cost.num_profiled > 1 else ""
    warm = "" if cost.is_warm else " (the profiled run was the first: warm up to compare)"
    times = f"{units.duration(cost.profiled_ns)} against {units.duration(cost.unprofiled_ns)} unprofiled{runs}{warm}"
    made = _profiled(cost.slowdown_pct / 100)
    if cost.low_pct is None or cost.high_pct is None:
        return f"{made}: {times}"
    ends = units.interval(units.signed_change(cost.low_pct / 100), units.signed_change(cost.high_pct / 100))
    if cost.low_pct <= 0 <= cost.high_pct:
        return f"profiling did not slow it beyond noise: {times} (95 % interval {ends})"
    return f"{made} (95 % interval {ends}): {times}"


def _profiled(ratio: float) -> str:
    """``profiling made it 4 % slower``, ``profiled it took 12 times as long``, ``profiled it ran 3 % faster``."""
    change = units.time_change(ratio)
    if ratio < 0:
        return f"profiled it ran {change}"
    return f"profiled it took {change}" if units.is_factor(ratio) else f"profiling made it {change}"


def _steps(result: Summary) -> str:
    if not result.num_steps or result.step_mean_ns is None:
        return ""
    spread = "" if result.step_std_ns is None else f" ± {units.duration(result.step_std_ns)}"
    return f"{units.plural(result.num_steps, 'step')} of {units.duration(result.step_mean_ns)}{spread}"


def _memory(result: Summary) -> str:
    recorded = result.peak_memory_bytes or {}
    peaks = {kind: peak for kind, peak in recorded.items() if peak >= max(recorded.values()) / _NEGLIGIBLE}
    return f"peak memory {', '.join(f'{units.size(peak)} ({kind})' for kind, peak in peaks.items())}" if peaks else ""


def _overhead(info: RunInfo) -> str:
    """Return what starting, stopping and reading the profiler cost; "" for a trace that was read from a file."""
    if info.source.startswith("file:") or "file_events" in info.options:  # a virtual device's run keeps its source
        return ""
    around = [(info.start_s, "start"), (info.stop_s, "stop"), (info.build_s, "frames")]
    known = [(seconds, part) for seconds, part in around if seconds]
    if not known:
        return ""
    listed = ", ".join(f"{part} {units.duration(1e9 * seconds)}" for seconds, part in known)
    return f"profiling cost {units.duration(1e9 * sum(seconds for seconds, _ in known))} more ({listed})"


def _outcome(trace: Trace) -> list[str]:
    info = trace.info
    number = sum(problem.count for problem in info.problems if problem.kind != DAMAGED_NAMES)
    return [
        "" if info.status == "ok" else f"the code {_STATUS[info.status]}",
        f"{units.plural(number, 'problem')} in the data" if number else "",
        f"{units.plural(len(failures(trace)), 'part')} could not be computed" if failures(trace) else "",
    ]
