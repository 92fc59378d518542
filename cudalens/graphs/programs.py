"""Run the user's function on the leaves of a recording, and flatten its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol

import torch
from torch.utils import _pytree as pytree

from cudalens.errors import GraphError
from cudalens.graphs.arguments import has_hooks, unflatten
from cudalens.graphs.guards.captured import Name
from cudalens.graphs.links import is_new_leaf
from cudalens.graphs.liveness import storage_id, version_of
from cudalens.graphs.observer import Observer
from cudalens.graphs.outputs import hidden_bases
from cudalens.graphs.structure import is_size

_CONSTANTS: Final = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size, slice)


class Program(Protocol):
    """Something that runs on leaves.

    Attributes:
        function: Whose arguments the leaves are; where names are looked up.
        num_results: How many of the outputs of the latest run are results.
        first_saved: From which position on outputs are kept for a backward; between are bases of results.
        given: The leaves that the function got in the latest recording.
        opaque: Type of a result that a replay cannot make again, seen in a warmup; None if there is none.
        result_spec: The structure of the results.
        result: What the function returned in the latest warm-up, as it is.
    """

    function: Callable[..., Any]
    num_results: int
    first_saved: int
    given: list[Any]
    opaque: str | None
    result_spec: Any
    result: Any

    def run(self, leaves: list[Any], observer: Observer | None = None) -> list[Any]:
        """Run it; `leaves` is empty afterwards, so that nothing keeps them alive."""


class Inference:
    """A function that needs no gradients, or whose gradients torch's own autograd finds.

    Args:
        function: The user's.
        spec: How leaves become its arguments.
        name: For messages.
    """

    def __init__(self, function: Callable[..., Any], spec: Any, name: str) -> None:
        self.function, self._spec, self._name = function, spec, name
        self.num_results = self.first_saved = 0
        self.given: list[Any] = []
        self.opaque: str | None = None
        self.result_spec: Any = None
        self.result: Any = None

    def run(self, leaves: list[Any], observer: Observer | None = None) -> list[Any]:
        """Call the function; in a recording, what several results are views of comes behind them.

        Raises:
            GraphError: In a recording, it returned something that is neither tensor nor constant.
        """
        if observer is not None:
            self.given = list(leaves)
        args, kwargs = unflatten(leaves, self._spec)
        leaves.clear()
        result = self.function(*args, **kwargs)
        del args, kwargs
        outputs: list[Any]
        if isinstance(result, torch.Tensor):
            outputs, self.result_spec = [result], None
        else:
            outputs, self.result_spec = pytree.tree_flatten(result, is_leaf=is_size)
        self.result = result if observer is None else None
        self.opaque = opaque_type(outputs)
        if observer is not None and self.opaque is not None:
            raise GraphError(f"{self._name} returned an object of type {self.opaque}: no replay can make it again.")
        self.num_results = len(outputs)
        if observer is not None:
            outputs += hidden_bases(outputs, lambda tensor: storage_id(tensor) in observer.made)
        self.first_saved = len(outputs)
        return outputs


def together(outputs: Sequence[Any], spec: Any) -> Any:
    """Results as the function returned them."""
    return outputs[0] if spec is None else pytree.tree_unflatten(outputs, spec)


def opaque_type(outputs: Sequence[Any]) -> str | None:
    """Type of the first result that is neither a tensor nor a constant; None if there is none."""
    found = (type(output).__name__ for output in outputs if not isinstance(output, (torch.Tensor, *_CONSTANTS)))
    return next(found, None)


def check_version(tensor: torch.Tensor, version: int) -> None:
    """As autograd does: check that a tensor was not overwritten after a forward saved it.

    Raises:
        RuntimeError: It was overwritten; with torch's message.
    """
    if version_of(tensor) != version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{tensor.type()} {list(tensor.shape)}] is at version {version_of(tensor)}; expected version {version} "
            "instead. Change it after the backward, or clone it before."
        )


class SavedTensors:
    """What autograd saves while a forward is recorded, kept as outputs of the recording instead.

    Attributes:
        tensors: Saved tensors in the pool, and saved arguments; emptied when the recording has them.
        given: The same for one backward, while that runs.
        outside: What was saved of tensors from outside, which autograd keeps as they are.
    """

    def __init__(self, observer: Observer, leaves: Sequence[torch.Tensor]) -> None:
        self.tensors: list[torch.Tensor] = []
        self.given: Sequence[torch.Tensor] = ()
        self.outside: dict[int, torch.Tensor] = {}
        self._observer: Observer | None = observer
        self._leaves = {tensor.untyped_storage()._cdata for tensor in leaves}
        self._known: dict[tuple[Any, ...], int] = {}
        self._versions: list[int] = []
        self._versions_outside: list[int] = []

    def pack(self, tensor: torch.Tensor) -> Any:
        """What autograd keeps in place of a tensor: a number, or the tensor where it comes from outside."""
        observer = self._observer
        if observer is None:
            return tensor
        identity = tensor.untyped_storage()._cdata
        is_given = identity in observer.made or identity in self._leaves
        if not is_given or observer.is_constant(tensor):  # an index from a list, say
            if id(tensor) not in self.outside:
                self.outside[id(tensor)] = tensor
                self._versions_outside.append(tensor._version)
            return tensor
        flags = tensor.is_conj(), tensor.is_neg()  # the same memory, read in another way
        place = tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype, *flags
        key = (identity, *place, tensor._version)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.tensors)
            self.tensors.append(tensor.detach())
            self._versions.append(tensor._version)
        return number

    def unpack(self, kept: Any) -> torch.Tensor:
        """The tensor again, of the call that is differentiated."""
        return kept if isinstance(kept, torch.Tensor) else (self.given or self.tensors)[kept]

    def versions(self) -> list[int]:
        """How often each tensor from outside was written, to notice that it was between forward and backward."""
        return [tensor._version for tensor in self.outside.values()]

    def take(self, name: str) -> list[torch.Tensor]:
        """The saved tensors, which nothing here keeps from now on; the recording is over.

        Args:
            name: Of the function, for the message.

        Raises:
            GraphError: The function overwrote one of them, so that autograd refuses its backward.
        """
        now = [tensor._version for tensor in self.tensors]
        if now != self._versions or self.versions() != self._versions_outside:
            raise GraphError(f"{name} overwrites a tensor that autograd needs for the backward.")
        taken, self.tensors, self._observer = self.tensors, [], None
        self._known.clear()
        return taken


@dataclass(slots=True)
class Derivative:
    """The autograd graph of one recorded forward.

    Attributes:
        saved: What it saved.
        roots: Edges to differentiate from, one per result; None for one without gradient.
        ends: Edges to differentiate to: the leaves that require gradients, then the tensors from outside.
        leaves: Positions of those leaves.
        externals: Those tensors.
        names: Where the program holds each; None where that was not found.
        parts: A number for each of `roots`: results of different parts share no saved tensors, so that autograd
            differentiates one after a backward of another has freed what its part saved.
        parts_outside: For each tensor from outside that was saved (`SavedTensors.outside`), the parts that saved it.
        partial: Of `ends`, the positions of those from which some results are computed, and others are not.
    """

    saved: SavedTensors
    roots: list[Any]
    ends: list[Any]
    leaves: list[int]
    externals: list[torch.Tensor]
    names: list[Name | None] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    parts_outside: list[set[int]] = field(default_factory=list)
    partial: list[int] = field(default_factory=list)

    def uneven_input(self, given: Sequence[Any]) -> torch.Tensor | None:
        """An input from which some results are computed and others are not, where a gradient of None has an effect.

        Autograd runs what follows a node with gradients of None as well. For results that do not depend on an input,
        eager execution runs nothing: neither hooks of a parameter nor the functions that computed an argument.

        Args:
            given: Arguments of the call.
        """
        inputs = [*(given[n] for n in self.leaves), *self.inputs()] if self.partial else []
        return next((inputs[n] for n in self.partial if not inputs[n].is_leaf or has_hooks(inputs[n])), None)

    def inputs(self) -> list[torch.Tensor]:
        """The tensors from outside of this call."""
        return [
            tensor if name is None else name.container[name.key]
            for tensor, name in zip(self.externals, self.names, strict=True)
        ]


class _Source(torch.autograd.Function):
    """Makes a tensor the start of an autograd graph that does not keep it alive, as a leaf's node would."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        return make()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None


class Training(Inference):
    """A function whose gradients are wanted, while it is recorded: its autograd graph stays with the recording."""

    def __init__(self, function: Callable[..., Any], spec: Any, name: str, alias: Callable[..., torch.Tensor]) -> None:
        super().__init__(function, spec, name)
        self._alias = alias
        self.derivative: Derivative | None = None

    def run(self, leaves: list[Any], observer: Observer | None = None) -> list[Any]:
        """Call the function; what autograd saves comes behind its results.

        Raises:
            GraphError: As `Inference.run`.
        """
        if observer is None:  # a warmup, in which torch's own autograd differentiates
            return super().run(leaves)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        saved = SavedTensors(observer, tensors)
        del tensors
        with torch.autograd.graph.saved_tensors_hooks(saved.pack, saved.unpack):
            positions, edges = self._start(leaves)
            outputs = super().run(leaves, observer)
        is_new = [isinstance(output, torch.Tensor) and is_new_leaf(output) for output in outputs]
        roots = [None if new else _edge(output) for new, output in zip(is_new, outputs, strict=True)]
        externals = [e.tensor for e in observer.externals.values() if e.tensor.requires_grad]
        reached = [_reached(root, [*edges, *map(_edge, externals)]) for root in roots if root is not None]
        used = set().union(*reached)  # a backward must not reach the others
        positions = [position for n, position in enumerate(positions) if n in used]
        externals = [tensor for n, tensor in enumerate(externals, len(edges)) if n in used]
        edges = [edge for n, edge in enumerate(edges) if n in used]
        ends = [*edges, *map(_edge, externals)]
        parts, nodes = _parts(roots, ends)
        self.derivative = Derivative(saved, roots, ends, positions, externals, parts=parts)
        in_all = set(used).intersection(*reached)
        self.derivative.partial = [n for n, end in enumerate(sorted(used)) if end not in in_all]
        self.derivative.parts_outside = _parts_outside(list(saved.outside.values()), parts, nodes)
        return outputs + saved.take(self._name)

    def _start(self, leaves: list[Any]) -> tuple[list[int], list[Any]]:
        positions, edges = [], []
        starts: dict[int, torch.Tensor] = {}
        given = list(leaves)
        for position, leaf in enumerate(given):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                if id(leaf) not in starts:
                    starts[id(leaf)] = self._source(leaf.detach())
                    positions.append(position)
                    edges.append(_edge(starts[id(leaf)]))
                leaves[position] = starts[id(leaf)]
        return positions, edges

    def _source(self, plain: torch.Tensor) -> torch.Tensor:
        anchor = torch.empty(0, requires_grad=True)
        with torch.enable_grad():
            made: torch.Tensor = _Source.apply(anchor, lambda: self._alias(plain))  # type: ignore[no-untyped-call]
        return made


def _edge(output: Any) -> Any:
    if not isinstance(output, torch.Tensor) or not output.requires_grad:
        return None
    return torch.autograd.graph.get_gradient_edge(output)


def _reached(root: Any, ends: Sequence[Any]) -> set[int]:
    """The positions of the ends from which a result was computed.

    Args:
        root: The edge of the result.
        ends: Edges. One node can have several, for instance that of ``chunk``; each has a number of its own.
    """
    position_of = {(end.node, end.output_nr): n for n, end in enumerate(ends)}
    reached: set[int] = set()
    passed: set[Any] = set()
    waiting = [(root.node, root.output_nr)]
    while waiting:
        edge = waiting.pop()
        node = edge[0]
        if edge in position_of:
            reached.add(position_of[edge])
        elif node is not None and node not in passed:
            passed.add(node)
            waiting += node.next_functions
    return reached


def _parts(roots: Sequence[Any], ends: Sequence[Any]) -> tuple[list[int], dict[Any, int]]:
    """Number the results so that those with a common node that saved tensors have the same number.

    Returns:
        The numbers, and the nodes that saved tensors, each with the position of a result.
    """
    outside = {edge.node for edge in ends}
    part_of: dict[Any, int] = {}
    parts = list(range(len(roots)))
    for number, root in enumerate(roots):
        waiting, seen = [] if root is None else [root.node], set(outside)
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
            kind: Any = type(node)
            if _saves_tensors(kind) and (other := part_of.setdefault(node, number)) != number:
                same = parts[number]
                parts = [parts[other] if part == same else part for part in parts]
    return parts, part_of


def _parts_outside(tensors: Sequence[torch.Tensor], parts: list[int], nodes: dict[Any, int]) -> list[set[int]]:
    """The parts in which nodes saved each of these tensors; all of them if there is one part."""
    every = {parts[position] for position in nodes.values()}
    if len(every) < 2:
        return [every for _ in tensors]
    found: list[set[int]] = [set() for _ in tensors]
    storages = [storage_id(tensor) for tensor in tensors]
    for node, position in nodes.items():
        names = (name for name in dir(node) if name.startswith("_saved_"))
        try:
            values = [*(getattr(node, name) for name in names), *getattr(node, "saved_tensors", ())]
        except RuntimeError:  # the function has run this part's backward itself
            values = list(tensors)
        saved = {storage_id(leaf) for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)}
        for storage, parts_of in zip(storages, found, strict=True):
            if storage in saved:
                parts_of.add(parts[position])
    return [parts_of or every for parts_of in found]


@cache
def _saves_tensors(kind: Any) -> bool:
    """Whether nodes of this class can save tensors."""
    return any(name.startswith("_raw_saved_") for name in dir(kind))


@contextmanager
def without_hooks(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Disable the gradient hooks of `tensors`: autograd calls them once more, outside of a recording or a check."""
    held = [hooks for tensor in tensors if (hooks := tensor._backward_hooks)]
    before = [dict(hooks) for hooks in held]
    for hooks in held:
        hooks.clear()
    try:
        yield
    finally:
        for hooks, kept in zip(held, before, strict=True):
            hooks.update(kept)


class Backward:
    """The backward of one recorded forward. Its leaves: what was saved, then the gradients that are not None.

    Args:
        derivative: Of that forward.
        mask: Which of its results have a gradient.
        name: For messages.
    """

    def __init__(self, derivative: Derivative, mask: tuple[bool, ...], name: str) -> None:
        self._derivative, self._mask, self._name = derivative, mask, name
        self.function: Callable[..., Any] = self.run
        self.num_results = self.first_saved = len(derivative.ends)
        self.given: list[Any] = []
        self.opaque: str | None = None
        self.result_spec: Any = None
        self.result: Any = None

    def saved_storages(self) -> set[int]:
        """The storages of tensors from outside that the forward saved: the backward uses these, wherever they are."""
        derivative = self._derivative
        return set(map(storage_id, (*derivative.saved.outside.values(), *derivative.externals)))

    def run(self, leaves: list[Any], observer: Observer | None = None) -> list[Any]:
        """The gradients of the leaves and of the tensors from outside; None where there is none."""
        derivative = self._derivative
        if observer is not None:
            self.given = list(leaves)
        grads = leaves[len(leaves) - sum(self._mask) :]
        derivative.saved.given = leaves[: len(leaves) - len(grads)]
        leaves.clear()
        roots = [edge for edge, given in zip(derivative.roots, self._mask, strict=True) if given]
        try:
            with torch.enable_grad(), without_hooks(derivative.externals):
                found = torch.autograd.grad(roots, derivative.ends, grads, retain_graph=True, allow_unused=True)
        finally:
            derivative.saved.given = ()
        return list(found)
