"""Host and GPU time by module, line, range, operator or step."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import is_within_same
from cudalens.analysis.critical_path.host import host_rows
from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.attribution_keys import inherited, own_keys
from cudalens.analysis.time.averages import sums_beneath
from cudalens.analysis.time.groups import sums
from cudalens.analysis.time.work import device_work
from cudalens.errors import invalid_choice
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, integers, masked

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
