"""One run of the sanitizer: torch's operators and callbacks in, the engine's launches and orders out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch

from cudalens.device import clock, gpu_trace
from cudalens.device.streams import current_device
from cudalens.sanitizer.engine.accesses import Allocation, Op, Use
from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.races import Findings, Race
from cudalens.sanitizer.live.apply import HOST_WAITS, Judging
from cudalens.sanitizer.live.arguments import dense, storage_of
from cudalens.sanitizer.live.callbacks import Callbacks
from cudalens.sanitizer.live.calls import Call, call
from cudalens.sanitizer.live.log import Log
from cudalens.sanitizer.live.memory import Memory
from cudalens.sanitizer.live.pending import MAX_WAITING, Pending
from cudalens.sanitizer.live.record_operator import OperatorRecorder
from cudalens.sanitizer.live.schema import Plan
from cudalens.sanitizer.live.threads import State, Threads, Told

#: Records that order something, and have to be put before or behind the launch of the operator that caused them.
_ORDERS: Final = frozenset((*HOST_WAITS, gpu_trace.EventRecorded, gpu_trace.EventWaited))


class Watch:
    """The state of one run, and what operators and callbacks do to it.

    Args:
        findings: Where races go.
        level: How many other runs are on already: each keeps its own notes at the storages.
        on_races: Called with the races that an operator (True) or a callback (False) made; may raise for the former.
        on_failure: Called once with what went wrong in here.
        is_prompt: Whether each operator is judged as soon as it has run; else some may wait until somebody asks.

    Attributes:
        is_on: Whether anything is judged.
        detector: The engine.
        log: The last records.
        memory: The storages.
        threads: What each thread is about.
        guessed: Names of kernels whose written arguments are unknown.
        exported: Places that exported pinned memory to numpy or to another library.
        on_races: As given.
        note: Records an operator that has returned: `OperatorRecorder.record`.
        life_of: What is known of a tensor's storage; None for a plain one of the host.
    """

    def __init__(
        self,
        findings: Findings,
        level: int,
        on_races: Callable[[Sequence[Race], bool], None],
        on_failure: Callable[[Exception], None],
        *,
        is_prompt: bool,
    ) -> None:
        self.is_on = True
        self.detector = Detector(findings)
        self.log = Log()
        self.on_races, self._on_failure = on_races, on_failure
        self.threads = Threads()
        self.guessed: set[str] = set()
        self.exported: set[str] = set()
        run, key = object(), f"_cudalens_shadow{level or ''}"
        self.memory = Memory(self.detector, key, run, self.log.append, self._host_ended)
        lock = threading.RLock()
        self._callbacks = Callbacks(self.detector, self.memory, self.log, self.site, lock)
        self._streams = self._callbacks.streams
        self._judging = Judging(key, run, self.detector, self.memory, self.log, self._callbacks, self.site)
        self._pending = Pending(self._judging.judge, self.memory.given_back, lock)
        self.life_of: Final = self._judging.life_of
        self._recorder = OperatorRecorder(
            key,
            run,
            self.memory,
            self._streams.of_operator,
            self._pending,
            1 if is_prompt else MAX_WAITING,
            lambda *operator: self._pending.now(self._judging.look_closer, *operator),
        )
        self.note: Final = self._recorder.record

    def end(self) -> None:
        """Judge nothing more, and let go of all that is remembered."""
        self.catch_up()
        with self._pending.lock:
            self.is_on = False
            self._pending.entries.clear()
            self.on_races, self._on_failure = _told_nobody, _told_nobody
            self._callbacks.forget()
            self.memory.forget()

    def site(self) -> Call:
        """Where the program is."""
        return call(2)

    def catch_up(self) -> None:
        """Judge all that waits."""
        if not self.is_on:
            return
        try:
            races = self._pending.drain()
        except Exception as error:
            self.fail(error)
            return
        self._report(races)

    def note_special(
        self, thread: State, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], old: Allocation | None
    ) -> Sequence[Race]:
        """Judge ``record_stream`` or ``resize_``, which has run.

        Args:
            thread: The calling thread.
            plan: The operator's.
            args: Its arguments.
            kwargs: Likewise.
            old: What the first argument was before.
        """
        self.take_told(thread)
        return self._pending.now(self._judging.special, plan, args, kwargs, old)

    # Callbacks, and what comes from elsewhere

    def on_record(self, record: gpu_trace.Record) -> None:
        """Listener of `cudalens.device.gpu_trace`."""
        thread = self.threads.state
        if thread.is_inside and type(record) in _ORDERS:
            thread.told.append((record, current_device()))
        elif type(record) is gpu_trace.KernelLaunched:
            self._on_launched(record)
        elif self.is_on:
            self._submit(self._take, (record, current_device()))

    def on_allocated(self, address: int) -> None:
        """Likewise, for `gpu_trace.MemoryAllocated`. What an operator is given is met as its result."""
        if self.is_on and not self.threads.state.is_inside:
            self._submit(self._take, (gpu_trace.MemoryAllocated(address), current_device()))

    def on_freed(self, address: int) -> None:
        """Likewise, for `gpu_trace.MemoryFreed`. What depends on it waits; what hangs on a storage is void at once."""
        if not self.is_on:
            return
        allocation = self.memory.live.pop(address, None)
        if allocation is None:
            self._pending.entries.append(address)
            return
        allocation.run = None
        self._pending.entries.append((self._free_shared, (address, call())) if allocation.is_shared else address)

    def _free_shared(self, freed: tuple[int, Call]) -> None:
        self.memory.given_back(*freed)

    def annotate(
        self,
        name: str,
        reads: Sequence[torch.Tensor],
        writes: Sequence[torch.Tensor],
    ) -> None:
        """An operation that torch does not see was launched on the current stream."""
        if self.is_on:
            touched = [(f"reads[{position}]", tensor, False) for position, tensor in enumerate(reads)]
            touched += [(f"writes[{position}]", tensor, True) for position, tensor in enumerate(writes)]
            self._submit(self._annotate, (name, touched, [self.site(), clock.now_ns()], None))

    def _on_launched(self, record: gpu_trace.KernelLaunched) -> None:
        """A kernel of Triton's."""
        if self.is_on:
            if not record.is_certain:
                self.guessed.add(record.name)
            stream = (record.stream, record.device)
            self._submit(self._annotate, (record.name, record.arguments, [self.site(), clock.now_ns()], stream))

    def name_memory(self, tensor: torch.Tensor, name: str) -> None:
        """Reports call a tensor's memory by this name."""
        self._report(self._pending.now(self._name, tensor, name))

    def _name(self, tensor: torch.Tensor, name: str) -> Sequence[Race]:
        for piece in dense(tensor):
            self._met_anywhere(piece).name = name
        return ()

    def host_reads(self, tensor: torch.Tensor, *, is_export: bool) -> None:
        """The host is about to read a tensor's memory without an operator.

        Args:
            tensor: The tensor.
            is_export: Whether the result shares its memory, which the host can write later without an operator.
        """
        if is_export and self.is_on and storage_of(tensor) is not None and tensor.is_pinned():
            self.exported.add(str(self.site().place))
        allocation = self.life_of(tensor) if self.is_on else None
        if allocation is not None and allocation.device < 0:
            op: Op = [self.site(), clock.now_ns(), self.detector.clocks.host]
            self.memory.note(op, allocation, tensor, Use("host read", "self"), False)
            self._submit(lambda found: self._report(self._judging.host_touches(found)), op)

    def _annotate(
        self, noted: tuple[str, Iterable[tuple[str, torch.Tensor, bool]], list[Any], tuple[int, int] | None]
    ) -> None:
        name, touched, head, stream = noted
        host = self.detector.clocks.host
        line: Line = host if stream is None else self._streams.of_pointer(*stream)
        op: Op = [*head, line]
        for argument, tensor, is_write in touched:
            for piece in dense(tensor):
                allocation = self._met_anywhere(piece)
                op[2] = (
                    self._streams.of_operator(allocation.device) if op[2] is host and allocation.device >= 0 else op[2]
                )
                self.memory.note(op, allocation, piece, Use(name, argument), is_write)
        self._report(self._judging.host_touches(op) if op[2] is host else self._judging.judge(op))

    def _met_anywhere(self, tensor: torch.Tensor) -> Allocation:
        return self._judging.met(tensor) if tensor.is_cuda else self.memory.track_host(tensor)

    def _take(self, told: Told) -> None:
        self._report(self._callbacks.take(*told))

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
        """Do something when all that waits is judged, which is now unless that is going on already."""
        self._pending.entries.append((act, argument))
        self.catch_up()

    def take_told(self, thread: State) -> None:
        """Take what an operator caused that has raised, or that launches nothing."""
        told, thread.told = thread.told, []
        for record in told:
            self._submit(self._take, record)

    def fail(self, error: Exception) -> None:
        """Something is wrong in here: judge nothing more, and say so once; the user's program goes on."""
        if self.is_on:
            self.is_on = False
            self._on_failure(error)


def _told_nobody(*told: Any) -> None:
    """Nobody listens to a run that has ended."""
