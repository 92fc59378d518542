"""No gain exceeds what the critical path's what-if estimates for its advice, plus the idle time."""

import csv
import sys
from pathlib import Path

import pytest
from findings_worlds import US, World
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_traces import RECORDED, TRACES, needs_recorded, opened
from support.budget import examples

import cudalens
from cudalens.analysis import critical_path, findings, idle_ledger
from cudalens.analysis.findings import MIN_WALL_NS, TraceArrays
from cudalens.analysis.findings.finding import idle_by_cause
from cudalens.analysis.summary import wall_ns
from cudalens.analysis.time.groups import length
from cudalens.analysis.time.overlap import device_time

sys.path.append(str(Path(__file__).parents[2] / "planted"))

from edited import lengthened


def with_device_work():
    """The recorded traces of GPUs in the reference tables."""
    names = []
    for table in ("reference.csv", "reference_sqlite.csv"):
        if (RECORDED / table).exists():
            rows = csv.DictReader((RECORDED / table).open())
            names += [row["file"] for row in rows if float(row.get("busy_us") or row.get("busy_ns") or 0)]
    return [name for name in names if (RECORDED / name).exists()]


#: The changes that each rule's advice can make at most; other rules are about time outside of the path.
NO_WORK = {"scale": {"kernels": 0.0, "copies": 0.0, "host": 0.0}, "without_syncs": True}
CHANGES = {
    "host_sync": {"scale": {"copies": 0.0, "aten::*": 0.0}, "without_syncs": True},
    "data_loader": {"scale": {"host": 0.0}},
    "garbage_collection": {"scale": {"host": 0.0}},
    "compiling": {"scale": {"host": 0.0}},
    "graph_recording": {"scale": {"host": 0.0}},
    "graphable": {"scale": {"host": 0.0}, "without_syncs": True},
    "launch_bound": {"scale": {"host": 0.0}},
    "tiny_kernels": {"scale": {"kernels": 0.0}},
    "small_grids": {"scale": {"kernels": 0.0}},
    "slow_kernels": {"scale": {"kernels": 0.0}},
    "fp32_math": {"scale": {"kernels": 0.0}},
    "layout_conversions": {"scale": {"kernels": 0.0}},
    "exposed_communication": {"scale": {"communication": 0.0}},
    "waiting_for_ranks": {"scale": {"communication": 0.0}},
    "exposed_copies": {"overlap_copies": True},
}


def message(world, elements, ns):
    """A collective with a recorded size, in which a kernel runs that may have waited for other ranks."""
    kernel = lambda w: w.sleep(US).device("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", ns, stream=20)  # noqa: E731
    return world.within("nccl:all_reduce", kernel, "cpu_op", shapes=f"[[{elements}], []]")


ACTS = {
    "kernel": lambda w, ns: w.within("aten::mul", lambda w: w.device("kernel", ns), "cpu_op"),
    "sgemm": lambda w, ns: w.device("ampere_sgemm_128x64_tn", ns),
    "nccl": lambda w, ns: w.device("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", ns, stream=20),
    "small message": lambda w, ns: message(w, 8, ns),
    "large message": lambda w, ns: message(w, 1 << 20, ns),
    "layout": lambda w, ns: w.device("nchwToNhwcKernel", ns),
    "pinned": lambda w, ns: w.device("Memcpy HtoD (Pinned -> Device)", ns, cat="gpu_memcpy", num_bytes=20 * ns),
    "item": lambda w, ns: w.within("aten::item", World.wait, "cpu_op"),
    "wait": lambda w, ns: w.wait(),
    "sleep": lambda w, ns: w.sleep(ns),
    "loader": lambda w, ns: w.within("enumerate(DataLoader)#x", lambda w: w.sleep(ns)),
    "garbage": lambda w, ns: w.within("Python garbage collection", lambda w: w.sleep(ns)),
    "record": lambda w, ns: w.within("CUDAGraphNode.record (dynamo_timed)", lambda w: w.sleep(ns)),
    "malloc": lambda w, ns: w.within("cudaMalloc", lambda w: w.sleep(ns), "cuda_runtime"),
}


def check_bounds(trace):
    path, arrays = critical_path(trace), TraceArrays(trace)
    idle = arrays.idle_ns
    # A replay without the waits of streams for each other does not see what communication delays.
    unseen = 0 if arrays.steady.has_event_waits else int(device_time(trace).fillna(0)["exposed_comm_ns"])
    for one in findings(trace, most=None):
        if one.gain_ns is None:
            continue
        saved = path.what_if(**_without_one_off(arrays, _possible(path, CHANGES.get(one.rule, NO_WORK)))).saved_ns
        outside = wall_ns(trace) - path.length_ns
        of_streams = unseen if one.rule in ("exposed_communication", "waiting_for_ranks") else 0
        assert 0 <= one.gain_ns <= saved + idle + max(outside, 0) + of_streams, one


def check_claims(trace):
    """No two findings claim the same idle time, and what is idle for a fifth of the window is in a finding."""
    arrays, found = TraceArrays(trace), findings(trace, most=None)
    by_cause = idle_by_cause(arrays)
    idle = wall_ns(trace) - length(arrays.busy)
    assert all(ns >= 0 for ns in by_cause.values())
    assert sum(by_cause.values()) == idle
    assert sum(one.idle_ns for one in found) <= idle
    assert all(0 <= one.idle_ns <= (one.gain_ns or 0) for one in found)
    ledger = idle_ledger(trace)
    assert ledger["idle_ns"].sum() == idle
    assert (ledger["claimed_ns"] <= ledger["idle_ns"]).all()
    assert ledger["claimed_ns"].sum() == sum(one.idle_ns for one in found)
    assert {rule for rules in ledger["claimed_by"] for rule in rules.split(", ") if rule} <= {one.rule for one in found}
    if idle >= 0.2 * wall_ns(trace) and wall_ns(trace) >= MIN_WALL_NS and not arrays.is_filtered:
        assert found[0].gain_ns is not None
        assert any(one.idle_ns for one in found)


def _possible(path, change):
    """Without names that no event has."""
    scale = change.get("scale", {})
    kept = {key: factor for key, factor in scale.items() if "*" not in key or _has_operators(path)}
    return change | {"scale": kept} if scale else change


def _without_one_off(arrays, change):
    """With the removal of one-off work, which hides behind the device's: gains are those of a run without it."""
    names = set(arrays.trace.events["name"].iloc[arrays.one_off_rows].astype(str))
    return change | {"scale": {**dict.fromkeys(names, 0.0), **change.get("scale", {})}}


def _has_operators(path):
    return bool(path.trace.events["name"].astype(str).str.startswith("aten::").any())


@settings(max_examples=examples(40))
@given(
    st.lists(st.tuples(st.sampled_from(sorted(ACTS)), st.integers(1, 3000)), min_size=3, max_size=12),
    st.integers(1, 12),
)
def test_gains_of_made_runs(acts, times):
    world = World().device("first", 100 * US)
    for _ in range(times):
        for act, size in acts:
            ACTS[act](world, size * US)
    trace = world.kernels(2, 10 * US).wait().trace()
    check_bounds(trace)
    check_claims(trace)
    check_claims(world.trace(source="file:kineto"))


@needs_recorded
@pytest.mark.parametrize("file", [file for file in TRACES if "cpu_only" not in file])
def test_gains_of_recorded_traces(file):
    check_bounds(opened(file))


@needs_recorded
@pytest.mark.parametrize("file", with_device_work())
def test_claims_of_all_recorded_traces(file):
    check_claims(cudalens.load(RECORDED / file))


@needs_recorded
@pytest.mark.parametrize("name", ["enumerate(DataLoader)#x", "Module Loading", "save", None])
def test_claims_of_edited_traces(name):
    for number, ns in ((3, 50_000_000), (40, 500_000)):
        check_claims(lengthened("kineto/resnet50_workers4.1623213129365.pt.trace.json.gz", number, ns, name))
