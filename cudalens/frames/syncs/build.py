"""The ``syncs`` frame: a row per wait of the host for the GPU, from the events and from what was seen while they ran.

Whoever made the events: a reader of files hands over nothing else, a live session also what its collector saw (the
user's place, the call stack, the expression). One wait that both tell of is one row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.build import categorical, innermost_event, is_category
from cudalens.frames.catalog import columns_of
from cudalens.frames.merge import join_frames
from cudalens.frames.schema import empty_frame
from cudalens.frames.stacks import StackTable
from cudalens.frames.syncs.calls import Names, Pending, Wait, filled, find_waits
from cudalens.frames.syncs.kinds import Evidence, asked_by, asked_for, kind_of
from cudalens.frames.syncs.observed import is_release_seen, match

Frames = dict[str, pd.DataFrame]
Ints = NDArray[np.int64]

#: Who saw a wait: torch's gpu_trace, its sync debug mode, the profiler's runtime calls.
CALLBACK, WARNING, RUNTIME = "callback", "warning", "runtime"

#: By how much the clocks of Python and of a GPU's recording may differ; far more than they do.
CLOCK_SKEW_NS: Final = 100_000

#: Entries of recorded stacks that are never the user's.
_PROFILER: Final = re.compile(r"torch[/\\]autograd[/\\]profiler\.py\(\d+\): __(?:enter|exit)__")
_NOT_USERS: Final = re.compile(
    r"^(?:torch[/\\]|<built-in |<frozen |nn\.Module: |\[)|[/\\]torch[/\\]"
    r"|[/\\]cudalens[/\\](?:device|virtual|sanitizer|profiler|graphs|memory)[/\\]"
    r"|(?:^|[/\\])(?:contextlib|functools|threading)\.py"
)


@dataclass(frozen=True)
class Surroundings:
    """What a process can tell of its own program, and a file of somebody else's cannot.

    Attributes:
        label: How a source file is called (``In[7]`` for a notebook's cell).
        line: A line of a file's source; "" where it is not to be had.
        until_ns: When the program's part ended: later waits are the profiler's own. None where nobody knows.
        skew_ns: By how much that clock and the recording's may differ.
    """

    label: Callable[[str], str] = str
    line: Callable[[str, int], str] = lambda file, line: ""
    until_ns: int | None = None
    skew_ns: int = 0


def build_syncs(frames: Mapping[str, pd.DataFrame], around: Surroundings | None = None) -> Frames:
    """The frames ``syncs`` and ``stacks``.

    Args:
        frames: ``events``, and where there are: ``stacks``, and as ``syncs`` what a collector saw.
        around: What the process that made them can tell; None for a file.
    """
    around = around or Surroundings()
    events, seen = frames["events"], frames.get("syncs", empty_frame("syncs"))
    tree = _Tree(events)
    waits = _programs(find_waits(events), tree, around.until_ns)
    if around.until_ns is not None:
        seen = seen[seen["ts"] < around.until_ns].reset_index(drop=True)
    if not waits and not len(seen):
        return {"syncs": empty_frame("syncs"), "stacks": frames.get("stacks", empty_frame("stacks"))}
    seen_of = match(events, waits, seen)
    pairs = [
        (wait, at) for wait, at in zip(waits, seen_of, strict=True) if at >= 0 or not _is_at_the_end(wait, tree, around)
    ]
    stacks, table = frames.get("stacks", empty_frame("stacks")), StackTable()
    writer = _Rows(tree, seen, stacks, table, around)
    rows = [writer.of_wait(wait, at) for wait, at in pairs]
    alone = sorted(set(range(len(seen))).difference(seen_of))
    rows += writer.of_sightings([at for at in alone if not is_release_seen(str(seen["call"].iloc[at]))])
    return _frames(rows, stacks, table)


def _frames(rows: list[dict[str, Any]], stacks: pd.DataFrame, table: StackTable) -> Frames:
    rows.sort(key=lambda row: row["ts"])
    made = [row.pop("made_stack", None) for row in rows]
    joined = join_frames({"stacks": stacks}, {"stacks": table.to_frame()})["stacks"]
    offset = int(stacks["stack"].max()) + 1 if len(stacks) else 0
    for row, number in zip(rows, made, strict=True):
        if number is not None:
            row["stack"] = number + offset
    return {"syncs": frame_of(rows), "stacks": joined}


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The ``syncs`` frame of rows by column; what a row leaves out, or has as None, is missing."""
    arrays = {
        column.name: _array([row.get(column.name) for row in rows], column.dtype) for column in columns_of("syncs")
    }
    return pd.DataFrame(arrays)


def _array(values: list[Any], dtype: str) -> Any:
    if dtype == "category":
        codes, texts = pd.factorize(np.array([v if v is None else str(v) for v in values], object))
        return categorical(codes, list(texts))
    return np.array(values, np.int64) if dtype == "int64" else pd.array(values, dtype=dtype)


class _Tree:
    """The events as a call tree to look around in."""

    def __init__(self, events: pd.DataFrame) -> None:
        self.events = events
        self.start = events["ts"].to_numpy()
        self.dur = events["dur"].to_numpy()
        self.parent, self._stack = filled(events["parent"]), filled(events["stack"])
        self.names = Names(events["name"])
        cat = events["cat"].array
        self._is_op, self._is_python = is_category(cat, ("cpu_op",)), is_category(cat, ("python_function",))
        self._is_user = self._is_op | is_category(cat, ("user_annotation",))

    def ops(self, row: int) -> tuple[str, ...]:
        """Operators around a row, innermost first, up to where something else called them."""
        found: list[str] = []
        while row >= 0 and not self._is_op[row]:
            row = -1 if self._is_python[row] or self._is_user[row] else int(self.parent[row])
        while row >= 0 and self._is_op[row]:
            found.append(self.names[row])
            row = int(self.parent[row])
        return tuple(found)

    def python(self, row: int) -> list[str]:
        """Python calls around a row, innermost first."""
        found = []
        while row >= 0:
            if self._is_python[row]:
                found.append(self.names[row])
            row = int(self.parent[row])
        return found

    def stack(self, row: int) -> int:
        """Id of the call stack of a row, or of the nearest around it that has one; -1 where none has."""
        while row >= 0 and self._stack[row] < 0:
            row = int(self.parent[row])
        return int(self._stack[row]) if row >= 0 else -1

    def is_profilers(self, row: int) -> bool:
        """Whether torch's profiler made a call, as its Python calls tell."""
        return any(_PROFILER.search(name) for name in self.python(row))

    def last_of_the_program(self) -> int:
        """When its last operator or range ended; the smallest int64 where there was none."""
        ends = self.start[self._is_user] + self.dur[self._is_user]
        return int(ends.max()) if len(ends) else int(np.iinfo(np.int64).min)


def _programs(waits: list[Wait], tree: _Tree, until_ns: int | None) -> list[Wait]:
    """Those of the program, without those of the profiler that recorded it.

    torch.profiler waits for the device before it stops: the last call of a recording, beneath nothing, after all
    operators, unless it tells more.
    """
    if until_ns is not None:
        return [wait for wait in waits if wait.start_ns < until_ns]
    kept = [wait for wait in waits if not tree.is_profilers(wait.rows[0])]
    if not kept or len(kept) < len(waits) or not _is_plain(kept[-1], tree):
        return kept
    return kept[:-1] if kept[-1].start_ns >= tree.last_of_the_program() else kept


def _is_plain(wait: Wait, tree: _Tree) -> bool:
    """Whether it is a wait for the device beneath nothing, as the profiler's own."""
    return tree.parent[wait.rows[0]] < 0 and "DeviceSynchronize" in tree.names[wait.rows[-1]]


def _is_at_the_end(wait: Wait, tree: _Tree, around: Surroundings) -> bool:
    """Whether it may be the profiler's own, by clocks that differ."""
    if around.until_ns is None or not around.skew_ns:
        return False
    return _is_plain(wait, tree) and wait.start_ns >= around.until_ns - around.skew_ns


class _Rows:
    """Makes rows of the frame."""

    def __init__(
        self, tree: _Tree, seen: pd.DataFrame, stacks: pd.DataFrame, table: StackTable, around: Surroundings
    ) -> None:
        self._tree, self._table, self._around = tree, table, around
        self._seen = _records(seen)
        self._pending = Pending(tree.events)
        self._facts = {name: filled(tree.events[name]) for name in ("device", "stream", "num_bytes", "pid", "tid")}
        self._recorded = _Recorded(stacks)

    def of_wait(self, wait: Wait, seen: int) -> dict[str, Any]:
        """The row of a wait that the runtime calls tell of, and of what was seen of it."""
        row = max(wait.rows, key=lambda call: int(self._tree.dur[call]))
        sighting = self._seen[seen] if seen >= 0 else {}
        ops, python = self._tree.ops(wait.rows[0]), self._tree.python(wait.rows[0])
        calls = tuple(self._tree.names[call] for call in wait.rows)
        facts = {name: self._fact(name, row) for name in ("pid", "tid")}
        for name in ("device", "stream", "num_bytes"):
            facts[name] = self._fact(name, wait.work) if wait.work >= 0 else None
        if facts["device"] is None:
            facts["device"] = sighting.get("device")
        evidence = Evidence(calls, ops, way=wait.way, is_pageable=wait.is_pageable)
        found = {
            **facts,
            "ts": wait.start_ns,
            "dur": wait.end_ns - wait.start_ns,
            "gpu_dur": self._gpu_dur(wait.start_ns, wait.end_ns),
            "call": " + ".join(dict.fromkeys(calls)),
            "event": row,
            "seen_by": ", ".join(filter(None, (sighting.get("seen_by"), RUNTIME))),
        }
        return found | self._told(evidence, sighting, wait.rows[0], python)

    def of_sightings(self, numbers: list[int]) -> list[dict[str, Any]]:
        """The rows of what was seen and no runtime call tells of."""
        seen = [self._seen[number] for number in numbers]
        inside = innermost_event(
            self._tree.events,
            np.array([sighting["ts"] for sighting in seen], np.int64),
            pd.array([sighting["pid"] for sighting in seen], dtype="Int64"),
            pd.array([sighting["tid"] for sighting in seen], dtype="Int64"),
        )
        rows = []
        for sighting, row in zip(seen, inside.tolist(), strict=True):
            evidence = Evidence((str(sighting["call"]),) if sighting["call"] else (), self._tree.ops(row))
            rows.append(sighting | self._told(evidence, sighting, row, self._tree.python(row)))
        return rows

    def _told(self, evidence: Evidence, sighting: dict[str, Any], row: int, python: list[str]) -> dict[str, Any]:
        """Kind, operator and place: by what was seen, else by what the events recorded."""
        place = self._place(sighting, row, python)
        method, prints = asked_by(python)
        prints = prints or asked_by(self._recorded.entries(place.get("stack")))[1]
        asked = asked_for(str(sighting["expression"])) if sighting.get("expression") else method
        kind = kind_of(replace(evidence, asked=asked, prints=prints))
        return place | {"kind": kind, "op": _outermost(evidence.ops)}

    def _place(self, sighting: dict[str, Any], row: int, python: list[str]) -> dict[str, Any]:
        if sighting.get("place"):
            return {name: sighting.get(name) for name in ("place", "source", "expression", "stack")}
        recorded = self._tree.stack(row)
        entries = self._recorded.entries(recorded) if recorded >= 0 else tuple(python)
        found = self._named(entries)
        if recorded >= 0:
            return found | {"stack": recorded}
        return found | ({"made_stack": self._table.add(python)} if python else {})

    def _named(self, entries: tuple[str, ...]) -> dict[str, Any]:
        """The innermost entry that may be the user's."""
        for entry in entries:
            match = _ENTRY.match(entry)
            if match is not None and not _NOT_USERS.search(entry):
                file, line = match["file"], int(match["line"])
                source = self._around.line(file, line).strip()
                return {"place": f"{self._around.label(file)}:{line}", "source": source or None}
        return {}

    def _gpu_dur(self, start_ns: int, end_ns: int) -> int | None:
        if not self._pending:
            return None
        return max(0, min(end_ns, self._pending.until(end_ns)) - start_ns)

    def _fact(self, name: str, row: int) -> int | None:
        value = int(self._facts[name][row])
        return value if value >= 0 else None


_ENTRY: Final = re.compile(r"^(?P<file>.*)\((?P<line>\d{1,9})\): ", re.DOTALL)


def _outermost(ops: tuple[str, ...]) -> str | None:
    """The operator that the program called: autograd's own names around it are none."""
    named = [op for op in ops if "::" in op and not op.startswith(("autograd::", "torch::autograd"))] or ops
    return named[-1] if named else None


class _Recorded:
    """The stack table, looked up by the few ids that are needed."""

    def __init__(self, stacks: pd.DataFrame) -> None:
        self._stacks, self._rows = stacks, stacks.groupby("stack", sort=False).indices
        self._known: dict[int, tuple[str, ...]] = {}

    def entries(self, stack: Any) -> tuple[str, ...]:
        """A stack as texts, innermost first, as `StackTable` takes them; empty for None."""
        if stack is None:
            return ()
        if stack not in self._known:
            of_stack = self._stacks.iloc[self._rows.get(stack, [])]
            self._known[stack] = tuple(map(_entry, of_stack["file"], of_stack["line"], of_stack["function"]))
        return self._known[stack]


def _entry(file: Any, line: Any, function: Any) -> str:
    return str(function) if pd.isna(file) or pd.isna(line) else f"{file}({line}): {function}"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows by column; what is missing is None."""
    columns = {name: frame[name].astype(object).where(frame[name].notna(), None) for name in frame}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
