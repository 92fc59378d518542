"""Warm-up: a call without a graph in the pool. Its outputs belong to the path like those of a recording."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from cudalens.device.stacks import Place
from cudalens.graphs.functions import Function, Variant
from cudalens.graphs.liveness import OutputRef
from cudalens.graphs.node import GraphNode
from cudalens.graphs.programs import check_version
from cudalens.graphs.watching import Made, Watch

if TYPE_CHECKING:
    from cudalens.graphs.guards.effects import Effects
    from cudalens.graphs.recording import Recorder


class WarmupNode:
    """One warmup. It can be followed by warmups alone: nothing that it left has an address that would come again.

    Attributes:
        variant: What ran.
        owners: Tensors from outside whose gradients the path up to here makes.
    """

    def __init__(self, variant: Variant, parent: GraphNode | WarmupNode | None) -> None:
        self.variant = variant
        self._held = [] if parent is None else list(parent.held())
        self.owners: list[torch.Tensor] = [*(parent.owners if parent is not None else ()), *variant.owners]

    def add(self, tensor: torch.Tensor, place: Place | None) -> None:
        """Add an output whose memory belongs to the pool."""
        self._append(OutputRef(tensor), place)

    def add_saved(self, refs: Sequence[OutputRef]) -> None:
        """What autograd saved for the backward."""
        for ref in refs:
            self._append(ref, self.variant.function.place)

    def _append(self, ref: OutputRef, place: Place | None) -> None:
        if all(known.address != ref.address for known in self.live_refs()):  # not a view of one that is there
            self._held.append((ref, self.variant.function, place))

    def held(self) -> Iterator[tuple[OutputRef, Function, Place | None]]:
        """Outputs on the path up to here that are alive: with the function that made it, and the line."""
        return (entry for entry in self._held if entry[0].is_alive())

    def live_refs(self) -> Iterator[OutputRef]:
        """Outputs on the path up to here that are alive."""
        return (entry[0] for entry in self.held())

    def is_over(self) -> bool:
        """Whether no output of the path is alive."""
        return next(self.held(), None) is None


def warm_up(
    recorder: Recorder,
    variant: Variant,
    parent: GraphNode | WarmupNode | None,
    leaves: list[Any],
    watch: Watch,
    effects: Effects,
) -> tuple[list[Any], WarmupNode, list[Made]]:
    """Run a variant in the pool, and observe its operators (`watch`) and its Python code (`effects`).

    Returns:
        Its outputs, its node, and the other tensors that it made and that are alive.
    """
    node = WarmupNode(variant, parent)
    saved: list[OutputRef] = []
    hooks = _saving(saved) if variant.mode != "backward" else nullcontext()
    with hooks, effects:
        outputs = recorder.warm_up(variant, leaves, watch)
    in_pool = {made.ref.address for made in watch.made.values()}
    saved = [ref for ref in saved if ref.address in in_pool and ref.is_alive()]
    kept = {ref.address for ref in saved}
    results = [output for output in outputs if isinstance(output, torch.Tensor) and output.get_device() == watch.device]
    for output in results:
        made = watch.made.get(output.untyped_storage()._cdata)
        if made is not None and made.ref.address:
            node.add(output, made.place)
    node.add_saved(saved)
    return outputs, node, _left_behind(watch, results, kept)


def _left_behind(watch: Watch, results: list[torch.Tensor], kept: set[int]) -> list[Made]:
    left = [made for made in watch.left_behind(results) if made.ref.address not in kept]
    if left and gc.collect():
        left = [made for made in left if made.ref.is_alive()]
    return left


def _saving(refs: list[OutputRef]) -> Any:
    """Notes what autograd saves, and keeps it.

    Detached: a result that its own node keeps would never be freed, and autograd attaches what is unpacked by itself.
    """

    def pack(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
        if tensor.is_cuda and tensor.layout is torch.strided and tensor.untyped_storage().data_ptr():
            refs.append(OutputRef(tensor))
        return tensor.detach(), tensor._version

    return torch.autograd.graph.saved_tensors_hooks(pack, _unpack)


def _unpack(kept: tuple[torch.Tensor, int]) -> torch.Tensor:
    tensor, version = kept
    check_version(tensor, version)
    return tensor


def on_backward(outputs: Sequence[Any], notify: Callable[[], None]) -> None:
    """Call `notify` when autograd differentiates an output of a warmup."""

    def hook(grad: torch.Tensor) -> None:
        notify()

    for output in outputs:
        if isinstance(output, torch.Tensor) and output.requires_grad and output.grad_fn is not None:
            output.register_hook(hook)  # type: ignore[no-untyped-call]
