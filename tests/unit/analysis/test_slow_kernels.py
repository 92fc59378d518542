"""Kernels that are slower than usual on their GPU: planted among measured kernels and in recorded traces."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from findings_worlds import US, World
from recorded_traces import dilated, kernels_of, needs_recorded, opened

from cudalens.analysis import roofline
from cudalens.analysis.findings import TraceArrays
from cudalens.analysis.findings.kernel_rules import slower_than_usual
from cudalens.frames import DeviceInfo
from cudalens.gpus.registry import SPECS

MEASURED = Path(__file__).parents[4] / "shared" / "kernel_times"
needs_measurements = pytest.mark.skipif(not MEASURED.exists(), reason="no measured times in ../shared/kernel_times")
QWEN = "tracelens/h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
A100 = "hta/trace_diff__control.json.gz"
#: The ninth input of the operator of fused attention is whether there is a causal mask.
CAUSAL = '["", "", "", "", "", "1", "1", "0.", "True"]'
#: Devices of the measurements of FP32 operators.
SINGLE = {
    "a100": "NVIDIA A100-PCIE-40GB",
    "a100-80gb": "NVIDIA A100 80GB PCIe",
    "h100": "NVIDIA H100 80GB HBM3",
    "t4": "Tesla T4",
    "v100": "Tesla V100-PCIE-32GB",
    "p100": "Tesla P100-PCIE-16GB",
    "l4": "NVIDIA L4",
}


def device_of(key):
    spec = SPECS[key]
    capability = ".".join(map(str, spec.compute_capability))
    return DeviceInfo(0, spec.name, capability, spec.total_memory_bytes, spec.num_sms)


def run_of(calls, key):
    """A run of calls of (operator, shapes, dtype, ns), one after the other."""
    world = World()
    for operator, shapes, dtype, ns in calls:
        more = {"shapes": str(shapes), "dtypes": str([dtype] * len(shapes)).replace("'", '"')}
        if "attention" in operator:
            more["concrete_inputs"] = CAUSAL
        act = lambda w, ns=ns: w.sleep(US).device("kernel", ns)  # noqa: E731
        world.within(operator, act, "cpu_op", **more)
    return world.wait().trace(devices=(device_of(key),))


def kernels_found(trace):
    """Whatever share of the window they gain."""
    return {row for one in slower_than_usual(TraceArrays(trace)) for row in one.rows}


def products_half(key):
    table = pd.read_parquet(MEASURED / "gemm_bf16.parquet").query(f"spec == '{key}'")
    return [("aten::mm", [[r.m, r.k], [r.k, r.n]], "c10::BFloat16", r.median_ns) for r in table.itertuples()]


def attention(key):
    table = pd.read_parquet(MEASURED / "attention_causal_bf16.parquet").query(f"spec == '{key}'")
    for r in table.itertuples():
        q, k = ([r.batch_size, r.isl, heads, r.head_dim] for heads in (r.num_heads, r.kv_heads))
        yield "aten::_flash_attention_forward", [q, k, k], "c10::BFloat16", r.median_ns


def products_single(key):
    table = pd.read_parquet(MEASURED / "ops_fp32.parquet").query(f"op == 'linear' and gpu == '{SINGLE[key]}'")
    for r in table.astype(dict.fromkeys("BMNK", int)).itertuples():
        yield "aten::mm", [[r.B * r.M, r.N], [r.N, r.K]], "float", r.median_ns


def planted(calls, rng, share=0.1):
    """Some of `calls`, a tenth of them at twice their time, and which."""
    calls = [calls[k] for k in rng.permutation(len(calls))[:400]]
    chosen = rng.random(len(calls)) < share
    return [(*call[:3], int(call[3] * (1 + slow))) for call, slow in zip(calls, chosen, strict=True)], chosen


def judged(trace, chosen):
    """How many of the kernels that are found were planted, and of the planted long ones were found."""
    kernels = np.flatnonzero(trace.events["cat"] == "kernel")
    is_found = np.isin(kernels, sorted(kernels_found(trace)))
    long = chosen & (trace.events["dur"].to_numpy()[kernels] >= 60 * US)
    return is_found & chosen, is_found, long


@needs_measurements
@pytest.mark.parametrize(
    ("table", "keys"),
    [
        (products_half, ("a100-80gb", "h100", "h200", "b200", "l40s", "rtx-pro-6000")),
        (products_single, ("a100", "a100-80gb", "h100", "v100", "t4")),
        (attention, ("a100-80gb", "h100", "h200", "b300")),
    ],
)
def test_kernels_at_twice_their_measured_time_are_found_and_few_others(table, keys):
    rng = np.random.default_rng(1)
    counts = np.zeros(4, int)
    for key in keys:
        calls, chosen = planted(list(table(key)), rng)
        right, found, long = judged(run_of(calls, key), chosen)
        counts += [right.sum(), found.sum(), (right & long).sum(), long.sum()]
    assert counts[0] >= 0.9 * counts[1]
    assert counts[2] >= 0.9 * counts[3]


def test_the_call_with_the_largest_difference_is_an_example():
    calls = [("aten::mm", [[1024, 512], [512, 4096]], "float", factor * 348_341) for factor in (2, 3, 2)]
    (found,) = slower_than_usual(TraceArrays(run_of(calls, "a100")))
    assert found.what.startswith("3 calls took 2.44 ms, and usually take 1.0")
    assert "; the largest difference: aten::mm of [[1024, 512], [512, 4096]], 2.9 times its usual time." in found.what


@needs_measurements
def test_no_expectation_where_the_model_of_a_gpu_is_too_far_from_its_measured_times():
    for table, key in ((products_single, "l4"), (attention, "b200")):
        found = roofline(run_of(list(table(key))[:20], key))
        assert len(found)
        assert found["expected_ns"].isna().all()


@needs_recorded
@pytest.mark.parametrize("file", [QWEN, A100])
def test_recorded_kernels_at_twice_their_time_are_found_and_nothing_before(file):
    trace = opened(file)
    assert kernels_found(trace) == set()
    known = roofline(trace).query("expected_ns >= 25_000 * count and 0.85 < slowdown < 1.3")
    assert len(known) >= 4
    for group in known.itertuples():
        slow = dilated(trace, kernels_of(trace, group.name, group.shapes))
        found = kernels_found(slow)
        assert len(found) >= 0.5 * group.count  # others run beside the work of another stream
        assert found <= set(kernels_of(slow, group.name, group.shapes).tolist())
