"""Flatten arguments into leaves, and put leaves together again; dataclasses are taken apart, too.

torch.utils._pytree treats a dataclass as a leaf. Registering its class there would change what other code of the
program does, so dataclasses are taken apart here.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from cudalens.graphs.guards.lookups import attributes_in


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A dataclass in a structure.

    Attributes:
        position: Of the dataclass among the leaves of the structure around it.
        kind: Its class.
        names: Of its fields.
        num_leaves: How many leaves its fields have.
        spec: The structure of the tuple of its fields.
    """

    position: int
    kind: type
    names: tuple[str, ...]
    num_leaves: int
    spec: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Structure:
    """A structure with dataclasses.

    Attributes:
        spec: torch's structure, in which a dataclass is a leaf.
        records: The dataclasses.
    """

    spec: Any
    records: tuple[Record, ...]


def flatten_tree(tree: Any) -> tuple[list[Any], Any]:
    """Flatten nested containers and dataclasses.

    Returns:
        The leaves, and the structure; equal structures have equal hashes.
    """
    parts, spec = pytree.tree_flatten(tree, is_leaf=is_size)
    if not any(map(is_record, parts)):
        return parts, spec
    expanded = _expand(parts, spec, set())
    return (parts, spec) if expanded is None else expanded


def _expand(parts: Sequence[Any], spec: Any, seen: set[int]) -> tuple[list[Any], Any] | None:
    """Take the dataclasses among some leaves apart; None if one of them comes twice, so that its identity counts."""
    leaves: list[Any] = []
    records = []
    for position, part in enumerate(parts):
        if not is_record(part):
            leaves.append(part)
            continue
        if id(part) in seen:
            return None
        seen.add(id(part))
        held = attributes_in(part) or {}
        inner, inner_spec = pytree.tree_flatten(tuple(held.values()), is_leaf=is_size)
        expanded = _expand(inner, inner_spec, seen)
        if expanded is None:
            return None
        leaves += expanded[0]
        records.append(Record(position, type(part), tuple(held), len(expanded[0]), expanded[1]))
    return leaves, Structure(spec, tuple(records)) if records else spec


def unflatten_tree(leaves: Sequence[Any], spec: Any) -> Any:
    """Put leaves together as `flatten_tree` took them apart. A dataclass is made without its constructor."""
    if not isinstance(spec, Structure):
        return pytree.tree_unflatten(leaves, spec)
    records = {record.position: record for record in spec.records}
    parts, start = [], 0
    for position in range(spec.spec.num_leaves):
        record = records.get(position)
        if record is None:
            parts.append(leaves[start])
            start += 1
            continue
        values = unflatten_tree(leaves[start : start + record.num_leaves], record.spec)
        made: Any = object.__new__(record.kind)
        for name, value in zip(record.names, values, strict=True):
            object.__setattr__(made, name, value)
        parts.append(made)
        start += record.num_leaves
    return pytree.tree_unflatten(parts, spec.spec)


def labels_in(part: Any, label: str) -> list[str]:
    """The names of the leaves in one leaf of torch's, whose own name is `label`: ``batch.ids``."""
    if not is_record(part):
        return [label]
    found = []
    for name, value in (attributes_in(part) or {}).items():
        for path, inner in pytree.tree_flatten_with_path(value, is_leaf=is_size)[0]:
            found += labels_in(inner, f"{label}.{name}{pytree.keystr(path)}")
    return found


def containers_in(value: Any) -> Iterator[Any]:
    """The lists and dicts in some arguments or results."""
    if isinstance(value, list | tuple | dict):
        yield from [] if isinstance(value, tuple) else [value]
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers_in(item)


def classes_in(spec: Any) -> Iterator[type]:
    """The classes of the dataclasses and named tuples in a structure."""
    if isinstance(spec, Structure):
        for record in spec.records:
            yield record.kind
            yield from classes_in(record.spec)
        spec = spec.spec
    if spec is None:
        return
    if isinstance(spec.context, type):  # of a named tuple
        yield spec.context
    for part in _parts(spec):
        yield from classes_in(part)


def _parts(spec: Any) -> Any:
    """The structures in one of torch's."""
    return spec.children() if hasattr(spec, "children") else spec.children_specs  # the second before torch 2.10


def keys_in(spec: Any) -> Iterator[Any]:
    """The keys of the dicts in a structure: structures are equal if these are, and 1 == True."""
    if isinstance(spec, Structure):
        for record in spec.records:
            yield from keys_in(record.spec)
        spec = spec.spec
    if isinstance(spec.type, type) and issubclass(spec.type, dict):  # the type of a named tuple is a function
        yield from spec.context[1] if spec.type is defaultdict else spec.context
    for part in _parts(spec):
        yield from keys_in(part)


def is_record(value: Any) -> bool:
    """Whether something is a dataclass whose fields are all that it holds."""
    kind = type(value)
    if not hasattr(kind, "__dataclass_fields__") or issubclass(kind, torch.Tensor | torch.nn.Module | type):
        return False
    held = attributes_in(value)
    return held is not None and held.keys() == {field.name for field in dataclasses.fields(kind)}


def is_size(value: Any) -> bool:
    """Whether something is a torch.Size: torch.utils._pytree would put it together again as a plain tuple."""
    return isinstance(value, torch.Size)
