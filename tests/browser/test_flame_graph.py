"""The flame graph of a report, by what cudalens.analysis.flame_graph computes, and the bar of what is selected."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_traces import Rows, gpu_trace

from cudalens.analysis import flame_graph
from cudalens.frames import RunInfo, Trace
from cudalens.report import to_html
from cudalens.views.timeline import payload
from cudalens.views.timeline.marks import remember

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

FLAME = "cudalensReport.panels.flame"
PATHS = f"""() => {{
  const {{ flame: {{ graph }}, paths }} = {FLAME};
  const path = (k) => k > 0 ? [...path(paths.parent[k]), paths.labels[paths.label[k]]] : [];
  return paths.parent.map((_, k) => [path(k).join(';'), graph.weight[k], graph.before?.[k] ?? 0]).slice(1);
}}"""


@pytest.fixture
def report(offline_page, tmp_path):
    """Opens the report of a trace, with the tab of the flame graph."""

    def open_report(trace, **options):
        offline_page.goto(to_html(trace, tmp_path / "report.html", **options).as_uri())
        offline_page.wait_for_selector(".cudalens[data-state=ready]")
        offline_page.locator(".cl-tab", has_text="Flame graph").click()
        return offline_page

    return open_report


def by_analysis(trace, weight):
    """Width of each path of `flame_graph`, all profiler steps as one."""
    frame = flame_graph(trace, weight)
    paths, found = [], {}
    for row in frame.itertuples():
        name = "ProfilerStep*" if row.name.startswith("ProfilerStep#") else row.name
        paths.append(name if row.depth == 0 else f"{paths[row.parent]};{name}")
        found[paths[-1]] = found.get(paths[-1], 0) + row.width_ns
    return found


@pytest.mark.parametrize("weight", ["device", "host"])
def test_widths_are_those_of_the_analysis(report, weight):
    page = report(gpu_trace())
    page.evaluate(f"weight => {FLAME}.setWeight(weight)", weight)
    shown = {path: width for path, width, _ in page.evaluate(PATHS) if width}
    assert shown == by_analysis(gpu_trace(), weight)


def test_a_selected_range_clips_the_events_at_its_ends(report):
    page = report(gpu_trace())
    page.evaluate("() => cudalensReport.selection.set({ range: [100_000, 300_000] }, 'test')")
    widths = {path.rpartition(";")[2]: width for path, width, _ in page.evaluate(PATHS)}
    assert widths["ampere_sgemm_128x64_tn"] == 200_000
    page.evaluate(f"() => {FLAME}.setWeight('host')")
    assert sum(width for path, width, _ in page.evaluate(PATHS) if ";" not in path) == 200_000
    assert "of the selected 200 µs" in page.locator(".cl-flame-note").text_content()


def test_a_click_zooms_and_a_search_sums_what_it_finds(report):
    page = report(gpu_trace())
    page.get_by_label("Search call paths").fill("sgemm")
    matches = page.locator(".cl-flame-graph .mm-tools .mm-muted")
    assert matches.text_content() == "1.20 ms (89 %), 3 kernels"
    page.locator(".mm-flame-canvas").click(position={"x": 30, "y": 28})
    assert page.evaluate(f"() => {FLAME}.flame.root") > 0
    page.locator(".cl-flame-graph button", has_text="Whole graph").click()
    assert page.evaluate(f"() => {FLAME}.flame.root") == 0


def test_a_hidden_graph_has_the_width_of_the_page_when_it_is_shown_again(report):
    page = report(gpu_trace())
    page.locator(".cl-tab", has_text="Operators and kernels").click()
    for width in (600, 900):
        page.locator(".cl-tab", has_text="Operators and kernels").click()
        page.set_viewport_size({"width": width, "height": 700})
        page.locator(".cl-tab", has_text="Flame graph").click()
        page.wait_for_function(
            "() => { const canvas = document.querySelector('.mm-flame-canvas');"
            " return canvas.clientWidth === canvas.closest('.mm-flame-stage').clientWidth; }"
        )


def test_another_run_colours_the_graph(report):
    page = report(gpu_trace(), against=gpu_trace(steps=2, name="before"))
    before = {path: weight for path, _, weight in page.evaluate(PATHS) if weight}
    assert before == by_analysis(gpu_trace(steps=2), "device")
    assert "red: more than in the other run" in page.locator(".cl-flame-note").text_content()
    assert page.get_by_role("button", name="against before").get_attribute("aria-pressed") == "true"


def selected_rows(page):
    """Rows of trace.events that the page has selected."""
    return page.evaluate(
        """async () => {
          const { data, selection } = cudalensReport;
          const { range, event, names } = selection.get();
          const found = [];
          for (let i = 0; i < data.n; i++) {
            const end = data.start[i] + data.dur[i];
            const isIn = range === null || (data.dur[i] ? data.start[i] < range[1] && end > range[0]
              : data.start[i] >= range[0] && data.start[i] <= range[1]);
            if (isIn && (names === null || names.has(data.name[i]))) found.push(data.rowOf(i));
          }
          return found;
        }"""
    )


@pytest.mark.parametrize("selection", ["{ range: [30_000, 260_000.5] }", "{ names: new Set([0, 2]) }"])
def test_the_copied_expression_selects_the_same_rows(report, selection):
    trace = gpu_trace()
    page = report(trace)
    page.evaluate(f"() => cudalensReport.selection.set({selection}, 'test')")
    expression = page.locator(".cl-copy", has_text="Copy pandas").get_attribute("data-text")
    chosen = eval(expression, {"trace": trace})
    rows = np.flatnonzero(trace.events.index.isin(chosen.index))
    assert len(rows)
    assert sorted(rows) == sorted(selected_rows(page))


PART_SELECTIONS = {
    "{ range: [15_000_020, 17_460_000.5] }": {"range": [15_000_020, 17_460_000.5]},
    "{ names: new Set([cudalensReport.data.header.names.indexOf('aten::mm')]) }": {"names": ["aten::mm"]},
    "{ event: cudalensReport.data.eventOf(150) }": {"event": 150},
    "{ event: cudalensReport.data.eventOf(150), range: [0, 15_050_000] }": {"event": 150, "range": [0, 15_050_000]},
}


@pytest.mark.parametrize("chosen", PART_SELECTIONS)
def test_the_copied_expression_of_a_part_selects_the_rows_of_the_part(report, monkeypatch, chosen):
    monkeypatch.setattr(payload, "MIN_EVENTS", 60)
    trace = gpu_trace(steps=20)
    page = report(trace, max_bytes=0)
    first_row = page.evaluate("() => cudalensReport.data.header.first_row")
    assert first_row == 140
    page.evaluate(f"() => cudalensReport.selection.set({chosen}, 'test')")
    expression = page.locator(".cl-copy", has_text="Copy pandas").get_attribute("data-text")
    rows = eval(expression, {"trace": trace}).index
    remember(trace, PART_SELECTIONS[chosen])
    in_part = trace.selection.index[trace.selection.index >= first_row]
    assert len(rows)
    assert sorted(rows) == sorted(in_part)
    assert page.locator(".cl-bar-count").text_content() == f"{len(rows)} events of 60 selected"


def test_the_copied_expression_has_the_names_of_the_trace_where_the_page_has_cut_ones(report, monkeypatch):
    monkeypatch.setattr(payload, "MIN_EVENTS", 60)
    rows = Rows()
    for number in range(60):
        rows.host(f"{'module.' * 10}layer{number % 3}", "cpu_op", number * 1_000, 500)
    info = RunInfo(name="long names", source="cpu", started_ns=0, ended_ns=60_000)
    trace = Trace(info, events=rows.to_events())
    page = report(trace, max_bytes=0)
    page.evaluate("() => cudalensReport.selection.set({ names: new Set([cudalensReport.data.name[1]]) }, 'test')")
    expression = page.locator(".cl-copy", has_text="Copy pandas").get_attribute("data-text")
    assert eval(expression, {"trace": trace}).index.tolist() == list(range(1, 60, 3))


def test_a_range_is_measured(report):
    page = report(gpu_trace())
    page.evaluate("() => cudalensReport.selection.set({ range: [0, 500_000] }, 'test')")
    measured = page.locator(".cl-measure").text_content()
    assert measured.startswith("GPU busy 430 µs (86 %), idle 70.0 µs; 2 GPU events, ")


def test_steps_go_through_the_events_of_one_name(report):
    page = report(gpu_trace())
    starts = []
    page.evaluate("() => cudalensReport.selection.set({ event: cudalensReport.data.name.indexOf(0) }, 'test')")
    for _ in range(3):
        page.locator(".cl-bar button", has_text="same name").last.click()
        starts.append(page.evaluate("() => cudalensReport.data.start[cudalensReport.selection.get().event]"))
    assert len(set(starts)) == 3


def test_a_link_shows_the_same_again(report, tmp_path):
    page = report(gpu_trace())
    page.evaluate("() => cudalensReport.selection.set({ range: [100_000, 300_000], names: new Set([1]) }, 'test')")
    page.evaluate("() => cudalensReport.panels.timeline.zoomTo(50_000, 900_000)")
    page.evaluate("() => cudalensReport.selection.set({ names: new Set([2]) }, 'test')")
    link = page.locator(".cl-copy", has_text="Copy link").get_attribute("data-text")
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".cudalens[data-state=ready]")
    shown = page.evaluate(
        "() => [cudalensReport.selection.get().range, [...cudalensReport.selection.get().names],"
        " cudalensReport.panels.timeline.getView()]"
    )
    assert shown == [[100_000, 300_000], [2], [50_000, 900_000]]


def inverted(trace, weight):
    """Width of each path from the inside out, of `flame_graph`'s own weights."""
    found = {}
    widths = by_analysis(trace, weight)
    own = dict(widths)
    for path, width in widths.items():
        above, _, _ = path.rpartition(";")
        if above:
            own[above] -= width
    for path, width in own.items():
        names = path.split(";")[::-1]
        for depth in range(1, len(names) + 1):
            turned = ";".join(names[:depth])
            found[turned] = found.get(turned, 0) + width
    return {path: width for path, width in found.items() if width}


@pytest.mark.parametrize("weight", ["device", "host"])
def test_the_inverted_graph_shows_who_calls_what_takes_time(report, weight):
    trace = gpu_trace(steps=2)
    page = report(trace)
    page.evaluate(f"weight => {FLAME}.setWeight(weight)", weight)
    page.locator(".mm-choice button", has_text="who calls it").first.click()
    shown = {path: width for path, width, _ in page.evaluate(PATHS) if width}
    assert shown == inverted(trace, weight)


def test_the_inverted_graph_compares_two_runs(report):
    page = report(gpu_trace(steps=2), against=gpu_trace(steps=1, name="before"))
    page.evaluate(f"{FLAME}.setInverted(true)")
    before = {path: width for path, _, width in page.evaluate(PATHS) if width}
    assert before == inverted(gpu_trace(steps=1), "device")
