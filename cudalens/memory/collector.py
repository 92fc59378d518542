"""Collect the allocator's history and a snapshot, with the variables, graphs and cells of each block."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from cudalens.frames import Problem, categorical, nullable
from cudalens.frames.catalog_frames import BLOCK_CATEGORIES
from cudalens.frames.column_arrays import integers, text_column
from cudalens.memory.names import CALL, EXCEPTION, NameSearch, Roots, is_weak
from cudalens.memory.snapshot import (
    MAX_ENTRIES,
    Address,
    History,
    raw_snapshot,
    require_device,
    require_still,
    workspace_sizes,
)
from cudalens.memory.tensors import LiveTensors, PoolId, name_garbage

if TYPE_CHECKING:
    import pandas as pd


_CUT = "actions of the memory history were lost"


class MemoryCollector:
    """Records the allocator's history from `start` to `stop`, and takes a snapshot at `stop`.

    If the program itself records a history, that one is used and left on.

    Args:
        namespace: Variables whose names are searched; by default the notebook's, or those of ``__main__``.
        max_entries: Maximum number of actions that are kept.
        stacks: Whether call stacks are recorded.
        cells: The cell that allocated each address, if it is known.
        graphs: Labels of the graphs of each private pool, if they are known.
        with_history: Whether a history is recorded; without one, `stop` only takes a snapshot.
        shell: IPython's shell, if it is not the one of this process.

    Attributes:
        problems: What is missing from the frames; set by `stop`.
        options: Options for the run info; set by `stop`.
        extra: Extra text for the run info; set by `stop`.
        error: The exception that is propagating when `stop` is called: its variables are searched too.
        outputs: Values that IPython has not displayed yet, by the number of their cell; set before `stop`, which
            clears them.
        build_s: Time that building the frames took, seconds.
    """

    name = "memory history"

    def __init__(
        self,
        *,
        namespace: Mapping[str, Any] | None = None,
        max_entries: int = MAX_ENTRIES,
        stacks: bool = True,
        cells: Mapping[Address, str] | None = None,
        graphs: Mapping[PoolId, str] | None = None,
        with_history: bool = True,
        shell: Any = None,
    ) -> None:
        self.problems: tuple[Problem, ...] = ()
        self.options: dict[str, str | int | float | bool | None] = {}
        self.extra: dict[str, str] = {}
        self.error: BaseException | None = None
        self.outputs: dict[int, Any] = {}
        self.build_s = 0.0
        self._namespace, self._cells, self._graphs, self._shell = namespace, cells, graphs, shell
        self._history = History(max_entries=max_entries, stacks=stacks) if with_history else None
        self._frames: dict[str, pd.DataFrame] = {}

    def start(self) -> None:
        """Begin to record the history.

        Raises:
            MemorySnapshotError: There is no CUDA device.
        """
        require_device()
        if self._history is not None:
            self._history.start()

    def stop(self) -> None:
        """Take the snapshot, restore the history setting, and search for the holders of blocks.

        Raises:
            MemorySnapshotError: The device has ended since the start.
        """
        try:
            require_still()
            raw = raw_snapshot()
            if self._history is not None:
                raw = self._history.since_start(raw)
        finally:
            if self._history is not None:
                self._history.stop()
        self._take(raw)

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the frames ``blocks``, ``memory``, ``stacks``, and ``events`` of the program's annotations."""
        return self._frames

    def _take(self, raw: dict[str, Any]) -> None:
        from cudalens.frames.snapshots.build import snapshot_frames
        from cudalens.memory.names import roots_of
        from cudalens.memory.snapshot import as_shown, cells_of
        from cudalens.memory.tensors import live_tensors

        begin = time.perf_counter()
        live = live_tensors()
        search = search_names(roots_of(self._namespace, self.error, self._shell, self.outputs), live)
        self.outputs = {}
        found = snapshot_frames(raw, name="the live device")
        frames = found.frames
        frames["stacks"] = as_shown(frames["stacks"], self._shell)
        cells = cells_of(frames["stacks"])
        blocks = frames["blocks"]
        blocks = blocks.assign(cell=blocks["stack"].map(cells, na_action="ignore").astype("category"))
        frames["blocks"] = Holders(live, search, self._cells, self._graphs).written(blocks)
        self._frames, self.options, self.extra = frames, dict(found.options), dict(found.extra)
        self.problems = (*found.problems, *self._missing(search.is_complete, live.is_complete))
        self.build_s = time.perf_counter() - begin

    def _missing(self, named: bool, saved: bool) -> list[Problem]:
        was_cut = self._history is not None and self._history.was_cut
        causes = {
            (_CUT, "a full history drops its oldest actions"): was_cut,
            ("the search for names of tensors was not completed", "there are too many objects"): not named,
            (
                "tensors saved by autograd were not examined",
                "this torch does not expose them, or there are too many",
            ): not saved,
        }
        return [Problem(kind, 1, where) for (kind, where), is_so in causes.items() if is_so]


# Add facts from the live program to a snapshot's blocks: names of variables, categories, graphs, cells.

_PASSING: Final = (CALL, EXCEPTION)


class Holders:
    """The holders of blocks in the live program.

    Args:
        live: The tensors that are alive.
        search: Names that were found for them.
        cells: The cell that allocated each address, if it is known.
        graphs: Labels of the graphs of each private pool, if they are known.
    """

    def __init__(
        self,
        live: LiveTensors,
        search: NameSearch,
        cells: Mapping[Address, str] | None = None,
        graphs: Mapping[PoolId, str] | None = None,
    ) -> None:
        self._live, self._search, self._cells, self._named_graphs = live, search, cells or {}, graphs or {}

    def written(self, blocks: pd.DataFrame) -> pd.DataFrame:
        """Return the frame ``blocks`` with these facts; a category is kept if the live program gives no better one."""
        at = _Blocks(blocks)
        names = at.placed(self._search.names, lambda known: json.dumps(known, ensure_ascii=False))
        counts = at.placed(self._live.num_tensors, int)
        cells = at.placed(self._cells, str)
        graphs = self._graphs(blocks)
        return blocks.assign(
            names=text_column(names),
            num_tensors=nullable(np.array([count or 0 for count in counts], np.int64), ~at.is_active),
            cell=text_column([cell or old for cell, old in zip(cells, _plain(blocks["cell"]), strict=True)]),
            graph=text_column(graphs),
            category=self._categories(blocks, at, graphs),
        )

    def _graphs(self, blocks: pd.DataFrame) -> list[str | None]:
        """Return the CUDA graphs of each block's private pool, by the variables that hold them."""
        labels = {}
        for pool, graphs in self._live.pools.items():
            named = [name for graph in graphs if (name := self._search.objects.get(id(graph))) is not None]
            unnamed = len(graphs) - len(named)
            more = [f"{unnamed} CUDA graph{'s' * (unnamed > 1)} without a name"] if unnamed else []
            labels[pool] = ", ".join([*named, *more])
        labels |= self._named_graphs
        pairs = zip(_plain(blocks["pool_id_first"]), _plain(blocks["pool_id_second"]), strict=True)
        return [labels.get((first, second)) for first, second in pairs]

    def _categories(self, blocks: pd.DataFrame, at: _Blocks, graphs: list[str | None]) -> pd.Categorical:
        old, sizes = _plain(blocks["category"]), workspace_sizes()
        roles = at.placed(self._live.roles, str)
        names = at.placed(self._search.names, lambda known: known)
        held = at.placed(self._live.num_tensors, int)
        size = blocks["num_bytes"].tolist()
        found: list[str | None] = []
        for i, category in enumerate(old):
            if not at.is_active[i]:
                found.append(None)
            elif category == "graph pool" or graphs[i] is not None:
                found.append("graph pool")
            elif roles[i] == "input" and all(map(is_weak, names[i] or ())):
                found.append("activation")  # only autograd holds it: a mask, or batch statistics
            elif roles[i] is not None:
                found.append(roles[i])
            elif not held[i] and size[i] in sizes:
                found.append("workspace")
            elif names[i] and all(name.startswith(_PASSING) for name in names[i]):
                found.append("temporary")
            else:
                found.append("variable" if category is None and names[i] else category)
        codes = {name: i for i, name in enumerate(BLOCK_CATEGORIES)}
        return categorical(np.array([codes[name] if name else -1 for name in found], np.int64), list(BLOCK_CATEGORIES))


class _Blocks:
    """The active blocks of a snapshot, found by an address inside of them.

    Attributes:
        is_active: Shape (n,).
    """

    def __init__(self, blocks: pd.DataFrame) -> None:
        self.is_active = blocks["state"].isin(["active_allocated", "active_pending_free"]).to_numpy()
        known = self.is_active & blocks["addr"].notna().to_numpy() & blocks["device"].notna().to_numpy()
        self._rows = np.flatnonzero(known)
        device = integers(blocks["device"])[self._rows]
        begin = blocks["addr"].array.to_numpy(dtype=np.uint64, na_value=0)[self._rows]
        order = np.lexsort((begin, device))
        self._rows = self._rows[order]
        size = blocks["num_bytes"].to_numpy()[self._rows]
        self._by_device: dict[int, tuple[Any, Any, Any]] = {}
        for one in np.unique(device):
            part = device[order] == one
            first = begin[order][part]
            self._by_device[int(one)] = (first, first + size[part].astype(np.uint64), self._rows[part])
        self._num = len(blocks)

    def placed(self, values: Mapping[Address, Any], write: Callable[[Any], Any]) -> list[Any]:
        """For each block the value of the first address inside of it, converted by `write`; None for the others."""
        found: list[Any] = [None] * self._num
        for address, value in values.items():
            row = self.row_of(address)
            if row is not None and found[row] is None:
                found[row] = write(value)
        return found

    def row_of(self, address: Address) -> int | None:
        """Return the row of the active block that holds `address`."""
        device, addr = address
        if device not in self._by_device:
            return None
        begin, end, rows = self._by_device[device]
        at = int(np.searchsorted(begin, np.uint64(addr), side="right")) - 1
        return int(rows[at]) if at >= 0 and addr < int(end[at]) else None


def search_names(roots: Roots, live: LiveTensors) -> NameSearch:
    """Search names for the live storages, and for the CUDA graphs that use private pools."""
    search = NameSearch()
    graphs = {id(graph): graph for graphs in live.pools.values() for graph in graphs}
    search.run(roots, graphs)
    name_garbage(search, live.num_tensors)
    return search


def _plain(column: pd.Series) -> list[Any]:
    """Return a column's values as Python objects, None for missing ones."""
    values = column.astype(object)
    return [None if missing else value for value, missing in zip(values, column.isna(), strict=True)]
