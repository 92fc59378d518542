"""Map storages to allocations: torch's callbacks have addresses, operators have tensors.

torch's callbacks have the address of an allocated or freed block, and not its size. The size is that of the storage
when an operator first accesses it. The `Allocation` of a storage is an attribute of torch's storage object, so that it
is found with one lookup and is released with the storage.

It is created when an operator first accesses the storage. Its place in the shadow (`settle`) and the bytes of a view
(`resolve`) are determined when the operator is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import torch

from cudalens.sanitizer.engine.accesses import NUM_ACCESS_FIELDS, NUM_HEAD_FIELDS, Allocation, Line, Operand, Operation
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.records import Region
from cudalens.sanitizer.engine.shadow import NOWHERE, Block, Cell

#: Each shape once: Python's cyclic garbage collector visits every object that is kept.
SHAPES: Final[dict[torch.Size, torch.Size]] = {}

_MAX_SHAPES: Final = 10_000

#: Added to host addresses, because those of a virtual device may be equal.
HOST_BASE: Final = 1 << 56

#: Bytes by which torch's caching allocator rounds up (kMinBlockSize).
_GRANULE: Final = 512

_MAX_LAYOUTS: Final = 512
_MANY_CELLS: Final = 8


class Memory:
    """The storages of one run.

    Args:
        detector: Receives allocations.
        key: Name of the attribute of storages.
        run: Identifies allocations of this run.
        log: Called with ``("free", allocation)`` and ``("record_stream", allocation, line)``.
        host_end: Called with the allocation of host memory whose storage was released.

    Attributes:
        plain: The allocation of all host memory that nothing asynchronous accessed.
        live: Allocations of GPU storages by address, until they are freed.
    """

    def __init__(
        self,
        detector: Detector,
        key: str,
        run: object,
        log: Callable[[tuple[Any, ...]], None],
        host_end: Callable[[Allocation], None],
    ) -> None:
        self._detector, self._key, self._run, self._log = detector, key, run, log
        self._host_end = host_end
        self._blocks = detector.shadow.by_start
        self._unseen: dict[int, Any] = {}
        self._recorded: dict[int, set[Line]] = {}
        self.live: Final[dict[int, Allocation]] = {}
        self.plain: Final = Allocation(NOWHERE, 0, 0, None)
        self.plain.run, self.plain.device = run, -2

    @property
    def num_live(self) -> int:
        """Number of live allocations in the shadow."""
        return sum(block.allocation is not None and block.allocation.is_live for block in self._detector.shadow.blocks)

    def forget(self) -> None:
        """Drop everything; the attributes of storages that still exist are empty from now on."""
        if len(SHAPES) > _MAX_SHAPES:
            SHAPES.clear()
        self.plain.run = None
        self._forget(self._detector.shadow.clear())

    def forget_devices(self) -> None:
        """End all allocations of GPUs: their storages are host memory from now on."""
        self._forget(self._detector.shadow.clear(HOST_BASE))

    def _forget(self, blocks: Iterable[Block]) -> None:
        """End the allocations of GPUs, and those of some blocks, which the shadow has dropped."""
        self._unseen.clear()
        self._recorded.clear()
        for main in [*self.live.values(), *(block.allocation for block in blocks if block.allocation is not None)]:
            for allocation in (main, *(main.aliases or ())):
                allocation.run = allocation.whole = allocation.site = None
                allocation.is_live, allocation.block = False, NOWHERE
        self.live.clear()

    def allocated(self, address: int, site: Any, line: Line) -> None:
        """A block was allocated outside of any operator.

        Args:
            address: Its address.
            site: Call site of the allocation.
            line: Line whose pool it came from.
        """
        self._unseen[address] = (site, line)

    def freed(self, address: int, site: Any = None) -> None:
        """A block was freed.

        Args:
            address: Its address.
            site: Call site of the release; None if only its owner has used it.
        """
        if self._unseen:
            self._unseen.pop(address, None)
        if self._recorded:
            self._recorded.pop(address, None)
        block = self._blocks.get(address)
        if block is None or (allocation := block.allocation) is None or not allocation.is_live:
            return
        if site is None and allocation.recorded is None and allocation.aliases is None:
            allocation.is_live, allocation.run = False, None  # the common case; the detector need not know
            return
        allocation.freed_site = site  # for reports of a use after free
        for alias in allocation.aliases or ():
            if self.live.get(alias.start) is alias:
                del self.live[alias.start]
        self._detector.free(allocation)
        self._log(("free", allocation))

    def record_stream(self, address: int, line: Line) -> None:
        """``Tensor.record_stream`` of a tensor in the block at an address."""
        block = self._detector.shadow.at(address)
        allocation = None if block is None else block.allocation
        if allocation is None or not allocation.is_live or address in self._unseen:
            self._recorded.setdefault(address, set()).add(line)  # no operator has accessed it yet
            return
        allocation.is_shared = True
        self._detector.record_stream(allocation, line)
        self._log(("record_stream", allocation, line))

    def meet(self, storage: Any, device: int, site: Any, line: Line | None) -> Allocation:
        """Create the allocation of a GPU's storage. It has no place in the shadow yet.

        Args:
            storage: The storage.
            device: Index of its GPU.
            site: Call site of the operator that returned it; None for an argument, which was created elsewhere.
            line: Line of that operator; None for an argument.
        """
        num_bytes = storage.nbytes()
        if not num_bytes:  # not kept with the storage, which may grow
            allocation = Allocation(NOWHERE, 0, 0, line)
        else:
            address = storage.data_ptr()
            allocation = Allocation(NOWHERE, address, num_bytes, line)
            storage.__dict__[self._key] = allocation
            if line is None:
                self.live.setdefault(address, allocation)  # another storage may have the same memory
            else:
                self.live[address] = allocation
        allocation.site, allocation.run, allocation.device = site, self._run, device
        return allocation

    def settled(self, allocation: Allocation) -> Allocation:
        """Place an allocation in the shadow now, if it is not, and return it."""
        if allocation.block is NOWHERE and allocation.num_bytes and allocation.run is self._run:
            self._settle_slowly(allocation)
        return allocation

    def settle(self, allocation: Allocation, is_filled: bool) -> None:
        """Place an allocation in the shadow, with a fast path for the common case.

        Args:
            allocation: The allocation.
            is_filled: Whether its first operation writes all of it on its owner's line.
        """
        line = allocation.owner
        if line is None or self._recorded:
            return self._settle_slowly(allocation)
        num_bytes, address = allocation.num_bytes, allocation.start
        block = self._blocks.get(address)
        end = address + (num_bytes + _GRANULE - 1) // _GRANULE * _GRANULE
        if block is None or block.end != end:
            if is_filled and address not in self._unseen:
                block = self._detector.shadow.supersede(address, end, address + num_bytes, line)
            else:
                block = None
            if block is None:
                return self._settle_slowly(allocation)
        elif block.releases or (block.allocation.is_live if block.allocation is not None else address in self._unseen):
            return self._settle_slowly(allocation)
        former = block.allocation
        if block.past and block.past_from < address + num_bytes:
            if is_filled and block.past_line is line:
                block.past_from = address + num_bytes
            else:
                block.recall(self._detector.clocks.host.vector)
        if block.num_cells > _MANY_CELLS:
            block.drop_empty()
        allocation.block, allocation.generation = block, block.generation
        block.allocation = allocation
        block.generation += 1
        if former is not None and former.num_bytes == num_bytes:
            allocation.whole = former.whole
        else:
            allocation.whole = self._whole(block, address, num_bytes)
        return None

    def _whole(self, block: Block, address: int, num_bytes: int) -> Cell:
        key = (address, num_bytes)
        cell = block.layouts.get(key)
        if cell is None:
            cell = block.layouts[key] = block.cell(Region(address, num_bytes), self._detector.clocks.host.vector)
        return cell

    def _settle_slowly(self, allocation: Allocation) -> None:
        address = allocation.start
        handed = self._unseen.pop(address, None)
        if handed is None and self._is_alias(allocation):
            return
        if handed is not None:
            allocation.site, allocation.owner = handed
        self._detector.settle(allocation, -(-allocation.num_bytes // _GRANULE) * _GRANULE)
        for recorded in self._recorded.pop(address, ()):
            self.record_stream(address, recorded)

    def _is_alias(self, allocation: Allocation) -> bool:
        """Return whether it is the memory of a live allocation, of which a second storage exists."""
        address, num_bytes = allocation.start, allocation.num_bytes
        block = self._detector.shadow.find(address, address + num_bytes)
        main = None if block is None else block.allocation
        if main is None or not main.is_live:
            return False
        allocation.block, allocation.owner, allocation.generation = main.block, main.owner, main.generation
        allocation.name, allocation.site = main.name, main.site
        allocation.whole = main.block.cell(Region(address, num_bytes), self._detector.clocks.host.vector)
        main.aliases = [*(main.aliases or ()), allocation]
        main.is_shared = True
        return True

    def track_host(self, tensor: torch.Tensor) -> Allocation:
        """Track host memory that a copy accesses asynchronously."""
        storage: Any = tensor.untyped_storage()
        allocation: Allocation | None = storage.__dict__.get(self._key)
        if allocation is not None and allocation.run is self._run and allocation is not self.plain:
            return allocation
        address, num_bytes = storage.data_ptr() + HOST_BASE, storage.nbytes()
        allocation = self._detector.alloc("", address, num_bytes, self._detector.clocks.host)
        allocation.run = self._run
        storage.__dict__[self._key] = allocation
        storage.__dict__[f"{self._key}_end"] = HostEnd(self._host_end, allocation)
        return allocation

    def _view(self, op: Operation, at: int, may_fill: bool) -> Cell | None:
        offset, stride = op[at]
        allocation, shape, size = op[at + 6], op[at + 3], op[at + 5].itemsize
        if allocation.block is NOWHERE and allocation.num_bytes:
            is_filled = may_fill and op[at + 1] and allocation.owner is op[2] and not offset
            self.settle(allocation, is_filled and is_dense(shape, stride, size, allocation.num_bytes))
        return self._cell(allocation, offset, shape, stride, size)

    def _cell(
        self, allocation: Allocation, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], size: int
    ) -> Cell | None:
        """Return the cell of a view of a storage, or None if it has no elements."""
        address = allocation.start + offset * size
        layouts = allocation.block.layouts
        cell = layouts.get((address, shape, stride, size))
        if cell is None:
            region = region_of(address, shape, stride, size)
            if region is None:
                return None
            if len(layouts) >= _MAX_LAYOUTS:
                layouts.clear()
            cell = allocation.block.cell(region, self._detector.clocks.host.vector)
            layouts[address, shape, stride, size] = cell
        return cell

    def note(self, op: Operation, allocation: Allocation, tensor: torch.Tensor, use: Operand, is_write: bool) -> None:
        """Add an access of a tensor of any layout to an operation; `resolve` finds its cell."""
        if allocation.owner is not op[2]:
            allocation.is_shared = True
        shape = tensor.shape
        shape = SHAPES.setdefault(shape, shape)
        if allocation.num_bytes == tensor.nbytes and tensor.is_contiguous():
            op += (allocation.whole, is_write, use, shape, None, tensor.dtype, allocation)
        else:
            stride = tensor.stride()
            view = (tensor.storage_offset(), stride)
            op += (view, is_write, use, shape, None if tensor.is_contiguous() else stride, tensor.dtype, allocation)

    def resolve(self, op: Operation, may_fill: bool) -> None:
        """Find the cell of each access of an operation, and remove accesses without elements.

        Before that, an access has None instead of a cell for all bytes of an allocation that is not placed yet, or the
        offset and strides of a view, in elements.

        Args:
            op: The operation.
            may_fill: Whether it is about to be launched on its own line.
        """
        is_any_empty = False
        for at in range(NUM_HEAD_FIELDS, len(op), NUM_ACCESS_FIELDS):
            cell = op[at]
            if cell is None:
                allocation: Allocation = op[at + 6]
                if allocation.block is NOWHERE and allocation.num_bytes:
                    self.settle(allocation, may_fill and op[at + 1] and allocation.owner is op[2])
                op[at] = cell = allocation.whole
            elif type(cell) is tuple:
                op[at] = cell = self._view(op, at, may_fill)
            else:
                continue
            if cell is None:
                is_any_empty = True
        if is_any_empty:
            for at in reversed(range(NUM_HEAD_FIELDS, len(op), NUM_ACCESS_FIELDS)):
                if op[at] is None:
                    del op[at : at + NUM_ACCESS_FIELDS]


class HostEnd:
    """Calls a function when a storage of host memory is released, of which it is an attribute."""

    __slots__ = ("_allocation", "_call")

    def __init__(self, call: Callable[[Allocation], None], allocation: Allocation) -> None:
        self._call, self._allocation = call, allocation

    def __del__(self) -> None:
        self._call(self._allocation)


@lru_cache(4096)
def is_dense(shape: tuple[int, ...], stride: tuple[int, ...], itemsize: int, num_bytes: int) -> bool:
    """Return whether a strided tensor at the start of a storage fills it."""
    region = region_of(0, shape, stride, itemsize)
    return region is not None and region.run == num_bytes


def region_of(address: int, shape: tuple[int, ...], stride: tuple[int, ...], itemsize: int) -> Region | None:
    """Return the bytes of a strided tensor, with adjacent dimensions merged, or None if it has no elements.

    Args:
        address: Address of its first element.
        shape: Its sizes.
        stride: Its strides, in elements; an expanded dimension has 0.
        itemsize: Bytes of an element.
    """
    run = itemsize
    shapes: list[int] = []
    strides: list[int] = []
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size == 0:
            return None
        if size == 1 or step == 0:
            continue
        if not shapes and step * itemsize == run:
            run *= size
        elif shapes and step * itemsize == strides[-1] * shapes[-1]:
            shapes[-1] *= size
        else:
            shapes.append(size)
            strides.append(step * itemsize)
    return Region(address, run, tuple(shapes), tuple(strides))
