"""Run the Triton kernels that Inductor generated: values by Triton's interpreter, times by the model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from math import prod
from types import ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple

import torch

from cudalens.device import gpu_trace
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.compiled.interpreter import DeviceAssertionError, run_kernel
from cudalens.virtual.compiled.tracing import hidden_work
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.shapes.storage import forget
from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.timing.fallback_durations import kernel_ns
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.timing.several_kernels import NAMESPACE

_ENDED: Final = (
    "code that torch.compile generated for a virtual CUDA device was called after the device had ended. Call it inside "
    "of the device's block; for another device, call the compiled function again, which compiles for that device."
)
_INTERPRETER: Final = (
    "the Triton kernel {name}, which torch.compile generated, cannot run on a virtual CUDA device: Triton's "
    "interpreter reports: {error}. Pass values=False to see the kernels without values, or run this function eagerly "
    "(torch.compiler.disable)."
)
_ASSERTED: Final = "device-side assert triggered in the kernel {name}, which torch.compile generated: {error}"

#: Elements of an interpreted block: numpy's cost per call is small, and the arrays fit into the cache.
_BLOCK_ELEMENTS: Final = 1 << 18

#: Kernels whose block sizes are free within their masks.
_FREE_GRIDS: Final = frozenset({"Grid1D", "Grid2D", "Grid3D", "Grid2DWithYZOverflow"})

_WARP_THREADS: Final = 32

#: Returns the host address; the patched method returns the device address.
_data_ptr: Final[Any] = vars(torch._C.StorageBase)["data_ptr"]


class _Block(NamedTuple):
    """A dimension of the ranges: its size in the kernel, and the block size that is chosen for it."""

    numel: int
    size: int


class DeviceKernel:
    """A kernel in generated code; replaces Inductor's launcher.

    Args:
        gpus: The virtual GPUs.
        tuner: Inductor's ``CachingAutotuner`` of the kernel, which is not compiled.
        kernel_name: The name in the generated code.

    Attributes:
        name: The name in the generated code.
        is_certain: True; generated code states which arguments it writes.
    """

    is_certain: Final = True

    def __init__(self, gpus: Gpus, tuner: Any, kernel_name: str) -> None:
        self._gpus, self._tuner, self.name = gpus, tuner, kernel_name
        self._meta: dict[str, Any] = tuner.inductor_meta
        self._signature: dict[str, str] = tuner.triton_meta["signature"]
        self._constants: dict[str, Any] = dict(tuner.triton_meta.get("constants") or {})
        self._config = tuner.configs[0]
        self._parameters = list(tuner.fn.arg_names)
        self.inductor_meta = self._meta

    def run(self, *args: Any, stream: Any = None, **kwargs: Any) -> None:
        """Launch the kernel on the current stream.

        Raises:
            VirtualDeviceError: The device has ended, or the interpreter cannot run the kernel.
        """
        if self._gpus.is_closed:
            raise VirtualDeviceError(_ENDED)
        launch_kernel(self._gpus, self, self._named(args) | kwargs)

    def _named(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """The arguments by name.

        Generated code leaves out the constants that the kernel declares. It passes the others (None as -1, numbers that
        are 1), which a compiled kernel ignores.
        """
        constants = {**self._constants, **self._config.kwargs}
        parameters = inspect.signature(self._tuner.fn.fn).parameters
        declared = {name for name, parameter in parameters.items() if "constexpr" in str(parameter.annotation)}
        names = [name for name in self._parameters if name not in declared or name not in constants]
        names += self._meta.get("extra_launcher_args", ())
        return dict(zip(names, args, strict=True))

    def writes(self, name: str) -> bool:
        """Whether the kernel writes to the argument of that name."""
        return name.startswith(("out_ptr", "in_out_ptr")) or name in self._tuner.mutated_arg_names

    def compute(self, named: Mapping[str, Any]) -> None:
        """Run the kernel on the memory of its arguments, in the interpreter.

        Raises:
            RuntimeError: An assertion of the kernel does not hold; Inductor generates one for each index in a tensor.
            VirtualDeviceError: The interpreter cannot run it.
        """
        blocks = self._interpreted_blocks(named)
        passed = [name for name in self._parameters if name in named and name not in self._constants]
        values = {name: host_value(named[name]) for name in passed}
        constants = {**self._constants, **self._config.kwargs, **blocks}
        for name in self._parameters:
            if name not in values:
                values[name] = constants.get(name)
        grid = self._grid({**self._config.kwargs, **blocks}, named)
        signature = {name: kind for name, kind in self._signature.items() if name in passed}
        try:
            with hidden_work(self._gpus):
                is_of_program = self._meta.get("grid_type") not in _FREE_GRIDS
                memory = memory_of(named) if is_of_program else None
                asserts = bool(self._meta.get("assert_indirect_indexing", True))
                run_kernel(self._tuner.fn, grid, values, signature, memory, asserts=asserts)
        except DeviceAssertionError as error:
            raise RuntimeError(_ASSERTED.format(name=self.name, error=error)) from error
        except Exception as error:
            raise VirtualDeviceError(_INTERPRETER.format(name=self.name, error=error)) from error

    def _grid(self, config: Mapping[str, Any], named: Mapping[str, Any]) -> tuple[int, int, int]:
        from torch._inductor.runtime.triton_heuristics import GridExpr

        launched = {"num_warps": self._config.num_warps, "num_stages": self._config.num_stages, **config}
        expression: Any = GridExpr.from_meta(self._meta, launched)  # a grid of the program is known by all of them
        numbers = {name: value for name, value in named.items() if not isinstance(value, torch.Tensor)}
        x, y, z = expression.eval_slow({**config, **numbers})
        return int(x), int(y), int(z)

    def _interpreted_blocks(self, named: Mapping[str, Any]) -> dict[str, int]:
        """Block sizes for the interpreter: as large as the kernel's masks allow; none if they are not free."""
        if self._meta.get("grid_type") not in _FREE_GRIDS or self._meta.get("RSPLIT_SIZE") is not None:
            return {}
        blocks: dict[str, int] = {}
        room = _BLOCK_ELEMENTS
        persistent = [prefix for prefix in ("r0_", "r1_") if f"{prefix.upper()}BLOCK" not in self._config.kwargs]
        for prefix in persistent:
            room //= _next_power(int(named.get(f"{prefix}numel") or (self._tuner.size_hints or {}).get(prefix) or 1))
        for prefix in ("r0_", "r1_", "x", "y", "z"):
            name = f"{prefix.upper()}BLOCK"
            numel = named.get(f"{prefix}numel")
            if name in self._config.kwargs and numel is not None:
                blocks[name] = max(_block_size(prefix.upper(), int(numel), room), 1)
                room //= blocks[name]
        return blocks

    def model(self, device: Device, named: Mapping[str, Any], tensors: list[torch.Tensor]) -> None:
        """Issue the kernel to the current stream of a device."""
        num_bytes, flops = self._num_bytes(tensors), int(self._meta.get("kernel_flop") or 0)
        family: Any = "other" if self._meta.get("num_reduction") else "dense"
        duration_ns = kernel_ns(self._gpus.spec, flops, num_bytes, "float32", family)
        grid, num_warps = self._grid(self._config.kwargs, named), int(self._config.num_warps)
        issue_kernel(self._gpus, device, self.name, duration_ns, num_bytes, flops, grid, num_warps)

    def _num_bytes(self, tensors: list[torch.Tensor]) -> int:
        """Inductor's estimate of the bytes that a kernel of fixed sizes moves; else the sizes of its arguments."""
        known = self._meta.get("kernel_num_gb")
        is_dynamic = any(name.startswith("ks") for name in self._parameters) or self._has_free_numel()
        if known is not None and not is_dynamic:
            return int(known * 1e9)
        return sum(tensor.nbytes for tensor in tensors)

    def _has_free_numel(self) -> bool:
        """Whether a range has a size that the generated source does not contain."""
        source = str(getattr(self._tuner.fn, "src", ""))
        sizes = [name for name in self._parameters if name.endswith("numel")]
        return any(f"    {name} = " not in source for name in sizes)


def launch_kernel(gpus: Gpus, kernel: Any, named: Mapping[str, Any]) -> None:
    """Launch a Triton kernel on the current stream: compute or capture its values, and model its time.

    Args:
        gpus: The virtual GPUs.
        kernel: A `DeviceKernel`, or another object with its attributes and methods.
        named: The arguments by name.
    """
    with gpus.machine.host_time.in_call():
        written = [value for name, value in named.items() if isinstance(value, torch.Tensor) and kernel.writes(name)]
        tensors = [value for value in named.values() if isinstance(value, torch.Tensor)]
        place = next(filter(None, map(residence_of, tensors)), None)
        device = gpus.machine.current_device if place is None else place.device
        call, values = KernelCall(kernel, tuple(named)), tuple(named.values())
        stream, log = gpus.machine.current_stream(device), gpus.machine.op_log
        if log is not None:
            log.begin_call(f"{NAMESPACE}::{kernel.name}", call, values, {})
        if gpus.shapes is not None:
            for tensor in written:
                forget(tensor)
        elif stream.capture is not None:
            stream.capture.run(call, values, {})
        else:
            call(*values)
        kernel.model(device, named, tensors)
        if log is not None:
            log.called(written)
        if gpu_trace.is_on():
            arguments = tuple(
                (name, value, kernel.is_certain and kernel.writes(name))
                for name, value in named.items()
                if isinstance(value, torch.Tensor)
            )
            launched = gpu_trace.KernelLaunched(kernel.name, device.index, stream.handle, arguments, kernel.is_certain)
            gpu_trace.emit(launched)


def issue_kernel(
    gpus: Gpus,
    device: Device,
    name: str,
    duration_ns: int,
    num_bytes: int,
    flops: int,
    grid: tuple[int, int, int],
    num_warps: int,
) -> None:
    """Issue the modelled kernel of a launch to the current stream of a device."""
    threads = _WARP_THREADS * num_warps
    room = min(1.0, max(1, prod(grid)) * threads / gpus.spec.max_resident_threads)
    work = Work("kernel", name, duration_ns, room, num_bytes, flops, grid=grid, block=(threads, 1, 1), op=name)
    gpus.launch(device, work, "cuLaunchKernel")


class KernelCall:
    """A launch of a kernel as an operator, for graph captures and for the log of the explorer.

    Args:
        kernel: The kernel.
        names: The names of its arguments, in the order of the call.

    Attributes:
        written_places: Positions of the arguments that it writes.
    """

    def __init__(self, kernel: Any, names: tuple[str, ...]) -> None:
        self._kernel, self._names = kernel, names
        self._schema = SimpleNamespace(name=f"{NAMESPACE}::{kernel.name}")
        self.written_places = tuple(index for index, name in enumerate(names) if kernel.writes(name))

    def __call__(self, *args: Any) -> None:
        """Compute the values."""
        self._kernel.compute(dict(zip(self._names, args, strict=True)))


def memory_of(named: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The addresses and sizes in host memory of the storages of arguments."""
    storages = [value.untyped_storage() for value in named.values() if isinstance(value, torch.Tensor)]
    return [(int(_data_ptr(storage)), storage.nbytes()) for storage in storages]


def host_value(value: Any) -> Any:
    """The host address of a tensor's first element; a number as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return int(_data_ptr(value.untyped_storage())) + int(value.storage_offset()) * value.element_size()


def _block_size(prefix: str, numel: int, most: int) -> int:
    """The largest block size for a range.

    Inductor leaves out the mask of a range that its largest block size divides, so that a larger block must divide it
    too.
    """
    from torch._inductor.runtime.hints import TRITON_MAX_BLOCK

    size = min(_next_power(numel), _previous_power(most))
    allowed = min(int(TRITON_MAX_BLOCK.get(prefix, 1024)), 1024 if prefix in ("Y", "Z") else 1 << 30)
    while size > allowed and numel % size:
        size //= 2
    return size


def _next_power(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


def _previous_power(number: int) -> int:
    return 1 << (max(1, number).bit_length() - 1)


# Change the module of generated wrapper code so that its calls use the virtual device.


class ExternKernels:
    """Inductor's ``extern_kernels``: calls of libraries, whose kernels get the name in the generated code."""

    def __init__(self, gpus: Gpus, kernels: Any) -> None:
        self._gpus, self._kernels = gpus, kernels

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._kernels, name)
        if not callable(function):
            return function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._gpus.kernels_named(f"extern_kernels.{name}"):
                return function(*args, **kwargs)

        return call


def adapt_module(gpus: Gpus, module: ModuleType) -> None:
    """Replace the functions by which wrapper code allocates, and by which it calls libraries."""
    names: dict[str, Any] = vars(module)
    if "empty_strided_cuda" in names:
        names["empty_strided_cuda"] = _empty_strided
    if "empty_strided_cpu_pinned" in names:
        names["empty_strided_cpu_pinned"] = _empty_strided_pinned
    if "copy_if_misaligned" in names:
        names["copy_if_misaligned"] = _copy_if_misaligned
    if "extern_kernels" in names:
        names["extern_kernels"] = ExternKernels(gpus, names["extern_kernels"])
    if callable(names.get("call")):
        names["call"] = _only_while_active(gpus, names["call"])
    runner = names.get("runner")
    if runner is not None:  # its partitions are what torch's CUDA-graph trees capture
        runner.partitions = [_only_while_active(gpus, function) for function in runner.partitions]


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def _empty_strided_pinned(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, pin_memory=True)


def _copy_if_misaligned(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose address on the device is a multiple of Inductor's alignment; torch's C++ reads the host's."""
    from torch._inductor.utils import ALIGNMENT, clone_preserve_strides

    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else clone_preserve_strides(tensor)


def _only_while_active(gpus: Gpus, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(inputs: list[Any]) -> Any:
        if gpus.is_closed:
            raise VirtualDeviceError(_ENDED)
        # A capture computes once to know its shapes. Its own results must not take the memory of an input that the
        # code frees early: the first replay reads that input.
        kept = list(inputs) if gpus.machine.captures else []
        try:
            return function(inputs)
        finally:
            kept.clear()

    return call
