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
    variant = node.variant
    touched = _written(node, leaves)
    before = [tensor.detach().clone() for _, tensor in touched]
    device = torch.cuda.current_device()
    state = torch.cuda.get_rng_state(device)
    with torch.enable_grad() if variant.mode == "forward" else torch.no_grad():
        outputs = _run(node, list(leaves))
    values = {
        n: outputs[n].detach().clone()
        for n, output in enumerate(node.outputs[: node.num_results])
        if isinstance(output, Fresh)
    }
    written = [(label, tensor, tensor.detach().clone()) for label, tensor in touched]
    del outputs
    with torch.enable_grad() if variant.mode == "forward" else torch.no_grad():
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
    """Compare a replay with what was expected; the recording keeps the result."""
    pairs = [(f"output {n}", value, outputs[n].detach()) for n, value in expected.values.items()]
    pairs += [(label, value, tensor) for label, tensor, value in expected.written]
    checks = [_compared(label, value, found) for label, value, found in pairs]
    worst = next((check for check in checks if not check.is_equal), Check(True, 0.0))
    diffs = [check.max_abs_diff for check in checks if check.max_abs_diff is not None]
    node.check = Check(worst.is_equal, max(diffs, default=0.0), worst.first_diff)


def _compared(label: str, expected: torch.Tensor, found: torch.Tensor) -> Check:
    same = (expected == found) | (expected.isnan() & found.isnan() if expected.is_floating_point() else False)
    if bool(same.all()):
        return Check(True, 0.0)
    where = tuple(int(index) for index in (~same).nonzero()[0])
    index = ", ".join(map(str, where))
    text = f"{label}[{index}]: {found[where].item()!r} replayed, {expected[where].item()!r} without a graph"
    diff = (expected.to(torch.float64) - found.to(torch.float64)).abs().nan_to_num(nan=float("inf"))
    return Check(False, float(diff.max().item()), text)
