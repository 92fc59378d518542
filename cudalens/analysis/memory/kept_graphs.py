"""Containers of losses that keep the autograd graph of every step, from the names in ``trace.blocks``."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import pandas as pd

from cudalens.analysis.memory.names import names_in
from cudalens.analysis.memory.stacks import active_blocks
from cudalens.frames import Trace

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
