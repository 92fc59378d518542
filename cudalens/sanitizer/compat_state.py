"""The tensors, streams and events of `cudalens.sanitizer.compat`, kept by the engine."""

from __future__ import annotations

import enum
import io
import logging
import traceback
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from torch.utils._traceback import CapturedTraceback

from cudalens.sanitizer.engine import Detector
from cudalens.sanitizer.engine import StreamId as EngineStream
from cudalens.sanitizer.engine.accesses import AccessInfo, CallSite, CellAccess, Operand, RecordedAccess
from cudalens.sanitizer.engine.clocks import Clocks, Line

DEFAULT_STREAM_ID: Final = 0

DataPtr: TypeAlias = int
StreamId: TypeAlias = int
EventId: TypeAlias = int
SeqNum: TypeAlias = int

#: torch's own logger, so that its configuration applies.
logger = logging.getLogger("torch.cuda._sanitizer")

_LATE = "Perhaps the sanitizer was enabled after some torch operations?"


class AccessType(enum.Enum):
    """The kind of an access."""

    READ = enum.auto()
    WRITE = enum.auto()

    def __str__(self) -> str:
        return "reading from" if self is AccessType.READ else "writing to"


@dataclass
class Access:
    """One access to a tensor by a kernel.

    Attributes:
        type: Read or write.
        seq_num: Number of the kernel, from 1.
        stream: Pointer of its stream.
        operator: The operator's schema.
        aliases: Names of its arguments that are this tensor.
        is_output: Whether the tensor is its result.
        stack_trace: Call stack of the launch, outermost first.
    """

    type: AccessType
    seq_num: SeqNum
    stream: StreamId
    operator: str
    aliases: list[str]
    is_output: bool
    stack_trace: traceback.StackSummary


class SynchronizationError(Exception):
    """Base class of the findings."""


class UnsynchronizedAccessError(SynchronizationError):
    """Two accesses to one data pointer that nothing orders.

    Attributes:
        data_ptr: The tensor's.
        allocation_stack_trace: Call stack of its allocation; None if it was not observed.
        current_access: The later one.
        previous_access: The earlier one.
    """

    def __init__(
        self,
        data_ptr: DataPtr,
        allocation_stack_trace: traceback.StackSummary | None,
        current_access: Access,
        previous_access: Access,
    ) -> None:
        self.data_ptr = data_ptr
        self.allocation_stack_trace = allocation_stack_trace
        self.current_access = current_access
        self.previous_access = previous_access

    def __str__(self) -> str:
        with io.StringIO() as text:
            text.write("============================\n")
            text.write(f"CSAN detected a possible data race on tensor with data pointer {self.data_ptr}\n")
            text.write(
                f"Access by stream {self.current_access.stream} during kernel:\n{_described(self.current_access)}"
            )
            text.write(f"Previous access by stream {self.previous_access.stream} during kernel:\n")
            text.write(_described(self.previous_access))
            if self.allocation_stack_trace:
                text.write("Tensor was allocated with stack trace:\n" + "".join(self.allocation_stack_trace.format()))
            else:
                text.write("Trace for tensor allocation not found.")
            return text.getvalue()


def _described(access: Access) -> str:
    arguments = " argument(s) " + ", ".join(access.aliases) if access.aliases else ""
    output = ""
    if access.is_output:
        output = ", and to the output" if access.aliases else " the output"
    stack = "".join(access.stack_trace.format())
    return f"{access.operator}\n{access.type}{arguments}{output}\nWith stack trace:\n{stack}\n"


class CUDASanitizerErrors(Exception):  # noqa: N818 - torch's name
    """Raised by an operator that races.

    Attributes:
        errors: The findings.
    """

    def __init__(self, errors: list[SynchronizationError]) -> None:
        self.errors = errors

    def __str__(self) -> str:
        return f"detected {len(self.errors)} errors"


class Kernel:
    """One access without a symbolized stack. Compared by identity, so that each is a place of its own."""

    __slots__ = ("aliases", "is_output", "operator", "seq_num", "stack", "stream", "type")

    def __init__(
        self,
        kind: AccessType,
        seq_num: int,
        stream: StreamId,
        operator: str,
        aliases: list[str],
        is_output: bool,
        stack: Any,
    ) -> None:
        self.type, self.seq_num, self.stream, self.operator = kind, seq_num, stream, operator
        self.aliases, self.is_output, self.stack = aliases, is_output, stack

    def access(self) -> Access:
        """Return the access with a symbolized stack."""
        return Access(
            self.type, self.seq_num, self.stream, self.operator, self.aliases, self.is_output, _summary(self.stack)
        )


def take_stack() -> Any:
    """Return the caller's call stack, not symbolized."""
    return CapturedTraceback.extract(skip=1)  # type: ignore[no-untyped-call]


def _summary(stack: Any) -> traceback.StackSummary:
    named: traceback.StackSummary = stack.summary()
    return named


@dataclass
class TensorInfo:
    """The state of a tensor.

    Attributes:
        allocation_stack_trace: Call stack of its allocation; None if it was not observed.
        reads: The reads since the last write, without those that later reads make redundant.
        write: The last write.
    """

    allocation_stack_trace: traceback.StackSummary | None
    reads: list[Access] = field(default_factory=list)
    write: Access | None = None


class _Tensor:
    """One data pointer's memory in the engine."""

    __slots__ = ("allocation", "cell", "stack")

    def __init__(self, data_ptr: DataPtr, stack: Any) -> None:
        # In a shadow of its own, because a freed tensor is dropped with its accesses.
        self.allocation = Detector().alloc(str(data_ptr), data_ptr, 1, None)
        assert self.allocation.whole is not None
        self.cell = self.allocation.whole
        self.stack = stack


class TensorsAccessed:
    """The tensors, by data pointer."""

    def __init__(self) -> None:
        self._tensors: dict[DataPtr, _Tensor] = {}

    @property
    def accesses(self) -> dict[DataPtr, TensorInfo]:
        """The state of every tensor."""
        return {
            data_ptr: TensorInfo(
                self.get_allocation_stack_trace(data_ptr), self.get_reads(data_ptr), self.get_write(data_ptr)
            )
            for data_ptr in self._tensors
        }

    def ensure_tensor_exists(self, data_ptr: DataPtr) -> None:
        """Add a tensor whose allocation was not observed."""
        if data_ptr not in self._tensors:
            logger.info(
                "Found tensor with pointer: %s, but no matching tensor allocation in the trace. "
                f"Backfilling the trace now. {_LATE}",
                data_ptr,
            )
            self._tensors[data_ptr] = _Tensor(data_ptr, None)

    def ensure_tensor_does_not_exist(self, data_ptr: DataPtr) -> None:
        """Remove a tensor whose release was not observed."""
        if data_ptr in self._tensors:
            logger.info(
                "Found duplicate tensor allocation in the trace for tensor with pointer: %s. "
                f"Assuming the trace for tensor deallocation wasn't caught and backfilling it now. {_LATE}",
                data_ptr,
            )
            self.delete_tensor(data_ptr)

    def create_tensor(self, data_ptr: DataPtr, stack_trace: Any) -> None:
        """Add a tensor."""
        self._tensors[data_ptr] = _Tensor(data_ptr, stack_trace)

    def delete_tensor(self, data_ptr: DataPtr) -> None:
        """Remove a tensor."""
        del self._tensors[data_ptr]

    def get_allocation_stack_trace(self, data_ptr: DataPtr) -> traceback.StackSummary | None:
        """Call stack of its allocation; None if it was not observed."""
        stack = self._tensors[data_ptr].stack
        if stack is None or isinstance(stack, traceback.StackSummary):
            return stack
        return _summary(stack)

    def were_there_reads_since_last_write(self, data_ptr: DataPtr) -> bool:
        """Return whether it was read since it was written."""
        return any(not is_write for _, _, is_write, _ in self._tensors[data_ptr].cell.entries)

    def get_write(self, data_ptr: DataPtr) -> Access | None:
        """Return the last write."""
        writes = [entry for entry in self._tensors[data_ptr].cell.entries if entry[2]]
        return max(map(_access, writes), key=lambda access: access.seq_num) if writes else None

    def get_reads(self, data_ptr: DataPtr) -> list[Access]:
        """The reads since, without those that later reads make redundant."""
        return [_access(entry) for entry in self._tensors[data_ptr].cell.entries if not entry[2]]

    def visit(self, data_ptr: DataPtr, kernel: Kernel) -> CellAccess:
        """Return the access as input of the engine."""
        tensor = self._tensors[data_ptr]
        use = Operand(str(kernel.operator), ", ".join(kernel.aliases))
        info = AccessInfo(use, CallSite(kernel), None, None, "", tensor.allocation)
        return tensor.cell, kernel.type is AccessType.WRITE, info


def _access(entry: RecordedAccess) -> Access:
    kernel: Any = CallSite(*AccessInfo(*entry[3]).site).place
    access: Access = kernel.access()
    return access


class StreamSynchronizations:
    """The streams, the events and their order.

    Attributes:
        clocks: The happens-before relation of the engine.
    """

    def __init__(self) -> None:
        self.clocks = Clocks()
        self._streams: dict[StreamId, Line] = {}
        self._events: set[EventId] = set()
        self._operations: dict[StreamId, list[tuple[int, int]]] = {}  # sequence numbers and epochs, by stream
        self.create_stream(DEFAULT_STREAM_ID)

    def line(self, stream: StreamId) -> Line:
        """Return the engine's line of a stream, created if new."""
        line = self._streams.get(stream)
        if line is None:
            logger.info(
                f"Found Stream with id: %s, but no matching stream creation in the trace. "
                f"Backfilling the trace now. {_LATE}",
                stream,
            )
            self.create_stream(stream)
            line = self._streams[stream]
        return line

    def _ensure_event_exists(self, event: EventId) -> None:
        if event not in self._events:
            logger.info(
                "Found Event with id: %s, but no matching event creation in the trace. "
                f"Backfilling the trace now. {_LATE}",
                event,
            )
            self.create_event(event)

    def create_stream(self, stream: StreamId) -> None:
        """Add a stream."""
        if stream in self._streams:
            logger.info(
                "Found duplicate Stream creation in the trace for Stream with id: %s. PyTorch Streams are only "
                "created once, so this trace entry is ignored.",
                stream,
            )
            return
        self._streams[stream] = self.clocks.line(EngineStream(0, stream))

    def create_event(self, event: EventId) -> None:
        """Add an event, which is not recorded."""
        if event in self._events:
            logger.info(
                "Found duplicate event creation in the trace for event with id: %s. Assuming the trace for event "
                f"deletion wasn't caught and backfilling it now. {_LATE}",
                event,
            )
        self._events.add(event)
        self.clocks.delete(event)

    def delete_event(self, event: EventId) -> None:
        """Remove an event."""
        self._ensure_event_exists(event)
        self._events.discard(event)
        self.clocks.delete(event)

    def update_seq_num(self, stream: StreamId, seq_num: int) -> None:
        """An operation with a sequence number, larger than those before, runs on the stream."""
        line = self.line(stream)
        self.clocks.begin(line)
        self._operations.setdefault(stream, []).append((seq_num, line.clock))

    def is_ordered_after(self, current_stream: StreamId, seq_num: int, other_stream: StreamId) -> bool:
        """Return whether the next operation of a stream runs after the operation `seq_num` of another stream."""
        current, other = self.line(current_stream), self.line(other_stream)
        epochs = [epoch for number, epoch in self._operations.get(other_stream, ()) if number >= seq_num]
        if not epochs or current is other:
            return bool(epochs)
        return epochs[0] <= max(vector.get(other.index, 0) for vector in (current.vector, self.clocks.host.vector))

    def record_state(self, event: EventId, stream: StreamId) -> None:
        """Record the event on the stream."""
        self._ensure_event_exists(event)
        self.clocks.record(event, self.line(stream))

    def stream_wait_for_event(self, stream: StreamId, event: EventId) -> None:
        """The stream waits for the event."""
        line = self.line(stream)
        self._ensure_event_exists(event)
        self.clocks.wait(event, line)

    def all_streams_wait_for_event(self, event: EventId) -> None:
        """The host waits for the event."""
        self._ensure_event_exists(event)
        self.clocks.wait(event, self.clocks.host)

    def all_streams_wait_for_stream(self, stream: StreamId) -> None:
        """The host waits for the stream."""
        self.clocks.host_waits_for(self.line(stream))

    def sync_all_streams(self) -> None:
        """The host waits for all streams."""
        self.clocks.host_waits_for_device(0)
