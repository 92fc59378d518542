"""Questions that a user asks of a profiled cell, answered in a real browser, with the clicks and keys that it takes."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "views"))

from sample_races import race_trace
from sample_traces import T0, Rows, gpu_trace

from cudalens.frames import RunInfo, Trace, build_memory, categorical
from cudalens.report import to_html

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


class User:
    """Works on a page and counts clicks and keys."""

    def __init__(self, page):
        self.page = page
        self.count = 0

    def click(self, selector, text=None, **options):
        self.count += 1
        self.page.locator(selector, has_text=text).first.click(**options)

    def click_event(self, name, number, **options):
        """Click the event `number` of a name in the timeline."""
        x, y = self.page.evaluate(
            """([name, number]) => {
              const { data, panels } = cudalensReport;
              const id = data.header.names.indexOf(name);
              const found = [...data.name.keys()].filter((i) => data.name[i] === id);
              const box = panels.timeline.boxOf(found[number]);
              return [box.x + Math.max(box.width, 1) / 2, box.y + 8];
            }""",
            [name, number],
        )
        self.click(".cl-timeline canvas", position={"x": x, "y": y}, **options)

    def press(self, key):
        self.count += 1
        self.page.keyboard.press(key)

    def text(self, selector):
        return self.page.locator(selector).first.text_content()


@pytest.fixture
def user(offline_page, tmp_path):
    """Opens the report of a trace."""

    def open_report(trace, **options):
        offline_page.goto(to_html(trace, tmp_path / "report.html", **options).as_uri())
        offline_page.wait_for_selector(".cudalens[data-state=ready]")
        return User(offline_page)

    return open_report


@pytest.fixture(scope="module")
def program():
    """A training script with two modules; the second launches more."""
    rows = Rows()
    rows.host("train.py(12): main", "python_function", 0, 1_000_000)
    rows.host("nn.Module: Net_0", "python_function", 10_000, 900_000)
    for name, at, kernel_ns in (("Linear_0", 20_000, 100_000), ("Linear_1", 420_000, 300_000)):
        rows.host(f"nn.Module: {name}", "python_function", at, 200_000)
        rows.host("aten::addmm", "cpu_op", at + 10_000, 100_000)
        rows.launch("sgemm", at + 20_000, at + 40_000, kernel_ns)
    info = RunInfo(name="cell-1", source="cuda", started_ns=0, ended_ns=1_000_000)
    events = rows.to_events()
    return Trace(info, events=events, memory=memory_of(events))


def memory_of(events):
    """The first module allocates 32 MiB and releases 8 of them, then the second allocates 16 MiB."""
    mib = np.array([24, 8, 8, 16]) << 20
    held = np.array([24, 32, 24, 40]) << 20
    return build_memory(
        {
            "ts": T0 + np.array([40_000, 50_000, 60_000, 440_000]),
            "action": categorical(np.array([0, 0, 1, 0]), ["alloc", "free_completed"]),
            "device_type": categorical(np.zeros(4, int), ["cuda"]),
            "device": pd.array([0] * 4, dtype="Int32"),
            "addr": np.array([1, 2, 2, 3], np.uint64) << np.uint64(30),
            "num_bytes": mib,
            "allocated_bytes": pd.array(held, dtype="Int64"),
            "pid": pd.array([100] * 4, dtype="Int64"),
            "tid": pd.array([1] * 4, dtype="Int64"),
        },
        events,
    )


def test_which_line_launches_the_most_gpu_time(user, program):
    who = user(program)
    who.click(".cl-tab", "Lines")
    assert "Functions: main (train.py) launched 2 GPU operations, 400 µs GPU (100 %)" in who.text(
        ".cudalens-lines summary"
    )
    assert who.count <= 1


def test_how_long_the_gpu_idles_between_two_kernels(user, program):
    who = user(program)
    who.click_event("sgemm", 0)
    who.click_event("sgemm", 1, modifiers=["Shift"])
    assert "GPU busy 0 ns (0.0 %), idle 300 µs" in who.text(".cl-measure")
    assert who.count <= 2


def test_all_calls_of_one_kernel(user):
    who = user(gpu_trace())
    who.click(".cl-table-host tbody tr", "ampere_sgemm")
    assert who.text(".cl-bar-count") == "3 events of 30 selected"
    assert who.count <= 2


def test_which_module_takes_the_most_gpu_time(user, program):
    who = user(program)
    who.click(".cl-tab", "Modules")
    assert "most GPU time in Net_0.Linear_1 (300 µs)" in who.text(".cudalens-modules summary")
    assert who.count <= 2
    rows = who.page.locator(".cudalens-modules tbody tr:visible")
    assert rows.count() == 3
    who.page.get_by_role("button", name="Modules in Net_0").click()
    assert rows.count() == 1, "the modules within it are folded"


def test_which_module_holds_the_most_memory_at_the_peak(user, program):
    who = user(program)
    who.click(".cl-tab", "Modules")
    assert "most memory at the peak: Net_0.Linear_0 (24.0 MiB)" in who.text(".cudalens-modules summary")
    assert who.count <= 2


def test_what_changed_against_another_run(user):
    who = user(gpu_trace(), against=gpu_trace(steps=2, name="before"))
    who.click(".cl-tab", "Flame graph")
    assert "red: more than in the other run" in who.text(".cl-flame-note")
    assert who.count <= 1


def test_where_the_second_access_of_a_race_is(user):
    who = user(race_trace())
    assert "Later access" in who.text(".cudalens-races")
    assert "In[7]:8" in who.text(".cudalens-races")
    assert who.count == 0


def test_the_calls_around_a_kernel(user, program):
    who = user(program)
    who.click_event("sgemm", 1)
    terms = who.page.locator(".cl-details dt").all_text_contents()
    texts = who.page.locator(".cl-details dd").all_text_contents()
    callers = dict(zip(terms, texts, strict=True))["Called from"].split("\n")
    assert callers == [
        "cudaLaunchKernel",
        "aten::addmm",
        "nn.Module: Linear_1",
        "nn.Module: Net_0",
        "main \u00b7 train.py:12",
    ]
    assert who.count <= 1


def test_details_of_an_event_without_scrolling(user, program):
    who = user(program)
    who.page.set_viewport_size({"width": 1000, "height": 700})
    num_rows = len(who.page.evaluate("cudalensReport.panels.table.rows()"))
    who.click_event("sgemm", 1)
    box = who.page.locator(".cl-details").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 700
    assert who.page.evaluate("scrollY") == 0
    assert who.text(".cl-event") == "sgemm"
    assert who.count <= 1
    assert len(who.page.evaluate("cudalensReport.panels.table.rows()")) == num_rows, "the table stays"
    current = who.page.locator(".cl-table-host tbody tr.current")
    assert [text.strip() for text in current.locator(".name").all_text_contents()] == ["sgemm"]


def test_details_stay_in_view_in_a_window_that_is_too_low(user, program):
    who = user(program)
    who.page.set_viewport_size({"width": 1000, "height": 420})
    who.click_event("sgemm", 1)
    box = who.page.locator(".cl-details").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 420


def test_the_launch_of_a_kernel_and_the_next_kernel(user, program):
    who = user(program)
    who.click_event("sgemm", 0)
    who.press("Enter")
    assert who.text(".cl-event") == "cudaLaunchKernel"
    assert who.count <= 2
    who.press("Enter")
    assert who.text(".cl-event") == "sgemm"
    who.press("ArrowRight")
    assert "at 460 µs" in who.text(".cltl-spoken") or "460" in who.text(".cl-details")


def test_details_name_the_option_that_records_what_is_missing(user, program):
    who = user(program)
    who.click_event("aten::addmm", 0)
    facts = dict(
        zip(
            who.page.locator(".cl-details dt").all_text_contents(),
            who.page.locator(".cl-details dd").all_text_contents(),
            strict=True,
        )
    )
    assert facts["Input shapes"] == "not recorded: add --shapes (torch: record_shapes=True)"
    assert "Call stack" not in facts, "Python functions were recorded"


def test_all_keys_are_listed_by_one(user, program):
    who = user(program)
    who.click(".cltl-group button", "?")
    listed = who.text(".cltl-keys")
    assert "go to its launch or its kernel" in listed
    assert who.count <= 1
    who.page.locator(".cltl canvas").focus()
    who.press("Escape")
    assert who.page.locator(".cltl-keys").is_hidden()


def test_back_to_the_window_before(user, program):
    who = user(program)
    who.page.emulate_media(reduced_motion="reduce")
    shown = "cudalensReport.panels.timeline.getView()"
    whole = who.page.evaluate(shown)
    who.page.locator(".cltl canvas").focus()
    who.press("+")
    zoomed = who.page.evaluate(shown)
    assert zoomed != whole
    who.press("b")
    assert who.page.evaluate(shown) == whole
    who.press("Shift+B")
    assert who.page.evaluate(shown) == zoomed


def test_the_answer_and_a_finding_as_text(user):
    who = user(gpu_trace(steps=4))
    answer = who.page.locator(".cl-verdict-row .cl-copy")
    assert answer.get_attribute("data-text").startswith("3.00 ms, GPU busy 60 %: up to 1.47 ms (49 %) lost to")
    finding = who.page.locator(".cudalens-findings .cl-copy").first.get_attribute("data-text")
    title, seen, advice = finding.split("\n\n")
    assert title == "**other host work (likely)**: 1.47 ms (49 %)"
    assert seen.startswith("The GPU was idle for 1.47 ms in 3 gaps")
    assert advice.startswith("Try: move that work")
    who.click(".cudalens-findings .cl-copy")
    assert who.page.locator(".cl-details").is_hidden(), "copying selects nothing"
    assert who.count <= 1


def test_a_picture_of_the_lanes(user, program, tmp_path):
    who = user(program)
    with who.page.expect_download() as waited:
        who.click(".cltl-tools button", "PNG")
    waited.value.save_as(tmp_path / "lanes.png")
    assert (tmp_path / "lanes.png").read_bytes().startswith(b"\x89PNG")
    assert who.count <= 1
