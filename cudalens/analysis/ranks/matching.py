"""Match the communication kernels of all ranks: which rows are the same collective."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest_of
from cudalens.analysis.ranks.rank_work import is_on_host, num_elements, only_group, rank_work
from cudalens.analysis.time.overlap import message_bytes
from cudalens.analysis.time.work import COMMUNICATION
from cudalens.frames import Ranks, Trace, is_category
from cudalens.frames.column_arrays import Bools, Ints, combined, integers, map_texts, masked, text_column

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
