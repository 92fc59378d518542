"""The table of waits in a real browser: in the report, and what a row shows in the timeline."""

import pytest
import torch

import cudalens

READY = ".cudalens[data-state=ready]"
ROWS = "#cudalens-app .cudalens-syncs tbody tr"


@pytest.fixture
def page(offline_page, tmp_path):
    with cudalens.virtual.device("h100"):
        x = torch.ones(2000, 2000, device="cuda")
        with cudalens.profile("waits", syncs=True, keep=False) as run:
            (x @ x).sum().item()
            torch.cuda.synchronize()
            x.cpu()
    offline_page.goto(run.trace.to_html(tmp_path / "report.html").as_uri())
    offline_page.wait_for_selector(READY)
    return offline_page


def test_the_longest_wait_comes_first_with_what_to_write_instead(page):
    first = page.locator(ROWS).first.inner_text()
    assert "x.cpu()" in first
    assert "host.copy_(x, non_blocking=True)" in first
    assert page.locator(ROWS).count() == 3


def test_a_row_shows_its_longest_wait_in_the_timeline(page):
    view = "() => globalThis.cudalensReport.panels.timeline.getView()"
    page.evaluate("() => globalThis.cudalensReport.panels.timeline.zoomTo(0, 1000)")
    before = page.evaluate(view)
    row = page.locator(ROWS).first
    row.click()
    assert row.get_attribute("data-chosen") == ""
    page.wait_for_function(f"(before) => ({view})()[1] !== before[1]", arg=before)


def test_rows_are_within_reach_of_the_keyboard(page):
    row = page.locator(ROWS).nth(1)
    row.focus()
    page.keyboard.press("Enter")
    assert row.get_attribute("data-chosen") == ""
    assert page.locator(f"{ROWS}[data-chosen]").count() == 1


def test_the_table_is_there_without_scripts(page):
    assert page.locator("#cudalens-static .cudalens-syncs tbody tr").count() == 3


def test_the_legend_has_the_marks_of_waits(page):
    assert "Host waits for GPU" in page.locator(".cltl-legend").inner_text()
