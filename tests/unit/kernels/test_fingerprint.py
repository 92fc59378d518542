"""`fingerprint`: equal for equal bits on every backend, and different for different bits."""

import pytest
import torch
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import cases

import cudalens
from cudalens.errors import KernelError
from cudalens.kernels import begin_fingerprint, fingerprint
from cudalens.kernels.fingerprint import run_reference
from cudalens.kernels.values import FIRST, PLACE, SECOND, SEED, THIRD

MASK = (1 << 64) - 1


def slow_sums(data):
    """The definition, word by word, with Python integers."""
    first_sum = second_sum = 0
    for i in range(0, len(data), 8):
        word = int.from_bytes(data[i : i + 8].ljust(8, b"\0"), "little")
        h = (word ^ (i // 8 * PLACE + SEED)) * FIRST & MASK
        h = (h ^ h >> 32) * SECOND & MASK
        first_sum += h
        second_sum += (h ^ h >> 29) * THIRD
    return [first_sum & MASK, second_sum & MASK]


def sums(run, data):
    from cudalens.kernels.fingerprint import split_words

    raw = torch.tensor(list(data), dtype=torch.uint8)
    return [value & MASK for value in run(*split_words(raw)).tolist()]


@settings(max_examples=examples(40))
@given(st.binary(min_size=1, max_size=200))
def test_reference_and_kernel_follow_the_definition(data):
    from cudalens.kernels import triton_kernels

    expected = slow_sums(data)
    assert sums(run_reference, data) == expected
    assert sums(triton_kernels.run_fingerprint, data) == expected


def test_large_ones_too():
    from cudalens.kernels import triton_kernels

    data = bytes(cases.filled((40_003,), torch.uint8, "cpu", 3).tolist())

    assert sums(triton_kernels.run_fingerprint, data) == sums(run_reference, data) == slow_sums(data)


@pytest.mark.parametrize("dtype", cases.DTYPES, ids=str)
def test_kernel_and_reference_agree_for_all_layouts(dtype):
    for shape in cases.SHAPES:
        for label, view in cases.views(cases.filled(shape, dtype, "cpu", 5)):
            found = fingerprint(view, backend="triton"), fingerprint(view.contiguous(), backend="reference")
            assert found[0] == found[1], label


@given(st.binary(min_size=1, max_size=64), st.data())
def test_one_changed_bit_changes_it(data, draw):
    bit = draw.draw(st.integers(0, 8 * len(data) - 1))
    other = bytearray(data)
    other[bit // 8] ^= 1 << bit % 8
    a, b = (torch.tensor(list(one), dtype=torch.uint8) for one in (data, other))
    assert fingerprint(a) != fingerprint(b)


def test_place_shape_dtype_order_and_number_count():
    x = torch.arange(1.0, 9.0)
    different = [
        [x],
        [x.flip(0)],
        [x.reshape(2, 4)],
        [x.view(torch.int32)],
        [x, x],
        [x[:4], x[4:]],
        [x[4:], x[:4]],
        [torch.cat([x, x.new_zeros(1)])],
        [],
        [x.new_zeros(0)],
        [x.new_zeros(8)],
        [-x.new_zeros(8)],
    ]
    assert len({fingerprint(tensors) for tensors in different}) == len(different)


def test_pinned_down():
    """The value is the same in every run and on every device, so it is a constant here."""
    assert str(fingerprint([torch.arange(10, dtype=torch.int32), torch.ones(3)])) == PINNED


PINNED = "d6ce3c309f2cfe116a3cb16ae3f7dca4"


def test_not_waiting_gives_the_same():
    x = torch.randn(100)
    pending = begin_fingerprint([x, x + 1])
    assert pending.result() == fingerprint([x, x + 1]) == pending.result()


def test_a_virtual_copy_has_the_same():
    x = torch.randn(333)
    with cudalens.virtual.device("h100"):
        assert fingerprint([x.cuda(), x]) == fingerprint([x, x])


@pytest.mark.parametrize("bad", [torch.zeros(2).to_sparse(), torch.zeros(2, device="meta"), 3])
def test_what_has_no_memory_is_refused(bad):
    with pytest.raises(KernelError, match="number 1"):
        fingerprint([torch.zeros(1), bad])


@pytest.mark.parametrize(
    "strided",
    [torch.arange(4.0)[::4], torch.arange(8, dtype=torch.int16)[1:2:3], torch.arange(9.0).reshape(3, 3)[1:2, ::3]],
)
def test_a_tensor_of_one_element_with_any_stride(strided):
    assert strided.numel() == 1
    assert fingerprint(strided) == fingerprint(strided.clone(memory_format=torch.contiguous_format))


def test_the_bytes_of_bool_are_hashed_as_they_are():
    """A copy, which tensors that are not contiguous need, would make each true element 1."""
    data = torch.tensor([3, 0, 1, 0, 3, 1], dtype=torch.uint8)
    whole, strided = data[::2].contiguous().view(torch.bool), data.view(torch.bool)[::2]
    assert fingerprint(strided) == fingerprint(whole)
