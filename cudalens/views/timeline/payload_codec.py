"""The container of the binary payload: named integer columns as deflated byte planes, text lists, one JSON header.

Layout (little-endian):

.. code-block:: text

    4 bytes  magic "CLP1"
    4 bytes  codec of every blob: 0 none, 1 zlib
    4 bytes  length of the header's blob
    header   JSON; ``columns`` names the blobs that follow, in their order
    blobs    one after the other

An integer column of n values is cut into byte planes: all lowest bytes, then all second bytes, and so on, since the
upper bytes of small numbers repeat and compress well. A plane of one repeated byte takes no blob at all.
"""

from __future__ import annotations

import json
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.time.keys import is_library_call
from cudalens.frames import tree
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Bools, Ints, integers, is_category, map_texts
from cudalens.views.sections.clean_text import without_controls

MAGIC: Final = b"CLP1"

# Level 6 costs 1 to 2 % in size against 9 and takes a third of its time.
_LEVEL: Final = 6


class PayloadWriter:
    """Collects columns and joins them with a header into one payload."""

    def __init__(self, *, compress: bool) -> None:
        self._compress = compress
        self._columns: dict[str, dict[str, Any]] = {}
        self._blobs: dict[str, list[bytes]] = {}
        self._pool = ThreadPoolExecutor(max_workers=2)

    def add_ints(self, name: str, values: NDArray[np.integer]) -> None:
        """Add column `name` of integers, shape (n,); negative ones are zigzag coded."""
        signed = bool(len(values)) and bool(values.min() < 0)
        coded = zigzag(values) if signed else values.astype(np.uint64)
        planes, blobs = [], []
        for plane in byte_planes(coded):
            if bool((plane == plane[0]).all()):
                planes.append(-1 - int(plane[0]))
            else:
                planes.append(0)
                blobs.append(plane)
        self._columns[name] = {"n": len(values), "signed": signed, "planes": planes}
        self._put(name, [plane.tobytes() for plane in blobs])

    def add_texts(self, name: str, texts: list[str]) -> None:
        """Add column `name` of any texts, without control characters; lone surrogates are kept as JSON escapes."""
        self._columns[name] = {"n": len(texts), "text": 0}
        self._put(name, [json.dumps([without_controls(text) for text in texts]).encode("ascii")])

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self._columns)

    def num_bytes(self, *names: str) -> int:
        """Size of the blobs of the columns `names` as they will be written, bytes."""
        return sum(len(blob) for name in names for blob in self._blobs[name])

    def size_of(self, value: Any) -> int:
        """Size of a JSON `value` as part of the header, bytes."""
        return len(self._coded(json.dumps(value).encode("ascii")))

    def drop(self, *names: str) -> None:
        """Remove the columns `names`."""
        for name in names:
            del self._columns[name], self._blobs[name]

    def to_bytes(self, header: dict[str, Any]) -> bytes:
        """Return the payload, with `header` and what the columns need to be read again."""
        for name, column in self._columns.items():
            sizes = iter([len(blob) for blob in self._blobs[name]])
            if "text" in column:
                column["text"] = next(sizes)
            else:
                column["planes"] = [plane if plane < 0 else next(sizes) for plane in column["planes"]]
        text = json.dumps(header | {"columns": self._columns}, allow_nan=False).encode("ascii")
        head = self._coded(text)
        numbers = np.array([int(self._compress), len(head)], "<u4").tobytes()
        return b"".join([MAGIC, numbers, head, *(blob for blobs in self._blobs.values() for blob in blobs)])

    def _coded(self, raw: bytes) -> bytes:
        return zlib.compress(raw, _LEVEL) if self._compress else raw

    def _put(self, name: str, raw: list[bytes]) -> None:
        # zlib releases the interpreter lock, so planes are compressed in parallel.
        self._blobs[name] = list(self._pool.map(self._coded, raw)) if self._compress else raw


def zigzag(values: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Signed to unsigned, small stays small: 0, -1, 1, -2 become 0, 1, 2, 3. Shape (n,)."""
    wide = values.astype(np.int64)
    return ((wide << 1) ^ (wide >> 63)).view(np.uint64)


def byte_planes(values: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Bytes of `values`, shape (n,), lowest first, as an array of shape (planes, n); no plane above the largest."""
    if not len(values):
        return np.empty((0, 0), np.uint8)
    width = max(1, (int(values.max()).bit_length() + 7) // 8)
    return np.ascontiguousarray(values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].T)


# The order of the payload, and what the page derives: lanes, nesting, self times, rows.
#
# Rows are sent lane by lane, in the order of the frame within each lane. What the page can compute for itself (self
# time, the row in the frame) is not sent; it is computed here in the same way, and only the differences are sent.
#
# With Python stacks, each thread begins with the frames that were open when recording began: of a launcher, ipykernel,
# IPython, asyncio. They take a row each and say nothing about the work. The timeline shows them as one row.

# Doubles are exact for integers up to here; it is 104 days in nanoseconds.
EXACT: Final = 2**53

_MISSING: Final = np.iinfo(np.int64).min
_MAX_LABEL: Final = 200


class Times(NamedTuple):
    """Start and duration, ns, and lane of each row, in the payload's order; each of shape (n,)."""

    start: Ints
    dur: Ints
    lane: Ints


def clipped_times(events: pd.DataFrame) -> tuple[int, Ints, Ints, int]:
    """Origin, start from it and duration of each row, ns, and how many rows had to be clipped to 52 days."""
    ts, dur = events["ts"].to_numpy(), events["dur"].to_numpy()
    if not len(ts):
        return 0, ts, dur, 0
    low, high = int(ts.min()), int(ts.max())
    origin = low if high - low < EXACT // 2 else int(np.partition(ts, len(ts) // 2)[len(ts) // 2]) - EXACT // 4
    start = np.maximum(since(ts, origin), 0)
    length = np.clip(dur, 0, EXACT // 2)
    return origin, start, length, int(((start + origin != ts) | (length != dur)).sum())


def since(ts: Ints, origin: int) -> Ints:
    """`ts` less `origin`, ns, clipped to 52 days either way."""
    # Clip before subtracting: the difference of two int64 may not fit in one.
    return np.clip(ts, max(origin - EXACT // 2, _MISSING), min(origin + EXACT // 2, 2**63 - 1)) - origin


def lane_table(events: pd.DataFrame) -> tuple[NDArray[np.int64], list[dict[str, Any]]]:
    """Lane of each row, shape (n,), and what each lane is: device streams, then threads.

    The thread that runs the profiler's steps comes before the others, then those that launched device work, then those
    with more events. Threads that only wait are the last.
    """
    is_device = events["device"].notna().to_numpy()
    has_tid = events["tid"].notna().to_numpy()
    label = np.where(has_tid | is_device, -1, events["thread"].cat.codes.to_numpy())
    keys = np.stack(
        [
            np.where(is_device, 0, 1),
            np.where(is_device, integers(events["device"], _MISSING), integers(events["pid"], _MISSING)),
            np.where(is_device, integers(events["stream"], _MISSING), integers(events["tid"], _MISSING)),
            label,
        ]
    )
    code = np.zeros(len(events), np.int64)
    for key in keys:
        codes, uniques = pd.factorize(key)
        code = pd.factorize(code * max(len(uniques), 1) + codes)[0]
    firsts = np.full(int(code.max()) + 1 if len(code) else 0, len(code))
    np.minimum.at(firsts, code, np.arange(len(code)))
    weight = np.bincount(code, minlength=len(firsts))
    launches = integers(events["launch"])
    weight[code[launches[launches >= 0]]] += len(code)
    # Rows that are steps of the profiler.
    name = events["name"].cat
    known = np.array([*(str(c).startswith(STEP_PREFIX) for c in name.categories.tolist()), False], bool)
    weight[code[known[name.codes.to_numpy()]]] += 2 * len(code)
    weight[is_idle(events, code, len(firsts))] = 0
    rank = _ranking(keys[:, firsts], weight)
    place = np.empty(len(rank), np.int64)
    place[rank] = np.arange(len(rank))
    thread = _thread_labels(events, code, len(firsts))
    table = [_lane(keys[:, firsts[k]], thread[k]) for k in rank]
    return place[code], table


def _ranking(keys: NDArray[Any], weight: NDArray[np.intp]) -> NDArray[np.intp]:
    """Order of the lanes: devices by device and stream, then threads, the one of most weight first."""
    is_host = keys[0] == 1
    work = np.where(is_host, -weight, 0)
    return np.lexsort((keys[3], keys[2], keys[1], work, is_host))


def _thread_labels(events: pd.DataFrame, code: Ints, num: int) -> list[str]:
    """Return the first thread label that the rows of each lane carry, or ""."""
    codes = events["thread"].cat.codes.to_numpy().astype(np.int64)
    found = np.full(num, -1, np.int64)
    rows = np.flatnonzero(codes >= 0)[::-1]
    found[code[rows]] = codes[rows]
    names = [str(c) for c in events["thread"].cat.categories.tolist()]
    return [names[k] if k >= 0 else "" for k in found]


def _lane(key: NDArray[Any], thread: str) -> dict[str, Any]:
    kind, first, second = int(key[0]), _known(key[1]), _known(key[2])
    if kind == 0:
        label = f"GPU {first}" + ("" if second is None else f" · stream {second}")
        return {"kind": "device", "label": label, "device": first, "stream": _safe(second)}
    label = thread or ("unknown thread" if second is None else "thread")
    if second is not None and str(second) not in label:
        label = f"{label} {second}"
    return {"kind": "host", "label": without_controls(label[:_MAX_LABEL]), "pid": _safe(first), "tid": _safe(second)}


def _known(value: Any) -> int | None:
    return None if int(value) == _MISSING else int(value)


def _safe(value: int | None) -> int | str | None:
    """Return a number that JavaScript reads exactly, or its text."""
    return str(value) if value is not None and abs(value) >= EXACT else value


def nesting(start: Ints, dur: Ints, lane: Ints) -> tuple[Ints, Ints, Ints]:
    """Depth of each row, and start and end minus the values that its neighbours in the tree predict.

    Args:
        start: Start of each row, ns, lane by lane, each lane in order of (start, longest first) where possible.
        dur: Duration, ns.
        lane: Lane of each row, ascending.

    Returns:
        depth: Number of enclosing rows of the same lane.
        gap: Start less the end of the previous sibling; less the parent's start for a first child; less the previous
            root's end for a root (0 at the start of a lane).
        tail: End less the end of the last child; the duration where there is none. Both are small where events nest
            closely, which is why they deflate better than starts and durations.
    """
    parent = tree.parents(start, dur, lane)
    depth = tree.depths(parent).astype(np.int64)
    end = start + dur
    # Roots of one lane are siblings too: their common parent is the lane, numbered below zero.
    above = np.where(parent >= 0, parent, -1 - lane)
    order = np.argsort(above, kind="stable")
    first = np.ones(len(order), bool)
    first[1:] = above[order][1:] != above[order][:-1]
    before = np.empty(len(order), np.int64)
    before[order[1:]] = end[order[:-1]]
    fresh = order[first]
    before[fresh] = np.where(parent[fresh] >= 0, start[parent[fresh]], 0)
    last = np.append(first[1:], True) if len(first) else first
    closing = order[last]
    closing = closing[parent[closing] >= 0]
    tail = dur.copy()
    tail[parent[closing]] = end[parent[closing]] - end[closing]
    return depth, start - before, tail


def derived_self(events: pd.DataFrame, order: Ints, times: Times) -> tuple[NDArray[np.bool_], Ints]:
    """Return which rows are outside of the host's call trees, and the self time of each row, ns; both in payload order.

    Rows of a device are outside as well, but are not marked: their lane shows it. Some host rows are kept out for a
    reason that is not sent (they started and ended on different threads). They are roots without children; where
    the tree without them differs from the frame's, all such rows are marked, which changes nothing for the others.
    """
    is_host = events["device"].isna().to_numpy()[order]
    odd = events["is_instant"].to_numpy() | is_category(events["cat"].array, {"Trace", "overhead"})
    outside = is_host & odd[order]
    wanted = places(events["parent"], order)
    parent = tree.parents(times.start, times.dur, np.where(is_host & ~outside, times.lane, -1))
    if (parent != wanted).any():
        is_alone = wanted < 0
        is_alone[wanted[wanted >= 0]] = False
        outside |= is_host & is_alone
        parent = tree.parents(times.start, times.dur, np.where(is_host & ~outside, times.lane, -1))
    return outside, tree.self_durations(times.dur, parent)


def places(rows: pd.Series, order: Ints) -> Ints:
    """The payload's places of the frame's rows that a column of the frame names, in payload order; -1 for none."""
    named = integers(rows)[order]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    known = (named >= 0) & (named < len(place))
    found = np.full(len(named), -1, np.int64)
    found[known] = place[named[known]]
    return found


def derived_order(start: Ints, dur: Ints) -> Ints:
    """Return the rows, given lane by lane, in the order of a frame: by (start, longest first), then by lane."""
    return tree.sort_order(start, dur)


#: A frame encloses its thread if it lasts at least this share of the time between the first start and the last end.
_SHARE: Final = 0.95
#: Functions in which an idle thread waits; its other frames lead to them.
_WAITS: Final = re.compile(r"\b(?:wait|wait_for_tstate_lock|select|poll|epoll|recv|get|acquire|sleep|accept|read)\b")


def num_enclosing(events: pd.DataFrame, lane: Ints, num_lanes: int) -> Ints:
    """Return how many outermost frames of each lane enclose all of it and lead to a library; shape (num_lanes,).

    The user's own frames below the last such frame of a library do not count: they stay rows of their own.

    Args:
        events: ``trace.events``.
        lane: Lane of each row, shape (n,).
        num_lanes: Number of lanes.
    """
    found = np.zeros(num_lanes, np.int64)
    is_python = is_category(events["cat"].array, ("python_function",))
    is_enclosing = is_python & _is_enclosing(events, lane, num_lanes)
    is_library = map_texts(events["name"].array, is_library_call, False)
    start, dur = events["ts"].to_numpy(), events["dur"].to_numpy()
    for number in np.unique(lane[is_enclosing & is_library]).tolist():
        rows = np.flatnonzero(lane == number)
        rows = rows[np.lexsort((-dur[rows], start[rows]))][: np.count_nonzero(is_enclosing[rows])]
        found[number] = _leading(is_enclosing[rows], is_library[rows])
    return found


def is_idle(events: pd.DataFrame, lane: Ints, num_lanes: int) -> Bools:
    """Return whether a lane only has Python frames that end in a wait; shape (num_lanes,)."""
    is_python = is_category(events["cat"].array, ("python_function",))
    works = ~is_python & ~events["is_instant"].to_numpy()
    is_leaf = np.ones(len(events), bool)
    parent = events["parent"].array.to_numpy(dtype=np.int64, na_value=-1)
    is_leaf[parent[parent >= 0]] = False
    works |= is_leaf & is_python & ~map_texts(events["name"].array, lambda name: bool(_WAITS.search(name)), False)
    has_work = np.bincount(lane, weights=works, minlength=num_lanes) > 0
    return ~has_work & (np.bincount(lane[is_python], minlength=num_lanes) > 0)


def _is_enclosing(events: pd.DataFrame, lane: Ints, num_lanes: int) -> Bools:
    start, dur = events["ts"].to_numpy(), events["dur"].to_numpy()
    is_span = ~events["is_instant"].to_numpy()
    first = np.full(num_lanes, np.iinfo(np.int64).max)
    last = np.full(num_lanes, np.iinfo(np.int64).min)
    np.minimum.at(first, lane[is_span], start[is_span])
    np.maximum.at(last, lane[is_span], (start + dur)[is_span])
    extent = np.where(last > first, last.astype(np.float64) - first, np.inf)
    return dur >= _SHARE * extent[lane]


def _leading(is_enclosing: Bools, is_library: Bools) -> int:
    """Number of rows from the first one, all of which enclose the lane, up to the last one of a library."""
    num = len(is_enclosing) if is_enclosing.all() else int(np.argmin(is_enclosing))
    of_library = np.flatnonzero(is_library[:num])
    return int(of_library[-1]) + 1 if len(of_library) else 0
