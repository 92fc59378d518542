"""What happens before what: a vector clock for each stream and for the host.

Every operation gets an epoch, clock@stream, counted per stream. A vector clock holds, for a point in a stream, the
highest epoch of every stream that is done by then. An operation of stream s with clock c is done at that point exactly
when the vector has at least c for s.

What the host knows to be done when it issues an operation is done before that operation: every launch takes in the
host's clock.
"""

from __future__ import annotations

from cudalens.sanitizer.engine.records import HOST, StreamId

VectorClock = dict[StreamId, int]


def join(into: VectorClock, other: VectorClock) -> None:
    """Raise `into` to what `other` knows as well."""
    for stream, clock in other.items():
        if into.get(stream, 0) < clock:
            into[stream] = clock


class Clocks:
    """The clocks of all streams, of the host, and of the events."""

    def __init__(self) -> None:
        self.host: VectorClock = {HOST: 0}
        self._streams: dict[StreamId, VectorClock] = {}
        self._events: dict[object, VectorClock] = {}
        self._blocking: dict[StreamId, None] = {}

    def of(self, stream: StreamId) -> VectorClock:
        """The clock of `stream` (or of the host), made where it is new."""
        if stream == HOST:
            return self.host
        clock = self._streams.get(stream)
        if clock is None:
            clock = self._streams[stream] = {}
        return clock

    def make_blocking(self, stream: StreamId) -> None:
        """From now on, order `stream` with the legacy default stream of its device."""
        self._blocking[stream] = None

    def begin(self, stream: StreamId) -> VectorClock:
        """Put one operation on `stream`; returns the clock at its start, which its own epoch is part of."""
        clock = self.of(stream)
        join(clock, self.host)
        self._order_with_default(stream, clock)
        clock[stream] = clock.get(stream, 0) + 1
        return clock

    def _order_with_default(self, stream: StreamId, clock: VectorClock) -> None:
        default = StreamId(stream.device, 0)
        if stream == default:
            for blocking in self._blocking:
                if blocking.device == stream.device:
                    join(clock, self.of(blocking))
        elif stream in self._blocking:
            join(clock, self.of(default))

    def host_step(self) -> VectorClock:
        """One act of the host; returns the clock at it."""
        self.host[HOST] += 1
        return self.host

    def record(self, event: object, stream: StreamId) -> None:
        """Let `event` stand for all that `stream` holds now, and for nothing else from before."""
        clock = dict(self.of(stream))
        join(clock, self.host)
        self._order_with_default(stream, clock)
        self._events[event] = clock

    def wait(self, event: object, stream: StreamId) -> None:
        """Let `stream` (or the host) wait for `event`; an event never recorded orders nothing."""
        if (clock := self._events.get(event)) is not None:
            join(self.of(stream), clock)

    def delete(self, event: object) -> None:
        """Forget `event`. What waited for it has waited."""
        self._events.pop(event, None)

    def host_waits_for(self, stream: StreamId) -> None:
        """The host goes on when `stream` is done."""
        clock = dict(self.of(stream))
        self._order_with_default(stream, clock)
        join(self.host, clock)

    def host_waits_for_device(self, device: int) -> None:
        """The host goes on when all streams of `device` are done."""
        for stream, clock in self._streams.items():
            if stream.device == device:
                join(self.host, clock)
