"""Stream capture into a CUDA graph: records work as nodes, and checks which calls are forbidden.

The rules are those of the CUDA programming guide, "Creating a Graph Using Stream Capture". A captured stream stores the
nodes that its next node depends on. An event recorded in a capture stores such a set of nodes; a stream that waits for
it joins the capture. Querying or waiting for captured work is an error that invalidates the capture; ending an
invalidated capture is also an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from cudalens.virtual.capture.captured_ops import Draw, Tape, num_generators
from cudalens.virtual.timing.interfaces import Placed, Work
from cudalens.virtual.timing.machine import Device, Machine
from cudalens.virtual.timing.streams import CudaEvent, Stream
from cudalens.virtual.torch_cuda import errors as cuda_errors
from cudalens.virtual.torch_cuda.errors import cuda_error

Mode = Literal["global", "thread_local", "relaxed"]
MODES: Final = ("global", "thread_local", "relaxed")


@dataclass(slots=True)
class Node:
    """A node of a graph.

    Attributes:
        stream: The captured stream that issued it.
        deps: Indices of the nodes that it depends on.
        work: Its work; None for an event node.
        records: The external event that it records.
        waits: The external event that it waits for.
    """

    stream: Stream
    deps: tuple[int, ...]
    work: Work | None = None
    records: CudaEvent | None = None
    waits: CudaEvent | None = None


class GraphCapture:
    """An active capture; it handles the calls on its streams (`interfaces.Capture`).

    Attributes:
        origin: The stream that it started on, and must end on.
        device: The device of the origin.
        mode: Which calls of other threads it forbids (cudaStreamCaptureMode).
        nodes: The recorded nodes.
        tape: The recorded operators.
        is_active: Whether it is neither invalidated nor ended.
        owner: A weak reference to the ``CUDAGraph`` that captures.
    """

    def __init__(self, origin: Stream, mode: Mode) -> None:
        self.origin, self.device, self.mode = origin, origin.device, mode
        self.nodes: list[Node] = []
        self.tape = Tape()
        self.is_active = True
        self.owner: Callable[[], Any] | None = None
        self._machine = origin.machine
        self._thread = threading.get_ident()
        self._tails: dict[Stream, tuple[int, ...]] = {}

    def begin(self) -> None:
        """Start to capture the origin.

        Raises:
            RuntimeError: It is already captured, or it is the legacy default stream; CUDA's errors.
        """
        if self.origin.handle == 0:
            raise cuda_error(cuda_errors.CAPTURE_UNSUPPORTED)
        if self.origin.capture is not None:
            raise cuda_error(cuda_errors.ILLEGAL_STATE)
        self._machine.call("cudaStreamBeginCapture", self._machine.spec.event_ns)
        self._machine.captures.append(self)
        self._join(self.origin, ())

    def end(self) -> None:
        """End the capture of all streams, and restore the memory that operators overwrote.

        Raises:
            RuntimeError: It was invalidated, a side stream was not joined, or another thread started it; CUDA's errors.
        """
        if self not in self._machine.captures:
            raise cuda_error(cuda_errors.ILLEGAL_STATE)
        if self.mode != "relaxed" and threading.get_ident() != self._thread:
            raise cuda_error(cuda_errors.CAPTURE_WRONG_THREAD)
        self._machine.call("cudaStreamEndCapture", self._machine.spec.event_ns)
        was_active = self.is_active
        # The capture is joined if its origin depends on all nodes of side streams.
        is_joined = len(self._ancestors(self._tails[self.origin])) == len(self.nodes)
        self.abandon()
        if not was_active:
            raise cuda_error(cuda_errors.CAPTURE_INVALIDATED)
        if not is_joined:
            raise cuda_error(cuda_errors.CAPTURE_UNJOINED)

    def abandon(self) -> None:
        """As `end`, in any state."""
        self.is_active = False
        if self in self._machine.captures:
            self._machine.captures.remove(self)
            for stream in self._tails:
                stream.capture = None
            with self._machine.unrecorded():
                self.tape.end()

    def accepts(self, stream: int) -> bool:
        """Return whether allocations for the stream of that handle use the graph's pool."""
        return self.is_active and any(captured.handle == stream for captured in self._tails)

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator to get its result's shape, and record it; `launch` follows for its kernel.

        Args:
            func: The overload to call on the CPU.
            args: The arguments for the CPU.
            kwargs: The keyword arguments for the CPU.
        """
        return self.tape.run(func, args, kwargs)

    def record_result(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """As `run`, for an operator whose result exists already and that wrote none of its arguments."""
        self.tape.record(func, args, kwargs, out)

    def draw(self, generator: Any) -> None:
        """Record that a random operator without values uses a generator."""
        self.tape.ops.append(Draw(generator))

    def adopt(self, tensor: Any) -> None:
        """Record a host tensor, created by torch for internal use, as a tensor of the device."""
        self.tape.record_contents(tensor)

    def launch(self, stream: Stream, work: Work, call: str) -> Placed:
        """Record work as a node. Takes host time for the call, and no device time."""
        self._check_active()
        correlation_id = self._machine.call(call, self._machine.spec.launch_ns)
        self._append(stream, Node(stream, (), work))
        now = self._machine.now_ns
        return Placed(now, now, correlation_id)

    def record(self, stream: Stream, cuda_event: CudaEvent) -> None:
        """Store the stream's dependencies in a CUDA event; an external event becomes a node."""
        self._check_active()
        self._machine.call("cudaEventRecord", self._machine.spec.event_ns)
        if cuda_event.is_external:
            self._append(stream, Node(stream, (), records=cuda_event))
            return
        cuda_event.device, cuda_event.stream, cuda_event.recorded_ns = stream.device, stream, None
        cuda_event.capture, cuda_event.node = self, self._tails[stream]

    def wait(self, stream: Stream, cuda_event: CudaEvent) -> None:
        """Make the stream's next node depend on the event's nodes; a stream from outside joins the capture."""
        self._machine.call("cudaStreamWaitEvent", self._machine.spec.event_ns)
        if cuda_event.is_external and stream.capture is self:
            self._check_active()
            self._append(stream, Node(stream, (), waits=cuda_event))
            return
        self._check_edge(stream, cuda_event)
        if cuda_event.capture is None:
            return  # an event without a record has no effect
        if stream.capture is None:
            self._join(stream, cuda_event.node)
        else:
            # Without the nodes that others of them depend on.
            tails = {*self._tails[stream], *cuda_event.node}
            if len(tails) > 1:
                tails -= self._ancestors(dep for tail in tails for dep in self.nodes[tail].deps)
            self._tails[stream] = tuple(sorted(tails))

    def synchronize(self, stream: Stream) -> None:
        """Refuse to wait for a captured stream.

        Raises:
            RuntimeError: Always; CUDA's error.
        """
        self._refuse(cuda_errors.CAPTURE_UNSUPPORTED)

    def query(self, stream: Stream) -> bool:
        """Refuse to query a captured stream.

        Raises:
            RuntimeError: Always; CUDA's error.
        """
        self._refuse(cuda_errors.CAPTURE_UNSUPPORTED)
        return False

    def touch(self, cuda_event: CudaEvent) -> None:
        """Refuse to query or wait for an event that was recorded in the capture.

        Raises:
            RuntimeError: Always; CUDA's error.
        """
        self._refuse(cuda_errors.CAPTURED_EVENT)

    def check_call(self, device: Device | None) -> None:
        """Check a query or a wait of the host outside of the capture.

        Waiting for a device with a captured stream is always an error; other calls depend on the mode and on the
        calling thread (cudaThreadExchangeStreamCaptureMode).

        Args:
            device: The device that is synchronized, if any.

        Raises:
            RuntimeError: It is forbidden; CUDA's error. The capture is invalidated.
        """
        is_own = threading.get_ident() == self._thread
        holds = device is not None and any(stream.device is device for stream in self._tails)
        if holds or self.mode == "global" or (self.mode == "thread_local" and is_own):
            self._refuse(cuda_errors.CAPTURE_UNSUPPORTED)

    def check_legacy(self, device: Device) -> None:
        """Check work on the legacy default stream: it waits for blocking streams, so none may be captured.

        Raises:
            RuntimeError: One is captured; CUDA's error. The capture is invalidated.
        """
        if any(stream.is_blocking and stream.device is device for stream in self._tails):
            self._refuse(cuda_errors.CAPTURE_IMPLICIT)

    def embed(self, stream: Stream, graph: CapturedGraph) -> None:
        """Add the nodes of a graph that is replayed on a captured stream."""
        self._check_active()
        self._machine.call("cudaGraphLaunch", self._machine.spec.graph_launch_ns)
        self.tape.embed(graph.tape)
        first, before = len(self.nodes), self._tails[stream]
        for node in graph.nodes:
            deps = tuple(first + dep for dep in node.deps) or before
            self.nodes.append(Node(stream, deps, node.work, node.records, node.waits))
        if graph.nodes:
            self._tails[stream] = tuple(first + leaf for leaf in graph.leaves)

    def invalidate(self) -> None:
        """Mark the capture as invalid: nothing more can be recorded, and its end raises an error."""
        self.is_active = False

    def _join(self, stream: Stream, deps: tuple[int, ...]) -> None:
        stream.capture = self
        self._tails[stream] = deps

    def _append(self, stream: Stream, node: Node) -> None:
        node.deps = self._tails[stream]
        self.nodes.append(node)  # first: a tail is a node, also where an interrupt comes in between
        self._tails[stream] = (len(self.nodes) - 1,)

    def _check_active(self) -> None:
        if not self.is_active:
            raise cuda_error(cuda_errors.CAPTURE_INVALIDATED)

    def _check_edge(self, stream: Stream, cuda_event: CudaEvent) -> None:
        if stream.capture is self:
            self._check_active()
        other = cuda_event.capture
        if stream.capture is self and other is None and cuda_event.recorded_ns is not None:
            self._refuse(cuda_errors.CAPTURE_ISOLATION)
        if stream.capture is None and self not in self._machine.captures:
            raise cuda_error(cuda_errors.CAPTURED_EVENT)  # of a capture that has ended
        if stream.capture is None and not self.is_active:
            raise cuda_error(cuda_errors.INVALID_VALUE)
        if stream.capture is None and stream.handle == 0:
            self._refuse(cuda_errors.CAPTURE_IMPLICIT)
        if isinstance(other, GraphCapture) and stream.capture is not None and other is not stream.capture:
            if other not in self._machine.captures:
                self._refuse(cuda_errors.CAPTURED_EVENT)
            other.invalidate()
            self._refuse(cuda_errors.CAPTURE_MERGE)

    def _refuse(self, code: int) -> None:
        self.invalidate()
        raise cuda_error(code)

    def _ancestors(self, nodes: Any) -> set[int]:
        found: set[int] = set()
        open_nodes = list(nodes)
        while open_nodes:
            node = open_nodes.pop()
            if node not in found:
                found.add(node)
                open_nodes += self.nodes[node].deps
        return found


# A captured graph, and its replays: the same operators on the same memory, one launch for all of them.


class CapturedGraph:
    """A captured graph (cudaGraphExec_t).

    Attributes:
        id: The graph id in traces.
        nodes: Its nodes in topological order.
        leaves: The nodes that no other node depends on.
        tape: The operators of the nodes.
        num_generators: The number of random generators that it draws from.
        tail_ns: End of its last replay, virtual ns; a graph does not overlap with itself.
    """

    def __init__(self, capture: GraphCapture) -> None:
        self.id = next(capture.origin.machine.graph_ids)
        self.nodes: list[Node] = capture.nodes
        self.tape = capture.tape
        self.origin = capture.origin
        capture.nodes, capture.tape = [], Tape()  # events recorded in the capture may keep it alive
        self.leaves = _leaves(self.nodes)
        self.num_generators = num_generators(self.tape)
        self.tail_ns = 0

    def replay(self, stream: Stream) -> None:
        """Replay the graph with one launch.

        Args:
            stream: The stream of the launch.

        Raises:
            VirtualDeviceError: Memory that the graph uses was freed.
        """
        if stream.capture is not None:
            stream.capture.embed(stream, self)
            return
        with stream.machine.unrecorded():
            if stream.machine.op_log is None:
                self.tape.replay()
            else:
                stream.machine.op_log.replay(self.tape, stream)
        self._launch(stream)

    def _launch(self, stream: Stream) -> None:
        machine, device = stream.machine, stream.device
        machine.check_launch(stream)
        device.wait_for_queue()
        correlation_id = machine.call("cudaGraphLaunch", device.spec.graph_launch_ns)
        ready_ns = max(machine.now_ns + device.spec.kernel_latency_ns, stream.ready_ns, self.tail_ns)
        ends = self._place(machine, stream, ready_ns, correlation_id)
        self.tail_ns = max(ends, default=ready_ns)
        stream.tail_ns = max(stream.tail_ns, self.tail_ns)
        device.issued(stream.tail_ns, stream.is_blocking)
        for node, end_ns in zip(self.nodes, ends, strict=True):
            if node.stream.device is not device:
                node.stream.device.tail_ns = max(node.stream.device.tail_ns, end_ns)

    def _place(self, machine: Machine, stream: Stream, ready_ns: int, correlation_id: int) -> list[int]:
        """Schedule every node; returns their ends, virtual ns."""
        ends: list[int] = []
        gap_ns = machine.spec.graph_node_ns
        for number, node in enumerate(self.nodes):
            after = max((ends[dep] + gap_ns for dep in node.deps), default=ready_ns)
            if node.work is None:
                ends.append(_pass_event(node, stream, after))
                continue
            work, lane = node.work, stream if node.stream is self.origin else node.stream
            engine = node.stream.device.engine(work)
            start = engine.place(after, work.duration_ns, work.room if work.kind == "kernel" else 1.0, machine.now_ns)
            ends.append(start + work.duration_ns)
            if machine.recorder is not None:
                placed = Placed(start, ends[-1], correlation_id, self.id, number)
                machine.recorder.worked(lane, work, placed)
        return ends


def _pass_event(node: Node, stream: Stream, ready_ns: int) -> int:
    """Record or wait for an external event within a graph."""
    if node.records is not None:
        event = node.records
        event.device, event.stream, event.capture, event.recorded_ns = stream.device, stream, None, ready_ns
    if node.waits is not None and node.waits.recorded_ns is not None:
        return max(ready_ns, node.waits.recorded_ns)
    return ready_ns


def _leaves(nodes: list[Node]) -> tuple[int, ...]:
    needed = {dep for node in nodes for dep in node.deps}
    return tuple(number for number in range(len(nodes)) if number not in needed)
