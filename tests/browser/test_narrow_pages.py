"""Tables of views without a timeline on narrow pages: no cell is cut off."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_traces import gpu_trace

from cudalens.frames import Ranks
from cudalens.views.sections.html_page import write_page

from .sample_snapshots import random_snapshot, trace_of


def ranks():
    """Two ranks of a job."""
    return Ranks({rank: gpu_trace(rank=rank, world_size=2) for rank in (0, 1)}, name="job")


def memory_diff():
    """The difference of two snapshots with long names."""
    before, after = (trace_of(random_snapshot(seed), name=f"memory_snapshot_of_run_{seed}.pickle") for seed in (1, 2))
    return before.memory_diff(after)


@pytest.mark.parametrize("width", [560, 800])
def test_all_columns_of_pools_are_within_the_page(offline_page, tmp_path, width):
    offline_page.set_viewport_size({"width": width, "height": 700})
    trace = trace_of(random_snapshot(1))
    offline_page.goto(trace.to_html(tmp_path / "report.html").as_uri())
    cells = offline_page.locator("#cudalens-app .cudalens-memory td")
    cells.first.wait_for()
    assert max(cells.evaluate_all("cells => cells.map((cell) => cell.getBoundingClientRect().right)")) <= width


@pytest.mark.parametrize("width", [560, 800])
@pytest.mark.parametrize("view", [ranks, memory_diff])
def test_all_cells_are_within_the_page(offline_page, tmp_path, view, width):
    offline_page.set_viewport_size({"width": width, "height": 700})
    shown = view()
    html = shown._repr_html_() if hasattr(shown, "_repr_html_") else shown.summary()._repr_html_()
    offline_page.goto(write_page(tmp_path / "page.html", "view", html).as_uri())
    cells = offline_page.locator("td")
    assert cells.count() > 4
    edges = cells.evaluate_all("cells => cells.map((cell) => cell.getBoundingClientRect().right)")
    assert max(edges) <= width
