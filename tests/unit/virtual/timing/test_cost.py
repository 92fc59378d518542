"""The cost of operators: operations and bytes against counts by hand and torch's counter, times against the model."""

import functools
import itertools
from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

import cudalens
from cudalens.gpus.predict import pointwise_share
from cudalens.gpus.registry import SPECS
from cudalens.virtual.timing import fallback_durations
from cudalens.virtual.timing import flops as flops_module
from cudalens.virtual.timing.cost import Cost, copy_ns, kernel_ns, kernel_work, memset_ns, op_cost
from cudalens.virtual.timing.fallback_durations import (
    COPY_FIXED_NS,
    ELEMENTS_PER_CLOCK,
    MATRIX_FIXED_NS,
    MATRIX_SHARE,
    MEMORY_SHARE,
    OTHER_FIXED_NS,
    OTHER_MEMORY_SHARE,
    STRIDED_FIXED_NS,
)
from cudalens.virtual.timing.flops import formula_of
from cudalens.virtual.timing.several_kernels import name_of
from cudalens.virtual.timing.traffic import distinct_and_span, traffic

aten = torch.ops.aten
H100, T4 = SPECS["h100"], SPECS["t4"]


def cost(func, *args, **kwargs):
    """The cost of one call."""
    return op_cost(func, args, kwargs, func(*args, **kwargs))


def moved(func, *args, **kwargs):
    """Bytes of one call."""
    return cost(func, *args, **kwargs).num_bytes


class Calls(TorchDispatchMode):
    """Every operator that ran, with its arguments and result."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, out))
        return out


# -- operations ------------------------------------------------------------------------------------------------------


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 9), st.integers(1, 4))
def test_products_count_two_operations_for_each_multiply_add(m, k, n, batch):
    a, b, c = torch.ones(m, k), torch.ones(k, n), torch.ones(n)
    assert cost(aten.mm.default, a, b).flops == 2 * m * k * n
    assert cost(aten.addmm.default, c, a, b).flops == 2 * m * k * n
    assert cost(aten.addmm_.default, torch.ones(m, n), a, b).flops == 2 * m * k * n
    assert cost(aten.mv.default, a, torch.ones(k)).flops == 2 * m * k
    assert cost(aten.addmv.default, torch.ones(m), a, torch.ones(k)).flops == 2 * m * k
    assert cost(aten.dot.default, torch.ones(k), torch.ones(k)).flops == 2 * k
    a, b = a.expand(batch, m, k), b.expand(batch, k, n)
    assert cost(aten.bmm.default, a, b).flops == 2 * batch * m * k * n
    assert cost(aten.baddbmm.default, torch.ones(batch, m, n), a, b).flops == 2 * batch * m * k * n
    assert cost(aten.addbmm.default, torch.ones(m, n), a, b).flops == 2 * batch * m * k * n
    assert cost(aten.linear.default, a, torch.ones(n, k)).flops == 2 * batch * m * k * n
    assert cost(aten.matmul.default, a, b).flops == 2 * batch * m * k * n


@pytest.mark.parametrize(
    ("func", "shapes"),
    [
        (aten.mm.default, [(3, 5), (5, 7)]),
        (aten.bmm.default, [(2, 3, 5), (2, 5, 7)]),
        (aten.addmm.default, [(7,), (3, 5), (5, 7)]),
        (aten.baddbmm.default, [(2, 3, 7), (2, 3, 5), (2, 5, 7)]),
    ],
)
def test_own_formulas_equal_torchs(func, shapes):
    args = [torch.ones(shape) for shape in shapes]
    assert cost(func, *args).flops == flop_registry[func._overloadpacket](*args, out_val=func(*args))


def test_own_formulas_of_attention_equal_torchs():
    q, k, v = torch.ones(2, 6, 5, 8), torch.ones(2, 6, 7, 8), torch.ones(2, 6, 7, 4)
    out, grad = torch.ones(2, 6, 5, 4), torch.ones(2, 6, 5, 4)
    for name in ("flash", "efficient", "cudnn"):
        forward = getattr(aten, f"_scaled_dot_product_{name}_attention")
        backward = getattr(aten, f"_scaled_dot_product_{name}_attention_backward")
        assert formula_of(forward.default)((q, k, v), {}, out) == flop_registry[forward](q, k, v, out_val=out)
        found = formula_of(backward.default)((grad, q, k, v), {}, (q, k, v))
        assert found == flop_registry[backward](grad, q, k, v, out_val=(q, k, v))


def test_convolution_by_hand():
    x, w, bias = torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3), torch.ones(4)
    args = (x, w, bias, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    found = cost(aten.convolution.default, *args)
    assert found.flops == 2 * (2 * 4 * 8 * 8) * (3 * 3 * 3)
    assert found.num_bytes == 4 * (x.numel() + w.numel() + 4 + 2 * 4 * 8 * 8)


def test_convolution_backward_counts_both_gradients():
    x, w, grad = torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3), torch.ones(2, 4, 8, 8)
    rest = ([4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    forward = 2 * (2 * 4 * 8 * 8) * (3 * 3 * 3)
    assert cost(aten.convolution_backward.default, grad, x, w, *rest, [True, True, False]).flops == 2 * forward
    assert cost(aten.convolution_backward.default, grad, x, w, *rest, [False, True, False]).flops == forward


def attention(batch=2, heads=3, queries=16, keys=32, dim=8, **options):
    shape = (batch, heads, queries, dim), (batch, heads, keys, dim), (batch, heads, keys, dim)
    q, k, v = (torch.randn(s, requires_grad=True) for s in shape)
    with Calls() as seen:
        torch.nn.functional.scaled_dot_product_attention(q, k, v, **options).sum().backward()
    return {
        func._schema.name.removeprefix("aten::"): op_cost(func, args, kw, out) for func, args, kw, out in seen.calls
    }


def test_attention_of_the_cpu_counts_as_the_gpus():
    found = attention()
    product = 2 * 2 * 3 * 16 * 32 * 8
    assert found["_scaled_dot_product_flash_attention_for_cpu"].flops == 2 * product
    assert found["_scaled_dot_product_flash_attention_for_cpu_backward"].flops == 5 * product


def test_attention_with_fewer_heads_for_keys_counts_every_query_head():
    q, kv = torch.randn(2, 4, 16, 8), torch.randn(2, 2, 16, 8)
    with Calls() as seen:
        torch.nn.functional.scaled_dot_product_attention(q, kv, kv, enable_gqa=True)
    total = sum(op_cost(*call).flops for call in seen.calls if formula_of(call[0]) is not None)
    assert total == 2 * (2 * 2 * 4 * 16 * 16 * 8)


def test_an_operator_without_a_formula_counts_its_elements():
    x = torch.ones(3, 5)
    assert cost(aten.gelu.default, x).flops == 15
    assert cost(aten.sum.default, x).flops == 15
    assert cost(aten.add.Tensor, x, torch.ones(4, 1, 1)).flops == 60
    assert cost(aten._foreach_add.Scalar, [x, torch.ones(7)], 1.0).flops == 22


def test_a_complex_product_is_four_real_ones():
    a = torch.ones(3, 5, dtype=torch.complex64)
    assert cost(aten.mm.default, a, a.t()) == Cost(4 * 2 * 3 * 5 * 3, 8 * (15 + 15 + 9), "float32")


def test_a_sparse_product_counts_what_is_stored():
    sparse = torch.eye(8).to_sparse()
    assert cost(aten.mm.default, sparse, torch.ones(8, 4)).flops == 2 * 8 * 4
    assert moved(aten.mm.default, sparse, torch.ones(8, 4)) == 8 * 4 + 2 * 8 * 8 + 4 * (32 + 32)


def step():
    """A training step of a small network with most kinds of product in it."""
    torch.manual_seed(0)
    convolve = torch.nn.Conv2d(3, 8, 3, padding=1)
    encode = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    features = convolve(torch.randn(2, 3, 4, 4)).flatten(2).transpose(1, 2)
    encode(features).square().mean().backward()


def test_a_training_step_counts_what_torchs_counter_counts():
    with FlopCounterMode(display=False) as counter:
        step()
    with Calls() as seen:
        step()
    counted = sum(op_cost(*call).flops for call in seen.calls if formula_of(call[0]) is not None)
    on_cpu = [c for c in seen.calls if "_for_cpu" in c[0]._schema.name]
    assert on_cpu
    counts_them = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu in flop_registry  # from torch 2.15 on
    left_out = 0 if counts_them else sum(op_cost(*call).flops for call in on_cpu)
    assert counted - left_out == counter.get_total_flops() > 0


def test_every_operator_of_a_training_step_becomes_the_same_kernel_each_time():
    def works():
        with Calls() as seen:
            step()
        return [kernel_work(H100, *call) for call in seen.calls]

    first, second = works(), works()
    assert first == second
    for work in first:
        assert type(work.duration_ns) is type(work.flops) is type(work.num_bytes) is int
        assert work.duration_ns >= H100.kernel_fixed_ns
        assert 0 < work.room <= 1


# -- bytes -----------------------------------------------------------------------------------------------------------


def test_an_operand_given_twice_is_read_once():
    x = torch.ones(10)
    assert moved(aten.mul.Tensor, x, x) == 4 * (10 + 10)
    assert moved(aten.mul.Tensor, x, x.clone()) == 4 * (20 + 10)


def test_in_place_reads_and_writes():
    x, y = torch.ones(10), torch.ones(10)
    assert moved(aten.add_.Tensor, x, y) == 4 * 30
    assert moved(aten.relu_.default, x) == 4 * 20
    assert moved(aten._foreach_mul_.Scalar, [x, torch.ones(5)], 2.0) == 4 * 30
    assert moved(aten._foreach_add_.List, [x, torch.ones(5)], [y, torch.ones(5)]) == 4 * 45


def test_adding_a_sparse_tensor_reads_and_writes_its_rows():
    table = torch.zeros(1000, 16)
    gradient = torch.sparse_coo_tensor(torch.tensor([[3, 500, 3]]), torch.ones(3, 16), (1000, 16))
    rows = 3 * 16 * 4
    assert moved(torch.ops.aten.add_.Tensor, table, gradient) == 2 * rows + rows + 3 * 8


def test_what_is_only_written_is_not_read():
    x, y = torch.ones(10), torch.ones(10)
    assert moved(aten.fill_.Scalar, x, 1.0) == 4 * 10
    assert moved(aten.zero_.default, x) == 4 * 10
    assert moved(aten.normal_.default, x) == 4 * 10
    assert moved(aten.copy_.default, x, y) == 4 * 20
    assert moved(aten.add.out, x, y, out=torch.ones(10)) == 4 * 30
    assert moved(aten.zeros_like.default, x) == 4 * 10
    assert moved(aten.new_full.default, x, [5], 1.0) == 4 * 5
    assert moved(aten.arange.default, 10) == 8 * 10


def test_a_row_that_is_repeated_is_read_once():
    row = torch.ones(10).expand(6, 10)
    assert moved(aten.clone.default, row) == 4 * (10 + 60)
    assert moved(aten.add.Tensor, row, torch.ones(6, 10)) == 4 * (10 + 60 + 60)
    windows = torch.ones(12).unfold(0, 4, 1)
    assert moved(aten.sum.default, windows) == 4 * (12 + 1)


def test_gathers_read_what_they_pick():
    table, index = torch.ones(1000, 8), torch.tensor([1, 2, 3])
    assert moved(aten.index_select.default, table, 0, index) == 4 * 24 + 3 * 8 + 4 * 24
    assert moved(aten.embedding.default, table, index) == 4 * 24 + 3 * 8 + 4 * 24
    assert moved(aten.index.Tensor, table, [index]) == 4 * 24 + 3 * 8 + 4 * 24
    assert moved(aten.gather.default, table, 1, index.view(3, 1)) == 4 * 3 + 3 * 8 + 4 * 3
    many = torch.zeros(5000, dtype=torch.long)
    assert moved(aten.embedding.default, torch.ones(10, 8), many) == 4 * 80 + 5000 * 8 + 4 * 40000


def test_embedding_bag_reads_a_row_for_each_index():
    offsets = torch.tensor([0, 2])
    out = aten._embedding_bag.default(torch.ones(1000, 8), torch.tensor([1, 2, 3]), offsets)
    found = op_cost(aten._embedding_bag.default, (torch.ones(1000, 8), torch.tensor([1, 2, 3]), offsets), {}, out)
    assert found.num_bytes == 4 * 24 + 3 * 8 + 2 * 8 + sum(part.nbytes for part in out)


def test_scatters_read_and_write_what_they_touch():
    table, index, rows = torch.zeros(1000, 8), torch.tensor([1, 2, 3]), torch.ones(3, 8)
    assert moved(aten.index_add_.default, table, 0, index, rows) == 2 * 4 * 24 + 3 * 8 + 4 * 24
    assert moved(aten.index_copy_.default, table, 0, index, rows) == 2 * 4 * 24 + 3 * 8 + 4 * 24
    assert moved(aten.index_fill_.int_Scalar, table, 0, index, 1.0) == 2 * 4 * 24 + 3 * 8
    assert moved(aten.scatter_add_.default, table, 0, index.view(3, 1), rows[:, :1]) == 2 * 4 * 3 + 3 * 8 + 4 * 3
    assert moved(aten.index_put_.default, table, [index], torch.ones(())) == 2 * 4 * 24 + 3 * 8 + 4
    assert moved(aten.index_put_.default, table, [None, index], torch.ones(())) == 2 * 4 * 3000 + 3 * 8 + 4
    assert moved(aten.index_put_.default, table, [index, index], torch.ones(())) == 2 * 4 * 3 + 3 * 8 + 4
    assert moved(aten.index_put_.default, table, [table > 5], torch.ones(())) == 2 * 4 * 8000 + 8000 + 4


def test_the_loss_reads_one_element_for_each_target():
    scores, target = torch.zeros(32, 1000), torch.zeros(32, dtype=torch.long)
    assert moved(aten.nll_loss_forward.default, scores, target, None, 1, -100) == 4 * 32 + 8 * 32 + 4 + 4
    weight = torch.ones(())
    grad = aten.nll_loss_backward.default(weight, scores, target, None, 1, -100, weight)
    found = op_cost(aten.nll_loss_backward.default, (weight, scores, target, None, 1, -100, weight), {}, grad)
    assert found.num_bytes == 4 + 8 * 32 + 4 * 32000


def test_layer_norm_by_hand():
    x, w = torch.ones(6, 10), torch.ones(10)
    assert moved(aten.native_layer_norm.default, x, [10], w, torch.ones(10), 1e-5) == 4 * (60 + 10 + 10 + 60 + 6 + 6)


def test_batch_norm_reads_its_input_twice():
    x, c = torch.ones(2, 3, 4, 4), [torch.ones(3) for _ in range(4)]
    found = moved(aten.native_batch_norm.default, x, *c, True, 0.1, 1e-5)
    assert found == 4 * (2 * 96 + 4 * 3 + 96 + 2 * 3)


def test_lists_are_moved_whole():
    parts = [torch.ones(3, 4), torch.ones(5, 4)]
    assert moved(aten.cat.default, parts) == 2 * 4 * 32
    split = aten.split_with_sizes_copy.default(torch.ones(8), [3, 5])
    assert op_cost(aten.split_with_sizes_copy.default, (torch.ones(8), [3, 5]), {}, split).num_bytes == 2 * 4 * 8


def addresses(tensor):
    """The slow count: the address of each element."""
    steps = [[i * stride for i in range(size)] for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    return {sum(place) for place in itertools.product(*steps)}


def distinct_bytes(tensor):
    return min(distinct_and_span(tensor)) * tensor.element_size()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), max_size=4))
def test_distinct_bytes_is_between_the_true_count_and_the_whole(layout):
    sizes, strides = [size for size, _ in layout], [stride for _, stride in layout]
    tensor = torch.empty(200).as_strided(sizes, strides)
    true = len(addresses(tensor))
    assert 4 * true <= distinct_bytes(tensor) <= tensor.nbytes


@given(st.permutations([2, 3, 4]), st.permutations([0, 1, 2]), st.integers(1, 3), st.integers(1, 5))
def test_distinct_bytes_is_exact_for_views_that_torch_makes(sizes, order, step_, width):
    dense = torch.empty(sizes).permute(order)[:, ::step_].unsqueeze(1).expand(-1, 5, -1, -1)
    assert distinct_bytes(dense) == 4 * len(addresses(dense))
    windows = torch.empty(9).unfold(0, width, 1)
    assert distinct_bytes(windows) == 4 * len(addresses(windows))


# -- the unit that computes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "key"),
    [
        (torch.float64, "float64"),
        (torch.float32, "float32"),
        (torch.float16, "float16"),
        (torch.bfloat16, "bfloat16"),
        (torch.complex128, "float64"),
    ],
)
def test_the_unit_of_products_goes_by_their_dtype(dtype, key):
    a = torch.ones(4, 4, dtype=dtype)
    assert cost(aten.mm.default, a, a).dtype_key == key


def test_products_of_small_numbers_have_their_own_units():
    a = torch.ones(32, 32, dtype=torch.int8)
    assert cost(aten._int_mm.default, a, a).dtype_key == "int8"
    e, one, out = torch.empty(32, 32, dtype=torch.float8_e4m3fn), torch.ones(()), torch.empty(32, 32)
    assert op_cost(aten._scaled_mm.default, (e, e, one, one), {}, out) == Cost(2 * 32**3, 1024 + 4 + 4096, "float8")


def test_elementwise_work_has_no_tensor_cores():
    half, double = torch.ones(4, dtype=torch.float16), torch.ones(4, dtype=torch.float64)
    assert cost(aten.mul.Tensor, half, half).dtype_key == "float32"
    assert cost(aten.mul.Tensor, double, double).dtype_key == "float64"
    assert cost(aten.arange.default, 4).dtype_key == "float32"


@pytest.fixture
def precision():
    """The settings of TF32, restored afterwards."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


@pytest.mark.parametrize("older", [False, True])
def test_tf32_where_the_user_allows_it(precision, monkeypatch, older):
    if older:
        monkeypatch.setattr(flops_module, "_precision", None)
    a = torch.ones(4, 4)
    for name, key in [("high", "tf32"), ("highest", "float32"), ("medium", "tf32")]:
        torch.set_float32_matmul_precision(name)
        assert cost(aten.mm.default, a, a).dtype_key == key
        assert cost(aten.mm.default, a.half(), a.half()).dtype_key == "float16"
        assert cost(aten.relu.default, a).dtype_key == "float32"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = True
    assert cost(aten.mm.default, a, a).dtype_key == "tf32"


@pytest.mark.parametrize("older", [False, True])
def test_convolutions_have_a_setting_of_their_own(precision, monkeypatch, older):
    if older:
        monkeypatch.setattr(flops_module, "_precision", None)
    args = (torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    torch.backends.cudnn.allow_tf32 = True
    assert cost(aten.convolution.default, *args).dtype_key == "tf32"
    torch.backends.cudnn.allow_tf32 = False
    assert cost(aten.convolution.default, *args).dtype_key == "float32"


# -- times -----------------------------------------------------------------------------------------------------------


def test_a_kernel_lasts_as_long_as_the_slower_of_arithmetic_and_memory():
    second = 10**9
    assert kernel_ns(H100, 0, 0) == H100.kernel_fixed_ns
    num_bytes = int(H100.memory_bandwidth_gbps * 1e9 * pointwise_share(H100))
    assert kernel_ns(H100, 0, num_bytes) == pytest.approx(second, rel=1e-5)
    flops = int(H100.peak_tflops["bfloat16"] * 1e12 * MATRIX_SHARE)
    assert kernel_ns(H100, flops, 0, "bfloat16", "matrix") == pytest.approx(second, rel=1e-5)
    assert kernel_ns(H100, flops, 1000, "bfloat16", "matrix") == kernel_ns(H100, flops, 0, "bfloat16", "matrix")
    assert kernel_ns(H100, 0, 0, family="matrix") == H100.kernel_fixed_ns + MATRIX_FIXED_NS


amounts = st.integers(0, 10**13)
specs = st.sampled_from(sorted(SPECS.values(), key=lambda spec: spec.key))


@given(specs, amounts, amounts, amounts, st.sampled_from(["dense", "strided", "other", "matrix", "attention"]))
def test_more_work_never_lasts_less(spec, flops, num_bytes, more, family):
    base = kernel_ns(spec, flops, num_bytes, "float16", family)
    assert type(base) is int
    assert base == kernel_ns(spec, flops, num_bytes, "float16", family)
    assert kernel_ns(spec, flops + more, num_bytes, "float16", family) >= base
    assert kernel_ns(spec, flops, num_bytes + more, "float16", family) >= base


@given(specs, st.integers(0, 10**15))
def test_a_faster_unit_is_never_slower(spec, flops):
    keys = ["float64", "float32", "tf32", "float16"]
    times = [kernel_ns(spec, flops, 0, key, "matrix") for key in keys]
    assert times == sorted(times, reverse=True)


def test_reading_out_of_order_takes_longer():
    x = torch.empty(1 << 15, 1 << 15, device="meta")  # far larger than the L2 cache
    with_gaps, crossed = torch.empty(1 << 15, 1 << 16, device="meta")[:, ::2], x.clone().t()
    times = []
    for other in (x.clone(), with_gaps, crossed):
        out = aten.add.Tensor(x, other)
        times.append(kernel_work(H100, aten.add.Tensor, (x, other), {}, out).duration_ns - H100.kernel_fixed_ns)
    straight, gaps, turned = times
    assert straight < gaps < turned
    clocks = H100.num_sms * H100.clock_mhz * 1e-3  # of all SMs in a nanosecond
    assert turned - STRIDED_FIXED_NS == pytest.approx(x.numel() / clocks / ELEMENTS_PER_CLOCK["permuted"], rel=1e-3)


def test_heads_that_change_places_are_not_a_transposed_copy():
    x = torch.empty(8, 16, 1024, 64, device="meta", dtype=torch.bfloat16)
    swapped = aten.clone.default(x.transpose(1, 2), memory_format=torch.contiguous_format)
    heads = kernel_work(H100, aten.clone.default, (x.transpose(1, 2),), {}, swapped)
    turned = aten.clone.default(x.transpose(2, 3), memory_format=torch.contiguous_format)
    crossed = kernel_work(H100, aten.clone.default, (x.transpose(2, 3),), {}, turned)
    assert heads.duration_ns < crossed.duration_ns / 2


def test_filling_is_pointwise_work():
    x = torch.ones(4096, 4096)
    calls = [(aten.zeros_like.default, (x,)), (aten.fill_.Scalar, (x, 1.0)), (aten.ones.default, ([4096, 4096],))]
    for func, args in calls:
        work = kernel_work(H100, func, args, {}, func(*args))
        assert work.duration_ns == kernel_ns(H100, 0, x.nbytes)


def test_reductions_are_slower_than_pointwise_work_of_the_same_bytes():
    x = torch.ones(4096, 4096)
    work = kernel_work(H100, aten.sum.default, (x,), {}, x.sum())
    memory_ns = (x.nbytes + 4) / (H100.memory_bandwidth_gbps * OTHER_MEMORY_SHARE)
    assert work.duration_ns == int(memory_ns) + H100.kernel_fixed_ns + OTHER_FIXED_NS


@pytest.mark.parametrize(
    ("func", "args", "strided"),
    [
        (aten.relu.default, (torch.ones(2, 3, 4, 5),), False),
        (aten.relu.default, (torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),), False),
        (aten.add.Tensor, (torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.ones(2, 3, 4, 5)), True),
        (aten.add.Tensor, (torch.ones(4, 5), torch.ones(5)), True),
        (aten.add.Tensor, (torch.ones(4, 5), torch.ones(())), False),
        (aten.add.Tensor, (torch.ones(4, 5), 1.0), False),
        (aten.relu.default, (torch.ones(4, 10)[:, ::2],), True),
        (aten.clone.default, (torch.ones(4, 5).t(),), False),
        (aten.copy_.default, (torch.ones(5, 4), torch.ones(4, 5).t()), True),
        (aten.add.Tensor, (torch.ones(3, 4, 5).permute(2, 0, 1), torch.ones(4, 5, 3).permute(1, 2, 0)), True),
        (aten.sum.dim_IntList, (torch.ones(4, 5), [0]), False),
    ],
)
def test_which_layouts_count_as_out_of_order(func, args, strided):
    assert traffic(func, args, {}, func(*args)).is_strided is strided


@given(specs, st.integers(0, 10**11), st.sampled_from(["HtoD", "DtoH", "DtoD", "PtoP"]))
def test_copies_take_their_bytes_over_the_rate(spec, num_bytes, way):
    pinned, pageable = copy_ns(spec, num_bytes, way, True), copy_ns(spec, num_bytes, way, False)
    assert type(pinned) is int
    assert copy_ns(spec, 0, way) == COPY_FIXED_NS <= pinned <= pageable
    assert pinned == pageable or way in ("HtoD", "DtoH")


def test_copies_by_hand():
    assert copy_ns(H100, 55_600_000_000, "HtoD", True) == 10**9 + COPY_FIXED_NS
    assert copy_ns(H100, 12_000_000_000, "HtoD", False) == 10**9 + COPY_FIXED_NS
    assert copy_ns(H100, 376_000_000_000, "PtoP") == 10**9 + COPY_FIXED_NS
    assert copy_ns(H100, 11_000_000_000, "DtoH", False) == 10**9 + COPY_FIXED_NS
    assert copy_ns(T4, 12_700_000_000, "DtoH", True) == 10**9 + COPY_FIXED_NS
    assert copy_ns(H100, 10**9, "DtoD") == int(2 * 10**9 / (3352 * MEMORY_SHARE)) + COPY_FIXED_NS  # read and written
    through_host = copy_ns(SPECS["rtx4090"], 10**9, "PtoP")
    both = [copy_ns(SPECS["rtx4090"], 10**9, way) - COPY_FIXED_NS for way in ("DtoH", "HtoD")]
    assert through_host == pytest.approx(sum(both) + COPY_FIXED_NS, abs=2)


@given(specs, st.integers(0, 10**10), st.integers(0, 10**10))
def test_memsets_take_their_bytes_over_the_bandwidth(spec, num_bytes, more):
    assert COPY_FIXED_NS <= memset_ns(spec, num_bytes) <= memset_ns(spec, num_bytes + more)
    assert memset_ns(spec, num_bytes) <= copy_ns(spec, num_bytes, "DtoD")


# -- room ------------------------------------------------------------------------------------------------------------


def room(spec, num_elements):
    return fallback_durations.room(spec, fallback_durations.grid_of(num_elements)[0])


@given(specs, st.integers(0, 10**9), st.integers(0, 10**9))
def test_room_grows_to_the_whole_device(spec, num_elements, more):
    assert 0 < room(spec, num_elements) <= room(spec, num_elements + more) <= 1
    assert room(spec, num_elements) >= 128 / spec.max_resident_threads


def test_small_kernels_fit_beside_each_other_and_large_ones_do_not():
    assert room(H100, 100_000) < 0.5
    assert room(H100, 10_000_000) == 1
    assert room(T4, 100_000) > room(H100, 100_000)
    assert room(H100, 4 * H100.max_resident_threads) == 1
    assert room(H100, 2 * H100.max_resident_threads) == pytest.approx(0.5)


def test_a_product_fills_one_sm_for_each_tile():
    def product(*shapes):
        args = [torch.empty(shape, device="meta") for shape in shapes]
        func = {2: aten.mm.default, 3: aten.bmm.default}[len(shapes[0])]
        return kernel_work(H100, func, args, {}, func(*args))

    assert product((128, 64), (64, 128)).room == 1 / 132
    assert product((129, 64), (64, 128)).grid == (2, 1, 1)
    assert product((5, 128, 64), (5, 64, 256)).grid == (10, 1, 1)
    assert product((4096, 64), (64, 4096)).room == 1


def test_the_kernel_of_an_elementwise_operator():
    x = torch.ones(1000)
    work = kernel_work(H100, aten.add.Tensor, (x, x), {}, x + x)
    assert (work.kind, work.name, work.op) == ("kernel", "simulated::add<float>", "aten::add")
    assert (work.grid, work.block) == ((2, 1, 1), (128, 1, 1))
    assert work.num_bytes == 8000
    assert work.room == 2 * 128 / H100.max_resident_threads
    assert prod(work.grid) * prod(work.block) * 4 >= 1000


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("func", "dtype", "name"),
    [
        (aten.addmm.default, torch.float32, "simulated::addmm<float>"),
        (aten._softmax.default, torch.bfloat16, "simulated::_softmax<__nv_bfloat16>"),
        (aten.add_.Tensor, torch.int64, "simulated::add_<int64_t>"),
        (aten.mm.default, torch.float8_e4m3fn, "simulated::mm<float8_e4m3fn>"),
        (aten.empty.memory_format, None, "simulated::empty"),
        (torch.ops.quantized.add.default, None, "simulated::quantized::add"),
    ],
)
def test_names_state_that_they_are_simulated_and_of_what(func, dtype, name):
    assert name_of(func, dtype) == name


@pytest.mark.parametrize(("gpu", "has_float8"), [("v100", False), ("t4", False), ("a100", False), ("l4", True)])
def test_products_of_float8_run_only_on_gpus_that_have_them(gpu, has_float8):
    with cudalens.virtual.device(gpu, values=False):
        a = torch.empty(32, 32, device="cuda", dtype=torch.float8_e4m3fn)
        scale = torch.ones((), device="cuda")
        run = functools.partial(torch._scaled_mm, a, a.t(), scale, scale, out_dtype=torch.bfloat16)
        if has_float8:
            assert run().shape == (32, 32)
        else:
            with pytest.raises(RuntimeError, match="only supported on CUDA devices with compute capability"):
                run()


def test_a_kernel_has_the_name_of_a_gpu_and_the_family_of_its_operator():
    with cudalens.virtual.device("h100"), cudalens.profile() as run:
        q = torch.ones(1, 2, 64, 64, device="cuda")
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
        torch.nn.functional.interpolate(q, scale_factor=2, mode="bilinear")
    names = run.trace.events.loc[run.trace.events["cat"] == "kernel", "name"].astype(str)
    assert not names.str.contains("cpu|mkldnn").any()
    args = (torch.ones(1, 2, 8, 8), [16, 16], False)
    out = aten.upsample_bilinear2d.default(*args)
    assert kernel_work(H100, aten.upsample_bilinear2d.default, args, {}, out).family == "image"


def test_a_recurrent_layer_has_kernels_for_each_step():
    with cudalens.virtual.device("v100"), cudalens.profile() as run:
        torch.nn.LSTM(16, 32).cuda()(torch.ones(7, 2, 16, device="cuda"))
    events = run.trace.events
    kernels = events[events["cat"] == "kernel"]
    assert kernels["name"].str.contains("_cudnn_rnn::state").sum() == 7
    assert kernels["name"].str.contains("_cudnn_rnn::input").sum() == 1
