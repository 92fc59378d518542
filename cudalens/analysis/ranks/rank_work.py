"""The work of one rank that its peers are compared by, and the stretches of compute between its communications.

A job on CPUs has no kernels. Its compute is the outermost operators of the main thread, its communication the ranges
``gloo:all_reduce`` of gloo's threads, which last from the arrival of the rank to the end, as kernels of NCCL do.

A stretch ends where a communication kernel can start (its input is computed) or where compute waits for one. The
operators in it are what peers are compared by, and what a what-if replaces. Times add up exactly: from the end of the
stretch or communication that it follows, a stretch lasts its lag, then its work and the gaps in it.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.event_arrays import nearest_of
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.summary import step_rows
from cudalens.analysis.time.groups import quantiles, sums, union
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, Work, device_work
from cudalens.frames import Trace, is_category
from cudalens.frames.column_arrays import Bools, Floats, Ints, categorical, combined, integers, map_texts

_MOST = 1 << 40


def num_elements(shapes: str) -> int:
    """Elements of all inputs in ``[[2, 3], [], [4]]``: 10; 0 for what is not such a list, at most 2^40."""
    try:
        return min(_count(msgspec.json.decode(shapes)), _MOST)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return 0


def _count(value: Any) -> int:
    if not isinstance(value, list) or not value:
        return 0
    if all(isinstance(size, int) for size in value):
        return max(math.prod(value), 0)
    return sum(map(_count, value))


#: Ranges that a backend on the host records around a collective.
HOST_RANGES: Final = ("gloo:", "mpi:", "ucc:")
#: Operators that enqueue a collective, and wrappers whose time is that of what they call or wait for.
_LAUNCH: Final = "c10d::"
_WRAPPERS: Final = (_LAUNCH, "autograd::", "torch.", "torch::distributed", "record_param_comms")


@once_per_trace
def rank_work(trace: Trace) -> Work:
    """Return the device work of `trace`; without any, the work of the host, with the thread as stream."""
    work = device_work(trace)
    return work if len(work.rows) else _host_work(trace)


def is_on_host(trace: Trace) -> bool:
    """Return whether `rank_work` is work of the host."""
    return not len(device_work(trace).rows)


def _host_work(trace: Trace) -> Work:
    events = trace.events
    comm = np.flatnonzero(_starts(events, HOST_RANGES) & is_category(events["cat"].array, ("user_annotation",)))
    compute = _outermost_operators(trace) if len(comm) else comm
    rows = np.concatenate([comm, compute])
    kind = np.repeat(np.array([COMMUNICATION, COMPUTE], np.int8), [len(comm), len(compute)])
    launch = np.concatenate([_launches(events, comm), compute])
    order = np.argsort(rows, kind="stable")
    rows, kind, launch = rows[order], kind[order], launch[order]
    start = events["ts"].to_numpy()[rows]
    device, stream = np.full(len(rows), -1), integers(events["tid"].array[rows])
    work = Work(rows, start, start + events["dur"].to_numpy()[rows], device, stream, kind, launch)
    for array in work:
        array.flags.writeable = False
    return work


def _starts(events: pd.DataFrame, prefixes: tuple[str, ...]) -> Bools:
    found: Bools = map_texts(events["name"].array, lambda name: name.startswith(prefixes), False)
    found &= ~events["is_instant"].to_numpy(bool)
    return found


def _outermost_operators(trace: Trace) -> Ints:
    """Rows of the operators on the main thread that no other operator called."""
    events = trace.events
    is_op = map_texts(events["name"].array, lambda name: "::" in name and not name.startswith(_WRAPPERS), False)
    is_op = is_op & is_category(events["cat"].array, ("cpu_op",)) & ~events["is_instant"].to_numpy(bool)
    parent, thread = integers(events["parent"]), integers(events["tid"])
    rows = np.flatnonzero(is_op)
    rows = rows[nearest_of(parent[rows], is_op, parent) < 0]
    steps = step_rows(trace)
    threads = thread[steps] if len(steps) else thread[rows]
    numbers, counts = np.unique(threads, return_counts=True)
    main = int(numbers[np.argmax(counts)]) if len(numbers) else -1
    return rows[thread[rows] == main]


def _launches(events: pd.DataFrame, comm: Ints) -> Ints:
    """Return the operators that enqueued these ranges, in order; -1 for all if there are not as many."""
    rows = np.flatnonzero(_starts(events, (_LAUNCH,)) & is_category(events["cat"].array, ("cpu_op",)))
    return rows if len(rows) == len(comm) else np.full(len(comm), -1)


def only_group(trace: Trace) -> tuple[str, str] | None:
    """Name and ranks of the only process group of a job, as text; None if there are several or none is recorded."""
    try:
        around: Any = msgspec.json.decode(trace.info.extra.get("distributedInfo", "null"))
        (group,) = around["pg_config"]
        ranks = msgspec.convert(group["ranks"], list[int])
        return str(group["pg_name"]), str(ranks)
    except (msgspec.MsgspecError, TypeError, KeyError, ValueError, RecursionError):
        return None


#: Operators of a rank with rows of their own; the others are joined in one row, ``(other)``.
MAX_OPERATORS: Final = 48
GAP: Final = "(gap)"
OTHER: Final = "(other)"
#: A communication that starts this long after its input is ready also waited for another one that ended before it.
_PROMPT_NS: Final = 20_000
#: Compute loses at most this part of its speed to communication beside it.
_MOST_SLOWED: Final = 1 / 3
#: Kernels of one name are of one kind if none takes so many times as long as the next shorter one,
_SAME_KIND: Final = 1.5
#: and are compared if those without communication differ by less.
_SAME_SIZE: Final = 1.25
#: Shorter kernels are not compared, because of the resolution of timers.
_LEAST_TIMED_NS: Final = 10_000
#: The estimate needs so many kernels, and this share of all time of compute beside communication.
_FEWEST_SLOWED: Final = 4
_LEAST_KNOWN: Final = 0.05


class _Compute(NamedTuple):
    """Device work other than communication in order of start; arrays of shape (n,)."""

    start: Ints
    reach: Ints  #: latest end so far
    own: Ints  #: the part of each that is after all before it
    gap: Ints  #: idle time before it


def stretches(trace: Trace, comm: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The stretches of one rank, and the operators in them; adds to `comm` how each communication depends on them.

    Args:
        trace: The rank.
        comm: Its `communication`; gets the columns ``after`` (stretch after which it can start), ``after_comm`` (row of
            the communication before it that it waited for), -1 for none, and ``place``, its number in the program.

    Returns:
        Stretches: ``start_ns``, ``end_ns``, ``busy_ns`` (time in which compute runs), ``lag_ns``, ``waits_for`` (row of
        `comm`, -1 for none) and ``step``, int64.
        Work: a row per stretch, ``place`` (communications launched before it) and ``op`` (category: operator, with its
        line where known; ``(gap)`` is idle time): ``work_ns``, ``slowed_ns`` (the part of it by which communication
        beside it makes it longer, estimated), ``num``, ``elements`` of its inputs (int64), ``step``.
    """
    work = rank_work(trace)
    at = np.flatnonzero(work.kind != COMMUNICATION)
    compute = _compute(work, at)
    begin, end = comm["ts"].to_numpy(), (comm["ts"] + comm["dur"]).to_numpy()
    # The number of each communication in the order in which the program launched them.
    key = np.where(comm["launched_ns"].isna(), comm["ts"], comm["launched_ns"].fillna(0)).astype(np.int64)
    order = np.empty(len(comm), np.int64)
    order[np.argsort(key, kind="stable")] = np.arange(len(comm))
    cut, resume, waits = _cuts(compute, begin, end)
    launched = _launched(trace, work)
    cut = _launched_before(cut, compute, launched[at], comm, key)
    first = np.unique(np.concatenate([np.zeros(min(len(at), 1), np.int64), cut[cut < len(at)], resume]))
    stretch = np.searchsorted(first, np.arange(len(at)), side="right") - 1
    pieces = _pieces(compute, first, resume, waits, end)
    pieces["step"] = integers(trace.events["step"].array[work.rows[at[first]]])
    comm["after"] = np.where(cut > 0, stretch[np.maximum(cut, 1) - 1] if len(at) else -1, -1)
    comm["after_comm"] = _before(comm, pieces["end_ns"].to_numpy(), begin, end)
    comm["place"] = order
    place = np.searchsorted(np.sort(key), launched[at], side="right")
    return pieces, _work(trace, work, at, compute, stretch, place, pieces)


def _compute(work: Work, at: Ints) -> _Compute:
    start, end = work.start[at], work.end[at]
    reach = np.maximum.accumulate(end) if len(at) else end
    before = np.concatenate([start[:1], reach[:-1]])
    own = np.maximum(end - np.maximum(before, start), 0)
    return _Compute(start, reach, own, np.maximum(start - before, 0))


def _cuts(compute: _Compute, begin: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Return where compute is cut.

    Returns:
        For each communication the number of compute kernels that were finished when it started; the kernels that start
        after a gap in which a communication ended, and the last communication that ended in each gap.
    """
    none = np.empty(0, np.int64)
    if not len(compute.start):
        return np.zeros(len(begin), np.int64), none, none
    cut = np.searchsorted(compute.reach, begin, side="right")
    at = np.searchsorted(compute.start, end, side="left")
    inside = np.flatnonzero(at < len(compute.start))
    previous = np.where(at[inside] > 0, compute.reach[np.maximum(at[inside], 1) - 1], np.iinfo(np.int64).min)
    inside = inside[end[inside] > previous]
    latest = inside[np.lexsort((end[inside], at[inside]))]
    resume, last = np.unique(at[latest][::-1], return_index=True)
    return cut, resume, latest[::-1][last]


def _pieces(compute: _Compute, first: Ints, resume: Ints, waits: Ints, end: Ints) -> pd.DataFrame:
    if not len(first):
        return pd.DataFrame(dict.fromkeys(("start_ns", "end_ns", "busy_ns", "lag_ns", "waits_for"), first))
    last = np.append(first[1:], len(compute.start)) - 1
    stop = compute.reach[last]
    waits_for = np.full(len(first), -1, np.int64)
    waits_for[np.searchsorted(first, resume)] = waits
    ready = np.concatenate([compute.start[:1], stop[:-1]])
    ready = np.where(waits_for >= 0, np.maximum(ready, np.append(end, 0)[waits_for]), ready)
    start = np.maximum(compute.start[first], np.concatenate([compute.start[:1], stop[:-1]]))
    busy = np.add.reduceat(compute.own, first)
    times = {"start_ns": start, "end_ns": stop, "busy_ns": busy, "lag_ns": start - ready}
    return pd.DataFrame({**times, "waits_for": waits_for})


def _before(comm: pd.DataFrame, stretch_end: Ints, begin: Ints, end: Ints) -> Ints:
    """Row of the communication that each waited for: the one before it on its stream, or the last that ended."""
    found = np.full(len(comm), -1, np.int64)
    stream = comm["stream"].fillna(-1).to_numpy(np.int64)
    for number in np.unique(stream).tolist():
        mine = np.flatnonzero(stream == number)
        found[mine[1:]] = mine[:-1]
    ready = np.append(stretch_end, np.iinfo(np.int64).min)[comm["after"].to_numpy()]
    ready = np.maximum(ready, np.where(found >= 0, end[found], ready))
    by_end = np.argsort(end, kind="stable")
    place = np.searchsorted(end[by_end], begin, side="right") - 1
    last = np.where(place >= 0, np.append(by_end, -1)[place], -1)
    late = (begin - ready > _PROMPT_NS) & (last >= 0)
    late &= end[last] > ready
    return np.where(late, last, found)


def _launched(trace: Trace, work: Work) -> Ints:
    """Return when the program launched each piece of work: its start if that is not recorded."""
    ts = trace.events["ts"].to_numpy()
    return np.where(work.launch >= 0, ts[work.launch], work.start)


def _launched_before(cut: Ints, compute: _Compute, launched: Ints, comm: pd.DataFrame, key: Ints) -> Ints:
    """Return for each communication the number of compute kernels up to the last one that it can wait for.

    It waits for kernels that were launched before it. One that starts late, because the communication before it waits
    for another rank, starts after kernels that were launched later.

    Args:
        cut: The number of kernels that were finished when it started.
        compute: The kernels.
        launched: When each of them was launched.
        comm: The communications.
        key: When each of these was launched.
    """
    begin, end = comm["ts"].to_numpy(), (comm["ts"] + comm["dur"]).to_numpy()
    narrow = cut.copy()
    for row in np.flatnonzero((cut > 0) & (np.append(launched, 0)[cut - 1] > key)).tolist():
        before = np.flatnonzero(launched[: cut[row]] <= key[row])
        narrow[row] = before[-1] + 1 if len(before) else 0
    ended = np.append(np.iinfo(np.int64).min, np.sort(end))
    latest = ended[np.searchsorted(ended[1:], begin, side="right")]
    ready = np.where(narrow > 0, np.append(compute.reach, 0)[narrow - 1], np.iinfo(np.int64).min)
    return np.where(begin - np.maximum(ready, latest) <= _PROMPT_NS, narrow, cut)


def _work(
    trace: Trace, work: Work, at: Ints, compute: _Compute, stretch: Ints, place: Ints, pieces: pd.DataFrame
) -> pd.DataFrame:
    code, names = _operators(trace, work, at, compute.own)
    # Elements of the inputs of the operator around each launch; 0 if unknown.
    shapes = trace.events["shapes"]
    around = nearest_of(work.launch[at], ~shapes.isna().to_numpy(), integers(trace.events["parent"]))
    found = map_texts(shapes.array, num_elements, 0)
    elements = np.where(around >= 0, found[around], 0).astype(np.int64)
    slowed = _slowed(trace, work, at, compute.own, elements)
    step = integers(trace.events["step"].array[work.rows[at]])
    opens = np.zeros(len(at), bool)
    opens[np.searchsorted(stretch, np.arange(len(pieces)))] = True
    gap = np.where(opens, pieces["lag_ns"].to_numpy()[stretch] if len(at) else 0, compute.gap)
    table = pd.DataFrame({"stretch": stretch, "place": place, "step": step, "op": code})
    idle = table[gap > 0].assign(op=len(names), work_ns=gap[gap > 0], slowed_ns=0, num=0, elements=0)
    busy = table.assign(work_ns=compute.own, slowed_ns=slowed, num=1, elements=elements)
    rows = pd.concat([busy, idle]).groupby(["stretch", "place", "step", "op"], sort=True).sum().reset_index()
    rows["op"] = categorical(rows["op"].to_numpy(np.int32), [*names, GAP])
    return rows.astype({name: "int64" for name in rows if name != "op"})


def _slowed(trace: Trace, work: Work, at: Ints, own: Ints, elements: Ints) -> Ints:
    """Return by how much communication beside it makes each piece of compute longer, ns: an estimate.

    A kernel of NCCL takes SMs and memory bandwidth from compute, also while it waits for other ranks. What a kernel
    loses of each ns beside communication is found from those of the same kind that ran without any; a kernel of a rare
    kind loses what most do. Compute on the host loses nothing: what waits there does not compute.
    """
    none = np.zeros(len(at), np.int64)
    if not len(at) or is_on_host(trace):
        return none
    beside, length = _beside_communication(work, at, own), work.end[at] - work.start[at]
    codes = [trace.events[name].array.codes[work.rows[at]].astype(np.int64) for name in ("name", "grid")]
    kind = _kinds_of_kernels(combined(*codes, elements), length)
    is_long = (own == length) & (length >= _LEAST_TIMED_NS)
    is_alone = is_long & (beside == 0)
    low, alone_ns, high = quantiles(length[is_alone], kind[is_alone], int(kind.max()) + 1, [0.0, 0.5, 1.0])
    known = np.flatnonzero(is_long & (beside > 0) & (high <= _SAME_SIZE * low)[kind])
    if len(known) < _FEWEST_SLOWED or beside[known].sum() < _LEAST_KNOWN * beside.sum():
        return none
    lost = (length[known] - alone_ns[kind[known]]) / beside[known]
    of_most = _lost_share(lost, beside[known])
    if not of_most:
        return none
    share = np.full(len(low), of_most)
    num_known = np.bincount(kind[known], minlength=len(low))
    for number in np.flatnonzero(num_known >= _FEWEST_SLOWED).tolist():
        mine = kind[known] == number
        share[number] = _lost_share(lost[mine], beside[known][mine])
    return np.round(share[kind] * beside).astype(np.int64)


def _lost_share(lost: Floats, weights: Ints) -> float:
    """Return the weighted median of parts of the speed that kernels lose; 0 if it is within twice its error."""
    order = np.argsort(lost, kind="stable")
    reach = np.cumsum(weights[order])
    low, median, high = lost[order][np.searchsorted(reach, reach[-1] * np.array([0.25, 0.5, 0.75]))].tolist()
    error = 1.25 * (high - low) / 1.35 / len(lost) ** 0.5  # of the median of a normal distribution with these quartiles
    return float(min(median, _MOST_SLOWED)) if median > 2 * error else 0.0


def _kinds_of_kernels(name: Ints, length: Ints) -> Ints:
    """Return a number for kernels of one name and about the same length: products of one grid differ in their depth."""
    order = np.lexsort((length, name))
    is_longer = length[order][1:] > _SAME_KIND * length[order][:-1]
    opens = np.append(False, (name[order][1:] != name[order][:-1]) | is_longer)
    kind = np.empty(len(name), np.int64)
    kind[order] = np.cumsum(opens)
    return kind


def _beside_communication(work: Work, at: Ints, own: Ints) -> Ints:
    """Return for how long communication runs on the same device during the own part of each piece of compute, ns."""
    beside = np.zeros(len(at), np.int64)
    communicates = work.kind == COMMUNICATION
    for device in np.unique(work.device[communicates]).tolist():
        mine = np.flatnonzero(work.device[at] == device)
        busy = union(*(times[communicates & (work.device == device)] for times in (work.start, work.end)))
        lengths = np.concatenate([[0], np.cumsum(busy.end - busy.start)])
        # the communication before a time: all intervals that began before it, less what of the last one comes after it
        end = work.end[at[mine]]
        before = []
        for time in (end - own[mine], end):
            number = np.searchsorted(busy.start, time, side="right")
            after = np.where(number > 0, busy.end[np.maximum(number, 1) - 1] - time, 0)
            before.append(lengths[number] - np.maximum(after, 0))
        beside[mine] = before[1] - before[0]
    return beside


def _operators(trace: Trace, work: Work, at: Ints, own: Ints) -> tuple[Ints, list[str]]:
    """Return the operator that launched each piece of compute, with the user's line: its code, and their names."""
    events = trace.events
    parent = integers(events["parent"])
    is_op = is_category(events["cat"].array, ("cpu_op",))
    op = nearest_of(work.launch[at], is_op, parent)
    stack = nearest_of(work.launch[at], ~events["stack"].isna().to_numpy(), parent)
    stacks = np.where(stack >= 0, integers(events["stack"].array[np.maximum(stack, 0)]), -1)
    names = np.where(op >= 0, events["name"].array.codes[op], -1)
    own_name = np.where(op >= 0, -1, events["name"].array.codes[work.rows[at]])
    keys = pd.DataFrame({"op": names, "kernel": own_name, "stack": stacks})
    group = keys.groupby(["op", "kernel", "stack"], sort=False).ngroup().to_numpy(np.int64)
    total = sums(own, group, int(group.max(initial=-1)) + 1)
    kept = np.argsort(-total, kind="stable")[: MAX_OPERATORS * 4]
    first = np.unique(group, return_index=True)[1]
    return _named(trace, keys.iloc[first], group, total, kept, own, work, at)


def _named(
    trace: Trace, keys: pd.DataFrame, group: Ints, total: Ints, kept: Ints, own: Ints, work: Work, at: Ints
) -> tuple[Ints, list[str]]:
    arrays = TraceArrays(trace)
    names = trace.events["name"].array.categories
    longest = np.zeros(len(total), np.int64)
    order = np.argsort(own, kind="stable")
    longest[group[order]] = order
    texts: dict[int, str] = {}
    for number in kept.tolist():
        op, kernel, _ = keys.iloc[number]
        place = arrays.place(int(work.rows[at[longest[number]]]))
        name = str(names[op] if op >= 0 else names[kernel])
        texts[number] = f"{name} ({place})" if place else name
    by_text: dict[str, int] = {}
    for number in kept.tolist():
        by_text[texts[number]] = by_text.get(texts[number], 0) + int(total[number])
    listed = sorted(by_text, key=lambda text: (-by_text[text], text))[:MAX_OPERATORS]
    code = {text: i for i, text in enumerate(listed)}
    of_group = np.array([code.get(texts.get(n, ""), len(listed)) for n in range(len(total))], np.int64)
    return (of_group[group] if len(group) else group), [*listed, OTHER]
