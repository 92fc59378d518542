"""Names of variables that hold memory, as ``trace.blocks`` has them: whose a block is."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

#: Endings that are left out of what many names share.
_PART: Final = re.compile(r"\.<[^>]*>|<[^>]*>|\.\w+(?:\(\))?|\[(?:'[^']*'|\"[^\"]*\"|[^\]])*\]|\w+|.")
_WEAK: Final = (".grad_fn", ".grad")


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
    begins there. Of two that hold the same, the one that is a container is named.

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
        best = max(told, key=lambda parts: (totals[parts[0]], len(parts)), default=(None,))
        groups[best[0]].append(row)
    found = [
        Holder(
            _common(root, [parsed[row] for row in rows]), sum(num_bytes[row] for row in rows), len(rows), tuple(rows)
        )
        for root, rows in groups.items()
    ]
    return sorted(found, key=lambda one: (-one.num_bytes, one.name is None, str(one.name)))


def _strong(names: Iterable[str]) -> list[str]:
    """Names of who owns a tensor, where there are any: variables before those of functions, graphs and optimizers."""
    known = list(names)
    known = [name for name in known if not name.startswith("<")] or known
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
        known[text] = _listed(text)
    return [known.get(text, []) if isinstance(text, str) else [] for text in column]


def _listed(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def block_holders(blocks: pd.DataFrame) -> pd.Series:
    """The variable that holds each row of a ``blocks`` frame, as `holders` finds it; None where there is none."""
    found: list[str | None] = [None] * len(blocks)
    for one in holders(names_in(blocks["names"]), blocks["num_bytes"].tolist()):
        for row in one.rows:
            found[row] = one.name
    return pd.Series(found, index=blocks.index, dtype=object)
