"""Operations to the engine: those that waited, and those that are out of the ordinary and judged at once.

What an operator touched is known when it has returned; what it made the host or a stream wait for is told while it
runs. So the callbacks of a running operator that order something are kept until then, and its launch is put among them:

- in front of the first wait of the host, since that is what a copy or ``item()`` waits for;
- where the operator goes on after such a wait (``nonzero`` launches again once it knows the count), behind it as well;
- behind the first wait of a stream in a copy between devices, which torch puts between events of both;
- for a collective, on the stream that it made wait for the current one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from cudalens.device import clock, gpu_trace
from cudalens.device.streams import pointer_of
from cudalens.sanitizer.engine.accesses import OP_HEAD, Allocation, Op, Use
from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.races import Race
from cudalens.sanitizer.live.arguments import flag, storage_of
from cudalens.sanitizer.live.callbacks import Callbacks
from cudalens.sanitizer.live.calls import Call
from cudalens.sanitizer.live.log import Log
from cudalens.sanitizer.live.memory import Memory
from cudalens.sanitizer.live.record_operator import Look
from cudalens.sanitizer.live.schema import Plan
from cudalens.sanitizer.live.threads import State, Told

#: Records of a wait of the host.
HOST_WAITS: Final = (gpu_trace.StreamSynchronized, gpu_trace.DeviceSynchronized, gpu_trace.EventSynchronized)

#: Position of ``non_blocking`` in ``copy_`` and ``_copy_from``; ``_to_copy`` takes it by name.
_COPY_NON_BLOCKING: Final = 2


class Judging:
    """Brings operations to the engine. Called by one thread at a time, when all that came before is judged.

    Args:
        key: Name of the attribute of storages that holds their allocation.
        run: Marks allocations of this run.
        detector: The engine.
        memory: The storages.
        log: The last records.
        callbacks: What takes records.
        site_of: Where the program is.
    """

    def __init__(
        self,
        key: str,
        run: object,
        detector: Detector,
        memory: Memory,
        log: Log,
        callbacks: Callbacks,
        site_of: Callable[[], Call],
    ) -> None:
        self._key, self._run, self._detector, self._memory, self._log = key, run, detector, memory, log
        self._callbacks, self._captures, self._streams = callbacks, callbacks.open_captures, callbacks.streams
        self._site_of = site_of
        self._resolve, self._append = memory.resolve, log.append

    def judge(self, op: Op) -> Sequence[Race]:
        """Judge an operation on the stream that was current when it was noted."""
        if self._captures:  # it runs later and elsewhere: with each replay
            return self._launch_elsewhere(op)
        self._resolve(op, True)
        if len(op) == OP_HEAD:
            return ()
        self._append(op)
        detector = self._detector
        detector.position += 1
        return detector.launch_op(op)

    def _launch_elsewhere(self, op: Op) -> Sequence[Race]:
        self._memory.resolve(op, False)
        return self._callbacks.launch(op) if len(op) > OP_HEAD else ()

    def host_touches(self, op: Op) -> Sequence[Race]:
        """Judge what the host itself does now."""
        self._memory.resolve(op, False)
        if len(op) == OP_HEAD:
            return ()
        self._detector.clocks.host_step()
        self._log.append(op)
        return self._detector.launch_op(op)

    def look_closer(
        self, thread: State, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], op: Op, looks: list[Look]
    ) -> Sequence[Race]:
        """Judge an operator that made callbacks, or that touched more than what is plainly on a GPU.

        Args:
            thread: The calling thread.
            plan: The operator's.
            args: Its arguments.
            kwargs: Likewise.
            op: What is known of it so far; empty while nothing of it is on a GPU.
            looks: Tensors that need a second look.
        """
        races: list[Race] = []
        if looks:
            op = self._look_at(thread, plan, args, kwargs, looks, op, races)
        if thread.told:
            races += self._launch_among(thread, plan, op)
        elif len(op) > OP_HEAD:
            races += self.judge(op)
        return races

    def _look_at(
        self,
        thread: State,
        plan: Plan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        looks: list[Look],
        op: Op,
        races: list[Race],
    ) -> Op:
        """Tensors of the host, and pieces of others.

        Returns:
            The operation, with what they add; `races` takes those of what the host itself touches.
        """
        plain = self._memory.plain
        if not op and all(look[3] is plain for look in looks):
            return op
        head = op[:2] or [self._site_of(), clock.now_ns()]
        on_host: list[Look] = []
        for tensor, use, is_write, allocation in looks:
            # A virtual device takes in scratch that torch's C++ made on the host; pieces of a sparse tensor are new.
            if (allocation is None or allocation is plain) and tensor.is_cuda:
                met = self.met(tensor)
                op = op or [*head, self._streams.of_operator(met.device)]
                self._memory.note(op, met, tensor, use, is_write)
            else:
                on_host.append((tensor, use, is_write, allocation))
        touched: Op = [*head, self._detector.clocks.host]
        for look in on_host:
            if plan.is_copy and op:
                non_blocking = flag("non_blocking", _COPY_NON_BLOCKING, args, kwargs)
                self._copied(look, non_blocking, op, touched)
                if non_blocking and look[2] and not self._captures and not look[0].is_pinned():
                    thread.told.append((gpu_trace.StreamSynchronized(op[2].id.stream), op[2].id.device))
            elif look[3] is not None and look[3] is not plain:
                self._memory.note(touched, look[3], look[0], look[1], look[2])
        races += self.host_touches(touched)
        return op

    def _copied(self, look: Look, non_blocking: bool, op: Op, touched: Op) -> None:
        """The host's side of a copy between it and a GPU.

        A copy from pageable memory has read it when the call returns, because the driver stages it: that is an access
        by the host. A copy into pageable memory is done when the call returns (CUDA Runtime API, "API synchronization
        behavior"). All other copies are work of the stream.
        """
        tensor, use, is_write, allocation = look
        if non_blocking and tensor.is_pinned():
            allocation = self._memory.track_host(tensor)
        if allocation is not None and allocation is not self._memory.plain:
            is_staged = not is_write and not tensor.is_pinned()
            self._memory.note(touched if is_staged else op, allocation, tensor, use, is_write)

    def _launch_among(self, thread: State, plan: Plan, op: Op) -> Sequence[Race]:
        """Put the operator among the records that it caused."""
        told, thread.told = thread.told, []
        if len(op) <= OP_HEAD:
            for record in told:
                self._callbacks.take(*record)
            return ()
        op[2], at, goes_on = self._order(told, plan, op[2])
        for record in told[:at]:
            self._callbacks.take(*record)
        races = list(self._launch_elsewhere(op))
        for record in told[at:]:
            self._callbacks.take(*record)
        if goes_on:
            races += self._launch_elsewhere(op)
        return races

    def _order(self, told: list[Told], plan: Plan, line: Line) -> tuple[Line, int, bool]:
        """The operator's line, how many of the records come before it, and whether it is launched again at the end."""
        waits = [(n, wait, device) for n, (wait, device) in enumerate(told) if isinstance(wait, gpu_trace.EventWaited)]
        if plan.is_collective:
            for n, wait, device in waits:
                other = self._streams.of_pointer(wait.stream, device)
                if other is not line:
                    return other, n + 1, False
        if plan.is_copy and waits:  # torch lets the source's stream wait for the target's, copies there, and back
            n, wait, device = waits[0]
            return self._streams.of_pointer(wait.stream, device), n + 1, False
        for n, (record, _) in enumerate(told):
            if isinstance(record, HOST_WAITS):
                return line, n, not plan.fetches
        return line, waits[0][0] + 1 if waits else 0, False

    def special(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], old: Allocation | None
    ) -> Sequence[Race]:
        """Judge ``record_stream`` or ``resize_``, which has run; `old` is what the first argument was before."""
        tensor = args[0]
        if plan.records_stream and tensor.is_cuda:
            stream = args[1] if len(args) > 1 else kwargs["s"]
            line = self._streams.of_pointer(pointer_of(stream), tensor.get_device())
            self._memory.record_stream(self.met(tensor).start, line)
        if plan.resizes and old is not None and old.whole is not None:
            return self._resize(plan, old, tensor)
        return ()

    def _resize(self, plan: Plan, old: Allocation, tensor: torch.Tensor) -> Sequence[Race]:
        """A tensor that got other memory: what it held was copied over."""
        storage: Any = tensor.untyped_storage()
        if old.device < 0:
            storage.__dict__.pop(self._key, None)
            return ()
        if storage.data_ptr() == old.start and old.run is self._run:
            return ()
        use, site, line = Use(plan.name, "self"), self._site_of(), self._streams.of_operator(old.device)
        op: Op = [site, clock.now_ns(), line]
        op += (old.whole, False, use, (old.num_bytes,), None, torch.uint8, old)
        self._memory.note(op, self._memory.meet(storage, old.device, site, line), tensor, use, True)
        return self._launch_elsewhere(op)

    def life_of(self, tensor: Any) -> Allocation | None:
        """What is known of a tensor's storage; None for a plain one of the host."""
        storage = storage_of(tensor)
        allocation: Allocation | None = None if storage is None else storage.__dict__.get(self._key)
        return (
            allocation
            if allocation is not None and allocation.run is self._run and allocation is not self._memory.plain
            else None
        )

    def met(self, tensor: torch.Tensor) -> Allocation:
        """The allocation of a GPU's tensor, with its place in the shadow."""
        allocation = self.life_of(tensor) or self._memory.meet(
            tensor.untyped_storage(), tensor.get_device(), None, None
        )
        return self._memory.settled(allocation)
