"""Triton kernels of the program run on a virtual device, launched by themselves and in compiled functions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch._dynamo

import cudalens
import cudalens.virtual
from cudalens import profile
from cudalens.errors import VirtualDeviceError

triton = pytest.importorskip("triton", reason="needs Triton")
import triton.language as tl  # noqa: E402
from triton.language.extra import libdevice  # noqa: E402

pytestmark = pytest.mark.skipif(triton.knobs.runtime.interpret, reason="kernels are interpreted from the beginning")


@pytest.fixture
def h100() -> Iterator[cudalens.virtual.device]:
    torch.manual_seed(0)
    with cudalens.virtual.device("h100") as entered:
        yield entered


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def kernels(run) -> list[str]:
    with profile() as profiled:
        run()
    events = profiled.trace.events
    return [str(name) for name in events[events["cat"] == "kernel"]["name"]]


@triton.jit
def scale(x):
    return x * 2


@triton.jit
def add_kernel(x, y, out, n, scaled: tl.constexpr, block: tl.constexpr):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    mask = offsets < n
    total = tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask)
    if scaled:
        total = scale(total)
    tl.store(out + offsets, total, mask=mask)


def add(x: torch.Tensor, y: torch.Tensor, *, scaled: bool = False) -> torch.Tensor:
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["block"]),)](x, y, out, x.numel(), scaled=scaled, block=64)
    return out


@triton.jit
def softmax_kernel(x, out, stride, columns, block: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, block)
    values = tl.load(x + row * stride + offsets, mask=offsets < columns, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + offsets, powers / tl.sum(powers, axis=0), mask=offsets < columns)


@triton.autotune(
    configs=[triton.Config({"rows": 16, "inner": 16}), triton.Config({"rows": 32, "inner": 32}, num_warps=8)],
    key=["n"],
)
@triton.heuristics({"is_even": lambda args: args["n"] % 16 == 0})
@triton.jit
def product_kernel(a, b, out, n, rows: tl.constexpr, inner: tl.constexpr, is_even: tl.constexpr):
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.program_id(1) * rows + tl.arange(0, rows)
    total = tl.zeros((rows, rows), dtype=tl.float32)
    for start in range(0, n, inner):
        k = start + tl.arange(0, inner)
        left = tl.load(a + i[:, None] * n + k[None, :], mask=(i[:, None] < n) & (k[None, :] < n), other=0.0)
        right = tl.load(b + k[:, None] * n + j[None, :], mask=(k[:, None] < n) & (j[None, :] < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(out + i[:, None] * n + j[None, :], total, mask=(i[:, None] < n) & (j[None, :] < n))


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out, n = torch.empty(a.shape, device=a.device), a.shape[0]
    product_kernel[lambda meta: (triton.cdiv(n, meta["rows"]), triton.cdiv(n, meta["rows"]))](a, b, out, n)
    return out


@triton.jit
def count_kernel(index, counts, n, block: tl.constexpr):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    found = tl.load(index + offsets, mask=offsets < n)
    tl.atomic_add(counts + found, 1, mask=offsets < n)


@triton.jit
def optional_kernel(x, bias, scale, stride, out, kind: tl.constexpr, n: tl.constexpr):
    values = tl.load(x + tl.arange(0, n) * stride) * scale
    if bias is not None:
        values += tl.load(bias + tl.arange(0, n))
    if kind == "negative":
        values = -values
    tl.store(out + tl.arange(0, n), values)


@triton.jit
def increment_kernel(x, step, bias):
    tl.store(x, tl.load(x) + step)
    if bias is None:
        tl.store(x + 1, 7.0)


@triton.jit
def exchange_kernel(stored, values, n: tl.constexpr):
    offsets = tl.arange(0, n)
    before = tl.atomic_xchg(stored + offsets, tl.load(values + offsets))
    tl.store(values + offsets, before)


@triton.jit
def dropout_kernel(x, out, n, p, seed, block: tl.constexpr):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    keep = tl.rand(seed, offsets) > p
    values = libdevice.tanh(tl.load(x + offsets, mask=offsets < n))
    tl.store(out + offsets, tl.where(keep, values / (1 - p), 0.0), mask=offsets < n)


def test_a_kernel_has_the_values_of_torch(h100):
    x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    assert torch.equal(add(x, y), x + y)
    assert torch.equal(add(x, y, scaled=True), (x + y) * 2)
    half = x.bfloat16()
    assert torch.equal(add(half, half), half + half)
    wide = torch.randn(5, 100, device="cuda").half()
    out = torch.empty_like(wide)
    softmax_kernel[(5,)](wide, out, wide.stride(0), 100, block=128)
    torch.testing.assert_close(out, wide.softmax(-1))


def test_a_launch_is_one_kernel_with_its_grid(h100):
    x = torch.ones(1000, device="cuda")
    with profile() as profiled:
        add(x, x)
    events = profiled.trace.events
    launched = events[events["cat"] == "kernel"]
    assert launched["name"].tolist() == ["simulated::triton::add_kernel"]
    assert launched["grid"].tolist() == ["[16,1,1]"]


@pytest.mark.parametrize("n", [32, 50])
def test_an_autotuned_kernel_takes_its_first_configuration(h100, n):
    a, b = torch.randn(n, n, device="cuda"), torch.randn(n, n, device="cuda")
    torch.testing.assert_close(product(a, b), a @ b)
    assert not product_kernel.cache
    assert product_kernel.best_config.kwargs["rows"] == 16


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("has_bias", [False, True])
def test_compiled_launches_with_constants_that_are_passed_and_left_out(h100, stride, has_bias):
    x, bias = torch.arange(8.0, device="cuda"), torch.full((4,), 100.0, device="cuda") if has_bias else None

    def run(x, bias):
        out = torch.empty_like(x[:4])
        optional_kernel[(1,)](x, bias, 0.5, stride, out, kind="negative", n=4)
        return out

    expected = -(x[: 4 * stride : stride] * 0.5 + (100 if has_bias else 0))
    assert torch.equal(run(x, bias), expected)
    assert torch.equal(torch.compile(run, fullgraph=True)(x, bias), expected)


def test_a_compiled_launch_without_declared_constants_has_none(h100):
    @torch.compile(fullgraph=True)
    def run(x):
        increment_kernel[(1,)](x, 1, None)
        return x

    assert run(torch.zeros(2, device="cuda")).tolist() == [1, 7]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_an_atomic_exchange_returns_the_old_values(h100, dtype):
    stored, values = torch.arange(4, device="cuda").to(dtype), torch.tensor([-5, 6, -7, 8], device="cuda").to(dtype)
    exchange_kernel[(1,)](stored, values, n=4)
    assert (stored.tolist(), values.tolist()) == ([-5, 6, -7, 8], [0, 1, 2, 3])


def test_atomics_random_numbers_and_functions_of_libdevice(h100):
    index, counts = torch.randint(5, (300,), device="cuda"), torch.zeros(5, dtype=torch.int64, device="cuda")
    count_kernel[(5,)](index, counts, 300, block=64)
    assert torch.equal(counts, index.bincount(minlength=5))
    x = torch.randn(1024, device="cuda")
    out, again = torch.empty_like(x), torch.empty_like(x)
    dropout_kernel[(4,)](x, out, 1024, 0.25, 7, block=256)
    dropout_kernel[(4,)](x, again, 1024, 0.25, 7, block=256)
    assert torch.equal(out, again)
    kept = out != 0
    torch.testing.assert_close(out[kept], x[kept].tanh() / 0.75)
    assert 0.7 < kept.float().mean().item() < 0.8


def test_a_kernel_within_a_function_uses_its_names(h100):
    factor = tl.constexpr(3)

    @triton.jit
    def thrice(x, out, block: tl.constexpr):
        offsets = tl.arange(0, block)
        tl.store(out + offsets, tl.load(x + offsets) * factor)

    x = torch.randn(16, device="cuda")
    out = torch.empty_like(x)
    thrice[(1,)](x, out, block=16)
    assert torch.equal(out, x * 3)


def test_an_access_outside_of_the_arguments_is_an_error(h100):
    x = torch.ones(100, device="cuda")
    with pytest.raises(VirtualDeviceError, match=r"Triton kernel add_kernel.*outside of the memory of its tensors"):
        add_kernel[(2,)](x, x, x, 1 << 30, scaled=False, block=64)


def test_tensors_of_the_host_and_unknown_arguments_are_errors_as_on_a_gpu(h100):
    x = torch.ones(64, device="cuda")
    with pytest.raises(ValueError, match=r"Pointer argument \(at 1\) cannot be accessed from Triton"):
        add_kernel[(1,)](x, x.cpu(), x, 64, scaled=False, block=64)
    with pytest.raises(KeyError, match="Keyword argument blocks was specified"):
        add_kernel[(1,)](x, x, x, 64, scaled=False, block=64, blocks=3)
    with pytest.raises(TypeError, match="missing a required argument: 'block'"):
        add_kernel[(1,)](x, x, x, 64, scaled=False)


def test_a_captured_graph_runs_the_kernel_on_new_values(h100):
    x, y = torch.ones(100, device="cuda"), torch.ones(100, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = add(x, y)
    x.fill_(5)
    graph.replay()
    assert torch.equal(out, torch.full_like(x, 6))


def test_a_race_with_a_kernel_names_its_argument(h100):
    x, out = torch.ones(64, device="cuda"), torch.empty(64, device="cuda")
    with cudalens.sanitize() as sanitizer:
        with torch.cuda.stream(torch.cuda.Stream()):
            add_kernel[(1,)](x, x, out, 64, scaled=False, block=64)
        out.sum()
        x.sum()
    (race,) = sanitizer.races
    assert [access.argument for access in (race.first, race.second)] == ["out", "self"]


def test_without_values_a_kernel_makes_its_results_unknown():
    with cudalens.virtual.device("h100", values=False):
        x = torch.ones(64, device="cuda")
        names = kernels(lambda: add(x, x))
    assert names == ["simulated::triton::add_kernel"]


def test_the_driver_reports_the_modelled_gpu(h100):
    active = triton.runtime.driver.active
    properties = active.utils.get_device_properties(0)
    assert active.get_active_torch_device() == torch.device("cuda", 0)
    assert active.get_current_target().arch == 90
    assert (properties["multiprocessor_count"], properties["warpSize"]) == (132, 32)


def test_compiled_functions_launch_the_kernels_of_the_program(h100):
    x, y = torch.randn(40, 40, device="cuda"), torch.randn(40, 40, device="cuda")

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return product(add(x.sin(), y, scaled=True), y).relu()

    compiled = torch.compile(run, fullgraph=True)
    torch.testing.assert_close(compiled(x, y), run(x, y))
    names = kernels(lambda: compiled(x, y))
    assert [name for name in names if not name.startswith("triton_poi")] == ["add_kernel", "product_kernel"]


def test_a_triton_operator_has_a_gradient_in_compiled_code(h100):
    @torch.library.triton_op("cudalens_test::doubled", mutates_args={})
    def doubled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(add_kernel)[(2,)](x, x, out, x.numel(), scaled=False, block=64)
        return out

    doubled.register_autograd(lambda ctx, grad: doubled(grad.contiguous()))
    x = torch.randn(100, device="cuda", requires_grad=True)
    assert torch.equal(doubled(x), x * 2)
    result = torch.compile(lambda x: doubled(x.sin()).sum(), fullgraph=True)(x)
    result.backward()
    torch.testing.assert_close(result, x.sin().sum() * 2)
    torch.testing.assert_close(x.grad, x.cos() * 2)


def test_an_operator_with_a_fake_kernel_runs_in_compiled_code(h100):
    @torch.library.custom_op("cudalens_test::add_sum", mutates_args={"total"})
    def add_sum(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total += x.sum()
        return x * 3

    add_sum.register_fake(lambda x, total: torch.empty_like(x))

    @torch.library.custom_op("cudalens_test::cubed", mutates_args=())
    def cubed(x: torch.Tensor) -> torch.Tensor:
        return x**3

    cubed.register_fake(torch.empty_like)
    cubed.register_autograd(
        lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    x, total = torch.randn(8, 4, device="cuda", requires_grad=True), torch.zeros((), device="cuda")
    result = torch.compile(lambda x: cubed(x.sin()).cos(), fullgraph=True)(x)
    result.sum().backward()
    torch.testing.assert_close(result, (x.sin() ** 3).cos())
    torch.testing.assert_close(x.grad, -(x.sin() ** 3).sin() * 3 * x.sin() ** 2 * x.cos())
    tripled = torch.compile(lambda x, total: add_sum(x + 1, total) - 3, fullgraph=True)(x.detach(), total)
    torch.testing.assert_close(tripled, x.detach() * 3)
    torch.testing.assert_close(total, (x + 1).sum())
