"""What a recorded function returns, said so that a replay can hand out the same: by place, or as alias of what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from cudalens.device.graph_backend import TensorPlace
from cudalens.graphs.liveness import storage_id


@dataclass(frozen=True, slots=True)
class Constant:
    """No tensor: the value of the recording."""

    value: Any


@dataclass(frozen=True, slots=True)
class Fresh:
    """A tensor with memory of its own in the pool.

    Attributes:
        place: Where.
        is_shared: Whether another output, or an output of a later recording, lies in the same memory.
    """

    place: TensorPlace
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class AliasOfLeaf:
    """An argument, or a view of one.

    Attributes:
        leaf: Its position among the leaves.
        place: Size, stride and dtype of the view; ``storage_offset`` counts from the argument's own first element.
        is_whole: Whether it is the argument as it was given.
    """

    leaf: int
    place: TensorPlace
    is_whole: bool


@dataclass(frozen=True, slots=True)
class AliasOfOutput:
    """A view of an earlier output of the same call."""

    index: int
    place: TensorPlace


@dataclass(frozen=True, slots=True)
class AliasOfPath:
    """A view of an output of an earlier recording, which the function reached by itself.

    Attributes:
        depth: Of that recording on the path.
        index: Of the output there.
        place: Where.
    """

    depth: int
    index: int
    place: TensorPlace


@dataclass(frozen=True, slots=True)
class AliasOfExternal:
    """A tensor from outside, or a view of one: the same in each replay.

    Attributes:
        tensor: It.
    """

    tensor: torch.Tensor


Output: TypeAlias = Constant | Fresh | AliasOfLeaf | AliasOfOutput | AliasOfPath | AliasOfExternal


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an output may be an alias of.

    Attributes:
        leaves: The tensors that stood for the arguments, by position; None for what is no tensor.
        externals: Identities of the storages that the function took from outside.
        find_on_path: Finds the live output of the path at an address: (depth, index), or None.
        num_results: Outputs from here on are kept for a backward, not returned: those own what they share with copies
            of arguments.
        copied: Positions of the leaves that were copied.
    """

    leaves: Sequence[torch.Tensor | None]
    externals: frozenset[int]
    find_on_path: Callable[[int], tuple[int, int] | None]
    num_results: int
    copied: frozenset[int]


def describe_outputs(outputs: Sequence[Any], around: Surroundings) -> list[Output]:
    """Say of each output of a recording what it is."""
    inputs = {
        storage_id(leaf): position for position, leaf in reversed(list(enumerate(around.leaves))) if leaf is not None
    }
    found: list[Output] = []
    firsts: dict[int, int] = {}
    for position, output in enumerate(outputs):
        described = _describe(output, position, around, inputs, firsts)
        if isinstance(described, AliasOfOutput):
            first = found[described.index]
            assert isinstance(first, Fresh)
            found[described.index] = Fresh(first.place, is_shared=True)
        found.append(described)
    return found


def _describe(
    output: Any, position: int, around: Surroundings, inputs: dict[int, int], firsts: dict[int, int]
) -> Output:
    if not isinstance(output, torch.Tensor):
        return Constant(output)
    key, place = storage_id(output), TensorPlace.of(output)
    leaf = inputs.get(key)
    if leaf is not None and not (position >= around.num_results and leaf in around.copied):
        given = around.leaves[leaf]
        assert given is not None
        return AliasOfLeaf(leaf, _relative(place, given), _is_same(place, given))
    if place.address == 0 or key in around.externals:
        on_path = around.find_on_path(place.address) if place.address else None
        return AliasOfExternal(output) if on_path is None else AliasOfPath(*on_path, place)
    on_path = around.find_on_path(place.address)
    if on_path is not None:
        return AliasOfPath(*on_path, place)
    if key in firsts:
        return AliasOfOutput(firsts[key], place)
    firsts[key] = position
    return Fresh(place)


def view_of_leaf(leaf: torch.Tensor, output: AliasOfLeaf) -> torch.Tensor:
    """What the function returned of an argument, of the argument of this call."""
    if output.is_whole:
        return leaf
    place = output.place
    if place.dtype == leaf.dtype:
        return _flagged(leaf.as_strided(place.size, place.stride, leaf.storage_offset() + place.storage_offset), place)
    ratio = leaf.element_size() / place.dtype.itemsize
    start = int(leaf.storage_offset() * ratio) + place.storage_offset
    return _flagged(leaf.detach().view(place.dtype).as_strided(place.size, place.stride, start), place)


def _flagged(view: torch.Tensor, place: TensorPlace) -> torch.Tensor:
    is_conj, is_neg = place.flags
    view = view.conj() if is_conj else view
    return torch._neg_view(view) if is_neg else view


def _relative(place: TensorPlace, given: torch.Tensor) -> TensorPlace:
    ratio = given.element_size() / place.dtype.itemsize
    start = place.storage_offset - int(given.storage_offset() * ratio)
    return replace(place, storage_offset=start)


def _is_same(place: TensorPlace, given: torch.Tensor) -> bool:
    own = (tuple(given.shape), given.stride(), given.storage_offset(), given.dtype)
    return not any(place.flags) and own == (place.size, place.stride, place.storage_offset, place.dtype)
