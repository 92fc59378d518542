"""A captured graph, and its replays: the same operators on the same memory, one launch for all of them."""

from __future__ import annotations

from cudalens.virtual.capture.captured_ops import Tape, num_generators
from cudalens.virtual.capture.stream_capture import GraphCapture, Node
from cudalens.virtual.timing.interfaces import Placed
from cudalens.virtual.timing.machine import Machine
from cudalens.virtual.timing.streams import Stream


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
