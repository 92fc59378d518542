"""Training on a virtual device: losses equal the CPU's bit for bit, and models move and are saved as on CUDA."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import cudalens.virtual

Batch = tuple[torch.Tensor, torch.Tensor]


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, num_layers=2, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4))


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )


def _transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 32, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(48, 4))


def _embedding() -> nn.Module:
    return nn.Sequential(nn.Embedding(16, 8, padding_idx=0), nn.LayerNorm(8), nn.Flatten(), nn.Linear(48, 4))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "mlp with dropout": (_mlp, lambda: torch.randn(16, 8)),
    "cnn": (_cnn, lambda: torch.randn(4, 3, 8, 8)),
    "transformer": (_transformer, lambda: torch.randn(4, 6, 8)),
    "lstm": (_Recurrent, lambda: torch.randn(4, 6, 8)),
    "embedding": (_embedding, lambda: torch.randint(16, (4, 6))),
}

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda p, **how: torch.optim.SGD(p, lr=0.05, momentum=0.9, **how),
    "Adam": lambda p, **how: torch.optim.Adam(p, lr=0.01, **how),
    "AdamW": lambda p, **how: torch.optim.AdamW(p, lr=0.01, **how),
}


def _train(place: str, model: str, optimizer: str, steps: int = 5, **how: bool) -> list[float]:
    """Losses of a few steps, from the same weights and data on every device."""
    torch.manual_seed(7)
    make, draw = MODELS[model]
    net = make()
    data = [(draw(), torch.randint(4, (16 if model.startswith("mlp") else 4,))) for _ in range(2)]
    net.to(place)
    steps_of = OPTIMIZERS[optimizer](net.parameters(), **how)
    torch.manual_seed(3)
    losses = []
    for step in range(steps):
        x, target = (part.to(place) for part in data[step % 2])
        steps_of.zero_grad()
        loss = functional.cross_entropy(net(x), target)
        loss.backward()
        steps_of.step()
        losses.append(loss.item())
    return losses


@pytest.fixture
def device() -> Iterator[cudalens.virtual.device]:
    with cudalens.virtual.device("h100x2") as entered:
        yield entered


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_losses_are_the_cpus_bit_for_bit(model: str, optimizer: str) -> None:
    expected = _train("cpu", model, optimizer, foreach=False, fused=False)
    with cudalens.virtual.device("h100"):
        found = _train("cuda", model, optimizer, foreach=False, fused=False)
    assert found == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize("how", [{}, {"foreach": True}, {"fused": True}], ids=["default", "foreach", "fused"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_other_ways_of_the_optimizers_train_as_well(
    device: cudalens.virtual.device, optimizer: str, how: dict[str, bool]
) -> None:
    losses = _train("cuda", "mlp with dropout", optimizer, **how)
    assert losses == pytest.approx(_train("cpu", "mlp with dropout", optimizer, foreach=False), rel=1e-4)


def test_capturable_adam_keeps_its_steps_on_the_device(device: cudalens.virtual.device) -> None:
    layer = nn.Linear(4, 4, device="cuda")
    optimizer = torch.optim.Adam(layer.parameters(), capturable=True)
    layer(torch.ones(2, 4, device="cuda")).sum().backward()
    optimizer.step()
    assert optimizer.state[layer.weight]["step"].device == torch.device("cuda", 0)


def test_the_optimizers_state_lives_with_the_parameters(device: cudalens.virtual.device) -> None:
    layer = nn.Linear(4, 4, device="cuda:1")
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(2, 4, device="cuda:1")).sum().backward()
    optimizer.step()
    state = optimizer.state[layer.weight]
    assert state["exp_avg"].device == torch.device("cuda", 1)
    assert state["step"].device == torch.device("cpu")


def test_an_optimizer_goes_on_from_its_saved_state(device: cudalens.virtual.device) -> None:
    layer = nn.Linear(4, 4, device="cuda")
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(2, 4, device="cuda")).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": layer.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, map_location="cpu")
    other = nn.Linear(4, 4, device="cuda")
    again = torch.optim.Adam(other.parameters())
    other.load_state_dict(saved["model"])
    again.load_state_dict(saved["optimizer"])
    assert again.state[other.weight]["exp_avg"].is_cuda
    for net, steps in ((layer, optimizer), (other, again)):
        net.zero_grad()
        net(torch.ones(2, 4, device="cuda")).square().sum().backward()
        steps.step()
    assert torch.equal(layer.weight, other.weight)


PLACES = ["cpu", "cuda", "cuda:1"]


@pytest.mark.parametrize("target", [*PLACES, None])
@pytest.mark.parametrize("source", PLACES)
def test_save_and_load_in_every_direction(device: cudalens.virtual.device, source: str, target: str | None) -> None:
    tensor = torch.arange(6.0, device=source).view(2, 3)
    file = io.BytesIO()
    torch.save({"all": tensor, "part": tensor[1]}, file)
    file.seek(0)
    loaded = torch.load(file, map_location=target)
    place = torch.empty(0, device=target or source).device
    assert loaded["all"].device == loaded["part"].device == place
    assert torch.equal(loaded["all"].cpu(), tensor.cpu())
    assert loaded["part"].untyped_storage().data_ptr() == loaded["all"].untyped_storage().data_ptr()


def test_load_with_a_function_and_with_a_table(device: cudalens.virtual.device) -> None:
    file = io.BytesIO()
    torch.save(torch.ones(2, device="cuda:1"), file)
    for where in (lambda storage, location: storage.cuda(0), {"cuda:1": "cuda:0"}, torch.device("cuda", 0)):
        file.seek(0)
        assert torch.load(file, map_location=where).device == torch.device("cuda", 0)


def test_what_was_saved_on_the_device_loads_without_one() -> None:
    file = io.BytesIO()
    with cudalens.virtual.device("h100"):
        torch.save(nn.Linear(2, 2, device="cuda").state_dict(), file)
    file.seek(0)
    with pytest.raises(RuntimeError, match=r"torch\.cuda\.is_available\(\) is False"):
        torch.load(file)
    file.seek(0)
    assert torch.load(file, map_location="cpu")["weight"].device == torch.device("cpu")


def test_modules_are_copied_with_their_place(device: cudalens.virtual.device) -> None:
    net = _mlp().to("cuda:1")
    other = copy.deepcopy(net)
    assert all(p.device == torch.device("cuda", 1) for p in other.parameters())
    assert all(isinstance(p, nn.Parameter) for p in other.parameters())
    assert other[0].weight.data_ptr() != net[0].weight.data_ptr()
    assert torch.equal(other[0].weight, net[0].weight)


def test_modules_move_and_keep_their_parameters(device: cudalens.virtual.device) -> None:
    net = _cnn()
    weights = list(net.parameters())
    assert net.to("cuda") is net
    assert [p.is_cuda for p in net.parameters()] == [True] * len(weights)
    assert [id(p) for p in net.parameters()] == [id(p) for p in weights]
    assert net[1].running_mean.is_cuda
    net.cpu()
    assert not any(p.is_cuda for p in net.parameters())
    net.cuda(1).half()
    assert {(p.device.index, p.dtype) for p in net.parameters()} == {(1, torch.float16)}


def test_gradients_move_with_their_parameters(device: cudalens.virtual.device) -> None:
    layer = nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    layer.to("cuda")
    assert layer.weight.grad is not None
    assert layer.weight.grad.is_cuda


def test_gradients_flow_across_devices(device: cudalens.virtual.device) -> None:
    x = torch.ones(3, requires_grad=True)
    (x.to("cuda:1") * 2).to("cuda:0").cpu().sum().backward()
    assert x.grad is not None
    assert x.grad.device == torch.device("cpu")
    assert torch.equal(x.grad, torch.full((3,), 2.0))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_repeats_dropout(device: cudalens.virtual.device, use_reentrant: bool) -> None:
    net = _mlp().to("cuda")
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    grads = []
    for run in (net, lambda value: checkpoint(net, value, use_reentrant=use_reentrant)):
        torch.manual_seed(0)
        x.grad = None
        run(x).sum().backward()
        grads.append(x.grad)
    assert torch.equal(grads[0], grads[1])


def test_hooks_see_tensors_of_the_device(device: cudalens.virtual.device) -> None:
    net = _mlp().to("cuda")
    places: list[torch.device] = []
    net[0].register_forward_hook(lambda module, inputs, output: places.append(output.device))
    net[0].register_full_backward_hook(lambda module, grad_in, grad_out: places.append(grad_out[0].device))
    net[3].weight.register_post_accumulate_grad_hook(lambda parameter: places.append(parameter.grad.device))
    net(torch.randn(2, 8, device="cuda", requires_grad=True)).sum().backward()
    assert places == [torch.device("cuda", 0)] * 3


def test_a_loader_pins_its_batches(device: cudalens.virtual.device) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(20.0).view(10, 2), torch.arange(10))
    for num_workers in (0, 2):
        loader = torch.utils.data.DataLoader(data, batch_size=5, pin_memory=True, num_workers=num_workers)
        batches = [(x.is_pinned(), x.cuda(non_blocking=True).sum().item()) for x, _ in loader]
        assert batches == [(True, 45.0), (True, 145.0)]


def test_workers_of_a_loader_draw_as_they_do_without_a_device() -> None:
    class Noise(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.rand(2)

    def draw() -> torch.Tensor:
        generator = torch.Generator().manual_seed(1)
        loader = torch.utils.data.DataLoader(Noise(), batch_size=2, num_workers=2, generator=generator)
        return torch.cat(list(loader))

    expected = draw()
    with cudalens.virtual.device("h100"):
        assert torch.equal(draw(), expected)


def test_data_parallel_runs_on_all_devices(device: cudalens.virtual.device) -> None:
    net = nn.Linear(4, 4).cuda()
    x = torch.randn(6, 4, device="cuda")
    expected = net(x)
    found = nn.DataParallel(net, device_ids=[0, 1])(x)
    found.sum().backward()
    torch.testing.assert_close(found, expected)
    assert net.weight.grad is not None
    torch.testing.assert_close(net.weight.grad, x.sum(0).expand(4, 4))


@pytest.mark.parametrize("anomaly", [True, False])
def test_double_backward(device: cudalens.virtual.device, anomaly: bool) -> None:
    x = torch.tensor([3.0], device="cuda", requires_grad=True)
    with torch.autograd.set_detect_anomaly(anomaly):
        (first,) = torch.autograd.grad(x**3, x, create_graph=True)
        (second,) = torch.autograd.grad(first, x)
    assert (first.item(), second.item()) == (27.0, 18.0)


def test_a_gradient_of_another_device_is_refused_with_torchs_message(device: cudalens.virtual.device) -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="device"):
        (x * 2).backward(torch.ones(2))
    with pytest.raises(RuntimeError, match="assigned grad has data located on a different device"):
        x.grad = torch.ones(2)
    x.grad = torch.ones(2, device="cuda")


@pytest.mark.parametrize("on_side", [False, True])
def test_batched_and_functional_gradients(device: cudalens.virtual.device, on_side: bool) -> None:
    x = torch.arange(3.0, device="cuda", requires_grad=True)
    with torch.cuda.stream(torch.cuda.Stream() if on_side else torch.cuda.default_stream()):
        y = x * x
    rows = torch.eye(3, device="cuda")
    (batched,) = torch.autograd.grad(y, x, rows, is_grads_batched=True)
    (pulled,) = torch.func.vjp(lambda value: value * value, x)[1](torch.ones(3, device="cuda"))
    jacobian = torch.autograd.functional.jacobian(lambda value: value * value, x, vectorize=True)
    per_sample = torch.vmap(torch.func.grad(lambda value: value.square().sum()))(rows)
    assert {value.device for value in (batched, pulled, jacobian, per_sample)} == {torch.device("cuda", 0)}
    assert torch.equal(batched, torch.diag(2 * x))
    assert torch.equal(jacobian, batched)
    assert torch.equal(pulled, 2 * x)
    assert torch.equal(per_sample, 2 * rows)
