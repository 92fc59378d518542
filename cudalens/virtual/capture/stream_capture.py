"""Graph capture: what a stream does while its work is recorded, and what is forbidden meanwhile.

The rules are those of the CUDA programming guide, "Creating a Graph Using Stream Capture". A captured stream orders
nodes, not work: it remembers behind which nodes its next one comes. An event that was recorded in a capture carries
such a set of nodes to another stream, which thereby joins the capture. What the host would have to wait for does not
exist yet, so asking for it is an error that spoils the capture; ending the capture then tells so once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from cudalens.virtual.capture.captured_ops import Tape
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.timing.streams import CudaEvent, Stream
from cudalens.virtual.timing.work import Placed, Work
from cudalens.virtual.torch_cuda import errors as cuda_errors
from cudalens.virtual.torch_cuda.errors import cuda_error

if TYPE_CHECKING:
    from cudalens.virtual.capture.captured_graph import CapturedGraph

Mode = Literal["global", "thread_local", "relaxed"]
MODES: Final = ("global", "thread_local", "relaxed")


@dataclass(slots=True)
class Node:
    """One thing that a graph does.

    Attributes:
        stream: The captured stream that issued it.
        deps: Indices of the nodes that come before it.
        work: What is done; None for an event node.
        records: An external event that is recorded here.
        waits: An external event that is waited for here.
    """

    stream: Stream
    deps: tuple[int, ...]
    work: Work | None = None
    records: CudaEvent | None = None
    waits: CudaEvent | None = None


class GraphCapture:
    """One capture, from its begin to its end; it answers for the streams that belong to it (`machine.Capture`).

    Attributes:
        origin: The stream that it began on, and must end on.
        device: The origin's device.
        mode: Which calls of other threads it forbids (cudaStreamCaptureMode).
        nodes: What has been recorded.
        tape: The operators that have been recorded.
        is_active: Whether it is neither spoilt nor ended.
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
        """The origin becomes a captured stream.

        Raises:
            RuntimeError: It is one already, or it is the legacy default stream; CUDA's own errors.
        """
        if self.origin.handle == 0:
            raise cuda_error(cuda_errors.CAPTURE_UNSUPPORTED)
        if self.origin.capture is not None:
            raise cuda_error(cuda_errors.ILLEGAL_STATE)
        self._machine.call("cudaStreamBeginCapture", self._machine.spec.event_ns)
        self._machine.captures.append(self)
        self._join(self.origin, ())

    def end(self) -> None:
        """All streams leave the capture, and whatever operators overwrote is as it was.

        Raises:
            RuntimeError: It was spoilt, a side stream was not joined, or another thread began it; CUDA's own errors.
        """
        if self not in self._machine.captures:
            raise cuda_error(cuda_errors.ILLEGAL_STATE)
        if self.mode != "relaxed" and threading.get_ident() != self._thread:
            raise cuda_error(cuda_errors.CAPTURE_WRONG_THREAD)
        self._machine.call("cudaStreamEndCapture", self._machine.spec.event_ns)
        was_active, is_joined = self.is_active, self._is_joined()
        self.abandon()
        if not was_active:
            raise cuda_error(cuda_errors.CAPTURE_INVALIDATED)
        if not is_joined:
            raise cuda_error(cuda_errors.CAPTURE_UNJOINED)

    def abandon(self) -> None:
        """As `end`, whatever state it is in."""
        self.is_active = False
        if self in self._machine.captures:
            self._machine.captures.remove(self)
            for stream in self._tails:
                stream.capture = None
            with self._machine.unrecorded():
                self.tape.end()

    def accepts(self, stream: int) -> bool:
        """Whether memory for the stream of that handle comes from the graph's pool."""
        return self.is_active and any(captured.handle == stream for captured in self._tails)

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator for its result's shape, and record it; its kernel comes by `launch`.

        Args:
            func: The overload that is called on the CPU.
            args: Its arguments, as the CPU is given them.
            kwargs: Likewise.
        """
        return self.tape.run(func, args, kwargs)

    def note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """As `run`, of an operator whose result is there already and that wrote none of its arguments."""
        self.tape.note(func, args, kwargs, out)

    def adopt(self, tensor: Any) -> None:
        """A tensor that torch made on the host for itself joins the device, as it was made there on a GPU."""
        self.tape.make(tensor)

    def launch(self, stream: Stream, work: Work, call: str) -> Placed:
        """Record work as a node. The host pays for the call, the device does nothing."""
        self._check_active()
        correlation_id = self._machine.call(call, self._machine.spec.launch_ns)
        self._append(stream, Node(stream, (), work))
        now = self._machine.now_ns
        return Placed(now, now, correlation_id)

    def record(self, stream: Stream, cuda_event: CudaEvent) -> None:
        """The event takes up where the stream is; an external one becomes a node."""
        self._check_active()
        self._machine.call("cudaEventRecord", self._machine.spec.event_ns)
        if cuda_event.is_external:
            self._append(stream, Node(stream, (), records=cuda_event))
            return
        cuda_event.device, cuda_event.stream, cuda_event.recorded_ns = stream.device, stream, None
        cuda_event.capture, cuda_event.node = self, self._tails[stream]

    def wait(self, stream: Stream, cuda_event: CudaEvent) -> None:
        """The stream's next node comes behind the event's; a stream from outside joins the capture."""
        self._machine.call("cudaStreamWaitEvent", self._machine.spec.event_ns)
        if cuda_event.is_external and stream.capture is self:
            self._check_active()
            self._append(stream, Node(stream, (), waits=cuda_event))
            return
        self._check_edge(stream, cuda_event)
        if cuda_event.capture is None:
            return  # an event that was never recorded holds up nothing
        if stream.capture is None:
            self._join(stream, cuda_event.node)
        else:
            self._tails[stream] = self._reduced((*self._tails[stream], *cuda_event.node))

    def synchronize(self, stream: Stream) -> None:
        """A captured stream cannot be waited for.

        Raises:
            RuntimeError: Always; CUDA's own error.
        """
        self._refuse(cuda_errors.CAPTURE_UNSUPPORTED)

    def query(self, stream: Stream) -> bool:
        """Nor asked.

        Raises:
            RuntimeError: Always; CUDA's own error.
        """
        self._refuse(cuda_errors.CAPTURE_UNSUPPORTED)
        return False

    def touch(self, cuda_event: CudaEvent) -> None:
        """Nor can an event that was recorded in it.

        Raises:
            RuntimeError: Always; CUDA's own error.
        """
        self._refuse(cuda_errors.CAPTURED_EVENT)

    def check_call(self, device: Device | None) -> None:
        """The host asks or waits for something outside of the capture.

        Waiting for a device that has a captured stream is an error always; other calls depend on the mode and on who
        makes them (cudaThreadExchangeStreamCaptureMode).

        Args:
            device: The device that is waited for as a whole, if one is.

        Raises:
            RuntimeError: It is forbidden; CUDA's own error. The capture is spoilt.
        """
        is_own = threading.get_ident() == self._thread
        holds = device is not None and any(stream.device is device for stream in self._tails)
        if holds or self.mode == "global" or (self.mode == "thread_local" and is_own):
            self._refuse(cuda_errors.CAPTURE_UNSUPPORTED)

    def check_legacy(self, device: Device) -> None:
        """The legacy default stream waits for blocking streams, so it cannot be used while one is captured.

        Raises:
            RuntimeError: One is; CUDA's own error. The capture is spoilt.
        """
        if any(stream.is_blocking and stream.device is device for stream in self._tails):
            self._refuse(cuda_errors.CAPTURE_IMPLICIT)

    def embed(self, stream: Stream, graph: CapturedGraph) -> None:
        """A graph is replayed on a captured stream: its nodes become part of this one's."""
        self._check_active()
        self._machine.call("cudaGraphLaunch", self._machine.spec.graph_launch_ns)
        self.tape.embed(graph.tape)
        first, before = len(self.nodes), self._tails[stream]
        for node in graph.nodes:
            deps = tuple(first + dep for dep in node.deps) or before
            self.nodes.append(Node(stream, deps, node.work, node.records, node.waits))
        if graph.nodes:
            self._tails[stream] = tuple(first + leaf for leaf in graph.leaves)

    def spoil(self) -> None:
        """Something forbidden happened: nothing more can be recorded, and the end tells so."""
        self.is_active = False

    def _join(self, stream: Stream, deps: tuple[int, ...]) -> None:
        stream.capture = self
        self._tails[stream] = deps

    def _append(self, stream: Stream, node: Node) -> None:
        node.deps = self._tails[stream]
        self._tails[stream] = (len(self.nodes),)
        self.nodes.append(node)

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
            other.spoil()
            self._refuse(cuda_errors.CAPTURE_MERGE)

    def _refuse(self, code: int) -> None:
        self.spoil()
        raise cuda_error(code)

    def _reduced(self, tails: tuple[int, ...]) -> tuple[int, ...]:
        """Nodes without those that others of them come behind anyway."""
        wanted = set(tails)
        if len(wanted) < 2:
            return tuple(wanted)
        behind = self._ancestors(dep for tail in wanted for dep in self.nodes[tail].deps)
        return tuple(sorted(wanted - behind))

    def _ancestors(self, nodes: Any) -> set[int]:
        found: set[int] = set()
        open_nodes = list(nodes)
        while open_nodes:
            node = open_nodes.pop()
            if node not in found:
                found.add(node)
                open_nodes += self.nodes[node].deps
        return found

    def _is_joined(self) -> bool:
        """Whether all that side streams did comes before where the origin is."""
        reached = self._ancestors(self._tails[self.origin])
        return len(reached) == len(self.nodes)
