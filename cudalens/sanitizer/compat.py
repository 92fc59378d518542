"""The names and signatures of ``torch.cuda._sanitizer``, over this sanitizer's engine.

Programs and tests that were written for torch's CUDA Sanitizer run with ``import cudalens.sanitizer.compat as csan``
instead of ``import torch.cuda._sanitizer as csan``: same handlers, same messages, same log lines. As there, memory is
identified by data pointer alone, a freed pointer is dropped, and the first race ends the program. Because it uses this
engine, an access costs a few microseconds, only the last accesses are kept, call stacks are symbolized for races only,
and `CUDASanitizer.disable` removes everything.

`cudalens.sanitize` finds more: overlapping views, use after free, host races, graph replays.
"""

from __future__ import annotations

import enum
import io
import logging
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._traceback import CapturedTraceback

from cudalens.device import gpu_trace, modes
from cudalens.device.streams import current_device, current_stream
from cudalens.sanitizer.engine import Detector, Race
from cudalens.sanitizer.engine import StreamId as EngineStream
from cudalens.sanitizer.engine.accesses import AccessInfo, CallSite, CellAccess, Clocks, Line, Operand, RecordedAccess

# The tensors, streams and events of `cudalens.sanitizer.compat`, kept by the engine.

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
    return stack.summary()


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
    return kernel.access()


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


__all__ = [
    "DEFAULT_STREAM_ID",
    "Access",
    "AccessType",
    "ArgumentHandler",
    "CUDASanitizer",
    "CUDASanitizerDispatchMode",
    "CUDASanitizerErrors",
    "DataPtr",
    "EventHandler",
    "EventId",
    "SeqNum",
    "StreamId",
    "StreamSynchronizations",
    "SynchronizationError",
    "TensorInfo",
    "UnsynchronizedAccessError",
    "cuda_sanitizer",
    "enable_cuda_sanitizer",
    "logger",
    "zip_arguments",
    "zip_by_key",
]

_TensorsAccessed = TensorsAccessed  # torch's name

TK = TypeVar("TK")
TVa = TypeVar("TVa")
TVb = TypeVar("TVb")

#: Factories that use only the shape of a tensor.
FACTORY_FUNCTION_REGEX: Final = re.compile("(new_.*|.*_like)")


class EventHandler:
    """Receives operators and callbacks, and returns races.

    Attributes:
        tensors_accessed: The tensors.
        syncs: The streams and events.
        seq_num: Number of the last kernel.
    """

    def __init__(self) -> None:
        self.tensors_accessed = TensorsAccessed()
        self.syncs = StreamSynchronizations()
        self.seq_num: SeqNum = 0
        self._detector = Detector()
        self._detector.clocks = self.syncs.clocks

    def _handle_kernel_launch(
        self,
        stream: StreamId,
        read_only: Collection[DataPtr],
        read_write: Collection[DataPtr],
        outputs: Collection[DataPtr],
        operator: str,
        tensor_aliases: Mapping[int, list[str]],
    ) -> list[SynchronizationError]:
        """Check a kernel; returns its races."""
        self.seq_num += 1
        line, stack = self.syncs.line(stream), take_stack()
        errors: list[SynchronizationError] = []
        accesses = [(p, AccessType.READ) for p in read_only] + [(p, AccessType.WRITE) for p in read_write]
        for data_ptr, kind in accesses:
            self.tensors_accessed.ensure_tensor_exists(data_ptr)
            kernel = Kernel(kind, self.seq_num, stream, operator, tensor_aliases[data_ptr], data_ptr in outputs, stack)
            had_reads = self.tensors_accessed.were_there_reads_since_last_write(data_ptr)
            races = self._detector.launch(line, [self.tensors_accessed.visit(data_ptr, kernel)])
            if races:
                errors += self._errors(data_ptr, kernel, races, reads_only=had_reads and kind is AccessType.WRITE)
        return errors

    def _errors(
        self, data_ptr: DataPtr, kernel: Kernel, races: list[Race], *, reads_only: bool
    ) -> Iterator[UnsynchronizedAccessError]:
        """As torch: a write races with the reads since the last write, or with that write if there are none."""
        with_reads = [race for race in races if not race.first.is_write]
        self._detector.findings.clear()
        stack = self.tensors_accessed.get_allocation_stack_trace(data_ptr)
        for race in (with_reads or races) if reads_only else races:
            previous: Any = race.first.place
            yield UnsynchronizedAccessError(data_ptr, stack, kernel.access(), previous.access())

    def _handle_event_creation(self, event: EventId) -> None:
        self.syncs.create_event(event)

    def _handle_event_deletion(self, event: EventId) -> None:
        self.syncs.delete_event(event)

    def _handle_event_record(self, event: EventId, stream: StreamId) -> None:
        self.syncs.record_state(event, stream)

    def _handle_event_wait(self, event: EventId, stream: StreamId) -> None:
        self.syncs.stream_wait_for_event(stream, event)

    def _handle_memory_allocation(self, data_ptr: DataPtr) -> None:
        self.tensors_accessed.ensure_tensor_does_not_exist(data_ptr)
        self.tensors_accessed.create_tensor(data_ptr, take_stack())

    def _handle_memory_deallocation(self, data_ptr: DataPtr) -> None:
        self.tensors_accessed.ensure_tensor_exists(data_ptr)
        self.tensors_accessed.delete_tensor(data_ptr)

    def _handle_stream_creation(self, stream: StreamId) -> None:
        self.syncs.create_stream(stream)

    def _handle_device_synchronization(self) -> None:
        self.syncs.sync_all_streams()

    def _handle_stream_synchronization(self, stream: StreamId) -> None:
        self.syncs.all_streams_wait_for_stream(stream)

    def _handle_event_synchronization(self, event: EventId) -> None:
        self.syncs.all_streams_wait_for_event(event)


def zip_by_key(a: dict[TK, TVa], b: dict[TK, TVb]) -> Iterator[tuple[TK, TVa, TVb]]:
    """Key and both values, for the keys that are in both."""
    return ((key, value, b[key]) for key, value in a.items() if key in b)


def zip_arguments(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the arguments of a schema with their values, by position and then by name."""
    yield from zip(schema.arguments, args, strict=False)
    by_name = {argument.name: argument for argument in schema.arguments[len(args) :]}
    yield from ((argument, value) for _, argument, value in zip_by_key(by_name, kwargs))


class ArgumentHandler:
    """Sorts an operator's tensors into those that it reads and those that it writes.

    Args:
        device_type: Device type of the tensors that count.

    Attributes:
        dataptrs_read: Data pointers that are read.
        dataptrs_written: Data pointers that are written.
        tensor_aliases: The names of the arguments, by data pointer.
        outputs: Data pointers of its results.
    """

    def __init__(self, device_type: str = "cuda") -> None:
        self.device_type = device_type
        self.dataptrs_read: set[DataPtr] = set()
        self.dataptrs_written: set[DataPtr] = set()
        self.tensor_aliases: dict[DataPtr, list[str]] = {}
        self.outputs: set[DataPtr] = set()

    def _handle_argument(
        self, value: Any, is_write: bool, metadata_only: bool, name: str | None = None, is_output: bool = False
    ) -> None:
        if not isinstance(value, torch.Tensor) or value.device.type != self.device_type:
            return
        data_ptr = value.data_ptr() or id(value)  # all empty tensors have pointer 0 and share no memory
        if is_write:
            self.dataptrs_written.add(data_ptr)
        elif not metadata_only:
            self.dataptrs_read.add(data_ptr)
        self.tensor_aliases.setdefault(data_ptr, []).extend(() if name is None else (name,))
        if is_output:
            self.outputs.add(data_ptr)

    def parse_inputs(self, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_factory: bool) -> None:
        """Add the arguments; a factory does not read them."""
        for argument, value in zip_arguments(schema, args, kwargs):
            is_write = argument.alias_info is not None and argument.alias_info.is_write
            is_view = argument.alias_info is not None and not argument.alias_info.is_write
            for leaf in pytree.tree_leaves(value):
                self._handle_argument(leaf, is_write, is_factory or is_view, argument.name)

    def parse_outputs(self, schema: Any, outputs: Any, *, is_factory: bool) -> None:
        """Add the results; views of arguments are not written."""
        several = isinstance(outputs, (tuple, list)) and len(schema.returns) == len(outputs) > 1
        for result, value in zip(schema.returns, outputs if several else (outputs,), strict=False):
            is_view = result.alias_info is not None and not result.alias_info.is_write
            for leaf in pytree.tree_leaves(value):
                self._handle_argument(leaf, not (is_factory or is_view), is_factory or is_view, is_output=True)


class CUDASanitizerDispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Checks every operator, and raises at the first race.

    Attributes:
        event_handler: The state.
    """

    cudalens_observes = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.event_handler = EventHandler()
        self._subscription: gpu_trace.Subscription | None = None

    def __enter__(self) -> CUDASanitizerDispatchMode:
        if self._subscription is None:
            self._subscription = gpu_trace.subscribe(self._on_record)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        super().__exit__(exc_type, exc_val, exc_tb)  # type: ignore[no-untyped-call]
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def _on_record(self, record: gpu_trace.Record) -> None:
        handler = self.event_handler
        match record:
            case gpu_trace.EventCreated(event):
                handler._handle_event_creation(event)
            case gpu_trace.EventDeleted(event):
                handler._handle_event_deletion(event)
            case gpu_trace.EventRecorded(event, stream):
                handler._handle_event_record(event, stream)
            case gpu_trace.EventWaited(event, stream):
                handler._handle_event_wait(event, stream)
            case gpu_trace.MemoryAllocated(address):
                handler._handle_memory_allocation(address)
            case gpu_trace.MemoryFreed(address):
                handler._handle_memory_deallocation(address)
            case gpu_trace.StreamCreated(stream):
                handler._handle_stream_creation(stream)
            case gpu_trace.DeviceSynchronized():
                handler._handle_device_synchronization()
            case gpu_trace.StreamSynchronized(stream):
                handler._handle_stream_synchronization(stream)
            case gpu_trace.EventSynchronized(event):
                handler._handle_event_synchronization(event)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if func is torch.ops.aten.record_stream.default:  # no kernel
            return func(*args, **kwargs)
        is_factory = bool(FACTORY_FUNCTION_REGEX.fullmatch(func._schema.name.rpartition("::")[2]))
        found = ArgumentHandler()
        found.parse_inputs(func._schema, args, kwargs, is_factory=is_factory)
        with modes.conjugation(func):
            outputs = func(*args, **kwargs)
        found.parse_outputs(func._schema, outputs, is_factory=is_factory)
        self._judge(func, found)
        return outputs

    def _judge(self, func: Any, found: ArgumentHandler) -> None:
        errors = self.event_handler._handle_kernel_launch(
            current_stream(current_device()),
            found.dataptrs_read - found.dataptrs_written,
            found.dataptrs_written,
            found.outputs,
            func._schema,
            found.tensor_aliases,
        )
        if errors:
            for error in errors:
                sys.stderr.write(f"{error}\n")
            raise CUDASanitizerErrors(errors)


class CUDASanitizer:
    """Enables and disables a dispatch mode, in any order with other modes of cudalens.

    Attributes:
        dispatch: The mode.
        enabled: Whether it is on.
    """

    def __init__(self) -> None:
        self.dispatch = CUDASanitizerDispatchMode()
        self.enabled = False

    def enable(self) -> None:
        """Check this thread's operators from now on. No effect if it is enabled."""
        if not self.enabled:
            modes.enter(self.dispatch)
            self.enabled = True

    def disable(self) -> None:
        """Stop, and remove the mode. No effect if it is disabled."""
        if self.enabled:
            modes.leave(self.dispatch)
            self.enabled = False

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing() and self.enabled:
            self.disable()


def enable_cuda_sanitizer() -> None:
    """Check this thread's operators from now on: a race is printed to stderr and raised."""
    cuda_sanitizer.enable()


cuda_sanitizer: Final = CUDASanitizer()
