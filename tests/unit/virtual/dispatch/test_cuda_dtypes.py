"""Dtypes that an operator does not have on a GPU, or on the CPU whose operators a virtual device runs."""

from __future__ import annotations

import pytest
import torch
from operator_calls import operators, samples_of
from torch.nn import functional

import cudalens.virtual
from cudalens.errors import UnsupportedOperatorError, VirtualDeviceError

#: Dtypes for which torch's database does not depend on the GPU's generation.
DTYPES = (torch.uint8, torch.int8, torch.int32, torch.int64)
#: Composites of several operators, of which a sample may call none that lacks the dtype.
COMPOSITES = frozenset(
    {"einsum", "inner", "linalg.multi_dot", "nn.functional.bilinear", "nn.functional.local_response_norm", "tensordot"}
)


def lacking():
    """Operators and dtypes that torch's database lists for the CPU and not for CUDA."""
    for name, op in operators().items():
        for dtype in DTYPES:
            if dtype in op.dtypes and dtype not in op.dtypesIfCUDA and name not in COMPOSITES:
                yield name, dtype


@pytest.fixture
def device():
    with cudalens.virtual.device("h100") as device:
        yield device


def on_device(value):
    if isinstance(value, torch.Tensor):
        return value.cuda()
    return type(value)(map(on_device, value)) if type(value) in (list, tuple) else value


def test_torchs_database_names_products_and_convolutions_of_integers():
    assert {("mm", torch.int64), ("nn.functional.conv2d", torch.int64), ("addmv", torch.int8)} <= set(lacking())


@pytest.mark.parametrize(("name", "dtype"), list(lacking()), ids=str)
def test_an_operator_lacks_the_dtypes_that_it_lacks_on_a_gpu(device, name, dtype):
    op = operators()[name]
    samples = [sample for sample in samples_of(name, dtype) if sample.input.numel()][:3]
    assert samples
    for sample in samples:
        kwargs = {key: on_device(value) for key, value in sample.kwargs.items()}
        with pytest.raises(NotImplementedError, match=r"not implemented for '(Byte|Char|Int|Long)' on a GPU"):
            op.op(on_device(sample.input), *on_device(sample.args), **kwargs)


CALLS = {
    "half": (lambda: torch.linalg.svd(torch.eye(3, device="cuda").half()), r"'Half' .*\.float\(\)"),
    "float32": (lambda: torch.ones(3, device="cuda").bitwise_not(), "'Float' .*another dtype"),
    "complex": (lambda: torch.ones(3, device="cuda", dtype=torch.complex64).max(), "'ComplexFloat' .*another dtype"),
    "integers": (lambda: functional.gelu(torch.ones(3, device="cuda", dtype=torch.int32)), "'Int' .*another dtype"),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_operator_that_the_cpu_lacks_raises_the_error_that_torch_raises(device, name):
    call, match = CALLS[name]
    with pytest.raises(UnsupportedOperatorError, match=match) as caught:
        call()
    assert isinstance(caught.value, NotImplementedError)
    assert isinstance(caught.value, VirtualDeviceError)


def test_a_program_that_falls_back_to_the_cpu_does_so(device):
    x = torch.eye(3, device="cuda").half()
    try:
        values = torch.linalg.eigvalsh(x)
    except NotImplementedError:
        values = torch.linalg.eigvalsh(x.cpu().float()).cuda()
    assert values.tolist() == [1.0, 1.0, 1.0]


def test_products_of_integers_have_no_shape_without_values():
    with cudalens.virtual.device("h100", values=False):
        x = torch.ones(3, 3, device="cuda", dtype=torch.int64)
        with pytest.raises(NotImplementedError, match="'Long' on a GPU"):
            x @ x
        assert (x.float() @ x.float()).shape == (3, 3)


SIZE = 1 << 20


def made_kernels(call):
    """The kernels of a call, and the most memory that it took besides its result."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with cudalens.profile(keep=False) as run:
        result = call()
    kernels = run.trace.events.query("cat == 'kernel'")
    return (
        [name.removeprefix("simulated::") for name in kernels["name"].astype(str)],
        torch.cuda.max_memory_allocated() - before - max(result.nbytes, 512),
    )


REDUCTIONS = {
    "a mask": (lambda x: x.bool(), torch.sum, ["_to_copy<bool>", "sum<int64_t>"], 8),
    "a mask along a dimension": (lambda x: x.bool(), lambda x: x.sum(0), ["_to_copy<bool>", "sum<int64_t>"], 8),
    "int32": (lambda x: x.int(), torch.sum, ["_to_copy<int32_t>", "sum<int64_t>"], 8),
    "int64": (lambda x: x.long(), torch.sum, ["sum<int64_t>"], 0),
    "half to half": (lambda x: x.half(), torch.sum, ["sum<__half>"], 0),
    "half to float": (lambda x: x.half(), lambda x: x.sum(dtype=torch.float32), ["sum<__half>"], 0),
    "float to double": (lambda x: x, lambda x: x.mean(dtype=torch.float64), ["_to_copy<float>", "mean<double>"], 8),
    "a scan of half": (
        lambda x: x.half(),
        lambda x: x.cumsum(0, dtype=torch.float32),
        ["_to_copy<__half>", "cumsum<float>"],
        4,
    ),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_reads_a_copy_in_the_dtype_of_its_result(device, name):
    prepare, reduce, kernels, num_bytes = REDUCTIONS[name]
    x = prepare(torch.ones(1024, SIZE // 1024, device="cuda"))
    assert made_kernels(lambda: reduce(x)) == (kernels, num_bytes * SIZE)


def test_the_copy_of_a_reduction_takes_the_time_of_its_bytes(device):
    times = {}
    for dtype in (torch.bool, torch.int64):
        x = torch.ones(64 * SIZE, device="cuda", dtype=dtype)
        with cudalens.profile(keep=False) as run:
            x.sum()
        times[dtype] = run.trace.events.query("cat == 'kernel'")["dur"].tolist()
    copy, of_copy = times[torch.bool]
    assert times[torch.int64] == [of_copy]
    assert 0.8 < copy / of_copy < 1.4  # it moves 9 bytes an element, the sum 8
