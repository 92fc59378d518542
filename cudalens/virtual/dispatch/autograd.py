"""Stream semantics of backward passes: each node runs on the stream of its forward operator, as in PyTorch's engine.

The engine handles streams only for CUDA tensors, so this module does it, following torch/csrc/autograd/engine.cpp and
input_buffer.cpp of torch 2.9 and later:

- While a node runs (including hooks), the current stream is the stream of its forward operator. The node of a leaf is
  created for the first operator that uses the leaf.
- For a gradient that crosses from one stream to another, an event is recorded after it is computed and waited for
  before it is used, and its memory is recorded on the stream that uses it. Gradients of one input are added on the
  consumer's stream.
- At the end, the caller's current streams wait for those of the leaves.

Autograd numbers the nodes of a thread; `History` stores the numbers at which the thread switched streams, which gives
the stream of each node. A backward pass that uses only the caller's streams costs one lookup. Numbers are per thread: a
thread without nodes that runs a backward pass of another thread uses the history of the thread that switched last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch

from cudalens.virtual.dispatch.mixed_devices import adopt
from cudalens.virtual.dispatch.plans import are_scratch, attributes, collected_marks
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.attributes import check_roots
from cudalens.virtual.tensors.device_arguments import user_code
from cudalens.virtual.tensors.residency import ADOPT_KEY, residence_of
from cudalens.virtual.timing.streams import CudaEvent, History, Stream, Streams, named

#: The key of a node: its sequence number, or for a leaf's node a negative number from its tensor's identity.
Key = int

#: The caller of ``backward()``, which provides the gradients of the roots.
CALLER: Final[Key] = -1

#: Nodes that accumulate into a leaf have the number UINT64_MAX, so that the engine runs them first.
_UNNUMBERED: Final = 1 << 62


def key_of(node: Any) -> Key:
    """Return the key of a node; its Python wrapper is not unique.

    Only leaves' nodes have a `variable`: an ``Error`` node, which torch makes for a second backward pass, has no number
    either.
    """
    number: int = node._sequence_nr()
    return number if number < _UNNUMBERED else -2 - id(getattr(node, "variable", node))


class Edge(NamedTuple):
    """An edge of the graph: the consuming node and its input number."""

    consumer: Key
    input_nr: int


class Leaf(NamedTuple):
    """A leaf of a backward pass: the streams of its node, and the device of its tensor if known."""

    streams: Streams
    device_index: int | None


class Plan:
    """The streams of a backward pass.

    Attributes:
        streams: The current streams of each node.
        edges: The edges of the producers of `crossing` nodes.
        crossing: The nodes with a gradient from another stream.
        leaves: The leaves.
    """

    __slots__ = ("_nodes", "crossing", "edges", "leaves", "streams")

    def __init__(self, roots: Sequence[Any], inputs: Sequence[Any], history: History, caller: Streams) -> None:
        self._nodes: dict[Key, Any] = {}
        producers = self._walk(roots)
        # A node has the streams of its forward operator; a leaf's node, of the first operator that uses the leaf.
        self.streams: dict[Key, Streams] = {}
        for key, made_by in producers.items():
            operator = key if key >= 0 else min((producer for producer in made_by if producer >= 0), default=None)
            self.streams[key] = caller if operator is None else history.at(operator)
        self.streams[CALLER] = caller
        self.crossing = {
            key for key, made_by in producers.items() if any(self.streams[p] != self.streams[key] for p in made_by)
        }
        self.edges: dict[Key, list[Edge | None]] = {
            producer: _edges(self._nodes[producer])
            for key in self.crossing
            for producer in producers[key]
            if producer != CALLER
        }
        ends = [node for value in inputs if (node := _input_node(value)) is not None]
        ends = ends or [node for node in self._nodes.values() if not node.next_functions]
        self.leaves = [Leaf(self.streams[key_of(n)], _device_of(n)) for n in ends if key_of(n) in self.streams]

    @property
    def is_plain(self) -> bool:
        """Whether all nodes run on the caller's streams."""
        caller = self.streams[CALLER]
        return all(streams == caller for streams in self.streams.values())

    def hook(self, enter: Callable[[Key], None], leave: Callable[[Key, Sequence[Any]], None]) -> list[Any]:
        """Call `enter` before nodes with gradients from other streams, and `leave` after nodes that produce them.

        References to nodes are then dropped: the engine may free them one by one.

        Returns:
            The handles that remove the hooks.
        """
        handles = [self._nodes[key].register_prehook(_before(enter, key)) for key in self.crossing]
        handles += [self._nodes[key].register_hook(_after(leave, key)) for key in self.edges]
        self._nodes.clear()
        return handles

    def _walk(self, roots: Iterable[Any]) -> dict[Key, list[Key]]:
        """Return all nodes that may run, with the producers of their gradients."""
        stack = [_node_of(root) for root in roots]
        producers: dict[Key, list[Key]] = {key_of(node): [CALLER] for node in stack}
        while stack:
            node = stack.pop()
            key = key_of(node)
            if key in self._nodes:
                continue
            self._nodes[key] = node
            for following, _ in node.next_functions:
                if following is not None:
                    producers.setdefault(key_of(following), []).append(key)
                    stack.append(following)
        return producers


def _edges(node: Any) -> list[Edge | None]:
    return [None if n is None else Edge(key_of(n), nr) for n, nr in node.next_functions]


def _node_of(value: Any) -> Any:
    """Return the node that consumes the gradient of a tensor or of a gradient edge."""
    if isinstance(value, torch.Tensor):
        return value.grad_fn if value.grad_fn is not None else torch.autograd.graph.get_gradient_edge(value).node
    return value.node


def _input_node(value: Any) -> Any:
    """As `_node_of`; None for a leaf that a transform of torch.func batches: its node cannot be read."""
    try:
        return _node_of(value)
    except AttributeError:  # torch reads the node of a view of the leaf, which has none inside vmap
        return None


def _device_of(node: Any) -> int | None:
    variable = getattr(node, "variable", None)
    residence = residence_of(variable) if isinstance(variable, torch.Tensor) else None
    return None if residence is None else residence.device.index


def _before(enter: Callable[[Key], None], key: Key) -> Callable[[Any], None]:
    return lambda grads: enter(key)


def _after(leave: Callable[[Key, Sequence[Any]], None], key: Key) -> Callable[[Any, Any], None]:
    return lambda grad_inputs, grad_outputs: leave(key, grad_inputs)


_RUN = "_engine_run_backward"


def install(patches: Patches, gpus: Gpus) -> None:
    """Make ``backward()`` and ``torch.autograd.grad`` follow streams, if this version of torch numbers its nodes."""
    if not (hasattr(torch.autograd, _RUN) and hasattr(torch._C, "_current_autograd_node") and _has_numbers()):
        return
    streams = BackwardStreams(gpus)
    gpus.machine.on_switch = streams.switched
    original = getattr(torch.autograd, _RUN)

    def engine(*args: Any, **kwargs: Any) -> Any:
        with user_code(gpus):
            return original(*args, **kwargs)

    def run_backward(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if gpus.is_closed:
            return original(t_outputs, *args, **kwargs)
        check_roots(t_outputs, args[0] if args else kwargs.get("grad_tensors", ()))
        with collected_marks() as is_any_left:
            grads = streams.run(engine, t_outputs, *args, **kwargs)
            if is_any_left():
                inputs = args[3] if len(args) > 3 else kwargs.get("inputs", ())
                # Move gradients that a formula made of nothing, which are on the host, to the devices of their tensors.
                for grad, tensor in [*zip(grads or (), inputs, strict=False), *_leaf_grads(t_outputs)]:
                    if isinstance(grad, torch.Tensor) and isinstance(tensor, torch.Tensor) and are_scratch((grad,)):
                        residence = residence_of(tensor)
                        if residence is not None:
                            attributes(grad).pop(ADOPT_KEY)
                            adopt(gpus, grad, residence.device)
            return grads

    patches.set(torch.autograd, _RUN, run_backward)


def _leaf_grads(outputs: Sequence[Any]) -> Iterator[tuple[torch.Tensor | None, torch.Tensor]]:
    """Yield the accumulated gradient of each leaf of a backward pass, and the leaf."""
    nodes = [output.grad_fn if isinstance(output, torch.Tensor) else output.node for output in outputs]
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor):
            yield leaf.grad, leaf
        following = {after for after, _ in getattr(node, "next_functions", ()) if after is not None} - seen
        seen |= following
        nodes += following


def _has_numbers() -> bool:
    return hasattr(torch._C._autograd, "_get_sequence_nr")


def _next_number() -> int:
    """Return the sequence number of the thread's next node."""
    return torch._C._autograd._get_sequence_nr()


class _PerThread(threading.local):
    """The stream history of a thread, and its current backward pass."""

    def __init__(self) -> None:
        self.history: History | None = None
        self.task: Task | None = None


class BackwardStreams:
    """The streams of all backward passes on one set of virtual GPUs."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus, self._machine = gpus, gpus.machine
        self._per_thread = _PerThread()
        self._last_switched: History | None = None
        self._lock = threading.Lock()
        self._num_tasks = 0

    def switched(self, number: int | None = None) -> None:
        """Record that the thread has set a current stream.

        Args:
            number: The first node created under it; by default the next one.
        """
        history = self._per_thread.history
        if history is None:
            history = self._per_thread.history = History()
        history.record(_next_number() if number is None else number, named(self._machine.thread_streams))
        self._last_switched = history

    def update_current(self) -> None:
        """Set the current streams to those of the running node, before they are read."""
        task = self._per_thread.task
        if task is not None:
            node = torch._C._current_autograd_node()
            task.go_to(CALLER if node is None else key_of(node))

    def run(self, original: Callable[..., Any], outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Run a backward pass, which may be nested in a node of another."""
        per_thread = self._per_thread
        if self._last_switched is None:
            return original(outputs, *args, **kwargs)
        self.update_current()
        outer, per_thread.task = per_thread.task, None
        try:
            plan = self._plan(outputs, args, kwargs)
            if plan is None:
                return original(outputs, *args, **kwargs)
            return self._run_planned(plan, original, outputs, args, kwargs)
        finally:
            per_thread.task = outer

    def _plan(self, outputs: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan | None:
        """Return the plan of a backward pass, or None if it uses only the caller's streams."""
        if not all(map(_is_differentiable, (*outputs, *_inputs(args, kwargs)))):
            return None  # torch says which tensor has no history
        history, caller = self._history(), named(self._machine.thread_streams)
        if history is None or (len(history) == 1 and history.last == caller):
            return None
        plan = Plan(outputs, _inputs(args, kwargs), history, caller)
        return None if plan.is_plain else plan

    def _history(self) -> History | None:
        """Return the thread's history; for a thread without nodes, that of the thread that switched last."""
        if _next_number() == 0:
            return self._last_switched
        return self._per_thread.history or History()

    def _run_planned(
        self, plan: Plan, original: Callable[..., Any], outputs: Sequence[Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        task = self._per_thread.task = Task(self._gpus, plan, self.switched)
        self._count(1)
        try:
            grads = args[0] if args else kwargs.get("grad_tensors", ())
            roots = [
                torch.autograd.graph.get_gradient_edge(output) if isinstance(output, torch.Tensor) else output
                for output in outputs
            ]
            task.begin([(key_of(root.node), root.output_nr) for root in roots], grads)
            result = original(outputs, *args, **kwargs)
            task.finish()
            return result
        finally:
            task.close()
            self._count(-1)

    def _count(self, step: int) -> None:
        with self._lock:
            self._num_tasks += step
            self._machine.before_stream_read = self.update_current if self._num_tasks else None


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
    """What a backward pass is asked to give the gradients of."""
    return (args[3] if len(args) > 3 else kwargs.get("inputs", ())) or ()


def _is_differentiable(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or value.requires_grad


class _Slot:
    """A gradient for an input of a node: the stream that computed it, and an event after it if needed."""

    __slots__ = ("mark", "stream")

    def __init__(self, stream: Stream, mark: CudaEvent | None) -> None:
        self.stream, self.mark = stream, mark


class Task:
    """A backward pass that uses several streams."""

    def __init__(self, gpus: Gpus, plan: Plan, switched: Callable[[int | None], None]) -> None:
        self._gpus, self._machine, self._plan, self._switched = gpus, gpus.machine, plan, switched
        self._caller: Streams = dict(gpus.machine.thread_streams)
        self._at: Key = CALLER
        self._number = _next_number()
        self._slots: dict[Key, dict[int, _Slot]] = {}
        #: The node whose gradients are being accumulated, the device and the stream.
        self._adds: tuple[Key, int, Stream] = CALLER, -1, gpus.devices[0].default_stream
        self._handles = plan.hook(self._enter, self._leave)

    def begin(self, roots: Sequence[tuple[Key, int]], grads: Sequence[Any]) -> None:
        """Register the gradients that the caller passes."""
        for (key, input_nr), grad in zip(roots, grads, strict=False):
            if key in self._plan.crossing:
                self._send(CALLER, key, input_nr, grad)

    def go_to(self, key: Key) -> None:
        """Switch to the streams of a node, unless it is current already.

        This happens at its first operator; with double differentiation, that operator's own node exists already.
        """
        if key != self._at:
            self._at = key
            self._set(self._plan.streams.get(key, self._plan.streams[CALLER]), self._number)
        self._number = _next_number()

    def finish(self) -> None:
        """Make the caller's streams wait for the streams of the leaves."""
        for key in list(self._slots):
            self._enter(key)
        caller = self._plan.streams[CALLER]
        waited: set[tuple[int, int]] = set()
        for leaf in self._plan.leaves:
            for index in leaf.streams.keys() | caller.keys():
                stream = self._stream(leaf.streams, index)
                if leaf.device_index not in (None, index) or (index, stream.handle) in waited:
                    continue
                waited.add((index, stream.handle))
                self._order(stream, self._stream(caller, index))

    def close(self) -> None:
        """Restore the state before the backward pass, also after an error."""
        for handle in self._handles:
            handle.remove()
        for slots in self._slots.values():
            for slot in slots.values():
                if slot.mark is not None:
                    slot.mark.delete()
        self._slots.clear()
        self._machine.thread_streams = self._caller
        self._switched(None)

    def _set(self, streams: Streams, number: int | None = None) -> None:
        self._machine.thread_streams = dict(streams)
        self._switched(number)

    def _stream(self, streams: Streams, device_index: int) -> Stream:
        return streams.get(device_index) or self._machine.devices[device_index].default_stream

    def _order(self, before: Stream, after: Stream) -> None:
        """Make the following work of `after` wait for the current work of `before`."""
        if before is not after:
            mark = self._mark(before)
            after.wait(mark)
            mark.delete()

    def _mark(self, stream: Stream) -> CudaEvent:
        mark = CudaEvent(self._machine)
        stream.record(mark)
        return mark

    def _enter(self, key: Key) -> None:
        """Make a node's streams wait for its gradients."""
        for slot in self._slots.pop(key, {}).values():
            stream = self._stream(self._plan.streams[key], slot.stream.device.index)
            if slot.stream is not stream:
                self._wait(stream, slot)

    def _wait(self, stream: Stream, slot: _Slot) -> None:
        mark = slot.mark or self._mark(slot.stream)
        stream.wait(mark)
        mark.delete()
        slot.mark = None

    def _leave(self, key: Key, grads: Sequence[Any]) -> None:
        """Handle a node's computed gradients that cross streams or are accumulated."""
        for edge, grad in zip(self._plan.edges[key], grads, strict=False):
            if edge is not None and edge.consumer in self._plan.crossing:
                self._send(key, edge.consumer, edge.input_nr, grad)

    def _send(self, producer: Key, consumer: Key, input_nr: int, grad: Any) -> None:
        residence = residence_of(grad) if isinstance(grad, torch.Tensor) else None
        if residence is None:
            return
        index = residence.device.index
        source = self._stream(self._plan.streams[producer], index)
        target = self._stream(self._plan.streams[consumer], index)
        if source is not target and residence.block is not None:
            self._gpus.record_stream(residence.device, residence.block, target)
        slots = self._slots.setdefault(consumer, {})
        slot = slots.get(input_nr)
        if slot is None:
            slots[input_nr] = _Slot(source, self._mark(source) if source is not target else None)
        else:
            self._accumulate(producer, slot, source, target)

    def _accumulate(self, producer: Key, slot: _Slot, source: Stream, target: Stream) -> None:
        """Add a second gradient for one input: torch adds it on the consumer's stream while the producer is current.

        If one node accumulates into several consumers, all are added on the first one's stream, and the others wait for
        it.
        """
        index = target.device.index
        if (producer, index) != self._adds[:2]:
            self._adds = producer, index, target
        adder = self._adds[2]
        self._order(source, adder)
        if slot.stream is not adder:
            self._wait(adder, slot)
        slot.stream = adder
        self._at = producer
        self._set({**self._plan.streams[producer], index: adder})
