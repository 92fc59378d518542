"""The critical path: by hand, against a slow longest path over the same graph, and on recorded traces."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cudalens
from cudalens.analysis.critical_path.graph import ROOT
from cudalens.analysis.critical_path.path import critical_path
from cudalens.analysis.critical_path.replay import measured, replay
from cudalens.frames import RunInfo, Trace, build_events

SHARED = Path(__file__).parents[4] / "shared" / "recorded"


def trace_of(rows):
    """A Trace of rows as dicts; host rows stand on thread 1 unless they say otherwise."""
    frame = pd.DataFrame(rows)
    if not len(frame):
        return Trace(RunInfo(name="t", source="cuda"))
    host = ~frame["cat"].isin(["kernel", "gpu_memcpy", "cuda_sync"])
    columns = {"ts": frame["ts"].to_numpy(np.int64), "dur": frame["dur"].to_numpy(np.int64)}
    columns |= {"name": pd.Categorical(frame["name"]), "cat": pd.Categorical(frame["cat"])}
    frame["pid"] = np.where(host, 1, None)
    frame["tid"] = np.where(host, frame["tid"].fillna(1) if "tid" in frame else 1, None)
    frame["device"] = np.where(host, None, 0)
    for name in (
        "pid",
        "tid",
        "device",
        "stream",
        "correlation_id",
        "wait_stream",
        "wait_record_id",
        "sequence_nr",
        "fwd_tid",
    ):
        if name in frame:
            dtype = "Int32" if name == "device" else "Int64"
            columns[name] = pd.array([None if pd.isna(v) else int(v) for v in frame[name]], dtype=dtype)
    return Trace(RunInfo(name="t", source="cuda"), events=build_events(columns))


def host(ts, dur, name="op", cat="cpu_op", **more):
    return {"ts": ts, "dur": dur, "name": name, "cat": cat, **more}


def launch(ts, dur, cid, name="cudaLaunchKernel", **more):
    return host(ts, dur, name, "cuda_runtime", correlation_id=cid, **more)


def kernel(ts, dur, cid, stream=7, name="k", cat="kernel"):
    return {"ts": ts, "dur": dur, "name": name, "cat": cat, "stream": stream, "correlation_id": cid}


def pieces(path):
    return [
        (p.kind, None if pd.isna(p.name_) else p.name_, p.dur_ns)
        for p in path.frame.rename(columns={"name": "name_"}).itertuples()
    ]


GPU_BOUND = [
    host(0, 30, "aten::mm"),
    launch(10, 10, 1),
    kernel(25, 100, 1, name="a"),
    host(30, 20, "aten::add"),
    launch(35, 10, 2),
    kernel(127, 50, 2, name="b"),
    host(60, 120, "cudaDeviceSynchronize", "cuda_runtime"),
    host(180, 20, "aten::cpu"),
]


def test_a_path_through_launch_stream_and_wait():
    path = critical_path(trace_of(GPU_BOUND))
    assert pieces(path) == [
        ("host", "aten::mm", 10),
        ("launch delay", "a", 15),
        ("compute", "a", 100),
        ("stream gap", "b", 2),
        ("compute", "b", 50),
        ("sync return", "cudaDeviceSynchronize", 3),
        ("host", "aten::cpu", 20),
    ]
    assert path.length_ns == 200
    assert path.by("kind").set_index("kind")["dur_ns"].to_dict()["compute"] == 150
    assert path.by("name")["dur_ns"].sum() == path.by("device")["dur_ns"].sum() == 200
    assert path.verdict.startswith("The GPU is the bottleneck")


def test_what_if_plays_the_change_to_its_end():
    rows = [row | {"ts": 1000 * row["ts"], "dur": 1000 * row["dur"]} for row in GPU_BOUND]
    path = critical_path(trace_of(rows))
    # Half as long, a ends at 75 and b at 102; the wait ends 3 later, and 20 are left to do.
    assert path.what_if(scale={"kernels": 0.5}).length_ns == 1000 * (75 + 2 + 25 + 3 + 20)
    # Without a, b starts when its launch has arrived: after the usual 15.
    assert path.what_if(scale={"a": 0}).length_ns == 1000 * (50 + 50 + 3 + 20)
    assert path.what_if(scale={"a": 2}).saved_ns == -100_000
    # Without waiting, the call returns after 10; b is then the last to end.
    assert path.what_if(without_syncs=True).length_ns == 177_000
    # Both as one launch: no gap, and the second call is gone.
    assert path.what_if(fuse="[ab]").saved_ns == 2000


def test_a_change_that_is_none_or_fits_nothing_is_refused():
    path = critical_path(trace_of(GPU_BOUND))
    with pytest.raises(ValueError, match="changes nothing"):
        path.what_if()
    with pytest.raises(ValueError, match="expected a finite number, at least 0"):
        path.what_if(scale={"kernels": -1})
    with pytest.raises(ValueError, match="no event"):
        path.what_if(scale={"nothing": 0})
    with pytest.raises(ValueError, match="needs two"):
        path.what_if(fuse="a")
    with pytest.raises(ValueError, match="invalid value for by: 'colour'; expected one of 'kind'"):
        path.by("colour")


def test_a_wait_for_work_whose_launch_was_not_recorded():
    rows = [launch(0, 5, 1), kernel(6, 10, 1, name="a"), kernel(20, 60, 99, name="b")]
    path = critical_path(trace_of([*rows, host(10, 75, "cudaDeviceSynchronize", "cuda_runtime")]))
    assert pieces(path)[-3:] == [
        ("stream gap", "b", 4),
        ("compute", "b", 60),
        ("sync return", "cudaDeviceSynchronize", 5),
    ]


def test_a_stray_row_decades_away_and_huge_stream_numbers_confuse_nothing():
    now, huge = 1_700_000_000_000_000_000, 1 << 62
    plain = [row | {"ts": 1000 * row["ts"], "dur": 1000 * row["dur"]} for row in GPU_BOUND]
    rows = [row | {"ts": row["ts"] + now} | ({"stream": huge} if "stream" in row else {}) for row in plain]
    others = [host(now + 10 * i, 5, "other", tid=2 + i) for i in range(12)]
    path, expected = critical_path(trace_of([host(0, 1, "stray"), *rows, *others])), critical_path(trace_of(plain))
    assert pieces(path)[-6:] == pieces(expected)[-6:]
    assert path.length_ns == now + expected.length_ns
    for change in ({"b": 0}, {"aten::cpu": 2}):
        assert path.what_if(scale=change).saved_ns == expected.what_if(scale=change).saved_ns != 0


def test_a_launch_bound_run_stays_on_the_host():
    rows = [launch(10 * i, 10, i) for i in range(5)] + [kernel(10 * i + 5, 1, i) for i in range(5)]
    path = critical_path(trace_of(rows))
    assert pieces(path) == [("host", "cudaLaunchKernel", 10)] * 5
    assert path.what_if(scale={"kernels": 0}).saved_ns == 0
    assert path.what_if(scale={"launches": 0.5}).length_ns == 20 + 5 + 1
    assert path.what_if(fuse="k").length_ns == 10


def test_a_stream_that_waits_for_a_cuda_event():
    rows = [
        launch(0, 5, 1),
        kernel(6, 100, 1, stream=7, name="a"),
        launch(10, 2, 2, name="cudaEventRecord"),
        launch(15, 2, 3, name="cudaStreamWaitEvent"),
        {"ts": 16, "dur": 90, "name": "Stream Wait Event", "cat": "cuda_sync", "stream": 20, "correlation_id": 3}
        | {"wait_stream": 7, "wait_record_id": 2},
        launch(20, 5, 4),
        kernel(110, 40, 4, stream=20, name="b"),
        launch(30, 5, 5),
        kernel(107, 3, 5, stream=7, name="not waited for"),
    ]
    path = critical_path(trace_of(rows))
    assert pieces(path)[-3:] == [("compute", "a", 100), ("event wait", "b", 4), ("compute", "b", 40)]
    assert path.what_if(scale={"not waited for": 5}).saved_ns == 0
    unknown = [row for row in rows if row["cat"] != "cuda_sync"]
    path = critical_path(trace_of(unknown))
    assert pieces(path)[-1] == ("compute", "b", 40)
    assert "1 waits of streams" in path.notes[0]


def test_backward_on_a_thread_of_its_own_is_waited_for():
    rows = [
        host(0, 20, "aten::mul", sequence_nr=3),
        host(30, 40, "MulBackward0", tid=2, sequence_nr=3, fwd_tid=1),
        host(40, 20, "aten::mul", tid=2),
        host(75, 10, "aten::add_"),
    ]
    path = critical_path(trace_of(rows))
    assert [kind for kind, _, _ in pieces(path)] == ["host", "handover", "host", "host", "host", "handover", "host"]
    assert path.length_ns == 85
    assert path.what_if(scale={"MulBackward0": 0}).length_ns == 45


def test_a_part_of_a_trace_ends_with_the_work_that_it_launched():
    trace = trace_of(
        [host(0, 50, "ProfilerStep#3", "user_annotation"), launch(10, 5, 1), kernel(40, 100, 1), host(60, 500)]
    )
    path = critical_path(trace, step=3)
    assert (path.length_ns, path.frame["end"].max()) == (140, 140)
    row = int(np.flatnonzero(trace.events["name"] == "cudaLaunchKernel")[0])
    assert critical_path(trace, start=row).length_ns == 130
    with pytest.raises(ValueError, match=r"step 9 is not .* \[3\]"):
        critical_path(trace, step=9)
    with pytest.raises(ValueError, match="row 99 is not in the trace"):
        critical_path(trace, start=99)


def test_nothing_and_the_host_alone():
    empty = critical_path(Trace(RunInfo(name="t", source="cpu")))
    assert (len(empty.frame), empty.length_ns) == (0, 0)
    assert list(empty.frame) == list(critical_path(trace_of(GPU_BOUND)).frame)
    assert "there is no critical path" in repr(empty)
    assert len(empty.by()) == 0
    path = critical_path(trace_of([host(0, 10, "a"), host(2, 3, "b"), host(20, 5, "c")]))
    assert pieces(path) == [
        ("host", "a", 2),
        ("host", "b", 3),
        ("host", "a", 5),
        ("untraced host", None, 10),
        ("host", "c", 5),
    ]


@st.composite
def runs(draw, overlap=3, shortest=0):
    """Host threads that launch, wait and compute, and streams that do what was launched, by a small simulation.

    Work may begin up to `overlap` before the previous work in its queue has ended, as in some recordings.
    """
    rows, free, begun, now, cid = [], {7: 0, 20: 0}, {7: -1, 20: -1}, 0, 0
    names = st.sampled_from("abc")
    for _ in range(draw(st.integers(1, 12))):
        now += draw(st.integers(0, 3))
        act = draw(st.sampled_from(["op", "launch", "launch", "launch", "sync", "wait"]))
        cid += 1
        stream = draw(st.sampled_from([7, 20]))
        length = draw(st.integers(1, 9))
        if act == "op":
            rows.append(host(now, length, "aten::" + draw(names)))
        elif act == "launch":
            queued = max(free[stream] + draw(st.integers(-overlap, 2)), begun[stream] + 1)
            begun[stream] = start = max(now + draw(st.integers(0, 4)), queued)
            dur = draw(st.integers(shortest, 30))
            rows += [launch(now, length, cid), kernel(start, dur, cid, stream, draw(names))]
            free[stream] = max(free[stream], start + dur)
        elif act == "sync":
            length = max(length, max(free.values()) - now + draw(st.integers(0, 3)))
            rows.append(host(now, length, "cudaDeviceSynchronize", "cuda_runtime"))
        else:
            other = 27 - stream
            rows += [
                launch(now, 1, cid, name="cudaEventRecord"),
                launch(now + 1, length, cid + 1, name="cudaStreamWaitEvent"),
            ]
            rows.append({"ts": now + 1, "dur": 0, "name": "Stream Wait Event", "cat": "cuda_sync", "stream": stream})
            rows[-1] |= {"correlation_id": cid + 1, "wait_stream": other, "wait_record_id": cid}
            free[stream] = max(free[stream], free[other])
            length, cid = length + 1, cid + 1
        now += length
    return rows


def held_by(trace):
    """Pairs (work, later work) ordered by a CUDA event, computed directly from the definition."""
    events = trace.events
    work = events[events["cat"] == "kernel"]
    work = work.assign(end=work["ts"] + work["dur"], issued=events["ts"][work["launch"].astype(int)].to_numpy())
    pairs = set()
    for mark in events[events["cat"] == "cuda_sync"].itertuples():
        record = events[(events["correlation_id"] == mark.wait_record_id) & (events["name"] == "cudaEventRecord")]
        before = work[(work["stream"] == mark.wait_stream) & (work["issued"] < record["ts"].iloc[0])]
        after = work[(work["stream"] == mark.stream) & (work["issued"] > events["ts"][mark.launch])]
        if len(before) and len(after):
            source, target = before.sort_values(["end", "ts"]).index[-1], after.index[0]
            if work["end"][source] <= work["ts"][target] and work["ts"][source] < work["ts"][target]:
                pairs.add((source, target))
    return pairs


@settings(deadline=None, max_examples=examples(30))
@given(runs(shortest=1))
def test_who_waits_for_whom(rows):
    trace = trace_of(rows)
    graph, events = critical_path(trace).graph, trace.events
    works, causes, arrivals = graph.works, graph.causes, graph.arrivals
    row = works.row.tolist()
    edges = zip(graph.edges.source.tolist(), graph.edges.target.tolist(), strict=True)
    assert {(row[source], row[target]) for source, target in edges} == held_by(trace)
    first = min(works.issued.tolist(), default=np.inf)
    calls = np.flatnonzero((events["name"] == "cudaDeviceSynchronize") & (events["ts"] > first))
    assert arrivals.row.tolist() == calls.tolist()
    for at, call in enumerate(arrivals.row.tolist()):
        begin = events["ts"][call]
        issued = [k for k in range(len(row)) if works.issued[k] < begin]
        last = {int(works.stream[k]): k for k in sorted(issued, key=lambda k: (works.end[k], works.start[k]))}
        mine = np.flatnonzero(causes.arrival == at)
        assert set(causes.work[mine].tolist()) == set(last.values())
        latest = max(int(works.end[k]) for k in last.values())
        assert (arrivals.source[at] >= 0) == (latest > begin)
        if latest > begin:
            assert arrivals.source[at] in mine
            assert causes.time[arrivals.source[at]] == latest


def test_of_causes_fulfilled_together_a_cuda_event_states_most():
    rows = [
        launch(0, 2, 1),
        kernel(6, 100, 1, stream=7, name="a"),
        launch(3, 2, 2),
        kernel(8, 98, 2, stream=20, name="c"),
        launch(10, 2, 3, name="cudaEventRecord"),
        launch(15, 2, 4, name="cudaStreamWaitEvent"),
        {"ts": 16, "dur": 90, "name": "Stream Wait Event", "cat": "cuda_sync", "stream": 20, "correlation_id": 4}
        | {"wait_stream": 7, "wait_record_id": 3},
        launch(20, 5, 5),
        kernel(106, 40, 5, stream=20, name="b"),
    ]
    assert pieces(critical_path(trace_of(rows)))[-2:] == [("compute", "a", 100), ("compute", "b", 40)]


def test_work_that_began_before_it_could_have_been_held_was_not():
    rows = [
        launch(0, 2, 1),
        kernel(6, 100, 1, stream=7, name="a"),
        launch(10, 2, 3, name="cudaEventRecord"),
        launch(15, 2, 4, name="cudaStreamWaitEvent"),
        {"ts": 16, "dur": 90, "name": "Stream Wait Event", "cat": "cuda_sync", "stream": 20, "correlation_id": 4}
        | {"wait_stream": 7, "wait_record_id": 3},
        launch(20, 5, 5),
        kernel(30, 90, 5, stream=20, name="b"),
    ]
    path = critical_path(trace_of(rows))
    assert held_by(path.trace) == set()
    assert not len(path.graph.edges.source)
    assert [name for kind, name, _ in pieces(path) if kind == "compute"] == ["b"]


def test_work_after_the_record_is_not_waited_for():
    rows = [
        launch(0, 2, 1),
        kernel(6, 50, 1, stream=7, name="a"),
        launch(3, 2, 6),
        kernel(9, 5, 6, stream=20),
        launch(10, 2, 2, name="cudaEventRecord"),
        launch(12, 2, 3),
        kernel(56, 44, 3, stream=7, name="later"),
        launch(15, 2, 4, name="cudaStreamWaitEvent"),
        {"ts": 16, "dur": 90, "name": "Stream Wait Event", "cat": "cuda_sync", "stream": 20, "correlation_id": 4}
        | {"wait_stream": 7, "wait_record_id": 2},
        launch(20, 5, 5),
        kernel(101, 40, 5, stream=20, name="b"),
    ]
    assert pieces(critical_path(trace_of(rows)))[-3:] == [
        ("compute", "a", 50),
        ("event wait", "b", 45),
        ("compute", "b", 40),
    ]


def test_a_device_whose_clock_is_a_little_behind():
    rows = [launch(0, 5, 1), kernel(10, 990, 1), host(20, 975, "cudaDeviceSynchronize", "cuda_runtime"), host(995, 20)]
    assert pieces(critical_path(trace_of(rows)))[-2:] == [("compute", "k", 985), ("host", "op", 20)]
    rows[1]["dur"] = 30_000  # too much for clocks that differ: it was not waited for
    assert "compute" not in [kind for kind, _, dur in pieces(critical_path(trace_of(rows)))[:-1] if dur > 1000]


def test_a_stream_that_had_not_drained_is_not_what_was_waited_for():
    rows = [launch(0, 2, 1), kernel(5, 85, 1, stream=7, name="a"), launch(3, 2, 2), kernel(6, 89, 2, 20, "x")]
    rows += [launch(6, 2, 3), kernel(95, 105, 3, 20, "y")]
    rows += [host(10, 90, "cudaStreamSynchronize", "cuda_runtime"), host(100, 200)]
    path = critical_path(trace_of([row | {"ts": 1000 * row["ts"], "dur": 1000 * row["dur"]} for row in rows]))
    assert pieces(path)[-3:] == [
        ("compute", "a", 85_000),
        ("sync return", "cudaStreamSynchronize", 10_000),
        ("host", "op", 200_000),
    ]


def test_work_before_its_launch_is_not_put_down_to_it():
    path = critical_path(trace_of([host(0, 2), launch(10, 5, 1), kernel(4, 30, 1)]))
    assert [kind for kind, _, _ in pieces(path)] == ["unknown", "compute"]
    assert path.notes[0].startswith("1 pieces of device work start before their launch")
    assert path.what_if(scale={"launches": 0}).saved_ns == 0


def slowly(graph, now):
    """When each work starts and each arrival goes on, node by node from the definitions; and the last end."""
    works, arrivals, begin = graph.works, graph.arrivals, graph.window.begin
    lines = graph.host

    @cache
    def moment(thread, time):
        before = [a for a in range(len(arrivals.time)) if arrivals.thread[a] == thread and arrivals.time[a] <= time]
        since = int(arrivals.time[before[-1]]) if before else int(lines.start[lines.first[thread]])
        base = arrived(before[-1]) if before else int(lines.start[lines.first[thread]])
        length = 0
        for p in range(int(lines.first[thread]), int(lines.last[thread]) + 1):
            part = min(time, int(lines.end[p])) - max(since, int(lines.start[p]))
            whole = int(lines.end[p] - lines.start[p])
            length += int(now.host[p]) * part // whole if part > 0 else 0
        return base + length

    @cache
    def arrived(a):
        since, _time, thread = int(arrivals.since[a]), int(arrivals.time[a]), int(arrivals.thread[a])
        factor = [
            now.host[p] / (lines.end[p] - lines.start[p]) for p in range(len(lines.start)) if lines.start[p] == since
        ]
        found = [moment(thread, since) + round(int(arrivals.own[a]) * (factor[0] if factor else 1))]
        for c in np.flatnonzero(graph.causes.arrival == a):
            k = int(graph.causes.work[c])
            found.append(started(k) + int(now.work[k]) + int(graph.causes.lag[c]))
        return max(found)

    @cache
    def started(i):
        found = []
        if not works.is_first[i]:
            busy = 0 if graph.is_overlapped[i] else int(now.work[i - 1])
            # Work of a graph may start before the previous one has ended (a negative lag), but not before its start.
            found.append(started(i - 1) + max(busy + int(now.stream_lag[i]), 0))
        if works.has_launch[i]:
            found.append(moment(int(lines.of_row[works.launch[i]]), int(works.issued[i])) + int(now.launch_lag[i]))
        for e in np.flatnonzero(graph.edges.target == i):
            k = int(graph.edges.source[e])
            found.append(started(k) + int(now.work[k]) + int(graph.edges.lag[e]))
        if graph.binding[i] == ROOT:
            found.append(begin + int(graph.root_lag[i]))
        return max(found)

    starts = [started(i) for i in range(len(works))]
    threads = [t for t in range(len(lines.first)) if graph.leading[t]]
    ends = [moment(t, int(lines.end[lines.last[t]])) for t in threads]
    ends += [start + int(dur) for start, dur in zip(starts, now.work, strict=True)]
    return starts, [arrived(a) for a in range(len(arrivals.time))], max([begin, *ends])


@settings(deadline=None, max_examples=examples(25))
@given(runs(), st.sampled_from([0, 2, 3]), st.sampled_from([0, 1, 2]))
def test_playing_again_is_the_longest_path(rows, work_factor, host_factor):
    graph = critical_path(trace_of(rows)).graph
    now = measured(graph)
    now.work, now.host = now.work * work_factor, now.host * host_factor
    found = replay(graph, now)
    assert (found.work.tolist(), found.arrival.tolist(), found.end) == slowly(graph, now)


@settings(deadline=None, max_examples=examples(25))
@given(runs())
def test_a_path_has_no_gap_and_explains_the_run_exactly(rows):
    trace = trace_of(rows)
    path = critical_path(trace)
    frame, graph = path.frame, path.graph
    assert (frame["start"].to_numpy()[1:] == frame["end"].to_numpy()[:-1]).all()
    assert (frame["dur_ns"] > 0).all()
    ends = trace.events["ts"] + trace.events["dur"]
    assert path.length_ns <= ends.max() - trace.events["ts"].min()
    again = replay(graph, measured(graph))
    assert again.work.tolist() == graph.works.start.tolist()
    assert again.arrival.tolist() == graph.arrivals.time.tolist()
    assert again.end - graph.window.begin == path.length_ns


def launched(name, number, issued, start, dur):
    call = {"ts": issued, "dur": 1, "name": "cudaLaunchKernel", "cat": "cuda_runtime", "correlation_id": number}
    work = {"ts": start, "dur": dur, "name": name, "cat": "kernel", "stream": 7, "correlation_id": number}
    return [call, work]


#: Two kernels of one stream at once, which only a damaged file has.
OVERLAPPING = [*launched("a", 1, 0, 0, 4), *launched("a", 2, 1, 3, 1)]


@settings(deadline=None, max_examples=examples(25))
@given(runs(), st.sampled_from(["a", "kernels", "launches", "host", "syncs", "copies", "fuse"]))
@example(OVERLAPPING, "fuse")
def test_nothing_gets_longer_by_taking_something_away(rows, what):
    path = critical_path(trace_of(rows))
    changes = {"syncs": {"without_syncs": True}, "copies": {"overlap_copies": True}, "fuse": {"fuse": "[abc]"}}
    try:
        found = path.what_if(**changes.get(what, {"scale": {what: 0}}))
    except ValueError:  # no such event in this run
        return
    assert 0 <= found.saved_ns <= path.length_ns
    assert found.saved_ns == found.before_ns - found.length_ns


@pytest.fixture(scope="module")
def recorded():
    def load(name):
        if not (SHARED / name).exists():
            pytest.skip(f"no recorded traces: {SHARED / name} is not there")
        return cudalens.load(SHARED / name)

    return load


def test_recorded_event_wait_between_streams(recorded):
    """HTA's own expectation of this trace: the memset on stream 24 waits for the gemm on stream 20, not for 28's."""
    path = critical_path(recorded("hta/critical_path__cuda_event_sync_multi_stream.json.gz"))
    graph, names = path.graph, path.trace.events["name"]
    edges = {
        (names[graph.works.row[s]], int(graph.works.stream[s]), names[graph.works.row[t]], int(graph.works.stream[t]))
        for s, t in zip(graph.edges.source, graph.edges.target, strict=True)
    }
    assert edges == {("ampere_sgemm_128x64_nn", 20, "Memset (Device)", 24)}


def test_recorded_launch_and_stream_delays(recorded):
    """HTA's own expectations: 27 us from launch to the FFT, 7 us from it to the next kernel, both in its queue."""
    trace = recorded("hta/critical_path__simple_add.json.gz")
    name = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
    row = int(np.flatnonzero((trace.events["name"] == name) & trace.events["device"].isna())[1])
    graph = critical_path(trace, start=row).graph
    ids = trace.events["correlation_id"].array[graph.works.row].to_numpy(dtype=np.int64)
    fft, gemm = int(np.flatnonzero(ids == 5597)[0]), int(np.flatnonzero(ids == 5604)[0])
    assert int(graph.launch_lag[fft]) == 27_000
    assert int(graph.works.start[gemm] - graph.works.end[fft]) == 7_000


@pytest.mark.parametrize(
    "name",
    [
        "hta/timeline_analysis__sampled_rank-0.json.gz",
        "hta/cpu_only_rank-34.json.gz",
        "hta/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz",
        "tracelens/mi210__gpu_only_trace.json.gz",
        "param_dlrm8/dlrm_worker0_step_12.1694128201545.pt.trace.json",
    ],
)
def test_recorded_traces_are_explained_exactly(recorded, name):
    path = critical_path(recorded(name))
    frame, graph = path.frame, path.graph
    assert len(frame)
    assert (frame["start"].to_numpy()[1:] == frame["end"].to_numpy()[:-1]).all()
    again = replay(graph, measured(graph))
    assert (again.work == graph.works.start).all()
    assert (again.arrival == graph.arrivals.time).all()
    assert again.end - graph.window.begin == path.length_ns
    if len(graph.works):
        assert path.what_if(scale={"kernels": 0}).saved_ns >= 0
