"""Waits for the GPU in words: what the verdict says of them, and the table of the plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from cudalens.analysis import summarize_syncs, syncs, units
from cudalens.frames import Trace
from cudalens.views.races.text import times

_NOTABLE: Final = 0.01
"""Share of the wall time from which waits are told of that nobody asked for."""

_MAX_ROWS: Final = 8
_MAX_NAME: Final = 48
_MAX_PLACE: Final = 40


def was_asked(trace: Trace) -> bool:
    """Whether the run looked for waits."""
    return bool(trace.info.options.get("syncs"))


def is_notable(trace: Trace) -> bool:
    """Whether waits are to be told of without being asked: hidden ones that took a share of the time worth having."""
    if was_asked(trace):
        return True
    if not len(trace.syncs):
        return False
    return summarize_syncs(syncs(trace)).hidden_ns >= _NOTABLE * wall_ns(trace)


def wall_ns(trace: Trace) -> int:
    """Length of the measured window; of the events where no window is known."""
    info, events = trace.info, trace.events
    if info.started_ns is not None and info.ended_ns is not None:
        return info.ended_ns - info.started_ns
    return int((events["ts"] + events["dur"]).max() - events["ts"].min()) if len(events) else 0


def verdict(trace: Trace) -> str:
    """``host waited 12.3 ms for the GPU, 40 times in 3 places: 9.10 ms at In[3]:5 loss.item()``; "" where none matters.

    The waits that are told of are hidden ones; what the program asked for by name is named beside them, or alone.
    """
    if not is_notable(trace):
        return ""
    found = summarize_syncs(syncs(trace))
    if found.worst is None:
        return "no wait for the GPU was seen"
    if not found.num_hidden:
        return f"host waited for the GPU only where told to: {_amount(found.explicit_ns, found.num_explicit)}"
    where = f" in {units.plural(found.num_places, 'place')}" if found.num_places > 1 else ""
    line = f"host waited {units.duration(found.hidden_ns)} for the GPU, {times(found.num_hidden)}{where}"
    is_all = found.num_places == 1 and found.worst["count"] == found.num_hidden
    most = "" if is_all else f"{_known(found.worst['total_ns'])} "
    asked = f" (and {_amount(found.explicit_ns, found.num_explicit)} where told to)" if found.num_explicit else ""
    return f"{line}: {most}{name_of(found.worst)}{asked}"


def _amount(total_ns: int, count: int) -> str:
    return f"{units.duration(total_ns)}, {times(count)}"


def _known(ns: Any) -> str:
    return "an unknown time" if pd.isna(ns) else units.duration(int(ns))


def name_of(group: Mapping[str, Any]) -> str:
    """``at In[3]:5 loss.item()``, or ``in aten::item`` where no place is known; of a file its last two parts."""
    what = group["expression"] or group["source"]
    if group["place"]:
        return f"at {short_place(group['place'])}{f' {units.shorten(what, _MAX_NAME)}' if what else ''}"
    return f"in {units.shorten(group['op'] or group['kind'], _MAX_NAME)}"


def short_place(place: str) -> str:
    """A place with the last two parts of its path at most."""
    parts = place.replace("\\", "/").split("/")
    return units.shorten("/".join(parts[-2:]), _MAX_PLACE)


def report_text(trace: Trace) -> str:
    """The costliest waits as lines, each with what to write instead; "" where none matters."""
    groups = syncs(trace)
    if groups.empty or not is_notable(trace):
        return ""
    shown = groups.head(_MAX_ROWS)
    lines = ["Waits of the host for the GPU"]
    for group in shown.to_dict("records"):
        lines.append(f"  {_known(group['total_ns']):>8}  {times(group['count'])} {name_of(group)} ({kind_text(group)})")
        lines.append(f"            instead: {units.shorten(group['advice'], 160)}")
    if len(groups) > len(shown):
        lines.append(f"  and {units.plural(len(groups) - len(shown), 'other place')}: cudalens.analysis.syncs(trace)")
    return "\n".join(lines)


def kind_text(group: Mapping[str, Any]) -> str:
    """``item, aten::item``."""
    return ", ".join(units.shorten(part, _MAX_NAME) for part in (group["kind"], group["op"]) if part)
