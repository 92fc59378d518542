"""Recorded SQLite files of nsys and nvprof, compared with numbers that were computed from the files independently."""

import csv

import pytest
from chrome import RECORDED, needs_recorded

import cudalens
from cudalens.analysis import device_time
from cudalens.frames import GPU_ACTIVITIES

REFERENCE = RECORDED / "reference_sqlite.csv"
ROWS = list(csv.DictReader(REFERENCE.open())) if REFERENCE.is_file() else []

pytestmark = needs_recorded


@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_every_number_of_the_reference(row):
    trace = cudalens.load(RECORDED / row["file"])
    assert trace.info.problems == ()
    assert trace.info.source == f"file:{row['kind']}"
    events = trace.events
    work = events[events["cat"].isin(GPU_ACTIVITIES)]
    times = device_time(trace)
    is_call = events["cat"].isin(["cuda_runtime", "cuda_driver"])
    has_driver_table = row["kind"] == "nvprof"
    ranges = int(events["cat"].isin(["cpu_op", "user_annotation"]).sum())
    found = {
        "kernels": (events["cat"] == "kernel").sum(),
        "memcpys": (events["cat"] == "gpu_memcpy").sum(),
        "memsets": (events["cat"] == "gpu_memset").sum(),
        "runtime": (events["cat"] == "cuda_runtime").sum() if has_driver_table else is_call.sum(),
        "driver": (events["cat"] == "cuda_driver").sum() if has_driver_table else 0,
        "sync": (events["cat"] == "cuda_sync").sum(),
        "nvtx": 0 if has_driver_table else ranges,
        "markers": 2 * ranges if has_driver_table else 0,
        "streams": len(work[["device", "stream"]].drop_duplicates()),
        "devices": work["device"].nunique(),
        "span_ns": times["span_ns"],
        "busy_ns": times["busy_ns"],
        "sum_ns": times["sum_ns"],
    }
    found |= {f"busy_ns_dev{device}": busy_on(work, device) for device in (0, 1)}
    assert found == {name: int(row[name] or 0) for name in found}


def busy_on(work, device):
    """Length of the union of the intervals on one device, by walking over them."""
    busy, reached = 0, 0
    for start, dur in work.loc[work["device"] == device, ["ts", "dur"]].sort_values("ts").itertuples(index=False):
        busy += max(0, start + dur - max(start, reached))
        reached = max(reached, start + dur)
    return busy


def test_ranges_of_emit_nvtx_are_operators_with_their_numbers():
    events = cudalens.load(RECORDED / "nsys/h100_2gpu_1s.sqlite").events
    view = events[events["name"] == "aten::view"].iloc[0]
    assert (view["cat"], view["external_id"]) == ("cpu_op", 314290)
    fsdp = events[events["name"].astype(str).str.startswith("FSDP::")]
    assert set(fsdp["cat"]) == {"user_annotation"}
    assert not events["name"].astype(str).str.contains("op_id =").any()


def test_facts_of_a_recording_by_nsys():
    trace = cudalens.load(RECORDED / "nsys/mock_small.sqlite")
    (device,) = trace.info.devices
    assert (device.index, device.name, device.capability, device.num_sms) == (0, "NVIDIA GeForce RTX 3080", "8.6", 68)
    assert trace.info.host == "DESKTOP-KBEMEQS"
    assert trace.info.versions["nsys_schema"] == "3.24.14"
    assert trace.info.started_ns == 1_776_781_226_557_295_056 + 957_289_961
    kernel = trace.events[trace.events["cat"] == "kernel"].iloc[0]
    assert kernel["name"].startswith("void at::native::vectorized_elementwise_kernel<")
    assert (kernel["grid"], kernel["block_dim"]) == ("[1,1,1]", "[128,1,1]")
    assert (kernel["registers"], kernel["shared_memory_bytes"]) == (16, 0)
    launch = trace.events.loc[kernel["launch"]]
    assert (launch["name"], launch["cat"], launch["pid"]) == ("cudaLaunchKernel", "cuda_runtime", 91186)
    assert "PATH=" not in repr(trace.info)  # environment variables in a file are private


def test_facts_of_a_recording_by_nvprof():
    trace = cudalens.load(RECORDED / "nvprof/bench_ortmodule_nn_gpu.nvvp")
    assert [device.name for device in trace.info.devices] == ["Tesla V100-PCIE-16GB"] * 4
    ranges = trace.events[trace.events["cat"] == "user_annotation"]
    assert len(ranges) == 3030  # as many as torch's reader finds
    assert set(ranges["pid"]) == {94428}
    matmul = ranges[ranges["name"] == "MatMul.0(N1)"].iloc[0]
    assert trace.events.loc[matmul["parent"], "name"] == "Batch- Forward"
    kernels = trace.events[trace.events["cat"] == "kernel"]
    assert set(trace.events.loc[kernels["launch"], "name"]) == {"cudaLaunchKernel"}


@pytest.mark.parametrize("file", [row["file"] for row in ROWS])
def test_nothing_is_written_beside_the_file(file):
    folder = (RECORDED / file).parent
    before = sorted(folder.iterdir())
    cudalens.load(RECORDED / file)
    assert sorted(folder.iterdir()) == before
