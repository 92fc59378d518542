"""Waits for the GPU in the verdict, the text, the table and the timeline."""

import html
import re

import numpy as np
import pandas as pd
import pytest

from cudalens.frames import RunInfo, Trace, build_events
from cudalens.frames.catalog_frames import frame_of_rows
from cudalens.views import notebook
from cudalens.views.sections import verdict as text
from cudalens.views.sections import waits
from cudalens.views.sections.page import facts, summary
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text
from cudalens.views.timeline.marks import sync_marks


def trace(*rows, wall_us=1000, asked=True):
    events = build_events(
        {
            "ts": np.array([0, 100_000, 300_000]),
            "dur": np.array([wall_us * 1000, 90_000, 80_000]),
            "name": np.array(["aten::item", "cudaStreamSynchronize", "cudaStreamSynchronize"]),
            "cat": np.array(["cpu_op", "cuda_runtime", "cuda_runtime"]),
            "pid": pd.array([1, 1, 1], dtype="Int64"),
            "tid": pd.array([1, 1, 1], dtype="Int64"),
        }
    )
    info = RunInfo(name="run", source="cuda", options={"syncs": True} if asked else {})
    waits = frame_of_rows(
        "syncs", [{"ts": 200_000 * number, "seen_by": "runtime"} | row for number, row in enumerate(rows)]
    )
    return Trace(info, events=events, syncs=waits)


def wait(dur_us, place="In[3]:5", expression="loss.item()", kind="item", **more):
    return {"dur": 1000 * dur_us, "place": place, "expression": expression, "kind": kind, **more}


def html_of(trace):
    return to_html(waits.section(trace))


def text_of(trace):
    return to_text(waits.section(trace))


VERDICTS = [
    ([wait(90)], "host waited 90.0 µs for the GPU, once: at In[3]:5 loss.item()"),
    ([wait(90), wait(10)], "host waited 100 µs for the GPU, twice: at In[3]:5 loss.item()"),
    (
        [wait(90), wait(10, "In[3]:6", "x[mask]")],
        "host waited 100 µs for the GPU, twice in 2 places: 90.0 µs at In[3]:5 loss.item()",
    ),
    (
        [wait(90), wait(40, "In[3]:9", "torch.cuda.synchronize()", "device synchronize")],
        "host waited 90.0 µs for the GPU, once: at In[3]:5 loss.item() "
        "(and 40.0 µs, once, in explicit synchronizations)",
    ),
    ([wait(40, kind="device synchronize")], "host waited for the GPU only in explicit synchronizations: 40.0 µs, once"),
    ([wait(90, None, None, op="aten::item")], "host waited 90.0 µs for the GPU, once: in aten::item"),
    (
        [wait(90, "/home/me/deep/down/train.py:7")],
        "host waited 90.0 µs for the GPU, once: at down/train.py:7 loss.item()",
    ),
    ([], "no wait for the GPU was seen"),
]


@pytest.mark.parametrize(("rows", "words"), VERDICTS)
def test_the_verdict_names_the_worst(rows, words):
    assert waits.verdict(trace(*rows)) == words
    assert words in text.details(trace(*rows))


def test_without_the_option_only_waits_of_one_percent_are_reported():
    assert waits.verdict(trace(wait(90), asked=False)) != ""
    assert waits.verdict(trace(wait(90), asked=False, wall_us=100_000)) == ""
    assert waits.verdict(trace(wait(900, kind="device synchronize"), asked=False)) == ""
    assert waits.verdict(trace(asked=False)) == ""


def test_the_text_states_what_to_write_instead():
    words = str(summary(trace(wait(90))))
    assert re.search(r"90.0 µs +1  In\[3\]:5 loss.item\(\)  item$", words, re.MULTILINE)
    assert "instead: keep loss on the device" in words


def test_the_heading_has_hidden_waits_and_explicit_synchronizations():
    explicit = wait(40, "In[3]:9", "torch.cuda.synchronize()", "device synchronize")
    assert waits.section(trace(wait(90), wait(10), explicit)).facts == (
        "100 µs in 2 hidden waits; 40.0 µs in 1 explicit synchronization"
    )


def test_a_wait_without_a_line_states_what_records_it():
    assert "not recorded: add --syncs or --stacks" in text_of(trace(wait(90, None, None, op="aten::item")))


def test_a_long_list_is_cut_and_counted():
    words = text_of(trace(*(wait(n + 1, f"In[3]:{n}") for n in range(30))))
    assert words.count("instead:") == 8
    assert "and 22 other places" in words
    table = html_of(trace(*(wait(n + 1, f"In[3]:{n}") for n in range(30))))
    assert table.count("<tr>") == 1 + waits.MAX_ROWS
    assert "and 18 other places" in table


def test_the_table_is_in_saved_notebooks_and_on_the_page():
    run = trace(wait(90, gpu_dur=45_000))
    for page in (notebook.static_html(run), html_of(run)):
        assert "loss.item()" in page
        assert "In[3]:5" in page
    assert facts(run)["syncs"][0] == "details"
    assert facts(trace(asked=False))["syncs"] is None


def test_foreign_text_is_text():
    evil = "<script>alert(1)</script>"
    page = html_of(trace(wait(90, evil, evil, op=evil)))
    assert "<script" not in page
    assert html.escape(evil) in page


def test_waits_that_matter_little_are_folded():
    assert " open" in html_of(trace(wait(90), asked=False))[:80]
    assert " open" not in html_of(trace(wait(1), asked=False, wall_us=100_000))[:80]


def test_marks_are_on_the_calls_of_the_longest_waits():
    first, second = wait(90, event=1), wait(80, "In[3]:6", "x[mask]", "boolean index", event=2)
    marks = sync_marks(trace(second, first, wait(10, "In[3]:7")))
    assert [(mark["group"], mark["at"], mark["dur"]) for mark in marks] == [(0, 100_000, 90_000), (1, 300_000, 80_000)]
    assert marks[0]["title"] == "wait: loss.item() (90.0 µs)"


def test_a_wait_of_unknown_length_is_shown_without_one():
    row = wait(0) | {"dur": None}
    assert "an unknown time" in text_of(trace(row))
    assert html_of(trace(row))
