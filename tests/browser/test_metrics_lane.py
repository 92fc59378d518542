"""The gauges beneath the timeline in a real browser: aligned with it, followed, and read at the pointer."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_traces import gpu_trace
from test_metrics_views import readings

from cudalens.report import to_html

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

READY = ".cudalens[data-state=ready]"
LINE = ".cl-metrics-plot g g path"


@pytest.fixture
def page(offline_page, tmp_path):
    trace = gpu_trace().replace(metrics=readings(61, devices=(0, 1)))
    offline_page.goto(to_html(trace, tmp_path / "report.html").as_uri())
    offline_page.wait_for_selector(READY)
    return offline_page


def test_a_row_per_gauge_and_a_line_per_gpu(page):
    assert page.locator(".cl-metrics-plot > g").count() == 4  # no clock was recorded
    assert page.locator(LINE).count() == 8
    assert "122 readings of 2 GPUs" not in page.locator(".cl-metrics h3").inner_text()
    assert "61 readings of 2 GPUs" in page.locator(".cl-metrics h3").inner_text()


def test_it_is_below_the_timeline_on_its_axis(page):
    timeline = page.locator(".cl-timeline canvas").first.bounding_box()
    plot = page.locator(".cl-metrics-plot").bounding_box()
    assert plot["y"] >= timeline["y"] + timeline["height"]
    assert plot["width"] == pytest.approx(timeline["width"], abs=4)
    ends = page.locator(LINE).first.evaluate("p => [p.getPointAtLength(0).x, p.getPointAtLength(p.getTotalLength()).x]")
    gutter = page.locator(".cl-metrics-base").first.evaluate("p => p.getPointAtLength(0).x")
    share = (ends[0] - gutter) / (plot["width"] - gutter)
    assert share == pytest.approx(0.02 / 1.04, abs=0.01)  # the margin that the timeline leaves


def test_it_follows_the_timeline(page):
    before = page.locator(LINE).first.get_attribute("d")
    box = page.locator(".cl-timeline canvas").first.bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 100)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    page.wait_for_function(
        "([selector, before]) => document.querySelector(selector).getAttribute('d') !== before", arg=[LINE, before]
    )


def test_the_pointer_reads_the_values(page):
    box = page.locator(".cl-metrics-plot").bounding_box()
    page.mouse.move(box["x"] + 500, box["y"] + 20)
    said = page.locator(".cl-metrics-tip").inner_text()
    assert "cuda:0: " in said
    assert "cuda:1: " in said
    assert "100 W, 40 °C" in said
    page.mouse.move(box["x"] + 500, box["y"] - 200)
    assert page.locator(".cl-metrics-tip").inner_text() == ""


def test_without_readings_there_is_no_lane(offline_page, tmp_path):
    offline_page.goto(to_html(gpu_trace(), tmp_path / "report.html").as_uri())
    offline_page.wait_for_selector(READY)
    assert offline_page.locator(".cl-metrics").is_hidden()
