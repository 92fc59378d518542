"""Lazy modules: their parameters have a device before they have a shape, and their memory is allocated on it."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

import cudalens
from cudalens.virtual import device

LAZY = {
    "linear": (nn.LazyLinear, (3,), (2, 5)),
    "conv": (nn.LazyConv2d, (3, 2), (2, 5, 4, 4)),
    "norm": (nn.LazyBatchNorm1d, (), (2, 5)),
}
MOVES = {
    "to": (lambda m: m.to("cuda"), "cuda:0", torch.float32),
    "cuda": (lambda m: m.cuda(), "cuda:0", torch.float32),
    "other": (lambda m: m.to("cuda:1"), "cuda:1", torch.float32),
    "dtype": (lambda m: m.to("cuda", torch.float64), "cuda:0", torch.float64),
    "half": (lambda m: m.cuda().half(), "cuda:0", torch.float16),
    "peer": (lambda m: m.cuda().to(torch.device("cuda", 1)), "cuda:1", torch.float32),
    "back": (lambda m: m.cuda().cpu(), "cpu", torch.float32),
    "neither": (lambda m: m.double(), "cpu", torch.float64),
}


@pytest.fixture
def gpus():
    with device("h100x2"):
        yield


def places(module):
    return {str(tensor.device) for tensor in (*module.parameters(), *module.buffers())}


@pytest.mark.parametrize(("kind", "args", "shape"), LAZY.values(), ids=LAZY)
@pytest.mark.parametrize(("move", "place", "dtype"), MOVES.values(), ids=MOVES)
def test_a_module_that_is_moved_before_it_has_a_shape(gpus, kind, args, shape, move, place, dtype):
    module = move(kind(*args))
    assert places(module) == {place}
    lazy = [p for p in module.parameters() if is_lazy(p)]
    assert lazy
    assert all(type(p) is UninitializedParameter and p.requires_grad for p in lazy)
    out = module(torch.ones(shape, device=place, dtype=dtype))
    assert (str(out.device), out.dtype, places(module)) == (place, dtype, {place})
    assert not any(is_lazy(p) for p in module.parameters())
    out.sum().backward()
    assert all(str(p.grad.device) == place for p in module.parameters())


def test_one_that_is_made_there(gpus):
    with torch.device("cuda"):
        inside = nn.LazyLinear(3)
    for module in (nn.LazyLinear(3, device="cuda"), inside):
        assert places(module) == {"cuda:0"}
        assert module.weight.is_cuda
        module(torch.ones(2, 5, device="cuda"))
        assert module.weight.shape == (3, 5)


def test_its_memory_comes_with_its_shape(gpus):
    module = nn.LazyLinear(1024, bias=False).cuda()
    assert torch.cuda.memory_allocated() == 0
    module(torch.ones(1, 1024, device="cuda"))
    assert torch.cuda.memory_allocated() >= 1024 * 1024 * 4


def test_buffers_and_copies(gpus):
    buffer = UninitializedBuffer(device="cuda")
    assert buffer.to("cuda:1").device == torch.device("cuda", 1)
    buffer.materialize((2, 3))
    assert (buffer.device, buffer.shape) == (torch.device("cuda", 0), (2, 3))
    again = copy.deepcopy(nn.LazyLinear(3).to("cuda:1"))
    assert places(again) == {"cuda:1"}


def test_state_that_is_loaded_gives_it_its_shape(gpus):
    source = nn.Linear(5, 3).cuda()
    file = io.BytesIO()
    torch.save(source.state_dict(), file)
    file.seek(0)
    module = nn.LazyLinear(3).cuda()
    module.load_state_dict(torch.load(file))
    assert torch.equal(module.weight, source.weight)
    assert places(module) == {"cuda:0"}


def test_what_is_refused_is_refused_in_torchs_words(gpus):
    weight = nn.LazyLinear(3).cuda().weight
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        weight + 1
    with pytest.raises(RuntimeError, match="shape of an uninitialized parameter"):
        _ = weight.shape


def test_a_step_of_training_and_the_sanitizer_on(gpus):
    with cudalens.sanitize() as san:
        module = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(1)).cuda()
        x = torch.ones(4, 5, device="cuda")
        module(x)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        module(x).sum().backward()
        optimizer.step()
    assert (san.races, san.error) == ([], None)
    assert places(module) == {"cuda:0"}


def test_a_lazy_module_outlives_the_device():
    with device("h100"):
        module = nn.LazyLinear(3).cuda()
    assert places(module) == {"cpu"}
    assert module(torch.ones(2, 5)).shape == (2, 3)
