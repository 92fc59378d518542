"""A report of more events than the page handles at once: selections are summed in slices, a part of them a frame."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_traces import Rows

from cudalens.analysis import key_averages, units
from cudalens.frames import RunInfo, Trace
from cudalens.report import to_html
from cudalens.views.timeline.marks import remember

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

NUM_CALLS = 30_000


@pytest.fixture(scope="module")
def trace():
    """Operators of varying lengths on one thread; every call launches a kernel, on one of two streams."""
    rows = Rows()
    random = np.random.default_rng(7)
    for number, (wait, length) in enumerate(random.integers(1, 2_000, (NUM_CALLS, 2)).tolist()):
        at = number * 5_000
        rows.host(f"aten::op{number % 3}", "cpu_op", at, 4_000)
        rows.launch(
            f"kernel{number % 2}", at + 100, at + 1_000 + wait, length * (1 + number % 2), stream=7 + number % 2
        )
    info = RunInfo(name="long", source="cuda", started_ns=0, ended_ns=NUM_CALLS * 5_000)
    return Trace(info, events=rows.to_events())


@pytest.fixture
def page(trace, offline_page, tmp_path):
    offline_page.goto(to_html(trace, tmp_path / "report.html").as_uri())
    offline_page.wait_for_selector(".cudalens[data-state=ready]")
    assert offline_page.evaluate("cudalensReport.data.n") == len(trace) > 65_536
    return offline_page


def select(page, start, end):
    page.evaluate("range => cudalensReport.selection.set({ range }, 'test')", [start, end])


def averages_of(trace, start, end):
    remember(trace, {"range": [start, end]})
    averages = key_averages(trace, trace.selection.index.to_numpy()).astype({"name": str})
    columns = ("name", "is_device", "count", "total_ns", "self_ns", "std_ns")
    return {(name, int(on_device)): sums for name, on_device, *sums in averages[list(columns)].to_numpy().tolist()}


def busy_ns(trace, start, end):
    """How long any kernel runs between two times."""
    kernels = trace.events[trace.events["cat"] == "kernel"]
    begin = kernels["ts"].to_numpy() - trace.events["ts"].min()
    busy, until = 0, start
    for one, dur in sorted(zip(begin.tolist(), kernels["dur"].tolist(), strict=True)):
        busy += max(min(one + dur, end) - max(one, until), 0)
        until = max(until, one + dur)
    return busy


def wait_until_shown(page, trace, start, end):
    remember(trace, {"range": [start, end]})
    num = f"{len(trace.selection):,}"
    page.wait_for_function("num => document.querySelector('.cl-bar-count')?.textContent.startsWith(num)", arg=num)
    page.wait_for_function(
        "range => document.querySelector('.cl-flame-note')?.textContent.includes(`of the selected ${range}`)",
        arg=units.duration(end - start),
    )


def test_a_selection_is_summed_as_by_key_averages(page, trace):
    page.locator(".cl-tab", has_text="Flame graph").click()
    for start, end in ((10_000_500, 140_000_500), (20_000_000, 20_500_000)):
        select(page, start, end)
        wait_until_shown(page, trace, start, end)
        rows = page.evaluate("cudalensReport.panels.table.rows()")
        expected = averages_of(trace, start, end)
        shown = {(row["name"], row["side"]): [row["count"], row["total"], row["self"]] for row in rows}
        assert shown == {key: sums[:3] for key, sums in expected.items()}
        for row in rows:
            assert row["std"] == pytest.approx(expected[row["name"], row["side"]][3])
        busy = busy_ns(trace, start, end)
        assert page.locator(".cl-measure").text_content().startswith(f"GPU busy {units.duration(busy)} (")


def test_the_last_of_selections_in_quick_succession_shows(page, trace):
    page.locator(".cl-tab", has_text="Flame graph").click()
    for end in (100_000_000, 50_000_000, 140_000_000, 1_000_000):
        select(page, 0, end)
    wait_until_shown(page, trace, 0, 1_000_000)
    shown = {(row["name"], row["side"]): row["count"] for row in page.evaluate("cudalensReport.panels.table.rows()")}
    assert shown == {key: sums[0] for key, sums in averages_of(trace, 0, 1_000_000).items()}


def test_a_width_that_is_chosen_while_a_selection_is_summed_shows(page):
    page.locator(".cl-tab", has_text="Flame graph").click()
    page.wait_for_function("cudalensReport.panels.flame")
    shown, chosen = page.evaluate(
        """() => {
          const { flame } = cudalensReport.panels;
          const work = flame.update({ range: [0, 100_000_000], event: null, names: null });
          work.next();
          flame.setWeight("host");
          const weights = () => [...flame.flame.graph.weight];
          const chosen = weights();
          while (!work.next().done);
          return [weights(), chosen];
        }"""
    )
    assert shown == chosen
