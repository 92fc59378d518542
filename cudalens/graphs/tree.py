"""The tree of recordings of one device: decides whether a call is warmed up, recorded, replayed or runs eager.

The rules are those of PyTorch's CUDA-graph trees (torch/_inductor/cudagraph_trees.py). Recordings share one memory
pool. A recording is replayed only after the recording that it followed, with the same outputs dead and the same
addresses; otherwise another one is made. A replay does not update the allocator, so before the next warm-up or
recording the allocator is set to the state at the end of the replayed recording (`restore`).

A *variant* is a function on arguments that are alike; its *leaves* are the arguments with containers flattened. A
*path* is the sequence of calls of a step; it ends with the step, or when no output of it is held. Outputs in the pool
and other tensors in it are:

- *held*: the program still refers to the tensor, or to one that shares its storage. `held` yields those of a path.
- *live*: the same outputs as references to their storages (`live_refs`): memory that nothing else may use.
- *stale*: held, of an earlier step. The next call frees their memory, and using them raises an error.
- *kept*: tensors that a warm-up made and stored somewhere, besides its results. They are not outputs.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import torch

from cudalens.device.own_work import own_work
from cudalens.device.streams import current_device
from cudalens.errors import GraphError
from cudalens.graphs import arguments, checking
from cudalens.graphs.backend import backend_for
from cudalens.graphs.differentiable import attach, backward_variant, note_backward
from cudalens.graphs.freed_history import with_freed_history
from cudalens.graphs.functions import Variant, inside
from cudalens.graphs.generators import generator_states
from cudalens.graphs.guards.ambient import finding_around
from cudalens.graphs.guards.captured import find_names
from cudalens.graphs.guards.effects import Effects, Snapshot
from cudalens.graphs.guards.kept import Kept, kept_tensors
from cudalens.graphs.guards.outside import PROFILED, can_observe_calls
from cudalens.graphs.inputs import move
from cudalens.graphs.log import Log
from cudalens.graphs.node import GraphNode
from cudalens.graphs.observer import Observer, is_inside_observer, is_transformed
from cudalens.graphs.pool_check import check_pool
from cudalens.graphs.python_code import check_recording, note_effects, python_roots
from cudalens.graphs.reasons import Finding, Reason, State
from cudalens.graphs.recording import NotRecordedError, Recorder, roots_of
from cudalens.graphs.steps import Stale, Steps, StreamOrder, rescue_gradients
from cudalens.graphs.stored import StoredMemories, gradient_of, restored_on_error
from cudalens.graphs.structure import containers_in
from cudalens.graphs.variants import learn, note_host_reads, overwritten, reads_differ, uneven_gradient, unnamed_input
from cudalens.graphs.waits import begins_with
from cudalens.graphs.warmup import WarmupNode, on_backward, warm_up

#: Recordings of one function beyond its first, whatever makes them necessary.
RERECORD_LIMIT: Final = 64

#: With ``check=True``, the first and then every so many replays of a recording are compared with a call without it.
CHECK_EVERY: Final = 32

#: Warm-ups and captures change the state of the process, so one happens at a time in all managers.
_capture_lock: Final = threading.RLock()


def _mib(num_bytes: int | None) -> str:
    return "" if num_bytes is None else f"{num_bytes / 2**20:,.1f} MiB"


class GraphTree:
    """The recordings of one device, in one memory pool.

    Args:
        device: Index of the device.
        rerecord_limit: Recordings of one function beyond its first; further calls run without a graph.
        debug: After each warm-up and recording, look for memory in the pool that belongs to no output.
        max_bytes: What the pool may reserve; the recording that goes beyond is freed, and no other is made. None for no
            limit.

    Attributes:
        device: Index of the device.
        state: What the latest call did.
        roots: Recordings that follow no other, by variant.
        backend: Access to the device's graphs and pools.
        log: The reasons so far.
        paths: Sequences of recordings from root to end, by number, with counts.
        steps: When steps begin.
        lock: Held while the tree changes.
        rerecord_limit: Recordings of one function beyond its first.
    """

    def __init__(self, device: int, *, rerecord_limit: int, debug: bool, max_bytes: int | None = None) -> None:
        self.device, self.state = device, State.NONE
        self.roots: dict[int, list[GraphNode]] = {}
        self.log, self.paths = Log(), Counter[tuple[int, ...]]()
        self.backend = backend_for(device)
        self.rerecord_limit, self._debug = rerecord_limit, debug
        self.lock, self.steps = threading.RLock(), Steps(device, self.backend)
        self.max_bytes = max_bytes
        self._is_full = False  # the limit was reached: variants that are not warmed up yet run without a graph
        self._has_excess = False  # the latest recording exceeded the limit; it is freed when no output is held
        self._recorder: Recorder | None = None
        self._current: GraphNode | WarmupNode | None = None
        self._stale: list[Stale] = []
        self._memories = StoredMemories(self.backend, device)
        self._owners: list[weakref.ref[torch.Tensor]] = []
        self.variant_ids, self._node_ids = itertools.count(), itertools.count()
        self._stream_order = StreamOrder()

    @property
    def current(self) -> GraphNode | WarmupNode | None:
        """The end of the current path: what the latest call ran. None where no path is under way."""
        return self._current

    @property
    def pool(self) -> tuple[int, int] | None:
        """The memory pool; None before the first warmup."""
        return self._recorder.pool if self._recorder is not None else None

    def nodes(self) -> list[GraphNode]:
        """All recordings, oldest first."""
        with self.lock:
            found = [node for roots in self.roots.values() for root in roots for node in root.descendants()]
        return sorted(found, key=lambda node: node.id)

    def pool_bytes(self) -> tuple[int, int]:
        """Bytes that the pool has reserved and that are allocated in it; zeros before the first warm-up."""
        if self._recorder is None:
            return 0, 0
        size = self.backend.pool_size(self._recorder.pool, self.device)
        return size.reserved_bytes, size.allocated_bytes

    def bytes_freed_with(self) -> dict[int, int]:
        """What freeing each recording would free for others, with those that follow it, by its number.

        These are the segments of the pool in which no other recording has memory. They return to the device with the
        last recording of the pool.
        """
        if self._recorder is None:
            return {}
        sizes = dict(self.backend.pool_segments(self._recorder.pool, self.device))
        nodes = self.nodes()
        users = Counter(segment for node in nodes for segment in node.segments)
        found: dict[int, int] = {}
        for node in nodes:
            own = Counter(segment for below in node.descendants() for segment in below.segments)
            found[node.id] = sum(sizes.get(segment, 0) for segment, num in own.items() if num == users[segment])
        return found

    def check_memory_pool(self) -> None:
        """Look for memory in the pool that is allocated and that belongs to no output.

        Raises:
            GraphError: There is some; the message names where it was allocated, as far as memory history shows.
        """
        with self.lock:
            if self._recorder is None or self.state is State.EXECUTION:
                return
            live = list(self._current.live_refs()) if self._current is not None else []
            check_pool(self.backend, self._recorder.pool, self.device, live)

    def paths_so_far(self) -> Counter[tuple[int, ...]]:
        """Sequences of recordings with counts; the current one included."""
        found = Counter(self.paths)
        if isinstance(self._current, GraphNode):
            found[self._current.path_ids] += 1
        return found

    def run_backward(self, node: GraphNode, given: set[int], leaves: list[Any]) -> list[Any]:
        """Run the backward of a recorded forward.

        Args:
            node: The forward's recording.
            given: Its results that have a gradient.
            leaves: What it saved, then those gradients.

        Returns:
            The gradients of its differentiable inputs; None for one that has none.
        """
        # Autograd runs this on a thread of its own. The thread that holds the lock may wait for this backward.
        is_mine = self.lock.acquire(blocking=False)
        try:
            key = (frozenset(given), *arguments.modes(), *map(arguments.key_of, leaves))
            if (variant := node.backwards.get(key)) is None:
                variant = node.backwards[key] = backward_variant(next(self.variant_ids), node, given, leaves)
            # Inside of another call, observation or capture, which includes this work.
            is_inside_another = (
                inside.is_on
                or is_inside_observer()
                or torch.cuda.is_current_stream_capturing()
                or finding_around()
                # The thread of autograd does not know the transform.
                or any(is_transformed(one) for one in leaves if isinstance(one, torch.Tensor))
            )
            if is_inside_another or not is_mine or variant.skip is not None or not variant.is_current():
                self.steps.backward_ran()
                return list(variant.run_eagerly(leaves))
            outputs, _ = self.run(variant, leaves)
            note_backward(node, variant)
            return list(outputs)
        finally:
            if is_mine:
                self.lock.release()

    def run(self, variant: Variant, leaves: list[Any], *, begins_step: bool = False) -> tuple[Any, GraphNode | None]:
        """Warm up, record, replay or run eagerly, depending on the state of the tree.

        Args:
            variant: What is called.
            leaves: Its arguments.
            begins_step: Whether outputs of earlier calls may be overwritten.

        Returns:
            The outputs of a recording and that recording; or the function's own result and None.
        """
        self._try_end_path(begins_step=begins_step)
        self.free_excess()
        if (finding := self._overwritten(variant, leaves)) is not None:
            self.log.note(variant.function, finding, variant)
            return variant.run_eagerly(leaves), None
        if self._is_full and not variant.is_warm:
            self._refuse_memory(variant, f"the limit of {_mib(self.max_bytes)} was reached before")
            return variant.run_eagerly(leaves), None
        if not variant.is_warm or self.state is State.WARMUP:
            self._prepare(leaves)
            return self._warm_up(variant, leaves), None
        # In state RECORDING the path ends with a recording that was just made, which no other follows yet (or with one
        # whose successor failed to record): there is nothing to replay, so this call is recorded, too.
        if self.state is not State.RECORDING:
            node, finding = self._find(variant, leaves)
            if node is None and variant.id in self.roots and self._current is not None and self.leave_if_over():
                node, finding = self._find(variant, leaves)
            tried: list[GraphNode] = []
            while node is not None:
                if (refusal := self._refusal_of_replay(node, leaves)) is not None:
                    self.log.note(variant.function, refusal, variant)
                    return variant.run_eagerly(leaves), None
                outcome = self._replay(node, leaves)
                if outcome is not None:
                    return outcome
                tried.append(node)
                node, finding = self._find_branch(variant, leaves, tried)
            if variant.host_reads.is_pointless:
                assert finding is not None
                variant.skip = reads_differ(variant, finding)
                self.log.note(variant.function, variant.skip, variant)
                return variant.run_eagerly(leaves), None
            if finding is not None and not self._may_rerecord(variant, finding):
                return variant.run_eagerly(leaves), None
            self.leave_if_over()
        self._prepare(leaves)
        if variant.has_new_gradients():
            variant.forget_warm_up()
            return self._warm_up(variant, leaves), None
        return self._record(variant, leaves)

    @staticmethod
    def _refusal_of_replay(node: GraphNode, leaves: Sequence[Any]) -> Finding | None:
        """Why this call runs without a graph, although a recording of it could be replayed."""
        if (held := node.stored.make_free()) is not None:
            return Finding(Reason.GRADIENT_HELD, f"'{held}'", node.variant.function.place)
        return uneven_gradient(node, leaves)

    def _find(self, variant: Variant, leaves: Sequence[Any]) -> tuple[GraphNode | None, Finding | None]:
        """The recording that can be replayed now; otherwise why the last candidate cannot."""
        assert not isinstance(self._current, WarmupNode)
        children = self.roots if self._current is None else self._current.children
        nodes = children.get(variant.id, ())
        fitting = next((node for node in nodes if node.fits(leaves)), None)
        return fitting, nodes[-1].mismatch(leaves) if nodes and fitting is None else None

    def _find_branch(
        self, variant: Variant, leaves: Sequence[Any], tried: Sequence[GraphNode]
    ) -> tuple[GraphNode | None, Finding | None]:
        """The recording of the values that a replay has read; otherwise which value has no recording."""
        last = tried[-1]
        siblings = (self.roots if last.parent is None else last.parent.children).get(variant.id, ())
        others = (node for node in siblings if node not in tried and begins_with(node.waits, last.values))
        fitting = next((node for node in others if node.fits(leaves)), None)
        if fitting is not None:
            return fitting, None
        variant.host_reads.misses += 1
        assert last.missed is not None
        wait, now = last.missed
        return None, Finding(Reason.NEW_VALUE, f"read from the device: {wait.shown} → {now}", wait.place, wait.change)

    def _may_rerecord(self, variant: Variant, finding: Finding) -> bool:
        function = variant.function
        if function.num_rerecords >= self.rerecord_limit:
            limit = Finding(Reason.TOO_MANY_RECORDINGS, f"{self.rerecord_limit} times; now {finding}", function.place)
            self.log.note(function, limit, variant)
            return False
        function.num_rerecords += 1
        self.log.note(function, finding, variant)
        return True

    def _try_end_path(self, *, begins_step: bool) -> None:
        """End the current path if a new step begins, or if no output of it is held."""
        if self._current is not None and begins_step:
            self.end_path()
        elif self._current is not None and self.state is not State.EXECUTION and self._current.is_over():
            self._leave_path()

    def end_path(self) -> None:
        """End a step: outputs of it that are still held lose their memory when the next call has read its arguments."""
        current = self._current
        if current is not None:
            owns = self.state is not State.EXECUTION
            rescue_gradients(current, [owner() for owner in self._owners])
            self._stale += [Stale(ref, function, place, owns) for ref, function, place in current.held()]
        self._owners.clear()
        self._leave_path()

    def own_gradients(self, owners: Iterable[weakref.ref[torch.Tensor]]) -> None:
        """A backward makes gradients for these arguments."""
        self._owners += owners

    def _leave_path(self) -> None:
        if isinstance(self._current, GraphNode):
            self.paths[self._current.path_ids] += 1
        self._current, self.state = None, State.NONE

    def _drop_stale(self) -> None:
        """Free the memory of outputs of earlier steps; using them raises an error from now on."""
        if not self._stale:
            return
        stale, self._stale = self._stale, []
        for item in {item.ref.address: item for item in stale}.values():  # one owner of each piece of memory
            item.drop(self.backend)

    def _move_stale(self, leaves: list[Any], positions: Iterable[int]) -> None:
        """Copy arguments whose memory is about to be freed, where they are needed afterwards."""
        addresses = {item.ref.address for item in self._stale}
        for position in positions:
            leaf = leaves[position]
            if isinstance(leaf, torch.Tensor) and leaf.is_cuda and leaf.untyped_storage().data_ptr() in addresses:
                leaves[position] = move(leaf)

    def _prepare(self, leaves: list[Any]) -> None:
        """Before a warm-up or a recording: bring the allocator up to date, and move arguments out of freed memory."""
        self._stream_order.follow(self.device)
        if self._stale:
            self._move_stale(leaves, range(len(leaves)))
            self._drop_stale()
        if self.state is State.EXECUTION and isinstance(self._current, GraphNode):
            self._restore(self._current)
            self.state = State.RECORDING  # here: the allocator is up to date

    def _restore(self, current: GraphNode) -> None:
        assert self._recorder is not None
        for node in current.path:
            node.let_go()
        dead = current.died_since()
        live: dict[int, torch.UntypedStorage] = {}
        for ref in current.live_refs():
            storage = ref.storage()
            if storage is not None:
                live.setdefault(ref.address, storage)
        with own_work():
            torch.cuda.synchronize(self.device)
            self.backend.restore(self._recorder.pool, self.device, current.state, list(live.values()), dead)

    def _warm_up(self, variant: Variant, leaves: list[Any]) -> Any:
        if not can_observe_calls():
            self.log.note(variant.function, PROFILED, variant)
            return variant.run_eagerly(leaves)

        # Run it without a graph, and observe its operators and its Python code.
        recorder = self._made_recorder()
        observer = Observer(
            [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)],
            self.device,
            may_wait=variant.mode != "backward",
        )
        effects = Effects(python_roots(variant), leaves, variant.spec, variant.labels)
        with _capture_lock, torch.cuda.device(self.device), self._tidied():
            outputs, node, left = warm_up(recorder, variant, self._current, leaves, observer, effects)
        is_backward, calls = variant.mode == "backward", effects.calls
        result, variant.program.result = variant.program.result, None

        # Store what a recording needs, and under which names the tensors from outside are found again.
        note_host_reads(observer, calls.host_reads)
        learn(variant, leaves, outputs, observer, self.backend)
        wanted = observer.externals.keys() | observer.read_on_host.keys()
        names = find_names(roots_of(variant), wanted, calls.executed(), outside=calls.values)
        variant.host_names = [name for key in observer.read_on_host for name in names.get(key, ())]
        variant.note_reads({key: external.tensor for key, external in observer.externals.items()}, names)

        # Count the call, and notice a backward that autograd runs without a graph.
        variant.function.counts.warmups += 1
        self.steps.ran(variant.function, variant.mode)
        if variant.mode == "forward":
            on_backward(outputs, functools.partial(self._eager_backward_ran, variant))

        # Tensors that it stored somewhere stay in the pool: it is replaced by a new one.
        kept = kept_tensors(variant, observer, left)
        if kept:
            self._note_kept(variant, kept)
            self._renew_pool()

        # Decide whether the variant can be recorded.
        note_effects(variant, effects, observer, list(containers_in(result)))
        variant.skip = variant.skip or (unnamed_input(variant, observer, names) if variant.is_warm else None)
        if variant.skip is not None:
            variant.drop_reads()

        # Continue the path with this warm-up, unless the pool was or must be replaced.
        if not kept and self._exceeds_limit(variant):
            self._renew_pool()
        elif not kept:
            self._current, self.state = node, State.WARMUP
            if self._debug:
                self.check_memory_pool()
        return outputs if is_backward else result

    def _note_kept(self, variant: Variant, kept: Sequence[Kept]) -> None:
        """A warm-up kept tensors: the next call is a warm-up again; if that keeps some too, there is no graph."""
        variant.num_kept += 1
        first = kept[0]
        self.log.note(variant.function, Finding(Reason.POOL_RENEWED, first.text, first.place), variant)
        if variant.num_kept == 1:
            variant.is_warm = False
        elif variant.skip is None:
            reason = Reason.NEW_GRADIENT if first.is_gradient else Reason.ESCAPED_TENSOR
            variant.skip = Finding(reason, first.text, first.place)

    def _eager_backward_ran(self, variant: Variant) -> None:
        """Autograd itself differentiates a call of `variant`, in the caller's grad mode."""
        self.steps.backward_ran()
        if torch.is_grad_enabled():
            variant.refuse_second_derivatives()

    def _overwritten(self, variant: Variant, leaves: Sequence[Any]) -> Finding | None:
        """An argument that the function overwrites, and that no recording may overwrite in its place."""
        if not (variant.written or variant.written_outside):
            return None
        on_path = {ref.address for ref in self._current.live_refs()} if self._current is not None else set()
        return overwritten(variant, leaves, on_path)

    def _record(self, variant: Variant, leaves: list[Any]) -> tuple[Any, GraphNode | None]:
        recorder = self._made_recorder()
        parent = self._current
        assert not isinstance(parent, WarmupNode)
        node = GraphNode(next(self._node_ids), variant, parent, self.backend, self.device)
        before = Snapshot(python_roots(variant), can_restore=True)
        before.leave_out(one.place for one in variant.stored)
        outside = [gradient_of(tensor) for tensor in before.tensors() if tensor.is_leaf and tensor.requires_grad]
        try:
            with _capture_lock, torch.cuda.device(self.device), self._tidied(), restored_on_error(outside):
                outputs = recorder.record(node, leaves, self._memories)
        except NotRecordedError as failure:
            changed = before.restore() if failure.is_unfinished else None
            self._give_up(variant, failure.finding)
            if changed is not None:
                raise GraphError(
                    f"{variant.function.name} {failure.finding}. The recording ended in the middle of the "
                    f"function, which had changed a Python value that cannot be restored: {changed}. Call it without a "
                    "graph (.fn)."
                ) from None
            return variant.run_eagerly(leaves), None
        node.copy_back(leaves)
        siblings = (self.roots if parent is None else parent.children).setdefault(variant.id, [])
        siblings.append(node)
        self._current, self.state = node, State.RECORDING
        variant.function.counts.recordings += 1
        check_recording(variant, before)
        self.steps.ran(variant.function, variant.mode)
        if self._debug:
            self.check_memory_pool()
        self._has_excess = self._exceeds_limit(variant)
        return self._results(node, leaves, outputs), node

    def _exceeds_limit(self, variant: Variant) -> bool:
        """Return whether the pool is larger than allowed. Then the variant runs without a graph from now on."""
        if self.max_bytes is None or (reserved := self.pool_bytes()[0]) <= self.max_bytes:
            return False
        self._is_full = True
        self._refuse_memory(variant, f"{_mib(reserved)} with it, of {_mib(self.max_bytes)}")
        return True

    def _refuse_memory(self, variant: Variant, what: str) -> None:
        variant.skip = Finding(Reason.MEMORY_LIMIT, what, variant.function.place)
        variant.drop_reads()
        self.log.note(variant.function, variant.skip, variant)

    def free_excess(self) -> None:
        """Free all recordings when no output is held, if the latest one exceeded the limit; others are made anew."""
        if self._has_excess and self.leave_if_over():
            self._has_excess = False
            self._renew_pool()

    def _results(
        self, node: GraphNode, leaves: list[Any], outputs: list[Any], eager: checking.EagerCall | None = None
    ) -> list[Any]:
        """The results of a recording or a replay for the caller; `eager` checks the gradients, too."""
        made = outputs if node.derivative is None else attach(self, node, leaves, outputs, eager)
        results = node.derive(made, leaves)
        for position in node.freed_results:
            results[position] = with_freed_history(results[position])
        return results

    @contextmanager
    def _tidied(self) -> Iterator[None]:
        """Start a new pool if the body raises, because the exception may keep tensors of its stack frames alive."""
        try:
            yield
        except NotRecordedError:
            raise
        except BaseException:
            if self._needs_new_pool():
                self._renew_pool()
            raise

    def _needs_new_pool(self) -> bool:
        """Whether memory of the pool is in use that belongs to no output, or nothing can be captured into it."""
        if self._recorder is None:
            return False
        if self.backend.is_spent(self._recorder.pool):
            return True
        live = {ref.address for ref in self._current.live_refs()} if self._current is not None else set()
        return not self.backend.has_live(self._recorder.pool, self.device, live)

    def _give_up(self, variant: Variant, finding: Finding) -> None:
        """Run a variant without a graph from now on."""
        variant.skip = finding
        if finding.reason is Reason.ESCAPED_TENSOR or self._needs_new_pool():
            self._renew_pool()
        elif self._current is not None:
            self.state = State.RECORDING
        self.log.note(variant.function, finding, variant)

    def _replay(self, node: GraphNode, leaves: list[Any]) -> tuple[Any, GraphNode | None] | None:
        """Replay a recording.

        Returns:
            Its outputs and the recording; or the result of a call without a graph and None, if a check differs; or
            None if the host reads another value than in the recording: all is as before the call then.
        """
        self._stream_order.follow(self.device)
        checks = node.variant.function.check and node.num_replays % CHECK_EVERY == 0
        eager = checking.call_eagerly(self._current, node, leaves) if checks else None
        node.copy_inputs(leaves)
        if self._stale:
            needed = {*node.returned_leaves, *arguments.gradient_leaves(leaves)}
            self._move_stale(leaves, range(len(leaves)) if node.waits else needed)
            self._drop_stale()
        with nullcontext() if current_device() == self.device else torch.cuda.device(self.device):
            before = generator_states(node.variant, leaves) if node.waits and node.draws else None
            is_complete = node.launch()  # events are recorded on the current device's stream
            if not is_complete:
                if before is not None:
                    before.restore()
                return None
        if node.waits:
            node.variant.host_reads.hits += 1
        node.copy_back(leaves)
        node.count_writes(leaves)
        node.stored.assign()
        self._current, self.state = node, State.EXECUTION
        self.steps.ran(node.variant.function, node.mode)
        node.variant.function.counts.replays += 1
        results = self._results(node, leaves, node.hand_out(leaves), eager)
        if eager is not None and not eager.compare(results):
            return eager.take_effect(), None
        return results, node

    def _made_recorder(self) -> Recorder:
        if self._recorder is None:
            with _capture_lock:
                self._recorder = Recorder(self.backend, self.device)
        return self._recorder

    def _renew_pool(self) -> None:
        """End the path and free all recordings. The next warm-up or recording makes another pool."""
        self._leave_path()
        self._drop_recordings()

    def _drop_recordings(self) -> None:
        self._drop_stale()
        for node in self.nodes():
            node.release(self.backend)
        self.roots.clear()
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None

    def release(self) -> None:
        """Free all recordings and the pool."""
        self._is_full = self._has_excess = False
        pool = self.pool
        self._drop_recordings()
        if pool is not None and not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
            self.backend.release(pool, self.device)

    def leave_if_over(self) -> bool:
        """End the current path if no output of it is held. Return whether no path is under way now."""
        if self._current is not None and self._current.is_over():
            self._leave_path()
        return self._current is None

    def cut(self, node: GraphNode) -> None:
        """Free a recording and those that follow it."""
        parent = node.parent
        siblings = (self.roots if parent is None else parent.children).get(node.variant.id, [])
        siblings[:] = [other for other in siblings if other is not node]
        for below in list(node.descendants()):
            below.release(self.backend)
