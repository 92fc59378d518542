"""What a notebook keeps of a figure: data that front ends draw, a table for those that cannot, its answer as text."""

import json

import plotly.graph_objects as go
import plotly.io as pio
import pytest
from sample_traces import gpu_trace

from cudalens.frames import Ranks
from cudalens.views.assets import contrast, theme
from cudalens.views.figures.style import PLOTLY, finished


@pytest.fixture
def bundles(monkeypatch):
    """What is displayed, in a kernel whose front end plotly does not know."""
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    monkeypatch.setattr(pio.renderers, "_default_name", "plotly_mimetype")
    return shown


def test_a_figure_is_kept_as_data_without_script_and_as_table(bundles):
    trace = gpu_trace()
    drawn = trace.figure("kernel_breakdown")
    drawn._ipython_display_()
    title, bundle = bundles
    assert set(title) == {"text/html", "text/plain"}
    assert "<strong>" in title["text/html"]
    assert set(bundle) == {PLOTLY, "text/html", "text/plain"}
    assert [bar["type"] for bar in json.loads(json.dumps(bundle[PLOTLY]))["data"]] == ["bar"] * len(drawn.data)
    assert "<script" not in bundle["text/html"]
    assert "http" not in bundle["text/html"]
    for name in drawn.layout.yaxis.ticktext:
        assert f">{name}</td>" in bundle["text/html"]


def test_the_title_is_the_text(bundles):
    drawn = gpu_trace().figure("idle_causes")
    drawn._ipython_display_()
    assert "idle: " in bundles[0]["text/plain"]
    assert "<" not in bundles[0]["text/plain"]


def test_the_title_is_shown_once_in_the_colours_of_the_page(bundles):
    drawn = gpu_trace().figure("idle_causes")
    drawn._ipython_display_()
    layout = json.loads(json.dumps(bundles[1][PLOTLY]))["layout"]
    assert "text" not in layout["title"]
    assert layout["height"] < drawn.layout.height
    assert drawn.layout.title.text, "the figure itself keeps it, for files"
    assert bundles[1]["text/plain"] == ""


def test_foreign_names_stay_text(bundles):
    gpu_trace(kernel="<script>alert(1)</script>").figure("kernel_breakdown")._ipython_display_()
    for bundle in bundles:
        assert "<script" not in bundle["text/html"]
        assert "&lt;script&gt;" in bundle["text/html"]


def test_values_are_in_the_row_of_their_bar(bundles):
    ranks = Ranks({0: gpu_trace(), 1: gpu_trace(steps=6)}, name="job")
    ranks.figure("idle_causes")._ipython_display_()
    rows = bundles[1]["text/html"].partition("<tbody>")[2].split("</tr>")[:2]
    assert ["rank 0" in rows[0], "rank 1" in rows[1]] == [True, True]
    assert rows[0].partition("</td>")[2] != rows[1].partition("</td>")[2]


def test_the_title_counts_ranks():
    ranks = Ranks({0: gpu_trace(), 1: gpu_trace()}, name="job")
    assert ranks.figure("temporal_breakdown").layout.title.text.startswith("<b>2 ranks, together ")
    assert ranks.figure("temporal_breakdown", by="stream").layout.title.text.startswith("<b>4 rows, together ")


def test_without_a_mode_it_can_be_read_on_both_grounds():
    drawn = gpu_trace().figure("idle_causes")
    assert drawn.layout.paper_bgcolor == "rgba(0,0,0,0)"
    for mode in ("light", "dark"):
        assert contrast(drawn.layout.font.color, theme()[mode]["bg"]) > 4
        assert gpu_trace().figure("idle_causes", mode=mode).layout.paper_bgcolor == theme()[mode]["bg"]


def test_a_logarithmic_axis_of_few_decades_has_several_ticks():
    for values, ticks in (((12, 40), "D2"), ((1, 90_000), 1)):
        drawn = go.Figure(go.Scatter(x=[1, 2], y=values))
        drawn.update_yaxes(type="log")
        assert finished(drawn, "title", gpu_trace(), "auto").layout.yaxis.dtick == ticks


def test_titles_fit_into_a_page_of_600_px():
    shown = finished(go.Figure(), "idle time of the device " * 20, gpu_trace(), "auto").layout
    lines = shown.title.text.removeprefix("<b>").removesuffix("</b>").split("<br>")
    assert max(map(len, lines)) <= 62
    assert len(lines) <= 3
    assert shown.margin.t >= 14 + 18 * len(lines) + 40  # and a legend of two rows
