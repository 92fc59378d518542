"""torch.compile on a virtual device gives Inductor's kernels with their values, and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
import torch._dynamo
from torch.nn import functional
from torch.nn.attention import flex_attention

import cudalens
import cudalens.virtual
from cudalens import profile
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.compiled import probe

pytest.importorskip("triton", reason="torch.compile on a virtual device needs Triton")

pytestmark = pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")


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
    """The names of the kernels that a call launches, in their order."""
    with profile() as profiled:
        run()
    events = profiled.trace.events
    return [str(name) for name in events[events["cat"] == "kernel"]["name"]]


def scores(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (functional.gelu(x @ weight) * 2).softmax(-1)


def test_a_compiled_function_has_the_values_of_eager_code(h100):
    x, weight = torch.randn(8, 16, device="cuda"), torch.randn(16, 32, device="cuda")
    result = torch.compile(scores)(x, weight)
    assert result.device == torch.device("cuda", 0)
    torch.testing.assert_close(result, scores(x, weight))


def test_its_kernels_are_the_launches_of_the_generated_code(h100):
    x, weight = torch.randn(8, 16, device="cuda"), torch.randn(16, 32, device="cuda")
    compiled = torch.compile(scores)
    compiled(x, weight)
    names = kernels(lambda: compiled(x, weight))
    assert names[0] == "extern_kernels.mm"
    assert len(names) == 2
    assert names[1].startswith("triton_per_fused_")
    assert "gelu" in names[1]


def test_a_backward_pass_has_the_gradients_of_eager_code(h100):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    model.cuda()
    x, labels = torch.randn(6, 8, device="cuda"), torch.tensor([0, 1, 2, 0, 1, 2], device="cuda")

    def loss_of(x: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(x), labels)

    loss_of(x).backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    torch.compile(loss_of)(x).backward()
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], expected)


def test_one_compilation_serves_all_sizes_of_a_dynamic_function(h100):
    compiled = torch.compile(lambda x: x.sin().sum(-1).cumsum(0), dynamic=True, fullgraph=True)
    for rows in (3, 100, 1000):
        x = torch.randn(rows, rows + 1, device="cuda")
        expected = x.sin().sum(-1).cumsum(0)
        torch.testing.assert_close(compiled(x), expected, rtol=1e-4, atol=1e-3)  # sums in another order


def test_a_function_on_the_host_and_on_the_device_has_code_for_each(h100):
    compiled = torch.compile(lambda x: x.sin() + 1, backend="aot_eager")
    x = torch.randn(5, device="cuda")
    assert compiled(x).is_cuda
    assert not compiled(x.cpu()).is_cuda
    assert compiled(x).is_cuda
    torch.testing.assert_close(compiled(x).cpu(), compiled(x.cpu()))


def test_code_for_the_device_does_not_run_after_it():
    compiled = torch.compile(lambda x: x * 3, backend="eager")
    host = torch.ones(2)
    before = compiled(host)
    with cudalens.virtual.device("h100"):
        assert compiled(host.cuda()).is_cuda
    after = compiled(host)
    assert not after.is_cuda
    assert torch.equal(before, after)


def test_a_compiled_backward_pass_after_the_end_of_the_device_is_an_error():
    with cudalens.virtual.device("h100"):
        weight = torch.ones(4, device="cuda", requires_grad=True)
        loss = torch.compile(lambda w: w.sin().sum())(weight)
        loss.backward(retain_graph=True)
    with pytest.raises(VirtualDeviceError, match="after the device had ended"):
        loss.backward()


def test_without_values_a_large_function_has_shapes_and_memory():
    with cudalens.virtual.device("h100", values=False):
        x = torch.randn(1 << 14, 1 << 14, device="cuda", requires_grad=True)
        compiled = torch.compile(lambda x: (x * 2).softmax(-1).sum())
        compiled(x).backward()
        assert x.grad.shape == x.shape
        names = kernels(lambda: compiled(x))
        assert torch.cuda.max_memory_allocated() >= 2 * x.nbytes
    assert all(name.startswith("triton_") for name in names)


def test_the_same_random_numbers_make_the_mask_of_a_dropout_and_its_gradient(h100):
    x = torch.ones(1000, device="cuda", requires_grad=True)
    result = torch.compile(lambda x: functional.dropout(x, 0.5))(x)
    result.sum().backward()
    assert set(result.tolist()) == {0.0, 2.0}
    assert torch.equal(x.grad, result.detach())
    assert 400 < int((result > 0).sum()) < 600


def test_autocast_applies_inside_of_a_compiled_function(h100):
    layer = torch.nn.Linear(8, 8, device="cuda")
    x = torch.randn(4, 8, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        result, expected = torch.compile(lambda x: layer(x).relu())(x), layer(x).relu()
    assert result.dtype is torch.bfloat16
    torch.testing.assert_close(result, expected, rtol=0.03, atol=0.01)  # Inductor adds the bias before it rounds


def test_a_captured_graph_computes_the_generated_kernels_again(h100):
    compiled = torch.compile(lambda x: (x.sin() * 2).sum(-1))
    x = torch.randn(4, 8, device="cuda")
    compiled(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = compiled(x)
    x.fill_(1)
    graph.replay()
    torch.testing.assert_close(result, (x.sin() * 2).sum(-1))


def test_the_graph_trees_of_torch_record_and_replay(h100):
    layer = torch.nn.Linear(8, 16, device="cuda")
    compiled = torch.compile(lambda x: layer(x).relu(), mode="reduce-overhead")
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        x = torch.randn(6, 8, device="cuda")
        result = compiled(x)
        torch.testing.assert_close(result, layer(x).relu())
        result.sum().backward()
        gradient = layer.weight.grad.clone()
        layer.zero_grad()
        layer(x).relu().sum().backward()
        torch.testing.assert_close(gradient, layer.weight.grad)
        layer.zero_grad()
    trees = cudalens.graphs.inspect().graphs
    assert {"inference", "forward", "backward"} & set(trees["mode"].dropna())
    assert list(trees["kind"]).count("recording") >= 2


def test_the_result_of_an_earlier_step_of_a_tree_is_an_error(h100):
    compiled = torch.compile(lambda x: x * 2, mode="reduce-overhead")
    results = []
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        results.append(compiled(torch.randn(4, device="cuda")))
    with pytest.raises(RuntimeError, match="overwritten by a subsequent run"):
        results[0].sum().item()


def test_options_that_measure_are_left_out_with_a_warning(h100):
    x = torch.ones(8, 8, device="cuda")
    compiled = torch.compile(lambda x: (x @ x).relu(), mode="max-autotune-no-cudagraphs")
    with pytest.warns(UserWarning, match="ignores .*max_autotune.*cannot measure"):
        result = compiled(x)
    torch.testing.assert_close(result, x @ x)


def test_a_graph_break_runs_between_two_graphs(h100):
    def clipped(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum().item() > 0:
            return y.relu()
        return y.sin()

    compiled = torch.compile(clipped)
    for sign in (1, -1):
        x = sign * torch.ones(3, device="cuda")
        torch.testing.assert_close(compiled(x), clipped(x))


def test_caches_of_the_program_are_not_used(h100, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch.compile(lambda x: x.cos() * 5)(torch.ones(3, device="cuda"))
    assert list(tmp_path.iterdir()) == []
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path)


def test_a_missing_interface_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setitem(probe._NEEDED, "torch._dynamo.guards", ("GuardBuilder.NOT_THERE",))
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with cudalens.virtual.device("h100"):  # noqa: SIM117
        with pytest.raises(VirtualDeviceError, match=r"GuardBuilder\.NOT_THERE is missing"):
            compiled(torch.ones(2, device="cuda"))


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_the_step_of_an_optimizer_has_the_parameters_of_eager_code(h100, kind):
    def trained(compile_step: bool) -> list[torch.Tensor]:
        torch.manual_seed(1)
        model = torch.nn.Linear(4, 3, device="cuda")
        optimizer = kind(model.parameters(), lr=0.1)
        step = torch.compile(optimizer.step) if compile_step else optimizer.step
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4, device="cuda")).square().sum().backward()
            step()
        return list(model.parameters())

    torch.testing.assert_close(trained(True), trained(False))


@pytest.mark.parametrize(("dtype", "kernel"), [(torch.bfloat16, "flash"), (torch.float32, "efficient")])
def test_attention_is_one_fused_kernel_in_each_direction_with_the_gradients_of_eager_code(h100, dtype, kernel):
    features, num_heads = (12, 2) if kernel == "flash" else (16, 4)  # flash attention: padded, with fewer heads of keys
    query = torch.randn(2, 4, 24, features, device="cuda", dtype=dtype, requires_grad=True)
    key, value = (
        torch.randn(2, num_heads, 24, features, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2)
    )
    mask = None if kernel == "flash" else torch.ones(24, 24, device="cuda", dtype=torch.bool).tril()

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        attended = functional.scaled_dot_product_attention(
            query, key, value, mask, is_causal=mask is None, enable_gqa=mask is None
        )
        return attended.sin().sum()

    attend(query, key, value).backward()
    expected = [tensor.grad.clone() for tensor in (query, key, value)]
    for tensor in (query, key, value):
        tensor.grad = None
    names = kernels(lambda: torch.compile(attend)(query, key, value).backward())
    calls = [name for name in names if name.startswith("simulated::_scaled_dot_product")]
    begin = f"simulated::_scaled_dot_product_{kernel}_attention"
    assert [name.partition("<")[0] for name in calls] == [begin, f"{begin}_backward"]
    assert not any(name.startswith("extern_kernels") for name in names)
    close = {"rtol": 0.02, "atol": 0.02} if kernel == "flash" else {}
    torch.testing.assert_close([tensor.grad for tensor in (query, key, value)], expected, **close)


@pytest.mark.parametrize("shape", [(5, 16), (2, 5, 16), (2, 3, 5, 10)])  # without a fused kernel
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_attention_by_the_plain_formula_leaves_out_masked_keys(h100, shape, backend):
    query, key, value = (torch.randn(shape, device="cuda", requires_grad=True) for _ in range(3))
    mask = torch.ones(5, 5, device="cuda", dtype=torch.bool).tril()
    mask[1] = False  # no key is allowed

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(query, key, value, mask)

    def results(function) -> list[torch.Tensor]:
        attended = function(query, key, value)
        return [attended, *torch.autograd.grad(attended.sin().sum(), (query, key, value))]

    torch.testing.assert_close(results(torch.compile(attend, backend=backend)), results(attend))


def test_a_constant_of_the_program_is_on_the_device(h100):
    def padded(x: torch.Tensor) -> torch.Tensor:
        nothing = torch.tensor([], dtype=x.dtype, device=x.device)
        return torch.cat([nothing, x * torch.tensor(2.0, device=x.device), torch.tensor([1.0, 3.0], device="cuda")])

    result = torch.compile(padded)(torch.ones(3, device="cuda"))
    assert result.is_cuda
    assert result.tolist() == [2, 2, 2, 1, 3]


def test_convolutions_have_the_layout_that_the_generated_code_expects(h100):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3)).cuda()
    x = torch.randn(2, 3, 9, 9, device="cuda")
    expected = model(x)
    torch.testing.assert_close(torch.compile(model)(x), expected, rtol=1e-4, atol=1e-5)
    last = torch.compile(model)(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(last, expected, rtol=1e-4, atol=1e-5)


def test_the_kernels_that_convert_a_convolution_are_named_as_its_parts(h100):
    model, x = torch.nn.Conv2d(3, 8, 3).cuda(), torch.randn(2, 3, 9, 9, device="cuda")
    compiled = torch.compile(model)
    compiled(x)
    *converted, convolution, back, bias = kernels(lambda: compiled(x))
    assert converted == ["extern_kernels.convolution::to_channels_last"] * 2
    assert convolution == "extern_kernels.convolution"
    assert back == "extern_kernels.convolution::from_channels_last"
    assert bias.startswith("triton_poi_fused_convolution")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_generated_kernels_round_to_the_nearest_number(h100, dtype):
    host = torch.cat([torch.linspace(-3, 3, 1001), torch.tensor([0.0, -0.0, 1e-5, 1.00390625, float("nan")])])
    result = torch.compile(lambda x: (x + 0).to(dtype))(host.cuda())
    torch.testing.assert_close(result.float().cpu(), host.to(dtype).float(), rtol=0, atol=0, equal_nan=True)


def test_an_atomic_addition_of_one_number_to_many_addresses_counts(h100):
    x, index = torch.zeros(4, 6, device="cuda"), torch.tensor([[0, 0, 5]] * 4, device="cuda")
    values = torch.randn(4, 3, device="cuda", requires_grad=True)

    def mean(values: torch.Tensor) -> torch.Tensor:  # its gradient counts the values of each element
        return x.scatter_reduce(1, index, values, "mean")

    mean(values).square().sum().backward()
    expected, values.grad = values.grad.clone(), None
    torch.compile(mean)(values).square().sum().backward()
    torch.testing.assert_close(values.grad, expected)


def test_the_arctangent_which_inductor_writes_in_assembly_has_its_values(h100):
    x = torch.randn(100, device="cuda") * 5
    torch.testing.assert_close(torch.compile(torch.atan)(x), torch.atan(x))


def test_the_functions_of_the_graph_trees_are_there_before_the_first_compilation(h100):
    import torch._inductor.cudagraph_trees

    assert hasattr(torch._C, "_construct_CUDA_Tensor_From_Storage_And_Metadata")


def test_flex_attention_has_the_gradients_of_the_plain_formula(h100):
    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        key, value = key.repeat_interleave(2, 1), value.repeat_interleave(2, 1)
        distance = torch.arange(140, device="cuda")[:, None] - torch.arange(140, device="cuda")
        scores = query @ key.mT / 4 - 0.1 * distance
        return scores.masked_fill((distance < 0) | (distance >= 40), -float("inf")).softmax(-1) @ value

    blocks = flex_attention.create_block_mask(
        lambda batch, head, row, column: (row >= column) & (row - column < 40), 1, 1, 140, 140, device="cuda"
    )

    def attend_by_blocks(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        def score(value, batch, head, row, column):
            return value - 0.1 * (row - column)

        return flex_attention.flex_attention(query, key, value, score, blocks, enable_gqa=True)

    query, key, value = (torch.randn(1, heads, 140, 16, device="cuda", requires_grad=True) for heads in (2, 1, 1))

    def results(function) -> list[torch.Tensor]:
        attended = function(query, key, value)
        return [attended, *torch.autograd.grad(attended.sin().sum(), (query, key, value))]

    compiled = torch.compile(attend_by_blocks)
    torch.testing.assert_close(results(compiled), results(attend), rtol=1e-4, atol=1e-5)
    assert any(
        name.startswith("triton_tem_fused_flex_attention") for name in kernels(lambda: compiled(query, key, value))
    )


def test_a_copy_to_the_host_and_back_is_compiled(h100):
    x = torch.randn(4, 6, device="cuda")
    for move in (lambda t: t.cuda(), lambda t: t.cuda(0), lambda t: t.to("cuda:0"), lambda t: t.to(device=0)):
        result = torch.compile(lambda x, move=move: move(x.cpu() * 2).sin(), fullgraph=True)(x)
        assert result.device == torch.device("cuda", 0)
        torch.testing.assert_close(result, (x * 2).sin())


def test_a_short_time_fourier_transform_is_compiled(h100):
    x = torch.randn(2, 100, device="cuda")

    def round_trip(x: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(16, device=x.device)
        spectrum = torch.stft(x, 16, 8, window=window, return_complex=True)
        return torch.istft(spectrum * 2, 16, 8, window=window)

    torch.testing.assert_close(torch.compile(round_trip)(x), round_trip(x), rtol=1e-4, atol=1e-5)


def test_a_view_in_place_is_compiled(h100):
    x = torch.randn(4, 6, device="cuda")
    result = torch.compile(lambda x: x.clone().as_strided_((3, 2), (2, 1), 1).sin())(x)
    torch.testing.assert_close(result, x.flatten()[1:7].view(3, 2).sin())


def test_a_list_of_numbers_is_a_constant_on_the_device(h100):
    image = torch.randn(1, 1, 6, 6, device="cuda")

    def blur(image: torch.Tensor) -> torch.Tensor:
        weight = torch.tensor([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]], device=image.device)
        return functional.conv2d(functional.pad(image, (1, 1, 1, 1), mode="reflect"), weight[None, None])

    torch.testing.assert_close(torch.compile(blur)(image), blur(image), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(4, 6), (2, 5, 3)])
def test_matrices_that_an_operator_of_the_cpu_lays_out_are_read_as_such(h100, shape):
    def rebuild(x: torch.Tensor) -> torch.Tensor:
        left, values, right = torch.linalg.svd(x, full_matrices=False)
        return (left * values[..., None, :]) @ right + 1

    x = torch.randn(shape, device="cuda")
    torch.testing.assert_close(torch.compile(rebuild)(x), x + 1, rtol=1e-4, atol=1e-5)
    places = torch.compile(lambda x: torch.nonzero_static(x > 0, size=5) * 2)(x)
    assert torch.equal(places, torch.nonzero_static(x > 0, size=5) * 2)


def test_code_that_asks_for_function_modes_is_compiled(h100):
    def move(module, x):  # the arguments of Module.to, as PyTorch Lightning reads them
        device, dtype = torch._C._nn._parse_to("cuda", torch.float64)[:2]
        with torch._C.DisableTorchFunctionSubclass():
            return x.to(device, dtype) + module.weight.sum()

    module, x = torch.nn.Linear(2, 2, device="cuda"), torch.arange(3.0)
    torch.testing.assert_close(torch.compile(move)(module, x), move(module, x))


def test_a_function_that_makes_a_sparse_tensor_is_refused_with_the_reason(h100):
    x = torch.eye(3, device="cuda")
    with pytest.raises(Exception, match="cannot trace operators that make a sparse tensor"):
        torch.compile(lambda x: x.to_sparse().to_dense() * 2)(x)
    embedding = torch.nn.Embedding(4, 2, sparse=True, device="cuda")
    with pytest.raises(Exception, match="cannot trace operators that make a sparse tensor"):
        torch.compile(lambda words: embedding(words).sum())(torch.tensor([1, 2], device="cuda")).backward()
    assert torch.compile(lambda x: x * 2)(x)[0, 0] == 2


def test_the_place_of_the_largest_number_is_the_first_nan(h100):
    x = torch.randn(4, 300)
    x[1, 7] = x[2, 20] = x[2, 250] = float("nan")
    reductions = torch.compile(lambda x: (x.argmax(1), x.argmin(1), *x.max(1), *x.min(0)))
    for result, expected in zip(reductions(x.cuda()), (x.argmax(1), x.argmin(1), *x.max(1), *x.min(0)), strict=True):
        torch.testing.assert_close(result.cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("index", [4, -5])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, index: x[index] + 1,
        lambda x, index: x.gather(0, index),
        lambda x, index: torch.nn.functional.embedding(index, x.view(4, 1)),
        lambda x, index: torch.zeros_like(x).index_put((index,), x[:1]),
        lambda x, index: torch.zeros_like(x).index_put((index,), x[:1], accumulate=True),
        lambda x, index: torch.zeros_like(x).scatter(0, index, x[:1]),
    ],
)
def test_an_index_outside_of_a_tensor_is_an_error(h100, function, index):
    """The kernel would read or write other memory of the process."""
    compiled = torch.compile(function)
    x = torch.arange(4.0, device="cuda")
    with pytest.raises(RuntimeError, match=r"device-side assert triggered in the kernel triton_.*index out of bounds"):
        compiled(x, torch.tensor([index], device="cuda"))
    inside = torch.tensor([3], device="cuda")
    assert torch.equal(compiled(x, inside), function(x, inside))


def test_optimizers_that_are_compiled_one_after_the_other_have_the_parameters_of_eager_code(h100):
    def trained(kind, options, compile_step):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3, device="cuda")
        optimizer = kind(model.parameters(), **options)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        step = torch.compile(optimizer.step) if compile_step else optimizer.step
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4, device="cuda")).square().mean().backward()
            step()
            schedule.step()
        return [parameter.detach() for parameter in model.parameters()]

    for kind, options in ((torch.optim.Adagrad, {"lr": 0.1}), (torch.optim.AdamW, {"lr": 0.01, "fused": True})):
        torch._dynamo.reset()
        for result, expected in zip(trained(kind, options, True), trained(kind, options, False), strict=True):
            torch.testing.assert_close(result, expected)


def test_tritons_own_interpreter_runs_kernels_after_compiled_code():
    import triton
    import triton.language as tl

    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("TRITON_INTERPRET is not 1")

    def total(x, out, size: tl.constexpr):
        tl.store(out, tl.sum(tl.load(x + tl.arange(0, size)), 0))

    with cudalens.virtual.device("h100"):
        torch.compile(lambda x: x.sum(-1))(torch.ones(4, 300, device="cuda"))
    out = torch.zeros(())
    triton.runtime.interpreter.InterpretedFunction(total)[(1,)](torch.arange(8.0), out, 8)
    assert out.item() == 28
