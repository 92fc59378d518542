"""The kernels, compiled, against their references; bandwidth is the business of benchmarks/bench_kernels.py."""

import time

import pytest
import torch
from kernel_cases import cases

kernels = pytest.importorskip("cudalens.kernels")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(autouse=True)
def _triton_is_there():
    pytest.importorskip("triton", reason="Triton is not installed")


def test_compare_on_all_dtypes_and_layouts():
    for label, a, b in cases.pairs("cuda"):
        found, expected = kernels.compare(a, b, backend="triton"), kernels.compare(a, b, backend="reference")
        try:
            cases.assert_same_findings(found, expected)
        except AssertionError as error:
            raise AssertionError(f"{label}: {found!r} against {expected!r}") from error


def test_fingerprints_are_equal_on_cpu_and_gpu():
    for dtype in cases.DTYPES:
        for shape in cases.SHAPES:
            for label, view in cases.views(cases.filled(shape, dtype, "cpu", 5)):
                there = view.cuda()
                assert kernels.fingerprint(there) == kernels.fingerprint(view), (dtype, shape, label)


def test_poison_on_all_dtypes():
    for dtype in cases.DTYPES:
        block = kernels.poison(torch.zeros(5, 300, dtype=torch.uint8, device="cuda").to(dtype))
        assert kernels.check_poison(block) == kernels.check_poison(block.cpu())


def test_more_elements_than_31_bits_count():
    count = (1 << 31) + 4096
    a = torch.zeros(count, dtype=torch.int8, device="cuda")
    b = a.clone()
    b[-1] = 7
    found = kernels.compare(a, b)
    assert (found.num_different, found.first_different, found.max_abs_diff) == (1, (count - 1,), 7)
    assert kernels.fingerprint(a) != kernels.fingerprint(b)
    b[-1] = 0
    assert kernels.fingerprint(a) == kernels.fingerprint(b)


def test_a_held_stream_goes_on_when_released():
    side = torch.cuda.Stream()
    done = torch.cuda.Event()
    with kernels.hold(side, 10_000_000_000) as held:
        done.record(side)
        time.sleep(0.05)  # time on the GPU, for which the host has no condition to wait on
        assert not done.query()
        held.release()
        done.synchronize()
    assert done.query()


def test_a_held_stream_goes_on_by_itself():
    side = torch.cuda.Stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record(side)
    held = kernels.hold(side, 20_000_000)
    end.record(side)
    end.synchronize()
    assert not held.is_released
    assert begin.elapsed_time(end) >= 19.0


def test_ceilings_are_measured_once():
    found = kernels.ceilings()
    assert found.is_measured
    assert found.date is not None
    assert found is kernels.ceilings(0)
    assert found.copy_bytes_per_s > 1e11
    assert found.flops_per_s["float16"] > found.flops_per_s["float64"]
