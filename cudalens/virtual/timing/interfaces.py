"""Interfaces of the timing model: signals (callbacks), recorder, operation log, graph capture. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from cudalens.virtual.timing.machine import Device
    from cudalens.virtual.timing.streams import CudaEvent, Stream

#: Direction of a copy: H is the host, D the device, P a peer device.
Direction = Literal["HtoD", "DtoH", "DtoD", "PtoP"]

#: Kineto's categories of device work.
Kind = Literal["kernel", "gpu_memcpy", "gpu_memset"]


@dataclass(slots=True)
class Work:
    """A kernel, copy or memset.

    Attributes:
        kind: Kineto's category.
        name: The name in the timeline.
        duration_ns: How long it uses its engine.
        room: The part of the device that a kernel uses, above 0, at most 1.
        num_bytes: The bytes that it reads and writes, or copies.
        flops: Floating-point operations.
        direction: The direction of a copy.
        grid: Blocks of the modelled launch.
        block: Threads per block of the modelled launch.
        op: The aten operator that issued it.
        family: The kind of kernel whose formula gave the duration: a family of `cudalens.gpus.constants`, or a name
            without measurements ("strided", "other"); "" for copies and memsets.
        facts: Further columns of its row of the events frame, of a collective; None for other work.
    """

    kind: Kind
    name: str
    duration_ns: int
    room: float = 1.0
    num_bytes: int = 0
    flops: int = 0
    direction: Direction | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    op: str | None = None
    family: str = ""
    facts: Mapping[str, Any] | None = None


class Placed(NamedTuple):
    """The scheduled start and end of work, virtual ns, and the correlation id of its launch.

    For work of a CUDA graph also the ids of the graph and of the node.
    """

    start_ns: int
    end_ns: int
    correlation_id: int
    graph_id: int | None = None
    graph_node_id: int | None = None


class Awaited(NamedTuple):
    """The record call of a CUDA event that was waited for: its stream and its correlation id, if known."""

    stream: Stream | None
    record_id: int | None


class Signals(Protocol):
    """The callbacks of torch.cuda._gpu_trace on a real device; pointers are the handles of the objects."""

    def event_created(self, cuda_event: int) -> None:
        """A CUDA event was created, at its first record."""

    def event_deleted(self, cuda_event: int) -> None:
        """A CUDA event was deleted."""

    def event_recorded(self, cuda_event: int, stream: int) -> None:
        """A CUDA event was recorded on a stream."""

    def event_waited(self, cuda_event: int, stream: int) -> None:
        """A stream was made to wait for a CUDA event."""

    def memory_allocated(self, address: int) -> None:
        """The caching allocator allocated a block."""

    def memory_freed(self, address: int) -> None:
        """The caching allocator freed a block."""

    def stream_created(self, stream: int) -> None:
        """A stream was created."""

    def device_synchronized(self) -> None:
        """The host starts to wait for a device."""

    def stream_synchronized(self, stream: int) -> None:
        """The host starts to wait for a stream."""

    def event_synchronized(self, cuda_event: int) -> None:
        """The host starts to wait for a CUDA event."""


class Recorder(Protocol):
    """Records runtime calls and device work with their times.

    A method is called after the fact, except where an interval starts or ends.
    """

    def begin(self, operator: str) -> Any:
        """An operator starts; an empty name starts work that no trace of a GPU contains."""

    def end(self, begun: Any) -> None:
        """The interval ends for which `begin` returned `begun`."""

    def passed(self, start_ns: int, end_ns: int) -> None:
        """The program's own code, which ends here, took as much real time."""

    def called(self, name: str, start_ns: int, end_ns: int, correlation_id: int) -> None:
        """The host called a function of the CUDA runtime or driver."""

    def worked(self, stream: Stream, work: Work, placed: Placed) -> None:
        """Work was issued to a stream."""

    def synchronized(
        self,
        name: str,
        stream: Stream | None,
        device: Device,
        start_ns: int,
        end_ns: int,
        correlation_id: int,
        awaited: Awaited | None = None,
    ) -> None:
        """The host, or a stream, waited.

        Args:
            name: As CUPTI names it: "Stream Synchronize", "Event Synchronize", "Stream Wait Event" or "Context
                Synchronize".
            stream: The stream; None for a whole device.
            device: The device.
            start_ns: Virtual ns.
            end_ns: Virtual ns.
            correlation_id: The correlation id of the runtime call.
            awaited: The record call of the CUDA event that was waited for.
        """

    def opened(self, name: str) -> Any:
        """The program starts a range."""

    def closed(self, opened: Any) -> None:
        """The program ends the range for which `opened` returned this."""

    def marked(self, name: str) -> None:
        """The program marks an instant."""

    def ranged(self, name: str, stream: Stream, start_ns: int, end_ns: int) -> None:
        """The program ended a range that it had started on a stream."""


class OpLog(Protocol):
    """Logs operations on devices, to run them again in another order (`cudalens.virtual.explorer`)."""

    def watch(self, dispatch: Callable[..., Any], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Log an operator call, and dispatch it."""

    def run(self, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Log and compute an operator."""

    def log_factory(self, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Log a factory whose result was allocated without computing it."""

    def begin_call(self, name: str, call: Callable[..., Any] | None, args: Any, kwargs: dict[str, Any]) -> None:
        """Log the start of a kernel that is not an operator."""

    def called(self, written: Iterable[Any]) -> None:
        """Log the end of that kernel and the tensors that it wrote."""

    def started(self, work: object) -> None:
        """Log the object by which the program waits for the thread's last collective."""

    def collected(self, work: object = None) -> None:
        """Log that a collective is complete; by default the thread's last one, if it has no object to wait for."""

    def launched(self, stream: Stream) -> None:
        """Work was issued to a stream."""

    def host_waits(self, stream: Stream) -> None:
        """Log that the host waits for a stream within a copy."""

    def replay(self, tape: Any, stream: Stream) -> None:
        """Log a graph replay, and run its operators again."""


class Capture(Protocol):
    """A graph capture; it handles the calls on the streams that belong to it."""

    #: The device of the stream that it started on.
    device: Device

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator and record it."""

    def record_result(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Record an operator that has run."""

    def draw(self, generator: Any) -> None:
        """Record that a random operator without values uses a generator."""

    def adopt(self, tensor: Any) -> None:
        """Record the contents of a host tensor, made by torch for internal use, that moves to the device."""

    def embed(self, stream: Stream, graph: Any) -> None:
        """Record the replay of a graph on a captured stream."""

    def launch(self, stream: Stream, work: Work, call: str) -> Placed:
        """Record work that is issued to a captured stream."""

    def record(self, stream: Stream, cuda_event: CudaEvent) -> None:
        """Record a CUDA event on a captured stream."""

    def wait(self, stream: Stream, cuda_event: CudaEvent) -> None:
        """Make a stream wait for a CUDA event; one of them is captured."""

    def synchronize(self, stream: Stream) -> None:
        """Refuse that the host waits for a captured stream."""

    def query(self, stream: Stream) -> bool:
        """Refuse that the host queries a captured stream."""

    def touch(self, cuda_event: CudaEvent) -> None:
        """Refuse that the host queries or waits for a CUDA event that was recorded in the capture."""

    def check_call(self, device: Device | None) -> None:
        """Check a query or a wait of the host outside of the capture: for a stream, a CUDA event or a device."""

    def check_legacy(self, device: Device) -> None:
        """Check work that is issued to the legacy default stream of a device."""
