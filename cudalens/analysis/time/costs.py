"""What each line of the user's code and each step of the profiler cost."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.time.attribution import attribution
from cudalens.analysis.time.attribution_keys import is_library_place
from cudalens.frames import Trace
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import map_texts
from cudalens.frames.info import cell_sources

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
