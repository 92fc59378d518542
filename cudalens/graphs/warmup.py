"""Warm-up: a call without a graph in the pool. Its outputs belong to the path like those of a recording."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.device.stacks import Place
from cudalens.graphs.functions import Function, Variant
from cudalens.graphs.guards.ambient import keeps_casts, top_pack_hook
from cudalens.graphs.guards.captured import find_names
from cudalens.graphs.guards.outside import caller_of
from cudalens.graphs.liveness import OutputRef, storage_id, version_of
from cudalens.graphs.node import GraphNode
from cudalens.graphs.observer import Made, Observer, is_plain
from cudalens.graphs.programs import check_version
from cudalens.graphs.reasons import Finding, Reason
from cudalens.graphs.recording import roots_of
from cudalens.graphs.stored import find_stored, move_out

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
    observer: Observer,
    effects: Effects,
) -> tuple[list[Any], WarmupNode, list[Made]]:
    """Run a variant in the pool, and observe its operators (`observer`) and its Python code (`effects`).

    Returns:
        Its outputs, its node, and the other tensors that it made and that are alive.
    """
    node = WarmupNode(variant, parent)
    hooks = _Saving()
    casts = _Casting()
    if keeps_casts():
        effects.calls.observers[_ENTERS_AUTOCAST] = casts.note
    effects.calls.observers[_DISABLES_HOOKS] = hooks.give_way
    effects.calls.watched = variant.watched
    with hooks if variant.mode != "backward" else nullcontext(), effects:
        outputs = recorder.warm_up(variant, leaves, observer)
    # Without a result that needs a gradient, a recording needs no hooks either.
    needs_hooks = any(isinstance(output, torch.Tensor) and output.requires_grad for output in outputs)
    if variant.mode != "backward":
        _note_stored(variant, outputs, observer, effects, hooks.refs if needs_hooks else ())
    around = (casts.finding, hooks.finding if needs_hooks else None)
    observer.findings[:0] = [finding for finding in around if finding is not None]
    in_pool = {made.ref.address for made in observer.made.values() if made.is_in_pool}
    saved = [ref for ref in hooks.refs if ref.address in in_pool and ref.is_alive()]
    kept = {ref.address for ref in saved}
    results = [
        output for output in outputs if isinstance(output, torch.Tensor) and output.get_device() == observer.device
    ]
    for output in results:
        made = observer.made.get(storage_id(output))
        if made is not None and made.is_in_pool and made.ref.address:
            node.add(output, made.place)
    node.add_saved(saved)
    left = [made for made in observer.left_behind(results) if made.ref.address not in kept]
    if left and gc.collect():
        left = [made for made in left if made.ref.is_alive()]
    return outputs, node, left


def _note_stored(
    variant: Variant, outputs: Sequence[Any], observer: Observer, effects: Effects, saved: Sequence[OutputRef]
) -> None:
    """Find the tensors that the warm-up made and stored outside, and move them out of the pool."""
    made = {key for key, made in observer.made.items() if made.is_on_device and made.ref.is_alive()}
    names = find_names(roots_of(variant), made) if made else {}
    variant.stored = find_stored(names, observer, outputs, effects.snapshot, {ref.address for ref in saved})
    effects.snapshot.leave_out(one.place for one in variant.stored)
    move_out(variant.stored)


#: The generator function below ``torch.autograd.graph.disable_saved_tensors_hooks``, which torch.func enters, too.
_DISABLES_HOOKS: Final[CodeType] = torch.autograd.graph.disable_saved_tensors_hooks.__wrapped__.__code__  # type: ignore[attr-defined]


_ENTERS_AUTOCAST: Final[CodeType] = torch.autocast.__enter__.__code__


class _Casting:
    """Notes that a function enters autocast inside of another region, which keeps its casts of weights.

    Attributes:
        finding: Why there is no graph; None where the function enters none, or one without such a cache.
    """

    def __init__(self) -> None:
        self.finding: Finding | None = None

    def note(self, frame: FrameType, event: str) -> None:
        """An event of ``torch.autocast.__enter__``."""
        region: Any = frame.f_locals.get("self")
        if event == "call" and region._enabled and region._cache_enabled and region.device == "cuda":
            self.finding = self.finding or Finding(Reason.KEPT_CASTS, "torch.autocast", caller_of(frame))


class _Saving:
    """Notes what autograd saves, and keeps it.

    Attributes:
        refs: What was saved.
        finding: Why there is no graph, where the function disabled such hooks; they are removed for that time.
    """

    def __init__(self) -> None:
        self.refs: list[OutputRef] = []
        self.finding: Finding | None = None
        self._is_removed = False
        self._pack = functools.partial(_pack, self.refs)

    def __enter__(self) -> None:
        torch._C._autograd._push_saved_tensors_default_hooks(self._pack, _unpack)

    def __exit__(self, *error: object) -> None:
        if not self._is_removed:
            torch._C._autograd._pop_saved_tensors_default_hooks()

    def give_way(self, frame: FrameType, event: str) -> None:
        """Remove the hooks before a function disables hooks, because torch refuses that while there are some.

        Args:
            frame: Of the generator function that disables hooks.
            event: ``call`` where it starts or continues, ``return`` where it yields or ends.
        """
        if event == "return":
            if self._is_removed and torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is None:
                self.__enter__()
                self._is_removed = False
        elif event == "call" and top_pack_hook() is self._pack:
            self.__exit__()
            self._is_removed = True
            is_transform = "torch.func" in str(frame.f_locals.get("error_message"))
            what = "a transform of torch.func" if is_transform else "disable_saved_tensors_hooks"
            self.finding = self.finding or Finding(Reason.HOOKS_DISABLED, what, caller_of(frame))


def _pack(refs: list[OutputRef], tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Detached: a result that its own node keeps would never be freed, and autograd attaches it again.

    A leaf is kept itself, as autograd does: a backward uses the ``.data`` that it has then.
    """
    if tensor.is_cuda and is_plain(tensor) and tensor.untyped_storage().data_ptr():
        refs.append(OutputRef(tensor))
    return tensor if tensor.is_leaf else tensor.detach(), version_of(tensor)


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
