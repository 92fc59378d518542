"""Counters of ``torch.cuda.memory_stats``, with the names and the arithmetic of torch.

Every counter has a current value, its peak since the last reset, and the sums of increases and decreases since the
last reset. The five counters that every malloc and free change are fields of :class:`Usage`, which keeps those calls
fast.
"""

from __future__ import annotations

from cudalens.virtual.allocator.conf import PoolId
from cudalens.virtual.allocator.sizes import UNLIMITED

Row = dict[str, int]


class Counter:
    """One counter."""

    __slots__ = ("current", "increased", "origin", "peak")

    def __init__(self) -> None:
        self.current = self.peak = self.increased = 0
        self.origin = 0  # the current value when `increased` was last set to 0

    def change(self, amount: int) -> None:
        """Add ``amount``, which may be negative."""
        self.current += amount
        if amount > 0:
            self.increased += amount
            if self.current > self.peak:
                self.peak = self.current

    def reset_accumulated(self) -> None:
        """Reset the sums of increases and decreases."""
        self.increased, self.origin = 0, self.current

    def reset_peak(self) -> None:
        """Reset the peak."""
        self.peak = self.current

    def row(self) -> Row:
        """Return the counter in the format of torch's statToDict."""
        return _row(self.current, self.peak, self.increased, self.origin)


def _row(current: int, peak: int, increased: int, origin: int) -> Row:
    return {"current": current, "peak": peak, "allocated": increased, "freed": increased + origin - current}


_HOT = ("allocation", "allocated_bytes", "active", "active_bytes", "requested_bytes")


class Usage:
    """The five counters of blocks in use: of all pools, of the small pools or of the large pools.

    Increases that only malloc makes are counted once per pair: allocation and active, allocated and active bytes.
    """

    __slots__ = (
        *_HOT,
        "increased",
        "increased_bytes",
        "increased_requested",
        "origins",
        "peak_active",
        "peak_active_bytes",
        "peak_allocated_bytes",
        "peak_allocation",
        "peak_requested_bytes",
    )

    def __init__(self) -> None:
        self.allocation = self.allocated_bytes = self.active = self.active_bytes = self.requested_bytes = 0
        self.increased = self.increased_bytes = self.increased_requested = 0
        self.peak_allocation = self.peak_allocated_bytes = self.peak_active = self.peak_active_bytes = 0
        self.peak_requested_bytes = 0
        self.origins = (0, 0, 0, 0, 0)

    def take(self, size: int, requested: int) -> None:
        """Count an allocation."""
        self.allocation = value = self.allocation + 1
        if value > self.peak_allocation:
            self.peak_allocation = value
        self.active = value = self.active + 1
        if value > self.peak_active:
            self.peak_active = value
        self.allocated_bytes = value = self.allocated_bytes + size
        if value > self.peak_allocated_bytes:
            self.peak_allocated_bytes = value
        self.active_bytes = value = self.active_bytes + size
        if value > self.peak_active_bytes:
            self.peak_active_bytes = value
        self.requested_bytes = value = self.requested_bytes + requested
        if value > self.peak_requested_bytes:
            self.peak_requested_bytes = value
        self.increased += 1
        self.increased_bytes += size
        self.increased_requested += requested

    def drop(self, size: int) -> None:
        """Count a requested free."""
        self.allocation -= 1
        self.allocated_bytes -= size

    def retire(self, size: int, requested: int) -> None:
        """Count a completed free."""
        self.active -= 1
        self.active_bytes -= size
        self.requested_bytes -= requested

    def reset_accumulated(self) -> None:
        """Reset the sums of increases and decreases."""
        self.increased = self.increased_bytes = self.increased_requested = 0
        self.origins = (self.allocation, self.allocated_bytes, self.active, self.active_bytes, self.requested_bytes)

    def reset_peak(self) -> None:
        """Reset the peaks."""
        self.peak_allocation, self.peak_allocated_bytes = self.allocation, self.allocated_bytes
        self.peak_active, self.peak_active_bytes = self.active, self.active_bytes
        self.peak_requested_bytes = self.requested_bytes

    def rows(self) -> dict[str, Row]:
        """Return the rows by counter name."""
        up = (self.increased, self.increased_bytes, self.increased, self.increased_bytes, self.increased_requested)
        return {
            name: _row(getattr(self, name), getattr(self, "peak_" + name), up[i], self.origins[i])
            for i, name in enumerate(_HOT)
        }


class PoolCounters:
    """The counters of all pools, of the small pools, or of the large pools."""

    __slots__ = ("inactive_split", "inactive_split_bytes", "reserved_bytes", "segment", "usage")

    def __init__(self) -> None:
        self.usage = Usage()
        self.segment = Counter()
        self.reserved_bytes = Counter()
        self.inactive_split = Counter()
        self.inactive_split_bytes = Counter()

    def change_split(self, num_blocks: int, num_bytes: int) -> None:
        """Change the number and the bytes of free blocks that are smaller than their segment."""
        counter = self.inactive_split
        counter.current = value = counter.current + num_blocks
        if num_blocks > 0:
            counter.increased += num_blocks
            if value > counter.peak:
                counter.peak = value
        counter = self.inactive_split_bytes
        counter.current = value = counter.current + num_bytes
        if num_bytes > 0:
            counter.increased += num_bytes
            if value > counter.peak:
                counter.peak = value

    def counters(self) -> tuple[Counter, ...]:
        """Return the counters that are not in `Usage`."""
        return self.segment, self.reserved_bytes, self.inactive_split, self.inactive_split_bytes

    def reset_accumulated(self) -> None:
        """Reset the sums of increases and decreases."""
        self.usage.reset_accumulated()
        for counter in self.counters():
            counter.reset_accumulated()

    def reset_peak(self) -> None:
        """Reset the peaks."""
        self.usage.reset_peak()
        for counter in self.counters():
            counter.reset_peak()

    def rows(self) -> dict[str, Row]:
        """Return the rows by counter name."""
        return self.usage.rows() | {
            "segment": self.segment.row(),
            "reserved_bytes": self.reserved_bytes.row(),
            "inactive_split": self.inactive_split.row(),
            "inactive_split_bytes": self.inactive_split_bytes.row(),
        }


_EVENTS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")
_ORDER = (
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)


class Stats:
    """All counters that ``torch.cuda.memory_stats`` reports for one device.

    Attributes:
        by_private_pool: Reserved bytes of each private pool ever created: (all, small, large).
    """

    def __init__(self, max_split_size: int) -> None:
        self.all, self.small, self.large = PoolCounters(), PoolCounters(), PoolCounters()
        self.oversize_allocations, self.oversize_segments = Counter(), Counter()
        self.by_private_pool: dict[PoolId, tuple[Counter, Counter, Counter]] = {}
        self.max_split_size = max_split_size
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = 0

    def reserve(self, num_bytes: int, *, small: bool, pool_id: PoolId | None) -> None:
        """Change the reserved bytes of a pool; None is the default pool."""
        self.all.reserved_bytes.change(num_bytes)
        (self.small if small else self.large).reserved_bytes.change(num_bytes)
        if pool_id is not None:
            rows = self.by_private_pool.setdefault(pool_id, (Counter(), Counter(), Counter()))
            rows[0].change(num_bytes)
            rows[1 if small else 2].change(num_bytes)

    def _other_counters(self) -> list[Counter]:
        rows = [counter for rows in self.by_private_pool.values() for counter in rows]
        return [self.oversize_allocations, self.oversize_segments, *rows]

    def reset_accumulated(self) -> None:
        """As ``torch.cuda.reset_accumulated_memory_stats``."""
        for pool in (self.all, self.small, self.large):
            pool.reset_accumulated()
        for counter in self._other_counters():
            counter.reset_accumulated()
        for name in _EVENTS:
            setattr(self, name, 0)

    def reset_peak(self) -> None:
        """As ``torch.cuda.reset_peak_memory_stats``."""
        for pool in (self.all, self.small, self.large):
            pool.reset_peak()
        for counter in self._other_counters():
            counter.reset_peak()

    def as_dict(self) -> dict[str, object]:
        """As ``torch._C._cuda_memoryStats`` returns it (torch 2.13)."""
        result: dict[str, object] = {name: getattr(self, name) for name in _EVENTS}
        result["num_oom_rejections"] = 0
        result["max_split_size"] = -1 if self.max_split_size == UNLIMITED else self.max_split_size
        kinds = {"all": self.all.rows(), "small_pool": self.small.rows(), "large_pool": self.large.rows()}
        for name in _ORDER:
            result[name] = {kind: rows[name] for kind, rows in kinds.items()}
        result["oversize_allocations"] = self.oversize_allocations.row()
        result["oversize_segments"] = self.oversize_segments.row()
        result["reserved_bytes_by_private_pools"] = {
            pool_id: {"all": rows[0].row(), "small_pool": rows[1].row(), "large_pool": rows[2].row()}
            for pool_id, rows in self.by_private_pool.items()
        }
        return result
