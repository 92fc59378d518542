"""Memory by what holds it: variables, categories, notebook cells and call stacks."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.time.averages import sums_beneath
from cudalens.analysis.time.groups import sums
from cudalens.frames import Trace
from cudalens.frames.catalog_frames import BLOCK_CATEGORIES
from cudalens.frames.column_arrays import Ints, integers, masked
from cudalens.frames.snapshots.build import stack_marks

_PART: Final = re.compile(r"\.<[^>]*>|<[^>]*>|\.\w+(?:\(\))?|\[(?:'[^']*'|\"[^\"]*\"|[^\]])*\]|\w+|.")

#: Parts that are removed from the end of a common name.
_WEAK: Final = (".grad_fn", ".grad")


@dataclass(frozen=True)
class Holder:
    """A variable, and the blocks that it holds.

    Attributes:
        name: The variable, or the part of it that holds all these blocks (``trainer.history``); None for blocks without
            a known name.
        num_bytes: Size of the blocks.
        num_blocks: Number of blocks.
        rows: Their positions in the given sequence.
    """

    name: str | None
    num_bytes: int
    num_blocks: int
    rows: tuple[int, ...]


def holders(names: Sequence[Iterable[str]], num_bytes: Sequence[int]) -> list[Holder]:
    """Blocks by the variable that holds them, most bytes first; each block counts once.

    A block of several variables counts for the one that holds the most in total: deleting that one frees the most. Of
    two that hold the same, the one with the longer name (the container) is reported.

    Args:
        names: Names of each block, as ``trace.blocks["names"]`` has them; shape (n,).
        num_bytes: Size of each, shape (n,).
    """
    parsed = [[_parts(name) for name in _strong(of_block)] for of_block in names]
    totals: Counter[str] = Counter()
    for of_block, size in zip(parsed, num_bytes, strict=True):
        totals.update(dict.fromkeys({parts[0] for parts in of_block}, size))
    groups: defaultdict[str | None, list[int]] = defaultdict(list)
    for row, of_block in enumerate(parsed):
        best = max(of_block, key=lambda parts: (totals[parts[0]], len(parts)), default=(None,))
        groups[best[0]].append(row)
    found = []
    for root, rows in groups.items():
        name = _common(root, [parsed[row] for row in rows])
        found.append(Holder(name, sum(num_bytes[row] for row in rows), len(rows), tuple(rows)))
    return sorted(found, key=lambda one: (-one.num_bytes, one.name is None, str(one.name)))


def _strong(names: Iterable[str]) -> list[str]:
    """Return the names of variables, if any; else those of functions, graphs and optimizers."""
    known = list(names)
    known = [name for name in known if not name.startswith("<")] or known
    return [n for n in known if not (".grad_fn" in n or ".<" in n or "param_groups" in n)] or known


def _parts(name: str) -> tuple[str, ...]:
    """The parts of a name; ``Out[7]`` is one part, and so is the start of the names of an exception's variables."""
    parts = _PART.findall(name) or [name]
    return (parts[0] + parts[1], *parts[2:]) if parts[0] == "Out" and len(parts) > 1 else tuple(parts)


def _common(root: str | None, names: Sequence[Sequence[tuple[str, ...]]]) -> str | None:
    """Return the longest common prefix of the names that start with `root`."""
    if root is None:
        return None
    own = [next(parts for parts in of_block if parts[0] == root) for of_block in names]
    first, last = min(own), max(own)
    size = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    if len(own) == 1:
        size = len(first)
    kept = list(first[:size])
    while len(kept) > 1 and kept[-1] in _WEAK:
        kept.pop()
    return "".join(kept)


def names_in(column: pd.Series) -> list[list[str]]:
    """Return the column ``names`` of ``trace.blocks`` as lists of text; empty if missing or invalid."""
    known = {text: _listed(text) for text in column.dropna().unique()}
    return [known.get(text, []) if isinstance(text, str) else [] for text in column]


def _listed(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def block_holders(blocks: pd.DataFrame) -> pd.Series:
    """Return the variable that holds each row of a ``blocks`` frame, as of `holders`; None for none."""
    found: list[str | None] = [None] * len(blocks)
    for one in holders(names_in(blocks["names"]), blocks["num_bytes"].tolist()):
        for row in one.rows:
            found[row] = one.name
    return pd.Series(found, index=blocks.index, dtype=object)


_ROOT: Final = 0
_ACTIVE: Final = ("active_allocated", "active_pending_free")


def active_blocks(trace: Trace) -> pd.DataFrame:
    """Return the rows of ``trace.blocks`` that are allocated or wait for a stream."""
    blocks = trace.blocks
    return blocks[blocks["state"].isin(_ACTIVE).to_numpy()]


def bytes_by_stack(trace: Trace, blocks: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the tree of call stacks that hold memory, outermost first: the rows of a flame graph.

    Args:
        trace: With stacks.
        blocks: The blocks: rows with ``num_bytes`` and ``stack`` of that Trace, such as those of `blocks_at`. Default:
            the active blocks at the end.

    Returns:
        A row per node, parents first, row 0 the root: ``parent`` (its row; missing for the root), ``depth``, ``file``,
        ``line``, ``function``; ``num_bytes`` and ``num_blocks`` of the blocks of the node and all its descendants;
        ``self_bytes`` of the blocks of the node itself. Blocks without a recorded stack belong to the root.
    """
    blocks = active_blocks(trace) if blocks is None else blocks
    stack, size = integers(blocks["stack"]), blocks["num_bytes"].to_numpy()
    known = np.unique(stack[stack >= 0])
    nodes, leaf = _tree(trace.stacks, known)
    at = np.full(len(stack), _ROOT)
    at[stack >= 0] = leaf[np.searchsorted(known, stack[stack >= 0])]
    self_bytes, self_blocks = sums(size, at, len(nodes)), np.bincount(at, minlength=len(nodes))
    parent, depth = integers(nodes["parent"]), nodes["depth"].to_numpy()
    num_bytes, num_blocks = (sums_beneath(values, parent, depth) for values in (self_bytes, self_blocks))
    return nodes.assign(num_bytes=num_bytes, self_bytes=self_bytes, num_blocks=num_blocks)


def _tree(stacks: pd.DataFrame, wanted: Ints) -> tuple[pd.DataFrame, Ints]:
    """Return the nodes of the stacks `wanted`, and the node that each ends in."""
    entries = stacks[np.isin(stacks["stack"].to_numpy(), wanted)]
    what = entries.groupby(["file", "line", "function"], dropna=False, sort=False, observed=True).ngroup().to_numpy()
    owner = np.searchsorted(wanted, entries["stack"].to_numpy())
    from_inside = entries["position"].to_numpy().astype(np.int64)
    height = np.zeros(len(wanted), np.int64)
    np.maximum.at(height, owner, from_inside + 1)
    level = height[owner] - 1 - from_inside  # 0 is the outermost stack frame
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(int(height.max(initial=0)) + 1))
    at = np.zeros(len(wanted), np.int64)  # the current node of each stack
    parents, entry_of, depths = [np.array([-1])], [np.array([-1])], [np.array([0])]
    num_nodes = 1
    for k in range(len(bounds) - 1):
        rows = order[bounds[k] : bounds[k + 1]]
        pair = at[owner[rows]] * (len(entries) + 1) + what[rows]
        unique, first, node = np.unique(pair, return_index=True, return_inverse=True)
        parents.append(at[owner[rows[first]]])
        entry_of.append(rows[first])
        depths.append(np.full(len(unique), k + 1))
        at[owner[rows]] = num_nodes + node
        num_nodes += len(unique)
    parent, entry = np.concatenate(parents), np.concatenate(entry_of)
    taken = {name: entries[name].array.take(entry, allow_fill=True) for name in ("file", "line", "function")}
    return pd.DataFrame({"parent": masked(parent), "depth": np.concatenate(depths), **taken}), at


def stack_texts(stacks: pd.DataFrame) -> pd.Series:
    """Return each call stack as text, a line per stack frame as ``file:line function``, innermost first; by its id."""
    file = stacks["file"].astype(object).where(stacks["file"].notna(), "")
    line = stacks["line"].astype("string").fillna("")
    function = stacks["function"].astype(object).where(stacks["function"].notna(), "?")
    place = np.where(file.eq(""), "", file.astype(str) + np.where(line.eq(""), "", ":") + line.astype(str) + " ")
    text = pd.Series(place, index=stacks.index).astype(object) + function.astype(object)
    return text.groupby(stacks["stack"]).agg("\n".join)


def memory_diff(before: Trace, after: Trace, *, by: str = "stack") -> pd.DataFrame:
    """Return the active memory of `before` and `after`, and the differences.

    Args:
        before: With blocks.
        after: With blocks; of the same program, perhaps with other settings.
        by: ``stack``; ``holder``, the variable that holds it; or a column of ``blocks`` (``category``, ``stream``,
            ``segment_type`` …).

    Returns:
        A row per call stack (or value of that column), largest change first: `by` (stacks as of `stack_texts`; missing
        if not recorded), ``before_bytes``, ``after_bytes``, ``delta_bytes``, ``before_blocks``, ``after_blocks``,
        ``delta_blocks``. Active blocks are counted.
    """
    sides = {name: _by(trace, by) for name, trace in (("before", before), ("after", after))}
    found = pd.DataFrame(
        {
            f"{name}_{what}": side[column]
            for what, column in (("bytes", "num_bytes"), ("blocks", "num_blocks"))
            for name, side in sides.items()
        }
    ).fillna(0)
    found = found.astype(np.int64)
    for what in ("bytes", "blocks"):
        found[f"delta_{what}"] = found[f"after_{what}"] - found[f"before_{what}"]
    key = pd.Series(found.index, dtype=object)
    found.insert(0, by, key.where(key != _UNKNOWN, None).to_numpy())
    found = found.reset_index(drop=True)
    return found.sort_values("delta_bytes", key=lambda delta: -delta.abs(), kind="stable").reset_index(drop=True)


#: Replaces a missing key while groups are matched; different from every text of a program.
_UNKNOWN: Final = "\0"


def _by(trace: Trace, by: str) -> pd.DataFrame:
    blocks = active_blocks(trace)
    key: Any = block_holders(blocks) if by == "holder" else blocks[by].astype(object)
    if by == "stack":
        texts = stack_texts(trace.stacks)
        key = key.map(lambda number: None if number is pd.NA else texts[number])
    keys = pd.Series([_UNKNOWN if pd.isna(k) else k for k in key], dtype=object)
    grouped = pd.Series(blocks["num_bytes"].to_numpy()).groupby(keys.to_numpy(), sort=False)
    return grouped.agg(num_bytes="sum", num_blocks="size")


def memory_holders(trace: Trace) -> pd.DataFrame:
    """Return the device memory that each variable of the program holds.

    Returns:
        A row per variable, most bytes first: ``holder`` (missing for blocks without a known name), ``num_bytes`` and
        ``num_blocks`` of active blocks. Each block counts once, for the variable that holds the most in total.
    """
    return _holders_frame(active_blocks(trace))


def memory_leaks(trace: Trace) -> pd.DataFrame:
    """Return the memory that each notebook cell allocated and that is still active, by the variable that holds it.

    Returns:
        A row per cell and variable: ``cell`` as In[7], ``holder`` (missing for blocks without a known name),
        ``num_bytes`` and ``num_blocks`` of active blocks. Cells with most bytes first, in each the variables with most
        bytes first. Blocks of an unknown cell are left out.
    """
    blocks = active_blocks(trace)
    blocks = blocks[blocks["cell"].notna().to_numpy()]
    parts = [(str(cell), own) for cell, own in blocks.groupby("cell", observed=True, sort=False)]
    parts.sort(key=lambda part: -int(part[1]["num_bytes"].sum()))
    frames = [_holders_frame(own).assign(cell=cell) for cell, own in parts]
    found = pd.concat(frames or [_holders_frame(blocks).assign(cell=pd.Series(dtype=object))], ignore_index=True)
    return found[["cell", "holder", "num_bytes", "num_blocks"]]


def memory_categories(trace: Trace) -> pd.DataFrame:
    """Return the device's memory by its use.

    Returns:
        A row per category, most bytes first: ``category`` (missing if unknown), ``num_bytes`` and ``num_blocks`` of
        active blocks.
    """
    blocks = active_blocks(trace)
    kind = blocks["category"].astype(object).where(blocks["category"].notna(), None)
    grouped = blocks.groupby(kind.to_numpy(), dropna=False, sort=False)["num_bytes"].agg(["sum", "size"])
    found = grouped.rename(columns={"sum": "num_bytes", "size": "num_blocks"}).rename_axis("category").reset_index()
    return found.sort_values("num_bytes", ascending=False, kind="stable").reset_index(drop=True)


def _holders_frame(blocks: pd.DataFrame) -> pd.DataFrame:
    found = holders(names_in(blocks["names"]), blocks["num_bytes"].tolist())
    return pd.DataFrame(
        {
            "holder": pd.Series([one.name for one in found], dtype=object),
            "num_bytes": pd.Series([one.num_bytes for one in found], dtype="int64"),
            "num_blocks": pd.Series([one.num_blocks for one in found], dtype="int64"),
        }
    )


#: An element of a container, and what its autograd graph saved.
_ELEMENT: Final = re.compile(r"(?P<container>.+?)\[(?P<key>[^\[\]]+)\](?P<graph>\.grad_fn.*)?")

#: Fewer graphs may be those of micro-batches whose backward pass follows.
_MIN_GRAPHS: Final = 3

#: A loss is a number: its block is the smallest that the allocator gives.
_NUMBER_BYTES: Final = 512

#: Graphs that hold a smaller share of the allocated memory are not a reason to change a program.
_MIN_SHARE: Final = 0.02


@dataclass(frozen=True)
class KeptGraphs:
    """The autograd graphs that the elements of a container keep.

    Attributes:
        container: Its name, as ``history['loss']``.
        num_graphs: Elements with a graph that holds memory.
        num_bytes: Memory that only these graphs hold.
    """

    container: str
    num_graphs: int
    num_bytes: int


def kept_graphs(trace: Trace) -> list[KeptGraphs]:
    """Containers of at least three single numbers whose autograd graphs hold memory, most bytes first.

    Memory counts if nothing but autograd graphs holds it. Elements that are larger than a number (activations that a
    program keeps on purpose) do not count, and graphs that a backward pass has freed hold nothing.
    """
    blocks = active_blocks(trace)
    names, sizes = names_in(blocks["names"]), blocks["num_bytes"].tolist()
    numbers = {name for known, size in zip(names, sizes, strict=True) if size <= _NUMBER_BYTES for name in known}
    graphs: defaultdict[str, set[str]] = defaultdict(set)
    held: defaultdict[str, int] = defaultdict(int)
    for known, size in zip(names, sizes, strict=True):
        of = _containers(known, numbers)
        for container, keys in of.items():
            graphs[container] |= keys
            held[container] += size
    least = _MIN_SHARE * int(pd.Series(sizes, dtype="int64").sum())
    found = [KeptGraphs(name, len(keys), held[name]) for name, keys in graphs.items() if len(keys) >= _MIN_GRAPHS]
    return sorted((one for one in found if one.num_bytes >= least), key=lambda one: (-one.num_bytes, one.container))


def _containers(names: list[str], numbers: set[str]) -> dict[str, set[str]]:
    """The containers of numbers through whose graphs a block is held, with the keys; empty if a variable holds it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    if any(".grad_fn" not in name for name in names):
        return {}
    for name in [name for name in names if not name.startswith("<")] or names:
        element = _ELEMENT.fullmatch(name)
        if element is not None and element["graph"] and f"{element['container']}[{element['key']}]" in numbers:
            found[element["container"]].add(element["key"])
    return found


#: Marks of a stack and the category of its released blocks, strongest first.
_OF_RELEASED: Final = (
    ("workspace", "workspace"),
    ("accumulates", "gradient"),
    ("state", "optimizer state"),
    ("optimizer", "temporary"),
    ("loads", "input"),
    ("calls", "activation"),
    ("builds", "parameter"),
)


def lifetime_categories(trace: Trace, lifetimes: pd.DataFrame) -> pd.Series:
    """Return the category of each allocation.

    An allocation that is alive at the end has the category of its block. The category of a freed one is inferred from
    its stack: a gradient that autograd accumulated, an activation, an input, a parameter, optimizer state, or temporary
    memory of a step. It is unknown for what a backward allocated and released.

    Args:
        trace: The Trace of the allocations.
        lifetimes: Its `block_lifetimes` or `blocks_at`: ``block``, ``stack``, ``pool_id_first``.

    Returns:
        Texts of `BLOCK_CATEGORIES`, missing if unknown; with the index of `lifetimes`.
    """
    marks = stack_marks(trace.stacks)
    of_stack = {number: next((c for m, c in _OF_RELEASED if m in mark), None) for number, mark in marks.items()}
    found = lifetimes["stack"].astype(object).map(of_stack).astype(object)
    values = found.mask(integers(lifetimes["pool_id_first"], 0) != 0, "graph pool").to_numpy(dtype=object).copy()
    is_alive = lifetimes["block"].notna().to_numpy()
    own = trace.blocks["category"].astype(object).to_numpy()
    values[is_alive] = own[integers(lifetimes["block"])[is_alive]]
    categories = pd.CategoricalDtype(BLOCK_CATEGORIES)
    return pd.Series(pd.Categorical(np.where(pd.isna(values), None, values), dtype=categories), index=lifetimes.index)
