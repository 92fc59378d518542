"""What happened on the virtual clock, as tuples in lists: the virtual device's own record of a profiled block.

Kineto runs beside it and records the host's true call tree in real time. What ties the two together are *marks*: tiny
record functions that the recorder puts into Kineto's stream of events, each named by a number. A mark stands in the
call tree exactly where the virtual device did something, however the two clocks differ; the number says what it was.

An operator's handler is one mark from its beginning to its end, and all that happens in it on the same thread belongs
to it. What happens outside of a handler gets a mark of no length.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from cudalens.errors import VirtualDeviceError

if TYPE_CHECKING:
    from cudalens.virtual.allocator import Action
    from cudalens.virtual.timing.interfaces import Awaited
    from cudalens.virtual.timing.machine import Device, Machine
    from cudalens.virtual.timing.streams import Stream
    from cudalens.virtual.timing.work import Placed, Work

#: How the names of marks begin; their number follows.
MARK: Final = "#cudalens:"

#: Name of a handler whose every row is the virtual device's own doing.
HIDDEN: Final = ""


class Call(NamedTuple):
    """The host called the CUDA runtime or driver.

    Attributes:
        mark: Number of the mark that it belongs to.
        tid: The system's number of the thread.
        name: The function.
        start_ns: Virtual ns.
        end_ns: Virtual ns.
        correlation_id: Ties it to the work that it launched.
    """

    mark: int
    tid: int
    name: str
    start_ns: int
    end_ns: int
    correlation_id: int


class MemoryAct(NamedTuple):
    """The caching allocator of a device did something.

    Attributes:
        mark: Number of the mark that it belongs to.
        tid: The system's number of the thread.
        kind: As `Action.kind`.
        now_ns: Virtual ns.
        device: Index of the device.
        address: Where.
        num_bytes: What the program asked for.
        block_bytes: What the allocator took for it.
    """

    mark: int
    tid: int
    kind: str
    now_ns: int
    device: int
    address: int
    num_bytes: int
    block_bytes: int


_CALL_LENGTH: Final = len(Call._fields)


class Wait(NamedTuple):
    """The host or a stream waited; `stream` is None where a device or an event was waited for."""

    name: str
    stream: Stream | None
    device: Device
    start_ns: int
    end_ns: int
    correlation_id: int
    awaited: Awaited | None = None


class DeviceRange(NamedTuple):
    """A range that a program opened and closed on a stream."""

    name: str
    stream: Stream
    start_ns: int
    end_ns: int


class _PerThread(threading.local):
    """Which handler is under way on the thread, and what it gave back last."""

    def __init__(self) -> None:
        self.tid = threading.get_native_id()
        self.handler = 0
        self.freed = (0, 0)


class Recorder:
    """Listens to a machine. Every method only appends; columns are made when the block has ended.

    Args:
        machine: Whom to listen to; its time becomes the start of the record.
        numbers: Numbers for marks, shared by all recorders of one block.

    Attributes:
        start_ns: Where the record begins, virtual ns.
        end_ns: Where it ends; `start_ns` until `close`.
        first_mark: Where it begins in the call tree.
        last_mark: Where it ends there, 0 until `close`.
        begun: Handlers that began: mark, operator, virtual ns.
        ended: Handlers that ended: mark, virtual ns.
        acts: What the host did, in order; after `close`.
        ranges: Names of the ranges that the program opened, by mark.
        instants: Names of the instants that the program marked, by mark.
        works: What streams were given.
        waits: Who waited.
        device_ranges: Ranges on streams.
        held_bytes: What each device's allocator had handed out and reserved at the start.
    """

    def __init__(self, machine: Machine, numbers: Iterator[int]) -> None:
        self._mark_type = _mark_type()
        self._machine, self._numbers = machine, numbers
        self._per_thread = _PerThread()
        self._listening: list[tuple[list[Any], Callable[[Action], None]]] = []
        self.start_ns = self.end_ns = machine.now_ns
        self.begun: list[tuple[int, str, int]] = []
        self.ended: list[tuple[int, int]] = []
        self.acts: list[Call | MemoryAct] = []
        # Plain tuples while the program runs: making a named one takes longer than all the rest.
        self._acts: list[tuple[Any, ...]] = []
        self.ranges: dict[int, str] = {}
        self.instants: dict[int, str] = {}
        self.works: list[tuple[Stream, Work, Placed]] = []
        self.waits: list[Wait] = []
        self.device_ranges: list[DeviceRange] = []
        self.held_bytes = [_held(device) for device in machine.devices]
        self._ops: dict[int, str | None] = {}
        self.first_mark, self.last_mark = self._point(), 0

    def listen_to_memory(self) -> None:
        """Record what the allocators do as well, until `close`."""
        for device in self._machine.devices:
            listeners, listener = device.allocator.listeners, self._listener(device.index)
            listeners.append(listener)
            self._listening.append((listeners, listener))

    def close(self) -> None:
        """The record ends now."""
        while self._listening:
            listeners, listener = self._listening.pop()
            listeners.remove(listener)
        self.end_ns, self.last_mark = self._machine.now_ns, self._point()
        self._ops = {placed.correlation_id: work.op for _, work, placed in self.works}
        self.acts = [Call(*act) if len(act) == _CALL_LENGTH else MemoryAct(*act) for act in self._acts]

    def begin(self, operator: str) -> tuple[Any, int, int]:
        """An operator's handler begins, or (`HIDDEN`) something that no GPU's trace would show.

        Returns:
            What `end` needs.
        """
        number, per_thread = next(self._numbers), self._per_thread
        mark = self._mark_type(f"{MARK}{number}")
        outer, per_thread.handler = per_thread.handler, number
        self.begun.append((number, operator, self._machine.now_ns))
        mark.__enter__()
        return mark, number, outer

    def end(self, begun: tuple[Any, int, int]) -> None:
        """A handler ends."""
        mark, number, outer = begun
        mark.__exit__(None, None, None)
        self.ended.append((number, self._machine.now_ns))
        self._per_thread.handler = outer

    def called(self, name: str, start_ns: int, end_ns: int, correlation_id: int) -> None:
        """The host called the CUDA runtime or driver."""
        per_thread = self._per_thread
        mark = per_thread.handler or self._point()
        self._acts.append((mark, per_thread.tid, name, start_ns, end_ns, correlation_id))

    def worked(self, stream: Stream, work: Work, placed: Placed) -> None:
        """A stream was given work."""
        self.works.append((stream, work, placed))

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
        """The host, or a stream, waited."""
        self.waits.append(Wait(name, stream, device, start_ns, end_ns, correlation_id, awaited))

    def opened(self, name: str) -> Any:
        """The program opens a range; returns what `closed` needs."""
        number = next(self._numbers)
        self.ranges[number] = name
        mark = self._mark_type(f"{MARK}{number}")
        mark.__enter__()
        return mark

    def closed(self, opened: Any) -> None:
        """The program closes a range."""
        opened.__exit__(None, None, None)

    def marked(self, name: str) -> None:
        """The program marks an instant."""
        self.instants[self._point()] = name

    def ranged(self, name: str, stream: Stream, start_ns: int, end_ns: int) -> None:
        """The program closed a range that it had opened on a stream."""
        self.device_ranges.append(DeviceRange(name, stream, start_ns, end_ns))

    def op_of(self, correlation_id: int) -> str | None:
        """The operator that issued work by the call of that id; None where the call issued none. After `close`."""
        return self._ops.get(correlation_id)

    def _point(self) -> int:
        """A mark of no length."""
        number = next(self._numbers)
        with self._mark_type(f"{MARK}{number}"):
            return number

    def _listener(self, device: int) -> Callable[[Action], None]:
        def listen(action: Action) -> None:
            per_thread = self._per_thread
            mark = per_thread.handler
            if not mark:
                # A block that goes back at once was freed by one act.
                freed, last = per_thread.freed
                mark = last if action.kind == "free_completed" and freed == action.address else self._point()
                per_thread.freed = (action.address if action.kind == "free_requested" else 0, mark)
            block_bytes = action.block_bytes or action.num_bytes
            now, tid = self._machine.now_ns, per_thread.tid
            self._acts.append((mark, tid, action.kind, now, device, action.address, action.num_bytes, block_bytes))

        return listen


def _held(device: Device) -> tuple[int, int]:
    allocator = device.allocator
    return (allocator.allocated_bytes, allocator.reserved_bytes) if allocator is not None else (0, 0)


def _mark_type() -> Any:
    """The cheapest record function of torch (about 1 us while a profiler runs)."""
    kind = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", None)
    if kind is None:
        raise VirtualDeviceError(
            f"torch {torch.__version__} has no torch._C._profiler._RecordFunctionFast, by which the virtual device "
            "marks in a profile what it did. Use torch 2.9 to 2.13."
        )
    return kind
