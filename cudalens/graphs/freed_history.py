"""Results of a function that has run their backward itself: a training step that returns its loss.

Such a result has a history, but no gradient can be computed any more. So its recording needs no saved tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch

from cudalens.graphs.liveness import storage_id

#: torch's error for a history that a backward has freed.
_FREED: Final = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward."
)


def freed_results(outputs: Sequence[Any]) -> list[int]:
    """The differentiable results of a function that has run their backward itself, as a training step does.

    Args:
        outputs: What the function returned, flat.

    Returns:
        Positions of the differentiable results, if the history of all of them was freed and each has memory of its
        own; otherwise an empty list.
    """
    tensors = [output for output in outputs if isinstance(output, torch.Tensor)]
    positions = [n for n, output in enumerate(outputs) if isinstance(output, torch.Tensor) and output.requires_grad]
    functions = {outputs[n].grad_fn for n in positions}
    for position in positions:
        result = outputs[position]
        is_shared = sum(storage_id(result) == storage_id(other) for other in tensors) > 1
        if result.grad_fn is None or result._base is not None or is_shared:
            return []
        if not _is_freed(result.grad_fn, functions - {result.grad_fn}):
            return []
    return positions


def _is_freed(function: Any, others: set[Any]) -> bool:
    """Whether each way from a node of autograd's graph to a leaf ends at a node whose saved tensors are freed.

    Args:
        function: The node.
        others: Nodes of other results, up to which a gradient might still be computed.
    """
    waiting, seen = [function], {function}
    while waiting:
        node = waiting.pop()
        if node in others:
            return False
        if _has_freed_tensors(node):
            continue
        following = [at for at, _ in node.next_functions if at is not None]
        if not following:
            return False
        waiting += [at for at in following if at not in seen]
        seen.update(following)
    return True


def is_freed_in_part(result: torch.Tensor) -> bool:
    """Whether a backward has freed what a node in the history of a result has saved."""
    return any(map(_has_freed_tensors, history_of(result)))


def history_of(result: torch.Tensor) -> Iterator[Any]:
    """The nodes of the autograd graph of a result."""
    waiting, seen = [result.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [function for function, _ in node.next_functions]


def _has_freed_tensors(node: Any) -> bool:
    """Whether a node saved tensors, and a backward has freed them."""
    names = [name for name in dir(node) if name.startswith("_saved_")]
    names += ["saved_tensors"] if hasattr(type(node), "saved_tensors") else []
    for name in names:
        try:
            getattr(node, name)
        except RuntimeError as error:
            if "a second time" in str(error):
                return True
        except AttributeError:
            continue
    return False


class _Freed(torch.autograd.Function):
    """Passes a tensor on, as a result whose history is freed."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(_FREED)


def with_freed_history(tensor: torch.Tensor) -> torch.Tensor:
    """The result of a function that has run its backward: a second backward raises torch's error."""
    with torch.enable_grad():
        found: torch.Tensor = _Freed.apply(torch.empty(0, requires_grad=True), tensor)  # type: ignore[no-untyped-call]
    return found
