"""CUDA graphs: captured operations do not run; each replay runs all of them.

A capture is checked as a program of its own: the side streams that it forks must be ordered within it. All its accesses
are one set, which each replay launches on its stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from cudalens.sanitizer.engine.accesses import AccessInfo, Allocation, CallSite, CellAccess, Operation, list_accesses
from cudalens.sanitizer.engine.blocks import Block
from cudalens.sanitizer.engine.cells import Cell
from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.races import Findings, Race
from cudalens.sanitizer.engine.shadow import Shadow
from cudalens.sanitizer.live.log import MAX_RECORDS


class Recording:
    """One capture and its operations.

    Args:
        graph: Number of the graph.
        origin: Line on which the capture began.
        findings: Receives the races within the capture.

    Attributes:
        graph: As `cudalens.device.gpu_trace_records.CaptureBegan` numbers it.
        device: Index of the GPU, on whose current stream torch replays the graph.
        is_open: Whether the capture is active.
        entries: The captured operations, event records and waits, as entries of `Log`.
    """

    def __init__(self, graph: int, origin: Line, findings: Findings) -> None:
        self.graph, self.device = graph, origin.id.device
        self.is_open = True
        self.entries: Final[deque[Sequence[Any]]] = deque(maxlen=MAX_RECORDS)
        self._inner = Detector(findings)
        self._lines = {origin}
        self._events: set[int] = set()
        self._blocks: dict[Block, Block] = {}
        self._visits: dict[tuple[Cell, bool], CellAccess] = {}
        self._replay_site: object = None

    def holds(self, line: Line) -> bool:
        """Whether work on a line is captured."""
        return line in self._lines

    def launch(self, op: Operation, position: int) -> list[Race]:
        """Capture an operation; returns its races with operations captured before."""
        self.entries.append(op)
        line, visits = op[2], list_accesses(op)
        self._inner.position = position
        known = self._inner.clocks.host.vector
        for cell, is_write, info in visits:
            self._visits.pop((cell, is_write), None)  # in order of the last operation that accesses a cell
            self._visits[cell, is_write] = (cell, is_write, info)
        inner = [
            (self._block(AccessInfo(*info).allocation.block).cell(c.region, known), w, info) for c, w, info in visits
        ]
        return self._inner.launch(self._inner.clocks.line(line.id), inner)

    def _block(self, block: Block) -> Block:
        found = self._blocks.get(block)
        if found is None:
            found = self._blocks[block] = Block(block.start, block.end)
        return found

    def record(self, cuda_event: int, line: Line) -> None:
        """An event was recorded on a captured line."""
        self.entries.append(("event_record", cuda_event, line))
        self._events.add(cuda_event)
        self._inner.clocks.record(cuda_event, self._inner.clocks.line(line.id))

    def wait(self, cuda_event: int, line: Line) -> bool:
        """A line waits for an event; True if the wait belongs to this capture, which the line joins."""
        if cuda_event not in self._events:
            return line in self._lines
        self.entries.append(("event_wait", cuda_event, line))
        self._lines.add(line)
        self._inner.clocks.wait(cuda_event, self._inner.clocks.line(line.id))
        return True

    def forget(self, cuda_event: int) -> None:
        """An event was deleted, or recorded outside of the capture."""
        self._events.discard(cuda_event)

    def close(self) -> None:
        """The capture ended."""
        self.is_open = False
        self._blocks.clear()
        self._lines.clear()
        self._events.clear()

    def visits(self, site: Any, shadow: Shadow, known: dict[int, int]) -> list[CellAccess]:
        """Return the accesses of a replay, in the order of the captured operations.

        Args:
            site: Call site of the replay.
            shadow: Of the program; its blocks may have other bounds than when the graph was captured.
            known: Work that the host has observed to be complete.
        """
        current: dict[tuple[Cell, bool], CellAccess] = {}
        for cell, is_write, fields in self._visits.values():
            info = AccessInfo(*fields)
            found = _current(shadow, cell, info.allocation, known)
            if site is not self._replay_site:
                captured = info.site.captured or info.site.place
                info = info._replace(site=CallSite(site.place, site.stack, captured))
            current[found, is_write] = (found, is_write, info)
        self._replay_site = site
        self._visits = current
        return list(current.values())


def _current(shadow: Shadow, cell: Cell, allocation: Allocation, known: dict[int, int]) -> Cell:
    """The current cell of a cell's bytes: its block may have been split since."""
    if allocation.block.is_current:
        return cell
    region = cell.region
    block = shadow.find(region.start, region.end)
    if block is None:
        block = shadow.claim(region.start, region.end, known)
    return block.cell(region, known)
