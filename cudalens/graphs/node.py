"""A recording: one CUDA graph in a tree, when it may be replayed, and how."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import increment_version
from torch.multiprocessing.reductions import StorageWeakRef

from cudalens.device.stacks import Place
from cudalens.graphs import inputs as copying
from cudalens.graphs.costs import NUM_TIMED
from cudalens.graphs.functions import Function, Guarded, Variant
from cudalens.graphs.generators import GeneratorStates
from cudalens.graphs.guards.named_tensors import NamedTensors, OfBackward
from cudalens.graphs.inputs import CopiedInput, InputCopies
from cudalens.graphs.links import Kind, derive
from cudalens.graphs.liveness import OutputRef, version_of
from cudalens.graphs.outputs import (
    AliasOfExternal,
    AliasOfLeaf,
    AliasOfOutput,
    AliasOfPath,
    Constant,
    Fresh,
    Output,
    SavedArgument,
    view_of_leaf,
)
from cudalens.graphs.reasons import Finding, Reason
from cudalens.graphs.stored import StoredTensors
from cudalens.graphs.undo import Undo
from cudalens.graphs.waits import ReadValue, Wait, read_value, show_value

if TYPE_CHECKING:
    from cudalens.device.graph_backend import GraphBackend, TensorPlace
    from cudalens.graphs.guards.found import Read
    from cudalens.graphs.host_values import Upload
    from cudalens.graphs.observer import CapturedOperator
    from cudalens.graphs.programs import Derivative

#: An output on a path: depth of its node, position among the node's outputs.
PathIndex = tuple[int, int]


@dataclass(slots=True)
class Check:
    """A replay against a call without a graph.

    Attributes:
        is_equal: Bit by bit.
        max_abs_diff: Largest difference; None where nothing can be subtracted.
        first_diff: The first element that differs, in words.
    """

    is_equal: bool
    max_abs_diff: float | None = None
    first_diff: str | None = None


@dataclass(slots=True)
class Fixed:
    """A leaf that the recording uses in place.

    Attributes:
        leaf: Its position.
        address: ``data_ptr()`` at the recording.
        is_managed: Whether it is an output of an earlier recording on the path.
    """

    leaf: int
    address: int
    is_managed: bool


class GraphNode:
    """A recording of one variant, behind another recording or at a root.

    Attributes:
        id: Number in the manager.
        variant: What was recorded.
        mode: With gradients, without, or the backward of a recording.
        path_ids: The numbers of the recordings from the root to it.
        children: Recordings that came after it, by variant.
        refs: Its outputs as weak references; None for what is no tensor with memory of its own in the pool.
        outputs: What each output is.
        places: The line that made each.
        num_results: How many outputs the user gets.
        first_saved: From which position on outputs are for the backward; between are bases of results.
        num_replays: How often it was replayed after the recording.
        stored: The tensors that it makes and stores outside: gradients and attributes.
        derivative: Its autograd graph, where gradients are wanted.
        backwards: Variants of its backward, by which results have a gradient.
        of_backward: Tensors from outside that only those use.
        graph: What it launches; behind the last of its waits.
        waits: Where the host reads a value of the device, in order, each with the graph before it.
        undo: The contents of what it writes outside before the last of its waits.
        values: What the latest replay read at those.
        missed: Where the latest replay read another value than the recording, and that value in words; None if it did
            not, or is complete.
        draws: Whether it changes the state of a random generator.
        generators_before: While it is recorded, the states before it.
        state: Of the pool, after the recording.
        pool_bytes: Bytes allocated in the pool then.
        captured: The operators that added nodes to its graphs; empty where that is unknown.
        segments: The segments of the pool in which it has memory, by their first address.
        dead_before: Outputs of the path that were dead at the recording, which may use their memory.
        live_after: Outputs of the path that were alive after it.
        returned_leaves: Arguments that it returns, or views of them.
        saved_arguments: Arguments that the forward saved for its backward.
        uploads: CPU tensors that it copies to the device.
        freed_results: Results whose backward the function itself runs.
        num_writes: How often autograd counts an in-place change of a leaf, by its position.
        writes_of_wrappers: The same of tensors whose class calls operators itself.
        record_ns: What the recording took, on the host.
        eager_ns: What a call without a graph takes on the device; None where that was not measured.
    """

    def __init__(
        self, number: int, variant: Variant, parent: GraphNode | None, backend: GraphBackend, device: int
    ) -> None:
        self.id, self.variant, self._backend, self._device = number, variant, backend, device
        self.mode = variant.mode
        self._parent = None if parent is None else weakref.ref(parent)
        self.children: dict[int, list[GraphNode]] = {}
        self.refs: list[OutputRef | None] = []
        self.path: list[GraphNode] = [*(parent.path if parent is not None else ()), self]
        self.path[-1] = weakref.proxy(self)
        self.path_ids: tuple[int, ...] = (*(parent.path_ids if parent is not None else ()), number)
        self.outputs: list[Output] = []
        self.num_results = self.first_saved = 0
        self.num_replays = 0
        self.stored = StoredTensors((), ())
        self.derivative: Derivative | None = None
        self.backwards: dict[Any, Variant] = {}
        self.of_backward = OfBackward()
        self.state: Any = None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.waits: list[Wait] = []
        self.undo = Undo()
        self.values: list[ReadValue] = []
        self.missed: tuple[Wait, str] | None = None
        self.draws = True
        self.generators_before: GeneratorStates | None = None
        self.places: list[Place | None] = []
        self.copied: list[CopiedInput] = []
        self.fixed: list[Fixed] = []
        self.num_writes: dict[int, int] = {}
        self.writes_of_wrappers: list[tuple[Read, int]] = []
        self.guards: list[Guarded] = []
        self.dead_before: list[PathIndex] = []
        self.live_after: list[PathIndex] = []
        self.returned_leaves: list[int] = []
        self.saved_arguments: list[SavedArgument] = []
        self.freed_results: list[int] = []
        self.uploads: list[Upload] = []
        self.pool_bytes = self.record_ns = 0
        self.captured: list[CapturedOperator] = []
        self.segments: frozenset[int] = frozenset()
        self.eager_ns: int | None = None
        self._check: Check | Callable[[], Check] | None = None
        self.result_spec: Any = None
        self.storages: list[StorageWeakRef] = []
        self._named = NamedTensors([])
        self._counted: list[tuple[Any, int]] = []
        self._fixed_leaves: list[int] = []
        self._addresses: list[int] = []
        self._copies = InputCopies(())
        self._counts_leaves = False
        self._has_aliases = True
        self._written: list[CopiedInput] = []
        self._renewed: list[Upload] = []
        self._samples: list[tuple[Any, Any]] = []
        self._times_ns: list[int] = []

    @property
    def parent(self) -> GraphNode | None:
        """The recording before it; None for a root."""
        return self._parent() if self._parent is not None else None

    @property
    def owners(self) -> list[torch.Tensor]:
        """Tensors from outside whose gradients the path up to here makes."""
        return [owner for node in self.path for owner in node.variant.owners]

    @property
    def depth(self) -> int:
        """Number of recordings before it."""
        return len(self.path) - 1

    @property
    def check(self) -> Check | None:
        """What the comparison with a call without a graph gave; None where there was none."""
        if self._check is not None and not isinstance(self._check, Check):
            self._check = self._check()
        return self._check

    @property
    def is_checked(self) -> bool:
        """Whether there was a comparison; does not wait for its result."""
        return self._check is not None

    def set_check(self, find_out: Callable[[], Check]) -> None:
        """There was a comparison; `find_out` waits for its result. The first that failed is kept."""
        known = self.check
        if known is None or known.is_equal:
            self._check = find_out

    def settle(self) -> None:
        """The recording is over: prepare what every replay looks at."""
        self._fixed_leaves = [fixed.leaf for fixed in self.fixed]
        looked_up = [guard for guard in self.guards if guard.at is not None]
        self._named = NamedTensors(
            [
                (*guard.at, guard.label, guard.name is None or guard.name.is_static)
                for guard in looked_up
                if guard.at is not None
            ],
            self.stored.owners(),
        )
        self._addresses = [f.address for f in self.fixed] + [guard.address for guard in looked_up]
        self._counts_leaves = any(self.num_writes[n] for n in self._fixed_leaves)
        self._has_aliases = not all(isinstance(one, Fresh) and not one.link.is_new_leaf for one in self.outputs)
        self._counted = [(guard.at, guard.num_writes) for guard in looked_up if guard.num_writes > 0]
        self._counted += [((at.container, at.key), number) for at, number in self.writes_of_wrappers if number > 0]
        self.storages += [StorageWeakRef(g.tensor.untyped_storage()) for g in self.guards if g.tensor is not None]  # type: ignore[no-untyped-call]
        if self._backend.name == "cuda":  # there a graph refers to memory by address alone
            self.storages.clear()
        self.returned_leaves = sorted({o.leaf for o in self.outputs if isinstance(o, AliasOfLeaf)})
        self._copies = InputCopies(self.copied)
        self._written = [copied for copied in self.copied if copied.is_written]
        self._renewed = [upload for upload in self.uploads if upload.value is None]

    def live_refs(self) -> Iterator[OutputRef]:
        """Outputs on the path from the root to here that are alive."""
        for depth, index in self.live_after:
            ref = self.path[depth].refs[index]
            if ref is not None and ref.is_alive():
                yield ref

    def held(self) -> Iterator[tuple[OutputRef, Function, Place | None]]:
        """As `live_refs`, each with the function that made it, and the line."""
        for depth, index in self.live_after:
            node = self.path[depth]
            ref = node.refs[index]
            if ref is not None and ref.is_alive():
                yield ref, node.variant.function, node.places[index] or node.variant.function.place

    def is_over(self) -> bool:
        """Whether no output of the path is alive."""
        return next(self.live_refs(), None) is None

    def died_since(self) -> list[int]:
        """Addresses of outputs that were alive after the recording and are dead now."""
        refs = [self.path[depth].refs[index] for depth, index in self.live_after]
        return list({ref.address for ref in refs if ref is not None and not ref.is_alive()})

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Whether a call on `leaves` may replay it now: addresses and liveness are as at the recording."""
        path = self.path
        for depth, index in self.dead_before:
            ref = path[depth].refs[index]
            if ref is not None and ref.is_alive():
                return False
        if self.of_backward.moved() is not None:
            return False
        if not self._addresses:
            return True
        try:
            named = self._named.as_before()
            if named is None:
                return False
            if self.storages and any(ref.expired() for ref in self.storages):  # type: ignore[no-untyped-call]
                return False
            return self._backend.same_addresses([leaves[n] for n in self._fixed_leaves] + named, self._addresses)
        except (LookupError, AttributeError, TypeError, ValueError, RuntimeError):
            return False  # a name does not exist or holds no tensor

    def mismatch(self, leaves: Sequence[Any]) -> Finding:
        """Why `fits` says no."""
        place = self.variant.function.place
        if (found := self._moved(leaves) or self._named.difference()) is not None:
            return Finding(*found, place)
        for depth, index in self.dead_before:
            ref = self.path[depth].refs[index]
            if ref is not None and ref.is_alive():
                return Finding(
                    Reason.OUTPUT_ALIVE, f"output {index} of {self.path[depth].variant.function.name}", place
                )
        return Finding(Reason.STATIC_MOVED, "", place)

    def _moved(self, leaves: Sequence[Any]) -> tuple[Reason, str] | None:
        for fixed in self.fixed:
            if leaves[fixed.leaf].data_ptr() != fixed.address:
                reason = Reason.MANAGED_MOVED if fixed.is_managed else Reason.STATIC_MOVED
                return reason, f"argument '{self.variant.labels[fixed.leaf]}'"
        for guard in self.guards:
            if guard.at is not None and _address_at(*guard.at) != guard.address:
                return (Reason.MANAGED_MOVED if guard.tensor is None else Reason.STATIC_MOVED), f"'{guard.label}'"
        moved = self.of_backward.moved()
        return None if moved is None else (Reason.STATIC_MOVED, f"'{moved}'")

    def copy_inputs(self, leaves: Sequence[Any]) -> None:
        """Copy the arguments of this call into the recording's memory."""
        if self._renewed:
            given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            with torch.no_grad():
                for upload in self._renewed:
                    upload.renew(given)
        self._copies.run(leaves)

    def launch(self) -> bool:
        """Replay it on the current stream, and read the values that the host reads in between.

        Returns:
            Whether all values are those of the recording. If not, what follows the read was not launched.
        """
        if len(self._times_ns) + len(self._samples) < NUM_TIMED:
            with self.timed():
                return self._launch()
        return self._launch()

    def _host_clock(self) -> int:
        return self._backend.now_ns(self._device)

    def _launch(self) -> bool:
        self.values, self.missed = [], None
        if self.waits:
            self.undo.save()
        for wait in self.waits:
            self._backend.replay(wait.graph)
            found = wait.read_timed(self._host_clock)
            self.values.append(read_value(found))
            if self.values[-1] != wait.value:
                self.missed = wait, show_value(found)
                self.undo.restore()
                return False
            wait.keep(found)
        self.launch_last()
        return True

    def launch_last(self) -> None:
        """Replay what follows the last wait; of a recording without waits, all of it."""
        assert self.graph is not None
        self._backend.replay(self.graph)
        self.num_replays += 1

    def copy_back(self, leaves: Sequence[Any]) -> None:
        """Arguments that the function overwrites get what the replay wrote, and as many in-place changes."""
        written = self._written
        if not written:
            return
        targets = [copied.source(leaves).detach() for copied in written]
        versions = list(map(version_of, targets))
        copying.copy_all(targets, [copied.buffer for copied in written])
        for copied, target, version in zip(written, targets, versions, strict=True):
            if not target.is_inference():
                counted = version + self.num_writes[copied.leaf]
                torch._C._autograd._unsafe_set_version_counter((target,), (counted,))

    def count_writes(self, leaves: Sequence[Any]) -> None:
        """Count the in-place changes of a replay as a call without a graph does, so that autograd notices them."""
        if not (self._counts_leaves or self._counted):
            return
        written = [leaves[n] for n in self._fixed_leaves for _ in range(self.num_writes[n])]
        written += [at[0][at[1]] for at, number in self._counted for _ in range(number)]
        if written:
            increment_version(written)

    def timed(self) -> Any:
        """Take the device's time of what is launched while it is entered."""
        return _Timed(self._samples) if torch.cuda.is_available() else nullcontext()

    @property
    def replay_ns(self) -> int | None:
        """Device time of a replay, median of the timed ones that have ended; None before any has."""
        waiting = []
        for start, end in self._samples:
            if end.query():
                self._times_ns.append(round(start.elapsed_time(end) * 1e6))
            else:
                waiting.append((start, end))
        self._samples[:] = waiting
        return round(median(self._times_ns)) if self._times_ns else None

    def hand_out(self, leaves: Sequence[Any]) -> list[Any]:
        """The outputs of a replay as plain tensors; `derive` makes those that are None."""
        made = [self._fresh(n, output) if isinstance(output, Fresh) else None for n, output in enumerate(self.outputs)]
        return self._with_aliases(made, leaves) if self._has_aliases else made

    def first_out(self, outputs: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        """As `hand_out`, of the recording itself: what has memory of its own owns it."""
        made = [
            output.detach() if isinstance(described, Fresh) else None
            for output, described in zip(outputs, self.outputs, strict=True)
        ]
        return self._with_aliases(made, leaves)

    def _with_aliases(self, made: list[torch.Tensor | None], leaves: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for position, (tensor, output) in enumerate(zip(made, self.outputs, strict=True)):
            if tensor is not None:
                found.append(tensor)
            elif position >= self.first_saved and isinstance(output, AliasOfOutput):
                found.append(self._saved_result(output, made))
            else:
                found.append(self._alias(output, leaves, made))
        return found

    def _saved_result(self, output: AliasOfOutput, made: Sequence[torch.Tensor | None]) -> torch.Tensor:
        """What autograd saved of a result; it shares the version counter of the result where it did so before."""
        result = made[output.index]
        assert result is not None
        if output.link.kind is Kind.DETACHED:
            owner = self.outputs[output.index]
            is_whole = isinstance(owner, Fresh) and owner.place == output.place
            return result.detach() if is_whole else derive(result, output.link, output.place)
        return self._backend.tensor_at(output.place, result.untyped_storage())

    def _alias(self, output: Output, leaves: Sequence[Any], made: list[torch.Tensor | None]) -> Any:
        if isinstance(output, Constant):
            return output.value
        if isinstance(output, AliasOfPath):
            ref = self.path[output.depth].refs[output.index]
            return self._backend.tensor_at(output.place, None if ref is None else ref.storage())
        assert not isinstance(output, Fresh)
        if output.link.kind is not Kind.OWN:
            return None
        if isinstance(output, AliasOfLeaf):
            return view_of_leaf(leaves[output.leaf].detach(), output)
        if isinstance(output, AliasOfOutput):
            first = made[output.index]
            assert first is not None
            return self._backend.tensor_at(output.place, first.untyped_storage())
        return output.tensor.detach()

    def derive(self, made: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        """The results of a call: what is derived from an argument or another output is made of this call's."""
        if not self._has_aliases:
            return list(made[: self.num_results])
        results: list[Any] = []
        for position, output in enumerate(self.outputs[: self.num_results]):
            if made[position] is None and not isinstance(output, Constant):
                results.append(self._derived(output, leaves, [*results, *made[position:]]))
            elif isinstance(output, Fresh | AliasOfOutput | AliasOfLeaf) and output.link.is_new_leaf:
                results.append(made[position].detach().requires_grad_())
            else:
                results.append(made[position])
        return results

    @staticmethod
    def _derived(output: Output, leaves: Sequence[Any], known: Sequence[Any]) -> torch.Tensor:
        if isinstance(output, AliasOfLeaf):
            return view_of_leaf(leaves[output.leaf], output)
        if isinstance(output, AliasOfOutput):
            return derive(known[output.index], output.link, output.place, requires_grad=output.requires_grad)
        assert isinstance(output, AliasOfExternal)
        return derive(output.tensor, output.link, output.place, requires_grad=output.requires_grad)

    def _fresh(self, position: int, output: Fresh) -> torch.Tensor:
        ref = self.refs[position]
        assert ref is not None
        kept = ref.kept
        if kept is not None and version_of(kept) == output.version and _is_untouched(kept, output.place):
            return kept
        tensor = self._backend.tensor_at(output.place)
        if not tensor.is_inference():
            torch._C._autograd._unsafe_set_version_counter((tensor,), (output.version,))
        if output.is_shared or self.variant.mode == "backward":  # autograd takes a gradient over only where it is alone
            ref.point_to(tensor)
        else:
            ref.keep(tensor)
        return tensor

    def release(self, backend: GraphBackend) -> None:
        """Invalidate the outputs and destroy the graph."""
        self.let_go()
        self.destroy_graphs(backend)
        self.uploads, self._renewed = [], []

    def destroy_graphs(self, backend: GraphBackend) -> None:
        """Free its graphs."""
        graphs = [wait.graph for wait in self.waits] + ([] if self.graph is None else [self.graph])
        for graph in graphs:
            backend.destroy(graph)
        self.graph, self.waits, self.undo = None, [], Undo()

    def let_go(self) -> None:
        """Hold no output any more."""
        for ref in self.refs:
            if ref is not None:
                ref.let_go()

    def mark_shared(self, index: int) -> None:
        """A later recording returns a view of an output: it is made anew in each replay from now on."""
        output = self.outputs[index]
        if isinstance(output, Fresh):
            self.outputs[index] = replace(output, is_shared=True)
        ref = self.refs[index]
        if ref is not None:
            ref.let_go()

    def descendants(self) -> Iterator[GraphNode]:
        """It, and every recording below it."""
        yield self
        for child in itertools.chain.from_iterable(self.children.values()):
            yield from child.descendants()


class _Timed:
    """Takes the device's time between enter and exit."""

    __slots__ = ("_end", "_samples", "_start")

    def __init__(self, samples: list[tuple[Any, Any]]) -> None:
        self._samples = samples
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def __enter__(self) -> None:
        self._start.record()

    def __exit__(self, *exception: object) -> None:
        self._end.record()
        self._samples.append((self._start, self._end))


def _is_untouched(tensor: torch.Tensor, place: TensorPlace) -> bool:
    """Whether a tensor that was returned before is unchanged, apart from its elements."""
    return (
        tensor.shape == place.size
        and tensor.stride() == place.stride
        and tensor.dtype == place.dtype
        and tensor.data_ptr() == place.address + place.storage_offset * place.dtype.itemsize
        and not (tensor.requires_grad or tensor.__dict__ or tensor._backward_hooks or any(place.flags))
        and tensor.grad is None
    )


def _address_at(container: Any, key: Any) -> int:
    try:
        return int(container[key].data_ptr())
    except (LookupError, AttributeError, TypeError, ValueError, RuntimeError):
        return 0
