import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_traces import Rows, gpu_trace

from cudalens.frames import RunInfo, Trace
from cudalens.views.timeline import marks


def names_of(frame):
    return list(frame["name"].astype(str))


def test_without_a_selection_all_rows_are_selected():
    trace = gpu_trace()
    assert trace.selection.equals(trace.events)


def test_a_range_selects_what_overlaps_it():
    trace = gpu_trace(1)
    marks.remember(trace, {"range": [450_500.0, 459_000.0]})
    assert set(names_of(trace.selection)) == {"ProfilerStep#0"}
    marks.remember(trace, {"range": [449_000.0, 461_000.0]})
    assert set(names_of(trace.selection)) == {
        "ProfilerStep#0",
        "ampere_sgemm_128x64_tn",
        "Memcpy DtoH (Device -> Pageable)",
    }


def test_names_and_range_narrow_each_other():
    trace = gpu_trace(3)
    marks.remember(trace, {"range": [0.0, 1_500_000.0], "names": ["aten::copy_"]})
    assert names_of(trace.selection) == ["aten::copy_"] * 2


def test_names_that_the_page_has_cut_are_those_of_rows():
    trace = gpu_trace(3)
    row = int(np.flatnonzero(trace.events["name"] == "aten::copy_")[1])
    marks.remember(trace, {"names": ["aten::…"], "name_rows": [row]})
    assert names_of(trace.selection) == ["aten::copy_"] * 3


def test_rows_that_the_trace_does_not_have_select_nothing():
    trace = gpu_trace()
    marks.remember(trace, {"name_rows": [-1, len(trace.events)]})
    assert len(trace.selection) == 0


def test_an_event_selects_what_is_in_subtree_it_and_what_was_launched_from_there():
    trace = gpu_trace(2)
    row = int(np.flatnonzero(trace.events["name"] == "aten::mm")[0])
    marks.remember(trace, {"event": row})
    assert names_of(trace.selection) == ["aten::mm", "aten::mm", "cudaLaunchKernel", "ampere_sgemm_128x64_tn"]


def test_a_kernel_selects_itself_alone():
    trace = gpu_trace(2)
    row = int(np.flatnonzero(trace.events["cat"] == "kernel")[0])
    marks.remember(trace, {"event": row})
    assert list(trace.selection.index) == [row]


def test_a_row_that_does_not_exist_is_refused():
    trace = gpu_trace(1)
    marks.remember(trace, {"event": 10_000})
    with pytest.raises(IndexError, match=r"row 10000, but the trace has 10 events"):
        _ = trace.selection


def test_forgetting_selects_all_again():
    trace = gpu_trace(1)
    marks.remember(trace, {"names": ["aten::mm"]})
    marks.remember(trace, None)
    assert len(trace.selection) == len(trace)


@st.composite
def nested_traces(draw):
    rows = Rows()
    for _ in range(draw(st.integers(1, 25))):
        start, dur, tid = draw(st.integers(0, 60)), draw(st.integers(0, 40)), draw(st.integers(1, 2))
        rows.host(draw(st.sampled_from("abc")), "cpu_op", start, dur, tid=tid)
    return Trace(RunInfo(name="x", source="cpu"), events=rows.to_events())


@given(nested_traces(), st.data())
def test_beneath_is_every_row_whose_ancestors_hold_the_event(trace, data):
    events = trace.events
    row = data.draw(st.integers(0, len(events) - 1))
    parent = events["parent"].to_numpy(dtype=np.int64, na_value=-1)

    def is_in_subtree(k):
        while k not in (-1, row):
            k = parent[k]
        return k == row

    assert list(marks.subtree(events, row)) == [is_in_subtree(k) for k in range(len(events))]
