"""The device of a result that follows another tensor, a default type, or a transform of torch.func."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.func import functional_call, grad, jvp, stack_module_state, vmap
from torch.utils._pytree import tree_leaves

import cudalens.virtual
from cudalens.errors import VirtualDeviceError

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks"),
]

CUDA0, CUDA1, CPU = torch.device("cuda", 0), torch.device("cuda", 1), torch.device("cpu")


@pytest.fixture(autouse=True)
def device() -> Iterator[cudalens.virtual.device]:
    torch.manual_seed(0)
    with cudalens.virtual.device("h100x2") as entered:
        yield entered


def test_type_as_moves_to_the_device_of_the_other_tensor() -> None:
    host = torch.arange(3)
    on_gpu = torch.ones(1, dtype=torch.float64, device=CUDA1)
    moved = host.type_as(on_gpu)
    assert (moved.device, moved.dtype, moved.tolist()) == (CUDA1, torch.float64, [0.0, 1.0, 2.0])
    assert torch.Tensor.type_as(host, on_gpu).device == CUDA1
    assert on_gpu.type_as(host).device == CPU
    assert on_gpu.type_as(on_gpu) is on_gpu


def test_the_gradient_of_type_as_is_on_the_device_of_its_tensor() -> None:
    weight = torch.ones(3, requires_grad=True)
    (weight.type_as(torch.ones(1, device=CUDA1)) * 2).sum().backward()
    assert weight.grad is not None
    assert (weight.grad.device, weight.grad.tolist()) == (CPU, [2.0] * 3)


NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "x * 2": lambda x: x * 2,
    "1 + x": lambda x: 1 + x,
    "x * 1.5": lambda x: x * 1.5,
    "x * True": lambda x: x * True,
    "x * 1j": lambda x: x * 1j,
    "x ** 2": lambda x: x**2,
    "3 / x": lambda x: 3 / x,
    "x // 2": lambda x: x // 2,
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "in place": lambda x: x.clone().mul_(2).add_(1),
    "new_tensor": lambda x: x.new_tensor([1.0, 2.0]) + x[:2],
    "type_as": lambda x: torch.ones(4).type_as(x) * x,
    "through the host": lambda x: x.cpu().to(x.device) * 2,
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_vmap_with_python_numbers(name: str, dtype: torch.dtype) -> None:
    on_host = torch.arange(1, 13).view(3, 4).to(dtype)
    expected = vmap(NUMBERS[name])(on_host)
    result = vmap(NUMBERS[name])(on_host.cuda())
    assert (result.device, result.dtype) == (CUDA0, expected.dtype)
    assert torch.equal(result.cpu(), expected)


def test_an_ensemble_under_vmap_equals_its_members() -> None:
    members = [torch.nn.Linear(4, 2).cuda() for _ in range(3)]
    x = torch.randn(5, 4, device="cuda")
    params, buffers = stack_module_state(members)  # type: ignore[arg-type]
    together = vmap(lambda p, b: functional_call(members[0], (p, b), (x,)))(params, buffers)
    assert together.device == CUDA0
    assert torch.allclose(together.cpu(), torch.stack([member(x).cpu() for member in members]))


def test_transforms_with_python_numbers_stay_on_the_device() -> None:
    x = torch.arange(1.0, 4.0, device="cuda")
    assert grad(lambda value: (value**2 * 3).sum())(x).tolist() == [6.0, 12.0, 18.0]
    primal, tangent = jvp(lambda value: value * 2 + 1, (x,), (torch.ones_like(x),))
    assert (primal.device, tangent.device) == (CUDA0, CUDA0)
    assert (primal.tolist(), tangent.tolist()) == ([3.0, 5.0, 7.0], [2.0] * 3)


FACTOR = torch.tensor([1.0, -2.0, 3.0])
LINEARIZED: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "a constant": lambda x, c: x.sin() * c,
    "a matrix": lambda x, c: (torch.outer(c, c) @ x).tanh() * 2 + c.sum(),
    "no derivative": lambda x, c: c * 2,
    "softmax": lambda x, c: (x * c).softmax(0),
    "zeros": lambda x, c: x + torch.zeros_like(x) + torch.ones(3, device=x.device),
    "a number on the host": lambda x, c: x * torch.tensor(2.0),
    "two results": lambda x, c: ((x * c).sum(), x),
    "numbers made inside": lambda x, c: x.sin() * torch.tensor([1.0, 2.0, 3.0], device=x.device) + x.new_tensor(2.0),
    "an index made inside": lambda x, c: x[torch.tensor([0, 2], device=x.device)] ** 2,
    "a selection": lambda x, c: torch.where(x > 0, x, c)[[0, 2]],
}


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
@pytest.mark.parametrize("function", LINEARIZED.values(), ids=LINEARIZED)
def test_a_linear_map_runs_on_the_device(function) -> None:
    found = []
    for device in ("cpu", "cuda"):
        x, c = torch.tensor([0.5, -1.0, 2.0], device=device), FACTOR.to(device)
        result, linear_map = torch.func.linearize(lambda x, c=c: function(x, c), x)
        leaves = tree_leaves((result, linear_map(torch.ones_like(x)), linear_map(c)))
        assert {leaf.device.type for leaf in leaves} == {device}
        found.append([leaf.tolist() for leaf in leaves])
    assert found[0] == found[1]


@pytest.mark.parametrize("function", [lambda x: x.cpu() * 2, lambda x: x * torch.ones(3).to(x.device)])
def test_a_linear_map_through_the_host_is_refused(function) -> None:
    with pytest.raises(VirtualDeviceError, match=r"also computes with CPU tensors"):
        torch.func.linearize(function, torch.ones(3, device="cuda"))


def test_a_trace_of_operators_without_values_is_refused(device: cudalens.virtual.device) -> None:
    device.disable()
    with (
        cudalens.virtual.device("h100", values=False),
        pytest.raises(VirtualDeviceError, match=r"without values .* cannot trace operators"),
    ):
        torch.func.linearize(lambda x: x.sin(), torch.ones(3, device="cuda"))


@pytest.mark.parametrize("shape", [(2, 3), 6, torch.Size([3, 2])])
def test_unraveled_indices_are_on_the_device(shape) -> None:
    flat = torch.tensor([[0, 2], [5, 3]])
    found = torch.unravel_index(flat.cuda(), shape)
    assert {part.device for part in found} == {CUDA0}
    assert [part.tolist() for part in found] == [part.tolist() for part in torch.unravel_index(flat, shape)]


class Scaled(torch.nn.Module):
    """A module with a parameter, a buffer and a tensor in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.register_buffer("scale", torch.full((2,), 3.0))
        self.offset = torch.arange(2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.scale + self.offset


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("location", ["cuda", torch.device("cuda"), "cuda:0", "cpu"], ids=str)
def test_a_scripted_module_loads_to_the_device_that_is_named(location) -> None:
    module, file, x = Scaled(), io.BytesIO(), torch.ones(1, 3)
    torch.jit.save(torch.jit.script(module), file)
    file.seek(0)
    loaded = torch.jit.load(file, map_location=location)
    device = torch.device("cpu") if location == "cpu" else CUDA0
    assert {loaded.linear.weight.device, loaded.scale.device, loaded.offset.device} == {device}
    assert loaded(x.to(device)).tolist() == module(x).tolist()


@pytest.fixture
def default_type() -> Iterator[Callable[[object], None]]:
    """Set the default type; the host's is restored."""
    yield torch.set_default_tensor_type
    torch.set_default_tensor_type(torch.FloatTensor)


def test_a_default_type_of_cuda_makes_tensors_on_the_device(default_type: Callable[[object], None]) -> None:
    default_type("torch.cuda.DoubleTensor")
    made = [torch.ones(2), torch.Tensor(2, 3), torch.Tensor([1, 2]), torch.Tensor(), torch.nn.Linear(2, 2).weight]
    assert {(one.device, one.dtype) for one in made} == {(CUDA0, torch.float64)}
    assert [list(one.shape) for one in made] == [[2], [2, 3], [2], [0], [2, 2]]
    default_type(torch.FloatTensor)
    assert {(one.device, one.dtype) for one in (torch.ones(2), torch.Tensor(2))} == {(CPU, torch.float32)}


def test_a_default_type_ends_with_the_device(
    device: cudalens.virtual.device, default_type: Callable[[object], None]
) -> None:
    default_type(torch.cuda.FloatTensor)  # type: ignore[attr-defined]
    device.disable()
    assert (torch.Tensor(2).device, torch.ones(2).device) == (CPU, CPU)
    assert "__new__" not in vars(torch.Tensor)


def test_a_default_type_of_integers_is_refused(default_type: Callable[[object], None]) -> None:
    with pytest.raises(TypeError, match="only floating-point types"):
        default_type(torch.cuda.IntTensor)  # type: ignore[attr-defined]


def test_legacy_sparse_types() -> None:
    indices, values = torch.tensor([[0, 2]]), torch.tensor([1.0, 2.0])
    made = torch.cuda.sparse.FloatTensor(indices, values, torch.Size([4]))  # type: ignore[attr-defined]
    assert (made.device, made.to_dense().tolist()) == (CUDA0, [1.0, 0.0, 2.0, 0.0])
    assert isinstance(made, torch.cuda.sparse.FloatTensor)  # type: ignore[attr-defined]
    assert not isinstance(made, torch.cuda.FloatTensor)  # type: ignore[attr-defined]


@pytest.mark.parametrize("order", [2, float("inf")])
@pytest.mark.parametrize("shape", [(0, 5), (2, 0, 3)])
def test_the_norm_of_empty_matrices_is_on_their_device(order: float, shape: tuple[int, ...]) -> None:
    """torch's C++ makes its zeros for a tensor that it takes for one of the CPU, and calls no operator on them."""
    empty = torch.ones(shape, device=CUDA1)
    expected = torch.linalg.matrix_norm(empty.cpu(), order)
    found = torch.linalg.matrix_norm(empty, order)
    assert (found.device, found.tolist()) == (CUDA1, expected.tolist())
    assert torch.zeros_like(empty, device="cpu").device == CPU
