"""Who holds memory: variables, categories, cells, from the names that stand in ``trace.blocks``."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from cudalens.analysis.memory_stacks import active_blocks
from cudalens.frames import Trace

_PART: Final = re.compile(r"\.<[^>]*>|<[^>]*>|\.\w+(?:\(\))?|\[(?:'[^']*'|\"[^\"]*\"|[^\]])*\]|\w+|.")
_WEAK: Final = (".grad_fn", ".grad")
"""Endings that are left out of what many names share."""


@dataclass(frozen=True)
class Holder:
    """A variable, and what it holds.

    Attributes:
        name: The variable, or the part of it that holds all of that (``trainer.history``); None for what no name was
            found for.
        num_bytes: Size of the blocks.
        num_blocks: How many.
        rows: Which, as places in what was given.
    """

    name: str | None
    num_bytes: int
    num_blocks: int
    rows: tuple[int, ...]


def holders(names: Sequence[Iterable[str]], num_bytes: Sequence[int]) -> list[Holder]:
    """Blocks by the variable that holds them, most bytes first; each block counts once.

    A block that several variables hold counts for the one that holds the most altogether: whoever wants the memory back
    begins there.

    Args:
        names: Names of each block, as ``trace.blocks["names"]`` has them; shape (n,).
        num_bytes: Size of each, shape (n,).
    """
    parsed = [[_parts(name) for name in _strong(told)] for told in names]
    totals: Counter[str] = Counter()
    for told, size in zip(parsed, num_bytes, strict=True):
        totals.update(dict.fromkeys({parts[0] for parts in told}, size))
    groups: defaultdict[str | None, list[int]] = defaultdict(list)
    for row, told in enumerate(parsed):
        groups[max((parts[0] for parts in told), key=lambda root: totals[root], default=None)].append(row)
    found = [
        Holder(
            _common(root, [parsed[row] for row in rows]), sum(num_bytes[row] for row in rows), len(rows), tuple(rows)
        )
        for root, rows in groups.items()
    ]
    return sorted(found, key=lambda one: (-one.num_bytes, one.name is None, str(one.name)))


def _strong(names: Iterable[str]) -> list[str]:
    """Names of who owns a tensor, where there are any: not of optimizers that list it, nor of graphs that saved it."""
    known = list(names)
    return [n for n in known if not (".grad_fn" in n or ".<" in n or "param_groups" in n)] or known


def _parts(name: str) -> tuple[str, ...]:
    """A name in its parts; ``Out[7]`` is one, and so is what begins the names of an exception's variables."""
    parts = _PART.findall(name) or [name]
    return (parts[0] + parts[1], *parts[2:]) if parts[0] == "Out" and len(parts) > 1 else tuple(parts)


def _common(root: str | None, names: Sequence[Sequence[tuple[str, ...]]]) -> str | None:
    """The longest beginning that the names below `root` share, down to what holds more than one."""
    if root is None:
        return None
    own = [next(parts for parts in told if parts[0] == root) for told in names]
    first, last = min(own), max(own)
    size = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    if len(own) == 1:
        size = len(first)
    kept = list(first[:size])
    while len(kept) > 1 and kept[-1] in _WEAK:
        kept.pop()
    return "".join(kept)


def names_in(column: pd.Series) -> list[list[str]]:
    """The column ``names`` of ``trace.blocks`` as lists of text; empty where it is missing, or something else."""
    known: dict[str, list[str]] = {}
    for text in column.dropna().unique():
        found = json.loads(text) if text.startswith("[") else []
        known[text] = [name for name in found if isinstance(name, str)]
    return [known.get(text, []) if isinstance(text, str) else [] for text in column]


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
