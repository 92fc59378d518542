"""What each line of the user's code launched: kernels, GPU time and CPU time, with its text where that is known."""

from __future__ import annotations

import re
from typing import Final

import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.time.attribution import attribution
from cudalens.analysis.time.attribution_keys import is_library_place
from cudalens.frames import Trace
from cudalens.frames.cell_sources import cell_sources

_PLACE: Final = re.compile(r"(In\[\d+\]):(\d+)$")


@once_per_trace
def line_costs(trace: Trace) -> pd.DataFrame:
    """The costs of each line of the user's code, most GPU time first.

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
    """The text of each place: of the waits at it, or of its cell."""
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
