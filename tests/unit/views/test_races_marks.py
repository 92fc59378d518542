import pandas as pd
from sample_races import races_frame, read_after_write
from sample_traces import T0, gpu_trace, hostile_trace

from cudalens.frames import StackTable
from cudalens.views.timeline.marks import MAX_MARKS, race_marks
from cudalens.views.timeline.payload_codec import clipped_times, lane_table


def marked(*changes, trace=None):
    stacks = StackTable()
    trace = gpu_trace() if trace is None else trace
    rows = [read_after_write(stacks, **change) for change in changes]
    return trace.replace(races=races_frame(rows), stacks=stacks.to_frame())


def kernel_of(trace, mark):
    """The event that a mark is drawn on."""
    events = trace.events
    _, start, dur, _ = clipped_times(events)
    lane, _ = lane_table(events)
    (row,) = ((lane == mark["lane"]) & (start == mark["at"]) & (dur == mark["dur"])).nonzero()[0]
    return events.iloc[row]


def test_a_mark_is_on_the_kernel_of_the_operator_that_had_just_ended():
    # In each step aten::copy_ runs from 200 to 250 us; it launches a copy and a kernel that start later.
    for step in range(3):
        trace = marked({"second_op": "aten::copy_", "ts": T0 + step * 1_000_000 + 250_100})
        (mark,) = race_marks(trace)
        event = kernel_of(trace, mark)
        assert event["name"] == "Memcpy DtoH (Device -> Pageable)"
        assert event["ts"] == T0 + step * 1_000_000 + 460_000
        assert mark["title"] == "read after write of grads"
        assert mark["race"] == 0


def test_an_operator_of_the_name_that_still_runs_is_not_it():
    (mark,) = race_marks(marked({"second_op": "aten::copy_", "ts": T0 + 1_000_000 + 249_000}))
    assert mark["at"] == 460_000


def test_without_its_operator_a_race_is_marked_at_its_time():
    (mark,) = race_marks(marked({"second_op": "aten::sum", "ts": T0 + 777}))
    assert mark == {"race": 0, "title": "read after write of grads", "at": 777, "lane": -1, "dur": 0}
    (unnamed,) = race_marks(marked({"second_op": None, "ts": T0 + 777}))
    assert unnamed["lane"] == -1


def test_races_without_a_time_within_the_run_are_not_marked():
    times = (None, T0 - 1, T0 + 10**12)
    assert race_marks(marked(*({"ts": ts, "second_op": "aten::sum"} for ts in times))) == []


def test_suppressed_races_are_not_marked_and_rows_stay_those_of_the_frame():
    marks = race_marks(marked({"is_suppressed": True}, {"ts": T0 + 5}))
    assert [mark["race"] for mark in marks] == [1]


def test_marks_are_bounded_and_their_titles_short():
    marks = race_marks(marked(*({"ts": T0 + k, "second_tensor": "x" * 999} for k in range(MAX_MARKS + 50))))
    assert len(marks) == MAX_MARKS
    assert max(len(mark["title"]) for mark in marks) <= 200


def test_nothing_to_mark():
    assert race_marks(gpu_trace()) == []
    assert race_marks(marked({}, trace=gpu_trace().replace(events=gpu_trace().events.iloc[:0]))) == []
    assert race_marks(marked({"second_op": None}, trace=hostile_trace()))


def test_categories_without_a_value_are_no_trouble():
    trace = marked({"second_tensor": None, "second_op": None, "ts": T0 + 1})
    assert isinstance(trace.races["second_op"].dtype, pd.CategoricalDtype)
    assert race_marks(trace)[0]["title"] == "read after write"
