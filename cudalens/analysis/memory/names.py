"""The variable that holds each block, by the names in ``trace.blocks``."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

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
