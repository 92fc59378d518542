"""Operators that run as several kernels: their number, and that they do what one kernel would."""

import pytest
import torch
from torch import nn

import cudalens
from cudalens.gpus.registry import SPECS
from cudalens.virtual.timing.cost import kernel_work, kernel_works

aten = torch.ops.aten
H100 = SPECS["h100"]


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def works(func, *args):
    return list(kernel_works(H100, func, args, {}, func(*args)))


def names(found):
    return [work.name.partition("<")[0].rpartition("::")[2] for work in found]


def convolution(x, weight, bias):
    return works(aten.convolution.default, x, weight, bias, [16, 16], [0, 0], [1, 1], False, [0, 0], 1)


def test_a_loss_on_logits_runs_its_pointwise_operators_and_a_reduction():
    found = works(aten.binary_cross_entropy_with_logits.default, meta(4096), meta(4096))
    assert names(found) == ["log_sigmoid", "rsub", "mul", "sub", "reduce"]
    without_reduction = (meta(4096), meta(4096), meta(4096), None, 0)
    assert names(works(aten.binary_cross_entropy_with_logits.default, *without_reduction))[-1] == "mul"


def test_a_patch_embedding_converts_its_layout_for_tensor_cores():
    half = {"dtype": torch.bfloat16}
    found = convolution(meta(4, 3, 224, 224, **half), meta(768, 3, 16, 16, **half), meta(768, **half))
    assert names(found) == ["to_channels_last", "to_channels_last", "convolution", "from_channels_last", "add_bias"]
    channels_last = meta(4, 3, 224, 224, **half).to(memory_format=torch.channels_last)
    assert names(convolution(channels_last, meta(768, 3, 16, 16, **half), None)) == ["pad_channels", "convolution"]
    assert names(convolution(meta(4, 3, 224, 224), meta(768, 3, 16, 16), None)) == ["convolution"]


@pytest.mark.parametrize(("num_indices", "expected"), [(3072, 2), (3073, 10)])
def test_the_gradient_of_an_embedding_sorts_many_indices(num_indices, expected):
    grad, indices = meta(num_indices, 64), meta(num_indices, dtype=torch.int64)
    found = works(aten.embedding_dense_backward.default, grad, indices, 30522, -1, False)
    assert len(found) == expected
    assert names(found)[0] == "fill"
    assert found[0].num_bytes == 30522 * 64 * 4


@pytest.mark.parametrize(
    ("sizes", "expected"), [([10] * 64, 1), ([10] * 65, 2), ([65536 * 320], 1), ([65536 * 320 + 1], 2)]
)
def test_multi_tensor_kernels_are_limited_by_tensors_and_chunks(sizes, expected):
    tensors = [meta(size) for size in sizes]
    found = works(aten._foreach_add_.List, tensors, [meta(size) for size in sizes])
    assert len(found) == expected


def test_divided_kernels_last_as_long_as_the_whole():
    x, weight = meta(8, 16, 32, 32), meta(32, 16, 3, 3)
    args = (meta(8, 32, 32, 32), x, weight, [32], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
    out = aten.convolution_backward.default(*args)
    whole = kernel_work(H100, aten.convolution_backward.default, args, {}, out)
    every = list(kernel_works(H100, aten.convolution_backward.default, args, {}, out))
    parts = [part for part in every if names([part]) == ["convolution_backward"]]
    assert len(parts) == 2
    assert sum(part.duration_ns for part in parts) == pytest.approx(whole.duration_ns, abs=2)
    assert sum(part.flops for part in parts) == pytest.approx(whole.flops, abs=2)


def test_a_profile_shows_the_kernels_below_their_operator():
    with cudalens.virtual.device("h100"):
        norm = nn.LayerNorm(64).cuda()
        out = norm(torch.randn(32, 64, device="cuda", requires_grad=True)).sum()
        with cudalens.profile() as run:
            out.backward()
    events = run.trace.events
    kernels = events[(events["cat"] == "kernel") & events["name"].str.contains("layer_norm")]
    assert list(kernels["name"]) == [
        "simulated::native_layer_norm_backward<float>",
        "simulated::native_layer_norm_backward::gamma_beta<float>",
    ]
    assert kernels["external_id"].nunique() == 1


# -- sorts, scans, normalisation and losses ---------------------------------------------------------------------------

#: Calls with their times on an H200, us, from replays of CUDA graphs (tests/data/kernel_times); rates are an H100's.
MEASURED = [
    (aten.sort.default, (meta(8192, 1024), 1), 289.3),
    (aten.topk.default, (meta(2048, 50257), 50), 1261.6),
    (aten.cumsum.default, (meta(8192, 4096), 1), 204.3),
    (aten.argmax.default, (meta(8192, 4096), 0), 88.9),
    (aten.native_batch_norm.default, (meta(32, 64, 112, 112), None, None, None, None, True, 0.1, 1e-5), 399.8),
    (
        aten.native_group_norm.default,
        (meta(4, 320, 64, 64, dtype=torch.bfloat16), None, None, 4, 320, 4096, 32, 1e-5),
        32.8,
    ),
    (aten.max_pool2d_with_indices.default, (meta(32, 64, 112, 112), [3, 3], [2, 2], [1, 1]), 101.9),
]


@pytest.mark.parametrize(("func", "args", "measured_us"), MEASURED, ids=lambda value: str(value)[:30])
def test_kernels_that_bytes_do_not_limit_last_about_as_long_as_measured(func, args, measured_us):
    h200 = SPECS["h200"]
    found = list(kernel_works(h200, func, args, {}, func(*args)))
    predicted_us = sum(work.duration_ns + h200.graph_node_ns for work in found) / 1e3
    assert predicted_us == pytest.approx(measured_us, rel=0.35)


def test_a_long_row_is_sorted_in_a_pass_for_each_digit():
    long = works(aten.sort.default, meta(4, 100_000), 1)
    assert names(long) == ["copy", "positions", "pass", "pass", "pass", "pass"]
    half = works(aten.sort.default, meta(4, 100_000, dtype=torch.bfloat16), 1)
    assert names(half).count("pass") == 2


def test_lists_of_different_sizes_are_not_one_kernel():
    parameters, steps = [meta(256, 256) for _ in range(5)], [meta() for _ in range(5)]
    assert names(works(aten._foreach_mul_.List, parameters, steps)) == ["each"] * 5
    assert len(works(aten._foreach_mul_.List, parameters, [meta(256, 256) for _ in range(5)])) == 1


def test_a_fused_optimizer_reads_its_gradients_and_does_not_write_them():
    tensors = [[meta(1 << 20)] for _ in range(4)]
    settings = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
    kwargs = settings | {"amsgrad": False, "maximize": False}
    work = kernel_work(H100, aten._fused_adamw_.default, (*tensors, [], [meta()]), kwargs, None)
    assert work.num_bytes == pytest.approx((4 + 3) * 4 << 20, rel=1e-3)


def test_float32_convolutions_convert_their_layout_only_for_tensor_cores(monkeypatch):
    args = (meta(8, 64, 56, 56), meta(64, 64, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    out = aten.convolution.default(*args)
    found = {gpu: names(kernel_works(SPECS[gpu], aten.convolution.default, args, {}, out)) for gpu in ("h100", "v100")}
    assert found["h100"] == ["to_channels_last", "to_channels_last", "convolution", "from_channels_last"]
    assert found["v100"] == ["convolution"]
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    assert names(works(aten.convolution.default, *args)) == ["convolution"]


@pytest.mark.parametrize(("gpu", "family"), [("h200", "attention_cudnn"), ("a100", "attention")])
def test_cudnn_computes_half_precision_attention_on_hopper(gpu, family):
    heads = meta(8, 16, 1024, 128, dtype=torch.bfloat16)
    args = (heads, heads, heads)
    work = kernel_work(SPECS[gpu], aten._scaled_dot_product_flash_attention.default, args, {}, heads)
    assert work.family == family
    if gpu == "h200":
        assert work.duration_ns == pytest.approx(113_000, rel=0.2)  # measured on one


def test_a_program_that_disables_cudnn_has_flash_attention():
    heads = meta(8, 16, 1024, 128, dtype=torch.bfloat16)
    args = (heads, heads, heads)
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        work = kernel_work(SPECS["h200"], aten._scaled_dot_product_flash_attention.default, args, {}, heads)
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)
    assert work.family == "attention"
