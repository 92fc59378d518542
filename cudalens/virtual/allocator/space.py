"""Device addresses and free physical memory of one virtual device."""

from __future__ import annotations

from bisect import bisect_left, insort

from cudalens.virtual.allocator.sizes import DRIVER_PAGE, round_up


class AddressSpace:
    """Allocates device addresses: the lowest gap that fits, in steps of 2 MiB.

    The addresses of a real driver are not specified. This rule is deterministic: equal programs get equal addresses.
    """

    __slots__ = ("_end", "_gaps")

    def __init__(self, base_address: int) -> None:
        self._end = round_up(base_address, DRIVER_PAGE)
        self._gaps: list[tuple[int, int]] = []  # (address, size), ascending, no two touch

    def reserve(self, num_bytes: int) -> int:
        """Reserve a range of that many bytes; returns its first address."""
        size = round_up(num_bytes, DRIVER_PAGE)
        for i, (address, gap) in enumerate(self._gaps):
            if gap >= size:
                self._gaps[i : i + 1] = [(address + size, gap - size)] if gap > size else []
                return address
        address, self._end = self._end, self._end + size
        return address

    def release(self, address: int, num_bytes: int) -> None:
        """Return a range."""
        size = round_up(num_bytes, DRIVER_PAGE)
        insort(self._gaps, (address, size))
        i = bisect_left(self._gaps, (address, size))
        for left in (i, i - 1):
            if 0 <= left < len(self._gaps) - 1 and sum(self._gaps[left]) == self._gaps[left + 1][0]:
                self._gaps[left : left + 2] = [(self._gaps[left][0], self._gaps[left][1] + self._gaps[left + 1][1])]
        if self._gaps and sum(self._gaps[-1]) == self._end:
            self._end = self._gaps.pop()[0]


class Memory:
    """The physical memory of the device, in bytes.

    Attributes:
        total_bytes: The memory of the device.
        context_bytes: Used by the CUDA context.
        used_bytes: Used by the allocator.
    """

    __slots__ = ("context_bytes", "total_bytes", "used_bytes")

    def __init__(self, total_bytes: int, context_bytes: int) -> None:
        self.total_bytes, self.context_bytes, self.used_bytes = total_bytes, context_bytes, 0

    @property
    def free_bytes(self) -> int:
        """The free memory that cudaMemGetInfo returns."""
        return self.total_bytes - self.context_bytes - self.used_bytes

    def allocate(self, num_bytes: int) -> bool:
        """Allocate physical memory; False if there is not enough."""
        size = round_up(num_bytes, DRIVER_PAGE)
        if size > self.free_bytes:
            return False
        self.used_bytes += size
        return True

    def release(self, num_bytes: int) -> None:
        """Free physical memory."""
        self.used_bytes -= round_up(num_bytes, DRIVER_PAGE)
