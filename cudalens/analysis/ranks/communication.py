"""The communication of one rank: a row per kernel of NCCL or RCCL, with what the device or the host recorded of it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest_of
from cudalens.analysis.ranks.rank_work import is_on_host, only_group, rank_work
from cudalens.analysis.ranks.shapes import num_elements
from cudalens.analysis.time.overlap import message_bytes
from cudalens.analysis.time.work import COMMUNICATION
from cudalens.frames import Trace, is_category
from cudalens.frames.column_arrays import Bools, Ints, integers, map_texts, masked, text_column

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
