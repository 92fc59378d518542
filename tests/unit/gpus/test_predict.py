"""Modelled times of kernels: against measured times of real GPUs, and laws that hold for any sizes."""

from math import prod
from pathlib import Path

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cudalens
from cudalens.errors import VirtualDeviceError
from cudalens.gpus import predict
from cudalens.gpus.constants import accuracy, fit_of, is_calibrated
from cudalens.gpus.registry import SPECS
from cudalens.gpus.time_formulas import GPU_COUNTS, HEAD_DIMS, collective_ns
from cudalens.virtual.timing.cost import kernel_work, op_cost
from cudalens.virtual.timing.kernel_times import _PRODUCTS, base_name

MEASURED = Path(__file__).parents[4] / "shared" / "kernel_times"
needs_measurements = pytest.mark.skipif(not MEASURED.exists(), reason="no measured times in ../shared/kernel_times")
aten = torch.ops.aten
H100 = SPECS["h100"]

specs = st.sampled_from(sorted(SPECS.values(), key=lambda spec: spec.key))
sizes = st.integers(1, 20_000)


# -- against measurements --------------------------------------------------------------------------------------------


def mean_error(rows, predicted):
    return sum(abs(guess / row.median_ns - 1) for row, guess in zip(rows, predicted, strict=True)) / len(rows)


def attention_ns(spec, row, queries, *, is_causal):
    heads = (row.num_heads, row.kv_heads, row.head_dim)
    return predict.attention_ns(spec, "bfloat16", row.batch_size, queries, row.kv_len, *heads, is_causal, 2)


def sample(name, gpu):
    table = pd.read_parquet(MEASURED / name)
    return list(table[table["spec"] == gpu].sample(150, random_state=3).itertuples())


@needs_measurements
@pytest.mark.parametrize("gpu", ["a100-80gb", "h100", "h200", "b200", "l40s"])
def test_products_attention_and_decoding_are_near_their_measured_times(gpu):
    spec = SPECS[gpu]
    rows = sample("gemm_bf16.parquet", gpu)
    found = [predict.matrix_ns(spec, "bfloat16", 1, row.m, row.n, row.k, 2) for row in rows]
    assert mean_error(rows, found) <= 0.15
    rows = [row for row in sample("attention_causal_bf16.parquet", gpu) if row.isl > 1]
    assert mean_error(rows, [attention_ns(spec, row, row.isl, is_causal=True) for row in rows]) <= 0.25
    rows = sample("attention_decode_bf16.parquet", gpu)
    assert mean_error(rows, [attention_ns(spec, row, 1, is_causal=False) for row in rows]) <= 0.35


@needs_measurements
@pytest.mark.parametrize("gpu", ["a100-80gb", "h100", "h200", "b200", "l40s"])
def test_collectives_are_near_their_measured_times(gpu):
    table = pd.read_parquet(MEASURED / "nccl_fp16.parquet")
    rows = list(table[table["spec"] == gpu].itertuples())
    found = [cudalens.virtual.collective_time(gpu, row.op, row.num_gpus, row.message_bytes) for row in rows]
    assert mean_error(rows, found) <= 0.2


@needs_measurements
@pytest.mark.parametrize(("family", "kind"), [("attention", "causal"), ("decode", "decode")])
def test_head_dimensions_without_measurements_use_the_nearest_measured_one(family, kind):
    table = pd.read_parquet(MEASURED / f"attention_{kind}_bf16.parquet")
    for gpu, found in accuracy()[family]["gpus"].items():
        if "num_models" in found:
            continue
        measured = set(table.loc[table["spec"] == gpu, "head_dim"])
        values = {found["constants"][f"head_{dim}"] for dim in HEAD_DIMS if dim in measured}
        assert {found["constants"][f"head_{dim}"] for dim in HEAD_DIMS} == values, gpu


def test_the_errors_on_unfitted_shapes_are_within_the_stated_bounds():
    many = {
        "matrix_half": 15,
        "attention": 25,
        "decode": 30,
        "matrix_single": 20,
        "pointwise": 15,
        "convolution_half": 25,
        "convolution_single": 30,
    }
    few = {"softmax": 15, "layer_norm": 15, "all_gather": 20, "all_reduce": 20, "alltoall": 20, "reduce_scatter": 20}
    for name, bound in (many | few).items():
        for gpu, found in accuracy()[name]["gpus"].items():
            if "judged_on" in found:  # the shapes of a campaign on another GPU, with the smallest and the largest
                assert found["mean_error_pct"] <= 20, (name, gpu)
                assert found["num_shapes"] >= 10, (name, gpu)
                continue
            assert found["mean_error_pct"] <= (15 if "num_models" in found else bound), (name, gpu)
            assert "num_models" in found or found["num_shapes"] >= (100 if name in many else 10), (name, gpu)


# -- laws ------------------------------------------------------------------------------------------------------------


@given(specs, st.integers(1, 64), sizes, sizes, sizes, st.integers(1, 5000), st.sampled_from(["float32", "bfloat16"]))
def test_a_larger_product_is_never_faster(spec, batch, m, n, k, more, unit):
    def time(batch=batch, m=m, n=n, k=k):
        return predict.matrix_ns(spec, unit, batch, m, n, k, 2)

    base = time()
    assert type(base) is int
    assert base >= 1000
    for longer in (time(m=m + more), time(n=n + more), time(k=k + more), time(batch=batch + 1)):
        assert longer >= base * 0.999


@given(specs, sizes, sizes, sizes, st.sampled_from([("bfloat16", 2), ("float32", 4)]))
def test_a_product_never_exceeds_the_peak(spec, m, n, k, unit):
    flops_per_ns = 2 * m * n * k / predict.matrix_ns(spec, unit[0], 1, m, n, k, unit[1])
    # GeForce cards run above the clock of their data sheet: whole models of an RTX 3090 need 1.1 times the peak at it.
    headroom = 1.15 if "GeForce" in spec.name else 1
    assert flops_per_ns <= spec.peak_tflops[unit[0]] * 1e3 * headroom


@given(specs, st.integers(1, 64), st.integers(2, 8192), st.sampled_from([(8, 8), (32, 8), (32, 1)]))
def test_a_causal_mask_saves_time_and_more_keys_cost_time(spec, batch, length, heads):
    def time(keys, is_causal):
        return predict.attention_ns(spec, "bfloat16", batch, length, keys, *heads, 128, is_causal, 2)

    assert time(length, True) <= time(length, False) * 1.001
    assert time(length, False) <= time(2 * length, False)


def test_a_backward_pass_of_attention_takes_longer_but_has_one_fixed_cost():
    def times(length):
        sizes = (1, length, length, 16, 16, 64, True, 2)
        return [predict.attention_ns(H100, "bfloat16", *sizes, backward) for backward in (False, True)]

    (short, short_backward), (long, long_backward) = times(64), times(16384)
    assert short < short_backward < 2 * short
    assert long_backward / long == pytest.approx(predict.ATTENTION_BACKWARD, rel=0.05)


@pytest.mark.parametrize(("features", "computed"), [(40, 64), (72, 96), (80, 96), (160, 160)])
@pytest.mark.parametrize("key", ["v100", "a100", "rtx4090", "h100"])
def test_attention_computes_whole_tiles_of_features(key, features, computed):
    """Kernels exist for multiples of 32 features: another number takes as long as the next of them, but for bytes."""
    sizes = (16, 4096, 4096, 8, 8)
    exact, whole = (predict.attention_ns(SPECS[key], "float16", *sizes, n, False, 2) for n in (features, computed))
    assert 0.95 * whole <= exact <= whole


def test_a_long_causal_attention_takes_about_half():
    whole, causal = (predict.attention_ns(H100, "bfloat16", 1, 16384, 16384, 32, 32, 128, c, 2) for c in (False, True))
    assert causal / whole == pytest.approx(0.5, abs=0.1)


@given(
    st.sampled_from(["h100", "a100", "l40s", "v100"]),
    st.sampled_from(["all_reduce", "all_gather_into_tensor", "all_to_all"]),
    st.integers(2, 8),
    st.integers(0, 2**30),
    st.integers(1, 2**30),
)
def test_a_longer_message_never_arrives_earlier(gpu, op, num_gpus, num_bytes, more):
    first, second = (
        cudalens.virtual.collective_time(gpu, op, num_gpus, size) for size in (num_bytes, num_bytes + more)
    )
    assert type(first) is int
    assert 1000 < first <= second


@given(st.integers(2, 8), st.integers(0, 2**30))
def test_the_rate_of_a_link_lies_between_those_of_the_measured_numbers_of_gpus(num_gpus, num_bytes):
    """Without a bandwidth, only the latency is left."""
    constants = fit_of(H100, "all_reduce").constants
    rates = [constants[f"rate_{count}"] for count in GPU_COUNTS]
    wide = {name: 1e12 if name.startswith("rate_") else value for name, value in constants.items()}
    latency_ns = collective_ns(wide, 1, num_gpus, 0)
    bandwidth_ns = collective_ns(constants | {"middle": 0}, 1, num_gpus, num_bytes) - latency_ns
    assert num_bytes / max(rates) <= bandwidth_ns * 1.001 + 1
    assert bandwidth_ns <= num_bytes / min(rates) * 1.001 + 1


def test_short_products_that_are_not_aligned_run_without_tensor_cores():
    """As recorded (A100, TF32 allowed): SIMT kernels up to an inner dimension of 48, 440 us for the first sizes."""

    def time(unit, k, slowdown):
        return predict.matrix_ns(SPECS["a100"], unit, 1024, 96, 647, k, 4, slowdown)

    assert time("tf32", 30, 2.0) == time("float32", 30, 1.0) == pytest.approx(440_000, rel=0.2)
    assert time("tf32", 96, 2.0) < time("float32", 96, 1.0)
    assert time("tf32", 32, 1.0) < time("float32", 32, 1.0)


def test_a_layer_norm_reads_rows_again_that_the_cache_does_not_hold():
    """As measured: rows of 5,120 elements and more take 1.9 times the bytes at full bandwidth, short ones 1.3."""

    def bandwidths(length):
        num_bytes = 8 * 65536 * length
        time_ns = predict.rows_ns(SPECS["a100-80gb"], "layer_norm", 65536, length, num_bytes, 4)
        return num_bytes / SPECS["a100-80gb"].memory_bandwidth_gbps / time_ns

    assert bandwidths(8192) < 0.8 * bandwidths(1024)


def test_a_collective_that_was_not_measured_is_refused():
    with pytest.raises(VirtualDeviceError, match="'broadcast'; expected one of all_gather"):
        cudalens.virtual.collective_time("h100", "broadcast", 8, 100)
    with pytest.raises(VirtualDeviceError, match="100 bytes over 1 GPUs: expected two or more"):
        cudalens.virtual.collective_time("h100", "all_reduce", 1, 100)


# -- constants -------------------------------------------------------------------------------------------------------


def test_a_gpu_without_measurements_uses_the_most_similar_one():
    assert fit_of(SPECS["a100"], "matrix_half").gpu == "a100-80gb"
    assert fit_of(SPECS["h100-pcie"], "matrix_half").gpu == "h100"
    assert fit_of(SPECS["rtx4090"], "matrix_single").gpu == "l4"
    assert fit_of(SPECS["h100"], "matrix_half").gpu == "h100"
    assert is_calibrated(SPECS["h100"])
    assert not is_calibrated(SPECS["a10"])


def test_every_family_names_its_source_and_licence():
    for name, family in accuracy().items():
        assert any(source in family["source"] for source in ("Apache-2.0", "MIT", "make gpu-campaign")), name
        for gpu, found in family["gpus"].items():
            assert gpu in SPECS
            assert all(value > 0 for value in found["constants"].values()), (name, gpu)


# -- sizes from operators --------------------------------------------------------------------------------------------


CALLS = [
    (aten.mm.default, ((3, 5), (5, 7))),
    (aten.bmm.default, ((2, 3, 5), (2, 5, 7))),
    (aten.addmm.default, ((7,), (3, 5), (5, 7))),
    (aten.baddbmm.default, ((2, 3, 7), (2, 3, 5), (2, 5, 7))),
    (aten.addbmm.default, ((3, 7), (2, 3, 5), (2, 5, 7))),
    (aten.mv.default, ((3, 5), (5,))),
    (aten.addmv.default, ((3,), (3, 5), (5,))),
    (aten.linear.default, ((2, 3, 5), (7, 5))),
]


@pytest.mark.parametrize(("func", "shapes"), CALLS, ids=lambda value: str(value) if callable(value) else "")
def test_the_sizes_of_a_product_have_its_operations(func, shapes):
    args = [torch.ones(shape) for shape in shapes]
    out = func(*args)
    products = list(_PRODUCTS[base_name(func)](args, out))
    assert sum(2 * prod(product) for product in products) == op_cost(func, args, {}, out).flops


def duration_ns(gpu, func, args, out):
    return kernel_work(SPECS[gpu], func, args, {}, out).duration_ns


def convolution(x, weight, stride=1, groups=1):
    """The arguments and the result of a convolution that keeps the size of the image."""
    padding = weight.shape[-1] // 2
    args = (x, weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups)
    return args, aten.convolution.default(*args)


def on_meta(*shape, dtype=torch.float16):
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize("gpu", sorted(SPECS))
def test_a_depthwise_convolution_takes_a_few_times_as_long_as_its_bytes(gpu):
    """Four times at most where it was measured; memory of data centers is faster than the loads of the SMs."""
    bound = 4 if SPECS[gpu].memory_bandwidth_gbps < 1900 else 8
    if gpu == "h20":  # three fifths of the SMs of a GH200, with the same memory
        bound = 10
    args, out = convolution(on_meta(64, 256, 56, 56), on_meta(256, 1, 3, 3), groups=256)
    bytes_ns = (args[0].nbytes + out.nbytes) / SPECS[gpu].memory_bandwidth_gbps
    assert bytes_ns <= duration_ns(gpu, aten.convolution.default, args, out) <= bound * bytes_ns


@pytest.mark.parametrize("gpu", ["v100", "a100", "h100", "rtx3090", "rtx4090"])
def test_a_convolution_is_not_faster_than_its_operations_and_not_much_slower_than_a_product(gpu):
    args, out = convolution(on_meta(64, 256, 56, 56), on_meta(256, 256, 3, 3))
    flops = op_cost(aten.convolution.default, args, {}, out).flops
    peak_ns = flops / SPECS[gpu].peak_tflops["float16"] / 1e3
    assert peak_ns <= duration_ns(gpu, aten.convolution.default, args, out) <= 3.5 * peak_ns


def test_the_gradients_of_a_convolution_take_as_long_as_each_of_them():
    args, out = convolution(on_meta(16, 64, 56, 56), on_meta(64, 64, 3, 3))
    x, weight, _, *options = args

    def gradients(wanted):
        func, found = aten.convolution_backward.default, (x, weight, None)
        return duration_ns("rtx3090", func, (out, x, weight, None, *options, wanted), found)

    both = gradients([True, True, False])
    assert both == gradients([True, False, False]) + gradients([False, True, False])
    assert both >= 2 * duration_ns("rtx3090", aten.convolution.default, args, out)


def test_batch_norm_with_running_statistics_takes_as_long_as_a_pointwise_operator():
    x, statistics = on_meta(64, 256, 56, 56), [on_meta(256, dtype=torch.float32) for _ in range(4)]

    def batch_norm(training):
        args = (x, *statistics, training, 0.1, 1e-5)
        return duration_ns("h100", aten.native_batch_norm.default, args, (x, *statistics[:2]))

    relu = duration_ns("h100", aten.relu.default, (x,), x)
    assert relu <= batch_norm(training=False) <= 1.1 * relu
    assert batch_norm(training=True) >= 1.4 * relu


@pytest.mark.parametrize("gpu", ["h100", "b200", "a100", "v100"])
@pytest.mark.parametrize("length", [32, 64, 128, 256, 512])
def test_a_softmax_of_short_rows_takes_at_most_five_times_as_long_as_its_bytes(gpu, length):
    x = on_meta(2**24 // length, length, dtype=torch.float32)
    bytes_ns = 2 * x.nbytes / SPECS[gpu].memory_bandwidth_gbps
    predicted_ns = duration_ns(gpu, aten._softmax.default, (x, -1, False), torch.empty_like(x))
    assert 0.85 * bytes_ns <= predicted_ns <= 5 * bytes_ns + 5000


def test_a_softmax_along_another_dimension_counts_bytes_only():
    x = torch.ones(64, 4096)
    rows = kernel_work(H100, aten._softmax.default, (x, -1, False), {}, aten._softmax.default(x, -1, False))
    assert rows.duration_ns == predict.rows_ns(H100, "softmax", 64, 4096, 2 * x.nbytes, 4)
    columns = kernel_work(H100, aten._softmax.default, (x, 0, False), {}, aten._softmax.default(x, 0, False))
    assert columns.duration_ns != rows.duration_ns


def test_a_causal_mask_shortens_the_kernel_on_the_virtual_device():
    def duration(is_causal):
        with cudalens.virtual.device("h100"), cudalens.profile() as run:
            q = torch.ones(1, 2, 2048, 64, device="cuda", dtype=torch.bfloat16)
            torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=is_causal)
        events = run.trace.events
        kernels = events[(events["cat"] == "kernel") & events["name"].str.contains("attention")]
        assert len(kernels) == 1
        return int(kernels["dur"].iloc[0])

    assert duration(True) < duration(False)


@pytest.mark.parametrize(("gpu", "source"), [("h100", "virtual:h100"), ("a10", "virtual:a10, times uncalibrated")])
def test_a_run_names_a_gpu_whose_times_are_not_calibrated(gpu, source):
    with cudalens.virtual.device(gpu), cudalens.profile() as run:
        torch.ones(8, device="cuda").sum()
    assert run.trace.info.source == source


@pytest.fixture
def four_ranks():
    """A process group of four ranks whose collectives move nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    yield
    torch.distributed.destroy_process_group()


def test_collectives_of_a_process_group_last_as_long_as_predicted(four_ranks):
    with cudalens.virtual.device("h100"), cudalens.profile() as run:
        part = torch.ones(2**20, device="cuda")
        whole = torch.empty(2**22, device="cuda")
        torch.distributed.all_reduce(part)
        torch.distributed.all_gather_into_tensor(whole, part)
        torch.distributed.reduce_scatter_tensor(part, whole)
    events = run.trace.events
    kernels = events[events["cat"] == "kernel"]
    found = {name: int(kernels.loc[kernels["name"].str.contains(name), "dur"].iloc[0]) for name in
             ("allreduce", "allgather", "reduce_scatter")}  # fmt: skip
    time = cudalens.virtual.collective_time
    assert found == {
        "allreduce": time("h100", "all_reduce", 4, 2**22),
        "allgather": time("h100", "all_gather", 4, 2**24),
        "reduce_scatter": time("h100", "reduce_scatter", 4, 2**24),
    }
