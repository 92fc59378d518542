"""The nodes and edges of the dependency graph, as arrays: device work, waiting threads, and what they wait for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Window:
    """The part of a trace that is looked at; ns.

    Attributes:
        begin: Where the path starts.
        host_end: Until when host threads are looked at, and whose launches belong to it.
    """

    begin: int
    host_end: int


@dataclass
class Works:
    """Device work by stream and start; arrays of shape (w,), times in ns.

    Attributes:
        row: Row of the events frame.
        chain: Number of its stream.
        device: Device index, -1 where unknown.
        stream: Stream, -1 where unknown.
        kind: As in `cudalens.analysis.time.work.Work`.
        start: Start, not before the window.
        end: End; where the host saw it done a little earlier, by clocks that differ, that moment.
        launch: Row of the launching call, -1 where unknown.
        issued: When it was launched; its start where that is unknown.
        has_launch: Its launch lies in the window, on a host thread, and not after its start.
        is_first: It is the first of its stream.
        first: First work of each stream, shape (num_chains,).
        stop: One past the last work of each stream, shape (num_chains,).
    """

    row: Ints
    chain: Ints
    device: Ints
    stream: Ints
    kind: NDArray[np.int8]
    start: Ints
    end: Ints
    launch: Ints
    issued: Ints
    has_launch: Bools
    is_first: Bools
    first: Ints
    stop: Ints

    def __len__(self) -> int:
        return len(self.row)

    @property
    def previous_end(self) -> Ints:
        """End of the work before it on its stream; its own start for the first."""
        return np.where(self.is_first, self.start, np.roll(self.end, 1)) if len(self) else self.end


@dataclass
class Arrivals:
    """Moments at which a host thread goes on after it waited; arrays of shape (a,), by thread and time, ns.

    Attributes:
        thread: Number of the thread.
        since: From when on it waited.
        time: When it went on.
        own: What the call costs where nothing is waited for.
        row: Row of the call; -1 where the thread waited for another one.
        is_sync: A synchronising call, not a thread.
        source: Binding cause: position in the list of causes; -1 where it did not wait.
    """

    thread: Ints
    since: Ints
    time: Ints
    own: Ints
    row: Ints
    is_sync: Bools
    source: Ints


@dataclass
class Causes:
    """What arrivals wait for: device work or a moment of another thread; arrays of shape (c,).

    Attributes:
        arrival: Position of the arrival.
        work: Position of the device work whose end is waited for, -1 for a moment of a thread.
        thread: The other thread, -1 for device work.
        time: The moment of it, or the end of the work, ns.
        lag: From then to the arrival at least, ns.
    """

    arrival: Ints
    work: Ints
    thread: Ints
    time: Ints
    lag: Ints


@dataclass
class EventEdges:
    """Work that waits for a CUDA event; arrays of shape (k,).

    Attributes:
        source: Position of the work that the event marks.
        target: Position of the first work after the wait.
        lag: From the end of the one to the start of the other at least, ns.
    """

    source: Ints
    target: Ints
    lag: Ints
