"""Compare a replay with a call without a graph: results, gradients, Python state, generators, version counters.

The call without a graph runs first, on the same arguments and random numbers. Then tensors, version counters and
generators are set back, and the graph replays. If anything differs, the state of the call without a graph is restored,
and the program gets its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.profiler import record_function

from cudalens.device.own_work import own_work
from cudalens.frames.build import REPLAY_CHECK
from cudalens.graphs import arguments
from cudalens.graphs.functions import run_inside
from cudalens.graphs.generators import generator_states
from cudalens.graphs.guards.effects import Snapshot
from cudalens.graphs.liveness import set_versions, version_of
from cudalens.graphs.node import Check, GraphNode
from cudalens.graphs.outputs import AliasOfOutput, Fresh
from cudalens.graphs.programs import without_hooks
from cudalens.graphs.python_code import python_roots
from cudalens.graphs.relations import first_difference, relations_of
from cudalens.graphs.stored import Wrapping
from cudalens.graphs.structure import is_size

if TYPE_CHECKING:
    from cudalens.graphs.liveness import OutputRef
    from cudalens.graphs.stored import StoredTensor
    from cudalens.graphs.warmup import WarmupNode
    from cudalens.kernels import Comparison
    from cudalens.kernels.fingerprint import PendingFingerprint


class EagerCall:
    """A call without a graph, which a replay is compared with; tensors and generators are as before it.

    Args:
        node: The recording that will be replayed.
        leaves: Arguments of the call.
        held: Outputs of earlier recordings that the replay must not overwrite.

    Attributes:
        result: What the function returned; of a backward, a list of gradients.
        outputs: The same, flat.
    """

    def __init__(self, node: GraphNode, leaves: Sequence[Any], held: Sequence[HeldOutput]) -> None:
        self._node, self._leaves, self._held = node, leaves, held
        snapshot = Snapshot(python_roots(node.variant))
        self._stored = node.variant.stored
        snapshot.leave_out(one.place for one in self._stored)
        stored = [one.now() for one in self._stored]
        self._touched = _written(node, leaves)
        tensors = [*snapshot.tensors(), *(tensor for _, tensor in self._touched)]
        tensors += [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self._counted = [tensor for tensor in tensors if not tensor.is_inference()]
        before = [tensor.detach().clone() for _, tensor in self._touched]
        versions = list(map(version_of, self._counted))
        generators = generator_states(node.variant, leaves)

        self.result = _run(node, list(leaves))
        self.outputs: list[Any] = torch.utils._pytree.tree_leaves(self.result, is_leaf=is_size)

        self._changed = snapshot.difference()
        self._versions = list(map(version_of, self._counted))
        self._generators = generator_states(node.variant, leaves)
        self._written = [tensor.detach().clone() for _, tensor in self._touched]
        self._values = {
            n: self.outputs[n].detach().clone()
            for n, output in enumerate(node.outputs[: node.num_results])
            if isinstance(output, Fresh | AliasOfOutput)
        }
        self._made = [one.now() for one in self._stored]
        self._relations = relations_of(self.outputs, _others(node, leaves))
        with torch.no_grad():
            for (_, tensor), value in zip(self._touched, before, strict=True):
                tensor.copy_(value)
        set_versions(self._counted, versions)
        _store(self._stored, stored)
        generators.restore()

    def compare(self, replayed: Sequence[Any]) -> bool:
        """Compare the results of the replay, and what it changed; whether all is equal."""
        with record_function(REPLAY_CHECK):
            check = self._check(replayed)
        self._node.set_check(lambda: check)
        return check.is_equal

    def _check(self, replayed: Sequence[Any]) -> Check:
        from cudalens.kernels import begin_compare, can_compare

        pairs = [(f"output {n}", value, replayed[n].detach()) for n, value in self._values.items()]
        written = zip(self._touched, self._written, strict=True)
        pairs += [(label, value, tensor) for (label, tensor), value in written]
        stored = [(one.label, made, one.now()) for one, made in zip(self._stored, self._made, strict=True)]
        pairs += [
            (label, _plain(made), _plain(now)) for label, made, now in stored if made is not None and now is not None
        ]
        with own_work():
            found = [
                (label, begin_compare(other, value).result())
                for label, value, other in pairs
                if value.numel() and can_compare(value)
            ]
            fingerprints = ((one, _fingerprint(one.ref)) for one in self._held)
            lost = [one.label for one, after in fingerprints if after and one.before.result() != after.result()]
            return _result(found, lost, self._other_difference(replayed))

    def _other_difference(self, replayed: Sequence[Any]) -> str | None:
        """What differs besides elements of tensors, in words; None if nothing does."""
        if self._changed is not None:
            return f"{self._changed} without a graph; the replay does not change it"
        if list(map(version_of, self._counted)) != self._versions:
            return "the number of in-place changes that autograd counts"
        for one, eager in zip(self._stored, self._made, strict=True):
            replayed_tensor = one.now()
            if replayed_tensor is None or eager is None:
                return f"{one.label}, which is None in one of the two"
            if version_of(replayed_tensor) != version_of(eager):
                return f"the number of in-place changes of {one.label}"
        generator = self._generators.difference(generator_states(self._node.variant, self._leaves))
        return generator or first_difference(relations_of(replayed, _others(self._node, self._leaves)), self._relations)

    def take_effect(self) -> Any:
        """Leave everything as the call without a graph did; returns its result."""
        with torch.no_grad():
            for (_, tensor), value in zip(self._touched, self._written, strict=True):
                tensor.copy_(value)
        set_versions(self._counted, self._versions)
        _store(self._stored, self._made)
        self._generators.restore()
        return self.result


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without its history; the one inside of a tensor whose class calls operators itself."""
    wrapping = Wrapping.of(tensor)
    return tensor.detach() if wrapping is None else wrapping.inside(tensor).detach()


def _store(places: Sequence[StoredTensor], tensors: Sequence[torch.Tensor | None]) -> None:
    for place, tensor in zip(places, tensors, strict=True):
        place.store(tensor)


def _others(node: GraphNode, leaves: Sequence[Any]) -> list[torch.Tensor]:
    """Tensors that outputs may share memory with: the arguments, then those from outside."""
    outside = [guard.tensor for guard in node.guards if guard.tensor is not None]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)] + outside


def _run(node: GraphNode, leaves: list[Any]) -> Any:
    """Call the function; the time on the device is that of a call without a graph."""
    variant = node.variant
    with run_inside(), _timed(node):
        if variant.mode == "backward":
            return variant.program.run(leaves)
        args, kwargs = arguments.unflatten(leaves, variant.spec)
        return variant.function.call(*args, **kwargs)


@contextmanager
def _timed(node: GraphNode) -> Iterator[None]:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    with own_work():
        torch.cuda.current_stream().synchronize()  # another thread may capture
    start.record()
    yield
    end.record()
    with own_work():
        end.synchronize()
    node.eager_ns = round(float(start.elapsed_time(end)) * 1e6)


def _written(node: GraphNode, leaves: Sequence[Any]) -> list[tuple[str, torch.Tensor]]:
    found = [(node.variant.labels[n], leaves[n].detach()) for n in node.variant.written]
    return found + [
        (guard.name.label if guard.name is not None else "a tensor from outside", guard.tensor.detach())
        for guard in node.guards
        if guard.is_written and guard.tensor is not None
    ]


class EagerGradients:
    """The autograd graph of a call without a graph, by which the backward of a replay is compared.

    Args:
        outputs: The results that have a gradient.
        inputs: What the backward computes gradients for.
    """

    def __init__(self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
        self._outputs, self._inputs = list(outputs), list(inputs)

    def compare(
        self, node: GraphNode, grads: Sequence[torch.Tensor | None], found: Sequence[torch.Tensor | None]
    ) -> list[torch.Tensor | None]:
        """The gradients without a graph if a gradient differs, else those that were found."""
        from cudalens.kernels import begin_compare, can_compare

        given = [(output, grad) for output, grad in zip(self._outputs, grads, strict=True) if grad is not None]
        with record_function(REPLAY_CHECK), torch.enable_grad(), without_hooks(self._inputs):
            expected = torch.autograd.grad(
                [output for output, _ in given],
                self._inputs,
                [grad for _, grad in given],
                retain_graph=True,
                allow_unused=True,
            )
        pairs = [(f"gradient {n}", *pair) for n, pair in enumerate(zip(found, expected, strict=True))]
        missing = next((label for label, one, other in pairs if (one is None) != (other is None)), None)
        with record_function(REPLAY_CHECK), own_work():
            compared = [
                (label, begin_compare(one.detach(), other.detach()).result())
                for label, one, other in pairs
                if one is not None and other is not None and other.numel() and can_compare(other)
            ]
        check = _result(compared, [], None if missing is None else f"{missing}, which is None in one of the two")
        node.set_check(lambda: check)
        return list(found) if check.is_equal else list(expected)


@dataclass(slots=True)
class HeldOutput:
    """An output of an earlier recording that is alive, and that a replay must not overwrite.

    Attributes:
        label: Which.
        ref: It.
        before: Fingerprint of its memory before the replay.
    """

    label: str
    ref: OutputRef
    before: PendingFingerprint


def call_eagerly(current: GraphNode | WarmupNode | None, node: GraphNode, leaves: Sequence[Any]) -> EagerCall:
    """Call the function without a graph before a replay of `node`, which goes on from `current`.

    In a profile, this call and the comparison are in a range of their own, because the program without a check does not
    have them.
    """
    with record_function(REPLAY_CHECK):
        return EagerCall(node, leaves, _held_outputs(current, node, leaves))


def _held_outputs(current: GraphNode | WarmupNode | None, node: GraphNode, leaves: Sequence[Any]) -> list[HeldOutput]:
    """What is held of the path that a replay goes on from, but for what the function itself overwrites."""
    if current is None:
        return []
    written = {tensor.untyped_storage().data_ptr() for _, tensor in _written(node, leaves)}
    found: dict[int, HeldOutput] = {}
    for ref, function, place in current.held():
        if ref.address not in written and ref.address not in found and (before := _fingerprint(ref)) is not None:
            at = f" at {place}" if place is not None and place.code else ""
            found[ref.address] = HeldOutput(f"an output of {function.name}, made{at}", ref, before)
    return list(found.values())


def _fingerprint(ref: OutputRef) -> PendingFingerprint | None:
    """Of all its memory; None where it has none any more. Holds nothing of it."""
    from cudalens.kernels import begin_fingerprint

    storage = ref.storage()
    if storage is None or not storage.nbytes():
        return None
    return begin_fingerprint(torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage))


def _result(found: Sequence[tuple[str, Comparison]], lost: Sequence[str], other: str | None) -> Check:
    """The result of all comparisons.

    Args:
        found: Of values.
        lost: Held outputs that were overwritten.
        other: What else differs, in words.
    """
    bad = [(label, one) for label, one in found if not one.is_equal]
    nan = any(one.num_nan_mismatches for _, one in bad)
    diff = float("inf") if nan else max((float(one.max_abs_diff) for _, one in found), default=0.0)
    words = [_words(*bad[0])] if bad else []
    words += [f"{lost[0]}, which is still held: the replay has overwritten it"] if lost else []
    words += [other] if other else []
    return Check(not words, diff, "; ".join(words) or None)


def _words(label: str, found: Comparison) -> str:
    """The first element that differs, with both values."""
    assert found.first_different is not None
    assert found.first_values is not None
    place = ", ".join(map(str, found.first_different))
    replayed, eager = found.first_values
    return f"{label}[{place}]: {replayed!r} replayed, {eager!r} without a graph"
