"""CUDA graphs in words: the verdict, and the report that ``text/plain`` holds, with the tree drawn in letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Final

from cudalens.analysis import units
from cudalens.analysis.graphs import EagerFunction, FailedCheck, GraphsSummary, Speed, summarize_graphs
from cudalens.frames import Trace
from cudalens.views.graphs import layout as graphs_tree
from cudalens.views.graphs.layout import Chain, Fold, Stop
from cudalens.views.graphs.model import FindingView, FunctionView, GraphsView, PathView, Recording, graphs_view

#: Skips, re-recordings and warnings that are told, and functions; the others are counted.
MAX_FINDINGS: Final = 12

#: Paths that are told.
MAX_PATHS: Final = 6

#: Share by which replay and eager may differ and are still called equally fast.
_WIDTH: Final = 100
_MAX_LINES: Final = 80
_MAX_NAMED: Final = 2
_SAME: Final = 0.05

_ALL: Final = 0.995

#: How recordings are marked, by where they stand.
MARKS: Final = {"current": "◉", "on the path": "●", "idle": "○"}

#: What findings are called.
KINDS: Final = {"skip": "runs eager", "warning": "warning", "rerecord": "recorded again"}


def verdict(trace: Trace) -> str:
    """``3 graphs, 96 % of calls replayed, 4.1x faster than eager, pool 312 MiB``; wrong results stand before that.

    Empty where no graph manager was looked at.
    """
    if trace.graphs.empty:
        return ""
    result = summarize_graphs(trace)
    return "; ".join([*_wrong(result), _graphs(result), *_eager(result.eager), *_more(result)])


def has_failed(trace: Trace) -> bool:
    """Whether a replay does not give what a call without a graph gives."""
    graphs = trace.graphs
    return bool((graphs["kind"].eq("recording") & graphs["is_equal"].eq(False).fillna(False)).any())


def _wrong(result: GraphsSummary) -> list[str]:
    if not result.failed:
        return []
    worst = max(result.failed, key=lambda failed: failed.max_abs_diff or 0.0)
    of = f"{units.count(len(result.failed))} of {units.plural(result.num_checked, 'graph')} checked"
    return [f"replay differs from eager in {of}: {failed_words(worst)}"]


def failed_words(failed: FailedCheck | Recording) -> str:
    """``decode (graph 2) by up to 0.25, first at …``: what a check found."""
    number = "" if failed.node is None else f" (graph {failed.node})"
    by = "" if failed.max_abs_diff is None else f" by up to {failed.max_abs_diff:.3g}"
    first = f", first at {units.shorten(failed.first_diff, 120)}" if failed.first_diff else ""
    return f"{units.shorten(failed.function, 60)}{number}{by}{first}"


def _graphs(result: GraphsSummary) -> str:
    if not result.num_graphs:
        return _nothing(result)
    parts = [units.plural(result.num_graphs, "graph"), _replayed(result)]
    if result.num_replays:
        parts.append(speed_words(result.speed, result.num_replays))
    if result.pool_bytes is not None:
        parts.append(f"pool {units.size(result.pool_bytes)}")
    return ", ".join(parts)


def _nothing(result: GraphsSummary) -> str:
    if result.warm:
        more = f" and {units.plural(len(result.warm) - 1, 'other')}" if len(result.warm) > 1 else ""
        verb = "are" if more else "is"
        return f"no graph recorded yet: {units.shorten(result.warm[0], 60)}{more} {verb} warm, the next call records"
    if result.num_functions and not result.num_calls:
        return "no graph recorded: nothing has been called yet"
    return "no graph recorded"


def _replayed(result: GraphsSummary) -> str:
    if not result.num_replays:
        return "none replayed yet"
    if result.replayed_pct is None:
        return f"replayed {units.times(result.num_replays)}"
    share = "over 99 %" if 99.5 <= result.replayed_pct < 100 else units.percent(result.replayed_pct)
    return f"{share} of calls replayed"


def speed_words(speed: Speed | None, num_replays: int) -> str:
    """``4.1x faster than eager``, and of how many replays that is known where it is not all of them."""
    if speed is None:
        return "speed not measured"
    known = speed.num_replays / max(num_replays, 1)
    part = "" if known >= _ALL else f" (measured on {units.percent(100 * known)} of replays)"
    return f"{ratio_words(speed.ratio)}{part}"


def ratio_words(ratio: float) -> str:
    """How replays at `ratio` times the speed of eager compare with it."""
    if abs(ratio - 1) < _SAME:
        return "as fast as eager"
    return f"{factor(ratio)} faster than eager" if ratio > 1 else f"{factor(1 / ratio)} slower than eager"


def factor(ratio: float) -> str:
    """``4.1x``, ``12x``."""
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{units.count(round(ratio))}x"


def _eager(functions: Sequence[EagerFunction]) -> list[str]:
    if not functions:
        return []
    told = [f"{units.shorten(f.name, 40)} {_sentence(f.why)}".rstrip() for f in functions[:_MAX_NAMED]]
    more = len(functions) - len(told)
    verb = "runs" if len(functions) == 1 else "run"
    names = ", ".join(told) + (f", and {units.plural(more, 'other')}" if more else "")
    return [f"{units.plural(len(functions), 'function')} {verb} eager: {names}"]


def _sentence(text: str) -> str:
    return units.shorten(text.rstrip(". "), 140)


def _more(result: GraphsSummary) -> list[str]:
    checked = f"replay equals eager ({units.plural(result.num_checked, 'graph')} checked)"
    parts = [
        f"recorded again {units.times(result.num_rerecords)}" if result.num_rerecords else "",
        units.plural(result.num_warnings, "warning") if result.num_warnings else "",
        checked if result.num_checked and not result.failed else "",
    ]
    return [part for part in parts if part]


def report_text(trace: Trace) -> str:
    """The tree, what did not replay and why, functions, paths and checks, about 100 columns wide; empty without any."""
    if trace.graphs.empty:
        return ""
    view = graphs_view(trace)
    blocks = (_checks(view), _tree(view), _findings(view.findings), _functions(view.functions), _paths(view))
    return "\n\n".join(block for block in ("\n".join(lines) for lines in blocks) if block)


def explain_text(trace: Trace) -> str:
    """What did not simply replay, why, and what to do about it."""
    lines = _findings(graphs_view(trace).findings)
    return "\n".join(lines) or "Nothing to explain: no function was skipped, recorded again or warned about."


def functions_text(trace: Trace) -> str:
    """A line for each function."""
    lines = _functions(graphs_view(trace).functions)
    return "\n".join(lines) or "No function is under the manager."


def _head(text: str) -> str:
    return f"── {text} {'─' * max(0, _WIDTH - len(text) - 4)}"


_COLUMNS: Final = ("replays", "eager", "replay", "", "pool", "held")
_COLUMN_WIDTHS: Final = (9, 9, 9, 6, 9, 6)
_NAME: Final = _WIDTH - sum(_COLUMN_WIDTHS)


def _tree(view: GraphsView) -> list[str]:
    if not view.recordings:
        return []
    lines = [_row("graphs", _COLUMNS)]
    trees, fold = graphs_tree.split_branches(graphs_tree.chains(view))
    for tree in trees:  # an empty line tells that what follows begins anew
        lines += [*_chain_lines(tree, ""), ""]
    if fold:
        lines += [f"⋮ {fold.label('tree')}", ""]
    lines.pop()
    if len(lines) > _MAX_LINES:
        more = units.count(len(lines) - _MAX_LINES)
        lines[_MAX_LINES:] = [f"and {more} lines more; trace.to_html() shows them, trace.graphs holds them"]
    if view.num_hidden:
        lines.append(f"and {units.plural(view.num_hidden, 'recording')} more in trace.graphs")
    return [*lines, *_legend(view.recordings.values()), *([UNMEASURED] if is_unmeasured(view) else [])]


UNMEASURED: Final = "Eager was not timed: --check, or cudagraph(fn, check=True), times it and compares the results."


def is_unmeasured(view: GraphsView) -> bool:
    """Whether replays were timed and eager never was."""
    known = view.recordings.values()
    return any(r.replay_ns is not None for r in known) and all(r.eager_ns is None for r in known)


def _legend(recordings: Iterable[Recording]) -> list[str]:
    states = {mark(recording) for recording in recordings}
    words = [f"{MARKS[state]} {text}" for state, text in _STATES.items() if MARKS[state] in states]
    return [f"({', '.join(words)})"] if len(words) > 1 else []


_STATES: Final = {"current": "where the last call stands", "on the path": "on the way there", "idle": "other ways"}


def mark(recording: Recording) -> str:
    """How a recording is marked in the tree."""
    state = "current" if recording.is_current else "on the path" if recording.is_on_path else "idle"
    return MARKS[state]


def _chain_lines(chain: Chain, indent: str, lead: str | None = None) -> Iterator[str]:
    """A chain in its lane. `lead`: what stands before its first line instead of the indent."""
    for item in graphs_tree.chain_items(chain):
        first, lead = lead if lead is not None else indent, None
        if isinstance(item, Fold):
            yield f"{first}⋮ {item.label()}"
            continue
        yield _stop_line(item, first)
        shown, fold = graphs_tree.split_branches(item.branches)
        for branch in shown:
            yield from _chain_lines(branch, f"{indent}│ ", f"{indent}├─")
        if fold:
            yield f"{indent}├⋮ {fold.label()}"


def _stop_line(stop: Stop, before: str) -> str:
    recording = stop.recording
    return _row(f"{before}{mark(recording)} {_described(recording, _NAME - len(before) - 3)}", _cells(recording))


def _described(recording: Recording, width: int) -> str:
    """Name, mode and variant in `width` characters; of a long variant the beginning."""
    tags = [] if recording.mode in ("", "inference") else [units.shorten(recording.mode, 12)]
    name = units.shorten(recording.function, max(width // 2, 12))
    head = " ".join([*(["✗"] if recording.is_equal is False else []), name, *tags])
    room = width - len(head) - 1
    variant = " ".join(recording.variant.split())
    if not variant or room < 6:
        return head
    return f"{head} {variant if len(variant) <= room else f'{variant[: room - 1]}…'}"


def _cells(recording: Recording) -> tuple[str, ...]:
    return (
        units.count(recording.num_replays),
        _known(units.duration(recording.eager_ns)),
        _known(units.duration(recording.replay_ns)),
        "" if recording.speedup is None else factor(recording.speedup),
        _known(units.size(recording.pool_bytes)),
        held(recording),
    )


def _known(text: str) -> str:
    return "" if text == "-" else text


def held(recording: Recording) -> str:
    """``1/2``: outputs that somebody holds, of how many; of a recording that is not on the path how many alone."""
    if recording.num_outputs is None:
        return ""
    if recording.num_live_outputs is None:
        return f"-/{recording.num_outputs}"
    return f"{recording.num_live_outputs}/{recording.num_outputs}"


def _row(name: str, cells: Sequence[str]) -> str:
    right = "".join(f"{cell:>{width}}" for cell, width in zip(cells, _COLUMN_WIDTHS, strict=True))
    return f"{name:<{_NAME}}{right}".rstrip()


def _findings(findings: Sequence[FindingView]) -> list[str]:
    if not findings:
        return []
    lines = [_head("what did not replay, and why")]
    for found in findings[:MAX_FINDINGS]:
        lines += wrap(
            f"{units.shorten(found.function, 60)} {KINDS[found.kind]} ({units.times(found.count)}): {_why(found)}",
            _WIDTH,
        )
        if found.place:
            source = f": {found.source}" if found.source else ""
            lines.append(f"    at {found.place}{source}")
        if found.advice:
            lines += wrap(f"→ {found.advice}", _WIDTH, initial_indent="    ", subsequent_indent="      ")
    if len(findings) > MAX_FINDINGS:
        lines.append(f"and {units.count(len(findings) - MAX_FINDINGS)} more in trace.graphs")
    return lines


def _why(found: FindingView) -> str:
    return found.detail or found.reason or "no reason was recorded"


_FUNCTION_COLUMNS: Final = ("calls", "replayed", "warmed", "recorded", "eager", "graphs")


def _functions(functions: Sequence[FunctionView]) -> list[str]:
    if not functions:
        return []
    lines = [_function_row("function", _FUNCTION_COLUMNS, "")]
    for function in functions[:MAX_FINDINGS]:
        counts = [*counts_of(function), function.num_graphs]
        lines.append(_function_row(units.shorten(function.name, 34), map(units.count, counts), function.state))
    if len(functions) > MAX_FINDINGS:
        lines.append(f"and {units.plural(len(functions) - MAX_FINDINGS, 'function')} more")
    return lines


def counts_of(function: FunctionView) -> tuple[int, int, int, int, int]:
    """Calls of a function, and of them the replayed, warming, recording and eager ones."""
    counts = (function.num_replays, function.num_warmups, function.num_recordings, function.num_eager)
    return (function.num_calls, *counts)


def _function_row(name: str, counts: Iterable[str], state: str) -> str:
    return f"{name:<36}{''.join(f'{text:>9}' for text in counts)}  {state}".rstrip()


def _paths(view: GraphsView) -> list[str]:
    if not view.paths:
        return []
    lines = [_head("paths taken")]
    for path in view.paths[:MAX_PATHS]:
        lines += wrap(f"{units.times(path.count):>12}  {path_words(view, path)}", _WIDTH, subsequent_indent=" " * 14)
    if len(view.paths) > MAX_PATHS:
        lines.append(f"and {units.plural(len(view.paths) - MAX_PATHS, 'path')} more in trace.graphs")
    return lines


def path_words(view: GraphsView, path: PathView) -> str:
    """``prefill → (attend → mlp) x12 → sample``."""
    known = view.recordings
    names = [units.shorten(known[node].function, 40) if node in known else f"graph {node}" for node in path.nodes]
    return " → ".join(graphs_tree.path_names(names))


def _checks(view: GraphsView) -> list[str]:
    checked = [recording for recording in view.recordings.values() if recording.is_equal is not None]
    failed = [recording for recording in checked if not recording.is_equal]
    if not failed:
        return []
    lines = [_head(f"replay differs from eager in {len(failed)} of {units.plural(len(checked), 'graph')} checked")]
    return [*lines, *(f"✗ {failed_words(recording)}" for recording in failed[:MAX_FINDINGS])]
