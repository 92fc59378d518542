"""The largest changes between two runs, as bars to the left (less time) and to the right (more)."""

from __future__ import annotations

from typing import Final

import plotly.graph_objects as go

from cudalens.analysis.compare import Comparable, Differences, differences
from cudalens.frames import Trace
from cudalens.views import compare_text, units
from cudalens.views.compare import BETTER, UNSURE, WORSE, color_of

_MAX_BARS: Final = 20
_LABELS: Final = {BETTER: "less", WORSE: "more", UNSURE: "may be noise"}


def figure(trace: Trace, *, other: Comparable, by: str | None = None) -> go.Figure:
    """What changed from `trace` to `other`.

    Args:
        trace: The run before.
        other: The run after: a Trace, several, or Ranks.
        by: ``kernels``, ``ops``, ``modules`` or ``memory``; None for kernels where there are any, else operators.

    Raises:
        ValueError: `by` is none of these.
    """
    return draw(differences(trace, other), by)


def draw(found: Differences, by: str | None = None) -> go.Figure:
    """The figure of what was `found`; arguments as of `figure`."""
    key = by or ("kernels" if len(found.kernels) else "ops")
    if key not in compare_text.SECTIONS:
        raise ValueError(f"by={by!r} is unknown; expected one of {', '.join(map(repr, compare_text.SECTIONS))}.")
    is_memory = key == "memory"
    unit, scale, axis = ("bytes", 1 << 20, "MiB") if is_memory else ("ns", 1e6, f"ms a {found.whole.unit}")
    rows = compare_text.changed(getattr(found, key)).head(_MAX_BARS).iloc[::-1]
    delta, status = rows[f"delta_{unit}"].to_numpy(), rows["status"].tolist()
    names = [compare_text.row_name(row) for row in rows.to_dict("records")]
    colors = [color_of(value, state) for value, state in zip(delta.tolist(), status, strict=True)]
    drawn = go.Figure()
    for color, label in _LABELS.items():
        at = [k for k, one in enumerate(colors) if one == color]
        if at:
            drawn.add_bar(
                x=[delta[k] / scale for k in at],
                y=at,
                orientation="h",
                marker_color=color,
                name=label,
                text=[units.shorten(names[k], 200) for k in at],
                textposition="none",
                hovertemplate="%{text}<br>%{x:.3g} " + axis + "<extra></extra>",
            )
    short = [units.shorten(name, 44) for name in names]
    drawn.update_layout(
        title_text=units.shorten(compare_text.verdict(found).partition("; ")[0], 120), barmode="overlay"
    )
    drawn.update_yaxes(tickmode="array", tickvals=list(range(len(short))), ticktext=short, automargin=True)
    drawn.update_xaxes(title_text=f"difference, {axis}", zeroline=True)
    return drawn
