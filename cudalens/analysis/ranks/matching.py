"""Match the communication kernels of all ranks: which rows are the same collective."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.ranks.communication import members_of
from cudalens.frames import Ranks
from cudalens.frames.column_arrays import Bools, Ints, combined, integers, text_column

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
