"""Find the memory that each cell left allocated, by comparing the allocator's blocks before and after the cell.

This needs no memory history. A block with the same address and size may be a new one: a weak reference to the storage
detects this if the tensor has a Python object. Weak references keep no device memory alive.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from cudalens.device.graph_backend import provided
from cudalens.memory.names import NameSearch, roots_of
from cudalens.memory.objects import mro_of
from cudalens.memory.snapshot import (
    Address,
    allocated_bytes,
    allocation_counts,
    has_device,
    raw_snapshot,
    storage_address,
    workspace_sizes,
)
from cudalens.memory.tensors import name_garbage

_trackers: Final[list[CellTracker]] = []
_ACTIVE: Final = frozenset({"active_allocated", "active_awaiting_free", "active_pending_free"})


@dataclass(frozen=True)
class CellLeft:
    """The memory that a cell left allocated.

    Attributes:
        cell: The cell, as In[7].
        delta_bytes: Allocated memory after the cell minus allocated memory before.
        freed_bytes: Memory of earlier cells that it freed.
        sizes: Size of each block that it allocated and that is alive; shape (k,).
        names: Names of the variables that hold each, owners first; shape (k,).
        kinds: ``workspace`` for a cuBLAS workspace, which no tensor holds; else None; shape (k,).
    """

    cell: str
    delta_bytes: int
    freed_bytes: int
    sizes: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]
    kinds: tuple[str | None, ...]


@dataclass(slots=True)
class _Known:
    """A block that was allocated at the last check."""

    num_bytes: int
    cell: str | None
    storage: Any = None


class CellTracker:
    """Compares the allocator's blocks before and after each cell.

    Args:
        namespace: Variables whose names are searched; by default the notebook's, or those of ``__main__``.
        shell: IPython's shell, if it is not the one of this process.
    """

    def __init__(self, namespace: Mapping[str, Any] | None = None, shell: Any = None) -> None:
        self._namespace, self._shell = namespace, shell
        self._blocks: dict[Address, _Known] = {}
        self._counts: tuple[tuple[int, ...], ...] | None = None
        self._owner: Any = None  # the virtual backend at the last check; None for a real device
        self._running: list[tuple[Callable[[], str], int]] = []

    def on(self) -> None:
        """Begin: the current blocks count as allocated before the first cell."""
        self._check(None)
        if self not in _trackers:
            _trackers.append(self)

    def off(self) -> None:
        """End, and clear the state."""
        if self in _trackers:
            _trackers.remove(self)
        self._blocks.clear()
        self._running.clear()
        self._counts = self._owner = None

    @property
    def is_on(self) -> bool:
        """Whether cells are tracked."""
        return self in _trackers

    def begin(self, cell: Callable[[], str]) -> None:
        """Begin a cell. If it is nested in another one, the allocations up to its end belong to it alone.

        Args:
            cell: Returns its label; called while it runs.
        """
        self._check(self._cell)
        self._running.append((cell, allocated_bytes()))

    def end(self, cell: str, error: BaseException | None = None) -> CellLeft | None:
        """End the innermost cell; returns None if none has begun, or if it left nothing and freed nothing.

        Args:
            cell: Its label.
            error: The exception that ended it, whose variables are searched too; or None.
        """
        if not self._running:
            return None
        freed = self._check(cell)
        _, before = self._running.pop()
        own = {address: known for address, known in self._blocks.items() if known.cell == cell}
        delta = allocated_bytes() - before
        if not own and not freed and not delta:
            return None
        names = self._names(error, own) if own else {}
        return CellLeft(
            cell=cell,
            delta_bytes=delta,
            freed_bytes=freed,
            sizes=tuple(known.num_bytes for known in own.values()),
            names=tuple(tuple(names.get(address, ())) for address in own),
            kinds=tuple(_kind(known, address in names) for address, known in own.items()),
        )

    def cells(self) -> dict[Address, str]:
        """Return the cell that allocated each live block; blocks from before, or from between cells, are absent."""
        self._check(self._cell)
        return {address: known.cell for address, known in self._blocks.items() if known.cell is not None}

    @property
    def _cell(self) -> str | None:
        return self._running[-1][0]() if self._running else None

    def _check(self, cell: str | None) -> int:
        """Assign new blocks since the last check to `cell`; returns the bytes of freed blocks of other cells."""
        # Clear the state when the device changed: the cell did not free the memory of the previous device.
        owner = provided(0)
        if owner is not self._owner:
            self._blocks, self._counts, self._owner = {}, None, owner
        counts, before = allocation_counts(), self._counts
        if counts == before:
            return 0
        self._counts = counts
        was_allocated = [one[0] for one in counts] != [one[0] for one in before or ()]
        now = _active_blocks() if counts else {}
        storages = _storages(now) if was_allocated else {}
        freed, blocks = 0, {}
        for address, known in self._blocks.items():
            if now.get(address) == known.num_bytes and not (
                was_allocated and known.storage is not None and known.storage() is None
            ):
                blocks[address] = known
            elif known.cell != cell:
                freed += known.num_bytes
        for address, num_bytes in now.items():
            known = blocks.setdefault(address, _Known(num_bytes, cell))
            if known.storage is None:
                known.storage = storages.get(address)
        self._blocks = blocks
        return freed

    def _names(self, error: BaseException | None, own: Iterable[Address]) -> dict[Address, list[str]]:
        """Names by the start address of their block; of garbage, those of the blocks `own` alone."""
        search = NameSearch()
        search.run(roots_of(self._namespace, error, self._shell))
        name_garbage(search, own)
        return search.names


def watched_cells() -> dict[Address, str]:
    """Return the cells that allocated the live blocks, by all active trackers."""
    found: dict[Address, str] = {}
    for tracker in _trackers:
        found |= tracker.cells()
    return found


def _active_blocks() -> dict[Address, int]:
    """Size of each block that is allocated, or freed and waiting for a stream, by device and address."""
    if not has_device():
        return {}
    return {
        (int(segment["device"]), int(block["address"])): int(block["size"])
        for segment in raw_snapshot(with_history=False)["segments"]
        for block in segment["blocks"]
        if block["state"] in _ACTIVE
    }


def _storages(blocks: Mapping[Address, int]) -> dict[Address, Any]:
    """A weak reference to a storage at the start of each of `blocks`, if one of its tensors has a Python object."""
    found: dict[Address, Any] = {}
    is_tensor: dict[type, bool] = {}
    for thing in gc.get_objects():
        kind = type(thing)
        known = is_tensor.get(kind)
        if known is None:
            known = is_tensor[kind] = torch.Tensor in mro_of(kind)
        address = storage_address(thing) if known else None
        if address is not None and address in blocks and address not in found:
            with torch._C.DisableTorchFunctionSubclass():
                found[address] = weakref.ref(thing.untyped_storage())  # torch keeps the object while the storage lives
    return found


def _kind(known: _Known, has_name: bool) -> str | None:
    is_workspace = not has_name and known.storage is None and known.num_bytes in workspace_sizes()
    return "workspace" if is_workspace else None
