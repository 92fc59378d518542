"""Add facts from the live program to a snapshot's blocks: names of variables, categories, graphs, cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames import categorical, nullable
from cudalens.frames.catalog_frames import BLOCK_CATEGORIES
from cudalens.frames.column_arrays import integers, text_column
from cudalens.memory.names import NameSearch, is_weak
from cudalens.memory.roots import CALL, EXCEPTION, Roots
from cudalens.memory.snapshot import Address, workspace_sizes
from cudalens.memory.tensors import LiveTensors, PoolId, name_garbage

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
        labels = {pool: self._graph_names(graphs) for pool, graphs in self._live.pools.items()}
        labels |= self._named_graphs
        pairs = zip(_plain(blocks["pool_id_first"]), _plain(blocks["pool_id_second"]), strict=True)
        return [labels.get((first, second)) for first, second in pairs]

    def _graph_names(self, graphs: list[Any]) -> str:
        named = [name for graph in graphs if (name := self._search.objects.get(id(graph))) is not None]
        unnamed = len(graphs) - len(named)
        more = [f"{unnamed} CUDA graph{'s' * (unnamed > 1)} without a name"] if unnamed else []
        return ", ".join([*named, *more])

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
