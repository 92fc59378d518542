"""idle_time against a loop over gaps and single nanoseconds, and its causes by example."""

import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import host, launch, launched, trace_of, work
from recorded_traces import TRACES, needs_recorded, opened

from cudalens.analysis import idle_causes, idle_time, temporal_breakdown
from cudalens.analysis.time.idle import CAUSES

PARTS = [f"{cause}_ns" for cause in CAUSES]
ZERO = 1_000_000


def gaps_of(rows):
    """Gaps of one group by a set of single nanoseconds: (start, end)."""
    busy = {p for r in rows for p in range(r["ts"], r["ts"] + r["dur"])}
    first, last = min(r["ts"] for r in rows), max(r["ts"] + r["dur"] for r in rows)
    found, begin = [], None
    for point in range(first, last + 1):
        if point in busy or point == last:
            if begin is not None:
                found.append((begin, point))
            begin = None
        elif begin is None:
            begin = point
    return found


def expected(trace, start, end, following):
    """The parts of one gap by the words of the definition; `following` is its next work, a row of the events."""
    events = trace.events
    call = events["launch"][following]
    if pd.isna(call) or events["ts"][call] > end:
        return [0, 0, 0, 0, end - start]
    begun, returned = events["ts"][call], events["ts"][call] + events["dur"][call]
    if returned <= start:
        return [0, 0, 0, end - start, 0]
    asked = min(max(begun, start), end)
    waits = events[events["name"] == "cudaDeviceSynchronize"]
    running = {p for ts, dur in zip(waits["ts"], waits["dur"], strict=True) for p in range(ts, ts + dur)}
    lost, back = len(running.intersection(range(start, asked))), start
    while start in running and back - 1 in running:
        back -= 1
        lost += 1
    sync = min(lost, asked - start)
    device = events[events["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])]
    free = asked
    if has_expected_cause(events, device, call, following):
        ends = device["ts"] + device["dur"]
        free = min(max(ends[ends <= end].max(), asked), end)
    return [asked - start - sync, sync, end - free, free - asked, 0]


def has_expected_cause(events, device, call, following):
    tid = events["tid"][call]
    earlier = events.loc[: call - 1] if call else events.iloc[:0]
    waits = earlier[(earlier["name"] == "cudaStreamWaitEvent") & (earlier["tid"] == tid)]
    mine = device[(device["stream"] == device["stream"][following]) & (device["device"] == device["device"][following])]
    calls = [c for c in mine["launch"].dropna() if events["tid"][c] == tid and c < call]
    return len(waits) > 0 and waits.index.max() > max(calls, default=-1)


@settings(max_examples=examples(30), deadline=None)
@given(launched(), st.sampled_from(["device", "stream"]), st.integers(0, 4))
def test_against_a_loop(rows, by, min_ns):
    trace = trace_of(rows, at=ZERO)
    frame = idle_time(trace, by, min_ns=min_ns)
    events = trace.events
    device = events[events["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])]
    keys = ["device", "stream"][: 1 + (by == "stream")]
    wanted = []
    for _, group in device.groupby(keys):
        for start, end in gaps_of(group.to_dict("records")):
            following = group.index[group["ts"] >= end][0]
            if end - start >= min_ns:
                wanted.append([start, end - start, following, *expected(trace, start, end, following)])
    assert frame[["ts", "gap_ns", "next", *PARTS]].to_numpy().tolist() == wanted
    for row in frame.to_dict("records"):
        assert row["cause"] == CAUSES[max(range(5), key=lambda i, row=row: (row[PARTS[i]], -i))]
    totals = idle_causes(trace, by, min_ns=min_ns)
    assert totals["part_ns"].sum() == frame["gap_ns"].sum()
    assert (totals["part_ns"] > 0).all()


def one_gap(rows, **options):
    frame = idle_time(trace_of(rows), **options)
    assert len(frame) == 1
    return frame.iloc[0]


def test_the_host_was_in_an_operator_of_a_module():
    rows = [launch(0, 5, 1), work(10, 10, call=1), launch(100, 5, 2), work(110, 10, call=2)]
    rows += [host(30, 65, "aten::nonzero", module="Net/head"), host(40, 40, "aten::empty"), host(96, 12, "aten::add")]
    gap = one_gap(rows)
    assert (gap["cause"], gap["host_ns"], gap["launch_ns"], gap["gap_ns"]) == ("host", 80, 10, 90)
    assert (gap["host_op"], gap["host_module"], gap["next_op"]) == ("aten::empty", "Net/head", "aten::add")


def test_the_users_line_is_named_where_python_was_recorded():
    rows = [launch(0, 5, 1), work(10, 10, call=1), launch(100, 5, 2), work(110, 10, call=2)]
    rows += [
        host(1, 108, "train.py(12): step", "python_function"),
        host(30, 60, "torch/nn/x.py(3): f", "python_function"),
    ]
    assert one_gap(rows)["host_line"] == "train.py(12): step"


def test_what_a_wait_cost_is_its_whole_length_but_not_more_than_the_gap():
    rows = [launch(0, 2, 1), work(5, 45, call=1), host(20, 32, "cudaStreamSynchronize", "cuda_runtime")]
    gap = one_gap([*rows, launch(60, 2, 2), work(64, 5, call=2)])
    assert (gap["cause"], gap["sync_ns"], gap["host_ns"], gap["launch_ns"]) == ("sync", 10, 0, 4)
    gap = one_gap([*rows, launch(150, 2, 2), work(154, 5, call=2)])
    assert (gap["cause"], gap["sync_ns"], gap["host_ns"]) == ("host", 32, 68)
    assert trace_of(rows).events["name"][gap["sync"]] == "cudaStreamSynchronize"


@pytest.mark.parametrize("later", [False, True])
def test_the_wait_that_a_gap_is_put_down_to(later):
    rows = [launch(0, 2, 1), work(5, 10, call=1), host(3, 4, "cudaEventSynchronize", "cuda_runtime")]
    rows += [host(20, 30, "cudaStreamSynchronize", "cuda_runtime"), launch(60, 2, 2), work(64, 5, call=2)]
    if later:  # the wait in which the gap began says most
        rows.append(host(12, 6, "cudaDeviceSynchronize", "cuda_runtime"))
    gap, names = one_gap(rows), trace_of(rows).events["name"]
    assert names[gap["sync"]] == ("cudaDeviceSynchronize" if later else "cudaStreamSynchronize")
    assert (gap["sync_ns"], gap["host_ns"], gap["launch_ns"]) == ((36, 9, 4) if later else (30, 15, 4))


def test_queued_work_waits_for_another_stream():
    rows = [launch(0, 1, 1), work(5, 5, call=1), launch(2, 1, 2), work(6, 60, stream=20, call=2)]
    rows += [launch(4, 1, 3), work(70, 5, call=3)]
    gap = one_gap(rows, by="stream")
    assert (gap["cause"], gap["dependency_ns"]) == ("dependency", 60)
    assert trace_of(rows).events["stream"][gap["waited_for"]] == 20


@pytest.mark.parametrize(("marked", "cause"), [(None, "dependency"), (7, "dependency"), (20, "launch")])
def test_a_stream_that_waits_for_an_event(marked, cause):
    rows = [launch(0, 1, 1), work(5, 5, call=1), launch(2, 1, 2), work(6, 60, stream=20, call=2)]
    rows += [
        host(20, 1, "cudaStreamWaitEvent", "cuda_runtime", correlation_id=9),
        launch(22, 1, 3),
        work(70, 5, call=3),
    ]
    if marked:
        rows.append(work(20, 1, "Stream Wait Event", stream=marked, call=9, cat="cuda_sync"))
    gap = one_gap(rows, by="stream")
    assert (gap["cause"], gap["host_ns"]) == (cause, 12)
    assert (gap["dependency_ns"], gap["launch_ns"]) == ((44, 4) if cause == "dependency" else (0, 48))


def test_a_thread_that_made_no_stream_wait_launches_work_without_a_dependency():
    """The other thread's wait comes first of all; this thread's first launch has nothing before it."""
    rows = [host(0, 1, "cudaStreamWaitEvent", "cuda_runtime", tid=2, correlation_id=9)]
    rows += [launch(2, 1, 1, tid=2), work(5, 5, call=1), launch(4, 1, 2, tid=2), work(6, 60, stream=20, call=2)]
    rows += [launch(22, 1, 3, tid=1), work(70, 5, call=3)]
    gap = one_gap(rows, by="stream")
    assert (gap["cause"], gap["dependency_ns"], gap["launch_ns"]) == ("launch", 0, 48)


def test_work_without_or_before_its_launch_is_unknown():
    assert one_gap([work(0, 5), work(20, 5)])["cause"] == "unknown"
    assert one_gap([work(0, 5), work(20, 5, call=1), launch(30, 2, 1)])["unknown_ns"] == 15


def test_bad_options_and_empty_traces():
    with pytest.raises(ValueError, match="invalid value for by: 'step'; expected one of 'device', 'stream'"):
        idle_time(trace_of([]), "step")
    assert not len(idle_causes(trace_of([])))
    assert list(idle_time(trace_of([])).columns) == list(idle_time(trace_of([work(0, 1), work(5, 1)])).columns)


@needs_recorded
@pytest.mark.parametrize("file", TRACES)
def test_the_gaps_of_recorded_traces_add_up(file):
    trace = opened(file)
    for by in ("device", "stream"):
        gaps, idle = idle_time(trace, by), temporal_breakdown(trace, by)["idle_ns"].sum()
        assert gaps["gap_ns"].sum() == idle
        assert (gaps[PARTS].sum(axis=1) == gaps["gap_ns"]).all()
        assert (gaps[PARTS] >= 0).all(axis=None)
        assert idle_causes(trace, by)["part_ns"].sum() == idle
