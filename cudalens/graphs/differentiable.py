"""Backward passes of recordings: a replayed forward is one autograd node, whose backward is a recording too."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from cudalens.errors import GraphError
from cudalens.graphs import arguments
from cudalens.graphs import inputs as copying
from cudalens.graphs.checking import EagerGradients
from cudalens.graphs.functions import Variant
from cudalens.graphs.links import view_at
from cudalens.graphs.liveness import version_of
from cudalens.graphs.outputs import AliasOfExternal, AliasOfLeaf, absolute
from cudalens.graphs.programs import Backward, check_version
from cudalens.graphs.reasons import Reason

if TYPE_CHECKING:
    from cudalens.graphs.checking import EagerCall
    from cudalens.graphs.node import GraphNode
    from cudalens.graphs.outputs import SavedArgument
    from cudalens.graphs.tree import GraphTree


class _Call:
    """One call of a recorded forward, until autograd has taken it over."""

    __slots__ = ("arguments", "eager", "node", "owners", "positions", "results", "saved", "tree", "versions")

    def __init__(
        self,
        tree: GraphTree,
        node: GraphNode,
        positions: list[int],
        outputs: Sequence[Any],
        leaves: Sequence[Any],
    ) -> None:
        self.tree, self.node, self.positions = tree, node, positions
        self.results = [outputs[n] for n in positions]
        self.saved = list(outputs[node.first_saved :])
        derivative = node.derivative
        assert derivative is not None
        self.versions = derivative.saved.versions()
        self.eager: EagerGradients | None = None
        self.arguments = [_GivenArgument(leaves[saved.leaf], saved) for saved in node.saved_arguments]
        self.owners = [weakref.ref(leaves[n]) for n in derivative.leaves if leaves[n].is_leaf]


class _GivenArgument:
    """An argument that autograd saved. The program may change its values before the backward, which then uses those.

    Args:
        tensor: As the program gave it.
        saved: How the recording saved it.
    """

    __slots__ = ("_address", "_saved", "_tensor", "_version")

    def __init__(self, tensor: torch.Tensor, saved: SavedArgument) -> None:
        self._tensor = tensor if saved.is_whole else tensor.detach()
        self._saved, self._version = saved, version_of(tensor)
        self._address = _address_of(tensor)

    def check(self, name: str) -> None:
        """Check that autograd would use the argument as it is now.

        Raises:
            RuntimeError: It was overwritten; with torch's message.
            GraphError: Its ``.data`` was replaced: autograd would use the new data.
        """
        check_version(self._tensor, self._version)
        if self._saved.is_whole and self._address and _address_of(self._tensor) != self._address:
            raise GraphError(
                f"the .data of an argument of {name} was replaced between the call and its backward, which a replayed "
                "backward does not see. Replace it after the backward, or call the function itself (.fn)."
            )

    def copies(self, saved: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """What the recording saved in its copy of the argument, each with the values that the argument has now.

        They differ after ``x.data.mul_(2)``, which autograd does not count.

        Args:
            saved: All that the forward saved.
        """
        if not self._saved.copies or not self._address or _address_of(self._tensor) != self._address:
            return
        now = self._tensor.detach()
        for number, place in self._saved.copies:
            expanded = copying.expanded_dims(saved[number])
            unflagged = replace(place, flags=(False, False))
            current = view_at(now, absolute(unflagged, now))
            start = int(saved[number].storage_offset())
            target = view_at(saved[number].data, replace(unflagged, storage_offset=start))
            yield copying.stored_part(target, expanded), copying.stored_part(current, expanded)


def _address_of(tensor: torch.Tensor) -> int:
    """The address of a tensor's first element; 0 of a result of an earlier step, which a replay has overwritten."""
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return 0


class _Replayed(torch.autograd.Function):
    """Returns the outputs of a recording as results of its differentiable inputs."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*call.saved)
        ctx.tree, ctx.node, ctx.positions = call.tree, call.node, call.positions
        ctx.versions, ctx.owners, ctx.arguments = call.versions, call.owners, call.arguments
        ctx.eager = call.eager
        ctx.kept, ctx.freed = None, set()
        results = tuple(result.detach() for result in call.results)
        call.results, call.saved = [], []
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        with torch.no_grad():
            try:
                found = _Replayed._run(ctx, grads)
            except RuntimeError:
                ctx.tree.steps.backward_ran()  # no other attempt is to come
                raise
        return (None, *(refuse_second_derivative(ctx.node, found) if torch.is_grad_enabled() else found))

    @staticmethod
    def _run(ctx: Any, grads: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        derivative = ctx.node.derivative
        positions = {position for position, grad in zip(ctx.positions, grads, strict=True) if grad is not None}
        given = {derivative.parts[position] for position in positions}  # the parts that are differentiated
        outside = zip(derivative.saved.outside.values(), ctx.versions, derivative.parts_outside, strict=True)
        for tensor, version, parts in outside:
            if not parts.isdisjoint(given):  # another part may have had its backward, and an optimizer its step
                check_version(tensor, version)
        for argument in ctx.arguments:
            argument.check(ctx.node.variant.function.name)
        saved = _Replayed._saved(ctx, given)
        copies = [copy for argument in ctx.arguments for copy in argument.copies(saved)]
        copying.copy_all([target for target, _ in copies], [source for _, source in copies])
        ctx.tree.own_gradients(ctx.owners)
        leaves = [*saved, *(grad for grad in grads if grad is not None)]
        found = ctx.tree.run_backward(ctx.node, positions, leaves)
        if ctx.eager is not None:
            found = ctx.eager.compare(ctx.node, grads, found)
        return [grad if is_needed else None for grad, is_needed in zip(found, ctx.needs_input_grad[1:], strict=True)]

    @staticmethod
    def _saved(ctx: Any, given: set[int]) -> Sequence[torch.Tensor]:
        """What the forward saved. A backward frees it, unless a part of the results has had no backward yet."""
        parts = ctx.node.derivative.parts
        try:
            saved = ctx.saved_tensors
            ctx.freed = set()
        except RuntimeError:
            if ctx.kept is None or given & ctx.freed:
                raise
            saved = None
        if saved is None:
            saved = [tensor for tensor, _ in ctx.kept]
            for tensor, version in ctx.kept:
                check_version(tensor, version)
        ctx.freed |= given
        is_last = ctx.freed.issuperset(parts[position] for position in ctx.positions)
        ctx.kept = None if is_last else [(tensor, version_of(tensor)) for tensor in saved]
        return saved


def attach(
    tree: GraphTree,
    node: GraphNode,
    leaves: Sequence[Any],
    outputs: Sequence[Any],
    eager: EagerCall | None = None,
) -> list[Any]:
    """The results of a recorded forward, and their bases, with their place in autograd's graph.

    Args:
        tree: Whose.
        node: The recording.
        leaves: Arguments of the call.
        outputs: Of the recording or the replay, what was saved for the backward included.
        eager: The same call without a graph, by which gradients are checked.
    """
    derivative = node.derivative
    assert derivative is not None
    results = list(outputs[: node.first_saved])
    positions = [n for n, root in enumerate(derivative.roots) if root is not None and results[n] is not None]
    inputs = [*(leaves[n] for n in derivative.leaves), *derivative.inputs()]
    call = _Call(tree, node, positions, outputs, leaves)
    if eager is not None:
        call.eager = EagerGradients([eager.outputs[n] for n in positions], inputs)
    with torch.enable_grad():  # the function may have switched it on by itself
        found = _Replayed.apply(call, *inputs)  # type: ignore[no-untyped-call]
    for position, result in zip(positions, found, strict=True):
        results[position] = result
    return results


def note_backward(node: GraphNode, variant: Variant) -> None:
    """Let the forward depend on what its backward takes from outside: its autograd graph can hold that.

    Args:
        node: The forward's recording.
        variant: Its backward, which has just run.
    """
    if variant.skip is not None and variant.skip.reason is Reason.UNNAMED_INPUT:
        node.variant.skip = node.variant.skip or variant.skip
        return
    known = {(id(guard.at[0]), guard.at[1]) for guard in node.guards if guard.at is not None}
    node.of_backward.add(name for name in variant.names if (id(name.container), name.key) not in known)


def refuse_second_derivative(node: GraphNode, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Gradients of a recorded forward for which a caller passed ``create_graph=True``.

    Later calls run without a graph, so that torch's own autograd differentiates them.

    Args:
        node: The forward's recording.
        gradients: Gradients of its differentiable inputs.

    Returns:
        The same values. Differentiating them raises an error that names the reason.
    """
    node.variant.refuse_second_derivatives()
    return second_derivative_fails(node.variant.function.name, gradients)


def second_derivative_fails(name: str, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Gradients with the same values; differentiating them raises an error.

    Args:
        name: Of the function, for the message.
        gradients: What a recorded backward computed.
    """
    message = (
        f"{name} was replayed from a CUDA graph, and gradients of its backward (create_graph=True) were requested. "
        "A graph has no second derivative. Later calls run without a graph, so run this step again; or call the "
        "function itself (.fn) where second derivatives are needed."
    )
    given = {n: grad for n, grad in enumerate(gradients) if grad is not None}
    with torch.enable_grad():
        tracked = [grad.detach().requires_grad_() for grad in given.values()]
        found = _Undifferentiable.apply(message, *tracked)  # type: ignore[no-untyped-call]
    made = dict(zip(given, found, strict=True))
    return [made.get(n) for n in range(len(gradients))]


class _Undifferentiable(torch.autograd.Function):
    """Passes tensors on; raises where they are differentiated."""

    @staticmethod
    def forward(ctx: Any, message: str, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.message = message
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(ctx.message)


def backward_variant(number: int, node: GraphNode, given: set[int], leaves: Sequence[torch.Tensor]) -> Variant:
    """The variant for the backward of a recording.

    Args:
        number: Its id.
        node: The recorded forward.
        given: Results that have a gradient.
        leaves: What the forward saved, then the gradients.
    """
    derivative, function = node.derivative, node.variant.function
    assert derivative is not None
    mask = tuple(n in given for n in range(len(derivative.roots)))
    num_saved = len(leaves) - len(given)
    labels = [f"saved[{n}]" for n in range(num_saved)] + [f"grad[{n}]" for n in sorted(given)]
    variant = Variant(
        number, function, "backward", Backward(derivative, mask, f"{function.name} backward"), None, None, labels
    )
    variant.before = node.variant
    variant.owners = [tensor for tensor in derivative.externals if tensor.is_leaf]
    variant.static = frozenset(
        n
        for n, output in enumerate(node.outputs[node.first_saved :])
        if isinstance(output, AliasOfLeaf | AliasOfExternal)
    )
    variant.text = ", ".join(
        f"{label}: {arguments.describe(arguments.key_of(leaf))}"
        for label, leaf in zip(labels[num_saved:], leaves[num_saved:], strict=True)
    )
    return variant
