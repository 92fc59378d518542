"""The nodes and edges of the dependency graph as arrays: device work, waits of threads, and their causes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cudalens.frames.column_arrays import Bools, Ints


@dataclass(frozen=True)
class Window:
    """The analysed part of a trace; ns.

    Attributes:
        begin: Start of the path.
        host_end: End of the host threads; device work launched before it belongs to the part.
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
        end: End; or the end of the host's wait for it, if that is earlier because the clocks differ.
        launch: Row of the launching call, -1 where unknown.
        issued: Start of its launch; its own start if that is unknown.
        has_launch: Whether its launch is in the window, on a host thread, and not after its start.
        is_first: Whether it is the first of its stream.
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
        """End of the previous work on the stream; the own start for the first."""
        return np.where(self.is_first, self.start, np.roll(self.end, 1)) if len(self) else self.end


@dataclass
class Arrivals:
    """The ends of waits of host threads; arrays of shape (a,), by thread and time, ns.

    Attributes:
        thread: Number of the thread.
        since: Start of the wait.
        time: End of the wait.
        own: Duration of the call if there is nothing to wait for.
        row: Row of the call; -1 if the thread waits for another thread.
        is_sync: Whether it is a synchronising call, not a wait for a thread.
        source: Position of the binding cause; -1 if it did not wait.
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
    """The causes of arrivals: device work or a moment of another thread; arrays of shape (c,).

    Attributes:
        arrival: Position of the arrival.
        work: Position of the device work whose end is waited for, -1 for a moment of a thread.
        thread: The other thread, -1 for device work.
        time: The moment of that thread, or the end of the work, ns.
        lag: Least time from then to the arrival, ns.
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
        lag: Least time from the end of the source to the start of the target, ns.
    """

    source: Ints
    target: Ints
    lag: Ints
