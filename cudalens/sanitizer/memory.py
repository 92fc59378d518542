"""Which storage is which allocation: torch tells addresses, operators show tensors.

torch's callbacks give the address of a block that was handed out or came back, and not its size. The size is learned
from the storage, when an operator first shows it. What is known of a storage hangs on torch's storage object, which
lives as long as the storage does, so that one look finds it and its end takes it away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from cudalens.sanitizer.engine.accesses import Life, Op, Use
from cudalens.sanitizer.engine.blocks import Block
from cudalens.sanitizer.engine.cells import Cell
from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.regions import Region

SHAPES: Final[dict[torch.Size, torch.Size]] = {}
"""Each shape once: shapes stay for a while, and Python's cyclic garbage collector looks at every object that does."""

_MAX_SHAPES: Final = 10_000

HOST_BASE: Final = 1 << 56
"""Added to host addresses: those of a virtual device may equal them."""

_GRANULE: Final = 512
"""Bytes by which torch's caching allocator rounds up (kMinBlockSize)."""

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
        self.plain: Final = Life(Block(0, 0), 0, 0, None)
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
        for block in self._detector.shadow.blocks:
            if block.life is not None:
                for life in (block.life, *(block.life.aliases or ())):
                    life.run, life.is_live, life.whole, life.site, life.block = (
                        None,
                        False,
                        None,
                        None,
                        self.plain.block,
                    )

    def handed_out(self, address: int, site: Any, line: Line | None) -> None:
        """The allocator handed out the block at an address. It takes no lock.

        Args:
            address: Where.
            site: Where the program asked for it; None inside of an operator, which will show it.
            line: Whose pool it came from; None inside of an operator.
        """
        self._handed[address] = (site, line)

    def given_back(self, address: int, site_of: Callable[[], Any]) -> None:
        """The block at an address went back to the allocator."""
        if self._handed:
            self._handed.pop(address, None)
        if self._recorded:
            self._recorded.pop(address, None)
        block = self._blocks.get(address)
        if block is None or (life := block.life) is None or not life.is_live:
            return
        if life.recorded is None and life.aliases is None and block.is_used_only_by(life.owner):
            life.is_live, life.run = False, None  # the everyday case; there is nothing to tell
            return
        life.freed_site = site_of()  # it may turn out to be freed too early
        self._detector.free(life)
        self._told(("free", life))

    def record_stream(self, address: int, line: Line) -> None:
        """``Tensor.record_stream`` of a tensor in the block at an address."""
        block = self._detector.shadow.at(address)
        life = None if block is None else block.life
        if life is None or not life.is_live or address in self._handed:
            self._recorded.setdefault(address, set()).add(line)  # no operator has shown it yet
            return
        self._detector.record_stream(life, line)
        self._told(("record_stream", life, line))

    def meet_result(  # noqa: C901 - the path of every result, where a call costs more than a branch
        self, tensor: torch.Tensor, storage: Any, site: Any, line: Line, device: int, is_filled: bool
    ) -> Life:
        """`meet` for what an operator on a GPU returned: the everyday case without a detour.

        Args:
            tensor: What it returned.
            storage: Its storage.
            site: Of the operator.
            line: Its line.
            device: Its GPU.
            is_filled: The operator is about to be launched on this line; it writes all of the tensor.
        """
        num_bytes, address = storage.nbytes(), storage.data_ptr()
        block = self._blocks.get(address)
        end = address + (num_bytes + _GRANULE - 1) // _GRANULE * _GRANULE
        is_filled = is_filled and bool(num_bytes) and num_bytes == tensor.nbytes and tensor.is_contiguous()
        if self._recorded:
            return self.meet(tensor, storage, site, line, device=device)
        if block is None or block.end != end:
            if is_filled and address not in self._handed:
                block = self._detector.shadow.supersede(address, end, address + num_bytes, line)
            else:
                block = None
            if block is None:
                return self.meet(tensor, storage, site, line, device=device)
        elif block.releases or block.life is None or block.life.is_live:
            return self.meet(tensor, storage, site, line, device=device)
        former = block.life
        if block.past and block.past_from < address + num_bytes:
            if is_filled and block.past_line is line:
                block.past_from = address + num_bytes
            else:
                block.recall(self._detector.clocks.host.vector)
        if block.num_cells > _MANY_CELLS:
            block.drop_empty()
        life = block.life = Life(block, address, num_bytes, line, block.generation)
        block.generation += 1
        if former is not None and former.num_bytes == num_bytes:
            life.whole = former.whole
        else:
            life.whole = self._whole(block, address, num_bytes)
        life.site, life.run, life.device = site, self._run, device
        if is_filled:
            shape = tensor.shape
            life.shape, life.dtype = SHAPES.setdefault(shape, shape), tensor.dtype
        storage.__dict__[self._key] = life
        return life

    def _whole(self, block: Block, address: int, num_bytes: int) -> Cell | None:
        if not num_bytes:
            return None
        key = (address, num_bytes)
        cell = block.layouts.get(key)
        if cell is None:
            cell = block.layouts[key] = block.cell(Region(address, num_bytes), self._detector.clocks.host.vector)
        return cell

    def meet(self, tensor: torch.Tensor, storage: Any, site: Any, line: Line | None, *, device: int = -1) -> Life:
        """The life of a storage that is new here.

        Args:
            tensor: One that has it.
            storage: The storage.
            site: Of the operator that shows it; None where the tensor is an argument: it was made elsewhere.
            line: The operator's, likewise.
            device: Index of its GPU, where the caller knows.

        Returns:
            Its life: `plain` for host memory that nothing asynchronous touched.
        """
        if device < 0:
            device = tensor.get_device() if tensor.is_cuda else -1
        if device < 0:
            storage.__dict__[self._key] = self.plain
            return self.plain
        num_bytes = storage.nbytes()
        if not num_bytes:
            return self._empty(device)
        address = storage.data_ptr()
        handed = self._handed.pop(address, None)
        life = self._aliased(address, num_bytes) if handed is None else None
        if life is None:
            if handed is not None and handed[0] is not None:
                site, line = handed
            extent = -(-num_bytes // _GRANULE) * _GRANULE
            life = self._detector.alloc("", address, num_bytes, line, extent=extent)
            life.site = site
            if address in self._recorded:
                for recorded in self._recorded.pop(address):
                    self.record_stream(address, recorded)
        life.run, life.device = self._run, device
        storage.__dict__[self._key] = life
        return life

    def _empty(self, device: int) -> Life:
        """The life of a storage without bytes; not kept with it, which may grow."""
        life = Life(self.plain.block, 0, 0, None)
        life.run, life.device = self._run, device
        return life

    def _aliased(self, address: int, num_bytes: int) -> Life | None:
        """Another view of a living allocation, where a second storage shows the same memory."""
        block = self._detector.shadow.find(address, address + num_bytes)
        main = None if block is None else block.life
        if main is None or not main.is_live:
            return None
        alias = Life(main.block, address, num_bytes, main.owner, main.generation)
        alias.name, alias.site = main.name, main.site
        alias.whole = main.block.cell(Region(address, num_bytes), self._detector.clocks.host.vector)
        main.aliases = [*(main.aliases or ()), alias]
        return alias

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

    def cell(self, life: Life, tensor: torch.Tensor) -> tuple[Cell | None, tuple[int, ...] | None]:
        """The exact bytes of a tensor within its storage, and its strides where it is not contiguous.

        None for a tensor without elements.
        """
        if life.num_bytes == tensor.nbytes and tensor.is_contiguous():
            return life.whole, None
        shape, stride, size = tensor.shape, tensor.stride(), tensor.itemsize
        address: int = life.start + int(tensor.storage_offset()) * size
        layouts = life.block.layouts
        cell = layouts.get((address, shape, stride, size))
        if cell is None:
            region = region_of(address, shape, stride, size)
            if region is None:
                return None, None
            if len(layouts) >= _MAX_LAYOUTS:
                layouts.clear()
            cell = life.block.cell(region, self._detector.clocks.host.vector)
            layouts[address, shape, stride, size] = cell
        return cell, None if tensor.is_contiguous() else stride

    def visit(self, op: Op, life: Life, tensor: torch.Tensor, use: Use, is_write: bool) -> None:
        """Add an access to an operation; nothing where the tensor has no elements."""
        cell, stride = self.cell(life, tensor)
        if cell is not None:
            shape = tensor.shape
            op += (cell, is_write, use, SHAPES.setdefault(shape, shape), stride, tensor.dtype, life)


class HostEnd:
    """Dies with a storage of host memory, and says so."""

    __slots__ = ("_life", "_tell")

    def __init__(self, tell: Callable[[Life], None], life: Life) -> None:
        self._tell, self._life = tell, life

    def __del__(self) -> None:
        self._tell(self._life)


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
