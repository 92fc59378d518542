"""What the search for the values of a function found."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Read:
    """A value that a function can read.

    Attributes:
        container: What holds it.
        key: By which it is found there.
        label: As a person would write it.
        value: What it was.
    """

    container: Any
    key: Any
    label: str
    value: Any


@dataclass(slots=True)
class Reads:
    """All that a function can read.

    Attributes:
        values: The values.
        tensors: The tensors: found again by their addresses.
        sizes: Containers whose length belongs to what is read, with a label.
        absent: Namespaces, with names of globals that they do not hold: those are built-in, or do not exist.
        orders: Dicts whose order of keys belongs to what is read, with a label.
        functions: Functions whose code belongs to what is read, with a label: it can be replaced (``%autoreload``).
        owners: Objects whose class belongs to what is read, with a label.
        attributes: Objects whose ``__dict__`` has values that are read, with it and a label.
        unguarded: Values that cannot be compared before a replay, in words.
        is_complete: Whether the search reached its end.
        has_identities: Whether results can depend on the identity of a tensor: `CodeNames.has_identities` of some code,
            or a tensor is a key of a dict.
        keys: Tensors that are keys of dicts or elements of sets, with a label.
    """

    values: list[Read] = field(default_factory=list)
    tensors: list[Read] = field(default_factory=list)
    sizes: list[tuple[Any, str]] = field(default_factory=list)
    absent: list[tuple[dict[str, Any], frozenset[str]]] = field(default_factory=list)
    orders: list[tuple[Any, str]] = field(default_factory=list)
    functions: list[tuple[FunctionType, str]] = field(default_factory=list)
    owners: list[tuple[Any, str]] = field(default_factory=list)
    attributes: list[tuple[Any, dict[str, Any], str]] = field(default_factory=list)
    unguarded: list[str] = field(default_factory=list)
    is_complete: bool = True
    has_identities: bool = False
    keys: list[tuple[torch.Tensor, str]] = field(default_factory=list)
