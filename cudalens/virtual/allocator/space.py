"""The device's memory under the caching allocator: which addresses, and how many bytes are left."""

from __future__ import annotations

from bisect import bisect_left, insort

from cudalens.virtual.allocator.sizes import DRIVER_PAGE, round_up


class AddressSpace:
    """Hands out device addresses: the lowest gap that fits, in steps of 2 MiB.

    Where a real driver puts a segment is its own affair. This choice is fixed: equal programs get equal addresses.
    """

    __slots__ = ("_end", "_gaps")

    def __init__(self, base_address: int) -> None:
        self._end = round_up(base_address, DRIVER_PAGE)
        self._gaps: list[tuple[int, int]] = []  # (address, size), ascending, no two touch

    def reserve(self, num_bytes: int) -> int:
        """The first address of a range of that many bytes."""
        size = round_up(num_bytes, DRIVER_PAGE)
        for i, (address, gap) in enumerate(self._gaps):
            if gap >= size:
                self._gaps[i : i + 1] = [(address + size, gap - size)] if gap > size else []
                return address
        address, self._end = self._end, self._end + size
        return address

    def release(self, address: int, num_bytes: int) -> None:
        """Give a range back."""
        size = round_up(num_bytes, DRIVER_PAGE)
        insort(self._gaps, (address, size))
        i = bisect_left(self._gaps, (address, size))
        for left in (i, i - 1):
            if 0 <= left < len(self._gaps) - 1 and sum(self._gaps[left]) == self._gaps[left + 1][0]:
                self._gaps[left : left + 2] = [(self._gaps[left][0], self._gaps[left][1] + self._gaps[left + 1][1])]
        if self._gaps and sum(self._gaps[-1]) == self._end:
            self._end = self._gaps.pop()[0]


class Memory:
    """How much physical memory the device has and has left.

    Attributes:
        total_bytes: The device's.
        context_bytes: What the driver's context holds.
        used_bytes: What the allocator holds.
    """

    __slots__ = ("context_bytes", "total_bytes", "used_bytes")

    def __init__(self, total_bytes: int, context_bytes: int) -> None:
        self.total_bytes, self.context_bytes, self.used_bytes = total_bytes, context_bytes, 0

    @property
    def free_bytes(self) -> int:
        """What cudaMemGetInfo tells."""
        return self.total_bytes - self.context_bytes - self.used_bytes

    def take(self, num_bytes: int) -> bool:
        """Take physical memory; False where there is not enough."""
        size = round_up(num_bytes, DRIVER_PAGE)
        if size > self.free_bytes:
            return False
        self.used_bytes += size
        return True

    def give_back(self, num_bytes: int) -> None:
        """Give physical memory back."""
        self.used_bytes -= round_up(num_bytes, DRIVER_PAGE)
