"""torch's snapshot and history of the CUDA allocator. Only this module uses their private functions.

Each function is feature-probed: if a build of torch lacks it, the value is missing or an error is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import torch

from cudalens.device.stacks import file_label, is_own
from cudalens.errors import MemorySnapshotError
from cudalens.frames import categorical


def as_shown(stacks: pd.DataFrame, shell: Any = None) -> pd.DataFrame:
    """Return the frame ``stacks`` with files as reports show them, without the entries of the shell and of cudalens.

    Args:
        stacks: The frame of a snapshot.
        shell: IPython's shell, if it is not the one of this process.
    """
    if stacks.empty:
        return stacks
    files = list(stacks["file"].cat.categories)
    labels = [file_label(file, shell) for file in files]
    codes = stacks["file"].cat.codes.to_numpy()
    is_cell = np.array([label != file for label, file in zip(labels, files, strict=True)] + [False])[codes]
    is_ours = np.array([is_own(file) for file in files] + [False])[codes]
    kept = ~is_ours & (stacks["position"].to_numpy() <= _outermost_cell(stacks, is_cell))
    number = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    named = categorical(np.array([*(number[label] for label in labels), -1], np.int64)[codes], list(number))
    found = stacks.assign(file=named)[kept].reset_index(drop=True)
    return found.assign(position=found.groupby("stack").cumcount().astype(np.int32))


def _outermost_cell(stacks: pd.DataFrame, is_cell: np.ndarray) -> np.ndarray:
    """For each row the position of its stack's outermost entry in a cell; the largest int64 if there is none."""
    position = stacks["position"].to_numpy()
    number = stacks["stack"].to_numpy()
    last = np.full(int(number.max()) + 1, -1, np.int64)
    np.maximum.at(last, number[is_cell], position[is_cell])
    return np.where(last < 0, np.iinfo(np.int64).max, last)[number]


def cells_of(stacks: pd.DataFrame) -> dict[int, str]:
    """Return the cell that was running when each stack was taken: its outermost entry, if that is a cell."""
    outermost = stacks.groupby("stack")["file"].last()
    files = {int(number): file for number, file in outermost.items() if isinstance(file, str)}
    return {number: file for number, file in files.items() if file.startswith("In[")}


#: Maximum number of actions in a history; torch stores about 100 bytes for each, and more for its call stack.
MAX_ENTRIES: Final = 1_000_000

_NO_DEVICE: Final = (
    "there is no CUDA device whose memory could be examined. On a machine without one, `%cudadevice virtual h100` or "
    "cudalens.virtual.device('h100') provides a virtual one."
)
_ENDED: Final = "the virtual device ended before its memory could be examined. Switch it off in a separate cell."
Marks = tuple[tuple[Any, ...] | None, ...]

#: Device index, and address of a storage.
Address = tuple[int, int]


def has_device() -> bool:
    """Return whether there is an allocator: CUDA is available and initialized."""
    return torch.cuda.is_available() and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def require_device() -> None:
    """Initialize CUDA, and check that there is a device whose allocator has snapshots.

    Raises:
        MemorySnapshotError: There is no device, or the allocator has no snapshots.
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
    """Return the snapshot of all devices, as ``torch.cuda.memory._snapshot()`` returns it.

    Args:
        with_history: Whether to include the actions of the history; without them it is fast. torch before 2.12 always
            includes them.
    """
    function: Callable[[Any], dict[str, Any]] = _function("_cuda_memorySnapshot")
    if not with_history:
        try:
            return function((0, 0, False))
        except (TypeError, RuntimeError):  # torch before 2.12 accepts only an id of two numbers
            pass
    return function(None)


def require_still() -> None:
    """Check that the device still exists.

    Raises:
        MemorySnapshotError: It was a virtual device, and has ended.
    """
    if not has_device():
        raise MemorySnapshotError(_ENDED)


def is_recording() -> bool:
    """Return whether a memory history is being recorded."""
    function = _function("_cuda_isHistoryEnabled")
    return bool(function is not None and function())


class History:
    """Records memory history from `start` to `stop`. If the program already records one, that one is used unchanged.

    torch reports whether a history is recorded, but not its options; so an existing history is never replaced. The part
    since `start` is taken from it.

    Args:
        max_entries: Maximum number of actions that are kept; older ones are lost.
        stacks: Whether call stacks are recorded (Python only).

    Attributes:
        is_borrowed: Whether the history is the program's own.
        was_cut: Whether actions since `start` were lost; set by `since_start`.
    """

    def __init__(self, *, max_entries: int = MAX_ENTRIES, stacks: bool = True) -> None:
        self.is_borrowed = self.was_cut = False
        self._max_entries, self._stacks = max_entries, stacks
        self._marks: Marks = ()
        self._is_on = False

    def start(self) -> None:
        """Begin to record."""
        self.is_borrowed = is_recording()
        if self.is_borrowed:
            self._marks = tuple(_mark(trace) for trace in raw_snapshot().get("device_traces", ()))
        else:
            context = "alloc" if self._stacks else None
            _record("all", context=context, stacks="python", max_entries=self._max_entries, clear_history=True)
        self._is_on = True

    def since_start(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """`snapshot` with only the actions since `start`."""
        traces: Sequence[list[Any]] = snapshot.get("device_traces", ())
        if self.is_borrowed:
            parts = [_after(trace, self._marks[i] if i < len(self._marks) else None) for i, trace in enumerate(traces)]
            self.was_cut = any(part is None for part in parts)
            traces = [trace if part is None else part for trace, part in zip(traces, parts, strict=True)]
        else:
            self.was_cut = any(len(trace) >= self._max_entries for trace in traces)
        return snapshot | {"device_traces": list(traces)}

    def stop(self) -> None:
        """Restore the previous setting: off, or the program's own history. Can be called twice."""
        if self._is_on and not self.is_borrowed and has_device():
            _record(None)
        self._is_on = False


def _record(enabled: str | None, **options: Any) -> None:
    function: Callable[..., None] | None = getattr(torch.cuda.memory, "_record_memory_history", None)
    if function is None:
        raise MemorySnapshotError(f"torch {torch.__version__} keeps no memory history; expected 2.9 or later.")
    function(enabled, **options)


def _mark(trace: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the identity of the last action of a history; None for an empty one."""
    return _identity(trace[-1]) if trace else None


def _identity(action: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(action.get(key) for key in ("time_us", "action", "addr", "size", "stream"))


def _after(trace: list[Any], mark: tuple[Any, ...] | None) -> list[Any] | None:
    """Return the actions after the one with the identity `mark`; None if that one was lost."""
    if mark is None:
        return trace
    for position in range(len(trace) - 1, -1, -1):
        if _identity(trace[position]) == mark:
            return trace[position + 1 :]
    return None


def _function(name: str) -> Any:
    return getattr(torch._C, name, None)


def allocation_counts() -> tuple[tuple[int, ...], ...]:
    """Return how many blocks each device has allocated, freed, and made available again so far; shape (devices, 3).

    Equal counts at two times mean that nothing has changed between them.
    """
    if not has_device():
        return ()
    stats = (torch.cuda.memory_stats(device) for device in range(torch.cuda.device_count()))
    return tuple(tuple(int(one.get(name, 0)) for name in _COUNTERS) for one in stats)


_COUNTERS: Final = ("allocation.all.allocated", "allocation.all.freed", "active.all.freed")


def allocated_bytes() -> int:
    """Allocated bytes of all devices together."""
    if not has_device():
        return 0
    return sum(torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count()))


def workspace_sizes() -> set[int]:
    """Possible sizes of the cuBLAS workspaces that torch allocates."""
    import os

    sizes = {_HOPPER, _USUAL}
    words = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "").strip(":").split(":")  # pairs of ``:KiB:count``
    if len(words) > 1 and len(words) % 2 == 0 and all(word.isdecimal() for word in words):
        pairs = zip(words[::2], words[1::2], strict=True)
        sizes.add(sum(int(size) * int(count) for size, count in pairs) * 1024)
    lt = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    return sizes | ({int(lt) * 1024} if lt.isdecimal() else set())


#: Workspace size for compute capability 9 and later: 32 MiB (ATen/cuda/CublasHandlePool.cpp, torch 2.13).
_HOPPER: Final = 4096 * 8 * 1024
#: Workspace size for other GPUs: ``:4096:2:16:8`` in KiB.
_USUAL: Final = (4096 * 2 + 16 * 8) * 1024


def _address_of_cow(tensor: torch.Tensor) -> int | None:
    """Address of a copy-on-write tensor's storage, without causing the copy; None for other tensors."""
    is_lazy, address = _function("_is_cow_tensor"), _function("_data_address")
    if is_lazy is None or address is None or not is_lazy(tensor):
        return None
    return int(address(tensor)) - int(tensor.storage_offset()) * tensor.element_size()


def storage_address(tensor: torch.Tensor) -> Address | None:
    """Device and address of a tensor's storage; None if it has none on a CUDA device.

    No code of a subclass runs. It works for tensors of a virtual device too.
    """
    with torch._C.DisableTorchFunctionSubclass():
        try:
            if not tensor.is_cuda or tensor.layout is not torch.strided:
                return None
            lazy = _address_of_cow(tensor)
            address = tensor.untyped_storage().data_ptr() if lazy is None else lazy
            return (tensor.get_device(), address) if address else None
        except (RuntimeError, NotImplementedError):  # no storage: a wrapper subclass, a fake or functional tensor
            return None
