"""Recorded traces of real GPUs, compared with numbers that were computed from the files independently."""

import csv
import math

import numpy as np
import pytest
from chrome import RECORDED, needs_recorded

import cudalens
from cudalens.analysis import device_time
from cudalens.analysis.time import work as device_work
from cudalens.errors import TraceFormatError
from cudalens.frames import GPU_ACTIVITIES

REFERENCE = RECORDED / "reference.csv"
ROWS = list(csv.DictReader(REFERENCE.open())) if REFERENCE.is_file() else []

pytestmark = needs_recorded


@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_every_number_of_the_reference(row, monkeypatch):
    # The reference counts NCCL's kernels alone as communication.
    monkeypatch.setattr(device_work, "PATTERNS", {"NCCL": r"^nccl.*Kernel"})
    trace = cudalens.load(RECORDED / row["file"])
    assert trace.info.problems == ()
    assert trace.info.source == "file:kineto"
    for name, value in device_time(trace).items():
        wanted = row[name.replace("_ns", "_us")]
        if wanted:
            assert abs(value - float(wanted) * 1000) <= 1, name
        else:
            assert math.isnan(float(wanted or "nan"))
            assert value is np.nan or str(value) == "<NA>"
    work = trace.events[trace.events["cat"].isin(GPU_ACTIVITIES)]
    is_kernel = work["cat"] == "kernel"
    is_comm = is_kernel & work["name"].astype(str).str.match(r"^nccl.*Kernel")
    found = {
        "events": trace.info.options["file_events"],
        "gpu_events": len(work),
        "n_kernel": (is_kernel & ~is_comm).sum(),
        "n_comm": is_comm.sum(),
        "n_memcpy": (work["cat"] == "gpu_memcpy").sum(),
        "n_memset": (work["cat"] == "gpu_memset").sum(),
        "devices": work["device"].nunique(),
        "streams": len(work[["device", "stream"]].drop_duplicates()),
        "matched": work["launch"].notna().sum(),
        "zero_dur": (work["dur"] == 0).sum(),
    }
    assert found == {name: int(row[name] or 0) for name in found}


@pytest.mark.parametrize("file", ["hta/execution_trace__simple_add_et.json.gz", "param/resnet_et.json.gz"])
def test_an_execution_trace_is_called_so(file):
    with pytest.raises(TraceFormatError, match="execution trace"):
        cudalens.load(RECORDED / file)


def test_facts_of_a_run_with_collectives():
    trace = cudalens.load(RECORDED / "hta/nccl_parser_config__nccl_data.json.gz")
    assert (trace.info.rank, trace.info.world_size) == (0, 2)
    device = trace.info.devices[0]
    assert (device.name, device.capability, device.num_sms) == ("NVIDIA A100-PG509-200", "8.0", 108)
    comm = trace.events[(trace.events["cat"] == "kernel") & trace.events["collective"].notna()]
    assert len(comm) == 21
    assert set(comm["process_group"]) == {"0"}
    assert trace.info.started_ns > 1_711_964_646 * 10**9  # the file's base, in 2024


def test_oldest_layout_has_stacks_shapes_and_allocations():
    trace = cudalens.load(RECORDED / "kineto/resnet50_workers0.1623143089861.pt.trace.json.gz")
    assert len(trace.memory) == 12838
    assert {"alloc", "free_completed"} <= set(trace.memory["action"])
    assert set(trace.memory["device_type"].dropna()) == {"cpu", "cuda"}
    assert (trace.memory["device"].isna() == (trace.memory["device_type"] == "cpu")).all()
    assert trace.events["stack"].notna().sum() == 14994
    first = trace.stacks[trace.stacks["stack"] == 0]
    assert first["function"].iloc[0] == "__init__"
    assert first["line"].iloc[0] == 611
    assert trace.events["shapes"].notna().sum() > 20_000
    assert set(trace.events["cat"].cat.categories) >= {"cpu_op", "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime"}
