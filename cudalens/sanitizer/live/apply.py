"""Pass operations to the engine: those that were pending, and unusual ones immediately.

The accesses of an operator are known when it has returned; torch's callbacks fire while it runs. So the callbacks of a
running operator that order something are kept until it returns, and its launch is inserted among them:

- before the first wait of the host, because a copy or ``item()`` waits for its own launch;
- after that wait as well if the operator launches again (``nonzero`` does when it has read the count);
- after the first wait of a stream in a copy between devices, which torch puts between events of both;
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
from cudalens.sanitizer.live.threads import Received, State

#: Records of a wait of the host.
HOST_WAITS: Final = (gpu_trace.StreamSynchronized, gpu_trace.DeviceSynchronized, gpu_trace.EventSynchronized)

#: Position of ``non_blocking`` in ``copy_`` and ``_copy_from``; ``_to_copy`` takes it by name.
_COPY_NON_BLOCKING: Final = 2


class Judging:
    """Passes operations to the engine. Called by one thread at a time, when all earlier operations are checked.

    Args:
        key: Name of the attribute of storages that holds their allocation.
        run: Identifies allocations of this run.
        detector: The engine.
        memory: The storages.
        log: The last records.
        callbacks: Receives records.
        site_of: Returns the call site.
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
        """Check an operation on the stream that was current when it was recorded."""
        if self._captures:  # it may be captured: it runs at each replay
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
        """Check an access by the host itself."""
        self._memory.resolve(op, False)
        if len(op) == OP_HEAD:
            return ()
        self._detector.clocks.host_step()
        self._log.append(op)
        return self._detector.launch_op(op)

    def look_closer(
        self, thread: State, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], op: Op, looks: list[Look]
    ) -> Sequence[Race]:
        """Check an operator that caused callbacks, or that accessed other memory than plain tensors of a GPU.

        Args:
            thread: The calling thread.
            plan: The operator's plan.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            op: The operation so far; empty if no argument is on a GPU.
            looks: Tensors that need a closer look.
        """
        races: list[Race] = []
        if looks:
            op = self._look_at(thread, plan, args, kwargs, looks, op, races)
        if thread.received:
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
        """Add the accesses of tensors of the host, and of pieces of sparse tensors.

        Returns:
            The operation with these accesses; `races` receives the races of accesses by the host itself.
        """
        plain = self._memory.plain
        if not op and all(look[3] is plain for look in looks):
            return op
        head = op[:2] or [self._site_of(), clock.now_ns()]
        on_host: list[Look] = []
        for tensor, use, is_write, allocation in looks:
            # A virtual device adopts scratch memory of torch's C++ code; pieces of a sparse tensor are new.
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
                self._add_host_side(look, non_blocking, op, touched)
                if non_blocking and look[2] and not self._captures and not look[0].is_pinned():
                    thread.received.append((gpu_trace.StreamSynchronized(op[2].id.stream), op[2].id.device))
            elif look[3] is not None and look[3] is not plain:
                self._memory.note(touched, look[3], look[0], look[1], look[2])
        races += self.host_touches(touched)
        return op

    def _add_host_side(self, look: Look, non_blocking: bool, op: Op, touched: Op) -> None:
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
        """Check the operator among the records that it caused."""
        received, thread.received = thread.received, []
        if len(op) <= OP_HEAD:
            for record in received:
                self._callbacks.take(*record)
            return ()
        op[2], at, goes_on = self._order(received, plan, op[2])
        for record in received[:at]:
            self._callbacks.take(*record)
        races = list(self._launch_elsewhere(op))
        for record in received[at:]:
            self._callbacks.take(*record)
        if goes_on:
            races += self._launch_elsewhere(op)
        return races

    def _order(self, received: list[Received], plan: Plan, line: Line) -> tuple[Line, int, bool]:
        """The operator's line, the number of records before it, and whether it is launched again at the end."""
        waits = [
            (n, wait, device) for n, (wait, device) in enumerate(received) if isinstance(wait, gpu_trace.EventWaited)
        ]
        if plan.is_collective:
            for n, wait, device in waits:
                other = self._streams.of_pointer(wait.stream, device)
                if other is not line:
                    return other, n + 1, False
        if plan.is_copy and waits:  # torch lets the source's stream wait for the target's, copies there, and back
            n, wait, device = waits[0]
            return self._streams.of_pointer(wait.stream, device), n + 1, False
        for n, (record, _) in enumerate(received):
            if isinstance(record, HOST_WAITS):
                return line, n, not plan.fetches
        return line, waits[0][0] + 1 if waits else 0, False

    def special(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], old: Allocation | None
    ) -> Sequence[Race]:
        """Check ``record_stream`` or ``resize_`` after it ran; `old` is the first argument's allocation before."""
        tensor = args[0]
        if plan.records_stream and tensor.is_cuda:
            stream = args[1] if len(args) > 1 else kwargs["s"]
            line = self._streams.of_pointer(pointer_of(stream), tensor.get_device())
            self._memory.record_stream(self.met(tensor).start, line)
        if plan.resizes and old is not None and old.whole is not None:
            return self._resize(plan, old, tensor)
        return ()

    def _resize(self, plan: Plan, old: Allocation, tensor: torch.Tensor) -> Sequence[Race]:
        """A tensor that got other memory, into which its contents were copied."""
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

    def allocation_of(self, tensor: Any) -> Allocation | None:
        """The allocation of a tensor's storage; None for plain memory of the host."""
        storage = storage_of(tensor)
        allocation: Allocation | None = None if storage is None else storage.__dict__.get(self._key)
        return (
            allocation
            if allocation is not None and allocation.run is self._run and allocation is not self._memory.plain
            else None
        )

    def met(self, tensor: torch.Tensor) -> Allocation:
        """The allocation of a GPU's tensor, placed in the shadow."""
        allocation = self.allocation_of(tensor) or self._memory.meet(
            tensor.untyped_storage(), tensor.get_device(), None, None
        )
        return self._memory.settled(allocation)
