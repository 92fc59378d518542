"""Model the statistics of PyTorch's caching allocator for page-locked host memory.

Blocks are rounded up to a power of two and kept for reuse by size, as in ``at::CachingHostAllocator``. A freed block is
used again after the work that its streams had when it was freed; each allocation looks for such blocks. The memory
itself belongs to the tensors; only the sizes are modelled.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from cudalens.virtual.timing.machine import Machine
from cudalens.virtual.timing.streams import Stream

_NS_PER_US: Final = 1000


class _Count:
    """One of torch's statistics: current value, peak, and sums of increases and decreases."""

    __slots__ = ("allocated", "current", "freed", "peak")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def add(self, amount: int) -> None:
        self.current += amount
        self.allocated += amount
        self.peak = max(self.peak, self.current)

    def remove(self, amount: int) -> None:
        self.current -= amount
        self.freed += amount

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("current", "peak", "allocated", "freed")}


class _Times:
    """Durations of calls of one kind, in microseconds."""

    __slots__ = ("count", "max", "min", "total")

    def __init__(self) -> None:
        self.total = self.max = self.min = self.count = 0

    def add(self, num_us: int) -> None:
        self.min = min(self.min, num_us) if self.count else num_us
        self.max = max(self.max, num_us)
        self.total += num_us
        self.count += 1

    def as_dict(self) -> dict[str, int]:
        average = self.total // self.count if self.count else 0
        return {"total": self.total, "max": self.max, "min": self.min, "count": self.count, "avg": average}


class PinnedBlock:
    """Held by a pinned tensor's storage; returns its block to the cache at the end of the storage."""

    __slots__ = ("_memory", "_streams", "num_bytes")

    def __init__(self, memory: HostMemory, num_bytes: int) -> None:
        self._memory, self.num_bytes = memory, num_bytes
        self._streams: set[Stream] = set()

    def use(self, stream: Stream) -> None:
        """A copy that does not block the host uses it in a stream."""
        self._streams.add(stream)

    def __del__(self) -> None:
        self._memory._release(self.num_bytes, self._streams)


class HostMemory:
    """The page-locked memory of one virtual machine.

    Args:
        machine: The machine whose host time is used by cudaHostAlloc and cudaFreeHost.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._cached: defaultdict[int, int] = defaultdict(int)
        self._pending: list[tuple[int, int]] = []
        self._counts = {
            name: _Count() for name in ("allocations", "allocated_bytes", "active_requests", "active_bytes")
        }
        self._alloc_times, self._free_times = _Times(), _Times()

    def allocate(self, num_bytes: int) -> PinnedBlock:
        """Allocate page-locked memory for a tensor of that size."""
        size = 1 << max(num_bytes - 1, 0).bit_length()
        self._take_back()
        if self._cached[size]:
            self._cached[size] -= 1
        else:
            self._alloc_times.add(self._call("cudaHostAlloc", self._machine.spec.malloc_ns))
            self._counts["allocations"].add(1)
            self._counts["allocated_bytes"].add(size)
        self._counts["active_requests"].add(1)
        self._counts["active_bytes"].add(size)
        return PinnedBlock(self, size)

    def empty_cache(self) -> None:
        """Free the cached memory."""
        self._take_back()
        # A block that is freed in this loop belongs to the new cache.
        cached, self._cached = self._cached, defaultdict(int)
        for size, num_blocks in cached.items():
            for _ in range(num_blocks):
                self._free_times.add(self._call("cudaFreeHost", self._machine.spec.free_ns))
                self._counts["allocations"].remove(1)
                self._counts["allocated_bytes"].remove(size)

    def stats(self) -> dict[str, Any]:
        """As ``torch._C._cuda_hostMemoryStats`` of torch 2.13."""
        allocations = self._counts["allocations"]
        return {name: count.as_dict() for name, count in self._counts.items()} | {
            "num_host_alloc": allocations.allocated,
            "num_host_free": allocations.freed,
            "host_alloc_time": self._alloc_times.as_dict(),
            "host_free_time": self._free_times.as_dict(),
        }

    def reset_peak_stats(self) -> None:
        """Reset the peaks to the current values."""
        for count in self._counts.values():
            count.peak = count.current

    def reset_accumulated_stats(self) -> None:
        """Reset the sums and the durations."""
        for count in self._counts.values():
            count.allocated = count.freed = 0
        self._alloc_times, self._free_times = _Times(), _Times()

    def _release(self, size: int, streams: set[Stream]) -> None:
        """A storage ended: the block is free after the work that is issued to its streams."""
        if streams:
            self._pending.append((size, max(map(self._end_of, streams))))
        else:
            self._cache(size)

    def _end_of(self, stream: Stream) -> int:
        return max(stream.ready_ns, self._machine.now_ns)

    def _take_back(self) -> None:
        """Cache the freed blocks whose streams are done."""
        pending, self._pending = self._pending, []  # a block that is freed in this loop goes into the new list
        for size, end_ns in pending:
            if end_ns <= self._machine.now_ns:
                self._cache(size)
            else:
                self._pending.append((size, end_ns))

    def _cache(self, size: int) -> None:
        self._cached[size] += 1
        self._counts["active_requests"].remove(1)
        self._counts["active_bytes"].remove(size)

    def _call(self, call: str, cost_ns: int) -> int:
        """Record a runtime call; returns its duration in microseconds."""
        self._machine.call(call, cost_ns)
        return cost_ns // _NS_PER_US


#: The host memory of the active virtual device; set by a patch.
_current: HostMemory | None = None


#: The size of each range of host memory that the program page-locked itself, by its address; set by a patch.
registered: dict[int, int] = {}


def is_registered(address: int) -> bool:
    """Return whether the program page-locked the memory at an address, by ``cudaHostRegister``."""
    return any(begin <= address < begin + num_bytes for begin, num_bytes in registered.items())


def allocate(num_bytes: int) -> PinnedBlock | bool:
    """Allocate page-locked memory of the active virtual device; True without one."""
    return True if _current is None else _current.allocate(num_bytes)
