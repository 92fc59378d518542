"""What each cell left alive: which blocks are new after it, told from those that are only where others were.

No memory history is needed, and none is kept: the allocator's list of blocks is compared before and after a cell. A
block at the same place and of the same size may still be another one; where Python has seen its tensor, a weak
reference to its storage tells. Weak references keep no memory of a device alive.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from cudalens.device.graph_backend import provided
from cudalens.memory.names import NameSearch
from cudalens.memory.objects import mro_of
from cudalens.memory.roots import roots_of
from cudalens.memory.snapshot import (
    Address,
    allocated_bytes,
    allocation_counts,
    has_device,
    raw_snapshot,
    storage_address,
    workspace_sizes,
)

_trackers: Final[list[CellTracker]] = []
_ACTIVE: Final = frozenset({"active_allocated", "active_awaiting_free", "active_pending_free"})


@dataclass(frozen=True)
class CellLeft:
    """What a cell left alive.

    Attributes:
        cell: The cell, as In[7].
        delta_bytes: By how much more is allocated after it than before.
        freed_bytes: What it released of earlier cells.
        sizes: Size of each block that it allocated and that is alive; shape (k,).
        names: Names of the variables that hold each, those that own it first; shape (k,).
        kinds: ``workspace`` for cuBLAS's, which no tensor holds; else None; shape (k,).
    """

    cell: str
    delta_bytes: int
    freed_bytes: int
    sizes: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]
    kinds: tuple[str | None, ...]


@dataclass(slots=True)
class _Known:
    """A block that was there at the last look."""

    num_bytes: int
    cell: str | None
    storage: Any = None


class CellTracker:
    """Follows the allocator from cell to cell.

    Args:
        namespace: Variables whose names are looked for; by default the notebook's, or those of ``__main__``.
        shell: IPython's shell, where it is not the one of this process.
    """

    def __init__(self, namespace: Mapping[str, Any] | None = None, shell: Any = None) -> None:
        self._namespace, self._shell = namespace, shell
        self._blocks: dict[Address, _Known] = {}
        self._counts: tuple[tuple[int, ...], ...] | None = None
        self._owner: Any = None  # whose memory was looked at last: None for a real device's
        self._running: list[tuple[Callable[[], str], int]] = []

    def on(self) -> None:
        """Begin: what is there now was allocated before."""
        self._look(None)
        if self not in _trackers:
            _trackers.append(self)

    def off(self) -> None:
        """End, and forget everything."""
        if self in _trackers:
            _trackers.remove(self)
        self._blocks.clear()
        self._running.clear()
        self._counts = self._owner = None

    @property
    def is_on(self) -> bool:
        """Whether cells are followed."""
        return self in _trackers

    def begin(self, cell: Callable[[], str]) -> None:
        """A cell begins; inside of another one it has what happens until its end to itself.

        Args:
            cell: What to call it, asked for while it runs.
        """
        self._look(self._cell)
        self._running.append((cell, allocated_bytes()))

    def end(self, cell: str, error: BaseException | None = None) -> CellLeft | None:
        """The cell that began last has ended; None where none has begun, or it left nothing and freed nothing.

        Args:
            cell: What to call it.
            error: The exception that ended it, whose variables have names too; or None.
        """
        if not self._running:
            return None
        freed = self._look(cell)
        _, before = self._running.pop()
        own = {address: known for address, known in self._blocks.items() if known.cell == cell}
        delta = allocated_bytes() - before
        if not own and not freed and not delta:
            return None
        names = self._names(error) if own else {}
        return CellLeft(
            cell=cell,
            delta_bytes=delta,
            freed_bytes=freed,
            sizes=tuple(known.num_bytes for known in own.values()),
            names=tuple(tuple(names.get(address, ())) for address in own),
            kinds=tuple(_kind(known, address in names) for address, known in own.items()),
        )

    def cells(self) -> dict[Address, str]:
        """The cell that allocated each block that is alive; what was there before, or came between cells, is absent."""
        self._look(self._cell)
        return {address: known.cell for address, known in self._blocks.items() if known.cell is not None}

    @property
    def _cell(self) -> str | None:
        return self._running[-1][0]() if self._running else None

    def _look(self, cell: str | None) -> int:
        """Take what is new since the last look for `cell`'s; returns the bytes of what is gone that was another's."""
        self._forget_ended_device()
        counts, before = allocation_counts(), self._counts
        if counts == before:
            return 0
        self._counts = counts
        was_allocated = [one[0] for one in counts] != [one[0] for one in before or ()]
        now = _active_blocks() if counts else {}
        storages = _storages(now) if was_allocated else {}
        freed, blocks = 0, {}
        for address, known in self._blocks.items():
            if now.get(address) == known.num_bytes and not (was_allocated and _is_gone(known.storage)):
                blocks[address] = known
            elif known.cell != cell:
                freed += known.num_bytes
        for address, num_bytes in now.items():
            known = blocks.setdefault(address, _Known(num_bytes, cell))
            if known.storage is None:
                known.storage = storages.get(address)
        self._blocks = blocks
        return freed

    def _forget_ended_device(self) -> None:
        """Memory of a virtual device that has ended, or of a real one behind it, was not freed by the cell."""
        owner = provided(0)
        if owner is not self._owner:
            self._blocks, self._counts, self._owner = {}, None, owner

    def _names(self, error: BaseException | None) -> dict[Address, list[str]]:
        """Names by the begin of their block."""
        search = NameSearch()
        search.run(roots_of(self._namespace, error, self._shell))
        return search.names


def watched_cells() -> dict[Address, str]:
    """The cells that allocated what is alive, as far as trackers that are on know."""
    found: dict[Address, str] = {}
    for tracker in _trackers:
        found |= tracker.cells()
    return found


def _active_blocks() -> dict[Address, int]:
    """Size of each block that is allocated, or waits for a stream, by device and address."""
    if not has_device():
        return {}
    return {
        (int(segment["device"]), int(block["address"])): int(block["size"])
        for segment in raw_snapshot(with_history=False)["segments"]
        for block in segment["blocks"]
        if block["state"] in _ACTIVE
    }


def _storages(blocks: Mapping[Address, int]) -> dict[Address, Any]:
    """A weak reference to a storage that begins in each of `blocks`, where Python has seen a tensor of it."""
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


def _is_gone(storage: Any) -> bool:
    return storage is not None and storage() is None
