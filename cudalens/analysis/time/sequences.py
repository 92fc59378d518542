"""Frequent sequences of kernels on a stream: candidates for a fused kernel or a CUDA graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from cudalens.analysis.cached import ranked
from cudalens.analysis.time.groups import in_step, numbered, share, sums, taken
from cudalens.analysis.time.work import MEMORY, Work, device_work
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Bools, Ints, masked, run_starts

#: Default lengths of sequences.
SHORTEST: Final = 2
LONGEST: Final = 16

#: Number of candidates per returned row, to find distinct ones.
_MAX_TRIED: Final = 20

#: Default limit of gaps within a sequence: kernels further apart are not a candidate for one launch.
LONGEST_GAP_NS: Final = 1_000_000


class _Row(NamedTuple):
    """The kernels of all streams, one stream after the other in order of start; arrays of shape (n,).

    Attributes:
        rows: Rows of events.
        lane: Number of the stream.
        run: Number of the part of the stream without a longer gap.
        name: Number of the name.
        start: Start, ns.
        end: End, ns.
    """

    rows: Ints
    lane: Ints
    run: Ints
    name: Ints
    start: Ints
    end: Ints


@ranked
def kernel_sequences(
    trace: Trace,
    length: int | tuple[int, int] = (SHORTEST, LONGEST),
    *,
    min_count: int = 2,
    max_gap_ns: int = LONGEST_GAP_NS,
    top: int = 50,
    step: int | None = None,
) -> pd.DataFrame:
    """Sequences of consecutive kernels on one stream that occur repeatedly, most expensive first.

    Kernels of a stream are in order of start; copies and sets are ignored. Occurrences are counted from the left
    without overlaps. A sequence is left out if it is not maximal: a longer one (within `length`) contains all its
    occurrences, overlapping ones included. It is also left out if more than half of the kernels of its occurrences are
    in more expensive rows: else the body of a loop would occur once for each kernel that it can start with.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        length: Number of kernels, or the smallest and the largest.
        min_count: Leave out sequences with fewer occurrences.
        max_gap_ns: A longer gap between two kernels ends a sequence.
        top: Largest number of rows of each trace.
        step: Only kernels that this profiler step launched.

    Returns:
        A row per sequence and stream, by ``total_ns`` descending: ``device``, ``stream`` (Int64); ``sequence``, the
        names as a tuple; ``length``; ``count``, occurrences; ``kernel_ns``, sum of the kernels' durations in these;
        ``gap_ns``, sum of the idle time of the stream between neighbours within these (0 if they overlap);
        ``total_ns``, both together (int64); ``gap_pct``, gaps of the total;
        ``share_pct``, of the durations of all kernels (Float64); ``first``, row of the first kernel of the first
        occurrence (Int64).

    Raises:
        ValueError: A length is less than 2, or the smallest is larger than the largest.
    """
    low, high = (length, length) if isinstance(length, int) else length
    if not SHORTEST <= low <= high:
        raise ValueError(f"invalid value for length: {length!r}; expected a number from 2, or (smallest, largest)")
    work = in_step(trace, device_work(trace), step)
    row, keys = _in_rows(trace, taken(work, work.kind != MEMORY), max_gap_ns)
    grams = list(_grams(row, low, high, max(min_count, 1)))
    occurrences = {width: _Occurrences.of(of, width, min_count) for width, of in grams}
    found = pd.concat([_costs(row, one, width, min_count) for width, one in occurrences.items()])
    found = found.sort_values(["total_ns", "length"], ascending=False, kind="stable")
    found = _distinct(found.head(_MAX_TRIED * top), occurrences, len(row.rows)).head(top)
    return _shown(trace, row, keys, found)


def _in_rows(trace: Trace, work: Work, max_gap_ns: int) -> tuple[_Row, pd.DataFrame]:
    lane, keys = numbered({"device": work.device, "stream": work.stream})
    order = np.argsort(lane, kind="stable")
    name = trace.events["name"].array.codes[work.rows].astype(np.int64)
    lane, start, end = lane[order], work.start[order], work.end[order]
    breaks = run_starts(lane)
    breaks[1:] |= start[1:] - end[:-1] > max_gap_ns
    return _Row(work.rows[order], lane, np.cumsum(breaks), name[order], start, end), keys


class _Grams(NamedTuple):
    """The frequent sequences of one length.

    Attributes:
        ids: Number of the sequence that starts at each place, -1 for none, shape (n,).
        is_maximal: Whether no longer sequence contains all its places, shape (number of sequences,).
    """

    ids: Ints
    is_maximal: Bools


def _grams(row: _Row, low: int, high: int, min_count: int) -> Iterator[tuple[int, _Grams]]:
    """Sequences of each length from `low` to `high`: two are equal if their prefixes and their last names are."""
    names = pd.factorize(row.lane * (int(row.name.max(initial=0)) + 1) + row.name)[0].astype(np.int64)
    ids = _longer(names, names, row.run, SHORTEST, min_count)
    for width in range(SHORTEST, high + 1):
        more = np.full(len(ids), -1) if width == high else _longer(ids, names, row.run, width + 1, min_count)
        if width >= low:
            # False for a sequence if all its places start, or all end, the same longer sequence.
            n = int(ids.max(initial=-1)) + 1
            count = np.bincount(ids[ids >= 0], minlength=n)
            maximal = np.ones(n, bool)
            place = np.flatnonzero(more >= 0)
            longer = np.bincount(more[place]) if len(place) else np.zeros(0, np.int64)
            for part in (ids[place], ids[place + 1]):
                maximal[part[longer[more[place]] == count[part]]] = False
            yield width, _Grams(ids, maximal)
        ids = more


def _longer(ids: Ints, names: Ints, run: Ints, width: int, min_count: int) -> Ints:
    """Numbers of the sequences of `width`, from those that are one shorter.

    A rare sequence is left out, and with it all longer ones that contain it: they are at least as rare.
    """
    longer = np.full(len(ids), -1, np.int64)
    inside = len(ids) - width + 1
    if inside > 0:
        place = np.flatnonzero((run[:inside] == run[width - 1 :]) & (ids[:inside] >= 0) & (ids[1 : inside + 1] >= 0))
        found, distinct = pd.factorize(ids[place] * (int(names.max()) + 1) + names[place + width - 1])
        is_common = np.bincount(found, minlength=len(distinct)) >= min_count
        longer[place] = np.where(is_common, np.cumsum(is_common) - 1, -1)[found]
    return longer


class _Occurrences(NamedTuple):
    """The counted occurrences of the sequences of one length, in order of (number, place); shapes (k,).

    Attributes:
        ids: Number of the sequence.
        place: Position of its first kernel.
        num: Number of sequences.
    """

    ids: Ints
    place: Ints
    num: int

    @classmethod
    def of(cls, grams: _Grams, width: int, min_count: int) -> _Occurrences:
        """Return the occurrences of frequent maximal sequences, without overlaps within a sequence."""
        ids, n = grams.ids, len(grams.is_maximal)
        wanted = grams.is_maximal & (np.bincount(ids[ids >= 0], minlength=n) >= max(min_count, 1))
        place = np.flatnonzero(ids >= 0)
        place = place[wanted[ids[place]]]
        place = place[_apart(place, ids[place], width)]
        order = np.argsort(ids[place], kind="stable")
        return cls(ids[place[order]], place[order], n)


def _costs(row: _Row, found: _Occurrences, width: int, min_count: int) -> pd.DataFrame:
    """Return a row per frequent sequence."""
    count = np.bincount(found.ids, minlength=found.num)
    busy = np.concatenate([[0], np.cumsum(row.end - row.start)])
    begin = np.searchsorted(found.ids, np.arange(found.num))
    # Idle time between the neighbours of each occurrence.
    gap_ns = np.zeros(len(found.place), np.int64)
    reach = row.end[found.place]
    for offset in range(1, width):
        gap_ns += np.maximum(row.start[found.place + offset] - reach, 0)
        reach = np.maximum(reach, row.end[found.place + offset])
    frame = pd.DataFrame(
        {
            "id": np.arange(found.num),
            "place": np.append(found.place, 0)[begin],
            "length": width,
            "count": count,
            "kernel_ns": sums(busy[found.place + width] - busy[found.place], found.ids, found.num),
            "gap_ns": sums(gap_ns, found.ids, found.num),
        }
    )
    frame["total_ns"] = frame["kernel_ns"] + frame["gap_ns"]
    return frame[frame["count"] >= max(min_count, 1)]


def _distinct(found: pd.DataFrame, occurrences: Mapping[int, _Occurrences], n: int) -> pd.DataFrame:
    """Return the rows, except those with most of their kernels in earlier rows."""
    is_taken, kept = np.zeros(n, bool), []
    for number, width in zip(found["id"].tolist(), found["length"].tolist(), strict=True):
        of = occurrences[width]
        first, last = np.searchsorted(of.ids, [number, number + 1])
        kernels = (of.place[first:last, None] + np.arange(width)).ravel()
        kept.append(2 * int(is_taken[kernels].sum()) <= len(kernels))
        if kept[-1]:
            is_taken[kernels] = True
    return found[np.array(kept, bool)]


def _apart(place: Ints, ids: Ints, width: int) -> Bools:
    """The occurrences to count, without overlaps within a sequence: the first, and each next one without overlap.

    A pointer of each occurrence leads to the next one without overlap. Steps of 2^k find all that the first ones reach.
    """
    order = np.lexsort((place, ids))
    at, of = place[order], ids[order]
    n = len(at)
    key = of * (int(place.max(initial=0)) + width + 1) + at
    following = np.searchsorted(key, key + width)
    following = np.where(np.append(of, -1)[following] == of, following, n)
    counts = np.zeros(n + 1, bool)
    counts[:n] = run_starts(of)
    jump = np.append(following, n)
    while (jump[:n] < n).any():
        counts[jump[counts]] = True
        jump = jump[jump]
    result = np.zeros(n, bool)
    result[order] = counts[:n]
    return result


def _shown(trace: Trace, row: _Row, keys: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    place = found["place"].to_numpy(np.int64)
    lane = row.lane[place]
    texts = trace.events["name"].cat.categories.tolist()
    names = [
        tuple(texts[code] for code in row.name[at : at + width].tolist())
        for at, width in zip(place.tolist(), found["length"].tolist(), strict=True)
    ]
    numbers = {name: found[name].to_numpy(np.int64) for name in ("length", "count", "kernel_ns", "gap_ns", "total_ns")}
    return pd.DataFrame(
        {
            **{name: masked(keys[name].to_numpy()[lane]) for name in keys},
            "sequence": pd.Series(names, dtype=object),
            **numbers,
            "gap_pct": share(numbers["gap_ns"], numbers["total_ns"]),
            "share_pct": share(numbers["kernel_ns"], (row.end - row.start).sum()),
            "first": masked(row.rows[place]),
        }
    )
