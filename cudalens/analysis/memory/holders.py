"""Memory by variable, category and notebook cell, from the names in ``trace.blocks``."""

from __future__ import annotations

import pandas as pd

from cudalens.analysis.memory.names import holders, names_in
from cudalens.analysis.memory.stacks import active_blocks
from cudalens.frames import Trace


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
