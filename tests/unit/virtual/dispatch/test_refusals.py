"""What a virtual device cannot do raises a helpful error; what has a CPU implementation works."""

from __future__ import annotations

import gc
import importlib
import io
import sys
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch
import torch.distributed
from torch.utils import _triton

import cudalens.virtual
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.patching import Patches, when_imported


@pytest.fixture
def device() -> Iterator[cudalens.virtual.device]:
    with cudalens.virtual.device("h100") as entered:
        yield entered


@pytest.fixture
def x(device: cudalens.virtual.device) -> torch.Tensor:
    return torch.ones(4, 4, device="cuda")


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    made = torch.library.Library("cudalens_refusals", "DEF")
    yield made
    made._destroy()


@pytest.fixture
def without_triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide Triton, also from what torch remembers of its presence."""
    importlib.import_module("torch._inductor.runtime.triton_compat")  # it would keep that there is none
    remembering = [function for function in vars(_triton).values() if hasattr(function, "cache_clear")]
    monkeypatch.setitem(sys.modules, "triton", None)
    for function in remembering:
        function.cache_clear()
    yield
    for function in remembering:
        function.cache_clear()


@pytest.mark.usefixtures("without_triton")
def test_a_compiled_function_needs_triton_or_runs_eagerly() -> None:
    compiled = torch.compile(lambda value: value * 2, backend="eager")
    with cudalens.virtual.device("h100"):
        value = torch.ones(2, device="cuda")
        with pytest.raises(VirtualDeviceError, match=r"pip install triton.*force_eager"):
            compiled(value)
        torch.compiler.set_stance("force_eager")
        try:
            assert compiled(value).tolist() == [2.0, 2.0]
        finally:
            torch.compiler.set_stance("default")


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl", None])
def test_nccl_is_refused(device: cudalens.virtual.device, backend: str | None) -> None:
    with pytest.raises(VirtualDeviceError, match=r"NCCL.*gloo"):
        torch.distributed.init_process_group(backend, rank=0, world_size=1)
    assert not torch.distributed.is_initialized()


def test_gloo_takes_tensors_of_the_device(x: torch.Tensor, tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/group")
    try:
        torch.distributed.all_reduce(x)
        with pytest.raises(VirtualDeviceError, match="NCCL"):
            torch.distributed.new_group([0], backend="nccl")
    finally:
        torch.distributed.destroy_process_group()
    assert x.is_cuda
    assert x.sum().item() == 16.0


def test_other_processes_get_no_tensor_of_the_device(x: torch.Tensor) -> None:
    with pytest.raises(VirtualDeviceError, match=r"another process.*\.cpu\(\)"):
        ForkingPickler(io.BytesIO()).dump(x)
    ForkingPickler(io.BytesIO()).dump(x.cpu())


@pytest.mark.parametrize(
    "hand_over",
    [lambda t: torch.utils.dlpack.to_dlpack(t), lambda t: t.__dlpack__(), lambda t: t.__cuda_array_interface__],
)
def test_other_libraries_get_no_pointer(x: torch.Tensor, hand_over: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(VirtualDeviceError, match=r"another library.*\.cpu\(\)"):
        hand_over(x)
    assert torch.utils.dlpack.to_dlpack(torch.ones(2)) is not None


DOORS: dict[str, Callable[[torch.Tensor], object]] = {
    "jiterator": lambda x: torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x; }")(x),
    "green_contexts": lambda x: __import__("torch.cuda.green_contexts").cuda.green_contexts.GreenContext.create(),
    "GPUDirect": lambda x: torch.cuda.gds.gds_register_buffer(x.untyped_storage()),
    "NCCL": lambda x: torch.cuda.nccl.all_reduce([x]),
    "TunableOp": lambda x: torch.cuda.tunable.enable(True),
}


@pytest.mark.parametrize("name", DOORS)
def test_doors_to_a_real_gpu_are_closed(x: torch.Tensor, name: str) -> None:
    if name == "green_contexts":
        pytest.importorskip("torch.cuda.green_contexts", reason="this torch has no green contexts")
    with pytest.raises(VirtualDeviceError, match=name):
        DOORS[name](x)


LAYOUTS: dict[str, Callable[[torch.Tensor], object]] = {
    "nested": lambda x: torch.nested.nested_tensor([x, x[:2]]),
    "nested on": lambda x: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="cuda"),
    "jagged": lambda x: torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning", "ignore:Sparse:UserWarning")
@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_other_layouts_are_refused_on_the_device(x: torch.Tensor, make: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(VirtualDeviceError, match=r"virtual CUDA device|\.to\('cuda'\)"):
        make(x)


def test_jagged_tensors_are_refused_in_a_graphed_function(x: torch.Tensor) -> None:
    graphed = cudalens.cudagraph(lambda x: torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged).values() * 2)
    for _ in range(3):
        with pytest.raises(VirtualDeviceError, match="nested"):
            graphed(x)


def test_a_refused_call_keeps_no_tensor(x: torch.Tensor) -> None:
    before = torch.cuda.memory_allocated()
    gc.disable()
    try:
        for _ in range(3):
            with pytest.raises(VirtualDeviceError):
                torch.ops.aten._thnn_fused_lstm_cell(torch.ones(1 << 20, device="cuda"), x, x)
    finally:
        gc.enable()
    assert torch.cuda.memory_allocated() == before


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_other_layouts_work_on_the_host(device: cudalens.virtual.device) -> None:
    sparse = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,))
    assert (sparse + sparse).to_dense().tolist() == [2.0, 4.0]
    assert torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2, 2)).sum() == 4
    assert torch.ones(2, 2).to_sparse_csr().to_dense().sum() == 4


def test_operators_with_a_gpu_kernel_alone_state_what_to_do(x: torch.Tensor) -> None:
    with pytest.raises(VirtualDeviceError, match=r"_thnn_fused_lstm_cell.*torch\.library\.impl with 'CPU'") as caught:
        torch.ops.aten._thnn_fused_lstm_cell(x, x, x)
    assert isinstance(caught.value.__cause__, NotImplementedError)


def test_operators_with_a_gpu_kernel_in_python_work(x: torch.Tensor, library: torch.library.Library) -> None:
    library.define("python(Tensor x) -> Tensor")
    library.impl("python", lambda value: value * 2, "CUDA")
    library.impl("python", lambda value: value * 3, "CPU")
    doubled = torch.ops.cudalens_refusals.python(x)
    assert doubled.is_cuda
    assert doubled.sum().item() == 32.0
    assert torch.ops.cudalens_refusals.python(x.cpu()).sum().item() == 48.0


def test_operators_with_a_cpu_kernel_work(x: torch.Tensor, library: torch.library.Library) -> None:
    library.define("both(Tensor x) -> Tensor")
    library.impl("both", lambda value: value * 2, "CPU")
    doubled = torch.ops.cudalens_refusals.both(x)
    assert doubled.is_cuda
    assert doubled.sum().item() == 32.0


def test_errors_about_tensors_of_the_host_keep_torchs_words(device: cudalens.virtual.device) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Half'") as caught:
        torch.cdist(torch.ones(2, 2).half(), torch.ones(2, 2).half())
    assert not isinstance(caught.value, VirtualDeviceError)


def test_a_gpus_own_operators_are_refused(x: torch.Tensor) -> None:
    with pytest.raises(VirtualDeviceError, match="aten::_fused_dropout"):
        torch._fused_dropout(x, 0.5)


def test_cuda_sources_are_not_built(device: cudalens.virtual.device) -> None:
    from torch.utils import cpp_extension

    with pytest.raises(VirtualDeviceError, match=r"load_inline .*CPU implementation"):
        cpp_extension.load_inline("x", "int f() { return 1; }", cuda_sources="__global__ void k() {}")
    with pytest.raises(VirtualDeviceError, match=r"\bload .*kernel\.cu"):
        cpp_extension.load("x", ["a.cpp", "kernel.cu"])


def test_modules_are_changed_when_they_come_and_not_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("cudalens_early", "cudalens_late"):
        (tmp_path / f"{name}.py").write_text("value = 1\n")
    finders = list(sys.meta_path)
    patches = Patches()
    for name in ("cudalens_early", "cudalens_late"):
        when_imported(patches, name, lambda module: patches.set(module, "value", 2))
    import cudalens_early

    assert cudalens_early.value == 2
    patches.restore()
    assert cudalens_early.value == 1
    assert sys.meta_path == finders
    import cudalens_late

    assert cudalens_late.value == 1
    del sys.modules["cudalens_early"], sys.modules["cudalens_late"]


def test_export_of_a_module_on_the_device_is_refused_before_torch_ends_the_process(x: torch.Tensor) -> None:
    module = torch.nn.Linear(4, 4)
    with pytest.raises(VirtualDeviceError, match=r"torch\.export\.export .* on the CPU"):
        torch.export.export(module, (x,))
    with pytest.raises(VirtualDeviceError, match=r"torch\.export\.export .* on the CPU"):
        torch.export.export(torch.nn.Linear(4, 4, device="cuda"), (torch.ones(4, 4),))
    exported = torch.export.export(module, (torch.ones(4, 4),))
    assert torch.equal(exported.module()(torch.ones(4, 4)), module(torch.ones(4, 4)))
