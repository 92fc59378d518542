"""Pad arguments whose lengths grow to a few lengths, so that each length does not need a recording of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from cudalens.errors import GraphError
from cudalens.graphs import arguments
from cudalens.graphs.structure import flatten_tree, is_size, labels_in, unflatten_tree

if TYPE_CHECKING:
    from cudalens.graphs.functions import Function


@dataclass(frozen=True, slots=True)
class Pad:
    """How an argument is padded at the end of one dimension.

    Attributes:
        multiple: The length becomes the next multiple of this.
        dim: The dimension.
        value: What the padding contains.
        results: Which dimension of the results has the length of this argument and is cut to the length before padding:
            a number for all tensors that the function returns; a mapping for some of them, by their place in what it
            returns (``{"[0]": 1}``, ``{"['logits']": 1}``), an empty one for none. None: not stated, which is an error
            if a result has a dimension of the padded length.
    """

    multiple: int
    dim: int = -1
    value: float = 0
    results: int | Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.multiple, bool) or not isinstance(self.multiple, int) or self.multiple < 1:
            raise TypeError(f"pad to multiples of {self.multiple!r}: expected a number of 1 or more.")

    def length_of(self, length: int) -> int:
        """The length after padding; an empty argument stays empty."""
        return -(-length // self.multiple) * self.multiple


@dataclass(slots=True)
class _Padded:
    """An argument of a call that was padded.

    Attributes:
        label: What a person calls it.
        pad: How it is padded.
        length: Its length before.
        padded: Its length after.
        tensor: It, padded.
        version: The version counter of that; None in inference mode.
    """

    label: str
    pad: Pad
    length: int
    padded: int
    tensor: torch.Tensor
    version: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.version = None if self.tensor.is_inference() else self.tensor._version


def pads_of(given: Mapping[str, int | Pad] | None) -> dict[str, Pad]:
    """The argument ``pad`` of `cudagraph`, with a `Pad` for each number.

    Raises:
        TypeError: It is not such a mapping.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"pad={given!r}: expected a dict of arguments' names and multiples, as {{'input_ids': 64}}.")
    return {name: one if isinstance(one, Pad) else Pad(one) for name, one in given.items()}


def call_padded(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[..., Any]) -> Any:
    """Call a function with padded arguments, and cut its results.

    Args:
        function: The function.
        args: Positional arguments.
        kwargs: Keyword arguments.
        call: Calls the function with the arguments that it gets, by a graph or without one.

    Raises:
        GraphError: An argument cannot be padded, or it is not known how the results are cut.
    """
    leaves, spec = flatten_tree((args, kwargs))
    labels = arguments.labels_of(function.call, args, kwargs)
    padded = _pad_leaves(function, leaves, labels)
    given, named = unflatten_tree(leaves, spec)
    result = call(*given, **named)
    for one in padded:
        if (one.version is not None and one.tensor._version != one.version) or _is_written(function, one.label):
            raise GraphError(
                f"{function.name} overwrites '{one.label}', which is padded (pad=...): the change is in the padded "
                "copy. Return the new value, or leave the argument out of pad."
            )
    cuts = list({id(one.pad): one for one in padded}.values())  # once for each argument
    stated = [one for one in cuts if one.pad.results is not None]
    known = {(one.length, one.padded) for one in stated}
    others = [one for one in cuts if one.pad.results is None and (one.length, one.padded) not in known]
    for one in (*stated, *others):
        result = _cut(function, result, one)
    return result


def _pad_leaves(function: Function, leaves: list[Any], labels: list[str]) -> list[_Padded]:
    """Pad the tensors among the leaves of a call, in place in the list."""
    padded: list[_Padded] = []
    for name, pad in function.pad.items():
        mine = [n for n, label in enumerate(labels) if label == name or label.startswith((f"{name}[", f"{name}."))]
        tensors = [n for n in mine if isinstance(leaves[n], torch.Tensor)]
        if not tensors and not mine:
            raise GraphError(
                f"pad={{{name!r}: ...}}: {function.name} was called without such an argument; its arguments are "
                f"{', '.join(dict.fromkeys(labels)) or 'none'}."
            )
        for n in tensors:
            found = _pad_tensor(function, labels[n], leaves[n], pad)
            leaves[n] = found.tensor
            padded.append(found)
        lengths = {one.length for one in padded if one.pad is pad}
        if len(lengths) > 1:
            raise GraphError(
                f"{function.name}: the tensors in '{name}' have several lengths in the dimension that is padded: "
                f"{', '.join(map(str, sorted(lengths)))}."
            )
    return padded


def _pad_tensor(function: Function, label: str, tensor: torch.Tensor, pad: Pad) -> _Padded:
    if not -tensor.dim() <= pad.dim < tensor.dim():
        raise GraphError(f"{function.name}: '{label}' has {tensor.dim()} dimensions; pad is for {pad.dim}.")
    dim = pad.dim % tensor.dim()
    length = tensor.shape[dim]
    missing = pad.length_of(length) - length
    if missing:
        widths = [0, 0] * (tensor.dim() - dim - 1) + [0, missing]
        tensor = torch.nn.functional.pad(tensor, widths, value=pad.value)
    return _Padded(label, pad, length, length + missing, tensor)


def _is_written(function: Function, label: str) -> bool:
    """Whether a warm-up has seen that the function overwrites an argument."""
    return any(variant.labels[n] == label for variant in function.variants.values() for n in variant.written)


def _cut(function: Function, result: Any, padded: _Padded) -> Any:
    """Cut the results to the length of an argument before it was padded.

    Raises:
        GraphError: It is not known which, or one has another length than the padded argument.
    """
    if padded.length == padded.padded:
        return result
    leaves, spec = flatten_tree(result)
    labels = list(_result_labels(result, len(leaves)))
    dims = _dims_to_cut(function, padded, leaves, labels)
    for n, dim in dims.items():
        tensor, label = leaves[n], labels[n] or "the result"
        has_dim = isinstance(tensor, torch.Tensor) and -tensor.dim() <= dim < tensor.dim()
        if not has_dim or tensor.shape[dim] != padded.padded:
            what = f"size {list(tensor.shape)}" if isinstance(tensor, torch.Tensor) else f"type {type(tensor).__name__}"
            raise GraphError(
                f"{function.name}: {label} has {what}, which has no dimension {dim} of the length of "
                f"'{padded.label}' after padding ({padded.padded}). Name the results that are cut: "
                'results={"[0]": 1}, or results={}.'
            )
        leaves[n] = tensor.narrow(dim, 0, padded.length)
    return unflatten_tree(leaves, spec)


def _dims_to_cut(function: Function, padded: _Padded, leaves: list[Any], labels: list[str]) -> dict[int, int]:
    """The dimension that is cut of each result, by its position."""
    wanted = padded.pad.results
    tensors = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if isinstance(wanted, int):
        return dict.fromkeys(tensors, wanted)
    if wanted is None:
        alike = next((n for n in tensors if padded.padded in leaves[n].shape), None)
        if alike is None:
            return {}
        dim = list(leaves[alike].shape).index(padded.padded)
        raise GraphError(
            f"{function.name}: {labels[alike] or 'the result'} has size {list(leaves[alike].shape)}, and "
            f"'{padded.label}' was padded from {padded.length} to {padded.padded}. State whether it is cut: "
            f"pad={{'{padded.label}': cudalens.graphs.Pad({padded.pad.multiple}, results={dim})}}, or results={{}}."
        )
    missing = [label for label in wanted if label not in labels]
    if missing:
        raise GraphError(f"{function.name} returns no {missing[0]}; it returns {', '.join(labels)}.")
    return {labels.index(label): dim for label, dim in wanted.items()}


def _result_labels(result: Any, num_leaves: int) -> Iterator[str]:
    """The place of each leaf in what a function returned: "" for all of it, ``[0]``, ``['logits']``, ``.loss``."""
    parts, _ = pytree.tree_flatten_with_path(result, is_leaf=is_size)
    labels = [label for path, part in parts for label in labels_in(part, pytree.keystr(path))]
    yield from labels if len(labels) == num_leaves else map("leaf {}".format, range(num_leaves))
