"""Marks of a Trace: added, saved, and exchanged with the page."""

import pytest
from sample_traces import gpu_trace

from cudalens import Trace
from cudalens.views.timeline.marks import keep_marks, marks_for_page
from cudalens.views.widget import timeline


def rows(trace):
    return list(trace.marks.astype({"note": object}).itertuples(index=False, name=None))


def test_marks_are_in_time_order_and_saved(tmp_path):
    trace = gpu_trace()
    trace.mark(2_000, "later", dur=5)
    trace.mark(1_000, "earlier")
    assert rows(trace) == [(1_000, 0, "earlier"), (2_000, 5, "later")]
    assert rows(Trace.load(trace.save(tmp_path / "t.cudalens"))) == rows(trace)


def test_a_mark_cannot_end_before_it_begins():
    with pytest.raises(ValueError, match="dur=-1: expected the length"):
        gpu_trace().mark(0, "no", dur=-1)


def test_marks_of_the_page_are_kept_in_the_trace():
    trace = gpu_trace()
    start = int(trace.events["ts"].min())
    view = timeline(trace)
    view._marks = [{"at": 1_500.4, "dur": 10, "note": "from the page"}]
    assert rows(trace) == [(start + 1_500, 10, "from the page")]
    assert marks_for_page(trace) == [{"at": 1_500, "dur": 10, "note": "from the page"}]
    assert timeline(trace)._marks == marks_for_page(trace)


def test_a_mark_that_a_page_does_not_know_stays():
    trace = gpu_trace()
    start = int(trace.events["ts"].min())
    view = timeline(trace)
    trace.mark(start + 10, "made in Python")
    view._marks = [{"at": 20, "dur": 0, "note": "from the page"}]
    assert rows(trace) == [(start + 10, 0, "made in Python"), (start + 20, 0, "from the page")]
    view._marks = []
    assert rows(trace) == [(start + 10, 0, "made in Python")]


def test_a_note_that_is_no_valid_text_is_kept_without_its_bad_characters(tmp_path):
    trace = gpu_trace()
    trace.mark(5, "a\ud800b")
    assert rows(Trace.load(trace.save(tmp_path / "t.cudalens"))) == [(5, 0, "a?b")]


@pytest.mark.parametrize(
    "sent", [None, "x", [3], [{"at": "1", "dur": 0}], [{"at": 1, "dur": -1}], [{"at": float("nan"), "dur": 0}]]
)
def test_what_is_not_a_mark_is_left_out(sent):
    trace = gpu_trace()
    keep_marks(trace, [], sent)
    assert rows(trace) == []
