"""`cudalens.benchmark`: honest pairs are accepted, known cheats are refused by name."""

from __future__ import annotations

import sys
import threading
import time

import pytest
import torch
from torch.nn import functional

import cudalens
from cudalens.errors import BenchmarkError
from cudalens.fixes.honest.observe import Inputs
from cudalens.fixes.settings import read_settings, restore_settings

QUICK = {"runs": 3}


def randn(*sizes, **options):
    return lambda: (torch.randn(*sizes, **options),)


def two(*sizes, **options):
    return lambda: (torch.randn(*sizes, **options), torch.randn(*sizes, **options))


def reference(x):
    return torch.softmax(x * 2.0, -1) + 1.0


def names(certificate):
    return [cheat.name for cheat in certificate.cheats]


EYE = torch.eye(30)
LINEAR = torch.nn.Linear(64, 64)
CONV = torch.nn.Conv2d(3, 8, 3)
ATTENTION = torch.nn.functional.scaled_dot_product_attention

HONEST = {
    "square": (lambda x: x * x, torch.square, randn(200, 100)),
    "the same": (reference, reference, randn(64, 64)),
    "softmax": (
        lambda x: torch.softmax(x, -1),
        lambda x: x.sub(x.amax(-1, True)).exp().div(x.sub(x.amax(-1, True)).exp().sum(-1, True)),
        randn(64, 64),
    ),
    "linear": (LINEAR, lambda x: torch.addmm(LINEAR.bias, x, LINEAR.weight.t()), randn(32, 64)),
    "product": (torch.matmul, lambda x, y: torch.einsum("ij,jk->ik", x, y), two(64, 64)),
    "batched": (lambda x, y: torch.stack([p @ q for p, q in zip(x, y, strict=True)]), torch.bmm, two(4, 32, 32)),
    "associated": (lambda x, y: (x @ y) @ y, lambda x, y: x @ (y @ y), two(64, 64)),
    "attention": (
        lambda x: torch.softmax(x @ x.transpose(-1, -2) * 0.25, -1) @ x,
        lambda x: ATTENTION(x, x, x),
        randn(1, 2, 32, 16),
    ),
    "layer norm": (
        lambda x: (x - x.mean(-1, True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt(),
        lambda x: functional.layer_norm(x, x.shape[-1:]),
        randn(64, 64),
    ),
    "gelu": (lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)), functional.gelu, randn(500)),
    "relu": (lambda x: x * (x > 0), torch.relu, randn(500)),
    "in place on its own": (lambda x: x.exp() + 1, lambda x: x.exp().add_(1), randn(500)),
    "sum": (lambda x: sum(x.unbind()), lambda x: x.sum(0), randn(20, 30)),
    "mean of rows": (lambda x: x.sum(1) / 30, lambda x: x.mean(1), randn(20, 30)),
    "sort": (lambda x: x.sort().values, lambda x: x[x.argsort()], randn(500)),
    "top k": (lambda x: x.topk(5).values, lambda x: x.sort(descending=True).values[..., :5], randn(10, 50)),
    "gather": (
        lambda x, i: x[i],
        lambda x, i: x.index_select(0, i),
        lambda: (torch.randn(50, 4), torch.randint(50, (30,))),
    ),
    "one hot": (
        lambda i: functional.one_hot(i, 10),
        lambda i: torch.eye(10, dtype=torch.int64)[i],
        lambda: (torch.randint(10, (40,)),),
    ),
    "integers": (lambda i: i * 2, lambda i: i + i, lambda: (torch.randint(100, (40,)),)),
    "views": (lambda x: x.t(), lambda x: x.transpose(0, 1), randn(20, 30)),
    "tuples": (lambda x: (x + 1, {"y": x * 2}), lambda x: (1 + x, {"y": x + x}), randn(20)),
    "numbers": (lambda x: float(x.sum()), lambda x: x.sum().item(), randn(20)),
    "float64": (lambda x: x.exp().log(), lambda x: x.clone(), randn(20, dtype=torch.float64)),
    "half": (lambda x: x @ x, lambda x: torch.mm(x, x), randn(32, 32, dtype=torch.bfloat16)),
    "convolution": (CONV, lambda x: functional.conv2d(x, CONV.weight, CONV.bias), randn(2, 3, 16, 16)),
    "dropout off": (lambda x: functional.dropout(x, 0.5, training=False), lambda x: x.clone(), randn(30)),
    "gradients": (
        lambda x: torch.autograd.grad((x**2).sum(), x)[0],
        lambda x: 2 * x.detach(),
        randn(30, requires_grad=True),
    ),
    "examples": (lambda x: x.clamp(0), torch.relu, (torch.randn(300),)),
    "a cache of constants": (lambda x: x @ torch.eye(30), lambda x: x @ EYE, randn(30, 30)),
    "NaN": (lambda x: (x - 100).log(), lambda x: torch.log(x - 100), randn(30)),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_pair_is_accepted(name):
    a, b, inputs = HONEST[name]
    found = cudalens.benchmark(a, b, inputs, **QUICK)
    assert found.is_accepted, found
    assert found.speedup > 0


@pytest.mark.parametrize("name", ["square", "product", "attention", "sort", "tuples", "gradients", "views"])
def test_honest_pairs_are_accepted_on_a_virtual_device(name):
    a, b, inputs = HONEST[name]
    with cudalens.virtual.device("h100"):
        found = cudalens.benchmark(
            a, b, lambda: tuple(one.detach().cuda().requires_grad_(one.requires_grad) for one in inputs()), **QUICK
        )
    assert found.is_accepted, found
    assert found.is_modelled
    assert "(modelled)" in found.headline()


# cheats: each a function that makes the cheating function for `reference`


def cached_by_identity():
    kept = {}

    def run(x):
        if id(x) not in kept:
            kept[id(x)] = (x, reference(x))
        return kept[id(x)][1].clone()

    return run


def memoized():
    kept = {}

    def run(x):
        key = x.cpu().numpy().tobytes()
        if key not in kept:
            kept[key] = reference(x)
        return kept[key]

    return run


def first_result():
    kept = []

    def run(x):
        if not kept:
            kept.append(reference(x))
        return kept[0].clone()

    return run


def no_work():
    return lambda x: x


def leftover_memory():
    return lambda x: torch.empty_like(x)


def honest_three_times():
    calls = []

    def run(x):
        calls.append(1)
        return reference(x) if len(calls) < 15 else torch.ones_like(x)

    return run


def half_of_the_batch():
    def run(x):
        result = torch.zeros_like(x)
        result[: len(x) // 2] = reference(x[: len(x) // 2])
        return result

    return run


def low_precision():
    return lambda x: reference(x.bfloat16()).float()


def half_result():
    return lambda x: reference(x).half()


def without_gradient():
    return lambda x: reference(x.detach())


def in_place():
    def run(x):
        x *= 2.0
        return torch.softmax(x, -1) + 1.0

    return run


def one_buffer():
    buffer = []

    def run(x):
        if not buffer:
            buffer.append(torch.empty_like(x))
        return buffer[0].copy_(reference(x))

    return run


class Later(torch.Tensor):
    """Computes when it is used."""


def lazy():
    return lambda x: x.as_subclass(Later)


def promised():
    return lambda x: lambda: reference(x)


def in_a_thread():
    def run(x):
        result = torch.zeros_like(x)

        def work():
            time.sleep(0.05)
            result.copy_(reference(x))

        threading.Thread(target=work, name="late").start()
        return result

    return run


def smaller():
    return lambda x: reference(x)[:1]


def slower_baseline():
    def run(x):
        torch.set_float32_matmul_precision("medium")
        return reference(x)

    return run


def ring_of_buffers():
    buffers = [torch.empty(32, 64) for _ in range(5)]

    def run(x):
        buffers.append(buffers.pop(0))
        return buffers[0].copy_(reference(x))

    return run


def only_every_second_call():
    calls = []

    def run(x):
        calls.append(x.shape)
        return reference(x) if len(calls) < 15 or len(calls) % 2 else torch.zeros_like(x)

    return run


def profiled_python():
    def run(x):
        sys.setprofile(_ignore)
        return reference(x)

    return run


def _ignore(*event):
    return None


def without_flash_attention():
    def run(x):
        torch.backends.cuda.enable_flash_sdp(False)
        return reference(x)

    return run


CHEATS = {
    cached_by_identity: "cached output",
    memoized: "memoized",
    first_result: "constant output",
    no_work: "returns its input",
    honest_three_times: "correct only at first",
    half_of_the_batch: "skipped part",
    low_precision: "reduced precision",
    half_result: "smaller dtype",
    in_place: "mutated inputs",
    one_buffer: "shared output",
    lazy: "lazy output",
    promised: "lazy output",
    in_a_thread: "unfinished thread",
    smaller: "different shape",
    slower_baseline: "changed settings",
    profiled_python: "changed settings",
    without_flash_attention: "changed settings",
    ring_of_buffers: "shared output",
}


@pytest.fixture(autouse=True)
def precision():
    before, profile = torch.get_float32_matmul_precision(), sys.getprofile()
    yield
    sys.setprofile(profile)
    torch.backends.cuda.enable_flash_sdp(True)
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("make", CHEATS, ids=lambda make: make.__name__)
def test_a_cheat_is_refused_by_name(make):
    found = cudalens.benchmark(reference, make(), randn(32, 64), **QUICK)
    assert names(found)[:1] == [CHEATS[make]]
    assert found.speedup is None
    assert found.headline().startswith(f"refused: {CHEATS[make]}: ")


@pytest.mark.parametrize("make", [cached_by_identity, memoized, half_of_the_batch, in_place, low_precision, one_buffer])
def test_a_cheat_is_refused_on_a_virtual_device(make):
    with cudalens.virtual.device("a100"):
        found = cudalens.benchmark(reference, make(), randn(32, 64, device="cuda"), **QUICK)
    assert names(found)[:1] == [CHEATS[make]]


def test_memory_that_other_work_left_is_not_a_result():
    with cudalens.virtual.device("h100"):  # its allocator returns the block that was freed last
        found = cudalens.benchmark(lambda x: x * 2, torch.empty_like, randn(1 << 14, device="cuda"), **QUICK)
    # What the memory holds decides how the result is wrong.
    assert set(names(found)) & {"leftover memory", "wrong result", "constant output", "skipped part"}


def test_gradients_that_are_missing():
    found = cudalens.benchmark(reference, without_gradient(), randn(32, 64, requires_grad=True), **QUICK)
    assert "detached output" in names(found)


def test_a_result_that_is_right_for_one_kind_of_contents():
    found = cudalens.benchmark(torch.relu, lambda x: x.clone(), (torch.arange(1.0, 200.0),), **QUICK)
    assert found.is_accepted  # of positive numbers
    found = cudalens.benchmark(lambda x: x**2, lambda x: x, (torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0]),), **QUICK)
    assert set(names(found)) & {"special inputs", "returns its input"}


def test_other_contents_of_few_positive_elements_are_not_all_at_the_limits():
    given = torch.tensor([0.0, 1.0])
    inputs = Inputs((given,))
    torch.manual_seed(0)
    for _ in range(500):  # clamped, both elements are 0 or 1 in one of seven sets
        (other,) = inputs.spread()
        assert not torch.equal(other, other**2)
        assert bool(((other >= 0) & (other <= 1)).all())


def test_work_on_a_stream_that_nothing_waits_for():
    with cudalens.virtual.device("h100", values=False):
        side = torch.cuda.Stream()

        def run(x):
            with torch.cuda.stream(side):
                return x @ x @ x

        found = cudalens.benchmark(lambda x: x @ x @ x, run, randn(4096, 4096, device="cuda"), **QUICK)
    assert names(found) == ["wrong stream"]


def test_a_clock_that_was_replaced(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    found = cudalens.benchmark(reference, reference, randn(8, 8), **QUICK)
    assert names(found) == ["patched timer"]


def test_a_wait_that_does_not_wait(monkeypatch):
    def run(x):
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
        return reference(x)

    assert "patched timer" in names(cudalens.benchmark(reference, run, randn(8, 8), **QUICK))


def test_a_function_of_torch_that_was_replaced(monkeypatch):
    softmax = torch.softmax

    def run(x):
        monkeypatch.setattr(torch, "softmax", lambda *given: next(softmax(*given) for _ in range(9)))
        return softmax(x * 2.0, -1) + 1.0

    assert names(cudalens.benchmark(reference, run, randn(8, 8), **QUICK)) == ["patched torch"]


def big(x):
    return (x * 2).cumsum(0)


@pytest.mark.parametrize(
    ("claimed_ms", "shape", "name"),
    [
        (0.02, (1 << 26,), "no synchronization"),
        (0.0012, (1 << 21,), "inputs in L2"),
        (0.05, (1 << 26,), "too few bytes"),
    ],
)
def test_a_claim_below_what_is_measured(claimed_ms, shape, name):
    with cudalens.virtual.device("h100", values=False):
        found = cudalens.benchmark(big, big, randn(*shape, device="cuda"), claimed_ms=claimed_ms, **QUICK)
    assert name in names(found)


def test_a_claim_with_more_operations_than_the_device_has():
    with cudalens.virtual.device("h100", values=False):
        found = cudalens.benchmark(torch.mm, torch.mm, two(8192, 8192, device="cuda"), claimed_ms=0.9, **QUICK)
    assert "too few operations" in names(found)


def test_a_claim_that_holds():
    with cudalens.virtual.device("h100", values=False):
        found = cudalens.benchmark(big, big, randn(1 << 22, device="cuda"), claimed_ms=10.0, **QUICK)
    assert found.is_accepted
    assert "no values" in found.headline()


def test_inputs_that_do_not_vary():
    with pytest.raises(cudalens.BenchmarkError, match="do not vary"):
        cudalens.benchmark(reference, reference, (torch.ones(8, 8),))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"a": 1}, "a is int, expected a function"),
        ({"inputs": torch.ones(3)}, "inputs is Tensor"),
        ({"runs": 2}, "runs=2: expected a whole number from 3"),
        ({"tolerance": -1.0}, "tolerance=-1.0: expected"),
        ({"b": lambda x: 1 / 0}, "b raised ZeroDivisionError"),
    ],
)
def test_invalid_arguments(arguments, text):
    given = {"a": reference, "b": reference, "inputs": randn(4, 4)} | arguments
    with pytest.raises(cudalens.BenchmarkError, match=text):
        cudalens.benchmark(**given)


def test_a_tolerance_allows_a_lower_precision():
    found = cudalens.benchmark(reference, low_precision(), randn(32, 64), tolerance=0.1, **QUICK)
    assert found.is_accepted
    assert "results differ by at most" in str(found)
    assert "<b>" in found._repr_html_()


class Square(torch.autograd.Function):
    """A square whose backward is that of another function."""

    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


WEIGHT = torch.randn(64, 64, requires_grad=True)


@pytest.mark.parametrize(
    ("a", "b", "inputs"),
    [
        (torch.square, Square.apply, randn(32, 64, requires_grad=True)),
        (torch.square, lambda x: x.detach().square().requires_grad_(), randn(32, 64, requires_grad=True)),
        (lambda x: x @ WEIGHT, lambda x: x @ WEIGHT.detach() + WEIGHT.sum() * 0, randn(32, 64)),
    ],
)
def test_gradients_that_are_wrong(a, b, inputs):
    assert names(cudalens.benchmark(a, b, inputs, **QUICK)) == ["wrong gradient"]


def test_gradients_of_parameters_of_its_own_are_not_compared():
    own = torch.nn.Linear(64, 64)
    own.load_state_dict(LINEAR.state_dict())
    assert cudalens.benchmark(LINEAR, own, randn(32, 64), **QUICK).is_accepted


def test_a_reference_that_is_changed():
    weight = torch.randn(64, 64)

    def run(x):
        weight.zero_()
        return torch.zeros_like(x)

    found = cudalens.benchmark(lambda x: x @ weight, run, randn(32, 64), **QUICK)
    assert names(found) == ["changed reference"]
    assert "a returns other values after b has run" in found.headline()


def test_a_seed_does_not_determine_the_inputs():
    given = []

    def run(x):
        torch.manual_seed(0)
        given.append(float(x[0, 0]))
        return reference(x)

    before = torch.get_rng_state()
    assert cudalens.benchmark(reference, run, randn(32, 64), **QUICK).is_accepted
    assert len(set(given)) > len(given) / 2
    torch.set_rng_state(before)


def test_a_setting_that_is_restored_within_the_function():
    def run(x, y):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            return x @ y
        finally:
            torch.set_float32_matmul_precision(before)

    with cudalens.virtual.device("h100"):
        inputs = two(64, 64, device="cuda")
        found = cudalens.benchmark(torch.matmul, run, inputs, **QUICK)
        assert names(found) == ["reduced precision"]
        assert "float32 matmul precision high" in found.headline()
        assert cudalens.benchmark(torch.matmul, run, inputs, tolerance=1e-3, **QUICK).is_accepted


def test_wrong_results_of_every_second_call():
    with cudalens.virtual.device("h100"):
        found = cudalens.benchmark(reference, only_every_second_call(), randn(32, 64, device="cuda"), **QUICK)
    assert names(found) == ["correct only at first"]


def test_results_on_another_device():
    with cudalens.virtual.device("h100"):
        found = cudalens.benchmark(reference, lambda x: reference(x.cpu()), randn(32, 64, device="cuda"), **QUICK)
    assert names(found) == ["different device"]


def test_elements_that_share_memory():
    found = cudalens.benchmark(
        lambda x: x[:, :1].repeat(1, 9), lambda x: x[:, :1].expand(-1, 9), randn(32, 64), **QUICK
    )
    assert names(found) == ["lazy output"]
    assert cudalens.benchmark(lambda x: x[:1].expand(9, -1), lambda x: x[:1].expand(9, -1), randn(2, 9), **QUICK)


def test_examples_of_integers():
    values = torch.randint(10, (500,))
    kept = torch.bincount(values, minlength=10)
    count = lambda x: torch.bincount(x, minlength=10)  # noqa: E731
    assert names(cudalens.benchmark(count, lambda x: kept.clone(), (values,), **QUICK)) == ["special inputs"]
    order = torch.randperm(50)  # other contents than a permutation are outside of what both are for
    put = lambda x: torch.empty_like(x).index_copy_(0, x, torch.arange(50))  # noqa: E731
    assert cudalens.benchmark(torch.argsort, put, (order,), **QUICK).is_accepted


def test_a_hook_that_slows_the_reference():
    layer, hooks = torch.nn.Linear(64, 64), []

    def run(x):
        if not hooks:
            hooks.append(layer.register_forward_hook(lambda module, given, out: [out.exp() for _ in range(9)] and None))
        return functional.linear(x, layer.weight, layer.bias)

    found = cudalens.benchmark(layer, run, randn(32, 64), **QUICK)
    assert names(found) == ["changed reference"]
    assert "operators after b has run, 2 before" in found.headline()


def test_a_wait_that_slows_the_reference():
    with cudalens.virtual.device("h100"):
        layer, hooks = torch.nn.Linear(64, 64, device="cuda"), []

        def run(x):
            if not hooks:
                hooks.append(
                    layer.register_forward_hook(lambda *event: [torch.cuda.synchronize() for _ in range(20)] and None)
                )
            return functional.linear(x, layer.weight, layer.bias)

        found = cudalens.benchmark(layer, run, randn(64, 64, device="cuda"), **QUICK)
    assert names(found) == ["changed reference"]
    assert "a takes" in found.headline()


def test_inputs_that_hardly_vary():
    kept = []

    def run(x):
        kept[1:] = []
        kept.append(x.exp().sum(1))
        return kept[0].clone()

    inputs = lambda: (1 + 1e-6 * torch.rand(64, 64),)  # noqa: E731
    found = cudalens.benchmark(lambda x: x.exp().sum(1), run, inputs, **QUICK)
    assert names(found)[:1] == ["constant output"]
    assert cudalens.benchmark(lambda x: x.exp().sum(1), lambda x: x.exp().t().sum(0), inputs, **QUICK).is_accepted
    kept.clear()
    found = cudalens.benchmark(lambda x: (x, x.exp().sum(1)), lambda x: (x, run(x)), inputs, **QUICK)
    assert names(found)[:1] == ["constant output"]


def test_examples_of_complex_numbers():
    kept = []

    def run(x):
        kept.append(x.abs().sum())
        return kept[0].clone()

    values = (torch.randn(64, 64, dtype=torch.complex64),)
    assert "special inputs" in names(cudalens.benchmark(lambda x: x.abs().sum(), run, values, **QUICK))
    assert cudalens.benchmark(lambda x: x.abs().sum(), lambda x: x.abs().sum(0).sum(), values, **QUICK).is_accepted


def test_tensors_in_lists_and_dicts_vary():
    kept = []

    def run(given):
        kept.append(given["x"][0] @ given["x"][1])
        return kept[0].clone()

    example = ({"x": [torch.randn(32, 32), torch.randn(32, 32)]},)
    product = lambda given: given["x"][0] @ given["x"][1]  # noqa: E731
    assert names(cudalens.benchmark(product, run, example, **QUICK))[:1] == ["constant output"]
    assert cudalens.benchmark(product, lambda given: torch.mm(*given["x"]), example, **QUICK).is_accepted


def test_inputs_in_a_dict_that_are_changed():
    inputs = lambda: ({"x": torch.randn(32, 64)},)  # noqa: E731
    found = cudalens.benchmark(lambda given: given["x"].exp(), lambda given: given["x"].exp_(), inputs, **QUICK)
    assert names(found)[:1] == ["mutated inputs"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (lambda x: x.t().contiguous(), lambda x: x.t()),
        (torch.conj_physical, torch.conj),
        (lambda x: x[:, :8].clone(), lambda x: x[:, :8]),
    ],
)
def test_a_view_in_place_of_a_copy(a, b):
    found = cudalens.benchmark(a, b, randn(32, 64, dtype=torch.complex64), **QUICK)
    assert names(found) == ["lazy output"]
    assert "a view of an argument" in found.headline()


@pytest.mark.parametrize(
    "change",
    [
        lambda: setattr(torch.backends.cuda.matmul, "allow_fp16_accumulation", True),
        lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),
        lambda: setattr(torch.backends.mkldnn, "enabled", False),
        lambda: torch.set_default_device("meta"),
        lambda: sys.setswitchinterval(0.5),
        lambda: torch.cuda.set_stream(torch.cuda.Stream()),
    ],
)
def test_settings_that_stay_changed(change):
    before, interval = read_settings(), sys.getswitchinterval()
    changed = []

    def run(x):
        if not changed:
            changed.append(change())
        return reference(x)

    with cudalens.virtual.device("h100"):
        stream = torch.cuda.current_stream()
        try:
            found = cudalens.benchmark(reference, run, randn(32, 64, device="cuda"), **QUICK)
        finally:
            restore_settings(before)
            sys.setswitchinterval(interval)
            torch.cuda.set_stream(stream)
    assert "changed settings" in names(found)
    assert read_settings() == before


def test_an_argument_that_does_not_vary_is_stated():
    weight = torch.randn(64, 64)
    found = cudalens.benchmark(torch.matmul, torch.mm, lambda: (torch.randn(8, 64), weight), **QUICK)
    assert found.is_accepted
    assert "1 of 2 tensors have the same contents in each set" in found.conditions["inputs"]


def test_a_copy_to_the_host_that_is_not_waited_for():
    def copied(x):
        host = torch.empty(x.shape[0], pin_memory=True)
        return host.copy_(x.sum(1), non_blocking=True)

    def waited(x):
        host = copied(x)
        torch.cuda.current_stream().synchronize()
        return host

    with cudalens.virtual.device("h100"):
        inputs = randn(1024, 1024, device="cuda")
        found = cudalens.benchmark(lambda x: x.sum(1).cpu(), copied, inputs, **QUICK)
        assert names(found) == ["unfinished copy"]
        assert cudalens.benchmark(lambda x: x.sum(1).cpu(), waited, inputs, **QUICK).is_accepted
        assert cudalens.benchmark(copied, lambda x: x.sum(1).to("cpu", non_blocking=True), inputs, **QUICK).is_accepted


def test_parameters_that_no_longer_have_gradients():
    net = torch.nn.Linear(16, 16)

    def run(x):
        net.requires_grad_(False)
        return functional.linear(x, net.weight, net.bias)

    found = cudalens.benchmark(net, run, randn(8, 16), **QUICK)
    assert names(found) == ["changed reference"]
    assert "gradient" in found.headline()


def test_a_reference_that_draws_random_numbers():
    with pytest.raises(BenchmarkError, match="a returns other values when it is called again with the same arguments"):
        cudalens.benchmark(functional.dropout, lambda x: functional.dropout(x), randn(64, 64), **QUICK)
