"""One run of the sanitizer: receive torch's operators and callbacks, and pass them to the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from cudalens.device import clock, gpu_trace
from cudalens.device.interrupts import DeferredInterrupts, defers_interrupts
from cudalens.device.streams import PER_THREAD, current_device
from cudalens.sanitizer.engine.accesses import Allocation, Line, Operand, Operation
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.races import Findings, Race
from cudalens.sanitizer.live.callbacks import Callbacks
from cudalens.sanitizer.live.calls import Call, Log, call
from cudalens.sanitizer.live.check_operations import HOST_WAITS, OperationChecker
from cudalens.sanitizer.live.memory import Memory
from cudalens.sanitizer.live.record_operator import MAX_WAITING, OperatorRecorder, Pending, Received, State, Threads
from cudalens.sanitizer.live.schema import Plan, dense, storage_of

#: Records that order something: their order with the launch of the operator that caused them matters.
_ORDERS: Final = frozenset((*HOST_WAITS, gpu_trace.EventRecorded, gpu_trace.EventWaited))


class Watch:
    """The state of one run.

    Args:
        findings: Receives the races.
        level: Number of other active runs: each has its own attribute of storages.
        on_races: Called with the races of an operator (True) or of a callback (False); may raise for the former.
        on_failure: Called once with an error in the sanitizer.
        interrupts: Defers Ctrl-C while pending operations are checked: a detector that stops half-way is wrong after.
        is_prompt: Whether each operator is checked as soon as it has run; otherwise some may be pending.

    Attributes:
        is_on: Whether operators are checked.
        detector: The engine.
        log: The last records.
        memory: The storages.
        threads: The state on each thread.
        callbacks: Passes torch's callbacks to the engine.
        guessed: Names of kernels whose written arguments are unknown.
        exported: Places that exported pinned memory to numpy or to another library.
        on_races: As passed.
        note: Records an operator that has returned: `OperatorRecorder.record`.
        allocation_of: Returns the allocation of a tensor's storage; None for plain memory of the host.
    """

    def __init__(
        self,
        findings: Findings,
        level: int,
        on_races: Callable[[Sequence[Race], bool], None],
        on_failure: Callable[[Exception], None],
        interrupts: DeferredInterrupts,
        *,
        is_prompt: bool,
    ) -> None:
        self.is_on = True
        self._interrupts = interrupts
        self.detector = Detector(findings)
        self.log = Log()
        self.on_races, self._on_failure = on_races, on_failure
        self.threads = Threads()
        self.guessed: set[str] = set()
        self.exported: set[str] = set()
        run, key = object(), f"_cudalens_shadow{level or ''}"
        self.memory = Memory(self.detector, key, run, self.log.append, self._host_ended)
        lock = threading.RLock()
        self.callbacks = Callbacks(self.detector, self.memory, self.log, self.site, lock)
        self._streams = self.callbacks.streams
        self._checker = OperationChecker(key, run, self.detector, self.memory, self.log, self.callbacks, self.site)
        self._pending = Pending(self._checker.check, self.memory.freed, lock)
        self.allocation_of: Final = self._checker.find_allocation
        self._recorder = OperatorRecorder(
            key,
            run,
            self.memory,
            self._streams.of_operator,
            self._pending,
            1 if is_prompt else MAX_WAITING,
            lambda *operator: self._pending.now(self._checker.check_unusual, *operator),
        )
        self.note: Final = self._recorder.record

    def end(self) -> None:
        """Check the pending operations, then stop and drop all data."""
        self.catch_up(delivers_interrupts=False)
        with self._pending.lock:
            self.is_on = False
            self._pending.entries.clear()
            self.on_races, self._on_failure = _ignore, _ignore
            self.callbacks.forget()
            self.memory.forget()

    def site(self) -> Call:
        """Return the current call site."""
        return call(2)

    def catch_up(self, *, delivers_interrupts: bool = True) -> None:
        """Check all pending operations.

        Args:
            delivers_interrupts: Whether an interrupt that came while they were checked is raised now; False for a
                caller that has more to finish.
        """
        if not self.is_on:
            return
        try:
            races = self._drain()
        except Exception as error:
            self.fail(error)
            return
        if delivers_interrupts:
            self._interrupts.deliver()
        self._report(races)

    @defers_interrupts("sanitizer")
    def _drain(self) -> Sequence[Race]:
        return self._pending.drain()

    def note_special(
        self, thread: State, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], old: Allocation | None
    ) -> Sequence[Race]:
        """Check ``record_stream`` or ``resize_`` after it ran.

        Args:
            thread: The calling thread.
            plan: The operator's plan.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            old: The allocation of the first argument before.
        """
        self.take_received(thread)
        return self._pending.now(self._checker.check_special, plan, args, kwargs, old)

    # Callbacks and annotations

    def on_record(self, record: gpu_trace.Record) -> None:
        """Listener of `cudalens.device.gpu_trace`."""
        if getattr(record, "stream", None) == PER_THREAD:  # it may be applied by another thread
            of_thread: Any = record
            record = replace(of_thread, stream=self._streams.unambiguous(PER_THREAD))
        thread = self.threads.state
        if thread.is_inside and type(record) in _ORDERS:
            thread.received.append((record, current_device()))
        elif type(record) is gpu_trace.KernelLaunched:
            self._on_launched(record)
        elif self.is_on:
            self._submit(self._take, (record, current_device()))

    def on_allocated(self, address: int) -> None:
        """Listener for `gpu_trace.MemoryAllocated`. Allocations by operators are recorded with their results."""
        if self.is_on and not self.threads.state.is_inside:
            self._submit(self._take, (gpu_trace.MemoryAllocated(address), current_device()))

    def on_freed(self, address: int) -> None:
        """Listener for `gpu_trace.MemoryFreed`. The release is pending; the storage's attribute is invalid at once."""
        if not self.is_on:
            return
        allocation = self.memory.live.pop(address, None)
        if allocation is None:
            self._pending.entries.append(address)
            return
        allocation.run = None
        self._pending.entries.append((self._free_shared, (address, call())) if allocation.is_shared else address)

    def _free_shared(self, freed: tuple[int, Call]) -> None:
        self.memory.freed(*freed)

    def annotate(
        self,
        name: str,
        reads: Sequence[torch.Tensor],
        writes: Sequence[torch.Tensor],
    ) -> None:
        """An operation that torch does not observe was launched on the current stream."""
        if self.is_on:
            touched = [(f"reads[{position}]", tensor, False) for position, tensor in enumerate(reads)]
            touched += [(f"writes[{position}]", tensor, True) for position, tensor in enumerate(writes)]
            self._submit(self._annotate, (name, touched, [self.site(), clock.now_ns()], None))

    def _on_launched(self, record: gpu_trace.KernelLaunched) -> None:
        """A Triton kernel was launched."""
        if self.is_on:
            if not record.is_certain:
                self.guessed.add(record.name)
            stream = (record.stream, record.device)
            self._submit(self._annotate, (record.name, record.arguments, [self.site(), clock.now_ns()], stream))

    def name_memory(self, tensor: torch.Tensor, name: str) -> None:
        """Reports use this name for a tensor's memory."""
        self._report(self._pending.now(self._name, tensor, name))

    def _name(self, tensor: torch.Tensor, name: str) -> Sequence[Race]:
        for piece in dense(tensor):
            self._allocation(piece).name = name
        return ()

    def host_reads(self, tensor: torch.Tensor, *, is_export: bool) -> None:
        """The host is about to read a tensor's memory without an operator.

        Args:
            tensor: The tensor.
            is_export: Whether the result shares its memory, which the host can write later without an operator.
        """
        if is_export and self.is_on and storage_of(tensor) is not None and tensor.is_pinned():
            self.exported.add(str(self.site().place))
        allocation = self.allocation_of(tensor) if self.is_on else None
        if allocation is not None and allocation.device < 0:
            op: Operation = [self.site(), clock.now_ns(), self.detector.clocks.host]
            self.memory.note(op, allocation, tensor, Operand("host read", "self"), False)
            self._submit(lambda found: self._report(self._checker.check_host_access(found)), op)

    def _annotate(
        self, annotation: tuple[str, Iterable[tuple[str, torch.Tensor, bool]], list[Any], tuple[int, int] | None]
    ) -> None:
        name, touched, head, stream = annotation
        host = self.detector.clocks.host
        line: Line = host if stream is None else self._streams.of_pointer(*stream)
        op: Operation = [*head, line]
        for argument, tensor, is_write in touched:
            for piece in dense(tensor):
                allocation = self._allocation(piece)
                op[2] = (
                    self._streams.of_operator(allocation.device) if op[2] is host and allocation.device >= 0 else op[2]
                )
                self.memory.note(op, allocation, piece, Operand(name, argument), is_write)
        self._report(self._checker.check_host_access(op) if op[2] is host else self._checker.check(op))

    def _allocation(self, tensor: torch.Tensor) -> Allocation:
        return self._checker.find_placed(tensor) if tensor.is_cuda else self.memory.track_host(tensor)

    def _take(self, received: Received) -> None:
        self._report(self.callbacks.take(*received))

    def _report(self, races: Sequence[Race]) -> None:
        if races:
            self.on_races(races, False)

    def _host_ended(self, allocation: Allocation) -> None:
        if self.is_on:
            self._submit(self._host_free, allocation)

    def _host_free(self, allocation: Allocation) -> None:
        if allocation.is_live:
            self.detector.free(allocation)
            self.log.append(("free", allocation))

    def _submit(self, act: Callable[[Any], Any], argument: Any) -> None:
        """Call a function after the pending operations are checked: now, or by the call that is checking them."""
        self._pending.entries.append((act, argument))
        self.catch_up()

    def take_received(self, thread: State) -> None:
        """Apply the records of an operator that raised, or that launches nothing."""
        received, thread.received = thread.received, []
        for record in received:
            self._submit(self._take, record)

    def fail(self, error: Exception) -> None:
        """Stop after an error in the sanitizer, and report it once; the user's program continues."""
        if self.is_on:
            self.is_on = False
            self._on_failure(error)


def _ignore(*arguments: Any) -> None:
    """Replaces the callbacks of a run that has ended."""
