"""Record the virtual device's work, runtime calls and allocator actions in a profiled block.

Kineto runs at the same time and records the host's real call tree in real time. *Marks* connect the two records: short
record functions that the recorder adds to Kineto's events, each with a number as name. A mark is in the call tree where
the virtual device did something, and the number identifies what it did.

An operator's handler is one mark from its start to its end; everything in it on the same thread belongs to it. Actions
outside of a handler get a mark without duration.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from cudalens.device import call_tracing
from cudalens.device.own_work import MARK
from cudalens.errors import VirtualDeviceError

if TYPE_CHECKING:
    from cudalens.virtual.allocator import Action
    from cudalens.virtual.timing.interfaces import Awaited, Placed, Work
    from cudalens.virtual.timing.machine import Device, Machine
    from cudalens.virtual.timing.streams import Stream

#: The name of a handler whose rows are all internal.
HIDDEN: Final = ""


class Call(NamedTuple):
    """A call of the CUDA runtime or driver.

    Attributes:
        mark: The number of its mark.
        tid: The thread id.
        name: The function.
        start_ns: Virtual ns.
        end_ns: Virtual ns.
        correlation_id: The correlation id, shared with the work that it launched.
    """

    mark: int
    tid: int
    name: str
    start_ns: int
    end_ns: int
    correlation_id: int


class MemoryAct(NamedTuple):
    """An action of a device's caching allocator.

    Attributes:
        mark: The number of its mark.
        tid: The thread id.
        kind: `Action.kind`.
        now_ns: Virtual ns.
        device: Index of the device.
        address: The address.
        num_bytes: The requested size.
        block_bytes: The rounded size.
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
    """A wait of the host or of a stream; `stream` is None for a device or a CUDA event."""

    name: str
    stream: Stream | None
    device: Device
    start_ns: int
    end_ns: int
    correlation_id: int
    awaited: Awaited | None = None


class DeviceRange(NamedTuple):
    """A range that the program recorded on a stream."""

    name: str
    stream: Stream
    start_ns: int
    end_ns: int


class Cut(NamedTuple):
    """A moment of a record, to leave out what was before.

    Attributes:
        mark: The number of a mark.
        now_ns: Virtual ns.
        num_acts: Acts before it.
        num_works: Work that was issued before it.
        num_waits: Waits before it.
        num_ranges: Ranges on streams that ended before it.
        bytes: Allocated and reserved bytes of each device.
    """

    mark: int
    now_ns: int
    num_acts: int
    num_works: int
    num_waits: int
    num_ranges: int
    bytes: list[tuple[int, int]]


class _PerThread(threading.local):
    """The current handler of a thread, and its last freed block."""

    def __init__(self) -> None:
        self.tid = threading.get_native_id()
        self.handler = 0
        self.freed = (0, 0)


class Recorder:
    """Records the events of a machine. Methods only append; columns are built after the block.

    Args:
        machine: The machine; its current time is the start of the record.
        numbers: Mark numbers, shared by all recorders of one block.

    Attributes:
        tid: The thread id of the program's main thread.
        start_ns: Start of the record, virtual ns.
        end_ns: End of the record; `start_ns` before `close`.
        first_mark: The mark of its start in the call tree.
        last_mark: The mark of its end; 0 before `close`.
        begun: Handler starts: mark, operator, virtual ns.
        ended: Handler ends: mark, virtual ns.
        host_times: Measured real time of the program's own code: mark of its end, start and end in virtual ns.
        acts: Runtime calls and allocator actions in order; after `close`.
        ranges: Names of the program's ranges, by mark.
        instants: Names of the program's instants, by mark.
        works: The work of streams.
        waits: The waits.
        device_ranges: The ranges on streams.
        initial_bytes: The allocated and reserved bytes of each device at the start.
    """

    def __init__(self, machine: Machine, numbers: Iterator[int]) -> None:
        self._mark_type = _mark_type()
        self._machine, self._numbers = machine, numbers
        self._per_thread = _PerThread()
        self.tid = self._per_thread.tid
        self._listening: list[tuple[list[Any], Callable[[Action], None]]] = []
        self.start_ns = self.end_ns = machine.now_ns
        self.begun: list[tuple[int, str, int]] = []
        self.ended: list[tuple[int, int]] = []
        self.host_times: list[tuple[int, int, int]] = []
        self.acts: list[Call | MemoryAct] = []
        # Plain tuples while the program runs: creating named tuples would dominate the cost.
        self._acts: list[tuple[Any, ...]] = []
        self.ranges: dict[int, str] = {}
        self.instants: dict[int, str] = {}
        self.works: list[tuple[Stream, Work, Placed]] = []
        self.waits: list[Wait] = []
        self.device_ranges: list[DeviceRange] = []
        self.initial_bytes = [_memory_of(device) for device in machine.devices]
        self._ops: dict[int, str | None] = {}
        self.first_mark, self.last_mark = self._point(), 0

    def listen_to_memory(self) -> None:
        """Also record allocator actions, until `close`."""
        for device in self._machine.devices:
            listeners, listener = device.allocator.listeners, self._listener(device.index)
            listeners.append(listener)
            self._listening.append((listeners, listener))

    @call_tracing.pausable
    def close(self) -> None:
        """End the record."""
        while self._listening:
            listeners, listener = self._listening.pop()
            listeners.remove(listener)
        self.end_ns, self.last_mark = self._machine.now_ns, self._point()
        self._ops = {placed.correlation_id: work.op for _, work, placed in self.works}
        self.acts = [Call(*act) if len(act) == _CALL_LENGTH else MemoryAct(*act) for act in self._acts]

    def cut(self) -> Cut:
        """Return the present moment, for `without_start`."""
        counts = len(self._acts), len(self.works), len(self.waits), len(self.device_ranges)
        return Cut(self._point(), self._machine.now_ns, *counts, [_memory_of(one) for one in self._machine.devices])

    def without_start(self, cut: Cut) -> Recorder:
        """Return this record without what was before a moment; after `close`."""
        made = copy.copy(self)
        made.first_mark, made.initial_bytes = cut.mark, cut.bytes
        made.acts, made.works = self.acts[cut.num_acts :], self.works[cut.num_works :]
        made.waits, made.device_ranges = self.waits[cut.num_waits :], self.device_ranges[cut.num_ranges :]
        made.begun = [one for one in self.begun if one[0] > cut.mark]
        made.ended = [one for one in self.ended if one[0] > cut.mark]
        made.host_times = [one for one in self.host_times if one[0] > cut.mark]
        return made

    def begin(self, operator: str) -> tuple[Any, int, int]:
        """An operator's handler starts, or (`HIDDEN`) internal work that no trace of a GPU contains.

        Returns:
            The argument for `end`.
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

    def passed(self, start_ns: int, end_ns: int) -> None:
        """The program's own code, which ends here, took as much real time."""
        self.host_times.append((self._point(), start_ns, end_ns))

    def called(self, name: str, start_ns: int, end_ns: int, correlation_id: int) -> None:
        """A call of the CUDA runtime or driver."""
        per_thread = self._per_thread
        mark = per_thread.handler or self._point()
        self._acts.append((mark, per_thread.tid, name, start_ns, end_ns, correlation_id))

    def worked(self, stream: Stream, work: Work, placed: Placed) -> None:
        """Work was issued to a stream."""
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
        """The program starts a range; returns the argument for `closed`."""
        number = next(self._numbers)
        self.ranges[number] = name
        mark = self._mark_type(f"{MARK}{number}")
        mark.__enter__()
        return mark

    def closed(self, opened: Any) -> None:
        """The program ends a range."""
        opened.__exit__(None, None, None)

    def marked(self, name: str) -> None:
        """The program marks an instant."""
        self.instants[self._point()] = name

    def ranged(self, name: str, stream: Stream, start_ns: int, end_ns: int) -> None:
        """The program ended a range on a stream."""
        self.device_ranges.append(DeviceRange(name, stream, start_ns, end_ns))

    def op_of(self, correlation_id: int) -> str | None:
        """Return the operator that issued work in the call of that id; None if the call issued none. After `close`."""
        return self._ops.get(correlation_id)

    def _point(self) -> int:
        """Add a mark without duration."""
        number = next(self._numbers)
        with self._mark_type(f"{MARK}{number}"):
            return number

    def _listener(self, device: int) -> Callable[[Action], None]:
        def listen(action: Action) -> None:
            per_thread = self._per_thread
            mark = per_thread.handler
            if not mark:
                # A block that is freed immediately has one act for both actions.
                freed, last = per_thread.freed
                mark = last if action.kind == "free_completed" and freed == action.address else self._point()
                per_thread.freed = (action.address if action.kind == "free_requested" else 0, mark)
            block_bytes = action.block_bytes or action.num_bytes
            now, tid = self._machine.now_ns, per_thread.tid
            self._acts.append((mark, tid, action.kind, now, device, action.address, action.num_bytes, block_bytes))

        return listen


def _memory_of(device: Device) -> tuple[int, int]:
    allocator = device.allocator
    return (allocator.allocated_bytes, allocator.reserved_bytes) if allocator is not None else (0, 0)


def _mark_type() -> Any:
    """Return torch's fastest record function (about 1 us while a profiler runs)."""
    kind = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", None)
    if kind is None:
        raise VirtualDeviceError(
            f"torch {torch.__version__} has no torch._C._profiler._RecordFunctionFast, which the virtual device "
            "needs to mark its work in a profile. Use torch 2.9 to 2.15."
        )
    return kind
