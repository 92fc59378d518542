"""Build frames from raw columns: events and memory, sorted, with links, call tree and self times; and counters.

Collectors and readers leave out what they do not have. Only this module fills in the rest, so that every Trace follows
the same definitions.
"""

from __future__ import annotations

import gc
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames import tree
from cudalens.frames.catalog_frames import (
    Column,
    check_frame,
    column_array,
    columns_of,
    empty_frame,
    frame_of,
    missing_array,
)
from cudalens.frames.column_arrays import (
    Bools,
    Ints,
    combined,
    has_prefix,
    integers,
    is_category,
    map_texts,
    masked,
    positions,
    text_column,
)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: it would visit a million new objects repeatedly, and they have no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


Frames = dict[str, pd.DataFrame]


def merge_frames(first: Mapping[str, pd.DataFrame], second: Mapping[str, pd.DataFrame]) -> Frames:
    """Return all frames of both; of two with one name that of `first`, except for the call stacks, which are merged.

    Args:
        first: Frames by name.
        second: Frames by name, whose stack ids are moved past those of `first`. Row numbers of a frame of it that is
            left out are missing in the result.
    """
    left_out = (first.keys() & second.keys()) - {"stacks"}
    second = {name: _without_links(name, frame, left_out) for name, frame in second.items()}
    if len(first.get("stacks", ())) and len(second.get("stacks", ())):
        offset = int(first["stacks"]["stack"].max()) + 1
        moved = {}  # with `offset` added to stack ids
        for name, frame in second.items():
            columns = [column.name for column in columns_of(name) if column.names == "stacks"]
            columns += ["stack"] if name == "stacks" else []
            moved[name] = frame.assign(**{column: frame[column] + offset for column in columns})
        return {**moved, **first, "stacks": merge_stacks(first["stacks"], moved["stacks"])}

    merged = {**second, **first}
    if not len(first.get("stacks", ())) and "stacks" in second:
        merged["stacks"] = second["stacks"]
    return merged


def _without_links(name: str, frame: pd.DataFrame, left_out: Set[str]) -> pd.DataFrame:
    """`frame` without row numbers of the frames `left_out`."""
    links = [c.name for c in columns_of(name) if c.names in left_out and c.name in frame]
    if not links:
        return frame
    return frame.assign(**{link: pd.array([pd.NA] * len(frame), dtype="Int64") for link in links})


def merge_stacks(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """One stack table of two whose stacks have different ids."""
    texts = [name for name, dtype in first.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]
    plain = dict.fromkeys(texts, object)
    joined = pd.concat([first.astype(plain), second.astype(plain)], ignore_index=True)
    return joined.astype(dict.fromkeys(texts, "category"))


#: Categories of rows on a device. Only the first three are work. The times of ``cuda_profiler_range`` are not those of
#: the kernels whose counters they hold.
GPU_CATEGORIES: Final = frozenset(
    {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "cuda_profiler_range"}
)

#: Kineto's categories of the work of other devices, and the category that it has in a Trace.
WORK_ELSEWHERE: Final = {"mtia_ccp_events": "kernel"}

#: Categories of work that a GPU did; annotations, syncs and overhead are not work.
GPU_ACTIVITIES: Final = ("kernel", "gpu_memcpy", "gpu_memset")

#: Kineto's name of each kind of overhead (CUpti_ActivityOverheadKind). Source: ``overheadKindString`` in
#: libkineto/src/cupti_strings.cpp of pytorch/kineto.
OVERHEAD_KINDS: Final = {
    1: "Driver Compiler",
    1 << 16: "Buffer Flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource",
    4 << 16: "Runtime Triggered Module Loading",
    5 << 16: "Lazy Function Loading",
    6 << 16: "Command Buffer Full",
    7 << 16: "Activity Buffer Request",
    8 << 16: "UVM Activity Init",
}

#: Categories of the host calls that launch device work.
RUNTIME_CATEGORIES: Final = (
    "cuda_runtime",
    "cuda_driver",
    "xpu_runtime",
    "xpu_driver",
    "mtia_runtime",
    "hip_runtime",
    "hip_driver",
    "glow_runtime",
    "privateuse1_runtime",
    "privateuse1_driver",
)

STEP_PREFIX: Final = "ProfilerStep#"

#: The range around the call without a graph and the comparison that ``cudagraph(check=True)`` adds to a replay.
REPLAY_CHECK: Final = "cudalens: check of a replay"

_LINKS: Final = frozenset({"parent", "depth", "self_dur", "launch", "forward", "step"})


@dataclass
class RawRows:
    """What a collector found, before frames are built from it.

    Attributes:
        events: Raw columns of the events, for `build_events`; each of length n.
        async_mask: True for host rows that began and ended on different threads, shape (n,); None if there are none.
        memory: Raw columns of the allocator's actions, for `build_memory`; None if none were recorded.
        parent: The row that encloses each host row, -1 for none, shape (n,), if known more exactly than by times.
    """

    events: dict[str, Any]
    async_mask: Bools | None = None
    memory: dict[str, Any] | None = None
    parent: Ints | None = None


def build_events(
    columns: Mapping[str, Any],
    *,
    async_mask: Bools | None = None,
    parent: Ints | None = None,
    thread_numbers: Mapping[int, int] | None = None,
    consume: bool = False,
) -> pd.DataFrame:
    """Return the events frame from raw columns.

    Args:
        columns: At least ``ts``, ``dur``, ``name``, ``cat``; each an array of the catalog's dtype, length n, in any
            order of rows. Absent columns are missing. ``parent``, ``depth``, ``self_dur``, ``launch``, ``forward`` and
            ``step`` are always computed here.
        async_mask: True for host rows that started and ended on different threads. They are in no call tree and have no
            self time, since no thread was busy with them throughout.
        parent: Number of the row, in the order given, that encloses each row, -1 for none; it begins no later, ends no
            earlier and comes before it. Default: computed from the times.
        thread_numbers: torch's own id of each host thread by tid, as in ``fwd_tid``. Default: inferred from the rows.
        consume: Whether `columns`, a dict, is emptied on the way, so that no column is in memory twice.

    Returns:
        The frame, rows sorted by (ts, longest first), with the catalog's columns and dtypes.
    """
    order = tree.sort_order(np.asarray(columns["ts"], np.int64), np.asarray(columns["dur"], np.int64))
    arrays = _sorted_columns("events", columns if consume else dict(columns), order, _LINKS)
    if async_mask is not None:
        async_mask = async_mask[order]
    arrays |= _links(arrays, async_mask, None if parent is None else _reordered(parent, order))
    arrays["forward"] = masked(forward_rows(arrays, thread_numbers))
    return frame_of("events", arrays)


def build_memory(columns: Mapping[str, Any], events: pd.DataFrame) -> pd.DataFrame:
    """Return the memory frame from raw columns (at least ``ts``, ``action``, ``num_bytes``), sorted by ts.

    ``event`` is the row of the innermost host event of `events` that was running on the same thread.
    """
    order = np.argsort(np.asarray(columns["ts"], np.int64), kind="stable").astype(np.int64, copy=False)
    arrays = _sorted_columns("memory", dict(columns), order, {"event"})
    arrays["event"] = masked(innermost_event(events, arrays["ts"], arrays["pid"], arrays["tid"]))
    return frame_of("memory", arrays)


def _sorted_columns(frame: str, columns: Any, order: Ints, without: Any) -> dict[str, Any]:
    """The catalog's columns of `frame` in another order of rows, but for those in `without`; empties `columns`."""
    is_sorted = bool((order[1:] > order[:-1]).all())
    return {
        c.name: _column(c, columns.pop(c.name, None), order, is_sorted)
        for c in columns_of(frame)
        if c.name not in without
    }


def _reordered(parent: Ints, order: Ints) -> Ints:
    """Parents as row numbers after reordering the rows."""
    place = np.empty(len(order) + 1, np.int64)
    place[order] = np.arange(len(order))
    place[-1] = -1
    return place.take(parent.take(order))


def innermost_event(events: pd.DataFrame, ts: Ints, pid: Any, tid: Any) -> Ints:
    """Row of the innermost host event that was running at each instant of a thread, -1 for none.

    The instants are put into the call tree as zero-length events, which enclose nothing.
    """
    if not len(ts):
        return np.empty(0, np.int64)
    is_host = events["device"].isna().to_numpy() & ~events["is_instant"].to_numpy()
    rows = np.flatnonzero(is_host)
    # In each of these arrays: the host events, then the instants.
    start = np.concatenate([events["ts"].to_numpy()[rows], ts])
    length = np.concatenate([events["dur"].to_numpy()[rows], np.zeros(len(ts), np.int64)])
    process = np.concatenate([_key(events["pid"])[rows], _key(pid)])
    thread = combined(process, np.concatenate([_key(events["tid"])[rows], _key(tid)]))

    order = tree.sort_order(start, length)
    parent = tree.parents(start[order], length[order], thread[order])  # as places in the order
    enclosing = np.full(len(start), -1, np.int64)
    # An index of -1 takes the last element: the -1 that is appended keeps "none" as -1.
    enclosing[order] = np.append(order, -1)[parent]
    return np.append(rows, -1)[enclosing[len(rows) :]]


def _column(column: Column, value: Any, order: Ints, is_sorted: bool) -> Any:
    if value is None:
        return missing_array(column.dtype, len(order))
    if column.dtype == "category":
        value = value if isinstance(value, pd.Categorical) else pd.Categorical(value)
        text = pd.Index([], dtype="str").dtype  # of the categories, also if there are none
        value = value if value.categories.dtype == text else value.rename_categories(value.categories.astype(text))
    elif column.dtype in ("int64", "bool"):
        value = np.asarray(value, column.dtype)
    elif str(getattr(value, "dtype", "")) != column.dtype:
        value = pd.array(value, dtype=column.dtype)
    return value if is_sorted else value.take(order)


def _key(values: Any) -> Ints:
    """Return a nullable integer column as keys to compare: the smallest int64 for what is missing."""
    return integers(values, np.iinfo(np.int64).min)


def _links(arrays: Mapping[str, Any], async_mask: Bools | None, parent: Ints | None) -> dict[str, Any]:
    if parent is None:
        # Lane of each host row; -1 for device rows, instants and asynchronous ranges, which are in no call tree.
        thread = arrays["thread"].codes.astype(np.int64)
        labelled = np.where(np.asarray(arrays["tid"].isna()), thread, -1)
        lane = combined(_key(arrays["pid"]), _key(arrays["tid"]), labelled)
        lane[~np.asarray(arrays["device"].isna())] = -1
        lane[is_category(arrays["cat"], {"Trace", "overhead"})] = -1
        if async_mask is not None:
            lane[async_mask] = -1
        lane[arrays["is_instant"]] = -1
        parent = tree.parents(arrays["ts"], arrays["dur"], lane)
    launch = _launches(arrays)
    self_dur = tree.self_durations(arrays["dur"], parent)
    if async_mask is not None:
        self_dur[async_mask] = 0
    return {
        "parent": masked(parent),
        "depth": tree.depths(parent),
        "self_dur": self_dur,
        "launch": masked(launch),
        "step": masked(_steps(arrays, launch)),
    }


def _launches(arrays: Mapping[str, Any]) -> Ints:
    """Row of the runtime or driver call with the same correlation id, for each device row; -1 for none.

    The first call in time wins if a driver call repeats the runtime call's id. Tools write 0 for an unknown id: if
    several calls have id 0, their work is not linked.
    """
    known = ~np.asarray(arrays["correlation_id"].isna())
    ids = _key(arrays["correlation_id"])
    is_call = is_category(arrays["cat"], RUNTIME_CATEGORIES)
    if np.count_nonzero(is_call & (ids == 0)) > 1:
        known &= ids != 0
    calls = np.flatnonzero(known & is_call)
    work = np.flatnonzero(known & is_category(arrays["cat"], GPU_CATEGORIES))
    launch = np.full(len(known), -1, np.int64)
    launch[work] = np.append(calls, -1)[positions(ids[calls], ids[work])]
    return launch


def _steps(arrays: Mapping[str, Any], launch: Ints) -> Ints:
    """Profiler step of each row, -1 for none: that of the step range around its start, or its launch's."""
    ts = arrays["ts"]
    rows = np.flatnonzero(has_prefix(arrays["name"], STEP_PREFIX) & np.asarray(arrays["device"].isna()))
    number = map_texts(arrays["name"][rows], _step_number, -1)
    rows, number = rows[number >= 0], number[number >= 0]
    step = np.full(len(ts), -1, np.int64)
    if len(rows):
        at = np.searchsorted(ts[rows], ts, side="right") - 1
        inside = (at >= 0) & (ts < (ts[rows] + arrays["dur"][rows])[at])
        step[inside] = number[at[inside]]
        launched = launch >= 0
        step[launched] = step[launch[launched]]
    return step


def _step_number(name: str) -> int:
    tail = name.removeprefix(STEP_PREFIX)
    return int(tail) if tail != name and tail.isascii() and tail.isdigit() and len(tail) < 19 else -1


def forward_rows(arrays: Mapping[str, Any], thread_numbers: Mapping[int, int] | None = None) -> Ints:
    """Row of the forward operator of each backward row.

    autograd numbers the nodes that a thread creates, and torch records with each operator the number of its thread's
    next node. A backward function has its node's number and torch's id of the thread that created it. Among the rows of
    that thread and number, the node's creator is the last to start: rows around it, and rows before it that created no
    node, began earlier. Kineto uses the same rule for its "fwdbwd" flows (torch/csrc/profiler/collection.cpp,
    ``generateForwardBackwardLink``); it draws one arrow for each number, here every backward row gets its forward row.

    Args:
        arrays: Columns of the events in order of start, each of shape (n,): ``pid``, ``tid``, ``sequence_nr`` and
            ``fwd_tid``.
        thread_numbers: torch's own id of each host thread by tid, as in ``fwd_tid``. Default, as for files: each id is
            the thread whose forward rows match the most backward rows with that id.

    Returns:
        Row numbers, -1 for none, shape (n,).
    """
    n = len(arrays["sequence_nr"])
    result = np.full(n, -1, np.int64)
    has_number = ~np.asarray(arrays["sequence_nr"].isna())
    if not has_number.any():
        return result
    forward_thread = integers(arrays["fwd_tid"], 0)
    backward = np.flatnonzero(has_number & (forward_thread > 0))
    forward = np.flatnonzero(has_number & (forward_thread <= 0) & ~np.asarray(arrays["tid"].isna()))
    if not len(backward) or not len(forward):
        return result
    number, pid, tid = (integers(arrays[name]) for name in ("sequence_nr", "pid", "tid"))
    threads = _Threads(forward, backward, number, pid, tid, forward_thread)
    lane = threads.by_number(thread_numbers) if thread_numbers is not None else threads.by_fit()
    known = lane >= 0
    result[backward[known]] = _last_before(
        forward, threads.of_forward, number[forward], backward[known], lane[known], number[backward[known]], n
    )
    return result


def _last_before(
    rows: Ints, lane: Ints, number: Ints, asked: Ints, asked_lane: Ints, asked_number: Ints, n: int
) -> Ints:
    """For each asked row, the last of `rows` before it with the same lane and number, -1 for none.

    Lane, number and row are put into one key, so that the rows of a lane and number are neighbours in the order of the
    keys, and a binary search finds the last one before the asked row. `n` is above every row.
    """
    both = combined(np.concatenate([lane, asked_lane]), np.concatenate([number, asked_number]))
    key = both[: len(rows)] * n + rows
    key.sort()
    wanted = both[len(rows) :] * n + asked
    at = np.searchsorted(key, wanted) - 1
    found = key[np.maximum(at, 0)]
    hit = (at >= 0) & (found // n == wanted // n)
    return np.where(hit, found % n, -1)


class _Threads:
    """The host threads of the forward rows, and the thread of each backward row's forward operator.

    Attributes:
        of_forward: Number of the (process, thread) of each forward row.
    """

    def __init__(self, forward: Ints, backward: Ints, number: Ints, pid: Ints, tid: Ints, named: Ints) -> None:
        self._forward, self._backward = forward, backward
        self._number, self._pid, self._tid = number, pid, tid
        self._named = named[backward]
        self.of_forward = combined(pid[forward], tid[forward])

    def by_number(self, thread_numbers: Mapping[int, int]) -> Ints:
        """Thread of each backward row by torch's thread ids; -1 if that thread has no forward rows."""
        first = pd.Series(self.of_forward).drop_duplicates().index.to_numpy()
        lane_of = {}
        for at in first.tolist():
            row = self._forward[at]
            torch_number = thread_numbers.get(int(self._tid[row]))
            lane_of[int(self._pid[row]), torch_number] = int(self.of_forward[at])
        return self._look_up(lane_of)

    def by_fit(self) -> Ints:
        """Thread of each backward row by the most matching sequence numbers; -1 if several match equally well.

        A thread has one id: the pair with the most matches is taken first, and its thread is then excluded.
        """
        lane_of: dict[tuple[int, int | None], int] = {}
        taken: set[int] = set()
        fits = self._fits()
        while fits:
            best = max(fits.values())
            leaders = [pair for pair, fit in fits.items() if fit == best]
            num_leaders = Counter((pid, named) for pid, named, _ in leaders)
            for pid, named, lane in leaders:
                if num_leaders[pid, named] == 1 and lane not in taken:  # several leaders: the thread stays unknown
                    lane_of[pid, named] = lane
                    taken.add(lane)
            fits = {pair: fit for pair, fit in fits.items() if pair[:2] not in num_leaders and pair[2] not in taken}
        return self._look_up(lane_of)

    def _fits(self) -> dict[tuple[int, int, int], int]:
        """Return how many backward numbers of each (process, id) the forward rows of each thread have."""
        forward = pd.DataFrame(
            {
                "pid": self._pid[self._forward],
                "number": self._number[self._forward],
                "lane": self.of_forward,
                "first": self._forward,
            }
        )
        backward = pd.DataFrame(
            {
                "pid": self._pid[self._backward],
                "number": self._number[self._backward],
                "named": self._named,
                "last": self._backward,
            }
        )
        # A number counts once for each thread and id, if any forward row with it is before any backward row.
        forward = forward.drop_duplicates(["pid", "number", "lane"])
        backward = backward.drop_duplicates(["pid", "number", "named"], keep="last")
        both = forward.merge(backward, on=["pid", "number"])
        both = both[both["first"] < both["last"]]
        counts = both.groupby(["pid", "named", "lane"]).size()
        return {(int(p), int(i), int(lane)): int(count) for (p, i, lane), count in counts.items()}

    def _look_up(self, lane_of: dict[tuple[int, int | None], int]) -> Ints:
        """Lane of each backward row by its process and torch's thread id; each distinct pair is looked up once."""
        pairs = combined(self._pid[self._backward], self._named)
        first = pd.Series(pairs).drop_duplicates().index.to_numpy()
        of_code = np.array(
            [lane_of.get((int(self._pid[self._backward[at]]), int(self._named[at])), -1) for at in first], np.int64
        )
        return of_code[pairs]


_LIMIT = 1 << 62


class CounterValues:
    """Collects values of counters."""

    def __init__(self) -> None:
        self._ts, self._values, self._codes = array("q"), array("d"), array("q")
        self._code_of: dict[tuple[str, str | None, str | None, str | None], int] = {}

    def __len__(self) -> int:
        return len(self._ts)

    def add(
        self,
        ts: int,
        name: str,
        value: Any,
        *,
        series: str | None = None,
        process: str | None = None,
        unit: str | None = None,
    ) -> bool:
        """Keep one value; return False and keep nothing if it is not a number or its time is out of range."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not -_LIMIT < ts < _LIMIT:
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        self._ts.append(ts)
        self._values.append(number if math.isfinite(number) else math.nan)
        self._codes.append(self._code_of.setdefault((name, series, process, unit), len(self._code_of)))
        return True

    def to_frame(self, base: int = 0) -> pd.DataFrame:
        """Return the frame, by time; `base`, in ns, is added to the times."""
        if not self._ts:
            return empty_frame("counters")
        ts = np.array(self._ts, np.int64)
        order = np.argsort(ts, kind="stable")
        values = np.array(self._values, np.float64)[order]
        unknown = np.isnan(values)
        codes = np.array(self._codes, np.int64)[order]
        texts = dict(zip(("name", "series", "process", "unit"), zip(*self._code_of, strict=True), strict=True))
        arrays: dict[str, Any] = {name: text_column(column).take(codes) for name, column in texts.items()}
        arrays["ts"] = ts[order] + base
        arrays["value"] = pd.arrays.FloatingArray(np.where(unknown, 0, values), unknown)
        return frame_of("counters", {c.name: arrays[c.name] for c in columns_of("counters")})


#: Longest note that is kept, in characters.
MAX_NOTE = 500


def marks_frame(rows: Iterable[tuple[int, int, str]]) -> pd.DataFrame:
    """Return the marks `rows`, each a start in ns, a length in ns and a note, by time."""
    ordered = sorted(rows, key=lambda row: row[:2])
    ts, dur = (np.array([row[k] for row in ordered], np.int64) for k in (0, 1))
    notes = pd.Categorical([row[2][:MAX_NOTE].encode("utf-8", "replace").decode() for row in ordered])
    return check_frame("marks", pd.DataFrame({"ts": ts, "dur": dur, "note": notes}))


def metrics_frame(readings: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Return the frame ``metrics``.

    Args:
        readings: By column of the catalog, a value per reading, None if unknown; absent columns are missing. In any
            order.

    Returns:
        The frame, in order of time, then of the device's number.
    """
    arrays = {c.name: column_array(readings[c.name], c.dtype) for c in columns_of("metrics") if c.name in readings}
    return frame_of("metrics", arrays).sort_values(["ts", "physical_index"], kind="stable", ignore_index=True)
