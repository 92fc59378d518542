"""The allocator's memory as a Trace: a snapshot now, or the history of a block of code."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import torch
from msgspec.structs import replace

from cudalens.api.run_info import run_info
from cudalens.api.session import Outcome, runs
from cudalens.device import facts
from cudalens.errors import MemorySnapshotError
from cudalens.frames import Trace
from cudalens.memory import MemoryCollector
from cudalens.memory.leaks import watched_cells
from cudalens.memory.snapshot import MAX_ENTRIES
from cudalens.virtual import active

_numbers: Final = itertools.count(1)


def memory_snapshot(
    name: str | None = None,
    *,
    namespace: Mapping[str, Any] | None = None,
    error: BaseException | None = None,
    keep: bool = True,
    shell: Any = None,
) -> Trace:
    """A Trace of the current memory of the CUDA allocator: ``trace.blocks``, with the holder and purpose of each block.

    If the program records a history (``torch.cuda.memory._record_memory_history``), it is in ``trace.memory``. This
    function does not switch recording on.

    Args:
        name: Name of the run; by default ``memory-<number>``.
        namespace: Variables to name blocks by; by default those of the notebook, or of ``__main__``.
        error: An exception; the variables in its traceback name blocks as well. Or None.
        keep: Keep the Trace in `cudalens.runs`.
        shell: IPython's shell, if it is not the one of this process.

    Raises:
        MemorySnapshotError: There is no CUDA device.
    """
    collector = MemoryCollector(
        namespace=namespace, cells=watched_cells(), graphs=_managed(), with_history=False, shell=shell
    )
    collector.start()
    now = time.time_ns()
    collector.error = error
    try:
        collector.stop()
    finally:
        collector.error = None
    trace = _trace(collector, name or f"memory-{next(_numbers)}", (now, now), Outcome.of(error))
    return runs.add(trace) if keep else trace


class memory_history:  # noqa: N801 - reads as what it makes
    """Record the allocator's history during a block of code, and take a snapshot at its end.

    An object can be used only once. If the block raises, the snapshot is taken at that moment and the exception
    propagates. A history that the program itself records is used and stays on.

    Args:
        name: Name of the run; by default ``memory-<number>``.
        max_entries: Largest number of actions to keep; older ones are dropped.
        stacks: Whether call stacks are recorded.
        namespace: Variables to name blocks by; by default those of the notebook, or of ``__main__``.
        keep: Keep the Trace in `cudalens.runs`.
        code: Source of the block, for the run info.
        shell: IPython's shell, if it is not the one of this process.

    Raises:
        MemorySnapshotError: On entry: there is no CUDA device.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        max_entries: int = MAX_ENTRIES,
        stacks: bool = True,
        namespace: Mapping[str, Any] | None = None,
        keep: bool = True,
        code: str | None = None,
        shell: Any = None,
    ) -> None:
        self._name, self._keep, self._code = name, keep, code
        self._cells: dict[Any, str] = {}
        self._pools: dict[Any, str] = {}
        self._collector = MemoryCollector(
            namespace=namespace,
            max_entries=max_entries,
            stacks=stacks,
            cells=self._cells,
            graphs=self._pools,
            shell=shell,
        )
        self._started_ns: int | None = None
        self._trace: Trace | None = None

    def will_show(self, number: int, value: Any) -> None:
        """Announce that IPython will display `value` after the block: a tensor in it gets the name Out[number]."""
        self._collector.outputs = {number: value}

    @property
    def trace(self) -> Trace:
        """The recorded Trace.

        Raises:
            MemorySnapshotError: The block has not ended yet.
        """
        if self._trace is None:
            raise MemorySnapshotError("there is no trace yet: it is made when the block ends.")
        return self._trace

    def __enter__(self) -> memory_history:
        if self._started_ns is not None:
            raise MemorySnapshotError("a memory_history object can be used only once; make another.")
        self._collector.start()
        self._started_ns = time.time_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        self._collector.error = error
        try:
            self._cells |= watched_cells()
            self._pools |= _managed()
            self._collector.stop()
        finally:
            self._collector.error = None
        window = (self._started_ns, time.time_ns())
        name = self._name or f"memory-{next(_numbers)}"
        self._trace = _trace(self._collector, name, window, Outcome.of(error), code=self._code)
        if self._keep:
            runs.add(self._trace)


def _trace(
    collector: MemoryCollector,
    name: str,
    window: tuple[int | None, int | None],
    outcome: Outcome,
    *,
    code: str | None = None,
) -> Trace:
    frames = collector.frames()
    on = active()
    memory = frames["memory"]
    if on is not None:  # a virtual device has its own clock
        window = (int(memory["ts"].iloc[0]), int(memory["ts"].iloc[-1])) if len(memory) else (None, None)
    info = run_info(
        name,
        outcome,
        started_ns=window[0],
        ended_ns=window[1],
        build_s=collector.build_s,
        options=collector.options,
        devices=tuple(replace(one, is_modelled=on is not None) for one in facts.devices(torch)),
        code=code,
        problems=collector.problems,
        extra=collector.extra,
    )
    return Trace(info, **frames)


def _managed() -> dict[tuple[int, int], str]:
    """Return a name for the graphs in each memory pool of the graph managers: the functions that they record."""
    managers = sys.modules.get("cudalens.graphs.managers")
    found: dict[tuple[int, int], dict[str, None]] = {}
    for manager in managers.managers() if managers is not None else ():
        frame = manager.frame()
        rows = frame[(frame["kind"] == "recording").to_numpy() & frame["pool"].notna().to_numpy()]
        for pool, function in zip(rows["pool"].astype(object), rows["function"].astype(object), strict=True):
            first, second = json.loads(pool)
            found.setdefault((first, second), {}).setdefault(str(function))
    return {pool: f"graphs of {', '.join(functions)}" for pool, functions in found.items()}
