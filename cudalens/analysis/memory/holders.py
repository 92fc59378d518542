"""Who holds memory: variables, categories, cells, from the names that stand in ``trace.blocks``."""

from __future__ import annotations

import pandas as pd

from cudalens.analysis.memory.names import Holder, holders, names_in
from cudalens.analysis.memory.stacks import active_blocks
from cudalens.frames import Trace


def memory_holders(trace: Trace) -> pd.DataFrame:
    """What the variables of the program hold of the device's memory.

    Returns:
        A row per variable, most bytes first: ``holder`` (missing for what no name was found for), ``num_bytes`` and
        ``num_blocks`` of active blocks. Each block counts once, for the variable that holds the most altogether.
    """
    blocks = active_blocks(trace)
    return _frame(holders(names_in(blocks["names"]), blocks["num_bytes"].tolist()))


def memory_leaks(trace: Trace) -> pd.DataFrame:
    """What each notebook cell left alive, and who holds it.

    Returns:
        A row per cell and variable: ``cell`` as In[7], ``holder`` (missing for what no name was found for),
        ``num_bytes`` and ``num_blocks`` of active blocks; cells that left most first, in each the variables that hold
        most first. Blocks whose cell is not known are left out.
    """
    blocks = active_blocks(trace)
    blocks = blocks[blocks["cell"].notna().to_numpy()]
    parts = []
    for cell, own in blocks.groupby("cell", observed=True, sort=False):
        found = _frame(holders(names_in(own["names"]), own["num_bytes"].tolist()))
        found.insert(0, "cell", str(cell))
        parts.append((int(own["num_bytes"].sum()), found))
    parts.sort(key=lambda part: -part[0])
    if not parts:
        return pd.DataFrame({"cell": pd.Series(dtype=object), **{name: _frame([])[name] for name in _frame([])}})
    return pd.concat([found for _, found in parts], ignore_index=True)


def memory_categories(trace: Trace) -> pd.DataFrame:
    """What the device's memory is there for.

    Returns:
        A row per category, most bytes first: ``category`` (missing where it cannot be told), ``num_bytes`` and
        ``num_blocks`` of active blocks.
    """
    blocks = active_blocks(trace)
    kind = blocks["category"].astype(object).where(blocks["category"].notna(), None)
    grouped = blocks.groupby(kind.to_numpy(), dropna=False, sort=False)["num_bytes"].agg(["sum", "size"])
    found = grouped.rename(columns={"sum": "num_bytes", "size": "num_blocks"}).rename_axis("category").reset_index()
    return found.sort_values("num_bytes", ascending=False, kind="stable").reset_index(drop=True)


def _frame(found: list[Holder]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "holder": pd.Series([one.name for one in found], dtype=object),
            "num_bytes": pd.Series([one.num_bytes for one in found], dtype="int64"),
            "num_blocks": pd.Series([one.num_blocks for one in found], dtype="int64"),
        }
    )
