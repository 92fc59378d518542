"""Describe what a recorded function returns, so that a replay returns the same: places and aliases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from cudalens.device.graph_backend import TensorPlace
from cudalens.graphs.links import OWN, Kind, Link, base_of, derive, is_new_leaf, link_between, share_version
from cudalens.graphs.liveness import storage_id, version_of


@dataclass(frozen=True, slots=True)
class Constant:
    """No tensor: the value of the recording."""

    value: Any


@dataclass(frozen=True, slots=True)
class Fresh:
    """A tensor with memory of its own in the pool.

    Attributes:
        place: Where.
        is_shared: Whether an output of a later recording uses the same memory.
        link: Whether it is a new leaf.
        version: How often autograd counted an in-place change of it.
    """

    place: TensorPlace
    is_shared: bool = False
    link: Link = OWN
    version: int = 0


@dataclass(frozen=True, slots=True)
class AliasOfLeaf:
    """An argument, or a tensor that shares its memory.

    Attributes:
        leaf: Its position among the leaves.
        place: Size, stride and dtype; ``storage_offset`` counts from the argument's own first element.
        link: How it is derived from the argument.
        requires_grad: Whether it requires a gradient.
    """

    leaf: int
    place: TensorPlace
    link: Link
    requires_grad: bool


@dataclass(frozen=True, slots=True)
class AliasOfOutput:
    """A tensor that shares memory with another output of the same call.

    Attributes:
        index: Of that output.
        place: Where.
        link: How it is derived from that output.
        requires_grad: Whether it requires a gradient.
    """

    index: int
    place: TensorPlace
    link: Link
    requires_grad: bool


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
    """A tensor from outside, or one that shares its memory.

    Attributes:
        tensor: The one from outside.
        place: Where.
        link: How the output is derived from it.
        requires_grad: Whether the output requires a gradient.
    """

    tensor: torch.Tensor
    place: TensorPlace
    link: Link
    requires_grad: bool


@dataclass(frozen=True, slots=True)
class SavedArgument:
    """An argument that autograd saved, or of which it saved a view.

    Attributes:
        leaf: Its position among the leaves.
        is_whole: Whether the argument itself may have been saved, and not a view of it.
        copies: What was saved in the recording's copy of the argument: the position among all saved tensors, and the
            place, which counts from the argument's own first element. Empty for an argument that is used in place.
    """

    leaf: int
    is_whole: bool
    copies: tuple[tuple[int, TensorPlace], ...]


Output: TypeAlias = Constant | Fresh | AliasOfLeaf | AliasOfOutput | AliasOfPath | AliasOfExternal


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an output may share memory with.

    Attributes:
        leaves: The tensors that the function got as arguments, by position; None for what is no tensor.
        externals: Tensors that the function took from outside, by the identity of their storage.
        named: Those that the program holds under a name, by the identity of their storage.
        find_on_path: Finds the live output of the path at an address: (depth, index), or None.
        first_saved: Outputs from here on are kept for a backward, not returned: those own what they share with copies
            of arguments.
        copied: Positions of the leaves that were copied.
    """

    leaves: Sequence[torch.Tensor | None]
    externals: Mapping[int, torch.Tensor]
    named: Mapping[int, Sequence[torch.Tensor]]
    find_on_path: Callable[[int], tuple[int, int] | None]
    first_saved: int
    copied: frozenset[int]


def hidden_bases(results: Sequence[Any], is_made: Callable[[torch.Tensor], bool]) -> list[torch.Tensor]:
    """Tensors that are not returned, though several results share their memory and one is a view of them.

    Args:
        results: What the function returned.
        is_made: Whether the function made a tensor's memory.
    """
    tensors = [result for result in results if isinstance(result, torch.Tensor)]
    num_sharing = Counter(map(storage_id, tensors))
    found: dict[int, torch.Tensor] = {}
    for tensor in tensors:
        base = base_of(tensor)
        is_returned = any(base is other for other in tensors)
        if not is_returned and num_sharing[storage_id(tensor)] > 1 and is_made(tensor):
            found[id(base)] = base
    return list(found.values())


def saved_arguments(outputs: Sequence[Any], around: Surroundings) -> list[SavedArgument]:
    """The arguments that are among what a recording saved for its backward."""
    found = []
    saved = list(enumerate(outputs[around.first_saved :]))
    for leaf, given in enumerate(around.leaves):
        if given is None:
            continue
        of_leaf = [(n, tensor) for n, tensor in saved if storage_id(tensor) == storage_id(given)]
        of_leaf = [(n, tensor) for n, tensor in of_leaf if share_version(tensor, given)]
        if of_leaf:
            is_whole = any(_reads_alike(tensor, given) for _, tensor in of_leaf)
            is_copied = leaf in around.copied
            copies = [(n, _relative(TensorPlace.of(tensor), given)) for n, tensor in of_leaf if is_copied]
            found.append(SavedArgument(leaf, is_whole, tuple(copies)))
    return found


def _reads_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one storage have the same elements in the same order."""
    return a.shape == b.shape and a.stride() == b.stride() and a.storage_offset() == b.storage_offset()


def describe_outputs(outputs: Sequence[Any], around: Surroundings) -> list[Output]:
    """How each output of a recording is made again."""
    return _Description(outputs, around).run()


class _Description:
    """Describes the outputs of one recording."""

    def __init__(self, outputs: Sequence[Any], around: Surroundings) -> None:
        self._outputs, self._around = outputs, around
        self._repeated: dict[int, int] = {}
        self._owners: dict[int, list[int]] = {}
        self._links: dict[int, tuple[int, Link]] = {}

    def run(self) -> list[Output]:
        """All of them."""
        groups: dict[int, list[int]] = {}
        seen: dict[int, int] = {}
        for position, output in enumerate(self._outputs):
            if isinstance(output, torch.Tensor):
                first = seen.setdefault(id(output), position)
                if first != position:
                    self._repeated[position] = first
                elif self._argument_of(position, output) is None and storage_id(output) not in self._around.externals:
                    groups.setdefault(storage_id(output), []).append(position)
        for key, positions in groups.items():
            self._link_group(key, positions)
        return [self._describe(position, output) for position, output in enumerate(self._outputs)]

    def _link_group(self, key: int, positions: list[int]) -> None:
        """Find which of the outputs that share a storage the others are derived from."""
        owners = self._owners[key] = []
        for position in sorted(positions, key=self._derives_last):
            output = self._outputs[position]
            base = None
            if position < self._around.first_saved:
                related = (n for n in owners if base_of(self._outputs[n]) is base_of(output))
                base = next(related, None if _is_tracked(output) or not owners else owners[0])
            link = OWN if base is None else link_between(output, self._outputs[base])
            if base is None or link.kind is Kind.OWN:
                owners.append(position)
            else:
                self._links[position] = base, link

    def _derives_last(self, position: int) -> tuple[bool, bool, bool]:
        output = self._outputs[position]
        return position >= self._around.first_saved, not _is_tracked(output), base_of(output) is not output

    def _describe(self, position: int, output: Any) -> Output:
        if not isinstance(output, torch.Tensor):
            return Constant(output)
        place = TensorPlace.of(output)
        if position in self._repeated:
            return AliasOfOutput(self._repeated[position], place, Link(Kind.SAME), output.requires_grad)
        leaf = self._argument_of(position, output)
        if leaf is not None:
            given = _tensor(self._around.leaves[leaf])
            link = OWN if position >= self._around.first_saved else link_between(output, given)
            return AliasOfLeaf(leaf, _relative(place, given), link, output.requires_grad)
        on_path = self._around.find_on_path(place.address) if place.address else None
        if on_path is not None:
            return AliasOfPath(*on_path, place)
        if storage_id(output) in self._around.externals and position < self._around.first_saved:
            return self._of_external(output, place)
        if place.address == 0 or storage_id(output) in self._around.externals:
            return AliasOfExternal(output.detach(), place, Link(is_new_leaf=is_new_leaf(output)), output.requires_grad)
        return self._of_made(position, output, place)

    def _argument_of(self, position: int, output: torch.Tensor) -> int | None:
        """The argument that an output shares memory with: itself or what it is a view of, before all others."""
        leaves = [(n, leaf) for n, leaf in enumerate(self._around.leaves) if leaf is not None]
        found = [(n, leaf) for n, leaf in leaves if storage_id(leaf) == storage_id(output)]
        found.sort(key=lambda at: (at[1] is not output, base_of(at[1]) is not base_of(output)))
        leaf = found[0][0] if found else None
        return None if position >= self._around.first_saved and leaf in self._around.copied else leaf

    def _of_external(self, output: torch.Tensor, place: TensorPlace) -> AliasOfExternal:
        named = self._around.named.get(storage_id(output), ())
        used = self._around.externals[storage_id(output)]
        wanted = (output, base_of(output))
        base = next((tensor for want in wanted for tensor in named if tensor is want), None)
        if base is None:
            base = named[0] if named and used is output else used
        return AliasOfExternal(base, place, link_between(output, base), output.requires_grad)

    def _of_made(self, position: int, output: torch.Tensor, place: TensorPlace) -> Output:
        base, link = self._links.get(position, (None, Link(is_new_leaf=is_new_leaf(output))))
        if base is not None:
            return AliasOfOutput(base, place, link, output.requires_grad)
        first = self._owners[storage_id(output)][0]
        if first != position:
            if position >= self._around.first_saved and share_version(output, self._outputs[first]):
                link = Link(Kind.DETACHED)  # so that autograd notices an in-place change of the result
            return AliasOfOutput(first, place, link, output.requires_grad)
        return Fresh(place, link=link, version=version_of(output))


def _is_tracked(output: torch.Tensor) -> bool:
    """Whether autograd has a history of it."""
    return output.requires_grad and not output.is_leaf


def _tensor(leaf: torch.Tensor | None) -> torch.Tensor:
    assert leaf is not None
    return leaf


def view_of_leaf(leaf: torch.Tensor, output: AliasOfLeaf) -> torch.Tensor:
    """What the function returned of an argument, of the argument of this call."""
    return derive(leaf, output.link, absolute(output.place, leaf), requires_grad=output.requires_grad)


def absolute(place: TensorPlace, leaf: torch.Tensor) -> TensorPlace:
    """The place in the storage of `leaf` that `place` says relative to its first element."""
    start = leaf.storage_offset() * leaf.element_size() // place.dtype.itemsize
    return replace(place, storage_offset=start + place.storage_offset)


def _relative(place: TensorPlace, given: torch.Tensor) -> TensorPlace:
    start = given.storage_offset() * given.element_size() // place.dtype.itemsize
    return replace(place, storage_offset=place.storage_offset - start)
