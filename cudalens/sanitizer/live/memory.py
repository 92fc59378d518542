"""Which storage is which allocation: torch tells addresses, operators show tensors.

torch's callbacks give the address of a block that was handed out or came back, and not its size. The size is learned
from the storage, when an operator first shows it. What is known of a storage hangs on torch's storage object, which
lives as long as the storage does, so that one look finds it and its end takes it away.

A `Life` hangs there as soon as an operator shows the storage. Where it lies among what was there before (`settle`), and
which bytes of it a view has (`resolve`), is found out when the operator is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import torch

from cudalens.sanitizer.engine.accesses import OP_HEAD, OP_STEP, Life, Op, Use
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
        run: Marks lives of this run.
        told: Called with ``("free", life)`` and ``("record_stream", life, line)``, for the log.
        host_end: Called with the life of host memory whose storage has died.

    Attributes:
        plain: The life of all host memory that nothing asynchronous touched.
        live: Lives of the GPUs' storages that were shown, by address, until they are given back.
    """

    def __init__(
        self,
        detector: Detector,
        key: str,
        run: object,
        told: Callable[[tuple[Any, ...]], None],
        host_end: Callable[[Life], None],
    ) -> None:
        self._detector, self._key, self._run, self._told = detector, key, run, told
        self._host_end = host_end
        self._blocks = detector.shadow.by_start
        self._handed: dict[int, Any] = {}
        self._recorded: dict[int, set[Line]] = {}
        self.live: Final[dict[int, Life]] = {}
        self.plain: Final = Life(NOWHERE, 0, 0, None)
        self.plain.run, self.plain.device = run, -2

    @property
    def num_live(self) -> int:
        """Allocations that are known and handed out."""
        return sum(block.life is not None and block.life.is_live for block in self._detector.shadow.blocks)

    def forget(self) -> None:
        """Let go of all that is remembered: what hangs on storages that live on is empty from now on."""
        if len(SHAPES) > _MAX_SHAPES:
            SHAPES.clear()
        self.plain.run = None
        self._handed.clear()
        self._recorded.clear()
        lives = list(self.live.values())
        lives += [block.life for block in self._detector.shadow.blocks if block.life is not None]
        for main in lives:
            for life in (main, *(main.aliases or ())):
                life.run, life.is_live, life.whole, life.site, life.block = None, False, None, None, NOWHERE
        self.live.clear()
        self._detector.shadow.clear()

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
        if block is None or (life := block.life) is None or not life.is_live:
            return
        if site is None and life.recorded is None and life.aliases is None:
            life.is_live, life.run = False, None  # the everyday case; there is nothing to tell
            return
        life.freed_site = site  # it may turn out to be freed too early
        for alias in life.aliases or ():
            if self.live.get(alias.start) is alias:
                del self.live[alias.start]
        self._detector.free(life)
        self._told(("free", life))

    def record_stream(self, address: int, line: Line) -> None:
        """``Tensor.record_stream`` of a tensor in the block at an address."""
        block = self._detector.shadow.at(address)
        life = None if block is None else block.life
        if life is None or not life.is_live or address in self._handed:
            self._recorded.setdefault(address, set()).add(line)  # no operator has shown it yet
            return
        life.is_shared = True
        self._detector.record_stream(life, line)
        self._told(("record_stream", life, line))

    def meet(self, storage: Any, device: int, site: Any, line: Line | None) -> Life:
        """The life of a GPU's storage that is new here. It has no place in the shadow yet.

        Args:
            storage: The storage.
            device: Index of its GPU.
            site: Of the operator that shows it; None where it is an argument's: it was made elsewhere.
            line: The operator's, likewise.
        """
        num_bytes = storage.nbytes()
        if not num_bytes:  # not kept with the storage, which may grow
            life = Life(NOWHERE, 0, 0, line)
        else:
            address = storage.data_ptr()
            life = Life(NOWHERE, address, num_bytes, line)
            storage.__dict__[self._key] = life
            if line is None:
                self.live.setdefault(address, life)  # there may be another storage over the same memory
            else:
                self.live[address] = life
        life.site, life.run, life.device = site, self._run, device
        return life

    def settled(self, life: Life) -> Life:
        """A life, with its place in the shadow, for those who cannot wait until an operation is judged."""
        if life.block is NOWHERE and life.num_bytes and life.run is self._run:
            self._settle_slowly(life)
        return life

    def settle(self, life: Life, is_filled: bool) -> None:  # noqa: C901 - the path of every result
        """Find out what was where a life is now: the everyday case without a detour.

        Args:
            life: The life.
            is_filled: The operation that showed it is about to write all of it, on its owner's line.
        """
        line = life.owner
        if line is None or self._recorded:
            return self._settle_slowly(life)
        num_bytes, address = life.num_bytes, life.start
        block = self._blocks.get(address)
        end = address + (num_bytes + _GRANULE - 1) // _GRANULE * _GRANULE
        if block is None or block.end != end:
            if is_filled and address not in self._handed:
                block = self._detector.shadow.supersede(address, end, address + num_bytes, line)
            else:
                block = None
            if block is None:
                return self._settle_slowly(life)
        elif block.releases or (block.life.is_live if block.life is not None else address in self._handed):
            return self._settle_slowly(life)
        former = block.life
        if block.past and block.past_from < address + num_bytes:
            if is_filled and block.past_line is line:
                block.past_from = address + num_bytes
            else:
                block.recall(self._detector.clocks.host.vector)
        if block.num_cells > _MANY_CELLS:
            block.drop_empty()
        life.block, life.generation = block, block.generation
        block.life = life
        block.generation += 1
        if former is not None and former.num_bytes == num_bytes:
            life.whole = former.whole
        else:
            life.whole = self._whole(block, address, num_bytes)
        return None

    def _whole(self, block: Block, address: int, num_bytes: int) -> Cell:
        key = (address, num_bytes)
        cell = block.layouts.get(key)
        if cell is None:
            cell = block.layouts[key] = block.cell(Region(address, num_bytes), self._detector.clocks.host.vector)
        return cell

    def _settle_slowly(self, life: Life) -> None:
        address = life.start
        handed = self._handed.pop(address, None)
        if handed is None and self._is_alias(life):
            return
        if handed is not None:
            life.site, life.owner = handed
        self._detector.settle(life, -(-life.num_bytes // _GRANULE) * _GRANULE)
        for recorded in self._recorded.pop(address, ()):
            self.record_stream(address, recorded)

    def _is_alias(self, life: Life) -> bool:
        """Whether it is another view of a living allocation, where a second storage shows the same memory."""
        address, num_bytes = life.start, life.num_bytes
        block = self._detector.shadow.find(address, address + num_bytes)
        main = None if block is None else block.life
        if main is None or not main.is_live:
            return False
        life.block, life.owner, life.generation = main.block, main.owner, main.generation
        life.name, life.site = main.name, main.site
        life.whole = main.block.cell(Region(address, num_bytes), self._detector.clocks.host.vector)
        main.aliases = [*(main.aliases or ()), life]
        main.is_shared = True
        return True

    def track_host(self, tensor: torch.Tensor) -> Life:
        """Watch host memory that a copy works on while the host goes on."""
        storage: Any = tensor.untyped_storage()
        life: Life | None = storage.__dict__.get(self._key)
        if life is not None and life.run is self._run and life is not self.plain:
            return life
        address, num_bytes = storage.data_ptr() + HOST_BASE, storage.nbytes()
        life = self._detector.alloc("", address, num_bytes, self._detector.clocks.host)
        life.run = self._run
        storage.__dict__[self._key] = life
        storage.__dict__[f"{self._key}_end"] = HostEnd(self._host_end, life)
        return life

    def _view(self, op: Op, at: int, may_fill: bool) -> Cell | None:
        offset, stride = op[at]
        life, shape, size = op[at + 6], op[at + 3], op[at + 5].itemsize
        if life.block is NOWHERE and life.num_bytes:
            is_filled = may_fill and op[at + 1] and life.owner is op[2] and not offset
            self.settle(life, is_filled and is_dense(shape, stride, size, life.num_bytes))
        return self._cell(life, offset, shape, stride, size)

    def _cell(self, life: Life, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], size: int) -> Cell | None:
        """The exact bytes of a view of a storage; None where it has no elements."""
        address = life.start + offset * size
        layouts = life.block.layouts
        cell = layouts.get((address, shape, stride, size))
        if cell is None:
            region = region_of(address, shape, stride, size)
            if region is None:
                return None
            if len(layouts) >= _MAX_LAYOUTS:
                layouts.clear()
            cell = life.block.cell(region, self._detector.clocks.host.vector)
            layouts[address, shape, stride, size] = cell
        return cell

    def note(self, op: Op, life: Life, tensor: torch.Tensor, use: Use, is_write: bool) -> None:
        """Add an access to an operation, whatever the tensor's layout; `resolve` finds its cell."""
        if life.owner is not op[2]:
            life.is_shared = True
        shape = tensor.shape
        shape = SHAPES.setdefault(shape, shape)
        if life.num_bytes == tensor.nbytes and tensor.is_contiguous():
            op += (life.whole, is_write, use, shape, None, tensor.dtype, life)
        else:
            stride = tensor.stride()
            view = (tensor.storage_offset(), stride)
            op += (view, is_write, use, shape, None if tensor.is_contiguous() else stride, tensor.dtype, life)

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
                life: Life = op[at + 6]
                if life.block is NOWHERE and life.num_bytes:
                    self.settle(life, may_fill and op[at + 1] and life.owner is op[2])
                op[at] = cell = life.whole
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

    def __init__(self, tell: Callable[[Life], None], life: Life) -> None:
        self._tell, self._life = tell, life

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
