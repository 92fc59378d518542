"""A replay against a call without a graph: the same arguments, the same random numbers, every output compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cudalens.graphs import arguments
from cudalens.graphs.node import Check, GraphNode
from cudalens.graphs.outputs import Fresh


@dataclass(slots=True)
class Expected:
    """What a call without a graph gave.

    Attributes:
        values: The outputs that a replay makes anew, by position; copies.
        written: Tensors that the function overwrites, and what it wrote.
    """

    values: dict[int, torch.Tensor]
    written: list[tuple[str, torch.Tensor, torch.Tensor]]


def run_eagerly(node: GraphNode, leaves: Sequence[Any]) -> Expected:
    """Call the function without a graph, on the device's clock, and leave everything as it was."""
    touched = _written(node, leaves)
    before = [tensor.detach().clone() for _, tensor in touched]
    device = torch.cuda.current_device()
    state = torch.cuda.get_rng_state(device)
    outputs = _run(node, list(leaves))
    values = {
        n: outputs[n].detach().clone()
        for n, output in enumerate(node.outputs[: node.num_results])
        if isinstance(output, Fresh)
    }
    written = [(label, tensor, tensor.detach().clone()) for label, tensor in touched]
    del outputs
    node.eager_ns = _time(node, list(leaves))
    with torch.no_grad():
        for (_, tensor), value in zip(touched, before, strict=True):
            tensor.copy_(value)
    torch.cuda.set_rng_state(state, device)
    return Expected(values, written)


def _time(node: GraphNode, leaves: list[Any]) -> int:
    """Device time of a call; the memory that it needs has been asked for by an earlier one."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    _run(node, leaves)
    end.record()
    end.synchronize()
    return round(float(start.elapsed_time(end)) * 1e6)


def _run(node: GraphNode, leaves: list[Any]) -> list[Any]:
    variant = node.variant
    if variant.mode == "backward":
        return variant.program.run(leaves)
    args, kwargs = arguments.unflatten(leaves, variant.spec)
    return torch.utils._pytree.tree_leaves(variant.function.call(*args, **kwargs), is_leaf=arguments.is_size)


def _written(node: GraphNode, leaves: Sequence[Any]) -> list[tuple[str, torch.Tensor]]:
    found = [(node.variant.labels[n], leaves[n].detach()) for n in node.variant.written]
    return found + [
        (guard.name.label if guard.name is not None else "a tensor from outside", guard.tensor.detach())
        for guard in node.guards
        if guard.is_written and guard.tensor is not None
    ]


def compare(node: GraphNode, expected: Expected, outputs: Sequence[Any], leaves: Sequence[Any]) -> None:
    """Compare a replay with what was expected: on the device, so that the host need not wait before it asks."""
    pairs = [(f"output {n}", value, outputs[n].detach()) for n, value in expected.values.items()]
    pairs += [(label, value, tensor) for label, tensor, value in expected.written]
    with torch.no_grad():
        found = [_Compared(label, value, found) for label, value, found in pairs if value.numel()]
    node.set_check(lambda: _told(found))


def _told(pairs: Sequence[_Compared]) -> Check:
    """What the comparisons came to; waits for the device."""
    bad = [pair for pair in pairs if not bool(pair.is_same)]
    diff = max((float(pair.diff) for pair in pairs), default=0.0)
    return Check(not bad, diff, bad[0].words() if bad else None)


class _Compared:
    """Two tensors compared; the results are on the device."""

    def __init__(self, label: str, expected: torch.Tensor, found: torch.Tensor) -> None:
        same = expected == found
        if expected.is_floating_point() or expected.is_complex():
            same = same | (expected.isnan() & found.isnan())
        self._label, self._shape = label, expected.shape
        self.is_same = same.all()
        self._first = (~same).flatten().to(torch.uint8).argmax()
        at = self._first.reshape(1)
        self._values = found.flatten().index_select(0, at), expected.flatten().index_select(0, at)
        wide = torch.complex128 if expected.is_complex() else torch.float64
        diff = (expected.to(wide) - found.to(wide)).abs()
        self.diff = torch.where(same, torch.zeros_like(diff), diff).nan_to_num(nan=float("inf")).max()

    def words(self) -> str:
        """The first element that differs, with both values."""
        rest = int(self._first)
        index: list[int] = []
        for size in reversed(self._shape):
            rest, position = divmod(rest, size)
            index.insert(0, position)
        replayed, eager = (value.item() for value in self._values)
        return f"{self._label}[{', '.join(map(str, index))}]: {replayed!r} replayed, {eager!r} without a graph"
