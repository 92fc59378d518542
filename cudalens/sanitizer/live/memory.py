"""Which storage is which allocation: torch tells addresses, operators show tensors.

torch's callbacks give the address of a block that was handed out or came back, and not its size. The size is learned
from the storage, when an operator first shows it. What is known of a storage hangs on torch's storage object, which
exists as long as the storage does, so that one look finds it and its end takes it away.

An `Allocation` hangs there as soon as an operator shows the storage. Where it lies among what was there before
(`settle`), and which bytes of it a view has (`resolve`), is found out when the operator is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import torch

from cudalens.sanitizer.engine.accesses import OP_HEAD, OP_STEP, Allocation, Op, Use
from cudalens.sanitizer.engine.blocks import NOWHERE, Block
from cudalens.sanitizer.engine.cells import Cell
from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.regions import Region

#: Each shape once: shapes stay for a while, and Python's cyclic garbage collector looks at every object that does.
SHAPES: Final[dict[torch.Size, torch.Size]] = {}

_MAX_SHAPES: Final = 10_000

#: Added to host addresses: those of a virtual device may equal them.
HOST_BASE: Final = 1 << 56

#: Bytes by which torch's caching allocator rounds up (kMinBlockSize).
_GRANULE: Final = 512

_MAX_LAYOUTS: Final = 512
_MANY_CELLS: Final = 8


class Memory:
    """The storages of one run.

    Args:
        detector: Told of allocations.
        key: Name of the attribute of storages.
        run: Marks allocations of this run.
        told: Called with ``("free", allocation)`` and ``("record_stream", allocation, line)``, for the log.
        host_end: Called with the allocation of host memory whose storage has died.

    Attributes:
        plain: The allocation of all host memory that nothing asynchronous touched.
        live: Lives of the GPUs' storages that were shown, by address, until they are given back.
    """

    def __init__(
        self,
        detector: Detector,
        key: str,
        run: object,
        told: Callable[[tuple[Any, ...]], None],
        host_end: Callable[[Allocation], None],
    ) -> None:
        self._detector, self._key, self._run, self._told = detector, key, run, told
        self._host_end = host_end
        self._blocks = detector.shadow.by_start
        self._handed: dict[int, Any] = {}
        self._recorded: dict[int, set[Line]] = {}
        self.live: Final[dict[int, Allocation]] = {}
        self.plain: Final = Allocation(NOWHERE, 0, 0, None)
        self.plain.run, self.plain.device = run, -2

    @property
    def num_live(self) -> int:
        """Allocations that are known and handed out."""
        return sum(block.allocation is not None and block.allocation.is_live for block in self._detector.shadow.blocks)

    def forget(self) -> None:
        """Let go of all that is remembered: what hangs on storages that live on is empty from now on."""
        if len(SHAPES) > _MAX_SHAPES:
            SHAPES.clear()
        self.plain.run = None
        self._forget(self._detector.shadow.clear())

    def forget_devices(self) -> None:
        """End all allocations of GPUs: their storages are host memory from now on."""
        self._forget(self._detector.shadow.clear(HOST_BASE))

    def _forget(self, blocks: Iterable[Block]) -> None:
        """End the allocations of GPUs, and those of some blocks, which the shadow has dropped."""
        self._handed.clear()
        self._recorded.clear()
        for main in [*self.live.values(), *(block.allocation for block in blocks if block.allocation is not None)]:
            for allocation in (main, *(main.aliases or ())):
                allocation.run = allocation.whole = allocation.site = None
                allocation.is_live, allocation.block = False, NOWHERE
        self.live.clear()

    def handed_out(self, address: int, site: Any, line: Line) -> None:
        """The allocator handed out the block at an address, outside of any operator.

        Args:
            address: Where.
            site: Where the program asked for it.
            line: Whose pool it came from.
        """
        self._handed[address] = (site, line)

    def given_back(self, address: int, site: Any = None) -> None:
        """The block at an address went back to the allocator.

        Args:
            address: Where.
            site: Where the program let go of it; None where its owner alone has used it.
        """
        if self._handed:
            self._handed.pop(address, None)
        if self._recorded:
            self._recorded.pop(address, None)
        block = self._blocks.get(address)
        if block is None or (allocation := block.allocation) is None or not allocation.is_live:
            return
        if site is None and allocation.recorded is None and allocation.aliases is None:
            allocation.is_live, allocation.run = False, None  # the everyday case; there is nothing to tell
            return
        allocation.freed_site = site  # it may turn out to be freed too early
        for alias in allocation.aliases or ():
            if self.live.get(alias.start) is alias:
                del self.live[alias.start]
        self._detector.free(allocation)
        self._told(("free", allocation))

    def record_stream(self, address: int, line: Line) -> None:
        """``Tensor.record_stream`` of a tensor in the block at an address."""
        block = self._detector.shadow.at(address)
        allocation = None if block is None else block.allocation
        if allocation is None or not allocation.is_live or address in self._handed:
            self._recorded.setdefault(address, set()).add(line)  # no operator has shown it yet
            return
        allocation.is_shared = True
        self._detector.record_stream(allocation, line)
        self._told(("record_stream", allocation, line))

    def meet(self, storage: Any, device: int, site: Any, line: Line | None) -> Allocation:
        """The allocation of a GPU's storage that is new here. It has no place in the shadow yet.

        Args:
            storage: The storage.
            device: Index of its GPU.
            site: Of the operator that shows it; None where it is an argument's: it was made elsewhere.
            line: The operator's, likewise.
        """
        num_bytes = storage.nbytes()
        if not num_bytes:  # not kept with the storage, which may grow
            allocation = Allocation(NOWHERE, 0, 0, line)
        else:
            address = storage.data_ptr()
            allocation = Allocation(NOWHERE, address, num_bytes, line)
            storage.__dict__[self._key] = allocation
            if line is None:
                self.live.setdefault(address, allocation)  # there may be another storage over the same memory
            else:
                self.live[address] = allocation
        allocation.site, allocation.run, allocation.device = site, self._run, device
        return allocation

    def settled(self, allocation: Allocation) -> Allocation:
        """A allocation, with its place in the shadow, for those who cannot wait until an operation is judged."""
        if allocation.block is NOWHERE and allocation.num_bytes and allocation.run is self._run:
            self._settle_slowly(allocation)
        return allocation

    def settle(self, allocation: Allocation, is_filled: bool) -> None:  # noqa: C901 - the path of every result
        """Find out what was where a allocation is now: the everyday case without a detour.

        Args:
            allocation: The allocation.
            is_filled: The operation that showed it is about to write all of it, on its owner's line.
        """
        line = allocation.owner
        if line is None or self._recorded:
            return self._settle_slowly(allocation)
        num_bytes, address = allocation.num_bytes, allocation.start
        block = self._blocks.get(address)
        end = address + (num_bytes + _GRANULE - 1) // _GRANULE * _GRANULE
        if block is None or block.end != end:
            if is_filled and address not in self._handed:
                block = self._detector.shadow.supersede(address, end, address + num_bytes, line)
            else:
                block = None
            if block is None:
                return self._settle_slowly(allocation)
        elif block.releases or (block.allocation.is_live if block.allocation is not None else address in self._handed):
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
        handed = self._handed.pop(address, None)
        if handed is None and self._is_alias(allocation):
            return
        if handed is not None:
            allocation.site, allocation.owner = handed
        self._detector.settle(allocation, -(-allocation.num_bytes // _GRANULE) * _GRANULE)
        for recorded in self._recorded.pop(address, ()):
            self.record_stream(address, recorded)

    def _is_alias(self, allocation: Allocation) -> bool:
        """Whether it is another view of a living allocation, where a second storage shows the same memory."""
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
        """Watch host memory that a copy works on while the host goes on."""
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

    def _view(self, op: Op, at: int, may_fill: bool) -> Cell | None:
        offset, stride = op[at]
        allocation, shape, size = op[at + 6], op[at + 3], op[at + 5].itemsize
        if allocation.block is NOWHERE and allocation.num_bytes:
            is_filled = may_fill and op[at + 1] and allocation.owner is op[2] and not offset
            self.settle(allocation, is_filled and is_dense(shape, stride, size, allocation.num_bytes))
        return self._cell(allocation, offset, shape, stride, size)

    def _cell(
        self, allocation: Allocation, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], size: int
    ) -> Cell | None:
        """The exact bytes of a view of a storage; None where it has no elements."""
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

    def note(self, op: Op, allocation: Allocation, tensor: torch.Tensor, use: Use, is_write: bool) -> None:
        """Add an access to an operation, whatever the tensor's layout; `resolve` finds its cell."""
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

    def resolve(self, op: Op, may_fill: bool) -> None:  # noqa: C901 - the path of every operation
        """Find the cell of each access of an operation; accesses of no element are taken out.

        What is noted instead of a cell is None for all bytes of an allocation that had no place yet, and the offset and
        strides, in elements, of a view.

        Args:
            op: The operation.
            may_fill: It is about to be launched on its own line.
        """
        is_any_empty = False
        for at in range(OP_HEAD, len(op), OP_STEP):
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
            for at in reversed(range(OP_HEAD, len(op), OP_STEP)):
                if op[at] is None:
                    del op[at : at + OP_STEP]


class HostEnd:
    """Dies with a storage of host memory, and says so."""

    __slots__ = ("_life", "_tell")

    def __init__(self, tell: Callable[[Allocation], None], allocation: Allocation) -> None:
        self._tell, self._life = tell, allocation

    def __del__(self) -> None:
        self._tell(self._life)


@lru_cache(4096)
def is_dense(shape: tuple[int, ...], stride: tuple[int, ...], itemsize: int, num_bytes: int) -> bool:
    """Whether a strided tensor at the start of a storage fills it, in whatever order."""
    region = region_of(0, shape, stride, itemsize)
    return region is not None and region.run == num_bytes


def region_of(address: int, shape: tuple[int, ...], stride: tuple[int, ...], itemsize: int) -> Region | None:
    """The bytes of a strided tensor, with dimensions that lie side by side made one; None where it has no elements.

    Args:
        address: Of its first element.
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
