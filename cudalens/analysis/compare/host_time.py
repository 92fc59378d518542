"""The host time of a step's operators without interruptions, for comparisons on machines that other programs use.

A process that waits for a processor makes some of its operators much longer, others not at all. The shortest
of many repeats of the same work is hardly affected. So of each operator's work the least self time counts, times the
number of its calls.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.frames import Trace
from cudalens.frames.columns import integers, is_category

#: Calls of an operator whose least times differ by less than this factor count as the same work.
_ALIKE: Final = 1.5


@once_per_trace
def least_host_ns(trace: Trace) -> float | None:
    """Host time of the operators of a step, each with the least self time of the same work, ns.

    The same work are the calls of one operator at one place of the step, over all steps, and at places whose least
    times differ by less than `_ALIKE`. Without steps, it is the time of the whole run. Time between operators is not
    in it. None without operators.
    """
    events = trace.events
    is_op = is_category(events["cat"].array, ("cpu_op",))
    step = integers(events["step"])
    rows = np.flatnonzero(is_op & (step >= 0)) if (is_op & (step >= 0)).any() else np.flatnonzero(is_op)
    if not len(rows):
        return None
    calls = pd.DataFrame(
        {
            "name": events["name"].array.codes[rows],
            "step": step[rows],
            "own": events["self_dur"].to_numpy()[rows],
        }
    )
    calls["place"] = calls.groupby(["name", "step"], sort=False).cumcount()
    places = calls.groupby(["name", "place"], sort=False)["own"].agg(["min", "size"]).reset_index()
    return float(_total(places) / calls["step"].nunique())


def _total(places: pd.DataFrame) -> float:
    """The least time of each group of places of one operator, times its calls."""
    ordered = places.sort_values(["name", "min"], kind="stable")
    names, least = ordered["name"].to_numpy(), ordered["min"].to_numpy(np.float64)
    times, first, name = np.empty(len(least)), 0.0, None
    for k, (this, value) in enumerate(zip(names.tolist(), least.tolist(), strict=True)):
        if this != name or value > _ALIKE * first:
            name, first = this, value
        times[k] = first
    return float((times * ordered["size"].to_numpy()).sum())
