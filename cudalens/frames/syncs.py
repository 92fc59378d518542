"""Build the ``syncs`` frame, a row per wait of the host for the GPU, from the events and from observed waits.

A reader of files has the events only. A live session also has the waits that its collector observed, with the line, the
call stack and the expression. A wait of both is one row.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames.build import innermost_event, merge_frames
from cudalens.frames.catalog_frames import empty_frame, frame_of_rows
from cudalens.frames.column_arrays import Ints, integers, is_category
from cudalens.frames.stacks import ENTRY_COLUMNS, StackTable, enclosing_entries, entry_text, user_place
from cudalens.frames.sync_kinds import (
    Evidence,
    Names,
    Pending,
    Wait,
    called_name,
    find_waits,
    is_release,
    kind_of,
    plain_call,
    python_context,
    sync_target,
)

#: Longest time from an observation to its call: other callbacks may run in between.
_EARLY_NS: Final = 1_000_000

#: Longest time from the end of the call to its observation, since clocks differ.
_LATE_NS: Final = 50_000

#: What the allocator waits for while it empties its cache: the device, or events of blocks that other streams use.
_WITHIN_RELEASES: Final = ("memory", "device", "event")

#: Least number of pairs that are matched one by one although the clocks differ.
_MIN_PAIRS: Final = 3

#: Largest spread of the differences of pairs that are matched one by one.
_SPREAD_NS: Final = 1_000_000


def match(events: pd.DataFrame, waits: Sequence[Wait], observed: pd.DataFrame) -> list[int]:
    """For each wait the row number of the same wait in `observed`, -1 for none.

    Args:
        events: The events frame.
        waits: By start.
        observed: A ``syncs`` frame of the observed waits, by time; ``call`` is the call after the observation.
    """
    found = [-1] * len(waits)
    if not waits or not len(observed):
        return found
    tid_of_row, tids, ts = integers(events["tid"]), integers(observed["tid"]), integers(observed["ts"])
    if not np.isin(tids, tid_of_row).any():  # the recording has other thread ids
        tid_of_row, tids = np.zeros_like(tid_of_row), np.zeros_like(tids)
    names = Names(events["name"])
    targets = [_target(names[wait.rows[-1]]) for wait in waits]
    waiting, at_call = defaultdict[tuple[int, str], list[int]](list), defaultdict[tuple[int, str], list[int]](list)
    for number, (wait, target) in enumerate(zip(waits, targets, strict=True)):
        waiting[int(tid_of_row[wait.rows[0]]), target].append(number)
    calls = [str(call) for call in observed["call"].astype(object)]
    for at in np.argsort(ts, kind="stable").tolist():
        at_call[int(tids[at]), _target(calls[at])].append(at)
    ends = ts + integers(observed["dur"], 0)
    for key, numbers in at_call.items():
        if key[1] != "memory":
            for number, at in _pairs([waits[n] for n in waiting[key]], ts[numbers], ends[numbers]):
                found[waiting[key][number]] = numbers[at]
    may_release = [target in _WITHIN_RELEASES and n < 0 for target, n in zip(targets, found, strict=True)]
    _match_releases(waits, tid_of_row, observed, (tids, ts), (may_release, found))
    return found


def is_release_call(call: str) -> bool:
    """Return whether an observed call releases memory; that is not a wait if there was no memory to release."""
    return _target(call) == "memory"


def _match_releases(
    waits: Sequence[Wait],
    tid_of_row: Ints,
    observed: pd.DataFrame,
    times: tuple[Ints, Ints],
    result: tuple[list[bool], list[int]],
) -> None:
    """Match the waits during a release of memory with that release."""
    (tids, ts), (may_release, found) = times, result
    ends = ts + integers(observed["dur"])
    starts = np.array([wait.start_ns for wait in waits], np.int64)
    for at, call in enumerate(observed["call"].astype(object)):
        if not is_release_call(str(call)):
            continue
        low, high = np.searchsorted(starts, [ts[at] - _LATE_NS, ends[at] + _LATE_NS])
        for number in range(int(low), int(high)):
            wait = waits[number]
            is_its = wait.end_ns <= ends[at] + _LATE_NS and tid_of_row[wait.rows[0]] == tids[at]
            if may_release[number] and is_its:
                found[number] = at


def _target(call: str) -> str:
    """What the host waits for in a runtime call: memory, device, event or stream, as in torch's callbacks; or ""."""
    name = plain_call(call)
    if is_release(name):
        return "memory"
    is_copy = "Memcpy" in name and not name.endswith(("Async", "Synchronize"))
    return "stream" if is_copy else sync_target(name)


def _pairs(waits: Sequence[Wait], ts: Ints, ends: Ints) -> list[tuple[int, int]]:
    """Numbers of matching waits and observations, both in order.

    Args:
        waits: By start.
        ts: When each observation was made, in ns, shape (n,).
        ends: When the observed operator returned, in ns, shape (n,); equal to `ts` where that is not known.
    """
    if len(waits) == len(ts) >= _MIN_PAIRS:
        apart = np.array([wait.start_ns for wait in waits], np.int64) - ts
        if np.abs(apart - np.median(apart)).max() <= _SPREAD_NS:
            return [(number, number) for number in range(len(ts))]
    found, at = [], 0
    for number, wait in enumerate(waits):
        while at < len(ts) and ts[at] < wait.start_ns - _EARLY_NS and ends[at] < wait.end_ns:
            at += 1
        if at < len(ts) and ts[at] <= wait.end_ns + _LATE_NS:
            found.append((number, at))
            at += 1
    return found


Frames = dict[str, pd.DataFrame]

#: What recorded a wait: torch's gpu_trace, its sync debug mode, the profiler's runtime calls.
CALLBACK, WARNING, RUNTIME = "callback", "warning", "runtime"

#: Upper limit of the difference between the clocks of Python and of a GPU's recording.
CLOCK_SKEW_NS: Final = 100_000

#: Chains of Python calls that are kept, since neighbouring waits share them.
_MAX_CHAINS: Final = 4096
_MISSING: Final = -(1 << 63)
#: Their values may be negative.
_THREAD: Final = ("pid", "tid")
_PROFILER: Final = re.compile(r"torch[/\\]autograd[/\\]profiler\.py\(\d+\): __(?:enter|exit)__")


@dataclass(frozen=True)
class LiveProgram:
    """Facts about a program in this process, which files do not have.

    Attributes:
        label: Label of a source file (``In[7]`` for a notebook's cell).
        line: A line of a file's source; "" if not available.
        until_ns: End of the program: later waits are the profiler's own. None if unknown.
        skew_ns: Upper limit of the difference between that clock and the recording's.
        own_work: Thread, start and end of work of cudalens, whose waits are not the program's.
    """

    label: Callable[[str], str] = str
    line: Callable[[str, int], str] = lambda file, line: ""
    until_ns: int | None = None
    skew_ns: int = 0
    own_work: Sequence[tuple[int, int, int]] = ()


def build_syncs(frames: Mapping[str, pd.DataFrame], program: LiveProgram | None = None) -> Frames:
    """Return the frames ``syncs`` and ``stacks``.

    Args:
        frames: ``events``; if there are any, ``stacks``, and observed waits as ``syncs``.
        program: The program, if it runs in this process; None for a file.
    """
    program = program or LiveProgram()
    events, observed = frames["events"], frames.get("syncs", empty_frame("syncs"))
    stacks, table = frames.get("stacks", empty_frame("stacks")), StackTable()
    tree = _Tree(events)
    waits = _of_program(find_waits(events, tree.names), tree, program.until_ns)
    waits = _without_own(waits, events, program.own_work)
    if program.until_ns is not None:
        observed = observed[observed["ts"] < program.until_ns].reset_index(drop=True)
    if not waits and not len(observed):
        return {"syncs": empty_frame("syncs"), "stacks": stacks}
    matched = match(events, waits, observed)
    writer = _Rows(tree, waits, observed, stacks, table, program)
    gpu_durs = [None] * len(waits)  # the time of each wait during which the GPU was at work
    if pending := Pending(events):
        spans = np.array([(wait.start_ns, wait.end_ns) for wait in waits], np.int64).reshape(-1, 2)
        gpu_durs = pending.gpu_durs(spans[:, 0], spans[:, 1]).tolist()
    rows = [
        writer.of_wait(wait, at, gpu_dur)
        for wait, at, gpu_dur in zip(waits, matched, gpu_durs, strict=True)
        if at >= 0 or not _is_at_end(wait, tree, program)
    ]
    alone = sorted(set(range(len(observed))).difference(matched))
    rows += writer.of_observed([at for at in alone if not is_release_call(str(observed["call"].iloc[at]))])
    return _frames(rows, stacks, table)


def _frames(rows: list[dict[str, Any]], stacks: pd.DataFrame, table: StackTable) -> Frames:
    rows.sort(key=lambda row: row["ts"])
    made = [row.pop("made_stack", None) for row in rows]
    joined = merge_frames({"stacks": stacks}, {"stacks": table.to_frame()})["stacks"]
    offset = int(stacks["stack"].max()) + 1 if len(stacks) else 0
    for row, number in zip(rows, made, strict=True):
        if number is not None:
            row["stack"] = number + offset
    return {"syncs": frame_of_rows("syncs", rows), "stacks": joined}


class _Tree:
    """Lookups in the call tree of the events, by row."""

    def __init__(self, events: pd.DataFrame) -> None:
        self.events = events
        self.start = events["ts"].to_numpy()
        self._dur = events["dur"].to_numpy()
        parent, stack = integers(events["parent"]), integers(events["stack"])
        self.names = Names(events["name"])
        cat = events["cat"].array
        is_op, is_python = is_category(cat, ("cpu_op",)), is_category(cat, ("python_function",))
        self.is_torch = bool((is_op | is_python).any())
        self._is_user = is_op | is_category(cat, ("user_annotation",))
        # Memory views: faster by element than arrays.
        self.parent, self._stack, self.dur = parent.data, stack.data, self._dur.data
        self._call_line = integers(events["call_line"]).data
        self._is_op, self._is_python, self._ends_ops = is_op.data, is_python.data, (is_python | self._is_user).data
        self._chains: dict[int, tuple[str, ...]] = {}
        self._has_stacks = bool((stack >= 0).any())
        self._has_profiler = any("profiler.py(" in name and _is_profilers(name) for name in self.names.texts)

    def ops(self, row: int) -> tuple[str, ...]:
        """Return the innermost operators around a row, innermost first, up to a caller that is not an operator."""
        found: list[int] = []
        parent, is_op = self.parent, self._is_op
        while row >= 0 and not is_op[row]:
            row = -1 if self._ends_ops[row] else parent[row]
        while row >= 0 and is_op[row]:
            found.append(row)
            row = parent[row]
        return self.names.of(found)

    def python(self, row: int) -> tuple[str, ...]:
        """Python calls around a row, innermost first."""
        if row in self._chains:
            return self._chains[row]
        if len(self._chains) > _MAX_CHAINS:  # waits are in order of time, so old ones are not needed again
            self._chains.clear()
        found, at, parent, is_python = [], row, self.parent, self._is_python
        while at >= 0:
            if is_python[at]:
                found.append(at)
            at = parent[at]
        chain = self._chains[row] = self.names.of(found)
        return chain

    def entries(self, row: int) -> tuple[str, ...]:
        """Return the Python calls around a row as entries of a stack, innermost first."""
        name = self.names.__getitem__
        return tuple(enclosing_entries(row, self.parent, self._is_python, self._call_line, name))

    def stack(self, row: int) -> int:
        """Id of the call stack of a row, or of the nearest row around it that has one; -1 for none."""
        while self._has_stacks and row >= 0 and self._stack[row] < 0:
            row = self.parent[row]
        return self._stack[row] if self._has_stacks and row >= 0 else -1

    def is_profilers(self, row: int) -> bool:
        """Return whether torch's profiler made a call, by the Python calls around it."""
        return self._has_profiler and any(map(_is_profilers, self.python(row)))

    def last_end(self) -> int:
        """End of the last operator or range; the smallest int64 if there is none."""
        ends = self.start[self._is_user] + self._dur[self._is_user]
        return int(ends.max()) if len(ends) else int(np.iinfo(np.int64).min)


@lru_cache(1 << 16)
def _is_profilers(name: str) -> bool:
    return _PROFILER.search(name) is not None


def _of_program(waits: list[Wait], tree: _Tree, until_ns: int | None) -> list[Wait]:
    """Return the waits of the program, without those of the profiler.

    torch.profiler waits for the device before it stops. Without other data, that is the last call of a recording if it
    has no parent and comes after all operators.
    """
    if until_ns is not None:
        return [wait for wait in waits if wait.start_ns < until_ns]
    kept = [wait for wait in waits if not tree.is_profilers(wait.rows[0])]
    if not kept or len(kept) < len(waits) or not _is_plain(kept[-1], tree):
        return kept
    return kept[:-1] if kept[-1].start_ns >= tree.last_end() else kept


def _without_own(waits: list[Wait], events: pd.DataFrame, own_work: Sequence[tuple[int, int, int]]) -> list[Wait]:
    """The waits that no work of cudalens made."""
    if not waits or not own_work:
        return waits
    tids = integers(events["tid"])
    spans: dict[int, list[tuple[int, int]]] = {}
    for tid, start_ns, end_ns in own_work:
        spans.setdefault(tid, []).append((start_ns, end_ns))

    def is_own(wait: Wait) -> bool:
        middle_ns = (wait.start_ns + wait.end_ns) // 2
        return any(start <= middle_ns <= end for start, end in spans.get(int(tids[wait.rows[0]]), ()))

    return [wait for wait in waits if not is_own(wait)]


def _is_plain(wait: Wait, tree: _Tree) -> bool:
    """Return whether it is a wait for the device without a parent, as the profiler's own."""
    return tree.parent[wait.rows[0]] < 0 and "DeviceSynchronize" in tree.names[wait.rows[-1]]


def _is_at_end(wait: Wait, tree: _Tree, program: LiveProgram) -> bool:
    """Return whether it may be the profiler's own, as the clocks differ."""
    if program.until_ns is None or not program.skew_ns:
        return False
    return _is_plain(wait, tree) and wait.start_ns >= program.until_ns - program.skew_ns


class _Rows:
    """Makes rows of the frame."""

    def __init__(
        self,
        tree: _Tree,
        waits: list[Wait],
        observed: pd.DataFrame,
        stacks: pd.DataFrame,
        table: StackTable,
        program: LiveProgram,
    ) -> None:
        self._tree, self._table, self._program = tree, table, program
        self._observed = _records(observed)
        rows = sorted({row for wait in waits for row in (*wait.rows, wait.work) if row >= 0})
        self._place_of = {row: at for at, row in enumerate(rows)}
        names = ("device", "stream", "num_bytes", "pid", "tid")
        self._facts = {name: integers(tree.events[name].array.take(rows), _MISSING).tolist() for name in names}
        self._recorded = _Recorded(stacks)

    def of_wait(self, wait: Wait, number: int, gpu_dur: int | None) -> dict[str, Any]:
        """Return the row of a wait in the runtime calls, and of its observed wait, -1 for none."""
        row = max(wait.rows, key=self._tree.dur.__getitem__)
        observed = self._observed[number] if number >= 0 else {}
        ops = self._tree.ops(wait.rows[0])
        calls = self._tree.names.of(wait.rows)
        facts = {name: self._fact(name, row) for name in _THREAD}
        for name in ("device", "stream", "num_bytes"):
            facts[name] = self._fact(name, wait.work) if wait.work >= 0 else None
        if facts["device"] is None:
            facts["device"] = observed.get("device")
        evidence = Evidence(calls, ops, way=wait.way, is_pageable=wait.is_pageable, is_torch=self._tree.is_torch)
        found = {
            **facts,
            "ts": wait.start_ns,
            "dur": wait.end_ns - wait.start_ns,
            "gpu_dur": gpu_dur,
            "call": " + ".join(dict.fromkeys(calls)),
            "event": row,
            "seen_by": ", ".join(filter(None, (observed.get("seen_by"), RUNTIME))),
        }
        return found | self._described(evidence, observed, wait.rows[0])

    def of_observed(self, numbers: list[int]) -> list[dict[str, Any]]:
        """Return the rows of observed waits without a runtime call."""
        waits = [self._observed[number] for number in numbers]
        ts, pid, tid = (pd.array([wait[name] for wait in waits], dtype="Int64") for name in ("ts", "pid", "tid"))
        inside = innermost_event(self._tree.events, integers(ts), pid, tid)
        rows = []
        for wait, row in zip(waits, inside.tolist(), strict=True):
            evidence = Evidence((str(wait["call"]),) if wait["call"] else (), self._tree.ops(row))
            rows.append(wait | self._described(evidence, wait, row))
        return rows

    def _described(self, evidence: Evidence, observed: dict[str, Any], row: int) -> dict[str, Any]:
        """Kind, operator and place: as observed, else as the events have them."""
        python = self._tree.python(row)
        place = self._place(observed, row)
        context, recorded = python_context(python), python_context(self._recorded.entries(place.get("stack")))
        called = called_name(str(observed["expression"])) if observed.get("expression") else context.method
        kind = kind_of(
            evidence._replace(
                called=called,
                prints=context.prints or recorded.prints,
                moves_module=context.moves_module or recorded.moves_module,
            )
        )
        return place | {"kind": kind, "op": _outermost(evidence.ops)}

    def _place(self, observed: dict[str, Any], row: int) -> dict[str, Any]:
        if observed.get("place"):
            return {name: observed.get(name) for name in ("place", "source", "expression", "stack")}
        recorded = self._tree.stack(row)
        entries = self._recorded.entries(recorded) if recorded >= 0 else self._tree.entries(row)
        found = self._named(entries)
        if recorded >= 0:
            return found | {"stack": recorded}
        return found | ({"made_stack": self._table.add(entries)} if entries else {})

    def _named(self, entries: tuple[str, ...]) -> dict[str, Any]:
        """Place and source of the innermost entry in the user's code."""
        place = next(filter(None, map(user_place, entries)), None)
        if place is None:
            return {}
        source = None if place.line is None else self._program.line(place.file, place.line).strip() or None
        return {"place": place._replace(file=self._program.label(place.file)).text(), "source": source}

    def _fact(self, name: str, row: int) -> int | None:
        value: int = self._facts[name][self._place_of[row]]
        return value if value >= 0 or (name in _THREAD and value != _MISSING) else None


def _outermost(ops: tuple[str, ...]) -> str | None:
    """Return the operator that the program called, without autograd's own names around it."""
    named = [op for op in ops if "::" in op and not op.startswith(("autograd::", "torch::autograd"))] or ops
    return named[-1] if named else None


class _Recorded:
    """Entries of the stack table by id, built on first use."""

    def __init__(self, stacks: pd.DataFrame) -> None:
        self._stacks, self._rows = stacks, stacks.groupby("stack", sort=False).indices
        self._known: dict[int, tuple[str, ...]] = {}

    def entries(self, stack: Any) -> tuple[str, ...]:
        """Return the entries of a stack, innermost first, as `StackTable` takes them; empty for None."""
        if stack is None:
            return ()
        if stack not in self._known:
            of_stack = self._stacks.iloc[self._rows.get(stack, [])]
            self._known[stack] = tuple(map(entry_text, *(of_stack[name] for name in ENTRY_COLUMNS)))
        return self._known[stack]


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows by column; None is missing."""
    columns = {name: frame[name].astype(object).where(frame[name].notna(), None) for name in frame}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
