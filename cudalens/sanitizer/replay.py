"""Check a recorded program offline: a list of plain operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from cudalens.errors import RecordError, invalid_choice
from cudalens.sanitizer.engine import (
    HOST,
    BlockRecordedOnStream,
    Detector,
    DeviceSynchronized,
    EventDeleted,
    EventFoundDone,
    EventRecorded,
    EventSynchronized,
    EventWaited,
    HostAccessed,
    MemoryAllocated,
    MemoryFreed,
    OperatorLaunched,
    Race,
    Record,
    Region,
    StreamCreated,
    StreamFoundDone,
    StreamId,
    StreamSynchronized,
    TensorBytes,
)

_ACCESS: Final = re.compile(r"(?P<tensor>[^\[\]]+)(\[(?P<numbers>\d+(:\d+){1,3})\])?")
_GAP: Final = 512  # the allocator's granularity: distinct blocks never touch


def replay(ops: Iterable[Mapping[str, Any]]) -> list[Race]:
    """Return the races of a recorded program.

    Args:
        ops: The program in the order in which the host issued it, each op a mapping with ``op`` and its fields:
            ``alloc t bytes stream [host] [reuse]``, ``free t``, ``record_stream t stream``,
            ``launch stream reads writes [name]``, ``event_record event stream``, ``event_wait event stream``,
            ``event_sync event``, ``event_query event``, ``event_delete event``, ``stream_sync stream``,
            ``stream_query stream``, ``stream_create stream [blocking]``, ``device_sync [device]``, ``host_read t``,
            ``host_write t``. An access is ``t``, ``t[lo:hi]`` or ``t[lo:hi:step:run]`` in bytes (`run` bytes at lo,
            lo+step …). Stream ``s0`` is the default stream; ``1/s0`` is that of device 1. Queries are those that
            were answered "done". Other fields are ignored.

    Returns:
        One `Race` per finding, in order of discovery.

    Raises:
        RecordError: An op is of an unknown kind, lacks a field, or touches bytes outside of its allocation; the
            message names the op by its position.
    """
    detector = Detector()
    for position, op, record in _records(ops):
        try:
            detector.add(record)
        except ValueError as error:
            raise _refusal(position, op, error) from error
    return detector.races


def records_of(ops: Iterable[Mapping[str, Any]]) -> list[Record]:
    """The records of a recorded program as `replay` takes it, one per op.

    Raises:
        RecordError: As `replay` does.
    """
    return [record for _, _, record in _records(ops)]


def _records(ops: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any], Record]]:
    program = _Program()
    for position, op in enumerate(ops):
        try:
            record = program.record(op)
        except (KeyError, TypeError, ValueError) as error:
            raise _refusal(position, op, error) from error
        yield position, op, record


def _refusal(position: int, op: Mapping[str, Any], error: Exception) -> RecordError:
    reason = f"it lacks the field {error}" if isinstance(error, KeyError) else str(error)
    return RecordError(f"op {position}, {dict(op) if isinstance(op, Mapping) else op!r}: {reason}")


def _stream(name: str) -> StreamId:
    device, _, stream = str(name).rpartition("/")
    return StreamId(int(device or 0), 0 if stream == "s0" else stream)


class _Program:
    """Gives the names of a recorded program addresses."""

    def __init__(self) -> None:
        self._regions: dict[str, Region] = {}
        self._next = _GAP

    def record(self, op: Mapping[str, Any]) -> Record:
        if not isinstance(op, Mapping):
            raise TypeError("expected a mapping with the field 'op'")
        make = _MAKERS.get(op["op"])
        if make is None:
            raise invalid_choice("op", op["op"], sorted(_MAKERS))
        return make(self, op)

    def region(self, tensor: str) -> Region:
        if tensor not in self._regions:
            raise ValueError(f"'{tensor}' was never allocated")
        return self._regions[tensor]

    def access(self, text: str) -> TensorBytes:
        match = _ACCESS.fullmatch(text)
        if match is None:
            raise ValueError(f"'{text}' is not an access; expected t, t[lo:hi] or t[lo:hi:step:run]")
        whole = self.region(match["tensor"])
        numbers = [int(n) for n in match["numbers"].split(":")] if match["numbers"] else [0, whole.run]
        part = _part(whole, numbers, text)
        if part.end > whole.end:
            raise ValueError(f"'{text}' reaches byte {part.end - whole.start} of {whole.run}")
        return TensorBytes(match["tensor"], part)

    def accesses(self, texts: Iterable[str]) -> tuple[TensorBytes, ...]:
        """Return the accesses that touch any byte at all."""
        return tuple(a for a in map(self.access, texts) if a.region.run)

    def alloc(self, op: Mapping[str, Any]) -> MemoryAllocated:
        size = int(op["bytes"])
        start = self.region(op["reuse"]).start if op.get("reuse") else self._fresh(size)
        region = self._regions[op["t"]] = Region(start, size)
        return MemoryAllocated(op["t"], region, HOST if op.get("host") else _stream(op["stream"]))

    def _fresh(self, size: int) -> int:
        start = self._next
        self._next += (max(size, 1) + 2 * _GAP - 1) // _GAP * _GAP
        return start


def _part(whole: Region, numbers: list[int], text: str) -> Region:
    if len(numbers) == 3:
        raise ValueError(f"'{text}' has a step and no run; expected t[lo:hi:step:run]")
    low, high = numbers[:2]
    if high < low:
        raise ValueError(f"'{text}' ends before it starts")
    if len(numbers) == 2 or high == low:
        return Region(whole.start + low, high - low)
    step, run = numbers[2:]
    if step < 1:
        raise ValueError(f"'{text}' has a step of {step}; expected 1 or more")
    return Region(whole.start + low, run, (-(-(high - low) // step),), (step,))


_MAKERS: Final[Mapping[str, Callable[[_Program, Mapping[str, Any]], Record]]] = {
    "alloc": lambda program, op: program.alloc(op),
    "free": lambda program, op: MemoryFreed(op["t"], program.region(op["t"])),
    "record_stream": lambda program, op: BlockRecordedOnStream(program.region(op["t"]), _stream(op["stream"])),
    "launch": lambda program, op: OperatorLaunched(
        _stream(op["stream"]), program.accesses(op["reads"]), program.accesses(op["writes"]), op.get("name", "")
    ),
    "event_record": lambda program, op: EventRecorded(op["event"], _stream(op["stream"])),
    "event_wait": lambda program, op: EventWaited(op["event"], _stream(op["stream"])),
    "event_sync": lambda program, op: EventSynchronized(op["event"]),
    "event_query": lambda program, op: EventFoundDone(op["event"]),
    "event_delete": lambda program, op: EventDeleted(op["event"]),
    "stream_create": lambda program, op: StreamCreated(_stream(op["stream"]), bool(op.get("blocking"))),
    "stream_sync": lambda program, op: StreamSynchronized(_stream(op["stream"])),
    "stream_query": lambda program, op: StreamFoundDone(_stream(op["stream"])),
    "device_sync": lambda program, op: DeviceSynchronized(int(op.get("device", 0))),
    "host_read": lambda program, op: HostAccessed(program.access(op["t"]), is_write=False),
    "host_write": lambda program, op: HostAccessed(program.access(op["t"]), is_write=True),
}
