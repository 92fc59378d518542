"""Size rules of the caching allocator, formatting of sizes, and the text of torch.OutOfMemoryError."""

from __future__ import annotations

MIB = 1 << 20
MIN_BLOCK = 512
SMALL_LIMIT = 1 * MIB  # the largest request that uses the small pool
SMALL_SEGMENT = 2 * MIB
MIN_LARGE_ALONE = 10 * MIB  # requests of this size and more get a segment of their own size
LARGE_ROUND = 2 * MIB
UNLIMITED = (1 << 64) - 1  # SIZE_MAX: PyTorch's "no limit"
EXBIBYTE = 1 << 60
DRIVER_PAGE = 2 * MIB  # granularity of physical memory for large cudaMalloc calls

NUM_INTERVALS = 16  # of roundup_power2_divisions: 1 MiB, 2 MiB, ... 32 GiB


def interval_of(num_bytes: int) -> int:
    """Index of the ``roundup_power2_divisions`` interval of a size: 0 is below 2 MiB, 15 is 32 GiB and above."""
    return min(max(0, num_bytes.bit_length() - 21), NUM_INTERVALS - 1)


def round_size(num_bytes: int, divisions: tuple[int, ...] | None) -> int:
    """Return the block size of a request: rounded up to 512 bytes, or to a division of its power of two.

    Args:
        num_bytes: The requested bytes.
        divisions: For each interval (:func:`interval_of`), the number of parts between two powers of two; None if no
            interval has divisions.
    """
    if num_bytes < MIN_BLOCK:
        return MIN_BLOCK
    if divisions is not None:
        parts = divisions[interval_of(num_bytes)]
        if parts > 1 and num_bytes > MIN_BLOCK * parts:
            if num_bytes & (num_bytes - 1) == 0:
                return num_bytes  # a power of two
            floor = 1 << (num_bytes.bit_length() - 1)
            step = floor >> (parts.bit_length() - 1)
            return (num_bytes + step - 1) & -step
    return (num_bytes + MIN_BLOCK - 1) & -MIN_BLOCK


def segment_size(block_size: int, large_segment: int) -> int:
    """Return the bytes passed to cudaMalloc if no cached block fits a block of this size."""
    if block_size <= SMALL_LIMIT:
        return SMALL_SEGMENT
    if block_size < MIN_LARGE_ALONE:
        return large_segment
    return (block_size + LARGE_ROUND - 1) & -LARGE_ROUND


def round_up(num_bytes: int, step: int) -> int:
    """Return the smallest multiple of ``step`` that is at least ``num_bytes``."""
    return -(-num_bytes // step) * step


def format_size(num_bytes: int) -> str:
    """Return a size in the format of PyTorch's out-of-memory message ("2.00 GiB")."""
    if num_bytes <= 1 << 10:
        return f"{num_bytes} bytes"
    if num_bytes <= 1 << 20:
        return f"{num_bytes / 1024:.2f} KiB"
    if num_bytes <= 1 << 30:
        return f"{num_bytes / (1 << 20):.2f} MiB"
    return f"{num_bytes / (1 << 30):.2f} GiB"


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
    """Return the text of torch.OutOfMemoryError (torch 2.10 and later); all sizes in bytes.

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
