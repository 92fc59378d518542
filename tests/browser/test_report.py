"""The offline report in a real browser: nothing is fetched, hostile text stays text, one selection links the panels."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_traces import gpu_trace, hostile_trace

from cudalens.analysis import key_averages, units
from cudalens.report import to_html
from cudalens.views.timeline import marks as selection_module
from cudalens.views.timeline import payload

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

READY = ".cudalens[data-state=ready]"


@pytest.fixture
def open_report(offline_page, tmp_path):
    def open_report(trace, page=offline_page, **options):
        path = to_html(trace, tmp_path / "report.html", **options)
        page.goto(path.as_uri())
        page.wait_for_selector(READY)
        return page

    return open_report


def table_rows(page):
    """The table's rows as the app computed them, all pages."""
    return page.evaluate("() => cudalensReport.panels.table.rows()")


def shown_names(page):
    return page.locator(".cl-table-host td .name").evaluate_all("names => names.map((name) => name.title)")


def select(page, **changes):
    """Make a selection as a panel would."""
    page.evaluate(
        """changes => cudalensReport.selection.set(
          'names' in changes && changes.names ? { ...changes, names: new Set(changes.names) } : changes, 'test')""",
        changes,
    )


def assert_rows_equal(rows, averages):
    """The table's rows are those of key_averages, exactly where they are counts and sums."""
    expected = {(r["name"], int(r["is_device"])): r for r in averages.astype({"name": str}).to_dict("records")}
    assert {(row["name"], row["side"]) for row in rows} == expected.keys()
    for row in rows:
        wanted = expected[row["name"], row["side"]]
        assert [row["count"], row["total"], row["self"], row["min"], row["max"]] == [
            wanted[key] for key in ("count", "total_ns", "self_ns", "min_ns", "max_ns")
        ]
        assert row["mean"] == pytest.approx(wanted["mean_ns"])
        assert row["share"] == pytest.approx(wanted["share_pct"])
        assert (row["std"] is None) == (wanted["count"] == 1)
        if row["std"] is not None:
            assert row["std"] == pytest.approx(wanted["std_ns"], abs=1e-6)


def show_curve(page):
    """Scroll to the curve of memory, which is drawn when it comes on the screen."""
    page.locator(".cl-memory").scroll_into_view_if_needed()
    page.wait_for_selector(".cl-plot svg.main-svg")


def test_the_report_opens_offline_without_a_complaint(open_report):
    page = open_report(gpu_trace())
    assert page.title() == "Profile of cell-3"
    verdict = page.locator(".cl-verdict strong").text_content()
    assert verdict == "3.00 ms, GPU busy 45 %: up to 980 µs (33 %) lost to other host work"
    assert page.locator("#cudalens-static").is_hidden()
    assert page.locator(".cl-timeline canvas").first.is_visible()


def test_plotly_is_evaluated_when_its_figure_comes_on_the_screen(open_report):
    page = open_report(gpu_trace())
    loaded = "() => [...globalThis[Symbol.for('cudalens.libraries')].keys()].map((key) => key.split('@')[0])"
    assert page.evaluate(loaded) == ["datatables.js"]
    assert page.locator(".cl-plot").count() == 0
    show_curve(page)
    assert page.evaluate(loaded) == ["datatables.js", "plotly.js"]
    assert page.locator(".cl-memory .cl-hint").count() == 0


def test_the_canvas_is_painted(open_report):
    page = open_report(gpu_trace())
    colors = page.evaluate(
        """() => {
          const canvas = document.querySelector('.cl-timeline canvas');
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
          return seen.size;
        }"""
    )
    assert colors > 10


def test_a_report_of_limited_size_says_which_events_it_has(open_report, monkeypatch):
    monkeypatch.setattr(payload, "MIN_EVENTS", 60)
    monkeypatch.setattr(payload, "BRIEF_TEXT", payload.MAX_TEXT)  # whole names
    trace = gpu_trace(steps=20)
    page = open_report(trace, max_bytes=0)
    note = page.locator(".cl-part").inner_text()
    assert note.startswith("This page has the last 60 of 200 events, from 14.0 ms on: ")
    assert_rows_equal(table_rows(page), key_averages(trace, np.arange(140, 200)))
    assert page.evaluate("[139, 140].map((row) => cudalensReport.data.eventOf(row) >= 0)") == [False, True]


def test_without_javascript_the_static_part_shows(context_of, tmp_path):
    path = to_html(gpu_trace(), tmp_path / "r.html")
    page = context_of(java_script_enabled=False).new_page()
    page.goto(path.as_uri())
    for part in ("strong", "svg", "table"):
        assert page.locator(f"#cudalens-static {part}").first.is_visible(), part


def test_hostile_names_are_inert(open_report, offline_page):
    page = open_report(hostile_trace())
    names = table_rows(page)
    for index in range(3):
        select(page, event=index)
    select(page, event=None, names=[row["ids"][0] for row in names])
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("img").count() == 0
    assert page.locator("svg[onload]").count() == 0
    assert "</script><img src=x" in page.locator(".cl-table-host").first.evaluate("host => host.shadowRoot.textContent")


def test_the_table_agrees_with_key_averages(open_report):
    trace = gpu_trace(steps=7)
    assert_rows_equal(table_rows(open_report(trace)), key_averages(trace))


def test_the_table_shows_what_it_computed(open_report):
    trace = gpu_trace()
    page = open_report(trace)
    first = key_averages(trace).sort_values("share_pct", ascending=False).iloc[0]
    cells = page.locator(".cl-table-host tbody tr").first.locator("td").all_text_contents()
    assert cells[0] == first["name"]
    assert cells[2:5] == [str(first["count"]), units.duration(first["total_ns"]), units.duration(first["self_ns"])]
    assert cells[5] == f"{units.duration(first['mean_ns'])} ± {units.duration(first['std_ns'])}"


@pytest.mark.parametrize(
    "chosen",
    [
        {"range": [1_020_000, 1_470_000]},
        {"event": "aten::mm"},
        {"range": [0, 1_050_000], "event": "ProfilerStep#1"},
    ],
)
def test_a_range_narrows_the_table_as_it_narrows_the_frame_and_an_event_does_not(open_report, chosen):
    trace = gpu_trace(steps=4)
    page = open_report(trace)
    known = dict(chosen)
    if "event" in chosen:
        row = int(np.flatnonzero(trace.events["name"] == chosen["event"])[0])
        known["event"] = row
        index = page.evaluate("row => cudalensReport.data.eventOf(row)", row)
        select(page, **(chosen | {"event": index}))
    else:
        select(page, **chosen)
    selection_module.remember(trace, known)
    rows = trace.selection
    assert 0 < len(rows) < len(trace)
    assert page.locator(".cl-bar-count").text_content() == f"{len(rows)} events of {len(trace)} selected"
    selection_module.remember(trace, {name: known[name] for name in known if name != "event"})
    assert_rows_equal(table_rows(page), key_averages(trace, trace.selection.index.to_numpy()))


def test_clicking_a_row_selects_its_name_and_again_releases_it(open_report):
    page = open_report(gpu_trace())
    row = page.locator(".cl-table-host tbody tr", has_text="aten::copy_")
    row.click()
    assert row.get_attribute("aria-selected") == "true"
    assert page.locator(".cl-bar-count").text_content() == "3 events of 30 selected"
    assert page.evaluate(
        "() => [...cudalensReport.selection.get().names].map((id) => cudalensReport.data.header.names[id])"
    ) == ["aten::copy_"]
    assert len(shown_names(page)) > 1, "the table stays whole while its rows are being picked"
    row.click()
    assert page.locator(".cl-bar").is_hidden()


def test_all_steps_are_selected_by_their_one_row(open_report):
    page = open_report(gpu_trace(steps=3))
    page.locator(".cl-table-host tbody tr", has_text="ProfilerStep*").click()
    assert page.locator(".cl-bar-count").text_content() == "3 events of 30 selected"


def test_rows_are_selected_by_keyboard(open_report):
    page = open_report(gpu_trace())
    page.locator(".cl-table-host tbody tr", has_text="aten::copy_").focus()
    page.keyboard.press("Enter")
    assert page.locator(".cl-bar-count").text_content() == "3 events of 30 selected"
    page.locator(".cl-clear").focus()
    page.keyboard.press("Enter")
    assert page.locator(".cl-bar").is_hidden()


def test_sorting_and_filtering(open_report):
    trace = gpu_trace()
    page = open_report(trace)
    averages = key_averages(trace).astype({"name": str})
    assert shown_names(page) == list(averages.sort_values("share_pct", ascending=False, kind="stable")["name"])
    page.locator(".cl-table-host th", has_text="Max").click()
    # DataTables sorts in a task of its own.
    names = page.locator(".cl-table-host td .name")
    sync_api.expect(names.first).to_have_attribute("title", averages.loc[averages["max_ns"].idxmax(), "name"])
    page.locator(".cl-table-host input[type=search]").fill("aten")
    sync_api.expect(names).to_have_count(2)
    assert sorted(shown_names(page)) == ["aten::copy_", "aten::mm"]


def test_one_side_alone(open_report):
    trace = gpu_trace()
    page = open_report(trace)
    for label, is_device in (("GPU", True), ("CPU", False)):
        page.locator(".cl-table-host .sides button", has_text=label).click()
        averages = key_averages(trace).astype({"name": str})
        assert sorted(shown_names(page)) == sorted(averages.loc[averages["is_device"] == is_device, "name"])
    page.locator(".cl-table-host .sides button", has_text="All").click()
    assert len(shown_names(page)) == len(key_averages(trace))


def test_the_memory_curve_follows_the_timeline(open_report):
    page = open_report(gpu_trace(steps=4))
    show_curve(page)
    page.evaluate("() => cudalensReport.panels.timeline.zoomTo(1_000_000, 2_000_000)")
    page.wait_for_function(
        "() => document.querySelector('.cl-plot').layout.xaxis.range.every((t, i) => Math.abs(t - [1, 2][i]) < 1e-6)"
    )


def test_a_device_has_its_colour_beside_the_host(open_report):
    alone = gpu_trace()
    kinds = alone.memory["device_type"].astype(object).where(np.arange(len(alone.memory)) % 2 > 0, "cpu")
    both = alone.replace(memory=alone.memory.assign(device_type=kinds.astype("category")))
    colors = []
    for trace in (alone, both):
        page = open_report(trace)
        show_curve(page)
        colors.append(
            page.evaluate(
                "Object.fromEntries(document.querySelector('.cl-plot').data.map((one) => [one.name, one.line.color]))"
            )
        )
    assert colors[0]["cuda:0"] == colors[1]["cuda:0"] != colors[1]["cpu:0"]


def test_a_host_that_frees_more_than_it_allocates_has_no_peak_below_zero(open_report):
    trace = gpu_trace()
    is_host = np.arange(len(trace.memory)) % 2 > 0
    memory = trace.memory.assign(
        device_type=trace.memory["device_type"].astype(object).where(~is_host, "cpu").astype("category"),
        allocated_bytes=trace.memory["allocated_bytes"].where(~is_host, -(64 << 10)),
    )
    page = open_report(trace.replace(memory=memory))
    show_curve(page)
    notes = page.evaluate("() => document.querySelector('.cl-plot').layout.annotations.map(({ text }) => text)")
    names = page.evaluate("() => document.querySelector('.cl-plot').data.map(({ name }) => name)")
    assert len(notes) == 1
    assert not notes[0].startswith("peak -")
    assert sorted(names) == ["cpu:0 (change since the start)", "cuda:0"]


def test_a_curve_that_is_drawn_later_shows_the_window_of_the_timeline(open_report):
    page = open_report(gpu_trace(steps=4))
    page.evaluate("() => cudalensReport.panels.timeline.zoomTo(1_000_000, 2_000_000)")
    show_curve(page)
    shown = page.evaluate("() => document.querySelector('.cl-plot').layout.xaxis.range")
    assert shown == pytest.approx([1, 2], abs=1e-6)


def test_brushing_the_memory_curve_selects_the_time(open_report):
    trace = gpu_trace(steps=4)
    page = open_report(trace)
    show_curve(page)
    drag = page.locator(".cl-plot .nsewdrag").first
    drag.scroll_into_view_if_needed()
    box = drag.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, y, steps=4)
    page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=4)
    page.mouse.up()
    page.wait_for_selector(".cl-bar:not([hidden])")
    t0, t1 = page.evaluate("() => cudalensReport.selection.get().range")
    first, last = page.evaluate("() => document.querySelector('.cl-plot').layout.xaxis.range.map((t) => t * 1e6)")
    assert t0 == pytest.approx(first + 0.25 * (last - first), rel=0.03)
    assert t1 == pytest.approx(first + 0.5 * (last - first), rel=0.03)
    selection_module.remember(trace, {"range": [t0, t1]})
    assert_rows_equal(table_rows(page), key_averages(trace, trace.selection.index.to_numpy()))


def test_clicking_an_event_shows_its_details(open_report):
    trace = gpu_trace(steps=1)
    page = open_report(trace)
    row = int(np.flatnonzero(trace.events["cat"] == "kernel")[0])
    index = page.evaluate("row => cudalensReport.data.eventOf(row)", row)
    x, y = page.evaluate(
        """index => {
          const box = cudalensReport.panels.timeline.boxOf(index);
          const canvas = document.querySelector('.cl-timeline canvas').getBoundingClientRect();
          return [canvas.x + box.x + box.width / 2, canvas.y + box.y + box.height / 2];
        }""",
        index,
    )
    page.mouse.click(x, y)
    details = page.locator(".cl-details")
    assert details.locator(".cl-event").text_content() == "ampere_sgemm_128x64_tn"
    facts = dict(zip(details.locator("dt").all_text_contents(), details.locator("dd").all_text_contents(), strict=True))
    assert facts["Duration"] == "400 µs"
    assert facts["Stream"] == "GPU 0 · stream 7"
    assert facts["Launched by"] == "cudaLaunchKernel"
    assert facts["Waited"] == "20.0 µs"
    assert facts["Row"] == f"trace.events.iloc[{row}]"
    page.locator(".cl-clear").click()
    assert details.is_hidden()


def test_without_memory_there_is_no_card_for_it(open_report):
    page = open_report(gpu_trace(memory=False))
    assert page.locator(".cl-memory").is_hidden()


def test_the_theme_follows_the_browser_and_the_button(open_report):
    page = open_report(gpu_trace())
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector(".cudalens[data-theme=dark]")
    assert page.locator(".cl-table-host.dark").count() == 1
    page.click("#cudalens-theme")
    page.wait_for_selector(".cudalens[data-theme=light]")
    page.emulate_media(color_scheme="light")
    page.click("#cudalens-theme")
    page.wait_for_selector(".cudalens[data-theme=dark]")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(17, 20, 24)"


def test_paper_is_light(open_report, offline_page):
    offline_page.emulate_media(color_scheme="dark")
    page = open_report(gpu_trace())
    assert page.locator("#cudalens-app").get_attribute("data-theme") == "dark"
    page.emulate_media(color_scheme="dark", media="print")
    page.wait_for_selector("#cudalens-app[data-theme=light]")
    page.emulate_media(color_scheme="dark", media="screen")
    page.wait_for_selector("#cudalens-app[data-theme=dark]")


@pytest.mark.parametrize("width", [360, 800, 1500])
def test_the_page_never_scrolls_sideways(open_report, offline_page, width):
    offline_page.set_viewport_size({"width": width, "height": 800})
    page = open_report(gpu_trace())
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_nothing_is_claimed_on_the_page(open_report):
    page = open_report(gpu_trace())
    assert page.evaluate("() => ['$', 'jQuery', 'moduleName'].filter((name) => name in window)") == []


def test_leaving_takes_everything_along(open_report):
    page = open_report(gpu_trace())
    page.evaluate("() => cudalensReport.destroy()")
    assert page.locator("#cudalens-app").inner_html() == ""


def test_the_page_writes_numbers_as_python_does(module_page):
    page = module_page('import * as format from "/js/shared/format.js"; window.format = format; window.isReady = true;')
    for number in (0, 0.25, 1, 999.4, 999.6, 1000, 99_950, 999_600, 1.5e9, 125e9):
        shown = page.evaluate(
            "n => [format.formatDuration(n), format.formatBytes(Math.round(n)), format.formatPercent(n / 2.1e9)]",
            number,
        )
        assert shown == [units.duration(number), units.size(round(number)), units.percent(number / 2.1e9)]
