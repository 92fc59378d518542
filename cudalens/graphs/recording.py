"""Make a recording: copy arguments into the pool, capture, and collect the outputs and the pool's state."""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from cudalens.device.graph_backend import PoolId, TensorPlace
from cudalens.device.own_work import EnterAsOwn, own_work
from cudalens.device.stacks import Place
from cudalens.errors import VirtualDeviceError
from cudalens.graphs import inputs as copying
from cudalens.graphs.changes import capturable_line, change_of_caller, change_of_step
from cudalens.graphs.freed_history import freed_results
from cudalens.graphs.functions import Guarded, Variant, run_inside
from cudalens.graphs.generators import generator_states
from cudalens.graphs.guards.captured import Name, find_names
from cudalens.graphs.host_data import shown_copies
from cudalens.graphs.host_values import replaced
from cudalens.graphs.inputs import CopiedInput
from cudalens.graphs.links import share_version
from cudalens.graphs.liveness import OutputRef, storage_id, version_of, versions_restored_on_error
from cudalens.graphs.node import Fixed, GraphNode
from cudalens.graphs.observer import Made, Observer
from cudalens.graphs.outputs import AliasOfPath, Fresh, Surroundings, describe_outputs, saved_arguments
from cudalens.graphs.programs import Training
from cudalens.graphs.reasons import Finding, Reason
from cudalens.graphs.stored import StoredTensors, restored_on_error
from cudalens.graphs.undo import whole_storage
from cudalens.graphs.variants import describe_tensor, note_outside, uneven_gradient, unnamed_input
from cudalens.graphs.waits import Wait, new_results, read_value, show_value

if TYPE_CHECKING:
    from cudalens.device.graph_backend import GraphBackend
    from cudalens.graphs.stored import StoredMemories


class NotRecordedError(Exception):
    """A function could not be recorded; streams and pool are as before.

    Attributes:
        finding: Why.
        is_unfinished: Whether the function did not reach its end.
    """

    def __init__(self, finding: Finding, *, is_unfinished: bool = False) -> None:
        super().__init__(str(finding))
        self.finding, self.is_unfinished = finding, is_unfinished


class Recorder:
    """Makes recordings in one pool, on one stream.

    A segment of the pool belongs to the stream that it was allocated for, so warmups and recordings share one stream:
    on several they would share no memory.

    Attributes:
        pool: The memory pool.
        stream: Where warmups and captures run.
    """

    def __init__(self, backend: GraphBackend, device: int) -> None:
        self.backend, self.device = backend, device
        with torch.cuda.device(device), own_work():
            torch.cuda.synchronize()
            self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self.stream.wait_stream(torch.cuda.current_stream())
            self.pool: PoolId = torch.cuda.graph_pool_handle()
            self._holder: torch.cuda.CUDAGraph | None = torch.cuda.CUDAGraph()
            # An empty graph, whose capture makes the pool and whose life keeps it.
            with _silent(), backend.capture(self._holder, self.pool, self.stream):
                pass

    def close(self) -> None:
        """Free the pool."""
        if self._holder is not None:
            self.backend.destroy(self._holder)
            self._holder = None

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """The recorder's stream, behind what the caller's holds; the caller's goes on behind it."""
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            yield
        caller.wait_stream(self.stream)

    @contextmanager
    def in_pool(self) -> Iterator[None]:
        """Memory comes from the pool, work goes on the recorder's stream."""
        with ExitStack() as stack:
            stack.enter_context(self.backend.without_benchmark_emptying())
            stack.enter_context(self.on_stream())
            stack.enter_context(self.backend.allocate_to(self.pool, self.device))
            yield

    @contextmanager
    def _clean_workspaces(self) -> Iterator[None]:
        self.backend.clear_workspaces()
        try:
            yield
        finally:
            self.backend.clear_workspaces()

    def warm_up(self, variant: Variant, leaves: list[Any], observer: Observer) -> list[Any]:
        """Run a variant in the pool without a graph, observed."""
        with own_work():
            torch.cuda.synchronize()
        with EnterAsOwn(self._clean_workspaces()), self.in_pool(), run_inside(), observer:
            return variant.program.run(leaves.copy())

    def record(self, node: GraphNode, leaves: Sequence[Any], memories: StoredMemories) -> list[Any]:
        """Capture a variant into `node`, and replay it once.

        Args:
            node: The recording.
            leaves: Arguments of the call.
            memories: The memories of the places into which recordings store tensors.

        Returns:
            The outputs, which own their memory.

        Raises:
            NotRecordedError: It cannot be captured, or left something behind.
        """
        begun = time.perf_counter_ns()
        with own_work():
            torch.cuda.synchronize()
        stored = node.variant.stored
        node.stored = StoredTensors(stored, list(map(memories.find, stored)))
        counted = chain(leaves, (tensor for _, tensor in _named_tensors(node.variant)))
        with versions_restored_on_error(counted), restored_on_error((one.container, one.key) for one in stored):
            outputs = self._record(node, leaves)
        node.record_ns = time.perf_counter_ns() - begun
        return outputs

    def _record(self, node: GraphNode, leaves: Sequence[Any]) -> list[Any]:
        node.dead_before = _dead_since_parent(node)
        _fix_leaves(node, leaves)
        given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        with torch.no_grad():  # outside of the pool: replays do not write the constants again
            node.uploads = [upload.on_device(given, self.device) for upload in node.variant.uploads]
        with torch.no_grad(), self.in_pool():
            buffers = self._make_buffers(node, leaves)
        stand_ins = [
            buffers.get(n, leaf).requires_grad_(leaf.requires_grad) if n in buffers else leaf
            for n, leaf in enumerate(leaves)
        ]
        tensors = [leaf for leaf in stand_ins if isinstance(leaf, torch.Tensor)]
        copies = {id(buffer) for buffer in buffers.values()}
        in_place = {n: one for n, one in enumerate(tensors) if one.is_cuda and id(one) not in copies}
        capture = _Capture(self, node, _generators(node, leaves), in_place)
        observer = Observer(tensors, self.device, node.uploads, may_wait=node.mode != "backward", wait=capture.run_wait)
        observer.num_captured = self.backend.num_captured
        del tensors, in_place
        versions = {n: version_of(one) for n, one in enumerate(stand_ins) if isinstance(one, torch.Tensor)}
        named = {(id(name.container), name.key): version_of(tensor) for name, tensor in _named_tensors(node.variant)}
        wrappers = [(at, version_of(at.value)) for at in node.variant.wrappers]
        counted = {id(one): (n, one) for n, one in reversed(list(enumerate(stand_ins))) if n in versions}
        outputs = self._capture(node, stand_ins, observer, capture)
        node.num_writes = dict.fromkeys(versions, 0)
        node.num_writes |= {n: version_of(one) - versions[n] for n, one in counted.values()}  # each tensor once
        node.writes_of_wrappers = [(at, version_of(at.value) - before) for at, before in wrappers]
        del counted, wrappers
        node.freed_results = freed_results(outputs) if node.variant.has_freed_history else []
        self._describe(node, outputs, buffers, observer, named)
        if (uneven := uneven_gradient(node, leaves)) is not None:
            self._abandon(node)
            raise NotRecordedError(uneven)
        outputs = node.first_out(outputs, leaves)  # nothing keeps the copies of arguments from here on
        node.refs = [
            OutputRef(output) if isinstance(described, Fresh) else None
            for output, described in zip(outputs, node.outputs, strict=True)
        ]
        addresses = observer.addresses | {copied.place.address for copied in node.copied}
        buffers.clear()
        observer.made.clear()
        self._note_pool(node)
        node.segments = self._segments_of(addresses)
        node.captured = observer.captured
        with node.timed():
            node.launch_last()
        node.num_replays -= 1
        before, node.generators_before = node.generators_before, None
        node.draws = before is None or before.difference(generator_states(node.variant, leaves)) is not None
        return outputs

    def _make_buffers(self, node: GraphNode, leaves: Sequence[Any]) -> dict[int, torch.Tensor]:
        fixed = {fixed.leaf for fixed in node.fixed}
        buffers, targets, sources = {}, [], []
        copied: dict[int, torch.Tensor] = {}
        for position, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and leaf.is_cuda and position not in fixed:
                if id(leaf) in copied:  # one tensor as two arguments
                    buffers[position] = copied[id(leaf)]
                    continue
                plain, expanded = leaf.detach(), copying.expanded_dims(leaf)
                buffer = buffers[position] = copied[id(leaf)] = copying.make_buffer(plain)
                targets.append(copying.stored_part(buffer, expanded))
                sources.append(copying.stored_part(plain, expanded))
                place = TensorPlace.of(buffer)
                node.copied.append(
                    CopiedInput(
                        position,
                        copying.rebuilt(self.backend, place, expanded),
                        expanded,
                        position in node.variant.written,
                        place,
                    )
                )
        copying.copy_all(targets, sources)
        return buffers

    def _capture(self, node: GraphNode, leaves: list[Any], observer: Observer, capture: _Capture) -> list[Any]:
        stream = torch.cuda.current_stream()
        node.generators_before = generator_states(node.variant, leaves)
        handled = sys.exc_info()[1]  # the exception that the caller handles: no part of this failure
        try:
            with (
                _silent(),
                EnterAsOwn(self._clean_workspaces()),
                capture,
                run_inside(),
                shown_copies() if node.variant.has_hidden_copies else nullcontext(),
            ):
                with observer:
                    outputs = node.variant.program.run(leaves, observer)
                other = node.stored.take(observer)
        except BaseException as error:
            torch.cuda.set_stream(stream)  # torch leaves its own where a capture cannot be ended
            interrupt = _interrupt_behind(error, handled)
            if interrupt is None:
                leaves.clear()
                raise self._failure(node, observer, error, handled) from None
            self._abandon(node)
            self._invalidate(node, observer.left_behind(()))
            raise interrupt from None
        finally:
            observer.num_captured = None
            observer.wait = None  # autograd can hold the observer, and must not hold the recording
        if (unread := _unread(node)) is not None:
            self._abandon(node)
            raise NotRecordedError(unread)
        if other is not None:
            self._abandon(node)
            raise NotRecordedError(Finding(Reason.NEW_GRADIENT, f"'{other}'", observer.last_place))
        return outputs

    def _failure(
        self, node: GraphNode, observer: Observer, error: BaseException, handled: BaseException | None
    ) -> NotRecordedError:
        """The reason for a failed capture, after its memory was freed."""
        finding = _why(observer, error, handled)
        if finding.reason is Reason.CAPTURE_FAILED:
            if node.waits:  # without the value that the host reads, it may not fail
                wait = next((wait for wait in reversed(node.waits) if wait.change), node.waits[-1])
                what = f"the read of {wait.shown}, then {finding.what}"
                finding = Finding(Reason.SYNCHRONISES, what, wait.place, wait.change)
            else:
                finding = _unread(node) or finding
        clear_tracebacks(error, handled)
        self._abandon(node)
        self._invalidate(node, observer.left_behind(()))
        return NotRecordedError(finding, is_unfinished=True)

    def _invalidate(self, node: GraphNode, left: Sequence[Made]) -> None:
        """Tensors that a failed capture left were never computed: reading them raises an error."""
        for made in left:
            storage = made.ref.storage()
            if storage is not None:
                self.backend.invalidate(
                    made.ref.tensor(),
                    storage,
                    f"This tensor was made by {node.variant.function.name} at {made.place} while it was recorded as a "
                    "CUDA graph, which failed, so that it was never computed. Return it, or make it before the "
                    "function is graphed.",
                )

    def _compute(self, node: GraphNode, observer: Observer, left: Sequence[Made]) -> None:
        """Let what a recording leaves somewhere have its values, where that can be done without other consequences."""
        if observer.written or any(external.is_written for external in observer.externals.values()):
            self._invalidate(node, left)
            return
        with own_work(), _same_draws(self.device):
            node.launch()
            torch.cuda.synchronize()

    def _abandon(self, node: GraphNode) -> None:
        if node.waits and node.generators_before is not None:  # what is before the last wait has run
            node.generators_before.restore()
            node.undo.restore()
        node.destroy_graphs(self.backend)
        with own_work():
            torch.cuda.synchronize()

    def _describe(
        self,
        node: GraphNode,
        outputs: list[Any],
        buffers: dict[int, torch.Tensor],
        observer: Observer,
        versions: Mapping[tuple[int, Any], int],
    ) -> None:
        """Describe the outputs of a recording, and where the program keeps its tensors from outside.

        Args:
            node: The recording.
            outputs: What the program returned.
            buffers: Copies of arguments, by position.
            observer: What was seen of the capture.
            versions: Version counters before the capture, of tensors with names.
        """
        program = node.variant.program
        node.num_results, node.first_saved = program.num_results, program.first_saved
        node.result_spec = program.result_spec
        if isinstance(program, Training):
            node.derivative = program.derivative
        self._check_results(node, outputs, observer)
        observer.note_outputs(outputs)
        variant = node.variant
        wanted = observer.externals.keys() | observer.read_on_host.keys()
        names = find_names(
            roots_of(variant), wanted, variant.executed, is_observed=variant.is_observed, outside=variant.outside
        )
        unknown = self._unknown_host_use(variant, observer) or unnamed_input(variant, observer, names)
        if unknown is not None:
            self._abandon(node)
            raise NotRecordedError(unknown)
        around = Surroundings(
            [leaf if isinstance(leaf, torch.Tensor) else None for leaf in program.given],
            {key: external.tensor for key, external in observer.externals.items()},
            {key: [name.container[name.key] for name in known] for key, known in names.items()},
            lambda address: _find_on_path(node, address),
            node.first_saved,
            frozenset(buffers),
        )
        program.given = []
        node.outputs = describe_outputs(outputs, around)
        node.saved_arguments = saved_arguments(outputs, around)
        self._check_freed_results(node, outputs)
        for described in node.outputs:
            if isinstance(described, AliasOfPath):
                node.path[described.depth].mark_shared(described.index)
        node.places = [
            observer.made[key].place
            if isinstance(output, torch.Tensor) and (key := storage_id(output)) in observer.made
            else None
            for output in outputs
        ]
        node.guards = _guards(node, observer, names, versions)
        if node.derivative is not None:
            node.derivative.names = [self._source_of(node, tensor, names) for tensor in node.derivative.externals]
        note_outside(node.variant, observer)
        node.variant.num_kernels = observer.num_kernels

    @staticmethod
    def _unknown_host_use(variant: Variant, observer: Observer) -> Finding | None:
        """A use of a CPU tensor in a capture that its warm-up does not have."""
        compared = {storage_id(name.container[name.key]) for name in variant.host_names}
        read = [one for key, one in observer.read_on_host.items() if key not in compared]
        places = [one.place for one in read] + [place for _, place in observer.used_on_host.values()]
        return Finding(Reason.CPU_SCALAR, "in some calls", places[0]) if places else None

    def _check_freed_results(self, node: GraphNode, outputs: Sequence[Any]) -> None:
        """Check that the recording freed the history of its results, if the warm-up did."""
        if not node.variant.has_freed_history:
            return
        wanted = [n for n, one in enumerate(outputs) if isinstance(one, torch.Tensor) and one.requires_grad]
        if node.freed_results != wanted or not all(isinstance(node.outputs[n], Fresh) for n in wanted):
            self._abandon(node)
            what = "a result whose history is freed in some calls"
            raise NotRecordedError(Finding(Reason.OPAQUE_RESULT, what, node.variant.function.place))

    def _source_of(self, node: GraphNode, tensor: torch.Tensor, names: Mapping[int, Sequence[Name]]) -> Name | None:
        """Where the program holds a tensor that is differentiated: another one may be there in the next call."""
        known = names.get(storage_id(tensor), ())
        found = next((name for name in known if name.container[name.key] is tensor), None)
        if found is None and not tensor.is_leaf:
            self._abandon(node)
            raise NotRecordedError(Finding(Reason.UNNAMED_INPUT, describe_tensor(tensor), node.variant.function.place))
        return found

    def _check_results(self, node: GraphNode, outputs: list[Any], observer: Observer) -> None:
        results = [output for output in outputs if isinstance(output, torch.Tensor)]
        if any(not output.is_cuda for output in results):
            self._abandon(node)
            is_saved = all(one.is_cuda for one in outputs[: node.first_saved] if isinstance(one, torch.Tensor))
            what = "one that autograd keeps for the backward" if is_saved else ""
            raise NotRecordedError(Finding(Reason.CPU_OUTPUT, what, observer.last_place))
        left = observer.left_behind(results)
        if left and gc.collect():
            left = observer.left_behind(results)
        if left:
            self._compute(node, observer, left)
            self._abandon(node)
            made = left[0]
            raise NotRecordedError(
                Finding(Reason.ESCAPED_TENSOR, f"of {made.operator}, {made.ref.num_bytes} bytes", made.place)
            )

    def _segments_of(self, addresses: set[int]) -> frozenset[int]:
        """The segments of the pool in which a recording has memory, by their first address."""
        return frozenset(
            first
            for first, num_bytes in self.backend.pool_segments(self.pool, self.device)
            if any(first <= address < first + num_bytes for address in addresses)
        )

    def _note_pool(self, node: GraphNode) -> None:
        path = node.path
        node.live_after = [
            (depth, index)
            for depth, at in enumerate(path)
            for index, ref in enumerate(at.refs)
            if ref is not None and ref.is_alive()
        ]
        node.settle()
        node.state = self.backend.checkpoint(self.pool, self.device)
        node.pool_bytes = self.backend.pool_size(self.pool, self.device).allocated_bytes


def _interrupt_behind(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """Return the interrupt (or another exception that is not an `Exception`) that ended a function, if one did.

    The end of its capture can raise an error of its own, if the function left work on another stream.

    Args:
        error: The exception of the capture.
        handled: The exception that the caller handles.
    """
    behind: BaseException | None = error
    while behind is not None and behind is not handled:
        if not isinstance(behind, Exception):
            return behind
        behind = behind.__context__
    return None


class _Capture:
    """Captures a function into the graphs of a recording: another one behind each value that the host reads.

    Args:
        recorder: Of the tree.
        node: The recording.
        generators: Random generators that the function names.
        in_place: The arguments that the recording uses in place, by their position among the tensors.
    """

    def __init__(
        self,
        recorder: Recorder,
        node: GraphNode,
        generators: Sequence[torch.Generator],
        in_place: Mapping[int, torch.Tensor],
    ) -> None:
        self._recorder, self._node, self._generators, self._in_place = recorder, node, generators, in_place
        self._open: AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        self._begin_graph()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        opened, self._open = self._open, None
        if opened is not None:  # None: a graph before this one could not be ended
            opened.__exit__(kind, error, trail)

    def _begin_graph(self) -> None:
        graph = self._node.graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            try:
                graph.register_generator_state(generator)
            except Exception as error:
                raise NotRecordedError(Finding(Reason.UNREGISTERED_RNG, str(error).partition("\n")[0])) from None
        opened = self._one_graph(graph)
        opened.__enter__()
        self._open = opened

    @contextmanager
    def _one_graph(self, graph: torch.cuda.CUDAGraph) -> Iterator[None]:
        recorder = self._recorder
        with (
            EnterAsOwn(_same_draws(recorder.device)),
            EnterAsOwn(recorder.backend.capture(graph, recorder.pool, recorder.stream)),
        ):
            yield

    def run_wait(
        self,
        operator: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        here: Place,
        outside: Sequence[torch.Tensor],
        written: Iterable[int],
        num_kernels: int,
    ) -> Any:
        """Run what is captured so far, run an operator without a graph, and capture what follows into another graph."""
        self.__exit__(None, None, None)
        node, backend = self._node, self._recorder.backend
        graph = node.graph
        assert graph is not None
        self._save([*outside, *(self._in_place[n] for n in written if n in self._in_place)])
        backend.replay(graph)
        value = operator(*args, **kwargs)
        given = {storage_id(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        results = new_results(value, given)
        read = _reader(backend, operator, args, kwargs)
        change = change_of_caller(here)
        num_before = num_kernels - sum(wait.num_kernels for wait in node.waits)
        node.waits.append(Wait(graph, read, read_value(value), results, show_value(value), here, change, num_before))
        node.graph = None
        self._begin_graph()
        return replaced(value, {id(result): _copied(result) for result in results})

    def _save(self, written: Sequence[torch.Tensor]) -> None:
        """Save the memory from outside that was captured as overwritten, before a replay overwrites it."""
        for tensor in written:
            address = tensor.untyped_storage().data_ptr()
            if not self._node.undo.has(address):
                self._node.undo.add(address, _lookup(self._recorder.backend, whole_storage(tensor)))


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in memory of the graph that is captured."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _reader(
    backend: GraphBackend, operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Callable[[], Any]:
    """What runs an operator in each replay on the present values of its arguments."""
    if operator is torch.ops.aten._to_copy.default:
        source, dtype = _lookup(backend, args[0]), kwargs.get("dtype")
        return torch.no_grad()(lambda: source().to("cpu", dtype))
    leaves, spec = tree_flatten((args, dict(kwargs)))
    found = [_lookup(backend, leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
    del leaves, args, kwargs  # the reader holds no tensor

    def read() -> Any:
        present = [one() if there else one for one, there in zip(found, is_tensor, strict=True)]
        given, named = tree_unflatten(present, spec)
        return operator(*given, **named)

    return torch.no_grad()(read)


def _lookup(backend: GraphBackend, tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    """What gives a tensor that a recording uses, in each replay, without holding it."""
    place, storage = TensorPlace.of(tensor), StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
    try:
        backend.tensor_at(place)
    except VirtualDeviceError:  # it is in no pool; a recording is replayed only while it lives
        return lambda: backend.tensor_at(place, torch.UntypedStorage._new_with_weak_ptr(storage.cdata))
    return functools.partial(backend.tensor_at, place)


def clear_tracebacks(error: BaseException, handled: BaseException | None) -> None:
    """Clear the frames that an exception holds, so that the tensors in them are free.

    Args:
        error: The exception; those that it came of are cleared as well.
        handled: What was being handled when all began; it stays as it is.
    """
    seen = {id(handled)}
    waiting: list[BaseException | None] = [error]
    while waiting:
        at = waiting.pop()
        if at is None or id(at) in seen:
            continue
        seen.add(id(at))
        at.__traceback__ = None
        waiting += [at.__context__, at.__cause__]


def _why(observer: Observer, error: BaseException, handled: BaseException | None) -> Finding:
    """The reason for a failed capture, which began while `handled` was being handled."""
    if observer.findings:
        return observer.findings[0]
    causes = [str(error)]
    while isinstance(error.__context__, Exception) and error.__context__ is not handled:
        error = error.__context__
        causes.append(str(error))
    text = " ".join(causes).lower()
    if "unjoined" in text:
        return Finding(Reason.UNJOINED_STREAM, "", observer.last_place)
    if "param_groups' capturable is false" in text:
        place = observer.last_place
        change = capturable_line("optimizer") if place is None else change_of_step(place)
        return Finding(Reason.CAPTURE_FAILED, "an optimizer that is not capturable", place, change)
    if "generator" in text or "rng" in text:
        return Finding(Reason.UNREGISTERED_RNG, causes[-1].partition("\n")[0], observer.last_place)
    if "operation not permitted when stream is capturing" in text:
        return Finding(Reason.SYNCHRONISES, causes[-1].partition("\n")[0], observer.last_place)
    return Finding(
        Reason.CAPTURE_FAILED, f"{type(error).__name__}: {causes[-1].partition(chr(10))[0]}", observer.last_place
    )


def _unread(node: GraphNode) -> Finding | None:
    """The first read of the warm-up, if the capture does not begin its reads with it.

    Some libraries leave a check of values out while a graph is captured; a replay would not make it either.
    """
    first = node.variant.first_read
    if first is None or (node.waits and node.waits[0].place == first):
        return None
    return Finding(Reason.SYNCHRONISES, "a read that is left out in a recording", first, change_of_caller(first))


def _dead_since_parent(node: GraphNode) -> list[tuple[int, int]]:
    """Outputs of the path that died since its last recording: their memory may be used, so they must be dead again."""
    parent = node.parent
    refs = [] if parent is None else [(at, parent.path[at[0]].refs[at[1]]) for at in parent.live_after]
    return [at for at, ref in refs if ref is not None and not ref.is_alive()]


def _fix_leaves(node: GraphNode, leaves: Sequence[Any]) -> None:
    """Find the leaves that are used in place: static ones, and outputs of the path."""
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            is_managed = leaf.is_cuda and _find_on_path(node, leaf.untyped_storage().data_ptr()) is not None
            if is_managed or position in node.variant.static:
                node.fixed.append(Fixed(position, leaf.data_ptr(), is_managed))
                if not is_managed:
                    node.storages.append(StorageWeakRef(leaf.untyped_storage()))  # type: ignore[no-untyped-call]


def _find_on_path(node: GraphNode, address: int) -> tuple[int, int] | None:
    """The live output on the path above `node` whose storage begins at `address`."""
    for depth, at in enumerate(node.path[:-1]):
        for index, ref in enumerate(at.refs):
            if ref is not None and ref.address == address and ref.is_alive():
                return depth, index
    return None


def _named_tensors(variant: Variant) -> Iterator[tuple[Name, torch.Tensor]]:
    """The tensors from outside that have names, as they are now."""
    for name in variant.names:
        with suppress(LookupError, AttributeError, TypeError, ValueError):
            yield name, name.container[name.key]


def _guards(
    node: GraphNode,
    observer: Observer,
    names: Mapping[int, Sequence[Name]],
    versions: Mapping[tuple[int, Any], int],
) -> list[Guarded]:
    found = []
    for key, external in observer.externals.items():
        address = external.tensor.untyped_storage().data_ptr()
        on_path = _find_on_path(node, address) is not None
        tensor = None if on_path else external.tensor
        known: list[Name | None] = [*names.get(key, ())] or [None]
        counted: list[torch.Tensor] = []
        for name in known:
            named = external.tensor if name is None else name.container[name.key]
            before = external.version if name is None else versions.get((id(name.container), name.key))
            num_writes = version_of(named) - (external.version if before is None else before)
            is_counted = any(share_version(named, other) for other in counted) if num_writes else False
            if num_writes and not is_counted:
                counted.append(named)
            num_writes = 0 if is_counted else num_writes
            found.append(Guarded(tensor, name, _address_of(name, external.tensor), external.is_written, num_writes))
    return found


def _address_of(name: Name | None, tensor: torch.Tensor) -> int:
    named = tensor if name is None else name.container[name.key]
    return int(named.data_ptr())


def roots_of(variant: Variant) -> list[tuple[str, Any]]:
    """Where the names of a variant's tensors are looked up."""
    return [("", variant.function.call), *variant.objects]


def _generators(node: GraphNode, leaves: Sequence[Any]) -> list[torch.Generator]:
    found = [leaf for leaf in leaves if isinstance(leaf, torch.Generator)]
    return found + [g for g in node.variant.generators if all(g is not known for known in found)]


@contextmanager
def _silent() -> Iterator[None]:
    """Without torch's warnings about captures that are empty."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*CUDA Graph is empty.*")
        yield


@contextmanager
def _same_draws(device: int) -> Iterator[None]:
    """Random generators are afterwards as before: it is the replay that draws."""
    state, host = torch.cuda.get_rng_state(device), torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(host)
        torch.cuda.set_rng_state(state, device)
