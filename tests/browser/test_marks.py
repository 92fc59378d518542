"""Marks with notes: made in a report, shown in its timeline, and carried by its address; from and into a Trace."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_traces import gpu_trace

from cudalens.report import to_html


def test_a_reader_marks_what_is_selected(offline_page, tmp_path):
    trace = gpu_trace()
    start = int(trace.events["ts"].iloc[0])
    trace.mark(start + 1_000_000, "kept in the Trace", dur=200_000)
    page, path = offline_page, to_html(trace, tmp_path / "report.html")
    page.goto(path.as_uri())
    page.wait_for_selector(".cudalens[data-state=ready]")
    notes = page.locator(".cl-mark")
    assert notes.all_text_contents() == ["kept in the Trace"]
    page.evaluate("cudalensReport.selection.set({ range: [100, 5000] }, 'test')")
    page.get_by_label("Note of the mark").fill("<b>here</b>")
    page.get_by_label("Note of the mark").press("Enter")
    assert notes.all_text_contents() == ["<b>here</b>", "kept in the Trace"]
    address = page.get_by_role("button", name="Copy link").get_attribute("data-text")
    page.evaluate("cudalensReport.selection.set({ event: 3, range: null }, 'test')")
    address = page.get_by_role("button", name="Copy link").get_attribute("data-text")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(".cudalens[data-state=ready]")
    assert notes.all_text_contents() == ["<b>here</b>", "kept in the Trace"]
    notes.nth(1).click()
    assert page.evaluate("cudalensReport.selection.get().range") == [1_000_000, 1_200_000]
    page.get_by_role("button", name="Remove the mark <b>here</b>").click()
    assert notes.all_text_contents() == ["kept in the Trace"]
