"""Plan the streams of a backward pass: the streams of each node, and the gradients that cross between streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import torch

from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.timing.stream_history import History, Streams

#: The key of a node: its sequence number, or for a leaf's node a negative number from its tensor's identity.
Key = int

#: The caller of ``backward()``, which provides the gradients of the roots.
CALLER: Final[Key] = -1

#: Nodes that accumulate into a leaf have the number UINT64_MAX, so that the engine runs them first.
_UNNUMBERED: Final = 1 << 62


def key_of(node: Any) -> Key:
    """The key of a node; its Python wrapper is not unique."""
    number: int = node._sequence_nr()
    return number if number < _UNNUMBERED else -2 - id(node.variable)


class Edge(NamedTuple):
    """An edge of the graph: the consuming node and its input number."""

    consumer: Key
    input_nr: int


class Leaf(NamedTuple):
    """A leaf of a backward pass: the streams of its node, and the device of its tensor if known."""

    streams: Streams
    device_index: int | None


class Plan:
    """The streams of a backward pass.

    Attributes:
        streams: The current streams of each node.
        edges: The edges of the producers of `crossing` nodes.
        crossing: The nodes with a gradient from another stream.
        leaves: The leaves.
    """

    __slots__ = ("_nodes", "crossing", "edges", "leaves", "streams")

    def __init__(self, roots: Sequence[Any], inputs: Sequence[Any], history: History, caller: Streams) -> None:
        self._nodes: dict[Key, Any] = {}
        producers = self._walk(roots)
        self.streams: dict[Key, Streams] = {key: _streams_of(key, producers[key], history, caller) for key in producers}
        self.streams[CALLER] = caller
        self.crossing = {
            key for key, made_by in producers.items() if any(self.streams[p] != self.streams[key] for p in made_by)
        }
        self.edges: dict[Key, list[Edge | None]] = {
            producer: _edges(self._nodes[producer])
            for key in self.crossing
            for producer in producers[key]
            if producer != CALLER
        }
        ends = [node for value in inputs if (node := _input_node(value)) is not None]
        ends = ends or [node for node in self._nodes.values() if not node.next_functions]
        self.leaves = [Leaf(self.streams[key_of(n)], _device_of(n)) for n in ends if key_of(n) in self.streams]

    @property
    def is_plain(self) -> bool:
        """Whether all nodes run on the caller's streams."""
        caller = self.streams[CALLER]
        return all(streams == caller for streams in self.streams.values())

    def hook(self, enter: Callable[[Key], None], leave: Callable[[Key, Sequence[Any]], None]) -> list[Any]:
        """Call `enter` before nodes with gradients from other streams, and `leave` after nodes that produce them.

        References to nodes are then dropped: the engine may free them one by one.

        Returns:
            The handles that remove the hooks.
        """
        handles = [self._nodes[key].register_prehook(_before(enter, key)) for key in self.crossing]
        handles += [self._nodes[key].register_hook(_after(leave, key)) for key in self.edges]
        self._nodes.clear()
        return handles

    def _walk(self, roots: Iterable[Any]) -> dict[Key, list[Key]]:
        """All nodes that may run, with the producers of their gradients."""
        stack = [_node_of(root) for root in roots]
        producers: dict[Key, list[Key]] = {key_of(node): [CALLER] for node in stack}
        while stack:
            node = stack.pop()
            key = key_of(node)
            if key in self._nodes:
                continue
            self._nodes[key] = node
            for following, _ in node.next_functions:
                if following is not None:
                    producers.setdefault(key_of(following), []).append(key)
                    stack.append(following)
        return producers


def _streams_of(key: Key, made_by: Sequence[Key], history: History, caller: Streams) -> Streams:
    """The streams of a node's forward operator; for a leaf's node, of the first operator that uses the leaf."""
    if key >= 0:
        return history.at(key)
    first_use = min((producer for producer in made_by if producer >= 0), default=None)
    return caller if first_use is None else history.at(first_use)


def _edges(node: Any) -> list[Edge | None]:
    return [None if n is None else Edge(key_of(n), nr) for n, nr in node.next_functions]


def _node_of(value: Any) -> Any:
    """The node that consumes the gradient of a tensor or of a gradient edge."""
    if isinstance(value, torch.Tensor):
        return value.grad_fn if value.grad_fn is not None else torch.autograd.graph.get_gradient_edge(value).node
    return value.node


def _input_node(value: Any) -> Any:
    """As `_node_of`; None for a leaf that a transform of torch.func batches: its node cannot be read."""
    try:
        return _node_of(value)
    except AttributeError:  # torch reads the node of a view of the leaf, which has none inside vmap
        return None


def _device_of(node: Any) -> int | None:
    variable = getattr(node, "variable", None)
    residence = residence_of(variable) if isinstance(variable, torch.Tensor) else None
    return None if residence is None else residence.device.index


def _before(enter: Callable[[Key], None], key: Key) -> Callable[[Any], None]:
    return lambda grads: enter(key)


def _after(leave: Callable[[Key, Sequence[Any]], None], key: Key) -> Callable[[Any, Any], None]:
    return lambda grad_inputs, grad_outputs: leave(key, grad_inputs)
