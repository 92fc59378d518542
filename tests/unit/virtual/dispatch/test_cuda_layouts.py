"""Results of operators have the strides that CUDA gives them, and copies of operands take memory and time."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import cudalens
from cudalens.device import gpu_trace
from cudalens.virtual import device

LAST = torch.channels_last
LAST_3D = torch.channels_last_3d

#: Functions of a tensor with channels last, whose results are contiguous on CUDA.
CONTIGUOUS = {
    "group_norm": lambda x: functional.group_norm(x, 4),
    "group_norm with weights": lambda x: functional.group_norm(x, 2, x.new_ones(8), x.new_zeros(8)),
    "reflection_pad2d": lambda x: functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "replication_pad2d": lambda x: functional.pad(x, (1, 1, 1, 1), mode="replicate"),
    "pixel_shuffle": lambda x: functional.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: functional.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: functional.channel_shuffle(x, 2),
    "max_unpool2d": lambda x: functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2),
}

#: Functions whose results keep channels last, also with few channels.
KEPT = {
    "upsample_nearest2d": lambda x: functional.interpolate(x, scale_factor=2),
    "upsample_bilinear2d": lambda x: functional.interpolate(x[:, :3], scale_factor=2, mode="bilinear"),
    "max_pool2d": lambda x: functional.max_pool2d(x, 2),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "relu": functional.relu,
}


@pytest.fixture(params=[True, False], ids=["values", "no values"], autouse=True)
def h100(request):
    with device("h100", values=request.param):
        yield request.param


@pytest.mark.parametrize("name", CONTIGUOUS)
def test_a_result_that_is_contiguous_on_cuda(name, h100):
    function, x = CONTIGUOUS[name], torch.randn(2, 8, 6, 6).to(memory_format=LAST)
    expected = function(x)
    on_device = x.cuda().requires_grad_()
    result = function(on_device)
    assert result.is_contiguous()
    (grad,) = torch.autograd.grad(result.square().sum(), on_device)
    assert grad.shape == x.shape
    if h100:
        torch.testing.assert_close(result.detach().cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["group_norm", "reflection_pad2d", "replication_pad2d"])
def test_a_gradient_that_is_contiguous_on_cuda(name):
    x = torch.randn(2, 8, 6, 6).to("cuda", memory_format=LAST).requires_grad_()
    (grad,) = torch.autograd.grad(CONTIGUOUS[name](x).sum(), x)
    assert grad.is_contiguous()


@pytest.mark.parametrize("name", KEPT)
def test_a_result_that_keeps_channels_last(name):
    x = torch.randn(2, 8, 6, 6).to("cuda", memory_format=LAST)
    assert KEPT[name](x).is_contiguous(memory_format=LAST)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_in_three_dimensions(mode):
    x = torch.randn(2, 3, 5, 5, 5).to("cuda", memory_format=LAST_3D)
    assert functional.pad(x, (1,) * 6, mode=mode).is_contiguous()


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_fused_rms_norm_backward"), reason="torch has no CUDA operator for it")
def test_rms_norm_of_transposed_heads_is_contiguous():
    x = torch.randn(2, 5, 4, 8, device="cuda").transpose(1, 2).requires_grad_()
    result = functional.rms_norm(x, (8,))
    assert result.is_contiguous()
    assert torch.autograd.grad(result.sum(), x)[0].is_contiguous()


def test_the_gradient_of_dropout_of_a_transposed_matrix_is_contiguous():
    x = torch.randn(6, 4, device="cuda").t().requires_grad_()
    result = functional.dropout(x, 0.5)
    assert result.stride() == (1, 4)
    (grad,) = torch.autograd.grad(result, x, torch.ones_like(result))
    assert grad.stride() == (6, 1)


def test_positions_of_elements_are_written_dimension_by_dimension():
    x = torch.tensor([[0, 1, 2], [3, 0, 4]], device="cuda")
    assert torch.nonzero(x).stride() == (1, 4)
    assert torch.nonzero_static(x, size=5).stride() == (1, 5)


def test_vectors_of_cusolver():
    square = torch.randn(5, 5, device="cuda")
    assert torch.linalg.svd(square).Vh.stride() == (5, 1)
    assert torch.linalg.eig(square).eigenvectors.stride() == (5, 1)


TRANSFORMS = {
    "rfft2": (torch.fft.rfft2, torch.float32),
    "rfftn": (torch.fft.rfftn, torch.float32),
    "fftn": (torch.fft.fftn, torch.complex64),
    "irfft2": (torch.fft.irfft2, torch.complex64),
    "irfftn": (torch.fft.irfftn, torch.complex64),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_have_the_strides_of_cufft(name, h100):
    transform, dtype = TRANSFORMS[name]
    x = torch.randn(3, 4, 5, 6, dtype=dtype)
    result = transform(x.cuda())
    assert result.stride() == transform(x.to("meta")).stride()
    if h100:
        torch.testing.assert_close(result.cpu(), transform(x))


def test_log_sigmoid_saves_its_input_alone(h100):
    host = torch.randn(64, 96).t().requires_grad_()
    x = host.detach().cuda().requires_grad_()
    before = torch.cuda.memory_allocated()
    result = functional.logsigmoid(x)
    assert result.stride() == x.stride()
    assert torch.cuda.memory_allocated() - before == x.nbytes
    (grad,) = torch.autograd.grad(result, x, torch.ones_like(result))
    expected = functional.logsigmoid(host)
    (expected_grad,) = torch.autograd.grad(expected, host, torch.ones_like(expected))
    if h100:
        assert torch.equal(result.detach().cpu(), expected.detach())
        assert torch.equal(grad.cpu(), expected_grad)


def test_attention_with_dropout_needs_rows_of_adjacent_elements():
    """As on CUDA: other tensors are not for the fused kernel, whose result has positions before heads in memory."""
    query, key, value = (torch.randn(2, 4, 8, 6, device="cuda").transpose(2, 3) for _ in range(3))
    assert functional.scaled_dot_product_attention(query, key, value, dropout_p=0.5).is_contiguous()
    query, key, value = (tensor.contiguous() for tensor in (query, key, value))
    assert functional.scaled_dot_product_attention(query, key, value, dropout_p=0.5).stride() == (192, 8, 32, 1)


def count_copies(trace):
    kernels = trace.events[trace.events["cat"] == "kernel"]
    return int(kernels["name"].astype(str).str.contains("::clone").sum())


def test_operands_that_are_not_contiguous_are_copied_first():
    x = torch.randn(4, 64, 32, 32).to("cuda", memory_format=LAST)
    torch.cuda.reset_peak_memory_stats()
    before, allocated = torch.cuda.memory_allocated(), []
    with gpu_trace.subscribe(lambda event: allocated.append(type(event))):
        result = functional.group_norm(x, 8)
    size = x.nbytes
    statistics = torch.cuda.memory_allocated() - before - size
    assert 0 <= statistics <= 2048
    assert torch.cuda.max_memory_allocated() - before == 2 * size + 1024
    assert result.is_contiguous()
    with cudalens.profile() as run:
        functional.group_norm(x, 8)
        functional.group_norm(result, 8)
    assert count_copies(run.trace) == 1


def test_a_convolution_copies_the_operand_of_the_other_format():
    x = torch.randn(4, 16, 8, 8).to("cuda", memory_format=LAST)
    convolution = torch.nn.Conv2d(16, 16, 3).cuda()
    with cudalens.profile() as run, torch.no_grad():
        convolution(x)
        convolution.to(memory_format=LAST)(x)
    assert count_copies(run.trace) == 1
