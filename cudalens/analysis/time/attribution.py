"""Host and GPU time by module, line, range, operator or step, and what each line of code and each step cost."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace, ranked
from cudalens.analysis.critical_path.dependencies import host_rows
from cudalens.analysis.event_arrays import is_within_same
from cudalens.analysis.time.averages import sums_beneath
from cudalens.analysis.time.groups import sums
from cudalens.analysis.time.keys import inherited, is_library_place, own_keys
from cudalens.analysis.time.work import device_work
from cudalens.errors import invalid_choice
from cudalens.frames import Trace
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Ints, integers, map_texts, masked
from cudalens.frames.info import cell_sources

KEYS: Final = ("module", "line", "range", "op", "step")


@ranked
def attribution(trace: Trace, by: str = "module") -> pd.DataFrame:
    """Host and GPU time of each module, line, range, operator or step.

    A host row belongs to its own key, or else to that of the nearest row around it that has one:

    - ``module``: the path of nn.Modules, as the ``module`` column has it, or the chain of ``nn.Module`` calls.
    - ``line``: the innermost line of the user's code in its call stack, ``In[n]:line`` or ``file:line``. Without
      stacks, the first line of the Python function, which torch records.
    - ``range``: the innermost range of the program (`record_function`), without profiler steps.
    - ``op``: the innermost operator, which may be the row itself.
    - ``step``: the profiler step.

    A backward row belongs to the module or line of its forward operator, if that is known (column ``forward``). Device
    work belongs to the key of its launching call.

    Returns:
        A row per key, most GPU time first, then host time. ``key`` (text, Int64 for steps; <NA> for everything without
        a key, such as work without a recorded launch), ``count`` (host rows whose parent has another key),
        ``host_self_ns`` (sum of ``self_dur`` of its rows), ``host_total_ns``, ``device_self_ns`` (sum of durations of
        its device work), ``device_total_ns``, ``num_works``. The self columns add up exactly to the totals of the
        trace: ``self_dur`` of all host rows in the call tree, ``dur`` of all device work. A total is the time of the
        rows whose parent has another key, with all their descendants, whatever their key; a row within another row of
        its key is not counted again. For modules a total is the sum of the self times of the module and of all modules
        within it. For steps and for <NA> it is the self time.

    Raises:
        ValueError: `by` is unknown.
    """
    if by not in KEYS:
        raise invalid_choice("by", by, KEYS)
    events, work = trace.events, device_work(trace)
    parent = integers(events["parent"])
    if by == "step":
        key, texts = integers(events["step"]), None
        of_work = key[work.rows]
    else:
        own, texts = own_keys(trace, by)
        follows = by in ("module", "line")
        forward = integers(events["forward"]) if follows else np.full(len(events), -1)
        key = inherited(np.where(events["device"].isna(), own, -1), parent, forward)
        of_work = np.where(work.launch >= 0, key[work.launch] if len(key) else -1, -1)
    return _Sums(trace, key, of_work, parent).frame(by, texts)


class _Sums:
    """Sums by key."""

    def __init__(self, trace: Trace, key: Ints, of_work: Ints, parent: Ints) -> None:
        self._events, self._work = trace.events, device_work(trace)
        self._parent, self._key, self._of_work = parent, key, of_work
        self._host = np.flatnonzero(host_rows(self._events))
        self.distinct, codes = np.unique(np.concatenate([key[self._host], of_work]), return_inverse=True)
        codes = codes.reshape(-1)
        self._row_code, self._work_code = codes[: len(self._host)], codes[len(self._host) :]

    def frame(self, by: str, texts: list[str] | None) -> pd.DataFrame:
        n, none = len(self.distinct), self.distinct < 0
        length = self._work.end - self._work.start
        host_self = sums(self._events["self_dur"].to_numpy()[self._host], self._row_code, n)
        device_self = sums(length, self._work_code, n)
        begins, host_total, device_total = self._totals(length, n)
        if by == "step":
            host_total, device_total = host_self, device_self
        elif by == "module" and texts is not None:
            host_total, device_total = (self._within(values, texts) for values in (host_self, device_self))
        frame = pd.DataFrame(
            {
                "key": self._keys(texts),
                "count": begins,
                "host_self_ns": host_self,
                "host_total_ns": np.where(none, host_self, host_total),
                "device_self_ns": device_self,
                "device_total_ns": np.where(none, device_self, device_total),
                "num_works": np.bincount(self._work_code, minlength=n),
            }
        )
        order = ["device_self_ns", "host_self_ns"]
        return frame.sort_values(order, ascending=False, kind="stable", ignore_index=True)

    def _keys(self, texts: list[str] | None) -> pd.Series:
        if texts is None:
            return pd.Series(masked(self.distinct))
        return pd.Series([texts[code] if code >= 0 else pd.NA for code in self.distinct.tolist()], dtype="str")

    def _totals(self, length: Ints, n: int) -> tuple[Ints, Ints, Ints]:
        events, parent, key = self._events, self._parent, self._key
        above = np.where(parent >= 0, key[np.maximum(parent, 0)], -2) if len(key) else key
        begins = np.zeros(len(key), bool)
        begins[self._host] = above[self._host] != key[self._host]
        outer, rows = begins.copy(), np.flatnonzero(begins)
        outer[rows] = ~is_within_same(rows, key[rows], parent, events["depth"].to_numpy())
        known = self._work.launch >= 0
        launched = sums(length[known], self._work.launch[known], len(key))
        beneath = sums_beneath(launched, parent, events["depth"].to_numpy())
        at, first = outer[self._host], begins[self._host]
        dur = events["dur"].to_numpy()[self._host]
        return (
            np.bincount(self._row_code[first], minlength=n),
            sums(dur[at], self._row_code[at], n),
            sums(beneath[self._host][at], self._row_code[at], n),
        )

    def _within(self, values: Ints, texts: list[str]) -> Ints:
        """Sums over each module and the modules within it."""
        names = [texts[code] if code >= 0 else "" for code in self.distinct.tolist()]
        place = {name: number for number, name in enumerate(names) if name}
        total = values.copy()
        for number, name in enumerate(names):
            while "." in name:
                name = name.rpartition(".")[0]
                if name in place:
                    total[place[name]] += values[number]
        return total


_PLACE: Final = re.compile(r"(In\[\d+\]):(\d+)$")


@once_per_trace
def line_costs(trace: Trace) -> pd.DataFrame:
    """Return the costs of each line of the user's code, most GPU time first.

    Returns:
        ``place`` (``In[3]:5`` or ``file:line``), ``source`` (the text of the line; missing if unknown), ``num_works``
        (kernels, copies and sets that it launched), ``device_ns`` (their durations), ``host_ns`` (self time of its host
        rows) and ``device_pct`` (share of the GPU time of all device work). Backward work belongs to the line of its
        forward operator. Work of no known line is left out,
        and so are lines of libraries that launched nothing.
    """
    found = attribution(trace, by="line")
    whole = max(int(found["device_self_ns"].sum()), 1)
    found = found[found["key"].notna() & ((found["num_works"] > 0) | (found["host_self_ns"] > 0))]
    is_own = found["key"].map(lambda place: not is_library_place(str(place))).to_numpy(dtype=bool)
    found = found[is_own | (found["num_works"] > 0)]
    source = _sources(trace, found["key"].tolist())
    return pd.DataFrame(
        {
            "place": found["key"].to_numpy(),
            "source": pd.Series(source, dtype="str").to_numpy() if source else pd.Series([], dtype="str"),
            "num_works": found["num_works"].to_numpy(),
            "device_ns": found["device_self_ns"].to_numpy(),
            "host_ns": found["host_self_ns"].to_numpy(),
            "device_pct": (100.0 * found["device_self_ns"] / whole).to_numpy(),
        }
    )


def _sources(trace: Trace, places: list[str]) -> list[str | None]:
    """Return the text of each place: of the waits at it, or of its cell."""
    syncs = trace.syncs
    known: dict[str, str] = {}
    if len(syncs):
        pairs = syncs[syncs["place"].notna() & syncs["source"].notna()]
        known = dict(zip(pairs["place"].astype(str), pairs["source"].astype(str), strict=True))
    named = {match[1] for place in places if (match := _PLACE.match(place))}
    cells = {cell: text.splitlines() for cell, text in cell_sources(trace.info).items()}
    if trace.info.code and len(named) == 1:
        cells = {cell: trace.info.code.splitlines() for cell in named} | cells
    return [known.get(place) or _line(place, cells) for place in places]


def _line(place: str, cells: dict[str, list[str]]) -> str | None:
    if (match := _PLACE.match(place)) is None:
        return None
    number, lines = int(match[2]), cells.get(match[1], [])
    return lines[number - 1].strip() or None if 0 < number <= len(lines) else None


#: A step is an outlier if it is longer than the median by this share of it, and by this multiple of the median
#: deviation from the median.
_SHARE: Final = 0.1
_NUMBER: Final = re.compile(re.escape(STEP_PREFIX) + r"(\d{1,12})$")
_DEVIATIONS: Final = 5.0


@once_per_trace
def step_costs(trace: Trace) -> pd.DataFrame:
    """Return a row per profiler step, in order.

    Returns:
        ``step`` (number), ``row`` (of its range on the host), ``dur_ns`` (its duration there), ``device_ns`` (durations
        of the device work that it launched), ``host_ns`` (self time of its host rows), ``num_works``, ``extra_ns``
        (duration less the median of all) and ``is_outlier`` (longer than the median by 10 % and by five times the
        median absolute deviation; never where there are fewer than 3 steps).
    """
    events = trace.events
    is_step = map_texts(events["name"].array, lambda name: name.startswith(STEP_PREFIX), False)
    rows = np.flatnonzero(is_step & events["device"].isna().to_numpy())
    names = events["name"].array[rows].astype(object)
    known = [(int(row), int(match[1])) for row, name in zip(rows, names, strict=True) if (match := _NUMBER.match(name))]
    rows, step = (np.array([pair[side] for pair in known], np.int64) for side in (0, 1))
    dur = events["dur"].to_numpy()[rows]
    costs = attribution(trace, by="step").dropna(subset=["key"]).astype({"key": "int64"}).set_index("key")
    costs = costs.reindex(step).fillna(0)
    median = int(np.median(dur)) if len(dur) else 0
    spread = float(np.median(np.abs(dur - median))) if len(dur) else 0.0
    extra = dur - median
    return pd.DataFrame(
        {
            "step": step,
            "row": rows,
            "dur_ns": dur,
            "device_ns": costs["device_self_ns"].to_numpy(np.int64),
            "host_ns": costs["host_self_ns"].to_numpy(np.int64),
            "num_works": costs["num_works"].to_numpy(np.int64),
            "extra_ns": extra,
            "is_outlier": (len(dur) >= 3) & (extra > _SHARE * median) & (extra > _DEVIATIONS * spread),
        }
    )
