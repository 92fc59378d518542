"""Model the workspaces of cuBLAS and cuBLASLt, which PyTorch allocates with its caching allocator and keeps.

The first matrix product on a stream allocates memory that belongs to no tensor: each cuBLAS handle gets a workspace for
each stream that it is used on, which remains until ``torch._C._cuda_clearCublasWorkspaces()``. Each host thread has its
own handle, and returns it at its end; a backward pass runs on an autograd thread per device. So a training step
allocates two workspaces: one in forward, one in backward.

Sizes and rules are those of ATen/cuda/CublasHandlePool.cpp. CUBLAS_WORKSPACE_CONFIG, CUBLASLT_WORKSPACE_SIZE and
TORCH_CUBLASLT_UNIFIED_WORKSPACE change them, and the defaults depend on the version:

- 32 MiB on compute capability 9.0, from torch 2.12 also on 9.x, 10.x and 12.x; else 8320 KiB (``:4096:2:16:8``).
  (pytorch/pytorch#89027, #175344)
- cuBLASLt, which computes a linear layer with bias, uses another 1 MiB; from 2.12 it uses the workspace of cuBLAS
  (pytorch/pytorch#156495, #168175, #175879).
- From 2.12 the end of a CUDA graph frees the workspaces of the stream on which it was captured (#175276).
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.virtual.patching import torch_version

if TYPE_CHECKING:
    from cudalens.virtual.allocator import Block
    from cudalens.virtual.patching import Patches
    from cudalens.virtual.tensors.residency import MemoryOwner
    from cudalens.virtual.timing.machine import Device, Machine

KIB: Final = 1024
LARGE_BYTES: Final = 32 * KIB * KIB
SMALL_BYTES: Final = 2 * 4096 * KIB + 8 * 16 * KIB
LT_BYTES: Final = KIB * KIB

_UNIFIED_SINCE: Final = (2, 12)
#: The only version whose cuBLASLt may use all of cuBLAS's workspace (#173002, reverted by #183923).
_LT_AS_LARGE: Final = (2, 12)

_FREED_WITH_GRAPHS_SINCE: Final = (2, 12)
_LT_TYPES: Final = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
_LT_ALONE: Final = frozenset({"_int_mm", "_scaled_mm", "_scaled_grouped_mm"})

#: Operators that use the current cuBLAS handle, and so its workspace.
BLAS_OPS: Final = frozenset(
    {
        "mm",
        "bmm",
        "addmm",
        "addmm_",
        "baddbmm",
        "baddbmm_",
        "addbmm",
        "addbmm_",
        "mv",
        "addmv",
        "addmv_",
        "dot",
        "vdot",
        "_addmm_activation",
        "linalg_solve_triangular",
        "triangular_solve",
        *_LT_ALONE,
    }
)


def blas_default_bytes(capability: tuple[int, int], version: tuple[int, int]) -> int:
    """Default size of a cuBLAS workspace."""
    is_large = capability[0] in (9, 10, 12) if version >= (2, 12) else capability == (9, 0)
    return LARGE_BYTES if is_large else SMALL_BYTES


def blas_bytes(config: str | None, default_bytes: int) -> int:
    """Size of a cuBLAS workspace.

    Args:
        config: CUBLAS_WORKSPACE_CONFIG: pairs of ``:size in KiB:count``, which are summed; None if it is not set.
        default_bytes: The size if it is not set or empty.
    """
    if config is None:
        return default_bytes
    pairs = re.findall(r":([0-9]+):([0-9]+)", config)
    if not pairs:
        warnings.warn(
            f"Could not parse CUBLAS_WORKSPACE_CONFIG, using default workspace size of {default_bytes} bytes.",
            stacklevel=2,
        )
        return default_bytes
    return sum(int(size) * KIB * int(count) for size, count in pairs)


def lt_bytes(size: str | None, default_bytes: int) -> int:
    """Size of a cuBLASLt workspace.

    Args:
        size: CUBLASLT_WORKSPACE_SIZE, KiB; None if it is not set.
        default_bytes: The size if it is not set or not a number.
    """
    if size is None:
        return default_bytes
    found = re.match(r"\s*[+-]?[0-9]+", size)  # as C++'s stoi reads it
    if found is None:
        warnings.warn(
            f"invalid CUBLASLT_WORKSPACE_SIZE, using default workspace size of {default_bytes // KIB} KiB.",
            stacklevel=2,
        )
        return default_bytes
    return max(0, int(found[0])) * KIB


class Workspaces:
    """The workspaces of one set of virtual GPUs.

    Attributes:
        lt_bytes: Size of new cuBLASLt workspaces.
        is_unified: Whether cuBLASLt uses the workspace of cuBLAS.
    """

    def __init__(self, machine: Machine, memory: MemoryOwner) -> None:
        self._machine, self._memory = machine, memory
        version = torch_version()
        flag = {"0": False, "1": True}.get(os.environ.get("TORCH_CUBLASLT_UNIFIED_WORKSPACE", ""))
        self.is_unified = flag is True or (flag is None and version >= _UNIFIED_SINCE)
        self._freed_with_graphs = version >= _FREED_WITH_GRAPHS_SINCE
        self._may_lt = os.environ.get("DISABLE_ADDMM_CUDA_LT") != "1"
        self._default_bytes = blas_default_bytes(machine.spec.compute_capability, version)
        self._config: tuple[str | None, int] = None, self._default_bytes
        self._set_bytes: int | None = None
        lt_default = self.blas_bytes if self.is_unified and version == _LT_AS_LARGE else LT_BYTES
        asked = lt_bytes(os.environ.get("CUBLASLT_WORKSPACE_SIZE"), lt_default)
        self._lt_bytes = self.lt_bytes = asked if flag is False else min(asked, self.blas_bytes)
        self._blocks: dict[tuple[str, int, int, int], tuple[Device, Block, int]] = {}
        self._handles = _HandlePool()
        self._threads = _Threads(self._handles)
        self._autograd = _Window(self._handles)

    @property
    def blas_bytes(self) -> int:
        """Size of new cuBLAS workspaces. torch reads the environment at each of them, unless a size was set."""
        if self._set_bytes is not None:
            return self._set_bytes
        text = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
        if text != self._config[0]:
            self._config = text, blas_bytes(text, self._default_bytes)
        return self._config[1]

    def use(self, device: Device, name: str, args: tuple[Any, ...], out: Any) -> None:
        """Allocate the workspaces for an operator that calls cuBLAS or cuBLASLt on the device's current stream.

        Args:
            device: The device.
            name: The operator, such as ``aten::mm``.
            args: Its arguments.
            out: Its result.

        Raises:
            torch.OutOfMemoryError: The virtual device is full; torch's message.
        """
        if any(isinstance(arg, torch.Tensor) and not arg.numel() for arg in args):
            return
        self._take("cublas", device, self.blas_bytes)
        if not self.is_unified and self._goes_through_lt(name.partition("::")[2], args, out):
            self._take("cublaslt", device, self.lt_bytes)

    @property
    def addresses(self) -> list[int]:
        """The addresses of all workspaces."""
        return [block.address for _, block, _ in self._blocks.values()]

    def clear(self) -> None:
        """``torch._C._cuda_clearCublasWorkspaces``: free all workspaces."""
        self._clear(list(self._blocks))

    def release_for_graph(self, stream: int) -> None:
        """Free the workspaces of the stream on which a CUDA graph was captured, at the end of the graph."""
        if self._freed_with_graphs:
            self._clear([key for key in self._blocks if key[3] == stream])

    def _clear(self, keys: list[tuple[str, int, int, int]]) -> None:
        for key in keys:
            held = self._blocks.pop(key, None)
            if held is not None:
                self._memory.release(held[0], held[1])

    def set_blas_bytes(self, num_bytes: int) -> None:
        """``torch.backends.cuda.cublas_workspace_size``: the size of new workspaces."""
        self._set_bytes = num_bytes

    def set_lt_bytes(self, num_bytes: int) -> None:
        """``torch.backends.cuda.cublaslt_workspace_size``: the same, limited by a shared workspace."""
        self.lt_bytes = min(num_bytes, self.blas_bytes) if self.is_unified else num_bytes

    def reset_blas_bytes(self) -> None:
        """Reset the size to that of the environment."""
        self._set_bytes = None

    def reset_lt_bytes(self) -> None:
        """Reset the size to that of the environment."""
        self.lt_bytes = self._lt_bytes

    def _take(self, library: str, device: Device, num_bytes: int) -> None:
        """Allocate a workspace, unless the thread's handle has one on this stream that is large enough."""
        is_backward = torch._C._current_graph_task_id() != -1
        window = self._autograd if is_backward else self._threads.window
        key = (library, device.index, window.handle(device.index), self._machine.current_stream(device).handle)
        held = self._blocks.get(key)
        if not num_bytes or (held is not None and held[2] >= num_bytes):
            return
        block = self._memory.reserve(device, num_bytes)
        self._blocks[key] = device, block, num_bytes
        if held is not None:
            self._memory.release(device, held[1])

    def _goes_through_lt(self, name: str, args: tuple[Any, ...], out: Any) -> bool:
        """Whether the operator uses cuBLASLt: the conditions of addmm_out_cuda_impl (ATen/native/cuda/Blas.cpp)."""
        if name in _LT_ALONE:
            return True
        if name not in ("addmm", "_addmm_activation") or not self._may_lt or len(args) < 3:
            return False
        bias, first, second = args[:3]
        return (
            bias.squeeze().dim() == 1
            and bias.is_contiguous()
            and bias.shape[-1] == second.shape[1]
            and out.is_contiguous()
            and first.dtype in _LT_TYPES
            and min(*first.shape, *second.shape) > 1
        )


class _HandlePool:
    """Pool of cuBLAS handles by device: created when a thread needs one and none is free, never destroyed."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: a thread may end during a call
        self._free: dict[int, list[int]] = {}
        self._num_made = 0

    def reserve(self, device_index: int) -> int:
        with self._lock:
            free = self._free.get(device_index)
            if free:
                return free.pop()
            self._num_made += 1
            return self._num_made

    def release(self, device_index: int, handle: int) -> None:
        with self._lock:
            self._free.setdefault(device_index, []).append(handle)


class _Window:
    """The handles of one thread, released at its end."""

    def __init__(self, pool: _HandlePool) -> None:
        self._pool = pool
        self._handles: dict[int, int] = {}

    def handle(self, device_index: int) -> int:
        """Return the thread's handle on a device."""
        if device_index not in self._handles:
            self._handles[device_index] = self._pool.reserve(device_index)
        return self._handles[device_index]

    def __del__(self) -> None:
        for device_index, handle in self._handles.items():
            self._pool.release(device_index, handle)


class _Threads(threading.local):
    """The handles of each thread."""

    def __init__(self, pool: _HandlePool) -> None:
        self.window = _Window(pool)


def install(patches: Patches, workspaces: Workspaces) -> None:
    """Replace torch's functions that read, change and clear the workspaces."""
    functions = {
        "_cuda_clearCublasWorkspaces": workspaces.clear,
        "_cuda_getCublasWorkspaceSize": lambda: workspaces.blas_bytes,
        "_cuda_getCublasLtWorkspaceSize": lambda: workspaces.lt_bytes,
        "_cuda_setCublasWorkspaceSize": workspaces.set_blas_bytes,
        "_cuda_setCublasLtWorkspaceSize": workspaces.set_lt_bytes,
        "_cuda_resetCublasWorkspaceSize": workspaces.reset_blas_bytes,
        "_cuda_resetCublasLtWorkspaceSize": workspaces.reset_lt_bytes,
    }
    for name, function in functions.items():
        patches.set(torch._C, name, function)
