"""Idle time: the gaps in a device's or stream's work and their causes.

Here each gap is a row, and its cause is its longest part. `cudalens.analysis.findings.idle_attribution` is about the
gaps that the host caused: it gives each part of their time a reason, and sums the parts for findings.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from cudalens.analysis.cached import ranked
from cudalens.analysis.event_arrays import nearest_of, running_at
from cudalens.analysis.time.groups import Intervals, Lanes, measured, numbered, quantiles, share, subtract, sums, union
from cudalens.analysis.time.work import Work, device_work
from cudalens.errors import invalid_choice
from cudalens.frames import RUNTIME_CATEGORIES, Trace, categorical, is_category
from cudalens.frames.column_arrays import Bools, Ints, combined, integers, map_texts, masked

#: Python calls outside the user's code.
_NOT_USERS: Final = re.compile(
    r"^(?:torch[/\\]|<built-in |<frozen |nn\.Module: |\[)|[/\\](?:site|dist)-packages[/\\]|[/\\]torch[/\\]"
    r"|(?:^|[/\\])(?:contextlib|functools|threading)\.py"
)

_SYNCHRONIZE: Final = re.compile(r"^(?:cuda|cu|hip)\w*Synchronize(?:_\w+)?$")


class Host:
    """Lookups in the host's threads of a Trace."""

    def __init__(self, trace: Trace) -> None:
        events = trace.events
        self.ts = events["ts"].to_numpy()
        self.end = self.ts + events["dur"].to_numpy()
        self.parent = integers(events["parent"])
        self.pid, self.tid = integers(events["pid"]), integers(events["tid"])
        cat = events["cat"].array
        self.is_op = is_category(cat, ("cpu_op",))
        self.is_call = is_category(cat, RUNTIME_CATEGORIES)
        self.name, self.module = events["name"].array, events["module"].array
        is_python = is_category(cat, ("python_function",))
        self.is_users_line = is_python & map_texts(self.name, lambda text: _NOT_USERS.search(text) is None, False)
        self._in_tree = events["device"].isna().to_numpy() & ~events["is_instant"].to_numpy()
        self._in_tree &= ~is_category(cat, ("Trace", "overhead"))
        self.thread = combined(self.pid, self.tid)

    def innermost(self, thread: Ints, at: Ints) -> Ints:
        """Row of the innermost event that was running on each thread at each time, -1 for none; shape (m,).

        The last event that started before, or the nearest one around it that had not ended.
        """
        rows, keys, stride = self._by_thread
        # Rows are in order of start: the number of rows that started before a time replaces the time.
        key = thread * stride + np.searchsorted(self.ts, at, side="right")
        place = np.searchsorted(keys, key, side="left") - 1
        if not len(rows):
            return np.full(len(at), -1, np.int64)
        last = rows[np.maximum(place, 0)]
        is_there = (place >= 0) & (self.thread[last] == thread)
        return running_at(np.where(is_there, last, -1), at, self.end, self.parent)

    @cached_property
    def _by_thread(self) -> tuple[Ints, Ints, int]:
        """Rows of the call tree by thread and start, an ascending key for each, and the distance of threads in it."""
        rows = np.flatnonzero(self._in_tree)
        rows = rows[np.argsort(self.thread[rows].astype(np.int32), kind="stable")]
        stride = len(self.ts) + 1
        return rows, self.thread[rows] * stride + rows, stride

    def around(self, rows: Ints, flags: Bools) -> Ints:
        """Return the nearest flagged row at or around each row; -1 for none. Shape (m,)."""
        return nearest_of(rows, flags, self.parent)


class Waits(NamedTuple):
    """Waits of the host for a device, by start; arrays of shape (n,).

    Attributes:
        start: Start, ns.
        end: End, ns.
        pid: Process, -1 if not recorded.
        event: Row of the call that waited, -1 if not recorded.
    """

    start: Ints
    end: Ints
    pid: Ints
    event: Ints


def waits_of(trace: Trace, host: Host) -> Waits:
    """The waits of ``trace.syncs`` with a known end, and every runtime call that is a wait by its name."""
    syncs = trace.syncs
    syncs = syncs[syncs["dur"].notna()]
    is_wait = map_texts(host.name, lambda text: _SYNCHRONIZE.match(text) is not None, False)
    calls = np.flatnonzero(is_wait & host.is_call)
    start = np.concatenate([syncs["ts"].to_numpy(np.int64), host.ts[calls]])
    dur = np.concatenate([integers(syncs["dur"]), (host.end - host.ts)[calls]])
    pid = np.concatenate([integers(syncs["pid"]), host.pid[calls]])
    event = np.concatenate([integers(syncs["event"]), calls])
    order = np.lexsort((dur, start))
    return Waits(start[order], (start + dur)[order], pid[order], event[order])


def texts(values: pd.Categorical, rows: Ints) -> pd.Categorical:
    """Return the text of each row, missing for row -1; without unused categories."""
    return values.take(rows, allow_fill=True).remove_unused_categories()


_WAIT: Final = re.compile(r"^(?:cuda|cu|hip)StreamWaitEvent(?:_\w+)?$")


def is_made_to_wait(trace: Trace, work: Work, host: Host, pieces: Ints) -> Bools:
    """Return whether the stream of each piece has to wait for an event since the previous launch on it.

    That is: whether its launching thread called ``…StreamWaitEvent`` between that thread's previous launch on the same
    stream and this one. The stream is that of the call's ``Stream Wait Event`` row; without such a row, any stream.

    Args:
        trace: The Trace.
        work: All its device work.
        host: Its host.
        pieces: Positions in `work`, shape (m,).
    """
    is_wait = map_texts(host.name, lambda text: _WAIT.match(text) is not None, False)
    calls = np.flatnonzero(is_wait & host.is_call)
    call = work.launch[pieces]
    if not len(calls) or not len(pieces):
        return np.zeros(len(pieces), bool)
    device, stream = _waiting_streams(trace, host, calls)
    launched = np.flatnonzero(work.launch >= 0)
    keys = combined(
        np.concatenate([host.thread[work.launch[launched]], host.thread[calls], host.thread[call]]),
        np.concatenate([work.device[launched], device, work.device[pieces]]),
        np.concatenate([work.stream[launched], stream, work.stream[pieces]]),
    )
    of_work, of_calls, of_pieces = np.split(keys, [len(launched), len(launched) + len(calls)])
    on_stream = _last_before(of_calls, calls, of_pieces, call)
    unknown = calls[stream < 0]
    on_any = _last_before(host.thread[unknown], unknown, host.thread[call], call)
    before = _last_before(of_work, work.launch[launched], of_pieces, call)
    return (call >= 0) & (np.maximum(on_stream, on_any) > before)


def _waiting_streams(trace: Trace, host: Host, calls: Ints) -> tuple[Ints, Ints]:
    """Device and stream that each call made to wait, by the sync rows; -1 if unknown."""
    events = trace.events
    device, stream = (np.full(len(host.ts) + 1, -1, np.int64) for _ in range(2))
    launch = integers(events["launch"])
    marks = np.flatnonzero(is_category(events["cat"].array, ("cuda_sync",)) & (launch >= 0))
    device[launch[marks]], stream[launch[marks]] = integers(events["device"])[marks], integers(events["stream"])[marks]
    return device[calls], stream[calls]


def _last_before(lane: Ints, row: Ints, asked_lane: Ints, asked_row: Ints) -> Ints:
    """Return the last row of each asked lane before the asked row, -1 for none."""
    stride = max(int(row.max(initial=0)), int(asked_row.max(initial=0))) + 1
    keys = np.sort(lane * stride + row)
    place = np.searchsorted(keys, asked_lane * stride + np.maximum(asked_row, 0), side="left") - 1
    found = keys[np.maximum(place, 0)] if len(keys) else np.full(len(asked_lane), -1)
    return np.where((place >= 0) & (found // stride == asked_lane), found % stride, -1)


By = Literal["device", "stream"]

#: Causes of idle time; of equally long parts the first is the cause.
CAUSES: Final = ("host", "sync", "launch", "dependency", "unknown")


class _Gaps(NamedTuple):
    """Gaps; arrays of shape (n,): group, start and end in ns, positions in the work before and after."""

    group: Ints
    start: Ints
    end: Ints
    previous: Ints
    next: Ints


@ranked
def idle_time(trace: Trace, by: By = "device", *, min_ns: int = 0, step: int | None = None) -> pd.DataFrame:
    """Return every gap in the work of each device or stream, with its cause and the evidence for it.

    A gap is a maximal interval between the first start and the last end of a group's work (kernels, copies, sets) in
    which none of it ran. The gaps of a device add up to the ``idle_ns`` of `temporal_breakdown` of that device. Work of
    zero duration does not end a gap.

    The *next work* is the first to start at the end of a gap. The gap is divided into parts by its launch call. They
    add up to the gap exactly:

    - until the start of that call the host had not launched it. ``sync_ns``: the part of it that the host lost by
      waiting: the whole length of the waits (``trace.syncs``, and calls named ``…Synchronize``, of any thread of the
      calling process) that ran at the start of the gap or started before the call, limited to this part. Without
      waiting, the call would have come earlier by that time. ``host_ns``: the rest, in which the host was busy.
    - after that, if the call had not returned at the start of the gap: ``launch_ns``, the latency of the launch. If the
      stream had to wait for an event since its last launch (``…StreamWaitEvent`` on the same thread; for this stream,
      if a ``Stream Wait Event`` row has it), the part until the last end of other work in the gap is ``dependency_ns``.
    - if the call had returned before the gap, the whole gap is ``dependency_ns``: the work was in its queue and waited
      for other work, on its own stream or, through events, on others.
    - if no launch is recorded, or it starts after the work (clocks differ), the whole gap is ``unknown_ns``.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        by: ``"device"``: gaps in the work of all streams of a device together; ``"stream"``: of each stream.
        min_ns: Leave out shorter gaps.
        step: Only gaps whose next work this profiler step launched.

    Returns:
        A row per gap, in order of ``device``, ``stream`` and time; empty without device work. Columns:

        - ``device``, ``stream`` of the gap (Int64; ``stream`` is ``<NA>`` for ``by="device"``). ``ts``,
          ``gap_ns``: its start and length (int64 ns). ``step``: of the next work (Int64).
        - ``cause`` (category): the longest part: host, sync, launch, dependency, unknown; the first of equal ones.
        - ``host_ns``, ``sync_ns``, ``launch_ns``, ``dependency_ns``, ``unknown_ns``: the parts (int64).
        - rows of ``trace.events`` (Int64): ``previous``, work that ended at the start of the gap; ``next``, the next
          work; ``launch``, its call, ``<NA>`` if not recorded; ``sync``, the call in which a thread of that process
          waited at the start of the gap (so that nothing could be queued), else the last wait before ``launch`` in the
          gap; ``host``, if ``host_ns`` is not 0, the innermost event of the launching thread in the middle of the time
          from the last such wait to that call; ``waited_for``, of a gap with ``dependency_ns``: the work that ended
          last before the next work started, on any stream.
        - ``host_op``: the operator at or around ``host``; ``host_module``, its nn.Module; ``host_line``: the nearest
          recorded Python function there outside torch and libraries; ``next_op``: the operator that launched the next
          work. (category; ``<NA>`` if none is recorded: outside operators, or without stacks or modules)

    HolisticTraceAnalysis has three causes per stream: host wait, if the next kernel's call started after the previous
    kernel ended (here ``host_ns + sync_ns > 0``); kernel wait, if the gap is shorter than 30 ns; and other. It has a
    gap between every two consecutive kernels, even if a third one was running.

    Raises:
        ValueError: `by` is unknown.
    """
    return _explained(trace, Host(trace), by, min_ns, step)


def _explained(trace: Trace, host: Host, by: By, min_ns: int, step: int | None) -> pd.DataFrame:
    if by not in get_args(By):
        raise invalid_choice("by", by, get_args(By))
    work = device_work(trace)
    group, keys = numbered({name: getattr(work, name) for name in ("device", "stream")[: 1 + (by == "stream")]})
    gaps = _gaps(work, group, len(keys))
    steps = integers(trace.events["step"])[work.rows[gaps.next]]
    keep = gaps.end - gaps.start >= min_ns
    keep &= True if step is None else steps == step
    gaps = _Gaps(*(array[keep] for array in gaps))
    explained = _Explained(trace, host, work, gaps)
    ids = {name: masked(keys[name].to_numpy()[gaps.group]) for name in keys}
    ids.setdefault("stream", masked(np.full(len(gaps.group), -1)))
    return pd.DataFrame({**ids, "ts": gaps.start, "gap_ns": gaps.end - gaps.start, **explained.columns(steps[keep])})


def _gaps(work: Work, group: Ints, num_groups: int) -> _Gaps:
    lanes = Lanes(work.start, work.end, group, num_groups)
    by_start = np.argsort(lanes.start, kind="stable")
    by_end = np.argsort(lanes.end, kind="stable")
    gaps = subtract(_spans(lanes, group), lanes.union())
    following = by_start[np.searchsorted(lanes.start[by_start], gaps.end, side="left")]
    preceding = by_end[np.searchsorted(lanes.end[by_end], gaps.start, side="right") - 1]
    return _Gaps(lanes.groups(gaps.start), lanes.times(gaps.start), lanes.times(gaps.end), preceding, following)


def _spans(lanes: Lanes, group: Ints) -> Intervals:
    first = np.full(lanes.num_groups, np.iinfo(np.int64).max)
    last = np.full(lanes.num_groups, np.iinfo(np.int64).min)
    np.minimum.at(first, group, lanes.start)
    np.maximum.at(last, group, lanes.end)
    return union(first, last)


class _Explained:
    """The parts of gaps and their evidence."""

    def __init__(self, trace: Trace, host: Host, work: Work, gaps: _Gaps) -> None:
        self._work, self._gaps, self._host = work, gaps, host
        self._call = work.launch[gaps.next]
        begun = host.ts[self._call] if len(host.ts) else gaps.end
        self._is_known = (self._call >= 0) & (begun <= gaps.end)
        self._begun = np.clip(begun, gaps.start, gaps.end)
        is_queued = host.end[self._call] <= gaps.start if len(host.ts) else np.zeros(0, bool)
        self._waits = waits_of(trace, host)
        # Position of the work that ended last before each gap's end, on any stream.
        by_end = np.argsort(self._work.end, kind="stable")
        self._last = by_end[np.searchsorted(self._work.end[by_end], self._gaps.end, side="right") - 1]
        # Time from which each gap's next work no longer waits for other work; within the call's start and the gap.
        ended = np.clip(self._work.end[self._last], self._begun, self._gaps.end)
        waits = is_made_to_wait(trace, self._work, self._host, self._gaps.next)
        self._until = np.where(is_queued, self._gaps.end, np.where(waits, ended, self._begun))

    def columns(self, steps: Ints) -> dict[str, Any]:
        """Return all columns except device, stream and time."""
        parts = self._parts()
        longest = np.argmax(np.stack([parts[f"{cause}_ns"] for cause in CAUSES]), axis=0)
        work, gaps, host = self._work, self._gaps, self._host
        sync, free_from = self._syncs()
        at = self._inside((free_from + self._begun) // 2, parts["host_ns"] > 0)
        op, line = host.around(at, host.is_op), host.around(at, host.is_users_line)
        module = host.around(at, host.module.codes >= 0)
        launched_by = host.around(np.where(self._is_known, self._call, -1), host.is_op)
        waited_for = np.where(parts["dependency_ns"] > 0, work.rows[self._last], -1)
        rows = {
            "previous": work.rows[gaps.previous],
            "next": work.rows[gaps.next],
            "launch": self._call,
            "sync": sync,
            "host": at,
            "waited_for": waited_for,
        }
        return {
            "step": masked(steps),
            "cause": categorical(longest.astype(np.int8), list(CAUSES)),
            **parts,
            **{name: masked(values) for name, values in rows.items()},
            "host_op": texts(host.name, op),
            "host_module": texts(host.module, module),
            "host_line": texts(host.name, line),
            "next_op": texts(host.name, launched_by),
        }

    def _parts(self) -> dict[str, Ints]:
        gaps, is_known = self._gaps, self._is_known
        waited = self._waited()
        parts = {
            "host_ns": self._begun - gaps.start - waited,
            "sync_ns": waited,
            "launch_ns": gaps.end - self._until,
            "dependency_ns": self._until - self._begun,
        }
        parts = {name: np.where(is_known, part, 0) for name, part in parts.items()}
        return parts | {"unknown_ns": np.where(is_known, 0, gaps.end - gaps.start)}

    def _waited(self) -> Ints:
        """Return the delay of the calling process by waiting for a device: whole waits, limited to the gap."""
        waited = np.zeros(len(self._call), np.int64)
        for pid, mine in self._by_process():
            waits = union(self._waits.start[self._waits.pid == pid], self._waits.end[self._waits.pid == pid])
            start, until = self._gaps.start[mine], self._begun[mine]
            begin = start
            if len(waits.start):  # from the start of the wait around it, if there is one
                place = np.searchsorted(waits.start, start, side="right") - 1
                begin = np.where((place >= 0) & (waits.end[place] > start), waits.start[place], start)
            lost = _covered(waits, until) - _covered(waits, begin)
            waited[mine] = np.where(until > start, np.minimum(lost, until - start), 0)
        return waited

    def _by_process(self) -> list[tuple[int, Ints]]:
        pids = np.where(self._is_known, self._host.pid[self._call], -1) if len(self._host.pid) else self._call
        return [(int(pid), np.flatnonzero(pids == pid)) for pid in np.unique(pids) if pid >= 0]

    def _syncs(self) -> tuple[Ints, Ints]:
        """Return the call in which the process waited in each gap, -1 for none; and the end of its last wait."""
        sync, free_from = np.full(len(self._call), -1, np.int64), self._gaps.start.copy()
        for pid, mine in self._by_process():
            waits = Waits(*(array[self._waits.pid == pid] for array in self._waits))
            if not len(waits.start):
                continue
            began = np.searchsorted(waits.start, self._gaps.start[mine], side="right") - 1
            last = np.searchsorted(waits.start, self._begun[mine], side="left") - 1
            of_begin = (began >= 0) & (waits.end[began] > self._gaps.start[mine])
            of_gap = (last >= 0) & (waits.end[last] > self._gaps.start[mine])
            sync[mine] = np.where(of_begin, waits.event[began], np.where(of_gap, waits.event[last], -1))
            over = np.where(last >= 0, waits.end[last], self._gaps.start[mine])
            free_from[mine] = np.clip(over, self._gaps.start[mine], self._begun[mine])
        return sync, free_from

    def _inside(self, at: Ints, is_asked: Bools) -> Ints:
        found = np.full(len(at), -1, np.int64)
        asked = np.flatnonzero(is_asked)
        found[asked] = self._host.innermost(self._host.thread[self._call[asked]], at[asked])
        return found


def _covered(intervals: Intervals, at: Ints) -> Ints:
    """Length of a canonical set before each time, ns."""
    if not len(intervals.start):
        return np.zeros(len(at), np.int64)
    before = np.concatenate([[0], np.cumsum(intervals.end - intervals.start)])
    place = np.searchsorted(intervals.start, at, side="right")
    last = np.maximum(place - 1, 0)
    return np.where(place > 0, before[last] + np.minimum(at, intervals.end[last]) - intervals.start[last], 0)


@ranked
def idle_causes(trace: Trace, by: By = "device", *, min_ns: int = 0, step: int | None = None) -> pd.DataFrame:
    """`idle_time` by cause.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        by: As for `idle_time`.
        min_ns: Leave out shorter gaps.
        step: Only gaps whose next work this profiler step launched.

    Returns:
        A row per ``device``, ``stream`` (Int64, ``<NA>`` for ``by="device"``) and ``cause`` (category), the largest
        part first within each; causes without time are left out. ``part_ns``: sum of this part over all gaps; the parts
        of a device add up to its gaps. ``part_pct``: of all its parts (Float64). ``num_gaps``, ``gap_ns``: the gaps
        with this cause, and their whole length (int64). ``median_gap_ns`` (Float64), ``max_gap_ns`` (Int64): of these
        gaps; ``<NA>`` for no gaps. ``top``: the source of most of ``gap_ns``, and ``top_ns``, its share: the host's
        line, else its operator (for sync: those of the wait); for other causes the operator that launched the next work
        (category, Int64; ``<NA>`` if unknown).
    """
    host = Host(trace)
    gaps = _explained(trace, host, by, min_ns, step)
    group, keys = numbered({name: integers(gaps[name]) for name in ("device", "stream")})
    n = len(keys) * len(CAUSES)
    cell = group * len(CAUSES) + gaps["cause"].cat.codes.to_numpy()
    length = gaps["gap_ns"].to_numpy()
    parts = np.stack([sums(gaps[f"{cause}_ns"].to_numpy(), group, len(keys)) for cause in CAUSES], axis=1)
    longest = np.full(n, -1, np.int64)
    np.maximum.at(longest, cell, length)
    top, top_ns = _tops(host, gaps, cell, n)
    frame = pd.DataFrame(
        {
            **{name: masked(np.repeat(keys[name].to_numpy(), len(CAUSES))) for name in keys},
            "cause": categorical(np.tile(np.arange(len(CAUSES), dtype=np.int8), len(keys)), list(CAUSES)),
            "part_ns": parts.reshape(-1),
            "part_pct": share(parts, parts.sum(axis=1, keepdims=True)).reshape(-1),
            "num_gaps": np.bincount(cell, minlength=n),
            "gap_ns": sums(length, cell, n),
            "median_gap_ns": measured(quantiles(length, cell, n, (0.5,))[0]),
            "max_gap_ns": masked(longest),
            "top": top,
            "top_ns": top_ns,
        }
    )
    frame = frame[frame["part_ns"] > 0]
    order = np.lexsort((-frame["part_ns"].to_numpy(), *(integers(frame[name]) for name in ("stream", "device"))))
    return frame.iloc[order].reset_index(drop=True)


def _tops(host: Host, gaps: pd.DataFrame, cell: Ints, n: int) -> tuple[pd.Categorical, Any]:
    """Return the label with most of the time of the gaps of each cell, and that time."""
    label = _labels(host, gaps)
    codes, names = label.codes.astype(np.int64), label.categories
    labelled = np.flatnonzero(codes >= 0)
    key = cell[labelled] * max(len(names), 1) + codes[labelled]
    pairs, pair = np.unique(key, return_inverse=True)
    total = sums(gaps["gap_ns"].to_numpy()[labelled], pair, len(pairs))
    best, most = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    order = np.argsort(total, kind="stable")  # the last one written has most
    best[pairs[order] // max(len(names), 1)] = pairs[order] % max(len(names), 1)
    most[pairs[order] // max(len(names), 1)] = total[order]
    return categorical(best, [str(name) for name in names]), masked(most)


def _labels(host: Host, gaps: pd.DataFrame) -> pd.Categorical:
    """The label of each gap: for sync and host the host's line or operator, else the operator of the next work."""
    is_sync, is_host = ((gaps["cause"] == cause).to_numpy() for cause in ("sync", "host"))
    at = np.where(is_sync, integers(gaps["sync"]), np.where(is_host, integers(gaps["host"]), -1))
    line, op = host.around(at, host.is_users_line), host.around(at, host.is_op)
    following = host.around(np.where(~is_sync & ~is_host, integers(gaps["launch"]), -1), host.is_op)
    best = np.where(line >= 0, line, np.where(op >= 0, op, np.where(is_sync, at, following)))
    return texts(host.name, best)
