"""The interface of tensors on a virtual device: all forms of calls, attributes, and torch's error messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn

import cudalens.virtual

CUDA0, CUDA1, CPU = torch.device("cuda", 0), torch.device("cuda", 1), torch.device("cpu")


@pytest.fixture(autouse=True)
def device() -> Iterator[cudalens.virtual.device]:
    torch.manual_seed(0)
    with cudalens.virtual.device("h100x2") as entered:
        yield entered


def _on(device: torch.device) -> torch.Tensor:
    return torch.arange(6.0, device=device).view(2, 3)


SPELLINGS = [
    ("cuda", CUDA0),
    ("cuda:0", CUDA0),
    ("cuda:1", CUDA1),
    (torch.device("cuda"), CUDA0),
    (torch.device("cuda:1"), CUDA1),
    (torch.device("cuda", 1), CUDA1),
    (0, CUDA0),
    (1, CUDA1),
    ("cpu", CPU),
    (torch.device("cpu"), CPU),
    (None, CPU),
]

FACTORIES: dict[str, Callable[..., torch.Tensor]] = {
    "empty": lambda **where: torch.empty(2, 3, **where),
    "zeros": lambda **where: torch.zeros(2, 3, **where),
    "ones": lambda **where: torch.ones((2, 3), **where),
    "full": lambda **where: torch.full((2, 3), 7, **where),
    "arange": lambda **where: torch.arange(5, **where),
    "linspace": lambda **where: torch.linspace(0, 1, 5, **where),
    "logspace": lambda **where: torch.logspace(0, 1, 5, **where),
    "eye": lambda **where: torch.eye(3, **where),
    "tensor": lambda **where: torch.tensor([[1.0, 2.0]], **where),
    "tensor scalar": lambda **where: torch.tensor(3, **where),
    "as_tensor": lambda **where: torch.as_tensor([1, 2], **where),
    "asarray": lambda **where: torch.asarray(np.ones(3), **where),
    "empty_strided": lambda **where: torch.empty_strided((2, 3), (3, 1), **where),
    "rand": lambda **where: torch.rand(2, 3, **where),
    "randn": lambda **where: torch.randn(2, 3, **where),
    "randint": lambda **where: torch.randint(5, (3,), **where),
    "randperm": lambda **where: torch.randperm(5, **where),
    "tril_indices": lambda **where: torch.tril_indices(3, 3, **where),
    "hann_window": lambda **where: torch.hann_window(4, **where),
    "cartesian": lambda **where: torch.cartesian_prod(torch.ones(2, **where), torch.ones(3, **where)),
    "linear": lambda **where: nn.Linear(2, 2, **where).weight,
    "lstm": lambda **where: nn.LSTM(2, 2, **where).weight_hh_l0,
}


@pytest.mark.parametrize("factory", FACTORIES.values(), ids=FACTORIES.keys())
@pytest.mark.parametrize(("spelling", "place"), SPELLINGS, ids=str)
def test_every_factory_takes_every_spelling(
    factory: Callable[..., torch.Tensor], spelling: object, place: torch.device
) -> None:
    made = factory(device=spelling)
    assert made.device == place
    assert made.is_cuda is (place.type == "cuda")
    assert made.is_leaf


@pytest.mark.parametrize("factory", FACTORIES.values(), ids=FACTORIES.keys())
def test_default_devices_hold_for_every_factory(factory: Callable[..., torch.Tensor]) -> None:
    with torch.device("cuda:1"):
        assert factory().device == CUDA1
        assert factory(device="cpu").device == CPU
    assert factory().device == CPU
    torch.set_default_device("cuda")
    try:
        assert torch.get_default_device() == CUDA0
        assert factory().device == CUDA0
    finally:
        torch.set_default_device(None)


def test_the_current_device_is_what_cuda_means() -> None:
    with torch.cuda.device(1):
        assert torch.ones(2, device="cuda").device == CUDA1
        assert torch.ones(2).cuda().device == CUDA1
        assert torch.ones(2, device="cuda:0").device == CUDA0


def test_a_device_that_is_not_there_is_refused_in_cudas_words() -> None:
    for make in (lambda: torch.ones(2, device="cuda:7"), lambda: torch.ones(2).to("cuda:7")):
        with pytest.raises(RuntimeError, match="CUDA error: invalid device ordinal"):
            make()


LIKENESS: dict[str, Callable[..., torch.Tensor]] = {
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "empty_like": torch.empty_like,
    "full_like": lambda x, **where: torch.full_like(x, 2.0, **where),
    "rand_like": torch.rand_like,
    "randn_like": torch.randn_like,
    "randint_like": lambda x, **where: torch.randint_like(x, 5, **where),
    "new_zeros": lambda x, **where: x.new_zeros(3, **where),
    "new_ones": lambda x, **where: x.new_ones((3,), **where),
    "new_empty": lambda x, **where: x.new_empty(3, **where),
    "new_full": lambda x, **where: x.new_full((3,), 1.0, **where),
    "new_tensor": lambda x, **where: x.new_tensor([1.0], **where),
}


@pytest.mark.parametrize("factory", LIKENESS.values(), ids=LIKENESS.keys())
@pytest.mark.parametrize("source", [CPU, CUDA0, CUDA1], ids=str)
def test_likenesses_are_where_their_model_is(factory: Callable[..., torch.Tensor], source: torch.device) -> None:
    model = _on(source)
    assert factory(model).device == source
    for place in (CPU, CUDA0, CUDA1):
        assert factory(model, device=place).device == place


MOVES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "to text": lambda x: x.to("cuda:1"),
    "to device": lambda x: x.to(CUDA1),
    "to index": lambda x: x.to(1),
    "to keyword": lambda x: x.to(device="cuda:1"),
    "to with dtype": lambda x: x.to("cuda:1", torch.float64),
    "to other": lambda x: x.to(torch.empty(0, device="cuda:1")),
    "to without blocking": lambda x: x.to("cuda:1", non_blocking=True),
    "cuda index": lambda x: x.cuda(1),
    "cuda text": lambda x: x.cuda("cuda:1"),
    "cuda device": lambda x: x.cuda(CUDA1, non_blocking=True),
    "copy_": lambda x: torch.empty(2, 3, device="cuda:1").copy_(x),
    "parameter": lambda x: nn.Parameter(x).to("cuda:1"),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())
@pytest.mark.parametrize("source", [CPU, CUDA0, CUDA1], ids=str)
def test_moves_bring_the_values_along(move: Callable[[torch.Tensor], torch.Tensor], source: torch.device) -> None:
    moved = move(_on(source))
    assert moved.device == CUDA1
    assert moved.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_a_move_to_where_it_is_gives_the_tensor_itself() -> None:
    x = _on(CUDA0)
    assert x.to("cuda") is x
    assert x.cuda() is x
    assert x.to("cuda", copy=True) is not x
    host = _on(CPU)
    assert host.cpu() is host
    assert x.cpu() is not x


def test_a_dtype_alone_stays_where_it_is() -> None:
    x = _on(CUDA1)
    for converted in (x.to(torch.float16), x.half(), x.double(), x.int(), x.type(torch.int64), x.to(dtype=torch.bool)):
        assert converted.device == CUDA1


def test_numpy_arrays_come_and_go_through_the_host() -> None:
    array = np.arange(3.0)
    x = torch.from_numpy(array).cuda()
    x += 1
    assert array.tolist() == [0.0, 1.0, 2.0]
    assert x.cpu().numpy().tolist() == [1.0, 2.0, 3.0]
    assert x.numpy(force=True).tolist() == [1.0, 2.0, 3.0]
    for read in (x.numpy, lambda: np.asarray(x), lambda: np.array(x)):
        with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy"):
            read()


def test_what_a_tensor_states_of_itself() -> None:
    x, host = _on(CUDA1), _on(CPU)
    assert (x.is_cuda, x.is_cpu, x.get_device(), x.device.type, x.device.index) == (True, False, 1, "cuda", 1)
    assert (host.is_cuda, host.is_cpu, host.get_device()) == (False, True, -1)
    assert x.untyped_storage().device == CUDA1
    assert x.type() == "torch.cuda.FloatTensor"
    assert "device='cuda:1'" in repr(x)
    assert "device" not in repr(host)
    assert x.half().type() == "torch.cuda.HalfTensor"
    assert not x.is_pinned()
    assert hash(x) == id(x)


def test_parameters_and_their_gradients_state_it_too() -> None:
    weight = nn.Parameter(torch.ones(2, device="cuda"))
    (weight * 2).sum().backward()
    assert weight.device == weight.grad.device == weight.data.device == weight.detach().device == CUDA0
    assert "Parameter containing" in repr(weight)
    assert "device='cuda:0'" in repr(weight)
    assert "grad_fn" in repr(weight * 2)


def test_views_share_the_address_range() -> None:
    x = _on(CUDA0)
    assert x[1].data_ptr() == x.data_ptr() + 3 * 4
    assert x.t().data_ptr() == x.data_ptr()
    assert x.data_ptr() % 512 == 0
    assert x.clone().data_ptr() != x.data_ptr()
    assert x[1].is_cuda


def test_old_types() -> None:
    made = torch.cuda.FloatTensor(2, 3)
    assert (made.device, made.dtype, tuple(made.shape)) == (CUDA0, torch.float32, (2, 3))
    assert torch.cuda.LongTensor([1, 2]).tolist() == [1, 2]
    assert isinstance(made, torch.cuda.FloatTensor)
    assert not isinstance(made, torch.cuda.HalfTensor)
    assert not isinstance(torch.ones(2), torch.cuda.FloatTensor)
    assert torch.ones(2).type("torch.cuda.HalfTensor").device == CUDA0
    assert made.type("torch.FloatTensor").device == CPU


def test_pinned_memory() -> None:
    pinned = torch.ones(3).pin_memory()
    assert pinned.is_pinned()
    assert pinned.pin_memory() is pinned
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert not torch.ones(3).is_pinned()
    assert pinned.cuda(non_blocking=True).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        _on(CUDA0).pin_memory()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.ones(3, device="cuda", pin_memory=True)


MIXTURES: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "add": lambda x, y: x + y,
    "add, host first": lambda x, y: y + x,
    "in place": lambda x, y: x.add_(y),
    "matmul": lambda x, y: x @ y.t(),
    "matmul, host first": lambda x, y: y @ x.t(),
    "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack([x, y]),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "linear": nn.functional.linear,
    "gather": lambda x, y: x.gather(0, y.long() * 0),
    "index_select": lambda x, y: x.index_select(0, torch.tensor([0])),
    "embedding": lambda x, y: nn.functional.embedding(torch.tensor([0]), x),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "out": lambda x, y: torch.add(x, x, out=y),
}


@pytest.mark.parametrize("mix", MIXTURES.values(), ids=MIXTURES.keys())
def test_mixing_host_and_device_is_refused_in_torchs_words(mix: Callable[..., object]) -> None:
    with pytest.raises(RuntimeError, match=r"[Ee]xpected .*same device|[Ee]xpected .*device"):
        mix(_on(CUDA0), _on(CPU))


@pytest.mark.parametrize("mix", [lambda x, y: x + y, lambda x, y: x @ y.t(), lambda x, y: torch.cat([x, y])])
def test_mixing_devices_is_refused_in_torchs_words(mix: Callable[..., object]) -> None:
    with pytest.raises(RuntimeError, match=r"same device.*cuda:[01].*cuda:[01]"):
        mix(_on(CUDA0), _on(CUDA1))


def test_the_whole_message_of_a_mixture() -> None:
    with pytest.raises(RuntimeError) as caught:
        _on(CUDA0) + _on(CPU)
    assert str(caught.value) == (
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    )


def test_host_numbers_and_host_indices_are_taken() -> None:
    x = _on(CUDA0)
    assert (x + torch.tensor(1.0)).device == CUDA0
    assert (torch.tensor(1.0) * x).device == CUDA0
    assert x[torch.tensor([1])].tolist() == [[3.0, 4.0, 5.0]]
    x[torch.tensor([0])] = 9.0
    assert x[0].tolist() == [9.0, 9.0, 9.0]
    x[0, 0] = torch.tensor(5.0)
    assert x[0, 0].item() == 5.0
    assert torch.where(x > 5, x, torch.tensor(0.0)).device == CUDA0


def test_reading_values() -> None:
    x = _on(CUDA0)
    assert x.sum().item() == 15.0
    assert float(x[0, 1]) == 1.0
    assert int(x[1, 0]) == 3
    assert bool((x > 4).any())
    assert [row.tolist() for row in x] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert x.nonzero().device == CUDA0
    assert x[x > 2].tolist() == [3.0, 4.0, 5.0]
    assert torch.equal(x, x.clone())
    assert f"{x[0, 1]:.1f}" == "1.0"
    assert 1.0 in x


def test_storages_grow_and_are_replaced() -> None:
    x = _on(CUDA0)
    x.resize_(10, 10)
    assert x.device == CUDA0
    assert x.untyped_storage().nbytes() == 400
    x.data = torch.ones(2, device="cuda:1")
    assert x.device == CUDA1
    y = torch.empty(0, device="cuda").set_(_on(CUDA0).untyped_storage(), 0, (3,))
    assert y.device == CUDA0


def test_results_that_torch_makes_inside_are_on_the_device() -> None:
    x = _on(CUDA0)
    results = [
        nn.functional.one_hot(torch.tensor([0, 1], device="cuda")),
        torch.nn.utils.rnn.pad_sequence([x[0], x[1]]),
        torch.triu(x),
        torch.meshgrid(x[0], x[1], indexing="ij")[0],
        torch.unique(x),
        x.topk(2).indices,
        torch.linalg.svd(x).U,
        torch.fft.rfft(x),
        torch.stft(x.flatten().repeat(4), 8, return_complex=True, window=torch.hann_window(8, device="cuda")),
        nn.functional.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
        nn.functional.cross_entropy(x, torch.zeros(2, dtype=torch.long, device="cuda")),
        nn.utils.parameters_to_vector([x]),
        torch.nn.functional.pad(x, (1, 1)),
        torch.combinations(x[0]),
        torch.vmap(torch.sum)(x),
        torch.func.jacrev(torch.sin)(x[0]),
    ]
    assert [result.device for result in results] == [CUDA0] * len(results)


def test_a_tensor_may_be_larger_than_the_hosts_memory(device: cudalens.virtual.device) -> None:
    large = torch.empty(10_000_000_000, device="cuda")
    assert large.nbytes == 40_000_000_000
    assert torch.cuda.memory_allocated() >= 40_000_000_000
    assert torch.zeros(5_000_000_000, device="cuda")[3].item() == 0.0
    with pytest.raises(torch.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate 74\.51 GiB"):
        torch.empty(20_000_000_000, device="cuda")


def test_tensors_that_outlive_the_device_are_the_hosts(device: cudalens.virtual.device) -> None:
    x = _on(CUDA0).requires_grad_()
    y = x * 2
    device.disable()
    assert (x.device, x.is_cuda, y.is_cuda) == (CPU, False, False)
    assert (y + torch.ones(2, 3)).tolist() == [[1.0, 3.0, 5.0], [7.0, 9.0, 11.0]]
    y.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2
    assert x.detach().numpy()[1, 2] == 5.0


def test_modules_of_every_common_kind_run_and_differentiate() -> None:
    image, rows = torch.randn(2, 4, 8, 8, device="cuda"), torch.randn(2, 4, 8, device="cuda")
    modules: list[tuple[nn.Module, torch.Tensor]] = [
        (nn.Conv2d(4, 4, 3), image),
        (nn.ConvTranspose2d(4, 4, 3), image),
        (nn.BatchNorm2d(4), image),
        (nn.GroupNorm(2, 4), image),
        (nn.InstanceNorm2d(4), image),
        (nn.LayerNorm(8), rows),
        (nn.RMSNorm(8), rows),
        (nn.GRU(8, 4), rows),
        (nn.RNN(8, 4), rows),
        (nn.MultiheadAttention(8, 2), rows),
        (nn.TransformerDecoderLayer(8, 2), rows),
        (nn.Bilinear(8, 8, 3), rows),
        (nn.PReLU(), rows),
        (nn.Upsample(scale_factor=2), image),
        (nn.Softmax(-1), rows),
        (nn.AdaptiveMaxPool2d(2), image),
        (nn.PixelShuffle(2), image),
    ]
    for module, value in modules:
        module.to("cuda")
        given = value.clone().requires_grad_()
        num_inputs = {nn.MultiheadAttention: 3, nn.TransformerDecoderLayer: 2, nn.Bilinear: 2}.get(type(module), 1)
        out = module(*[given] * num_inputs)
        first = out[0] if isinstance(out, tuple) else out
        first.square().sum().backward()
        assert first.device == given.grad.device == CUDA0, type(module).__name__


def _assign(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[0, 0] = 3.0
    return x


INSIDE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "ones": lambda g: torch.ones(2, 3, device="cuda"),
    "tensor": lambda g: torch.tensor([1.0], device="cuda"),
    "as_tensor": lambda g: torch.as_tensor(np.ones(3, np.float32), device="cuda"),
    "like": torch.zeros_like,
    "to": lambda g: torch.ones(3).to("cuda"),
    "assigned": _assign,
    "generated": lambda g: torch.rand(3, device="cuda", generator=torch.Generator("cuda")),
}


@pytest.mark.parametrize("make", INSIDE.values(), ids=INSIDE.keys())
def test_hooks_and_custom_functions_make_tensors_as_everybody_does(make: Callable[..., torch.Tensor]) -> None:
    made: list[torch.Tensor] = []

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            made.append(make(x))
            return x * 2

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            made.append(make(grad))
            return grad * 2

    x = _on(CUDA0).requires_grad_()
    y = Custom.apply(x)
    y.register_hook(lambda grad: made.append(make(grad)))
    y.sum().backward()
    torch.autograd.grad(Custom.apply(x).sum(), x)
    assert [value.device for value in made] == [CUDA0] * 5


def test_a_hook_may_copy_to_the_host() -> None:
    x = _on(CUDA0).requires_grad_()
    kept = []

    def offload(grad: torch.Tensor) -> None:
        host = torch.empty(grad.shape, pin_memory=True)
        host.copy_(grad, non_blocking=True)
        kept.append(host)

    x.register_hook(offload)
    (x * 3).sum().backward()
    assert kept[0].device == CPU
    assert kept[0].tolist() == [[3.0] * 3] * 2


def test_tensors_under_torch_func_are_where_what_is_in_them_is() -> None:
    host, x = torch.ones(3), torch.ones(3, device="cuda")
    seen: list[torch.device] = []

    def loss(value: torch.Tensor) -> torch.Tensor:
        seen.append(value.device)
        return (value * torch.full((3,), 2.0, device=value.device)).sum()

    assert torch.func.grad(loss)(x).tolist() == [2.0] * 3
    assert torch.vmap(torch.func.grad(loss))(x.expand(2, 3)).device == CUDA0
    assert seen == [CUDA0, CUDA0]
    assert torch.func.grad(lambda value: (value.cuda() ** 2).sum())(host).device == CPU
    assert torch.func.jvp(lambda value: value.cpu() * 2, (x,), (x,))[1].device == CPU
    assert torch.vmap(lambda row: row.cuda())(torch.ones(2, 3)).device == CUDA0


@pytest.mark.parametrize("args", [(), (2, 3), (torch.Size([2, 3]),), ([1.0, 2.0],), ((1.0, 2.0),)])
def test_the_old_new_makes_a_tensor_where_its_model_is(args):
    where = torch.device("cuda", 1)
    there, here = torch.ones(2, device=where).new(*args), torch.ones(2).new(*args)
    assert there.device == where
    assert here.device == CPU
    assert there.shape == here.shape
    if args and not isinstance(args[0], int | torch.Size):
        assert there.tolist() == [1.0, 2.0]
