"""What the model of time asks of the rest: who fires callbacks, who records, who captures. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from cudalens.virtual.timing.machine import Device
    from cudalens.virtual.timing.streams import CudaEvent, Stream
    from cudalens.virtual.timing.work import Placed, Work


class Awaited(NamedTuple):
    """The record of a CUDA event that a wait was for: its stream and the correlation id of its call, where known."""

    stream: Stream | None
    record_id: int | None


class Signals(Protocol):
    """What torch.cuda._gpu_trace tells on a real device; pointers are the handles of the objects."""

    def event_created(self, cuda_event: int) -> None:
        """An event came into being: at its first record."""

    def event_deleted(self, cuda_event: int) -> None:
        """An event that had come into being is gone."""

    def event_recorded(self, cuda_event: int, stream: int) -> None:
        """A stream was marked."""

    def event_waited(self, cuda_event: int, stream: int) -> None:
        """A stream was told to wait for a mark."""

    def memory_allocated(self, address: int) -> None:
        """The caching allocator handed out a block."""

    def memory_freed(self, address: int) -> None:
        """A block went back to the caching allocator."""

    def stream_created(self, stream: int) -> None:
        """A stream came into being."""

    def device_synchronized(self) -> None:
        """The host begins to wait for a device."""

    def stream_synchronized(self, stream: int) -> None:
        """The host begins to wait for a stream."""

    def event_synchronized(self, cuda_event: int) -> None:
        """The host begins to wait for an event."""


class Recorder(Protocol):
    """Who wants to know all that happens, with its times. Called after the fact, but for what begins and ends."""

    def begin(self, operator: str) -> Any:
        """An operator's handler begins; without a name, something that no GPU's trace would show."""

    def end(self, begun: Any) -> None:
        """What `begin` returned `begun` for ends."""

    def called(self, name: str, start_ns: int, end_ns: int, correlation_id: int) -> None:
        """The host called the CUDA runtime or driver."""

    def worked(self, stream: Stream, work: Work, placed: Placed) -> None:
        """A stream was given work."""

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
            stream: Whom it concerns; None for a whole device.
            device: The device.
            start_ns: Virtual ns.
            end_ns: Virtual ns.
            correlation_id: Of the runtime call.
            awaited: The record of a CUDA event that was waited for.
        """

    def opened(self, name: str) -> Any:
        """The program opens a range."""

    def closed(self, opened: Any) -> None:
        """The program closes the range that `opened` returned this for."""

    def marked(self, name: str) -> None:
        """The program marks an instant."""

    def ranged(self, name: str, stream: Stream, start_ns: int, end_ns: int) -> None:
        """The program closed a range that it had opened on a stream."""


class OpLog(Protocol):
    """Who notes what is done to devices, to do it again in another order (`cudalens.virtual.explorer`)."""

    def watch(self, dispatch: Callable[..., Any], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator is called: let it be dispatched."""

    def run(self, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator is computed."""

    def note(self, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A factory's result was reserved, not computed."""

    def begin_call(self, name: str, call: Callable[..., Any] | None, args: Any, kwargs: dict[str, Any]) -> None:
        """A kernel that is no operator is about to run."""

    def called(self, written: Iterable[Any]) -> None:
        """It has run, and wrote these tensors."""

    def started(self, work: object) -> None:
        """The thread's last collective will be waited for by that object."""

    def collected(self, work: object = None) -> None:
        """That collective is done; by default the thread's last one, if nobody said how it will be waited for."""

    def launched(self, stream: Stream) -> None:
        """A stream was given work."""

    def host_waits(self, stream: Stream) -> None:
        """The host waits for a stream within a copy, without a call that says so."""

    def replay(self, tape: Any, stream: Stream) -> None:
        """A graph is replayed: run its operators again."""


class Capture(Protocol):
    """A graph capture that a stream belongs to; it answers in the stream's place."""

    device: Device
    """Of the stream that it began on."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator is called: run it and record it."""

    def note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """An operator has been run: record it."""

    def adopt(self, tensor: Any) -> None:
        """A tensor that torch made on the host for itself joins the device: record what is in it."""

    def embed(self, stream: Stream, graph: Any) -> None:
        """A graph is replayed on a captured stream."""

    def launch(self, stream: Stream, work: Work, call: str) -> Placed:
        """Work was issued to a captured stream."""

    def record(self, stream: Stream, cuda_event: CudaEvent) -> None:
        """A captured stream was marked."""

    def wait(self, stream: Stream, cuda_event: CudaEvent) -> None:
        """A stream is to wait for an event; one of them is captured."""

    def synchronize(self, stream: Stream) -> None:
        """The host would wait for a captured stream."""

    def query(self, stream: Stream) -> bool:
        """The host would ask whether a captured stream is done."""

    def touch(self, cuda_event: CudaEvent) -> None:
        """The host would ask or wait for an event that was recorded in the capture."""

    def judge(self, device: Device | None) -> None:
        """The host asks or waits for something outside of the capture: a stream or an event, or a whole device."""

    def judge_legacy(self, device: Device) -> None:
        """Work is issued to the legacy default stream of a device."""
