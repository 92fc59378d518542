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
    assert names(convolution(channels_last, meta(768, 3, 16, 16, **half), None)) == ["convolution"]
    assert names(convolution(meta(4, 3, 224, 224), meta(768, 3, 16, 16), None)) == ["convolution"]


@pytest.mark.parametrize(("num_indices", "expected"), [(3072, 2), (3073, 9)])
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
    parts = list(kernel_works(H100, aten.convolution_backward.default, args, {}, out))
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
