"""A replay against a call without a graph: the same arguments, the same random numbers, every output compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from cudalens.graphs import arguments
from cudalens.graphs.node import Check, GraphNode
from cudalens.graphs.outputs import Fresh

if TYPE_CHECKING:
    from cudalens.kernels import Comparison


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
    from cudalens.kernels import begin_compare, can_compare

    found = [
        (label, begin_compare(replayed, value))
        for label, value, replayed in pairs
        if value.numel() and can_compare(value)
    ]
    node.set_check(lambda: _told([(label, pending.result()) for label, pending in found]))


def _told(found: Sequence[tuple[str, Comparison]]) -> Check:
    """What the comparisons came to."""
    bad = [(label, one) for label, one in found if not one.is_equal]
    nan = any(one.num_nan_mismatches for _, one in bad)
    diff = float("inf") if nan else max((float(one.max_abs_diff) for _, one in found), default=0.0)
    return Check(not bad, diff, _words(*bad[0]) if bad else None)


def _words(label: str, found: Comparison) -> str:
    """The first element that differs, with both values."""
    assert found.first_different is not None
    assert found.first_values is not None
    place = ", ".join(map(str, found.first_different))
    replayed, eager = found.first_values
    return f"{label}[{place}]: {replayed!r} replayed, {eager!r} without a graph"
