"""The largest changes between two runs, as bars to the left (less time) and to the right (more)."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go

from cudalens.analysis.compare.runs import Comparable, Differences, differences
from cudalens.errors import invalid_choice
from cudalens.frames import Trace
from cudalens.views.compare.changes import BETTER, SECTIONS, UNSURE, WORSE, changed, color_of, row_name
from cudalens.views.compare.verdict import verdict
from cudalens.views.figures.style import Mode, finished, label, nothing

_MAX_BARS: Final = 20
_LABELS: Final = {BETTER: "less", WORSE: "more", UNSURE: "may be noise"}


def figure(trace: Trace, *, other: Comparable, by: str | None = None, mode: Mode = "auto") -> go.Figure:
    """Return what changed from `trace` to `other`.

    Args:
        trace: The run before.
        other: The run after: a Trace, several, or Ranks.
        by: ``kernels``, ``ops``, ``modules`` or ``memory``; None for kernels where there are any, else operators.
        mode: ``light`` or ``dark``.

    Raises:
        ValueError: `by` or `mode` is none of these.
    """
    return draw(differences(trace, other), by, mode)


def draw(found: Differences, by: str | None = None, mode: Mode = "auto") -> go.Figure:
    """Return the figure of what was `found`; arguments as of `figure`."""
    key = by or ("kernels" if len(found.kernels) else "ops")
    if key not in SECTIONS:
        raise invalid_choice("by", by, SECTIONS)
    title = verdict(found).partition("; ")[0]
    some = next((t for side in (found.a, found.b) for t in side.traces if t.info.is_simulated), found.b.traces[0])
    rows = changed(getattr(found, key)).head(_MAX_BARS)
    if rows.empty:
        return nothing(title, some, mode)
    unit, scale, axis = ("bytes", 1 << 20, "MiB") if key == "memory" else ("ns", 1e6, f"ms a {found.whole.unit}")
    delta = (rows[f"delta_{unit}"] / scale).tolist()
    names = [row_name(row) for row in rows.to_dict("records")]
    drawn = go.Figure()
    for color, meaning in _LABELS.items():
        at = [k for k, state in enumerate(rows["status"]) if color_of(delta[k], state) == color]
        if at:
            drawn.add_bar(
                x=[delta[k] for k in at],
                y=at,
                orientation="h",
                marker={"color": color, "line": {"width": 0}},
                name=meaning,
                customdata=[label(names[k], 200) for k in at],
                hovertemplate="%{customdata}<br>%{x:.3g} " + axis + "<extra></extra>",
            )
    ticks = {"tickvals": list(range(len(names))), "ticktext": [label(name) for name in names]}
    drawn.update_yaxes(tickmode="array", autorange="reversed", automargin=True, **ticks)
    drawn.update_xaxes(title_text=f"difference, {axis}")
    return finished(drawn, title, some, mode, rows=len(names))
