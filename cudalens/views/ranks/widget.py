"""The live view of a job's ranks: choose the step, the ranks and the collective that the pictures show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import ipywidgets
import pandas as pd

from cudalens.analysis import units
from cudalens.frames import Ranks
from cudalens.views.ranks import pictures, section
from cudalens.views.sections.model import Section
from cudalens.views.sections.write_html import to_html

_MAX_COLLECTIVES: Final = 50
_MAX_RANKS: Final = 32
_WIDTHS: Final = {"step": "420px", "ranks": "200px", "collective": "520px"}
_STYLE: Final = {"description_width": "80px"}


def widget(ranks: Ranks) -> ipywidgets.VBox:
    """`ranks` with controls: a step and ranks for the merged timeline, and a collective for the arrivals."""
    return _RanksView(ranks).box


class _RanksView:
    """Redraws a picture when its control changes.

    Attributes:
        box: The widget.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        analysis = ranks.analysis
        steps = sorted(set(ranks.frames["stretches"]["step"].tolist()) - {-1})
        times = analysis.steps[analysis.steps["step"].isin(steps)].groupby("step")["step_ns"].max()
        slowest = int(times.idxmax()) if len(times) else (steps or [0])[0]
        self._step = ipywidgets.SelectionSlider(options=steps or [0], value=slowest, description="step", style=_STYLE)
        self._chosen = ipywidgets.SelectMultiple(
            options=list(ranks),
            value=pictures.interesting(ranks),
            description="ranks",
            rows=min(max(len(ranks), 2), 8),
            style=_STYLE,
        )
        self._collective = ipywidgets.Dropdown(
            options=collectives(analysis.collectives), description="collective", style=_STYLE
        )
        for control in (self._step, self._chosen, self._collective):
            control.layout = ipywidgets.Layout(width=_WIDTHS[control.description], max_width="100%")
        self._timeline, self._fan = ipywidgets.HTML(), ipywidgets.HTML()
        self._step.observe(self._draw_timeline, "value")
        self._chosen.observe(self._draw_timeline, "value")
        self._collective.observe(self._draw_fan, "value")
        self._draw_timeline()
        self._draw_fan()
        parts: list[Any] = [ipywidgets.HTML(section.summary(ranks, has_pictures=False)._repr_html_())]
        parts += [ipywidgets.HTML(_html(section.work_map(ranks)))]
        if steps:
            parts += [ipywidgets.HBox([self._step, self._chosen], layout={"flex_flow": "row wrap"}), self._timeline]
        if self._collective.options:
            parts += [self._collective, self._fan]
        parts += [ipywidgets.HTML(_html(section.bandwidths(ranks)))]
        self.box = ipywidgets.VBox(parts)
        self.box.add_class("cudalens-ranks-live")

    def _draw_timeline(self, _change: Any = None) -> None:
        chosen = list(self._chosen.value)[:_MAX_RANKS]
        picture = pictures.merged_timeline(self._ranks, step=self._step.value, chosen=chosen)
        self._timeline.value = _html(section.timeline(picture, f"Step {self._step.value}"))

    def _draw_fan(self, _change: Any = None) -> None:
        fan = pictures.arrival_fan(self._ranks, match=self._collective.value)
        self._fan.value = _html(section.arrivals(fan, "Arrivals at the collective"))


def _html(found: Iterable[Section]) -> str:
    """Without the style sheet, which the summary has."""
    return "".join(to_html(Section("ranks", "cr", blocks=(one,))) for one in found)


def collectives(found: pd.DataFrame) -> list[tuple[str, int]]:
    """Labels and matches of the collectives with the longest waits."""
    known = found[(found["match"] >= 0).to_numpy() & (found["members"] > 1).to_numpy()]
    if not len(known):
        return []
    waited = known.groupby("match")["wait_ns"].sum().sort_values(ascending=False, kind="stable").head(_MAX_COLLECTIVES)
    first = known.drop_duplicates("match").set_index("match")
    return [(_label(first.loc[match], float(ns)), int(match)) for match, ns in waited.items()]


def _label(row: pd.Series, waited_ns: float) -> str:
    group = "" if pd.isna(row["process_group"]) else f" of {row['process_group']}"
    step = "" if pd.isna(row["step"]) else f", step {row['step']}"
    return f"{row['kind']}{group}{step}: {units.duration(waited_ns)} waited"
