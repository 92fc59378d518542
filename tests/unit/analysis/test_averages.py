from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.analysis import folded, key_averages
from cudalens.analysis.time.averages import heads, sums_beneath
from cudalens.frames import RunInfo, Trace, build_events, categorical, nullable


def make_events(rows):
    """Events from dicts with ts, dur, name, and whatever else is known."""

    def column(key, default=None):
        return [row.get(key, default) for row in rows]

    def ints(key):
        values = column(key)
        return nullable(np.array([v or 0 for v in values], np.int64), np.array([v is None for v in values], bool))

    def texts(values):
        codes, uniques = pd.factorize(np.array(values, object))
        return categorical(codes, list(uniques))

    columns = {
        "ts": np.array(column("ts"), np.int64),
        "dur": np.array(column("dur"), np.int64),
        "is_instant": np.array(column("is_instant", False), bool),
        "name": texts(column("name")),
        "cat": texts(column("cat", "cpu_op")),
        "pid": nullable(np.ones(len(rows), np.int64), np.array([r.get("device") is not None for r in rows], bool)),
        "tid": nullable(
            np.array([r.get("tid", 1) for r in rows], np.int64),
            np.array([r.get("device") is not None for r in rows], bool),
        ),
    }
    columns |= {key: ints(key) for key in ("device", "stream", "correlation_id", "flops", "num_bytes")}
    return build_events(columns)


def make_trace(rows):
    return Trace(RunInfo(name="t", source="cpu"), events=make_events(rows))


def row_of(averages, name, is_device=False):
    (found,) = averages[(averages["name"] == name) & (averages["is_device"] == is_device)].to_dict("records")
    return found


class Node:
    """An event as torch keeps it: a name, a parent, children; the oracle works on these."""

    def __init__(self, row, name):
        self.row, self.name, self.parent, self.children = row, name, None, []


def folded_slowly(events):
    """The definition in torch's words: lift only children of the parent's name, in list order, until none is left."""
    nodes = [Node(row, str(name)) for row, name in enumerate(events["name"])]
    for node, parent in zip(nodes, events["parent"].to_numpy(dtype=int, na_value=-1), strict=True):
        if parent >= 0:
            node.parent = nodes[parent]
            nodes[parent].children.append(node)
    remaining = list(nodes)
    while True:
        gone = set()
        for node in remaining:
            above = node.parent
            if above is not None and above.name == node.name and len(above.children) == 1:
                above.children = node.children
                for child in node.children:
                    child.parent = above
                gone.add(node.row)
        if not gone:
            break
        remaining = [node for node in remaining if node.row not in gone]
    kept = {node.row: node for node in remaining}
    dur = events["dur"].tolist()
    own = {row: dur[row] - sum(dur[child.row] for child in node.children) for row, node in kept.items()}
    return np.array([row not in kept for row in range(len(nodes))], bool), own


@st.composite
def programs(draw):
    rows = []
    for tid in range(1, draw(st.integers(1, 2)) + 1):
        for _ in range(draw(st.integers(0, 25))):
            ts = draw(st.integers(0, 40))
            rows.append({"ts": ts, "dur": draw(st.integers(0, 40)), "name": draw(st.sampled_from("aab")), "tid": tid})
    return rows


@given(programs())
@settings(max_examples=examples(100), deadline=None)
def test_folding_equals_torchs_rounds_of_lifting(rows):
    events = make_events(rows)
    expected, own = folded_slowly(events)
    assert folded(events).tolist() == expected.tolist()
    averages = key_averages(Trace(RunInfo(name="t", source="cpu"), events=events))
    names = events["name"].astype(str).tolist()
    for name in set(names):
        found = row_of(averages, name)
        rows_of_name = [row for row in own if names[row] == name]
        assert found["count"] == len(rows_of_name)
        assert found["self_ns"] == sum(own[row] for row in rows_of_name)
        assert found["total_ns"] == events["dur"].to_numpy()[rows_of_name].sum()


def test_chain_of_one_name_folds_into_its_head():
    trace = make_trace(
        [{"ts": i, "dur": 100 - 2 * i, "name": "a"} for i in range(4)] + [{"ts": 10, "dur": 5, "name": "b"}]
    )
    assert folded(trace.events).tolist() == [False, True, True, True, False]
    found = row_of(key_averages(trace), "a")
    assert (found["count"], found["total_ns"], found["self_ns"]) == (1, 100, 95)
    assert heads(np.array([-1, 0, 1, 2]), np.array([False, True, True, False])).tolist() == [0, 0, 0, 3]


def test_steps_are_averaged_as_one():
    rows = [{"ts": 100 * i, "dur": 50 + i, "name": f"ProfilerStep#{i}", "cat": "user_annotation"} for i in range(3)]
    averages = key_averages(make_trace(rows))
    assert averages["name"].tolist() == ["ProfilerStep*"]
    assert averages["count"].tolist() == [3]
    assert averages["total_ns"].tolist() == [153]


def test_statistics_of_a_name():
    durations = [10, 20, 60]
    rows = [{"ts": 100 * i, "dur": d, "name": "op", "flops": 7} for i, d in enumerate(durations)]
    rows += [{"ts": 1000, "dur": 90, "name": "once"}, {"ts": 1200, "dur": 0, "name": "now", "is_instant": True}]
    averages = key_averages(make_trace(rows))
    assert averages["name"].tolist() == ["op", "once"]  # equal self time: by total, then as they came
    op, once = row_of(averages, "op"), row_of(averages, "once")
    assert (op["mean_ns"], op["min_ns"], op["max_ns"], op["flops"]) == (30.0, 10, 60, 21)
    assert op["std_ns"] == pytest.approx(np.std(durations, ddof=1))
    assert op["share_pct"] == pytest.approx(50.0)
    assert pd.isna(once["std_ns"])
    assert pd.isna(once["flops"])


GPU_ROWS = [
    {"ts": 0, "dur": 100, "name": "outer", "cat": "user_annotation"},
    {"ts": 10, "dur": 50, "name": "aten::mm"},
    {"ts": 20, "dur": 5, "name": "cudaLaunchKernel", "cat": "cuda_runtime", "correlation_id": 7},
    {"ts": 70, "dur": 5, "name": "cudaMemcpyAsync", "cat": "cuda_runtime", "correlation_id": 8},
    {"ts": 60, "dur": 200, "name": "gemm", "cat": "kernel", "device": 0, "stream": 7, "correlation_id": 7},
    {
        "ts": 300,
        "dur": 30,
        "name": "Memcpy",
        "cat": "gpu_memcpy",
        "device": 0,
        "stream": 7,
        "correlation_id": 8,
        "num_bytes": 64,
    },
    {"ts": 400, "dur": 11, "name": "gemm", "cat": "kernel", "device": 0, "stream": 7},
]


def test_device_time_reaches_everything_above_the_launch():
    averages = key_averages(make_trace(GPU_ROWS))
    beneath = {(r["name"], r["is_device"]): r["device_total_ns"] for r in averages.to_dict("records")}
    assert beneath == {
        ("outer", False): 230,
        ("aten::mm", False): 200,
        ("cudaLaunchKernel", False): 200,
        ("cudaMemcpyAsync", False): 30,
        ("gemm", True): 211,
        ("Memcpy", True): 30,
    }
    shares = averages.groupby("is_device")["share_pct"].sum()
    assert shares.tolist() == pytest.approx([100.0, 100.0])
    assert row_of(averages, "Memcpy", True)["num_bytes"] == 64


def test_a_name_on_both_sides_is_two_rows():
    rows = [
        {"ts": 0, "dur": 10, "name": "x", "cat": "user_annotation"},
        {"ts": 0, "dur": 30, "name": "x", "cat": "gpu_user_annotation", "device": 0, "stream": 1},
    ]
    averages = key_averages(make_trace(rows))
    assert averages["is_device"].tolist() == [True, False]
    assert averages["self_ns"].tolist() == [30, 10]


def test_rows_restrict_what_is_averaged_and_nothing_else():
    trace = make_trace(GPU_ROWS)
    events = trace.events
    by_mask = key_averages(trace, rows=(events["name"] == "outer").to_numpy())
    by_number = key_averages(trace, rows=np.flatnonzero(events["name"] == "outer"))
    pd.testing.assert_frame_equal(by_mask, by_number)
    assert by_mask["name"].tolist() == ["outer"]
    assert by_mask["self_ns"].tolist() == [100 - 50 - 5]
    assert by_mask["device_total_ns"].tolist() == [230]
    assert len(key_averages(trace, rows=[])) == 0
    with pytest.raises(ValueError, match="mask of length 2, expected one value per event: 7"):
        key_averages(trace, rows=np.array([True, False]))


def test_sums_are_exact_past_the_floats():
    rows = [{"ts": 2**60 + 3 * i, "dur": 1, "name": "a"} for i in range(3)] + [{"ts": 0, "dur": 2**60 + 1, "name": "b"}]
    averages = key_averages(make_trace(rows))
    assert row_of(averages, "b")["total_ns"] == 2**60 + 1


@given(st.lists(st.tuples(st.integers(-1, 30), st.integers(0, 9)), max_size=30))
def test_sums_beneath_equal_a_walk_upwards(pairs):
    parent = np.array([min(p, i - 1) for i, (p, _) in enumerate(pairs)], np.int64)
    values = np.array([v for _, v in pairs], np.int64)
    depth, expected = np.zeros(len(pairs), np.int32), values.copy()
    for row in range(len(pairs)):
        up = parent[row]
        while up >= 0:
            depth[row] += 1
            expected[up] += values[row]
            up = parent[up]
    assert sums_beneath(values, parent, depth).tolist() == expected.tolist()


def test_empty_trace_has_the_columns():
    averages = key_averages(Trace(RunInfo(name="t", source="cpu")))
    assert len(averages) == 0
    assert {"name", "is_device", "count", "total_ns", "self_ns", "std_ns", "device_total_ns"} <= set(averages.columns)


def test_largest_first():
    rows = [{"ts": 100 * i, "dur": 1 + (7 * i) % 11, "name": f"op{i % 6}"} for i in range(40)]
    values = key_averages(make_trace(rows))["self_ns"].tolist()
    assert all(a >= b for a, b in pairwise(values))


def test_waiting_for_a_stream_takes_no_share_of_the_device():
    rows = [
        {"ts": 0, "dur": 30, "name": "gemm", "cat": "kernel", "device": 0},
        {"ts": 0, "dur": 970, "name": "Stream Sync", "cat": "cuda_sync", "device": 0},
    ]
    averages = key_averages(make_trace(rows)).set_index("name")
    assert averages["share_pct"].to_dict() == {"gemm": 100.0, "Stream Sync": 0.0}
