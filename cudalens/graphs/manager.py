"""The graph manager: wraps functions, and finds or makes the variant of each call; its tree runs it."""

from __future__ import annotations

import itertools
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from cudalens.errors import GraphError
from cudalens.graphs import arguments
from cudalens.graphs.backend import is_present
from cudalens.graphs.functions import Function, Mutations, Variant, inside
from cudalens.graphs.graphed import Graphed
from cudalens.graphs.guards.ambient import finding_around
from cudalens.graphs.guards.captured import modules_of
from cudalens.graphs.observer import is_inside_observer
from cudalens.graphs.padding import Pad, pads_of
from cudalens.graphs.programs import together
from cudalens.graphs.reasons import Finding, Reason
from cudalens.graphs.tree import RERECORD_LIMIT, GraphTree
from cudalens.graphs.variants import device_index, name_of, new_variant, other_values, place_of, why_new

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.device.graph_backend import GraphBackend
    from cudalens.graphs.node import GraphNode
    from cudalens.graphs.reasons import State
    from cudalens.graphs.warmup import WarmupNode


class GraphManager:
    """Runs functions through CUDA graphs on one device, and keeps a log.

    Use one per device and thread (`cudalens.graphs.manager()` keeps them), because recordings depend on the order of
    calls. Calls from several threads into one manager run one after the other.

    Args:
        device: Index, text or torch.device; by default the current CUDA device.
        check: Compare the first and every 32nd replay of each recording with a call without a graph.
        eager_if_slower: Run a function without a graph if a replay costs the host more than the launches that it saves.
        rerecord_limit: Recordings of one function beyond its first; further calls run without a graph.
        max_bytes: What the memory pool may reserve. The recording that goes beyond is freed, and no other is made:
            those calls run without a graph. None for no limit.
        debug: After each warm-up and recording, look for memory in the pool that belongs to no output.

    Attributes:
        tree: The recordings, and which of them may follow which.
        functions: The wrapped functions.

    Raises:
        GraphError: There is no such device.
    """

    def __init__(
        self,
        device: int | str | torch.device | None = None,
        *,
        check: bool = False,
        eager_if_slower: bool = True,
        rerecord_limit: int = RERECORD_LIMIT,
        max_bytes: int | None = None,
        debug: bool = False,
    ) -> None:
        self.tree = GraphTree(device_index(device), rerecord_limit=rerecord_limit, debug=debug, max_bytes=max_bytes)
        self.functions: list[Function] = []
        self._check, self._eager_if_slower = check, eager_if_slower
        self._ids = itertools.count()
        self._is_closed = self._is_busy = False
        self._lost: deque[int] = deque()
        self._unused: list[Variant] = []

    def wrap(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        static: Sequence[str | int] = (),
        mutations: Mutations = "skip",
        check: bool | None = None,
        eager_if_slower: bool | None = None,
        pad: Mapping[str, int | Pad] | None = None,
    ) -> Graphed:
        """A callable that runs `function` through this manager.

        Args:
            function: A function or an nn.Module, without side effects besides writing tensors in place.
            name: For reports; by default the function's own.
            static: Names or positions of arguments that are the same tensors in every call: used in place.
            mutations: Where the function overwrites an argument that is not static: ``skip`` runs it without a graph
                and reports it, ``copy`` copies the argument back after each replay.
            check: As the manager's; by default that.
            eager_if_slower: The same.
            pad: Arguments that are padded to a few lengths, by name: each with a multiple for its last dimension, or
                a `Pad`.

        Raises:
            TypeError: `function` cannot be called, or an option has an invalid value.
        """
        if not callable(function):
            raise TypeError(f"cannot wrap {type(function).__name__}: expected a function or an nn.Module.")
        if mutations not in ("skip", "copy"):
            raise TypeError(f"mutations={mutations!r}: expected 'skip' or 'copy'.")
        pads = pads_of(pad)
        both = [name for name in pads if name in ((static,) if isinstance(static, str) else static)]
        if both:
            raise TypeError(f"{both[0]!r} is both static and padded: a padded argument is a new tensor in each call.")
        made = Function(
            id=next(self._ids),
            name=name or name_of(function),
            call=function,
            place=place_of(function),
            static=(static,) if isinstance(static, str | int) else tuple(static),
            mutations=mutations,
            check=self._check if check is None else check,
            eager_if_slower=self._eager_if_slower if eager_if_slower is None else eager_if_slower,
            pad=pads,
        )
        self.functions.append(made)
        graphed = Graphed(self, made)
        weakref.finalize(graphed, _left, weakref.ref(self), made.id)
        return graphed

    def lose(self, function_id: int) -> None:
        """Free the recordings of a function whose callable is gone, as soon as no output of theirs is held.

        The garbage collector calls this at any moment, so nothing is done during a call.
        """
        self._lost.append(function_id)
        if not self._is_busy and self.tree.lock.acquire(blocking=False):
            try:
                self._free_lost()
            finally:
                self.tree.lock.release()

    def _free_lost(self) -> None:
        """Drop the recordings of lost functions, and what follows them in the tree; the pool with the last one."""
        if not self.tree.leave_if_over() or not self._lost:
            return
        lost = {self._lost.popleft() for _ in range(len(self._lost))}
        mine = [node for node in self.nodes() if node.variant.function.id in lost]
        for function in self.functions:
            if function.id in lost:
                function.forget()
        self.tree.log.forget_variants(lost)
        if all(function.is_gone for function in self.functions):
            self.tree.release()
            return
        for node in mine:
            self.tree.cut(node)

    @property
    def device(self) -> int:
        """Index of the device."""
        return self.tree.device

    @property
    def backend(self) -> GraphBackend:
        """How the device's graphs and pools are reached."""
        return self.tree.backend

    @property
    def state(self) -> State:
        """What the latest call did."""
        return self.tree.state

    @property
    def current(self) -> GraphNode | WarmupNode | None:
        """What the latest call ran, as long as an output of its path is held within the step."""
        return self.tree.current

    @property
    def pool(self) -> tuple[int, int] | None:
        """The memory pool; None before the first warm-up."""
        return self.tree.pool

    @property
    def generation(self) -> int:
        """Number of the step that is under way."""
        return self.tree.steps.generation

    def nodes(self) -> list[GraphNode]:
        """All recordings, oldest first."""
        return self.tree.nodes()

    def pool_bytes(self) -> tuple[int, int]:
        """Bytes that the pool has reserved and that are allocated in it; zeros before the first warm-up."""
        return self.tree.pool_bytes()

    def check_memory_pool(self) -> None:
        """Look for memory in the pool that is allocated and that belongs to no output.

        Raises:
            GraphError: There is some; the message names where it was allocated, as far as memory history shows.
        """
        self.tree.check_memory_pool()

    def mark_step_begin(self) -> None:
        """Begin a new step: outputs of the last one may be overwritten from now on."""
        self.tree.steps.mark()

    def reset(self) -> None:
        """Free all recordings and the pool; functions remain wrapped and begin with a warm-up again."""
        with self.tree.lock:
            self.tree.end_path()
            self.tree.release()
            for function in self.functions:
                function.forget_variants()
                function.skip, function.num_rerecords = None, 0
            self._unused.clear()
            self.tree.log.clear()
            self.tree.paths.clear()

    def shutdown(self) -> None:
        """As `reset`; calling a function of this manager is an error afterwards."""
        with self.tree.lock:
            self.reset()
            self.tree.steps.end()
            self._is_closed = True

    @property
    def is_closed(self) -> bool:
        """Whether it was shut down."""
        return self._is_closed

    @property
    def is_present(self) -> bool:
        """Whether its device is still there: a virtual one may have ended."""
        return is_present(self.device, self.backend)

    def mark(self) -> int:
        """A point in the log, for `frame`."""
        return self.tree.log.mark(self.functions, self.nodes(), self.tree.paths_so_far())

    def frame(self, since: int | None = None) -> pd.DataFrame:
        """The log as the ``graphs`` frame of a Trace.

        Args:
            since: From `mark`: leave out what was done before.
        """
        from cudalens.graphs.frames import graphs_frame

        with self.tree.lock:
            return graphs_frame(self, since)

    def __repr__(self) -> str:
        return f"<cudalens.graphs.GraphManager cuda:{self.device}, {len(self.nodes())} recordings, {self.state.name}>"

    def call(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function of this manager.

        Raises:
            GraphError: The manager is shut down, or another CUDA graph is being captured.
        """
        # It is a part of the function that is being warmed up or recorded.
        if inside.is_on or (torch._C._len_torch_dispatch_stack() and is_inside_observer()):
            return function.call(*args, **kwargs)
        if self._is_closed:
            raise GraphError(
                f"{function.name}: its manager was shut down; wrap the function anew (cudalens.cudagraph)."
            )
        if not self.is_present:
            raise GraphError(
                f"{function.name}: the virtual device of its manager has ended; wrap the function anew "
                "(cudalens.cudagraph finds the present device by itself)."
            )
        if torch.cuda.is_current_stream_capturing():
            raise GraphError(
                f"{function.name} was called while a CUDA graph is being captured, which it would break. Call the "
                "function itself (.fn) inside of a capture, or capture only one of the two."
            )
        if function.skip is not None:
            return self._run_plain(function, args, kwargs, function.skip)
        if (finding := finding_around()) is not None:
            return self._run_plain(function, args, kwargs, replace(finding, place=function.place))
        begun_ns = time.perf_counter_ns()
        with self.tree.lock:
            if self._lost and not self._is_busy:
                self._free_lost()
            if self._unused and not self._is_busy:
                self._free_unused()
            if not self._is_busy:
                self.tree.free_excess()
            was_busy, self._is_busy = self._is_busy, True  # recordings of lost functions are not freed in a call
            try:
                variant, leaves = self._variant(function, args, kwargs)
                finding = variant if isinstance(variant, Finding) else variant.skip
                if not isinstance(variant, Finding) and finding is None and not variant.cost.needs_eager_call:
                    return self._run_variant(variant, leaves, begun_ns)
            finally:
                self._is_busy = was_busy
        if finding is None:
            assert not isinstance(variant, Finding)
            return self._time_eager_call(variant, args, kwargs)
        known = None if isinstance(variant, Finding) else variant
        return self._run_plain(function, args, kwargs, finding, known)  # without the lock: it may wait for a backward

    def _run_plain(
        self,
        function: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        finding: Finding,
        variant: Variant | None = None,
    ) -> Any:
        function.counts.eager += 1
        self.tree.log.note(function, finding, variant)
        return function.call(*args, **kwargs)

    def _run_variant(self, variant: Variant, leaves: list[Any], begun_ns: int) -> Any:
        is_new = self.tree.steps.begins(variant.function, self.tree.current, self.tree.log)
        results, node = self.tree.run(variant, leaves, begins_step=is_new)
        if node is None:
            return results
        cost = variant.cost
        if not cost.is_decided and node.num_replays > 0:
            cost.note_replay(node, time.perf_counter_ns() - begun_ns, self.backend.launch_times(self.device))
            self._decide(variant, node)
        return together(results, node.result_spec)

    def _time_eager_call(self, variant: Variant, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function without a graph, and time this on the host: its graph may cost more."""
        function = variant.function
        function.counts.eager += 1
        begun_ns = time.perf_counter_ns()
        result = function.call(*args, **kwargs)
        variant.cost.note_eager(time.perf_counter_ns() - begun_ns)
        with self.tree.lock:
            node = next((node for node in self.nodes() if node.variant is variant), None)
            if node is not None:
                self._decide(variant, node)
        return result

    def _decide(self, variant: Variant, node: GraphNode) -> None:
        """Run a variant without a graph from now on if its graph costs more."""
        if not variant.function.eager_if_slower or (finding := variant.cost.why_eager(node)) is None:
            return
        variant.skip = finding
        self._unused.append(variant)

    def _free_unused(self) -> None:
        """Drop the recordings of variants that run without a graph now, when no output of theirs is held."""
        if not self.tree.leave_if_over():
            return
        unused, self._unused = self._unused, []
        for variant in unused:
            variant.drop_reads()
        for node in self.nodes():
            if node.variant in unused:
                self.tree.cut(node)

    def _variant(
        self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Variant | Finding, list[Any]]:
        if function.modules is None:
            function.modules = modules_of([("", function.call)])
        latest = function.latest
        if latest is not None and latest.matches(args, kwargs) and latest.is_current():
            return latest.identified_argument(args) or latest, arguments.Leaves(args, None)
        try:
            given = arguments.flatten(args, kwargs)
            key = (function.training(), given.key)
            variant = function.variants.get(key)
        except TypeError as error:
            function.skip = Finding(Reason.UNHASHABLE, str(error), function.place)
            return function.skip, []
        if variant is None:
            variant = self._new_variant(function, key, given, args, kwargs)
        elif not variant.is_current():
            other = next((other for other in variant.alternatives if other.is_current()), None)
            if other is None:
                other = self._new_variant(function, key, given, args, kwargs, before=variant)
            else:
                function.variants[key] = other
            variant = other
        function.latest = variant if function.variants.get(key) is variant else None
        return variant.identified_argument(given.leaves) or variant, given.leaves

    def _new_variant(
        self,
        function: Function,
        key: Any,
        given: arguments.Arguments,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        before: Variant | None = None,
    ) -> Variant:
        """A variant for a call that no known variant matches.

        Args:
            function: The function.
            key: Key of the call.
            given: Its arguments.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            before: The variant for equal arguments and other Python values.
        """
        labels = arguments.labels_of(function.call, args, kwargs)
        variant = new_variant(next(self.tree.variant_ids), function, key, given, labels, args, self.device)
        if function.variants and variant.skip is None:
            finding = why_new(function, key, labels) if before is None else other_values(before)
            if function.num_rerecords >= self.tree.rerecord_limit:
                what = f"{self.tree.rerecord_limit} times; now {finding}"
                variant.skip = Finding(Reason.TOO_MANY_RECORDINGS, what, function.place)
                return variant  # not remembered: the next such call is counted again
            function.num_rerecords += 1
            self.tree.log.note(function, finding, variant)
        variant.alternatives = [] if before is None else before.alternatives
        variant.alternatives.append(variant)
        function.variants[key] = variant
        return variant


def _left(manager: weakref.ref[GraphManager], function_id: int) -> None:
    found = manager()
    if found is not None and not found.is_closed and found.is_present:
        found.lose(function_id)
