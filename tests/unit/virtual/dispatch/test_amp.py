"""Autocast for CUDA on a virtual device: the dtypes of CUDA, without effect on other tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn import functional

import cudalens.virtual
from cudalens.virtual.dispatch import amp
from cudalens.virtual.dispatch.amp import is_cast, overload

HALVES = [torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def device() -> Iterator[cudalens.virtual.device]:
    torch.manual_seed(0)
    with cudalens.virtual.device("h100") as entered:
        yield entered


def _low(dtype: torch.dtype) -> torch.Tensor:
    return torch.rand(4, 4, device="cuda").to(dtype)


def _single() -> torch.Tensor:
    return torch.rand(4, 4, device="cuda")


LOWER: dict[str, Callable[[], torch.Tensor]] = {
    "mm": lambda: torch.mm(_single(), _single()),
    "matmul": lambda: _single() @ _single(),
    "linear": lambda: torch.nn.Linear(4, 4, device="cuda")(_single()),
    "conv1d": lambda: torch.nn.Conv1d(4, 4, 1, device="cuda")(_single()),
    "conv2d": lambda: torch.nn.Conv2d(1, 2, 2, device="cuda")(_single()[None]),
    "bmm": lambda: torch.bmm(_single()[None], _single()[None]),
    "baddbmm": lambda: torch.baddbmm(_single()[None], _single()[None], _single()[None]),
    "addmm": lambda: torch.addmm(_single(), _single(), _single()),
    "einsum": lambda: torch.einsum("ij,kj->ik", _single(), _single()),
    "multi_dot": lambda: torch.linalg.multi_dot([_single(), _single(), _single()]),
    "prelu": lambda: functional.prelu(_single(), torch.ones(1, device="cuda")),
    "attention": lambda: functional.scaled_dot_product_attention(_single()[None], _single()[None], _single()[None]),
    "lstm_cell": lambda: torch.nn.LSTMCell(4, 4, device="cuda")(_single())[0],
    "lstm": lambda: torch.nn.LSTM(4, 4, device="cuda")(_single())[0],
    "gru": lambda: torch.nn.GRU(4, 4, device="cuda")(_single())[0],
}

FLOAT32: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp,
    "log": torch.log,
    "pow": lambda x: x**2,
    "rpow": lambda x: 2**x,
    "reciprocal": torch.reciprocal,
    "softplus": functional.softplus,
    "softmax": lambda x: functional.softmax(x, -1),
    "log_softmax": lambda x: functional.log_softmax(x, -1),
    "layer_norm": lambda x: functional.layer_norm(x, (4,)),
    "group_norm": lambda x: functional.group_norm(x, 2),
    "sum": torch.sum,
    "sum dim": lambda x: x.sum(0),
    "prod": lambda x: x.prod(0),
    "cumsum": lambda x: x.cumsum(0),
    "norm": torch.norm,
    "norm dim": lambda x: x.norm(dim=0),
    "vector_norm": torch.linalg.vector_norm,
    "mse_loss": lambda x: functional.mse_loss(x, x),
    "cross_entropy": lambda x: functional.cross_entropy(x, torch.zeros(4, dtype=torch.long, device="cuda")),
    "bce_with_logits": lambda x: functional.binary_cross_entropy_with_logits(x, x),
    "interpolate": lambda x: functional.interpolate(x[None], scale_factor=2),
    "logsumexp": lambda x: x.logsumexp(0),
}

UNTOUCHED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "add": lambda x: x + x,
    "batch_norm": lambda x: torch.nn.BatchNorm1d(4, device="cuda")(x),
    "max_pool": lambda x: functional.max_pool1d(x, 2),
    "dropout": functional.dropout,
}

WIDEST: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y),
    "atan2": torch.atan2,
    "dot": lambda x, y: torch.dot(x[0], y[0]),
    "cross": lambda x, y: torch.cross(x[:3, :3], y[:3, :3], dim=1),
    "index_put": lambda x, y: x.index_put((torch.tensor([0], device="cuda"),), y[:1]),
    "scatter_add": lambda x, y: x.scatter_add(0, torch.zeros(1, 4, dtype=torch.long, device="cuda"), y[:1]),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op", LOWER.values(), ids=LOWER.keys())
def test_matrix_operators_run_in_lower_precision(op: Callable[[], torch.Tensor], dtype: torch.dtype) -> None:
    with torch.autocast("cuda", dtype=dtype):
        assert op().dtype is dtype
    assert op().dtype is torch.float32


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op", FLOAT32.values(), ids=FLOAT32.keys())
def test_sensitive_operators_run_in_float32(op: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
    low = _low(dtype)
    with torch.autocast("cuda", dtype=dtype):
        assert op(low).dtype is torch.float32
    assert op(low).dtype is dtype


@pytest.mark.parametrize("op", UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_other_operators_keep_what_they_get(op: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with torch.autocast("cuda"):
        assert op(_low(torch.float16)).dtype is torch.float16
        assert op(_single()).dtype is torch.float32


@pytest.mark.parametrize("op", WIDEST.values(), ids=WIDEST.keys())
def test_operators_of_several_take_the_widest(op: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    low, single = _low(torch.float16), _single()
    with torch.autocast("cuda"):
        assert op(low, single).dtype is torch.float32
        assert op(single, low).dtype is torch.float32
        assert op(low, low).dtype is torch.float16


def test_unexpected_mixtures_are_refused_with_torchs_message() -> None:
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
        torch.addcmul(_low(torch.float16), _low(torch.bfloat16), _low(torch.float16))


def test_binary_cross_entropy_is_refused_on_the_device_alone() -> None:
    single, host = _single(), torch.rand(4)
    with torch.autocast("cuda"):
        with pytest.raises(RuntimeError, match="are unsafe to autocast"):
            functional.binary_cross_entropy(single, single)
        assert functional.binary_cross_entropy(host, host).dtype is torch.float32


def test_the_caller_may_request_another_dtype() -> None:
    low = _low(torch.float16)
    with torch.autocast("cuda"):
        assert low.sum(dtype=torch.float64).dtype is torch.float64
        assert functional.softmax(low, -1, dtype=torch.float16).dtype is torch.float16


def test_doubles_and_integers_are_left_alone() -> None:
    double = _single().double()
    whole = torch.ones(2, 2, dtype=torch.long, device="cuda")
    with torch.autocast("cuda"):
        assert (double @ double).dtype is torch.float64
        assert double.exp().dtype is torch.float64
        assert whole.sum().dtype is torch.int64


def test_the_host_is_left_alone() -> None:
    host = torch.rand(2, 2)
    with torch.autocast("cuda"):
        assert (host @ host).dtype is torch.float32
        assert host.half().exp().dtype is torch.float16


def test_autocast_of_the_cpu_leaves_the_device_alone() -> None:
    host, single = torch.rand(4, 4), _single()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (host @ host).dtype is torch.bfloat16
        assert (single @ single).dtype is torch.float32
        with torch.autocast("cuda", dtype=torch.float16):
            assert (host @ host).dtype is torch.bfloat16
            assert (single @ single).dtype is torch.float16
    assert (host @ host).dtype is torch.float32


def test_regions_nest_and_switch_off() -> None:
    single = _single()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cuda")
        assert not torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cuda") is torch.bfloat16
        with torch.autocast("cuda", enabled=False):
            assert (single @ single).dtype is torch.float32
        with torch.autocast("cuda", dtype=torch.float16):
            assert (single @ single).dtype is torch.float16
        assert (single @ single).dtype is torch.bfloat16
    assert not torch.is_autocast_enabled("cuda")


def test_the_old_spelling() -> None:
    with pytest.warns(FutureWarning), torch.cuda.amp.autocast():
        assert (_single() @ _single()).dtype is torch.float16


def test_values_are_those_of_half_precision() -> None:
    layer, x = torch.nn.Linear(4, 4), torch.rand(3, 4)
    expected = functional.linear(x.half(), layer.weight.half(), layer.bias.half())
    layer.cuda()
    with torch.autocast("cuda"):
        assert torch.equal(layer(x.cuda()).cpu(), expected)


def test_gradients_reach_the_weights_in_their_dtype() -> None:
    layer = torch.nn.Linear(4, 4, device="cuda")
    with torch.autocast("cuda"):
        loss = functional.mse_loss(layer(_single()), torch.zeros(4, 4, device="cuda"))
    loss.backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype is torch.float32


def _count_casts(region: Callable[[], None], device: cudalens.virtual.device) -> int:
    """The number of kernels that `region` launches."""
    assert device.gpus is not None
    stream = device.gpus.machine.current_stream()
    launched: list[object] = []
    launch = type(stream).launch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(stream), "launch", lambda *args: launched.append(args) or launch(*args))
        region()
    return len(launched)


def test_a_weight_is_cast_once_in_a_region(device: cudalens.virtual.device) -> None:
    layer, x = torch.nn.Linear(4, 4, bias=False, device="cuda"), _low(torch.float16)

    def cached() -> None:
        with torch.autocast("cuda"):
            layer(x)
            layer(x)

    def uncached() -> None:
        with torch.autocast("cuda", cache_enabled=False):
            layer(x)
            layer(x)

    assert _count_casts(uncached, device) == _count_casts(cached, device) + 1


def test_a_changed_weight_is_cast_again_in_the_next_region() -> None:
    layer, x = torch.nn.Linear(4, 4, bias=False, device="cuda"), _single()
    with torch.autocast("cuda"):
        layer(x)
    with torch.no_grad():
        layer.weight.zero_()
    with torch.autocast("cuda"):
        assert not layer(x).any()


class _Doubled(torch.autograd.Function):
    seen: list[tuple[str, torch.dtype, bool]] = []  # noqa: RUF012 - filled by the test

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        _Doubled.seen.append(("forward", x.dtype, torch.is_autocast_enabled("cuda")))
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        _Doubled.seen.append(("backward", grad.dtype, torch.is_autocast_enabled("cuda")))
        return grad * 2


def test_custom_functions_cast_their_inputs() -> None:
    _Doubled.seen.clear()
    x = _single().requires_grad_()
    with torch.autocast("cuda"):
        y = _Doubled.apply(x)
    y.float().sum().backward()
    assert _Doubled.seen == [("forward", torch.float16, False), ("backward", torch.float16, False)]
    assert torch.equal(x.grad, torch.full_like(x, 2.0))


def test_the_scaler_scales_steps_and_grows() -> None:
    layer = torch.nn.Linear(4, 1, device="cuda")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0, growth_interval=2)
    for _ in range(2):
        before = layer.weight.detach().clone()
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = layer(_single()).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        assert not torch.equal(layer.weight, before)
    assert scaler.get_scale() == 16.0


def test_the_scaler_skips_a_step_with_infinities_and_backs_off() -> None:
    layer = torch.nn.Linear(4, 1, device="cuda")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
    before = layer.weight.detach().clone()
    scaler.scale(layer(_single()).sum() * torch.tensor(3e38, device="cuda")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(layer.weight, before)
    assert scaler.get_scale() == 4.0
    other = torch.amp.GradScaler("cuda")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4.0


def test_the_scalers_step_makes_the_host_wait(device: cudalens.virtual.device) -> None:
    layer = torch.nn.Linear(4, 1, device="cuda")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(layer(_single()).sum()).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            scaler.step(optimizer)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_the_table_names_every_operator_that_torch_casts() -> None:
    names = [name[len("aten::") :] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    cast = {name for name in names if overload(name) is not None and is_cast(name)}
    cast -= {"_cudnn_rnn"}  # a CUDA build casts what the recurrent operators call
    assert cast - set(amp.POLICIES) - set(amp.RECURRENT) == set()


def test_torch_casts_as_before_after_the_device(device: cudalens.virtual.device) -> None:
    single = _single()
    with torch.autocast("cuda"), torch.autocast("cpu"):
        _ = single @ single
        device.disable()
        assert (single @ single).dtype is torch.bfloat16
    host = torch.rand(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (host @ host).dtype is torch.bfloat16
    assert not torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.AutocastCUDA)
    assert not torch.is_autocast_enabled("xpu")
