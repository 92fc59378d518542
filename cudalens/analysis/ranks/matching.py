"""Match the collectives of all ranks, align the clocks of ranks by them, and compute who waited for whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.event_arrays import nearest_of
from cudalens.analysis.ranks.rank_work import is_on_host, num_elements, only_group, rank_work
from cudalens.analysis.time.groups import measured, share
from cudalens.analysis.time.overlap import bus_factors, message_bytes
from cudalens.analysis.time.work import COMMUNICATION
from cudalens.frames import Ranks, Trace, is_category
from cudalens.frames.column_arrays import Bools, Floats, Ints, combined, integers, map_texts, masked, text_column

#: Kinds of communication, by what their names contain without underscores, in lower case; the first one counts.
_KINDS: Final = {
    "allreduce": "allreduce",
    "allgather": "allgather",
    "reducescatter": "reducescatter",
    "alltoall": "alltoall",
    "broadcast": "broadcast",
    "barrier": "barrier",
    "sendrecv": "sendrecv",
    "send": "send",
    "recv": "recv",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}
_ANNOTATION: Final = "nccl:"
_TEXTS: Final = ("collective", "process_group", "group_ranks", "message_dtype")
_NUMBERS: Final = ("group_size", "collective_seq", "src_rank", "dst_rank", "in_elements", "out_elements")


def communication(trace: Trace) -> pd.DataFrame:
    """Return the communication kernels of one rank; of a job on CPUs the ranges of gloo.

    Facts that the kernel does not carry are taken from the ``record_param_comms`` operator around its launch, else the
    kind is that of the ``nccl:`` range around it, else that of the kernel's name.

    Returns:
        A row per kernel, by start: ``event``; ``step``, ``device``, ``stream`` (Int64); ``ts``, ``dur`` (int64);
        ``launched_ns``, start of its launch (Int64); ``name``, ``kind``, ``process_group``, ``group_ranks``,
        ``message_dtype`` (category); ``group_size``, ``collective_seq``, ``src_rank``, ``dst_rank``, ``in_elements``,
        ``out_elements``, ``num_bytes`` (Int64).
    """
    events, work = trace.events, rank_work(trace)
    at = np.flatnonzero(work.kind == COMMUNICATION)
    rows, launch = work.rows[at], work.launch[at]
    ts = events["ts"].to_numpy()
    facts = _host_facts(trace, rows) if is_on_host(trace) else _facts(events, rows, launch)
    columns: dict[str, Any] = {
        "event": masked(rows),
        "step": masked(integers(events["step"].array[rows])),
        "device": masked(work.device[at]),
        "stream": masked(work.stream[at]),
        "ts": work.start[at],
        "dur": work.end[at] - work.start[at],
        "launched_ns": masked(np.where(launch >= 0, ts[launch], -1)),
        "name": events["name"].array[rows].remove_unused_categories(),
        "kind": _kinds(events, rows, launch, facts["collective"]),
        **{name: facts[name] for name in (*_TEXTS[1:], *_NUMBERS)},
        "num_bytes": masked(message_bytes(facts)),
    }
    return pd.DataFrame(columns)


def _facts(events: pd.DataFrame, rows: Ints, launch: Ints) -> pd.DataFrame:
    """Return what is recorded of each kernel: on its own row, else on the operator around its launch."""
    own = events.iloc[rows][[*_TEXTS, *_NUMBERS]].reset_index(drop=True)
    if not len(rows) or not own["collective"].isna().any():
        return own
    describes = ~events["collective"].isna().to_numpy() & is_category(events["cat"].array, ("cpu_op",))
    around = _around(events, launch, describes)
    use = own["collective"].isna().to_numpy() & (around >= 0)
    other = events.iloc[np.maximum(around, 0)][[*_TEXTS, *_NUMBERS]].reset_index(drop=True)
    return pd.DataFrame({name: _chosen(own[name], other[name], use) for name in own})


def _host_facts(trace: Trace, rows: Ints) -> pd.DataFrame:
    """Return what is recorded of ranges of gloo: their shapes, and the group if the job has only one."""
    facts = trace.events.iloc[rows][[*_TEXTS, *_NUMBERS]].reset_index(drop=True)
    elements = map_texts(trace.events["shapes"].array, num_elements, -1)[rows]
    facts["in_elements"] = facts["out_elements"] = masked(elements)
    if (group := only_group(trace)) is not None:
        facts["process_group"], facts["group_ranks"] = (text_column([text] * len(rows)) for text in group)
    return facts


def _around(events: pd.DataFrame, launch: Ints, marked: Bools) -> Ints:
    """Return the nearest marked row at or above each launch, -1 for none."""
    return nearest_of(launch, marked, integers(events["parent"]))


def _chosen(own: pd.Series, other: pd.Series, use: Bools) -> Any:
    if own.dtype != "category":
        return own.where(~use, other)
    return text_column(b if u else a for a, b, u in zip(_plain(own), _plain(other), use.tolist(), strict=True))


def _plain(texts: pd.Series) -> list[str | None]:
    return [None if pd.isna(text) else text for text in texts.tolist()]


def _kinds(events: pd.DataFrame, rows: Ints, launch: Ints, collective: pd.Series) -> pd.Categorical:
    """Return the kind of each: by the collective's name, the range around its launch, or the kernel's name."""
    names = events["name"].array
    is_range = map_texts(names, lambda name: name.startswith(_ANNOTATION), False)
    around = _around(events, launch, is_range & is_category(events["cat"].array, ("user_annotation", "cpu_op")))
    ranges = [str(names[row]) if row >= 0 else None for row in around.tolist()]
    kernels = names[rows].tolist()
    chosen = zip(_plain(collective), ranges, kernels, strict=True)
    return text_column(kind_of(a) or kind_of(b) or kind_of(c) or "other" for a, b, c in chosen)


def kind_of(name: str | None) -> str | None:
    """The kind of communication that a name is for: ``_allgather_base`` is an allgather; None if it names none."""
    plain = (name or "").lower().replace("_", "").removeprefix(_ANNOTATION)
    return next((kind for text, kind in _KINDS.items() if text in plain), None)


def members_of(group_ranks: str | None) -> tuple[int, ...] | None:
    """Return the ranks in the text of a group, as ``[0, 1]``; None if it is missing, cut short or not such a list."""
    try:
        found = msgspec.json.decode(group_ranks or "null")
        found = msgspec.json.decode(found) if isinstance(found, str) else found
        return tuple(sorted(msgspec.convert(found, list[int]))) or None if found else None
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


#: How rows were matched: by the number that torch records, by the order in the program, or by that of kernel names.
HOW: Final = ("seq", "order", "kernels")
#: Kinds that two ranks make; each rank counts its own, so their recorded numbers do not match.
P2P: Final = ("send", "recv", "sendrecv")


def matched_collectives(ranks: Ranks) -> pd.DataFrame:
    """``ranks.frames["collectives"]`` with a number for each collective that several ranks made.

    Collectives are matched by process group and recorded number (``Seq``); without it by their order in the group, in
    each profiler step if steps are recorded; without names of groups by the order of kernels of one kind. Sends and
    receives are matched by sender, receiver and order.

    Returns:
        That frame with further columns. ``match``: the number, -1 for a row without a counterpart (int64).
        ``matched_by`` (category): seq, order, kernels. ``confidence`` (category): high for recorded numbers; medium for
        an order in which all ranks agree on kinds and sizes; low otherwise. ``members`` (int64): ranks of the match.
    """
    frame = ranks.frames["collectives"].copy(deep=False)
    if not len(frame):
        return frame.assign(
            match=np.empty(0, np.int64), matched_by=text_column([]), confidence=text_column([]), members=0
        )
    rank = integers(frame["rank"])
    lane, is_named = _lanes(frame)
    by_seq = is_named & ~frame["collective_seq"].isna().to_numpy() & ~_is_p2p(frame)
    number = np.where(by_seq, integers(frame["collective_seq"]), _order(frame, rank, lane))
    step = np.where(by_seq, -1, _steps(frame, lane))
    twice = _occurrence(rank, lane, number, step, by_seq)
    match = combined(lane, number, step, by_seq, twice)
    members = np.bincount(match)[match]
    how = np.where(by_seq, 0, np.where(is_named, 1, 2))
    sure = np.where(by_seq, 0, np.where(_agree(frame, match) & is_named, 1, 2))
    frame["match"] = np.where(members > 1, match, -1)
    frame["matched_by"] = pd.Categorical.from_codes(how, list(HOW))
    frame["confidence"] = pd.Categorical.from_codes(sure, ["high", "medium", "low"])
    frame["members"] = members
    return frame


def _is_p2p(frame: pd.DataFrame) -> Bools:
    return frame["kind"].isin(P2P).to_numpy(bool)


def _lanes(frame: pd.DataFrame) -> tuple[Ints, Bools]:
    """A number for each sequence of communications that its ranks make in the same order, and whether it is named."""
    group = _groups(frame)
    is_p2p = _is_p2p(frame)
    is_named = group >= 0
    src = np.where(is_p2p, integers(frame["src_rank"]), -1)
    dst = np.where(is_p2p, integers(frame["dst_rank"]), -1)
    # Without a group, and for pairs without their ranks, only kernels of one kind are comparable.
    kind = np.where(is_named & (~is_p2p | (src >= 0)), -1 - is_p2p.astype(np.int64), frame["kind"].cat.codes)
    return combined(group, src, dst, kind), is_named


def _groups(frame: pd.DataFrame) -> Ints:
    """Return a number for each process group, by its ranks if they are recorded, else by its name; -1 if neither is."""
    keys: dict[Any, int] = {}
    pairs = list(zip(frame["group_ranks"].astype(object), frame["process_group"].astype(object), strict=True))
    code: dict[Any, int] = {}
    for pair in dict.fromkeys(pairs):
        ranks, name = (None if part != part else part for part in pair)
        key = (members_of(ranks), name)
        code[pair] = -1 if key == (None, None) else keys.setdefault(key, len(keys))
    return np.array([code[pair] for pair in pairs], np.int64)


def _steps(frame: pd.DataFrame, lane: Ints) -> Ints:
    """Return the step of each row; -1 in a lane of which some row has none."""
    step = integers(frame["step"])
    partly = np.unique(lane[step < 0])
    return np.where(np.isin(lane, partly), -1, step)


def _order(frame: pd.DataFrame, rank: Ints, lane: Ints) -> Ints:
    """Return the number of each row in its lane on its rank, in each step, in the order of the program."""
    key = combined(rank, lane, _steps(frame, lane))
    return _counted(key, frame["place"].to_numpy())


def _occurrence(*keys: Any) -> Ints:
    """Return how many rows with the same keys come before each: kernels of one collective that was split."""
    key = combined(*keys)
    return _counted(key, np.arange(len(key)))


def _counted(key: Ints, by: Ints) -> Ints:
    order = np.lexsort((by, key))
    ordered = key[order]
    first = np.searchsorted(ordered, ordered)
    number = np.empty(len(key), np.int64)
    number[order] = np.arange(len(key)) - first
    return number


def _agree(frame: pd.DataFrame, match: Ints) -> Bools:
    """Return whether the rows of each match are of one kind and size; send and receive are one kind."""
    kind = np.where(_is_p2p(frame), -1, frame["kind"].cat.codes)
    what = combined(kind, integers(frame["num_bytes"]))
    low, high = np.full(match.max() + 1, np.iinfo(np.int64).max), np.full(match.max() + 1, -1)
    np.minimum.at(low, match, what)
    np.maximum.at(high, match, what)
    return (low == high)[match]


# Waits of ranks for each other, on clocks that are aligned by shared collectives.


def with_waits(matched: pd.DataFrame, clocks: pd.DataFrame) -> pd.DataFrame:
    """`matched` with arrivals, waits and transfers.

    Returns:
        The frame with further columns; times on the clock of the first rank, within ``uncertainty_ns`` of it.
        ``arrival_ns``: start of the kernel (int64). ``wait_ns``: until the last rank of the collective arrived;
        ``transfer_ns``: from that arrival to the end (Int64, ``<NA>`` for a row without a counterpart). ``is_last``
        (bool). ``algorithm_bytes_per_s`` and ``bus_bytes_per_s``: as of `cudalens.analysis.collectives`, but over the
        transfer alone (Float64). ``uncertainty_ns`` (Float64).
    """
    frame = matched.copy(deep=False)
    arrival = aligned(frame, clocks)
    end = arrival + frame["dur"].to_numpy(np.int64)
    match = frame["match"].to_numpy()
    known = match >= 0
    last = np.full(int(match.max(initial=-1)) + 2, np.iinfo(np.int64).min)
    np.maximum.at(last, match, arrival)
    wait = np.where(known, last[match] - arrival, 0)
    transfer = np.where(known, np.clip(end - last[match], 0, frame["dur"].to_numpy(np.int64)), 0)
    size = integers(frame["num_bytes"])
    speed = np.divide(size, transfer / 1e9, out=np.full(len(frame), np.nan), where=known & (size >= 0) & (transfer > 0))
    frame["arrival_ns"] = arrival
    frame["wait_ns"] = pd.array(np.where(known, wait, 0), "Int64")
    frame["transfer_ns"] = pd.array(transfer, "Int64")
    frame.loc[~known, ["wait_ns", "transfer_ns"]] = pd.NA
    frame["is_last"] = known & (wait == 0)
    frame["algorithm_bytes_per_s"] = measured(speed)
    frame["bus_bytes_per_s"] = measured(speed * bus_factors(frame["kind"].array, integers(frame["group_size"])))
    uncertainty = clocks["uncertainty_ns"].array
    frame["uncertainty_ns"] = uncertainty[np.searchsorted(clocks["rank"].to_numpy(), integers(frame["rank"]))]
    return frame


def step_times(steps: pd.DataFrame, waits: pd.DataFrame) -> pd.DataFrame:
    """Return the parts of each step of each rank.

    Returns:
        A row per ``rank`` and ``step``: ``step_ns``, length of the step on the host, else of its device work;
        ``compute_ns``; of the communication outside of compute ``wait_ns``, at most the waits of the step's
        collectives, and ``transfer_ns``, the rest; ``copy_ns``, copies and memsets outside of both; ``idle_ns``: the
        rest of the step (int64).
    """
    steps = steps.dropna(subset=["step"])
    rank, step = integers(steps["rank"]), integers(steps["step"])
    keys = combined(np.append(rank, integers(waits["rank"])), np.append(step, integers(waits["step"])))
    mine, theirs = keys[: len(steps)], keys[len(steps) :]
    waited = np.zeros(int(keys.max(initial=-1)) + 1, np.int64)
    np.add.at(waited, theirs, waits["wait_ns"].fillna(0).to_numpy(np.int64))
    exposed, compute = integers(steps["exposed_comm_ns"], 0), integers(steps["comp_ns"], 0)
    copies = integers(steps["exposed_mem_ns"], 0)
    wait = np.minimum(waited[mine], exposed)
    length = np.where(steps["dur"].isna(), integers(steps["span_ns"], 0), integers(steps["dur"], 0))
    return pd.DataFrame(
        {
            "rank": rank,
            "step": step,
            "step_ns": length,
            "compute_ns": compute,
            "wait_ns": wait,
            "transfer_ns": exposed - wait,
            "copy_ns": copies,
            "idle_ns": np.maximum(length - compute - exposed - copies, 0),
        }
    )


def bubbles(collectives: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Time in which a pipeline stage has nothing to compute, since what it receives is not there yet.

    Args:
        collectives: As of `cudalens.analysis.ranks.matching.with_waits`.
        steps: As of `cudalens.analysis.ranks.matching.step_times`.

    Returns:
        A row per ``rank`` and ``step`` of ranks that send or receive: ``bubble_ns``, waits of its receives, at most the
        time outside of compute (int64), and ``bubble_pct`` of the step (Float64).
    """
    kinds = collectives["kind"].isin(["recv", "sendrecv"]).to_numpy(bool)
    waits = collectives[kinds & ~collectives["wait_ns"].isna().to_numpy()]
    keys = {"rank": integers(waits["rank"]), "step": integers(waits["step"])}
    waited = (
        pd.DataFrame(keys | {"bubble_ns": integers(waits["wait_ns"])}).groupby(["rank", "step"]).sum().reset_index()
    )
    found = steps.merge(waited, "inner", ["rank", "step"])
    found["bubble_ns"] = np.minimum(found["bubble_ns"], found["step_ns"] - found["compute_ns"]).clip(lower=0)
    found["bubble_pct"] = share(found["bubble_ns"], found["step_ns"])
    return found[["rank", "step", "bubble_ns", "bubble_pct"]]


def expert_load(collectives: pd.DataFrame) -> pd.DataFrame:
    """Elements that each rank sends and receives in all-to-alls, of which expert parallelism is made.

    Returns:
        A row per ``rank`` and ``step`` (int64): ``in_elements``, ``out_elements`` (int64), and ``load_pct``: received
        elements over the mean of the ranks in that step, per cent (Float64). Empty without sizes of all-to-alls.
    """
    rows = collectives[
        (collectives["kind"] == "alltoall").to_numpy(bool) & ~collectives["out_elements"].isna().to_numpy()
    ]
    names = ("rank", "step", "in_elements", "out_elements")
    frame = pd.DataFrame({name: integers(rows[name]) for name in names})
    found = frame.groupby(["rank", "step"]).sum().reset_index()
    found["load_pct"] = share(found["out_elements"], found.groupby("step")["out_elements"].transform("mean"))
    return found


#: The ends of one collective differ by this at least: resolution of the timers.
_FLOOR_NS: Final = 200.0
_MIN_FOR_DRIFT: Final = 4
#: Larger drifts are not those of clocks.
_MAX_DRIFT: Final = 1e-3


class _Pair(NamedTuple):
    """Offset and drift of one rank against another, by index, with their variances, and the scatter of the ends."""

    a: int
    b: int
    offset: float
    drift: float
    offset_var: float
    drift_var: float
    scatter: float


def clock_offsets(matched: pd.DataFrame, ranks: Ints) -> pd.DataFrame:
    """Offset and drift of the clock of each rank against the first.

    For each pair of ranks of a group the differences of the ends are a line over time: its height is the offset of the
    clocks, its slope their drift. The lines of all pairs are joined by weighted least squares.

    Args:
        matched: As of `matched_collectives`.
        ranks: All ranks, ascending, shape (n,).

    Returns:
        A row per rank: ``rank`` (int64); ``offset_ns``, what its clock shows more than the first rank's at ``at_ns``
        (times of the first rank's clock, int64), ``drift_ppm``, and ``uncertainty_ns``: the offset is within it at any
        time of the recording (Float64; ``<NA>`` for a rank that shares no collective with the first).
    """
    end = (matched["ts"] + matched["dur"]).to_numpy(np.int64)
    base = int(end.min()) if len(end) else 0
    at = end - base
    # Coarse offsets first: a drift is one over the time of the first clock, not over that of each rank's own.
    coarse = _solved(ranks, list(_pairs(matched, ranks, at, at.astype(np.float64), has_drift=False)), 0.0)["offset_ns"]
    since = at - np.nan_to_num(coarse)[np.searchsorted(ranks, integers(matched["rank"]))]
    middle = float(np.median(since)) if len(at) else 0.0
    half = float(np.abs(since - middle).max(initial=0.0))
    found = _solved(ranks, list(_pairs(matched, ranks, at, since - middle)), half)
    reach = np.isfinite(found["offset_ns"])
    frame = pd.DataFrame({"rank": ranks, "at_ns": base + int(middle)})
    for name, values in found.items():
        frame[name] = pd.array(np.where(reach, values, np.nan), "Float64").astype("Float64")
        frame.loc[~reach, name] = pd.NA
    return frame


def aligned(frame: pd.DataFrame, clocks: pd.DataFrame) -> Ints:
    """The starts of the rows of `frame` on the clock of the first rank, ns; as recorded for ranks without an offset."""
    offset, drift = (clocks[name].fillna(0).to_numpy(np.float64) for name in ("offset_ns", "drift_ppm"))
    place = np.searchsorted(clocks["rank"].to_numpy(), integers(frame["rank"]))
    ts = frame["ts"].to_numpy(np.int64)
    first = int(clocks["at_ns"].iloc[0]) if len(clocks) else 0
    since = ts - first - offset[place]
    return ts - np.round(offset[place] + drift[place] * 1e-6 * since).astype(np.int64)


def _pairs(matched: pd.DataFrame, ranks: Ints, at: Ints, since: Floats, *, has_drift: bool = True) -> Iterator[_Pair]:
    """Yield the pairs of ranks of one group, each with the group's first rank; of senders and receivers if needed."""
    is_p2p = matched["kind"].isin(P2P).to_numpy(bool)
    known = (matched["match"] >= 0).to_numpy()
    index = np.searchsorted(ranks, integers(matched["rank"]))
    match = matched["match"].to_numpy()
    found = list(_fitted(match, index, at, since, known & ~is_p2p, has_drift))
    yield from found
    if len(set(_parts(len(ranks), found).tolist())) > 1:
        yield from _fitted(match, index, at, since, known & is_p2p, has_drift)


def _fitted(match: Ints, index: Ints, at: Ints, since: Floats, chosen: Any, has_drift: bool) -> Iterator[_Pair]:
    rows = np.flatnonzero(chosen)
    rows = rows[np.lexsort((index[rows], match[rows]))]
    first = rows[np.searchsorted(match[rows], match[rows])]
    other = first != rows
    rows, first = rows[other], first[other]
    pair = index[first] * (int(index.max(initial=0)) + 1) + index[rows]
    order = np.argsort(pair, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(pair[order])) + 1):
        if len(part):
            a, b = int(index[first[part[0]]]), int(index[rows[part[0]]])
            y = (at[rows[part]] - at[first[part]]).astype(np.float64)
            yield _line(a, b, since[first[part]], y, has_drift)


def _line(a: int, b: int, x: Floats, y: Floats, has_drift: bool) -> _Pair:
    """Return a line through the differences that outliers do not move (Huber weights)."""
    n = len(x)
    has_slope = has_drift and n >= _MIN_FOR_DRIFT and float(np.ptp(x)) > 0
    weights = np.ones(n)
    offset = float(np.median(y))
    slope, scatter, spread, center = 0.0, 0.0, 1.0, 0.0
    for _ in range(8):
        center = float(np.average(x, weights=weights))
        spread = max(float((weights * (x - center) ** 2).sum()), 1.0)
        slope = float((weights * (x - center) * y).sum() / spread) if has_slope else 0.0
        slope = float(np.clip(slope, -_MAX_DRIFT, _MAX_DRIFT))
        offset = float(np.average(y - slope * (x - center), weights=weights))
        rest = np.abs(y - offset - slope * (x - center))
        scatter = max(1.4826 * float(np.median(rest)), _FLOOR_NS)
        weights = np.minimum(1.0, 2 * scatter / np.maximum(rest, 1.0))
    scatter *= 1 + 3 / n  # few differences show too little of their scatter
    variance = scatter**2 / max(float(weights.sum()), 1.0)
    slope_var = scatter**2 / spread if has_slope else (5e-6) ** 2
    return _Pair(a, b, offset - slope * center, slope, variance + slope_var * center**2, slope_var, scatter)


def _parts(num: int, pairs: list[_Pair]) -> Ints:
    """Return the lowest rank, by index, that each rank is joined with."""
    part = np.arange(num)
    for pair in pairs * 2:
        low, high = sorted((int(part[pair.a]), int(part[pair.b])))
        part[part == high] = low
    return part


def _solved(ranks: Ints, pairs: list[_Pair], half: float) -> dict[str, Floats]:
    n = len(ranks)
    offset, offset_var = _least_squares(n, [(p.a, p.b, p.offset, p.offset_var) for p in pairs])
    drift, drift_var = _least_squares(n, [(p.a, p.b, p.drift, p.drift_var) for p in pairs])
    scatter = float(np.median([pair.scatter for pair in pairs])) if pairs else 0.0
    joined = _parts(n, pairs) == 0
    uncertainty = 3 * np.sqrt(offset_var + drift_var * half**2) + scatter
    uncertainty[:1] = 0
    values = {"offset_ns": offset, "drift_ppm": 1e6 * drift, "uncertainty_ns": uncertainty}
    return {name: np.where(joined, value, np.nan) for name, value in values.items()}


def _least_squares(n: int, edges: list[tuple[int, int, float, float]]) -> tuple[Floats, Floats]:
    """Values of n unknowns, the first 0, from differences b - a with variances; and the variances of the values."""
    normal, right = np.zeros((n, n)), np.zeros(n)
    scale = min((variance for *_, variance in edges), default=1.0)
    for a, b, difference, variance in edges:
        weight = scale / variance
        normal[[a, b], [a, b]] += weight
        normal[[a, b], [b, a]] -= weight
        right[b] += weight * difference
        right[a] -= weight * difference
    inverse = np.zeros((n, n))
    inverse[1:, 1:] = np.linalg.pinv(normal[1:, 1:], hermitian=True)
    return inverse @ right, np.maximum(np.diag(inverse), 0) * scale
