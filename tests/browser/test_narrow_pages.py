"""Tables of views without a timeline on narrow pages: no cell is cut off."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_traces import LONG_KERNEL, gpu_trace

import cudalens
from cudalens.frames import Ranks
from cudalens.views.sections import costs as cost_tables
from cudalens.views.sections.markup import bar
from cudalens.views.sections.model import Column, Row, Section, Table
from cudalens.views.sections.shown import write_page
from cudalens.views.sections.write_html import to_html

from .sample_snapshots import random_snapshot, trace_of


def ranks():
    """Two ranks of a job."""
    return Ranks({rank: gpu_trace(rank=rank, world_size=2) for rank in (0, 1)}, name="job")


def memory_diff():
    """The difference of two snapshots with long names."""
    before, after = (trace_of(random_snapshot(seed), name=f"memory_snapshot_of_run_{seed}.pickle") for seed in (1, 2))
    return before.memory_diff(after)


def costs():
    """The largest costs of a run whose kernels have long names."""
    return gpu_trace(kernel=LONG_KERNEL).summary()


def comparison():
    """Two runs whose kernels and operators have long names."""
    kernel = "void cudnn::cnn::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, float const*, int)"
    one = gpu_trace(6, kernel=kernel, mm="aten::cudnn_convolution_backward_weight")
    events = one.events
    start = int(events["ts"].min())
    twice = events.assign(ts=start + (events["ts"] - start) * 2, dur=events["dur"] * 2, self_dur=events["self_dur"] * 2)
    return cudalens.compare([one] * 3, [one.replace(events=twice)] * 3)


@pytest.mark.parametrize("width", [560, 800])
def test_all_columns_of_pools_are_within_the_page(offline_page, tmp_path, width):
    offline_page.set_viewport_size({"width": width, "height": 700})
    trace = trace_of(random_snapshot(1))
    offline_page.goto(trace.to_html(tmp_path / "report.html").as_uri())
    cells = offline_page.locator("#cudalens-app .cudalens-memory td")
    cells.first.wait_for()
    assert max(cells.evaluate_all("cells => cells.map((cell) => cell.getBoundingClientRect().right)")) <= width


@pytest.mark.parametrize("width", [560, 800])
@pytest.mark.parametrize("view", [ranks, memory_diff, costs, comparison])
def test_all_cells_are_within_the_page(offline_page, tmp_path, view, width):
    offline_page.set_viewport_size({"width": width, "height": 700})
    shown = view()
    html = shown._repr_html_() if hasattr(shown, "_repr_html_") else shown.summary()._repr_html_()
    offline_page.goto(write_page(tmp_path / "page.html", "view", html).as_uri())
    cells = offline_page.locator("td")
    assert cells.count() > 4
    edges = cells.evaluate_all("cells => cells.map((cell) => cell.getBoundingClientRect().right)")
    assert max(edges) <= width


def test_a_number_beside_a_bar_has_room(offline_page, tmp_path):
    offline_page.set_viewport_size({"width": 600, "height": 700})
    cells = ("train.py:7", (bar("", 0.5), " 5.91 ms (51 %)"), "216", "10.2 ms")
    columns = (Column("line", "line", text_width=60), *cost_tables._LINE_COLUMNS)
    blocks = (Table(columns, [Row(cells)], is_stacked=True),)
    html = to_html(Section("lines", "cl-line", title="Lines", blocks=blocks, is_open=True), has_style=True)
    offline_page.goto(write_page(tmp_path / "page.html", "lines", html).as_uri())
    cells = offline_page.locator("td")
    sizes = cells.evaluate_all("cells => cells.map((cell) => [cell.scrollWidth, cell.clientWidth])")
    assert all(text <= room for text, room in sizes), sizes


@pytest.mark.parametrize("width", [600, 800])
def test_findings_and_waits_of_a_report_without_scripts_are_not_cut(context_of, tmp_path, width):
    page = context_of(java_script_enabled=False, viewport={"width": width, "height": 700}).new_page()
    page.goto(gpu_trace(kernel=LONG_KERNEL).to_html(tmp_path / "report.html").as_uri())
    cells = page.locator("#cudalens-static :is(.cudalens-findings, .cudalens-syncs) td")
    assert cells.count() > 2
    sizes = cells.evaluate_all("cells => cells.map((cell) => [cell.scrollWidth, cell.clientWidth])")
    assert all(text <= room for text, room in sizes), sizes
    assert page.evaluate("document.getElementById('cudalens-static').scrollWidth") <= width


@pytest.mark.parametrize("width", [600, 1400])
@pytest.mark.parametrize(
    "name",
    [
        "void " + "very_long_" * 400 + "kernel(float*)",
        "نواة " + "ضربالمصفوفات" * 40,
        "ליבה <float, 512> " + "כפלמטריצות" * 40 + " (128x64)",
        "\u202egnol\u202c " + "x" * 300,
    ],
    ids=["long", "arabic", "hebrew", "override"],
)
def test_a_report_with_a_long_or_right_to_left_name_does_not_scroll_sideways(offline_page, tmp_path, name, width):
    offline_page.set_viewport_size({"width": width, "height": 700})
    trace = gpu_trace(kernel=name, mm=f"aten::{name}")
    offline_page.goto(trace.to_html(tmp_path / "report.html", title=name).as_uri())
    offline_page.locator("#cudalens-app td").first.wait_for()
    offline_page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert offline_page.evaluate("document.documentElement.scrollWidth") <= width
