"""Idle time: each gap in a device's or stream's work, what ended it, and why it was not ended sooner."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from cudalens.analysis.choices import invalid_choice
from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.groups import (
    Bools,
    Ints,
    Lanes,
    integers,
    known,
    measured,
    numbered,
    quantiles,
    share,
    sums,
)
from cudalens.analysis.time.idle_host import Host, Waits, texts, waits_of
from cudalens.analysis.time.idle_waits import is_made_to_wait
from cudalens.analysis.time.intervals import Intervals, subtract, union
from cudalens.analysis.time.work import Work, device_work
from cudalens.frames import Trace, categorical

By = Literal["device", "stream"]

#: Why a device is idle; of parts that are equally long the first is called the cause.
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
    """Every gap in the work of each device or stream, with its cause and the evidence for it.

    A gap is a longest stretch between the first start and the last end of a group's work (kernels, copies, sets) in
    which none of it ran. The gaps of a device add up to the ``idle_ns`` of `temporal_breakdown` of that device. Work
    that takes no time ends no gap.

    What ended a gap is the *next work*, the first to start at its end. Its launch call tells why it did not start
    sooner. The gap is cut into parts, which add up to it exactly:

    - up to the start of that call the host had not asked for it. ``sync_ns``: as much of that as the host had lost by
      waiting, that is, the whole length of the waits (``trace.syncs``, and calls named ``…Synchronize``, of any thread
      of the calling process) that ran when the gap began or began before the call, but no more than there was: had it
      not waited, it would have called so much earlier. ``host_ns``: the rest; the host was busy with other things.
    - from then on, if the call had not returned when the gap began: ``launch_ns``, the latency of the launch. But where
      the stream had been told since its last launch to wait for an event (``…StreamWaitEvent`` on the same thread; for
      this stream, where a ``Stream Wait Event`` row tells), the part until the last end of work elsewhere in the gap is
      ``dependency_ns``.
    - if the call had returned before the gap began, the whole gap is ``dependency_ns``: the work stood in its queue and
      waited for what is in front of it, on its own stream or, through events, on others.
    - if no launch is recorded, or it begins only after the work (clocks disagree), the whole gap is ``unknown_ns``.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        by: ``"device"``: gaps in the work of all streams of a device together; ``"stream"``: in that of each stream.
        min_ns: Leave out shorter gaps.
        step: Only gaps whose next work this profiler step launched.

    Returns:
        A row per gap, in order of ``device``, ``stream`` and time; empty where there is no device work. Columns:

        - ``device``, ``stream``: whose gap it is (Int64; ``stream`` is ``<NA>`` for ``by="device"``). ``ts``,
          ``gap_ns``: its start and length (int64 ns). ``step``: of the next work (Int64).
        - ``cause`` (category): the longest of its parts: host, sync, launch, dependency, unknown; of equals the first.
        - ``host_ns``, ``sync_ns``, ``launch_ns``, ``dependency_ns``, ``unknown_ns``: the parts (int64).
        - rows of ``trace.events`` (Int64): ``previous``, work that ended where the gap begins; ``next``, the next work;
          ``launch``, its call, ``<NA>`` where not recorded; ``sync``, the call in which a thread of that process waited
          when the gap began (so that nothing could be queued), else the last wait before ``launch`` in the gap;
          ``host``, the innermost event of the launching thread in the middle of the time from the last such wait to
          that call, where ``host_ns`` is not 0; ``waited_for``, of a gap with ``dependency_ns``: the work that ended
          last before the next began, on any stream.
        - ``host_op``: the operator at or around ``host``; ``host_module``, its nn.Module; ``host_line``: the nearest
          recorded Python function there that is not torch's or a library's; ``next_op``: the operator that launched the
          next work. (category; ``<NA>`` where none is recorded: outside of operators, or without stacks or modules)

    HolisticTraceAnalysis asks per stream whether the next kernel's call began after the kernel before it ended (host
    wait: here ``host_ns + sync_ns > 0``), else whether the gap is shorter than 30 ns (kernel wait), and calls the rest
    other. It sets a gap between every two kernels in order of start, also where a third still ran.

    Raises:
        ValueError: `by` has another value.
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
    ids = {name: known(keys[name].to_numpy()[gaps.group]) for name in keys}
    ids.setdefault("stream", known(np.full(len(gaps.group), -1)))
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
    """The parts of gaps and what speaks for them."""

    def __init__(self, trace: Trace, host: Host, work: Work, gaps: _Gaps) -> None:
        self._work, self._gaps, self._host = work, gaps, host
        self._call = work.launch[gaps.next]
        begun = host.ts[self._call] if len(host.ts) else gaps.end
        self._is_known = (self._call >= 0) & (begun <= gaps.end)
        self._begun = np.clip(begun, gaps.start, gaps.end)
        is_queued = host.end[self._call] <= gaps.start if len(host.ts) else np.zeros(0, bool)
        self._waits = waits_of(trace, host)
        self._last = self._last_ended()
        self._until = self._free_from(trace, is_queued)

    def _last_ended(self) -> Ints:
        """Position of the work that ended last before each gap's end, on any stream."""
        by_end = np.argsort(self._work.end, kind="stable")
        return by_end[np.searchsorted(self._work.end[by_end], self._gaps.end, side="right") - 1]

    def _free_from(self, trace: Trace, is_queued: Bools) -> Ints:
        """When each gap's next work no longer waited for other work; between the call's begin and the gap's end."""
        ended = np.clip(self._work.end[self._last], self._begun, self._gaps.end)
        waits = is_made_to_wait(trace, self._work, self._host, self._gaps.next)
        return np.where(is_queued, self._gaps.end, np.where(waits, ended, self._begun))

    def columns(self, steps: Ints) -> dict[str, Any]:
        """All columns but whose gap it is and when."""
        parts = self._parts()
        longest = np.argmax(np.stack([parts[f"{cause}_ns"] for cause in CAUSES]), axis=0)
        return {
            "step": known(steps),
            "cause": categorical(longest.astype(np.int8), list(CAUSES)),
            **parts,
            **self._evidence(parts),
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
        """By how much the calling process came later for waiting for a device: whole waits, but not past the gap."""
        waited = np.zeros(len(self._call), np.int64)
        for pid, mine in self._by_process():
            waits = union(self._waits.start[self._waits.pid == pid], self._waits.end[self._waits.pid == pid])
            start, until = self._gaps.start[mine], self._begun[mine]
            lost = _covered(waits, until) - _covered(waits, _begin_of(waits, start))
            waited[mine] = np.where(until > start, np.minimum(lost, until - start), 0)
        return waited

    def _by_process(self) -> list[tuple[int, Ints]]:
        pids = np.where(self._is_known, self._host.pid[self._call], -1) if len(self._host.pid) else self._call
        return [(int(pid), np.flatnonzero(pids == pid)) for pid in np.unique(pids) if pid >= 0]

    def _evidence(self, parts: dict[str, Ints]) -> dict[str, Any]:
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
        return {name: known(values) for name, values in rows.items()} | {
            "host_op": texts(host.name, op),
            "host_module": texts(host.module, module),
            "host_line": texts(host.name, line),
            "next_op": texts(host.name, launched_by),
        }

    def _syncs(self) -> tuple[Ints, Ints]:
        """The call in which the process waited in each gap, -1 for none; and when its last wait was over."""
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
    """How much of a canonical set lies before each time, ns."""
    if not len(intervals.start):
        return np.zeros(len(at), np.int64)
    before = np.concatenate([[0], np.cumsum(intervals.end - intervals.start)])
    place = np.searchsorted(intervals.start, at, side="right")
    last = np.maximum(place - 1, 0)
    return np.where(place > 0, before[last] + np.minimum(at, intervals.end[last]) - intervals.start[last], 0)


def _begin_of(intervals: Intervals, at: Ints) -> Ints:
    """The start of the interval of a canonical set that holds each time, or the time itself where none does."""
    if not len(intervals.start):
        return at
    place = np.searchsorted(intervals.start, at, side="right") - 1
    return np.where((place >= 0) & (intervals.end[place] > at), intervals.start[place], at)


@ranked
def idle_causes(trace: Trace, by: By = "device", *, min_ns: int = 0, step: int | None = None) -> pd.DataFrame:
    """`idle_time` by cause.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        by: As `idle_time` takes it.
        min_ns: Leave out shorter gaps.
        step: Only gaps whose next work this profiler step launched.

    Returns:
        A row per ``device``, ``stream`` (Int64, ``<NA>`` for ``by="device"``) and ``cause`` (category), the largest
        part first within each; causes that took no time are left out. ``part_ns``: sum of this part over all gaps; the
        parts of a device add up to its gaps. ``part_pct``: of all parts of it (Float64). ``num_gaps``, ``gap_ns``: the
        gaps whose cause it is, and their whole length. (int64) ``median_gap_ns`` (Float64), ``max_gap_ns`` (Int64): of
        these gaps; ``<NA>`` where it is the cause of none. ``top``: what most of ``gap_ns`` has in common, and
        ``top_ns``, how much: the host's line, else its operator (for sync: those of the wait); for other causes the
        operator that launched the next work (category, Int64;
        ``<NA>`` where nothing is known).
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
            **{name: known(np.repeat(keys[name].to_numpy(), len(CAUSES))) for name in keys},
            "cause": categorical(np.tile(np.arange(len(CAUSES), dtype=np.int8), len(keys)), list(CAUSES)),
            "part_ns": parts.reshape(-1),
            "part_pct": share(parts, parts.sum(axis=1, keepdims=True)).reshape(-1),
            "num_gaps": np.bincount(cell, minlength=n),
            "gap_ns": sums(length, cell, n),
            "median_gap_ns": measured(quantiles(length, cell, n, (0.5,))[0]),
            "max_gap_ns": known(longest),
            "top": top,
            "top_ns": top_ns,
        }
    )
    frame = frame[frame["part_ns"] > 0]
    order = np.lexsort((-frame["part_ns"].to_numpy(), *(integers(frame[name]) for name in ("stream", "device"))))
    return frame.iloc[order].reset_index(drop=True)


def _tops(host: Host, gaps: pd.DataFrame, cell: Ints, n: int) -> tuple[pd.Categorical, Any]:
    """What most of the time of the gaps of each cell has in common, and how much time that is."""
    label = _labels(host, gaps)
    codes, names = label.codes.astype(np.int64), label.categories
    labelled = np.flatnonzero(codes >= 0)
    key = cell[labelled] * max(len(names), 1) + codes[labelled]
    pairs, pair = np.unique(key, return_inverse=True)
    total = sums(gaps["gap_ns"].to_numpy()[labelled], pair, len(pairs))
    best, most = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    order = np.argsort(total, kind="stable")  # the last to write has most
    best[pairs[order] // max(len(names), 1)] = pairs[order] % max(len(names), 1)
    most[pairs[order] // max(len(names), 1)] = total[order]
    return categorical(best, [str(name) for name in names]), known(most)


def _labels(host: Host, gaps: pd.DataFrame) -> pd.Categorical:
    """What to blame for each gap: for sync and host where the host was, else who launched the next work."""
    is_sync, is_host = ((gaps["cause"] == cause).to_numpy() for cause in ("sync", "host"))
    at = np.where(is_sync, integers(gaps["sync"]), np.where(is_host, integers(gaps["host"]), -1))
    line, op = host.around(at, host.is_users_line), host.around(at, host.is_op)
    following = host.around(np.where(~is_sync & ~is_host, integers(gaps["launch"]), -1), host.is_op)
    best = np.where(line >= 0, line, np.where(op >= 0, op, np.where(is_sync, at, following)))
    return texts(host.name, best)
