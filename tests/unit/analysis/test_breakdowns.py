"""Costs by kernel and operator, communication, copies: against loops, and by example."""

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import ALONE, KINDS, NCCL, host, launch, trace_of, work
from recorded_traces import TRACES, needs_recorded, opened

from cudalens.analysis import (
    collectives,
    communication_overlap,
    copy_rates,
    kernel_breakdown,
    memcpy_bandwidth,
    op_breakdown,
    temporal_breakdown,
)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(ALONE, max_size=14))
def test_kernels_by_name_and_stream(rows):
    trace = trace_of(rows)
    frame, dur = kernel_breakdown(trace, ("name", "stream")), trace.events["dur"]
    groups = {}
    for row in rows:
        groups.setdefault((row["name"], row["stream"]), []).append(row["dur"])
    assert frame["total_ns"].tolist() == sorted(map(sum, groups.values()), reverse=True)
    for found in frame.to_dict("records"):
        durations = groups[found["name"], found["stream"]]
        assert (found["count"], found["total_ns"]) == (len(durations), sum(durations))
        assert (found["min_ns"], found["max_ns"]) == (min(durations), max(durations))
        assert found["median_ns"] == pytest.approx(np.median(durations))
        assert found["p95_ns"] == pytest.approx(np.quantile(durations, 0.95))
        assert dur[found["longest"]] == max(durations)


def test_kernels_of_a_step_and_bad_groups():
    rows = [host(0, 50, "ProfilerStep#4", "user_annotation"), launch(5, 2, 1), work(60, 7, call=1), work(70, 9)]
    assert kernel_breakdown(trace_of(rows), step=4)["total_ns"].tolist() == [7]
    assert kernel_breakdown(trace_of(rows), ["step"])["step"].tolist() == [pd.NA, 4]
    for by in ((), "name", ("color",)):
        with pytest.raises(ValueError, match="expected a list of one or more of name, kind, device"):
            kernel_breakdown(trace_of(rows), by)


CALLS = st.recursive(
    st.just([]), lambda inner: st.lists(st.tuples(st.sampled_from("abc"), inner), max_size=3), max_leaves=8
)


@settings(max_examples=examples(30), deadline=None)
@given(CALLS)
def test_operators_and_what_they_launched(program):
    rows, wanted, at = [], {}, 0

    def run(calls, around):
        nonlocal at
        for name, inner in calls:
            begin, at = at, at + 1
            number = len(rows) + 1
            rows.append(launch(at, 1, number))
            rows.append(work(1000 + 100 * number, number, call=number))
            names = {*around, name}
            for one in names:
                wanted.setdefault(one, [0, 0, 0])[1] += number
            wanted[name][0] += number
            at += 2
            run(inner, names)
            at += 1
            rows.append(host(begin, at - begin, name))
            if name not in around:
                wanted[name][2] += at - begin
            at += 1

    run(program, frozenset())
    rows.append(work(90_000, 5))
    frame = op_breakdown(trace_of(rows)).astype({"name": object})
    found = {
        row["name"]: [row["gpu_self_ns"], row["gpu_ns"], row["host_ns"]]
        for row in frame.to_dict("records")
        if isinstance(row["name"], str)
    }
    assert found == wanted
    without_name = frame[frame["name"].isna()].iloc[0]
    assert (without_name["gpu_self_ns"], without_name["gpu_ns"], without_name["count"], without_name["num_work"]) == (
        5,
        5,
        0,
        1,
    )


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(ALONE, max_size=14))
def test_each_collective_beside_computation(rows):
    trace = trace_of(rows)
    frame, per_device = collectives(trace), communication_overlap(trace)
    comm = [row for row in rows if row["name"] == NCCL]
    computing = {}
    for row in rows:
        if KINDS[row["name"]][1] == "compute":
            computing.setdefault(row["device"], set()).update(range(row["ts"], row["ts"] + row["dur"]))
    wanted = [len(computing.get(r["device"], set()).intersection(range(r["ts"], r["ts"] + r["dur"]))) for r in comm]
    assert sorted(frame["overlap_ns"]) == sorted(wanted)
    assert (frame["overlap_ns"] + frame["exposed_ns"] == frame["dur"]).all()
    assert per_device["device"].tolist() == sorted({row["device"] for row in comm})
    assert per_device["num_collectives"].sum() == len(comm)
    parts = temporal_breakdown(trace, "device").set_index("device")
    for row in per_device.to_dict("records"):
        assert row["overlap_ns"] == parts["overlap_ns"][row["device"]]
        assert row["exposed_ns"] == row["comm_ns"] - row["overlap_ns"]


@pytest.mark.parametrize(
    ("collective", "overlap"),
    [
        ((0, 10), 0),
        ((0, 25), 5),
        ((20, 10), 10),
        ((25, 10), 5),
        ((25, 30), 15),
        ((30, 10), 0),
        ((90, 5), 0),
        ((0, 90), 20),
    ],
)
def test_a_collective_before_within_between_and_after_computation(collective, overlap):
    """Computation from 20 to 30 and from 45 to 55 on device 0; on device 1 all the time."""
    compute = [work(20, 10, "gemm", stream=1), work(45, 10, "gemm", stream=1), work(0, 100, "gemm", device=1)]
    together = [*compute, work(20, 35, NCCL, stream=3)]
    for others, num in ((compute, 1), (together, 2)):
        frame = collectives(trace_of([*others, work(*collective, NCCL, stream=2)]))
        assert len(frame) == num
        assert frame[frame["stream"] == 2]["overlap_ns"].tolist() == [overlap]


def test_devices_that_only_compute_have_no_row_of_communication():
    per_device = communication_overlap(trace_of([work(0, 10, NCCL), work(0, 40, "gemm", device=1)]))
    assert per_device["device"].tolist() == [0]
    assert per_device["num_collectives"].tolist() == [1]


def test_exposed_communication_is_a_share_of_the_devices_span():
    per_device = communication_overlap(trace_of([work(0, 10, NCCL, stream=1), work(5, 35, "gemm", stream=2)]))
    found = per_device.iloc[0]
    assert (found["comm_ns"], found["overlap_ns"], found["exposed_ns"]) == (10, 5, 5)
    assert (found["overlap_pct"], found["exposed_pct"]) == (50.0, 12.5)


def test_types_are_known_by_their_names_in_c10_too_and_one_rank_alone_sends_nothing():
    arguments = {"in_elements": 8, "out_elements": 2, "message_dtype": "c10::Float8_e4m3fn", "collective": "allreduce"}
    rows = [
        work(0, 10, NCCL, group_size=1, **arguments),
        work(20, 10, NCCL, **arguments | {"message_dtype": "c10::Half"}),
    ]
    frame = collectives(trace_of(rows))
    assert frame["num_bytes"].tolist() == [8, 16]
    assert frame["bus_bytes_per_s"].tolist() == [0.0, pd.NA]


@pytest.mark.parametrize(
    ("name", "elements", "dtype", "ranks", "num_bytes", "factor"),
    [
        ("allreduce", (1000, 1000), "Float", 4, 4000, 1.5),
        ("_allgather_base", (500, 2000), "BFloat16", 4, 4000, 0.75),
        ("reduce_scatter", (4000, 1000), "Byte", 4, 4000, 0.75),
        ("all_to_allv", (500, 500), "Long", 2, 4000, 0.5),
        ("broadcast", (2000, 2000), "Half", 8, 4000, 1.0),
    ],
)
def test_bandwidth_as_nccl_tests_defines_it(name, elements, dtype, ranks, num_bytes, factor):
    arguments = {"collective": name, "message_dtype": dtype, "group_size": ranks}
    found = collectives(
        trace_of([work(0, 2000, NCCL, in_elements=elements[0], out_elements=elements[1], **arguments)])
    ).iloc[0]
    assert found["num_bytes"] == num_bytes
    assert found["algorithm_bytes_per_s"] == pytest.approx(2e9)
    assert found["bus_bytes_per_s"] == pytest.approx(2e9 * factor)


def test_bandwidth_is_missing_where_the_trace_has_no_sizes():
    rows = [
        work(0, 10, NCCL),
        work(20, 0, NCCL, in_elements=4, out_elements=4, message_dtype="Float", collective="send"),
    ]
    rows.append(work(30, 5, NCCL, in_elements=4, out_elements=4, message_dtype="Qubit", collective="send"))
    frame = collectives(trace_of(rows))
    assert frame["num_bytes"].tolist() == [pd.NA, 16, pd.NA]
    assert frame["bus_bytes_per_s"].isna().all()


def test_copies_by_direction_and_host_memory():
    rows = [work(100 * i, 10, "Memcpy HtoD (Pinned -> Device)", num_bytes=1000 * (i + 1)) for i in range(3)]
    rows += [work(900, 100, "Memcpy DtoH (Device -> Pageable)", num_bytes=500, cat="gpu_memcpy")]
    rows += [work(1100, 0, "Memcpy HtoD (Pinned -> Device)", num_bytes=7), work(1200, 4, "Memset (Device)")]
    rows += [work(1300, 2, "CopyDeviceToDevice", num_bytes=8, cat="gpu_memcpy")]
    frame = memcpy_bandwidth(trace_of(rows)).astype({"direction": object, "host_memory": object})
    assert frame["direction"].tolist() == ["DtoH", "HtoD", "set", "other"]
    assert frame["host_memory"].tolist()[:2] == ["pageable", "pinned"]
    assert frame["num_bytes"].tolist() == [500, 6007, pd.NA, 8]
    pinned = frame.iloc[1]
    assert (pinned["count"], pinned["num_sized"], pinned["median_bytes"]) == (4, 3, 1500)
    assert (pinned["bytes_per_s"], pinned["median_bytes_per_s"]) == (200e9, 200e9)
    assert pinned["p5_bytes_per_s"] == pytest.approx(110e9)
    assert frame["bytes_per_s"].isna().tolist() == [False, False, True, False]


@needs_recorded
@pytest.mark.parametrize("file", TRACES)
def test_recorded_traces(file):
    trace = opened(file)
    whole = temporal_breakdown(trace)["sum_ns"].sum()
    assert kernel_breakdown(trace)["total_ns"].sum() == whole
    assert op_breakdown(trace)["gpu_self_ns"].sum() == whole
    assert collectives(trace)["dur"].sum() == kernel_breakdown(trace).query("kind == 'communication'")["total_ns"].sum()
    assert (
        memcpy_bandwidth(trace)["total_ns"].sum() == kernel_breakdown(trace).query("kind == 'memory'")["total_ns"].sum()
    )
    frame = op_breakdown(trace)
    assert (frame["gpu_ns"] >= frame["gpu_self_ns"]).all()


def test_rates_of_copies_over_time_add_up():
    rows = [
        work(0, 10, "Memcpy HtoD (Pinned -> Device)", num_bytes=100),
        work(5, 10, "Memcpy HtoD (Pageable -> Device)", num_bytes=50, stream=20, cat="gpu_memcpy"),
        work(5, 20, "Memcpy DtoH (Device -> Pinned)", num_bytes=20, cat="gpu_memcpy"),
        work(40, 10, "Memset (Device)", num_bytes=10),
        work(60, 10, "Memcpy HtoD (Pinned -> Device)"),  # of unknown size
        work(70, 0, "Memcpy HtoD (Pinned -> Device)", num_bytes=7),
    ]
    frame = copy_rates(trace_of(rows, at=0)).astype({"direction": object})
    assert frame.values.tolist() == [
        [0, "HtoD", 0, 10e9],
        [0, "HtoD", 5, 15e9],
        [0, "HtoD", 10, 5e9],
        [0, "HtoD", 15, 0.0],
        [0, "DtoH", 5, 1e9],
        [0, "DtoH", 25, 0.0],
        [0, "set", 40, 1e9],
        [0, "set", 50, 0.0],
    ]


@settings(max_examples=examples(100))
@given(st.lists(ALONE, min_size=1, max_size=12))
def test_the_area_below_the_rates_is_what_was_copied(rows):
    sized = [row | {"num_bytes": 3 * row["dur"]} for row in rows if row.get("device") is not None]
    trace = trace_of(sized, at=0)
    frame = copy_rates(trace)
    if not len(frame):
        return
    ends = frame.groupby(["device", "direction"], observed=True)["ts"].shift(-1)
    area = (frame["bytes_per_s"] * (ends - frame["ts"]) / 1e9).fillna(0).sum()
    copies = trace.events["cat"].isin(["gpu_memcpy", "gpu_memset"])
    assert area == pytest.approx(trace.events.loc[copies, "num_bytes"].sum())
