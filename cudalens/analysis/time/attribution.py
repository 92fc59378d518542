"""Host and GPU time by what the user wrote: modules, lines, ranges, operators, steps."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.ancestors import is_within_same
from cudalens.analysis.choices import invalid_choice
from cudalens.analysis.critical_path.host import host_rows
from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.attribution_keys import inherited, own_keys
from cudalens.analysis.time.averages import sums_beneath
from cudalens.analysis.time.work import device_work
from cudalens.frames import Trace

Ints = NDArray[np.int64]

KEYS: Final = ("module", "line", "range", "op", "step")


@ranked
def attribution(trace: Trace, by: str = "module") -> pd.DataFrame:
    """Host and GPU time of each module, line, range, operator or step.

    A host row belongs to the key that it brings itself, or else to that of the nearest row above it that has one:

    - ``module``: the path of nn.Modules, as the ``module`` column has it, or the chain of ``nn.Module`` calls.
    - ``line``: the innermost line of the user's in its call stack, ``In[n]:line`` or ``file:line``. torch names Python
      functions by the line that they begin at; so does this where nothing else is recorded.
    - ``range``: the innermost range that the program opened (`record_function`); profiler steps are none.
    - ``op``: the innermost operator, itself included.
    - ``step``: the profiler step.

    A backward row belongs to the module or line of its forward operator, where that is known (column ``forward``).
    Device work belongs where the call that launched it does.

    Returns:
        A row per key, dearest GPU time first, then host time. ``key`` (text, Int64 for steps; <NA> gathers what
        belongs nowhere, such as work without a recorded launch), ``count`` (host rows that begin the key: their parent
        belongs to another one), ``host_self_ns`` (sum of ``self_dur`` of its rows), ``host_total_ns``,
        ``device_self_ns`` (sum of durations of its device work), ``device_total_ns``, ``num_works``.
        The self columns add up exactly to the totals of the trace: ``self_dur`` of all host rows with a place in the
        call tree, ``dur`` of all device work. A total is the time of the rows that begin the key, with everything
        beneath them, whatever key that belongs to; a row within another of its key is not counted again. For modules
        a total is the sum of the self times of the module and of all modules within it. For steps and for <NA> it is
        the self time.

    Raises:
        ValueError: There is no such key.
    """
    if by not in KEYS:
        raise invalid_choice("by", by, KEYS)
    events, work = trace.events, device_work(trace)
    parent = events["parent"].to_numpy(dtype=np.int64, na_value=-1)
    if by == "step":
        key, texts = events["step"].to_numpy(dtype=np.int64, na_value=-1), None
        of_work = key[work.rows]
    else:
        own, texts = own_keys(trace, by)
        follows = by in ("module", "line")
        forward = events["forward"].to_numpy(dtype=np.int64, na_value=-1) if follows else np.full(len(events), -1)
        key = inherited(np.where(events["device"].isna(), own, -1), parent, forward)
        of_work = np.where(work.launch >= 0, key[work.launch] if len(key) else -1, -1)
    sums = _Sums(trace, key, of_work, parent)
    return sums.frame(by, texts)


class _Sums:
    """Sums by key; the last place of each is for what has none."""

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
        host_self = _sums(self._row_code, self._events["self_dur"].to_numpy()[self._host], n)
        device_self = _sums(self._work_code, length, n)
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
            return pd.Series(pd.arrays.IntegerArray(np.maximum(self.distinct, 0), self.distinct < 0))
        return pd.Series([texts[code] if code >= 0 else pd.NA for code in self.distinct.tolist()], dtype="str")

    def _totals(self, length: Ints, n: int) -> tuple[Ints, Ints, Ints]:
        events, parent, key = self._events, self._parent, self._key
        above = np.where(parent >= 0, key[np.maximum(parent, 0)], -2) if len(key) else key
        begins = np.zeros(len(key), bool)
        begins[self._host] = above[self._host] != key[self._host]
        outer, rows = begins.copy(), np.flatnonzero(begins)
        outer[rows] = ~is_within_same(rows, key[rows], parent, events["depth"].to_numpy())
        launched = np.zeros(len(key), np.int64)
        known = self._work.launch >= 0
        np.add.at(launched, self._work.launch[known], length[known])
        beneath = sums_beneath(launched, parent, events["depth"].to_numpy())
        at, first = outer[self._host], begins[self._host]
        dur = events["dur"].to_numpy()[self._host]
        return (
            np.bincount(self._row_code[first], minlength=n),
            _sums(self._row_code[at], dur[at], n),
            _sums(self._row_code[at], beneath[self._host][at], n),
        )

    def _within(self, values: Ints, texts: list[str]) -> Ints:
        """Sums over each module and the modules within it: those whose path continues its own."""
        names = [texts[code] if code >= 0 else "" for code in self.distinct.tolist()]
        place = {name: number for number, name in enumerate(names) if name}
        total = values.copy()
        for number, name in enumerate(names):  # one turn for each module, not for each event
            while "." in name:
                name = name.rpartition(".")[0]
                if name in place:
                    total[place[name]] += values[number]
        return total


def _sums(code: Ints, values: Ints, n: int) -> Ints:
    total = np.zeros(n, np.int64)
    np.add.at(total, code, values)
    return total
