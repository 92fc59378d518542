"""Reads of poisoned memory are detected; a stream is held for a limited time."""

import gc

import pytest
import torch
from kernel_cases import cases

import cudalens
from cudalens.errors import KernelError
from cudalens.kernels import check_poison, hold, poison

BACKENDS = ["reference", "triton"]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", cases.DTYPES, ids=str)
def test_every_element_is_found_again(dtype, backend):
    block = poison(torch.zeros(5, 300, dtype=torch.uint8).to(dtype), backend=backend)
    report = check_poison(block, backend=backend)
    assert (report.num_poisoned, report.first) == (1500, (0, 0))
    if dtype in (*cases.FLOATS, *cases.COMPLEX):
        assert report.num_nan == 1500


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_written_since_is_clean(backend):
    block = poison(torch.empty(4, 8), backend=backend)
    block[:, :7] = 1.0
    block[2, 3] = float("nan")
    report = check_poison(block, backend=backend)
    assert (report.num_poisoned, report.num_nan, report.first) == (4, 5, (0, 7))
    assert str(report) == "4 of 32 elements are poisoned memory, 1 more are NaN; first at [0, 7]"
    block.zero_()
    assert check_poison(block, backend=backend).is_clean


def test_what_is_computed_from_it_is_nan():
    report = check_poison(poison(torch.empty(8)) * 2 + 1)
    assert report.num_nan == 8


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_between_the_elements_stays(backend):
    whole = torch.zeros(6, 6)
    poison(whole[::2, 1::2], backend=backend)
    assert int(whole.isnan().sum()) == 9
    assert not whole[1::2].isnan().any()


def test_random_bits_hold_the_pattern_as_the_reference_states():
    for dtype in cases.DTYPES:
        values = cases.filled((3, 700), dtype, "cpu", 1)
        assert check_poison(values, backend="triton") == check_poison(values, backend="reference")


@pytest.mark.parametrize("use", [poison, check_poison])
@pytest.mark.parametrize("bad", [3, torch.zeros(2, device="meta"), torch.zeros(2).to_sparse()])
def test_no_plain_memory(use, bad):
    with pytest.raises(KernelError):
        use(bad)


def test_broadcast_blocks_are_refused():
    with pytest.raises(KernelError, match="broadcast"):
        poison(torch.zeros(1).expand(4))


def test_a_held_stream_is_busy_for_its_time():
    with cudalens.virtual.device("h100"):
        side = torch.cuda.Stream()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(side)
        with hold(side, 3_000_000) as held:
            end.record(side)
        assert held.is_released
        torch.cuda.synchronize()
        assert start.elapsed_time(end) == pytest.approx(3.0, rel=0.05)


def test_the_kernel_ends_at_a_raised_flag_and_at_its_limit():
    from cudalens.kernels import triton_kernels

    assert int(triton_kernels.run_hold(torch.ones(1, dtype=torch.int32), 10_000)) == 0
    assert int(triton_kernels.run_hold(torch.zeros(1, dtype=torch.int32), 10_000)) == 20


@pytest.mark.parametrize(
    ("nanoseconds", "said"),
    [
        (None, "no bound"),
        (0, "from 1 to"),
        (-1, "from 1 to"),
        (10**12, "from 1 to"),
        (1.5, "whole number"),
        (True, "whole"),
    ],
)
def test_a_hold_without_a_bound_is_refused(nanoseconds, said):
    with cudalens.virtual.device("h100"), pytest.raises(KernelError, match=said):
        hold(torch.cuda.Stream(), nanoseconds)


def test_no_stream():
    with pytest.raises(KernelError, match=r"expected a torch\.cuda\.Stream"):
        hold("side", 1000)


def test_released_once_dropped():
    from cudalens.kernels.hold import Hold

    flag = torch.zeros(1, dtype=torch.int32)
    held = Hold(None, 1000, flag)
    assert not held.is_released
    del held
    gc.collect()
    assert int(flag) == 1


def test_released_on_an_interrupt():
    from cudalens.kernels.hold import Hold

    flag = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(KeyboardInterrupt), Hold(None, 1000, flag):
        raise KeyboardInterrupt
    assert int(flag) == 1


def test_poisoned_bool_is_found_in_tensors_that_are_not_contiguous():
    block = poison(torch.empty(6, 4, dtype=torch.bool))
    assert check_poison(block[:, ::2]).num_poisoned == 12
    assert check_poison(block.t()).first == (0, 0)
