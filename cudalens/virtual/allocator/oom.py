"""Out of memory: the internal exception and the text of torch.OutOfMemoryError."""

from __future__ import annotations

from cudalens.virtual.allocator.sizes import format_size

_ADVICE = (
    " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid"
    " fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)


class Exhausted(Exception):  # noqa: N818 - never leaves the allocator
    """No block could be allocated.

    Attributes:
        message: The text for the user.
        wanted: The bytes passed to cudaMalloc.
        limit: The bytes that the process may reserve.
        device_free: The free bytes of the device.
    """

    def __init__(self, message: str, *, wanted: int = 0, limit: int = 0, device_free: int = 0) -> None:
        super().__init__(message)
        self.message, self.wanted, self.limit, self.device_free = message, wanted, limit, device_free


def message(
    *,
    device: int,
    wanted: int,
    total: int,
    free: int,
    process: int,
    allowed: int | None,
    allocated: int,
    reserved: int,
    private: int,
) -> str:
    """The text of torch.OutOfMemoryError (torch 2.10 and later); all sizes in bytes.

    Args:
        device: The device's index.
        wanted: The bytes passed to cudaMalloc.
        total: The device's memory.
        free: The free memory of the device.
        process: The memory of this process, including the CUDA context.
        allowed: The limit set by a memory fraction; None without one.
        allocated: The allocated bytes.
        reserved: The reserved bytes.
        private: The free bytes in private pools.
    """
    limit = "" if allowed is None else f"{format_size(allowed)} allowed; "
    pools = f"with {format_size(private)} allocated in private pools (e.g., CUDA Graphs), " if private else ""
    return (
        f"CUDA out of memory. Tried to allocate {format_size(wanted)}. GPU {device} has a total capacity of "
        f"{format_size(total)} of which {format_size(free)} is free. "
        f"Including non-PyTorch memory, this process has {format_size(process)} memory in use. {limit}"
        f"Of the allocated memory {format_size(allocated + private)} is allocated by PyTorch, {pools}"
        f"and {format_size(reserved - allocated - private)} is reserved by PyTorch but unallocated.{_ADVICE}"
    )
