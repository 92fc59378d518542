"""`compare`: the interpreted kernel compared with the reference, and the reference with plain arithmetic."""

import itertools
import math

import pytest
import torch
from budget import every, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import cases

import cudalens
from cudalens.errors import KernelError
from cudalens.kernels import begin_compare, compare, triton_kernels
from cudalens.kernels.values import merged_dims

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")


@pytest.mark.parametrize("dtype", cases.DTYPES, ids=str)
def test_kernel_and_reference_agree(dtype):
    step = every(1)  # all pairs, or every second one: those that the dtype before has not
    for label, a, b in itertools.islice(
        cases.pairs("cpu", dtypes=[dtype]), cases.DTYPES.index(dtype) % step, None, step
    ):
        found, expected = compare(a, b, backend="triton"), compare(a, b, backend="reference")
        try:
            cases.assert_same_findings(found, expected)
        except AssertionError as error:
            raise AssertionError(f"{label}: {found!r} against {expected!r}") from error


def test_several_programs_and_a_last_block_that_is_not_full():
    """More blocks than programs; differences in the first block, in the last full block and after it."""
    for dtype in (torch.int8, torch.bfloat16, torch.float32, torch.complex64):
        block = triton_kernels.block_of(dtype)
        a = cases.filled((5 * block + 3,), dtype, "cpu", 2)
        for places in ([], [0], [4 * block - 1], [5 * block + 2], [block + 7, 5 * block]):
            b = cases.with_changes(a, places)
            cases.assert_same_findings(compare(a, b, backend="triton"), compare(a, b, backend="reference"))


def test_offsets_beyond_32_bits_are_counted_in_64():
    a = torch.zeros(3, dtype=torch.int8).as_strided((3, 5), (1, 0))
    assert triton_kernels._constants(a, a, 2)["SHORT"]
    far = torch.zeros(1, dtype=torch.int8).expand(2**31)
    assert not triton_kernels._constants(far, far, 1)["SHORT"]


shapes = st.lists(st.integers(1, 9), max_size=4).map(tuple)


@settings(max_examples=examples(40))
@given(shapes, st.sampled_from(cases.DTYPES), st.data())
def test_kernel_and_reference_agree_on_any_strides(shape, dtype, data):
    big = tuple(2 * size + 1 for size in shape)
    order = data.draw(st.permutations(range(len(shape))))
    steps = data.draw(st.lists(st.sampled_from([1, 2]), min_size=len(shape), max_size=len(shape)))
    cut = tuple(slice(0, size * step, step) for size, step in zip(shape, steps, strict=True))
    a = cases.filled(big, dtype, "cpu", data.draw(st.integers(0, 99)))[cut].permute(order)
    b = cases.with_changes(a.contiguous(), data.draw(st.lists(st.integers(0, 999), max_size=3)))
    cases.assert_same_findings(compare(a, b, backend="triton"), compare(a, b, backend="reference"))


@given(st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=40))
def test_reference_does_what_plain_arithmetic_does(values):
    a, b = (torch.tensor(side, dtype=torch.float64) for side in zip(*values, strict=True))
    found = compare(a, b)
    differs = [not (x == y or (math.isnan(x) and math.isnan(y))) for x, y in values]
    numbers = [(x, y) for x, y in values if x != y and not math.isnan(x) and not math.isnan(y)]
    assert found.num_different == sum(differs)
    assert found.first_different == (None if not any(differs) else (differs.index(True),))
    assert found.num_nan_mismatches == sum(math.isnan(x) != math.isnan(y) for x, y in values)
    assert found.max_abs_diff == max((abs(x - y) for x, y in numbers), default=0.0)
    relative = [1.0 if math.inf in (abs(x), abs(y)) else abs(x - y) / max(abs(x), abs(y)) for x, y in numbers]
    assert found.max_rel_diff == max(relative, default=0.0)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=9))
def test_integers_are_exact(values):
    a, b = (torch.tensor(side, dtype=torch.int64) for side in zip(*values, strict=True))
    for backend in ("reference", "triton"):
        assert compare(a, b, backend=backend).max_abs_diff == max(abs(x - y) for x, y in values)


def test_largest_unsigned_difference():
    a = torch.tensor([0, 2**64 - 1], dtype=torch.uint64)
    b = torch.tensor([2**64 - 1, 2**64 - 1], dtype=torch.uint64)
    assert compare(a, b).max_abs_diff == compare(a, b, backend="triton").max_abs_diff == 2**64 - 1


@pytest.mark.parametrize("backend", ["reference", "triton"])
def test_a_pending_comparison_uses_the_values_at_its_start(backend):
    a = torch.arange(12.0).reshape(3, 4).t()
    b = a.clone()
    b[2, 1] = 9.5
    pending = begin_compare(b, a, backend=backend)
    expected = compare(b, a)
    a.zero_()
    b.zero_()
    assert pending.result() == expected
    assert expected.first_values == (9.5, 6.0)
    assert begin_compare(a[:0], a[:0]).result().is_equal


def test_words_state_how_many_where_and_what():
    a = torch.full((256, 256), 1.7)
    b = a.clone()
    b[3, 17] = 0.0
    b[5, 0] = math.nan
    found = compare(b, a)
    assert str(found).startswith("2 of 65,536 elements differ, first at [3, 17]: 0.0 instead of 1.7")
    assert "1 NaN on one side only" in str(found)
    assert str(compare(a, a)) == "all 65,536 elements are equal"
    assert str(compare(torch.ones(()), torch.zeros(()))).startswith(
        "1 of 1 elements differ, first at []: 1.0 instead of 0.0"
    )
    with pytest.raises(TypeError, match="is_equal"):
        bool(found)


def test_zeros_and_nans_of_any_sign_are_equal():
    a = torch.tensor([0.0, math.nan, math.inf])
    b = torch.tensor([-0.0, -math.nan, math.inf])
    for backend in ("reference", "triton"):
        assert compare(a, b, backend=backend).is_equal


def test_conjugated_and_negated_views():
    a = torch.tensor([1 + 2j, 3 - 1j])
    assert compare(a.conj(), torch.tensor([1 - 2j, 3 + 1j])).is_equal
    assert compare(a.conj().imag, torch.tensor([-2.0, 1.0]), backend="triton").is_equal


def test_on_a_virtual_device():
    with cudalens.virtual.device("h100"):
        a = torch.arange(6.0, device="cuda").reshape(2, 3)
        b = a.clone()
        b[1, 2] = 0
        found = compare(a, b)
        assert (found.first_different, found.first_values) == ((1, 2), (5.0, 0.0))


def test_dimensions_that_are_walked_evenly_are_one():
    x = torch.zeros(4, 5, 6)
    assert merged_dims(x, x) == [(120, 1, 1)]
    assert merged_dims(x[:, :, ::2], x[:, :, :3]) == [(3, 2, 1), (20, 6, 6)]
    assert merged_dims(x[:1].expand(9, 5, 6), x[:1].expand(9, 5, 6)) == [(30, 1, 1), (9, 0, 0)]


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (torch.zeros(2), torch.zeros(3), r"shape \(2,\) and b \(3,\)"),
        (torch.zeros(2), torch.zeros(2).double(), "dtype torch.float32 and b torch.float64"),
        (torch.zeros(2), torch.zeros(2, device="meta"), "meta"),
        (torch.zeros(2).to_sparse(), torch.zeros(2), "sparse"),
        ([1.0], torch.zeros(1), "a is list"),
        (torch.zeros(2), None, "b is NoneType"),
    ],
)
def test_what_cannot_be_compared_is_refused(a, b, said):
    with pytest.raises(KernelError, match=said):
        compare(a, b)


def test_devices_have_to_be_the_same():
    with cudalens.virtual.device("h100"), pytest.raises(KernelError, match="device cuda:0 and b cpu"):
        compare(torch.zeros(2, device="cuda"), torch.zeros(2))


def test_a_backend_that_is_none():
    with pytest.raises(ValueError, match="expected one of 'auto', 'triton', 'reference'"):
        compare(torch.zeros(2), torch.zeros(2), backend="cuda")
