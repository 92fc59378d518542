"""A repaired trace equals the one before its corruption, and every row number still refers to its row."""

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from trust_traces import BASE, assert_same_trace, found, healthy_rows, host, moved, operators, row, trace_of

from cudalens.analysis import device_time, repaired, trust
from cudalens.frames import Trace

EXAMPLES = examples(10)
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
OPS = [(50, 200, 300, 4_003, 7)] * 6


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(operators, st.integers(1, 10**9))
def test_an_early_device_clock_is_corrected_to_the_nanosecond(ops, by):
    rows = healthy_rows(ops, tight=True)
    trace = repaired(trace_of(moved(rows, -by)))
    assert_same_trace(trace, trace_of(rows))
    assert trace.info.trust.verdict == "repaired"
    assert {f.severity for f in trace.info.trust.findings} == {"repaired"}


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(operators, st.integers(1, 10**9))
def test_a_late_device_clock_is_corrected_to_the_nanosecond(ops, by):
    rows = healthy_rows(ops, tight=True)
    corrupt = trace_of(moved(rows, by))
    trace = repaired(corrupt)
    assert_same_trace(trace, trace_of(rows))
    assert trace.info.trust.verdict == "repaired"
    pd.testing.assert_series_equal(device_time(trace), device_time(corrupt))


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(operators, st.data())
def test_duplicate_host_rows_are_removed(ops, data):
    rows = healthy_rows(ops)
    twice = data.draw(st.sets(st.sampled_from([k for k, r in enumerate(rows) if r["device"] is None]), min_size=1))
    extra = [rows[k] for k in twice for _ in range(data.draw(st.integers(1, 2)))]
    corrupt = trace_of(rows + extra)
    trace, original = repaired(corrupt), trace_of(rows)
    assert_same_trace(trace.replace(memory=original.memory), original)
    assert_links(trace, corrupt)
    (finding,) = trace.info.trust.findings
    assert (finding.rule, finding.severity, finding.count) == ("duplicate rows", "repaired", len(extra))


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(operators, st.integers(1, 10**7), st.data())
def test_both_at_once(ops, by, data):
    rows = healthy_rows(ops, tight=True)
    twice = data.draw(st.sets(st.sampled_from([k for k, r in enumerate(rows) if r["device"] is None]), min_size=1))
    trace = repaired(trace_of(moved(rows, -by) + [rows[k] for k in twice]))
    original = trace_of(rows)
    assert_same_trace(trace.replace(memory=original.memory), original)


def assert_links(trace, corrupt):
    """Allocations are in operators of the same name, time and id as before."""
    for column in ("ts", "name", "external_id"):
        inside, before = trace.memory["event"].astype(int), corrupt.memory["event"].astype(int)
        assert trace.events[column].iloc[inside].tolist() == corrupt.events[column].iloc[before].tolist()


@pytest.mark.parametrize("by", [-900, 10**6])
def test_a_repair_is_made_once_and_always_reported(by):
    trace = repaired(trace_of(moved(healthy_rows(OPS, tight=True), by)))
    again = repaired(trace)
    assert again.info == trace.info
    assert_same_trace(again, trace)
    report = trust(again)
    assert report.trust == trace.info.trust
    assert report.verdict.startswith("repaired: 1 device row starts" if by < 0 else "repaired: 6 device rows end")


def test_a_healthy_trace_stays_as_it_is():
    trace = trace_of(healthy_rows(OPS))
    same = repaired(trace)
    assert all(same.frames[name].equals(frame) for name, frame in trace.frames.items())
    assert same.info.trust.verdict == "clean"


def test_repair_can_be_switched_off():
    corrupt = trace_of(moved(healthy_rows(OPS, tight=True), -900))
    trace = repaired(corrupt, repair=False)
    assert_same_trace(trace, corrupt)
    assert trace.info.trust.verdict == "partial"
    assert trace.info.trust.findings[0].done.startswith("Can be repaired: All device rows move 900 ns later")


def test_one_offset_that_does_not_explain_it_moves_nothing():
    rows = healthy_rows(OPS, tight=True)
    corrupt = trace_of(moved(rows, -10_000, lambda r: r["cat"] == "kernel" and r["correlation_id"] in (100, 101)))
    trace = repaired(corrupt)
    assert_same_trace(trace, corrupt)
    assert trace.info.trust.verdict == "partial"
    assert found(trust(trace), "early work")


def test_work_is_not_moved_beyond_the_end_of_the_recording():
    rows = [r for r in healthy_rows(OPS) if r["name"] != "cudaDeviceSynchronize"]
    corrupt = trace_of(moved(rows, -(10**14), lambda r: r["correlation_id"] == 100 and r["cat"] == "kernel"))
    trace = repaired(corrupt)
    assert_same_trace(trace, corrupt)
    assert trace.info.trust.verdict == "partial"


def test_duplicate_work_is_never_removed():
    rows = healthy_rows(OPS)
    corrupt = trace_of([*rows, next(r for r in rows if r["cat"] == "kernel")])
    trace = repaired(corrupt)
    assert_same_trace(trace, corrupt)
    assert [f.rule for f in trace.info.trust.findings] == ["overlapping work", "duplicate work"]


def test_annotations_move_with_the_work_and_marks_of_waits_stay():
    rows = healthy_rows(OPS, tight=True)
    wait = rows[-1]
    mark = row("Context Sync", "cuda_sync", wait["ts"], wait["dur"], device=0, stream=7, correlation_id=99_999)
    first = next(r for r in rows if r["cat"] == "kernel")
    note = row("step", "gpu_user_annotation", first["ts"], 900, device=0, stream=7)
    corrupt = [*moved(rows, -5_000), mark, *moved([note], -5_000)]
    assert_same_trace(repaired(trace_of(corrupt)), trace_of([*rows, mark, note]))


def test_asynchronous_ranges_keep_having_no_self_time():
    from trust_traces import frame_columns

    from cudalens.frames import build_events

    rows = healthy_rows(OPS, tight=True)

    def traced(these):
        lone = host("a future", "user_annotation", BASE + 30, 10**6, external_id=500)
        mask = np.array([False] * len(these) + [True])
        events = build_events(frame_columns([*these, lone]), async_mask=mask)
        return trace_of(these).replace(events=events)

    assert_same_trace(repaired(traced(moved(rows, -700))).replace(memory=traced(rows).memory), traced(rows))


def test_what_was_done_is_saved_and_older_files_still_open(tmp_path):
    trace = repaired(trace_of(moved(healthy_rows(OPS, tight=True), -900)))
    assert Trace.load(trace.save(tmp_path / "a.cudalens")).info.trust == trace.info.trust
    unchecked = trace_of(healthy_rows(OPS))
    assert Trace.load(unchecked.save(tmp_path / "b.cudalens")).info.trust is None
