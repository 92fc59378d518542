"""Bytes by call stack: the rows of a flame graph, and the differences of two snapshots."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.memory.names import block_holders
from cudalens.analysis.time.averages import sums_beneath
from cudalens.analysis.time.groups import sums
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, integers, masked

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
