"""A device without values: what needs a value raises an error that names the line, or uses what the user assumes."""

from __future__ import annotations

import io
import pickle
import re

import pytest
import torch
from torch import nn

import cudalens
from cudalens.errors import ExploreError, VirtualDeviceError


@pytest.fixture
def no_values():
    with cudalens.virtual.device("h100", values=False) as device:
        yield device


def _unknown(*shape, **kwargs):
    return torch.randn(*shape, device="cuda", **kwargs)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: float(x.sum()),
        lambda x: f"{x.sum():.3f}",
        lambda x: x.tolist(),
        lambda x: x.cpu().numpy(),
        lambda x: x.numpy(force=True),
        lambda x: bool((x > 0).any()),
        lambda x: torch.equal(x, x + 1),
    ],
)
def test_reading_a_value_names_the_line_and_the_ways_out(no_values, read):
    with pytest.raises(VirtualDeviceError) as found:
        read(_unknown(8, 8))
    message = str(found.value)
    assert re.search(rf"at {re.escape(__file__)}, line \d+ \(.*lambda x: ", message)
    assert "cudalens.virtual.assume(tensor, value)" in message
    assert "default=0.0" in message


@pytest.mark.parametrize("default", [None, 0.0])
@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.cpu().data_ptr(),
        lambda x: torch.save(x, io.BytesIO()),
        lambda x: torch.save(x.cpu(), io.BytesIO()),
        lambda x: pickle.dumps(x),
        lambda x: x.cpu().share_memory_(),
    ],
)
def test_the_contents_of_memory_are_needed_with_a_default_too(read, default):
    with (
        cudalens.virtual.device("h100", values=False, default=default, default_count=4),
        pytest.raises(VirtualDeviceError) as found,
    ):
        read(_unknown(8, 8))
    message = str(found.value)
    assert re.search(rf"at {re.escape(__file__)}, line \d+ \(.*lambda x: ", message)
    assert "leave that line out; or assume values before it" in message
    assert "default=0.0" not in message


@pytest.mark.parametrize(
    "select",
    [
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: x.unique(),
        lambda x: torch.bincount(x.flatten().long()),
        lambda x: torch.repeat_interleave(x.flatten().long()),
    ],
)
def test_a_size_that_depends_on_values_names_the_line_and_the_ways_out(no_values, select):
    with pytest.raises(VirtualDeviceError, match=r"line \d+ \(.*lambda x: .*assume\(mask, count=100\).*default_count"):
        select(_unknown(8, 8))


def test_what_depends_on_known_small_values_is_computed(no_values):
    lengths = torch.tensor([3, 5, 2], device="cuda")
    assert lengths.max().item() == 5
    assert torch.arange(6, device="cuda").cumsum(0).tolist() == [0, 1, 3, 6, 10, 15]
    assert (lengths > 2).nonzero().shape == (2, 1)
    assert bool((lengths == 5).any())


def test_values_are_unknown_after_an_unknown_value_is_written(no_values):
    total = torch.zeros((), device="cuda")
    assert total.item() == 0
    total += _unknown(8).sum()
    with pytest.raises(VirtualDeviceError, match="is needed"):
        total.item()


def test_host_memory_that_gets_unknown_values_shows_no_old_ones(no_values):
    buffer = torch.ones(4)
    array = buffer.numpy()
    buffer.copy_(_unknown(4))
    assert not (array == 1).any()
    with pytest.raises(VirtualDeviceError, match="is needed"):
        buffer.sum().item()


def test_assume_gives_a_value(no_values):
    loss = _unknown(4, 4).mean()
    assert cudalens.virtual.assume(loss, 2.5) is loss
    assert loss.item() == 2.5
    assert (loss * 2).item() == 5
    assert loss.device == torch.device("cuda", 0)
    table = _unknown(2, 2)
    cudalens.virtual.assume(table, [[1, 2], [3, 4]])
    assert table.tolist() == [[1, 2], [3, 4]]


def test_assume_gives_the_number_of_true_elements(no_values):
    x = _unknown(1000, 16)
    mask = x[:, 0] > 0
    cudalens.virtual.assume(mask, count=100)
    assert x[mask].shape == (100, 16)
    assert mask.nonzero().shape == (100, 1)


def test_assume_keeps_the_memory_of_the_tensor(no_values):
    x = _unknown(1 << 20)
    before, address = torch.cuda.memory_allocated(), x.data_ptr()
    cudalens.virtual.assume(x, 0)
    assert (torch.cuda.memory_allocated(), x.data_ptr()) == (before, address)
    del x
    assert torch.cuda.memory_allocated() == before - (4 << 20)


@pytest.mark.parametrize("given", [{}, {"value": 1, "count": 1}, {"count": 99}, {"count": -1}])
def test_assume_refuses_other_arguments(no_values, given):
    with pytest.raises(ValueError, match=r"assume|count is"):
        cudalens.virtual.assume(_unknown(4), **given)


def test_defaults_answer_every_read():
    with cudalens.virtual.device("h100", values=False, default=0.5, default_count=7):
        x = _unknown(10, 4)
        assert x.sum().item() == 0.5
        assert x.cpu().numpy().max() == 0.5
        assert x[0].tolist() == [0.5] * 4
        assert x[x[:, 0] > 0].shape == (7, 4)
        assert x[:3].nonzero().shape == (7, 2)
        assert x.flatten()[:5].unique().shape == (5,)


def test_defaults_need_a_device_without_values():
    with pytest.raises(ValueError, match="values=False"):
        cudalens.virtual.device("h100", default=0.0)


def test_a_tensor_without_values_prints_its_size(no_values):
    assert repr(_unknown(2, 3)) == "tensor(..., device='cuda:0', size=(2, 3))"
    assert repr(_unknown(2, requires_grad=True)) == "tensor(..., device='cuda:0', size=(2,), requires_grad=True)"
    assert "Linear(in_features=500" in repr(nn.Linear(500, 500))


def test_a_loss_scaler_works_with_a_default():
    with cudalens.virtual.device("h100", values=False, default=0.0):
        model, scaler = nn.Linear(64, 64, device="cuda"), torch.amp.GradScaler("cuda")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler.scale(model(_unknown(4, 64)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()


def test_a_model_is_built_without_memory(no_values):
    model = nn.Sequential(*[nn.Linear(32_768, 32_768) for _ in range(16)])  # 64 GiB
    assert sum(p.nbytes for p in model.parameters()) > 64 << 30
    assert torch.cuda.memory_allocated() == 0
    model.to(torch.bfloat16).cuda()
    assert torch.cuda.memory_allocated() >= 32 << 30


def test_it_is_full_as_with_values(no_values):
    with pytest.raises(torch.OutOfMemoryError, match="GPU 0 has a total capacity"):
        torch.empty(100 << 30, device="cuda")


def test_torchs_own_error_of_wrong_sizes(no_values):
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        _unknown(3, 4) @ _unknown(5, 6)


def test_results_after_the_end_of_the_device_are_refused():
    with cudalens.virtual.device("h100", values=False):
        x = _unknown(1000, 1000)
        part, known = x[1:], torch.arange(3, device="cuda")
    for tensor in (x, part):
        assert tensor.shape[1] == 1000
        with pytest.raises(VirtualDeviceError, match="has ended"):
            tensor + 1
    assert known.tolist() == [0, 1, 2]


class Slotted(torch.Tensor):
    """A class with slots, as DTensor is."""

    __slots__ = ("place",)


def test_tensors_of_a_class_with_slots_are_refused_after_the_end_and_the_device_ends():
    with cudalens.virtual.device("h100", values=False):
        x = _unknown(1000, 1000).as_subclass(Slotted)
        x.place = "row"
    assert cudalens.virtual.active() is None
    assert (x.shape, x.place) == ((1000, 1000), "row")
    with pytest.raises(VirtualDeviceError, match="has ended"):
        x.sum()


def test_a_graph_replays_without_values(no_values):
    x, graph = _unknown(8, 8), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.dropout(x @ x, 0.5, train=True)
    graph.replay()
    assert y.shape == (8, 8)


def test_sparse_results_are_refused(no_values):
    with pytest.raises(VirtualDeviceError, match="dense tensors only"):
        _unknown(4, 4).to_sparse()


def test_orders_are_not_explored_without_values(no_values):
    with pytest.raises(ExploreError, match="values=True"), cudalens.sanitize(explore=True):
        pass


# Large tensors of one value stay known.


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda: torch.ones(64, 4096, device="cuda").all().item(), True),
        (lambda: bool((torch.ones(64, 40960, device="cuda", dtype=torch.long) == 1).all()), True),
        (lambda: torch.zeros(64, 4096, device="cuda").add_(2)[3, 4].item(), 2.0),
        (lambda: torch.full((64, 4096), float("nan"), device="cuda").isnan().any().item(), True),
        (lambda: torch.ones(64, 40960, dtype=torch.long).cuda()[:, 1:].ne(1).any().item(), False),
        (
            lambda: (
                torch.ones(64, 40960, device="cuda").masked_fill(torch.ones(1, 1, device="cuda") > 0, 7)[1, 2].item()
            ),
            7,
        ),
        (lambda: torch.ones(2048, 2048, device="cuda", dtype=torch.bool)[:, :10].nonzero().shape, (20480, 2)),
        (lambda: torch.ones(2048, 2048, device="cuda").cpu().numpy()[5, :2].tolist(), [1.0, 1.0]),
        (lambda: torch.arange(65_536, device="cuda").diff().ne(1).any().item(), False),
    ],
)
def test_a_large_tensor_of_one_value_is_known(no_values, read, value):
    assert read() == value


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[0].fill_(3),
        lambda x: x.view(-1)[7:].zero_(),
        lambda x: x.random_(),
        lambda x: x.copy_(torch.randn(300, 300)),
        lambda x: torch.mm(x, x, out=x),
        lambda x: x.index_put_((torch.tensor([1], device="cuda"),), torch.zeros(300, device="cuda")),
        lambda x: x.scatter_(0, torch.zeros(1, 300, dtype=torch.long, device="cuda"), 5.0),
        lambda x: x.mul_(torch.randn(300, 300, device="cuda")),
        lambda x: setattr(x, "data", torch.randn(300, 300, device="cuda")),
        lambda x: torch._foreach_add_([x], [torch.randn(300, 300, device="cuda")]),
        lambda x: x.__setitem__((slice(None), 0), 4.0),
    ],
)
def test_a_tensor_of_one_value_is_unknown_after_a_write_of_others(no_values, write):
    x = torch.ones(300, 300, device="cuda")
    write(x)
    with pytest.raises(VirtualDeviceError):
        x[5, 5].item()


@pytest.mark.parametrize("size", [8, 300_000])
def test_what_a_graph_writes_is_unknown_since_each_replay_may_write_another_value(no_values, size):
    static, total = torch.zeros(size, device="cuda"), torch.zeros(size, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, made = static + 1, torch.zeros(size, device="cuda")
        total.add_(out)
    total.fill_(5)
    static.fill_(3)
    graph.replay()
    assert static[1].item() == 3
    for written in (out, total, made):
        with pytest.raises(VirtualDeviceError):
            written[1].item()
