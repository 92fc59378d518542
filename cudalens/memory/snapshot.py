"""torch's own snapshot and history of the CUDA allocator: the one place that touches their private functions.

Each is probed for: what a build of torch lacks is told as absent, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from cudalens.errors import MemorySnapshotError

#: Actions that a history keeps at most; torch writes some hundred bytes for each, and more for its call stack.
MAX_ENTRIES: Final = 1_000_000

#: Device index, and address of a storage.
_NO_DEVICE: Final = (
    "there is no CUDA device whose memory could be examined. On a machine without one, `%cudadevice virtual h100` or "
    "cudalens.virtual.device('h100') provides a virtual one."
)
_ENDED: Final = "the virtual device ended before its memory could be examined. Switch it off in a separate cell."
Marks = tuple[tuple[Any, ...] | None, ...]
Address = tuple[int, int]


def has_device() -> bool:
    """Whether there is an allocator to ask: CUDA is there, and has been used."""
    return torch.cuda.is_available() and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def require_device() -> None:
    """Nothing, once there is a device with an allocator to ask.

    Raises:
        MemorySnapshotError: There is none, or torch's allocator is one that tells nothing.
    """
    if not torch.cuda.is_available():
        raise MemorySnapshotError(_NO_DEVICE)
    torch.cuda.init()  # type: ignore[no-untyped-call]
    if _function("_cuda_memorySnapshot") is None:
        raise MemorySnapshotError(f"torch {torch.__version__} has no memory snapshots; expected 2.9 or later.")
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        raise MemorySnapshotError(
            f"the CUDA allocator is {backend!r}, which keeps no list of its blocks. Leave `backend:` out of "
            "PYTORCH_CUDA_ALLOC_CONF to use torch's own."
        )


def raw_snapshot(*, with_history: bool = True) -> dict[str, Any]:
    """The snapshot as ``torch.cuda.memory._snapshot()`` has it, of all devices.

    Args:
        with_history: Whether the actions of the history come along; without them it is quick. torch before 2.12 always
            brings them.
    """
    function: Callable[[Any], dict[str, Any]] = _function("_cuda_memorySnapshot")
    if not with_history:
        try:
            return function((0, 0, False))
        except (TypeError, RuntimeError):  # torch before 2.12 takes an id of two numbers
            pass
    return function(None)


def require_still() -> None:
    """Nothing, while the device is there whose memory is looked at.

    Raises:
        MemorySnapshotError: It was a virtual one, and has ended.
    """
    if not has_device():
        raise MemorySnapshotError(_ENDED)


def is_recording() -> bool:
    """Whether somebody has memory history on."""
    function = _function("_cuda_isHistoryEnabled")
    return bool(function is not None and function())


class History:
    """Memory history for a while. Where the program itself has it on already, its own goes on, untouched.

    torch tells whether a history is kept, and not with which options; so one that is there is never replaced. Of such a
    one the part since `start` is told.

    Args:
        max_entries: Actions that are kept at most; older ones are lost.
        stacks: Whether call stacks are kept, of Python alone.

    Attributes:
        is_borrowed: The history is the program's own.
        was_cut: Actions since `start` were lost, known once `since_start` has been asked.
    """

    def __init__(self, *, max_entries: int = MAX_ENTRIES, stacks: bool = True) -> None:
        self.is_borrowed = self.was_cut = False
        self._max_entries, self._stacks = max_entries, stacks
        self._marks: Marks = ()
        self._is_on = False

    def start(self) -> None:
        """Keep a history from here on."""
        self.is_borrowed = is_recording()
        if self.is_borrowed:
            self._marks = tuple(_mark(trace) for trace in raw_snapshot().get("device_traces", ()))
        else:
            context = "alloc" if self._stacks else None
            _record("all", context=context, stacks="python", max_entries=self._max_entries, clear_history=True)
        self._is_on = True

    def since_start(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """`snapshot` with the actions since `start` alone."""
        traces: Sequence[list[Any]] = snapshot.get("device_traces", ())
        if self.is_borrowed:
            parts = [_after(trace, self._mark_of(i)) for i, trace in enumerate(traces)]
            self.was_cut = any(part is None for part in parts)
            traces = [trace if part is None else part for trace, part in zip(traces, parts, strict=True)]
        else:
            self.was_cut = any(len(trace) >= self._max_entries for trace in traces)
        return snapshot | {"device_traces": list(traces)}

    def stop(self) -> None:
        """Leave the history as it was: off, or the program's own. Harmless when it is off, or its device has ended."""
        if self._is_on and not self.is_borrowed and has_device():
            _record(None)
        self._is_on = False

    def _mark_of(self, device: int) -> tuple[Any, ...] | None:
        return self._marks[device] if device < len(self._marks) else None


def _record(enabled: str | None, **options: Any) -> None:
    function: Callable[..., None] | None = getattr(torch.cuda.memory, "_record_memory_history", None)
    if function is None:
        raise MemorySnapshotError(f"torch {torch.__version__} keeps no memory history; expected 2.9 or later.")
    function(enabled, **options)


def _mark(trace: Sequence[Any]) -> tuple[Any, ...] | None:
    """What tells the last action of a history from others; None for an empty one."""
    return _identity(trace[-1]) if trace else None


def _identity(action: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(action.get(key) for key in ("time_us", "action", "addr", "size", "stream"))


def _after(trace: list[Any], mark: tuple[Any, ...] | None) -> list[Any] | None:
    """The actions after the one that `mark` tells; None where that one is lost."""
    if mark is None:
        return trace
    for place in range(len(trace) - 1, -1, -1):
        if _identity(trace[place]) == mark:
            return trace[place + 1 :]
    return None


def _function(name: str) -> Any:
    return getattr(torch._C, name, None)


def allocation_counts() -> tuple[tuple[int, ...], ...]:
    """How many allocations each device has ever handed out, got back, and made free for others; shape (devices, 3).

    Equal ones, and nothing has changed meanwhile.
    """
    if not has_device():
        return ()
    stats = (torch.cuda.memory_stats(device) for device in range(torch.cuda.device_count()))
    return tuple(tuple(int(one.get(name, 0)) for name in _COUNTERS) for one in stats)


_COUNTERS: Final = ("allocation.all.allocated", "allocation.all.freed", "active.all.freed")


def allocated_bytes() -> int:
    """What all devices have handed out together."""
    if not has_device():
        return 0
    return sum(torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count()))


def workspace_sizes() -> set[int]:
    """Sizes that cuBLAS's workspaces may have, as torch takes them from the allocator."""
    import os

    sizes = {_HOPPER, _USUAL, *_configured(os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))}
    lt = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    return sizes | ({int(lt) * 1024} if lt.isdecimal() else set())


#: What torch takes for compute capability 9 and later: 32 MiB (ATen/cuda/CublasHandlePool.cpp, torch 2.13).
_HOPPER: Final = 4096 * 8 * 1024
#: What it takes for others: ``:4096:2:16:8`` in KiB.
_USUAL: Final = (4096 * 2 + 16 * 8) * 1024


def _configured(text: str) -> set[int]:
    """The size that CUBLAS_WORKSPACE_CONFIG asks for: pairs of ``:KiB:count``."""
    words = text.strip(":").split(":")
    if len(words) < 2 or len(words) % 2 or not all(word.isdecimal() for word in words):
        return set()
    return {sum(int(size) * int(count) for size, count in zip(words[::2], words[1::2], strict=True)) * 1024}


def _address_of_cow(tensor: torch.Tensor) -> int | None:
    """Where a tensor that copies on write lies, told without making it copy; None for other tensors."""
    is_lazy, address = _function("_is_cow_tensor"), _function("_data_address")
    if is_lazy is None or address is None or not is_lazy(tensor):
        return None
    return int(address(tensor)) - int(tensor.storage_offset()) * tensor.element_size()


def storage_address(tensor: torch.Tensor) -> Address | None:
    """Device and address of a tensor's storage; None where it has none on a CUDA device.

    No code of a subclass runs; the virtual device answers for its own tensors.
    """
    with torch._C.DisableTorchFunctionSubclass():
        try:
            if not tensor.is_cuda or tensor.layout is not torch.strided:
                return None
            lazy = _address_of_cow(tensor)
            address = tensor.untyped_storage().data_ptr() if lazy is None else lazy
            return (tensor.get_device(), address) if address else None
        except (RuntimeError, NotImplementedError):  # no storage: a wrapper, a fake, a functional tensor
            return None
