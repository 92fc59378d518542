"""Composite functions: in inference mode, and where torch's C++ creates internal tensors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import cudalens.virtual
from cudalens.errors import VirtualDeviceError


@pytest.fixture(autouse=True)
def device() -> Iterator[cudalens.virtual.device]:
    torch.manual_seed(0)
    with cudalens.virtual.device("h100") as entered:
        yield entered


def _qkv(where: str) -> list[torch.Tensor]:
    return [torch.arange(512.0).view(1, 4, 8, 16).mul(0.01 * (i + 1)).sin().to(where) for i in range(3)]


@pytest.mark.parametrize(
    "function",
    [
        lambda q: q.transpose(1, 2).contiguous(),
        lambda q: q.transpose(1, 2).reshape(8, 64),
        lambda q: q.half(),
        lambda q: q @ q.mT,
        lambda q: functional.scaled_dot_product_attention(q, q, q, is_causal=True),
        lambda q: functional.layer_norm(q, (16,)),
        lambda q: torch.cat(q.chunk(2)) if len(q) > 1 else q.flatten(),
        lambda q: torch.einsum("bhqd,bhkd->bhqk", q, q),
    ],
)
def test_results_of_inference_mode_are_on_the_device(function):
    q = _qkv("cpu")[0]
    with torch.inference_mode():
        expected, out = function(q), function(q.cuda())
        assert out.device == torch.device("cuda", 0)
        assert torch.equal(out.cpu(), expected)
    kept = out.contiguous().to(torch.float64)  # an inference tensor outside of the mode
    assert kept.is_cuda


def test_modules_move_and_run_in_inference_mode():
    with torch.inference_mode():
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 1).cuda().eval()
        recurrent = nn.LSTM(16, 4).cuda()
        x = torch.ones(2, 5, 16, device="cuda")
        assert encoder(x).is_cuda
        assert recurrent(x)[0].is_cuda


def test_inference_mode_takes_memory_for_what_it_makes():
    with torch.inference_mode():
        x, begun = torch.ones(64, 64, device="cuda"), torch.cuda.memory_allocated()
        x.t().contiguous()
        assert torch.cuda.max_memory_allocated() == begun + 64 * 64 * 4


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION])
def test_every_choice_of_attention_runs(backend):
    expected = functional.scaled_dot_product_attention(*_qkv("cpu"), is_causal=True)
    with sdpa_kernel(backend):
        out = functional.scaled_dot_product_attention(*_qkv("cuda"), is_causal=True)
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert out.is_cuda
    torch.testing.assert_close(out.cpu(), expected)


def test_a_mask_given_by_name_has_to_be_on_the_device():
    with pytest.raises(
        RuntimeError, match="Expected all tensors to be on the same device, but got attn_mask is on cpu"
    ):
        functional.scaled_dot_product_attention(*_qkv("cuda"), attn_mask=torch.ones(8, 8))


@pytest.mark.parametrize(
    "on_host",
    [
        lambda: functional.one_hot(torch.tensor([0, 1]), 2),
        lambda: torch.ones(2).new_zeros(2),
        lambda: torch.autograd.grad(
            torch.ones(2, requires_grad=True).sum(),
            torch.ones(2, requires_grad=True),
            allow_unused=True,
            materialize_grads=True,
        )[0],
    ],
)
def test_what_is_made_of_host_tensors_does_not_join_the_device(on_host):
    with pytest.raises(RuntimeError, match="found at least two devices"):
        on_host() + torch.ones(2, device="cuda")


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_have_their_lengths_on_the_host(kind):
    layer, x, lengths = kind(4, 3, batch_first=True), torch.ones(2, 5, 4).cumsum(1), torch.tensor([5, 2])

    def run(where):
        packed = nn.utils.rnn.pack_padded_sequence(x.to(where).requires_grad_(), lengths, batch_first=True)
        assert packed.batch_sizes.device.type == "cpu"
        assert packed.data.device.type == where
        out, sizes = nn.utils.rnn.pad_packed_sequence(layer.to(where)(packed)[0], batch_first=True)
        layer.zero_grad()
        out.sum().backward()
        return out.detach().cpu(), sizes, [p.grad.cpu() for p in layer.parameters()]

    for there, here in zip(*(run(where)[2] for where in ("cuda", "cpu")), strict=True):
        assert torch.equal(there, here)
    with pytest.raises(RuntimeError, match="should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"):
        nn.utils.rnn.pack_padded_sequence(x.cuda(), lengths.cuda(), batch_first=True)


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("make", [torch.tensor, tuple])
def test_ctc_loss_takes_lengths_of_the_host(where, make):
    scores, labels = torch.arange(40.0).view(5, 2, 4).sin().log_softmax(-1), torch.tensor([[1, 2], [1, 1]])
    expected = functional.ctc_loss(scores, labels, (5, 5), (2, 2))
    loss = functional.ctc_loss(scores.cuda(), labels.to(where), make([5, 5]), target_lengths=make([2, 2]))
    assert loss.is_cuda
    assert torch.equal(loss.cpu(), expected)


def test_ctc_loss_of_one_sequence_takes_lengths_without_a_dimension():
    scores, labels, length = torch.arange(20.0).view(5, 4).sin().log_softmax(-1), torch.tensor([1, 2]), torch.tensor(2)
    expected = functional.ctc_loss(scores, labels, (5,), (2,))
    assert torch.equal(functional.ctc_loss(scores.cuda(), labels.cuda(), torch.tensor(5), length).cpu(), expected)


def test_autograd_saves_the_lengths_of_ctc_loss_on_the_device():
    saved = []
    scores = torch.arange(40.0).view(5, 2, 4).sin().log_softmax(-1).cuda().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor.device.type), lambda _: None):
        functional.ctc_loss(scores, torch.tensor([[1, 2], [1, 1]]).cuda(), (5, 5), (2, 2))
    assert len(saved) == 5  # scores, labels, two results, and the lengths that divide the losses
    assert set(saved) == {"cuda"}


def test_one_hot_with_a_number_of_classes_does_not_wait():
    index = torch.tensor([[0, 2], [1, 1]])
    on_device = index.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = functional.one_hot(on_device, num_classes=3)
        with pytest.raises(RuntimeError, match="synchronizing"):
            functional.one_hot(on_device)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert out.is_cuda
    assert torch.equal(out.cpu(), functional.one_hot(index, 3))


@pytest.mark.parametrize(
    ("waits", "act"),
    [
        (True, lambda x: torch.allclose(x, x)),
        (True, lambda x: x.repeat_interleave(x.long())),
        (False, lambda x: x.repeat_interleave(x.long(), output_size=3)),
    ],
)
def test_the_host_waits_for_results_that_it_needs(waits, act):
    x = torch.ones(3, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        if waits:
            with pytest.raises(RuntimeError, match="synchronizing"):
                act(x)
        else:
            assert act(x).shape == (3,)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_complex_tensors_have_the_names_of_their_types():
    assert torch.ones(1, dtype=torch.complex64, device="cuda").type() == "torch.cuda.ComplexFloatTensor"
    assert torch.ones(1, dtype=torch.complex128).type() == "torch.ComplexDoubleTensor"


def test_operators_for_nvidias_tools_are_refused():
    with pytest.raises(VirtualDeviceError, match="emit_nvtx"), torch.autograd.profiler.emit_nvtx():
        pass


def test_subclasses_may_call_the_dispatcher_for_their_device():
    x = torch.ones(3, device="cuda")
    with FakeTensorMode() as mode:
        assert mode.from_tensor(x).device.type == "cuda"


def test_floor_division_takes_a_number_of_the_host() -> None:
    x = torch.tensor([5.0, 7.0], device="cuda")
    assert torch.floor_divide(x, torch.tensor(2.0)).tolist() == [2.0, 3.0]
    assert torch.vmap(lambda row: row // 2)(x).tolist() == [2.0, 3.0]
    assert torch.vmap(lambda row: 14 // row)(x).tolist() == [2.0, 2.0]


def test_foreach_takes_a_number_of_the_host():
    (out,) = torch._foreach_mul([torch.ones(3, device="cuda")], torch.tensor(2.0))
    assert out.tolist() == [2, 2, 2]


@pytest.mark.parametrize("where", ["cuda", "cpu"])
def test_autograd_notices_that_an_optimizer_changes_what_it_saved(where: str) -> None:
    """Optimizers write lists of tensors, whose version counters torch leaves alone under a dispatch mode."""
    weight = nn.Parameter(torch.ones(3, device=where))
    x = torch.ones(3, device=where, requires_grad=True)
    loss = (x * weight).sum()
    weight.grad = torch.ones_like(weight)
    torch.optim.SGD([weight], lr=0.1, foreach=True).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.inference_mode():
        torch._foreach_mul_([torch.ones(3, device=where)], 2.0)


def test_the_rank_of_a_matrix_is_written_to_out() -> None:
    out = torch.full((), 77, dtype=torch.int64, device="cuda")
    assert torch.linalg.matrix_rank(torch.eye(3, device="cuda"), out=out) is out
    assert out.item() == 3


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 3)], ids=str)
def test_rank_of_an_empty_matrix_is_on_its_device(shape: tuple[int, ...]) -> None:
    matrix = torch.empty(shape, device="cuda")
    expected = torch.linalg.matrix_rank(torch.empty(shape))
    for rank in (torch.linalg.matrix_rank(matrix), torch.linalg.matrix_rank(input=matrix, tol=0.1)):
        assert rank.device == matrix.device
        assert rank.cpu().equal(expected)
        assert rank._version == expected._version
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        torch.linalg.matrix_rank(torch.empty(0, device="cuda"))
