"""Check finished operators with the engine, in the right order with the callbacks that they caused.

The accesses of an operator are known when it has returned; torch's callbacks fire while it runs. So the records of
callbacks that order something are kept while the operator runs (``received``), and its launch is inserted among them.
The first rule that applies decides:

- a collective: after the first wait of a stream other than the current one, and on that stream;
- a copy between devices: after the first wait of a stream, and on that stream, because torch puts it between events of
  both;
- an operator that makes the host wait: before the first such wait, because a copy or ``item()`` waits for its own
  launch; and at the end once more if it launches again (``nonzero`` does when it has read the count);
- another operator that makes a stream wait: after the first such wait;
- else: before all records.

An `Operation` is one flat list: call site, time, line (the stream's timeline), and its accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from cudalens.device import clock, gpu_trace
from cudalens.device.streams import pointer_of
from cudalens.sanitizer.engine.accesses import NUM_HEAD_FIELDS, Allocation, Line, Operand, Operation
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.races import Race
from cudalens.sanitizer.live.callbacks import Callbacks
from cudalens.sanitizer.live.calls import Call, Log
from cudalens.sanitizer.live.memory import Memory
from cudalens.sanitizer.live.record_operator import Received, State, TensorAccess
from cudalens.sanitizer.live.schema import Plan, flag, storage_of

#: Records of a wait of the host.
HOST_WAITS: Final = (gpu_trace.StreamSynchronized, gpu_trace.DeviceSynchronized, gpu_trace.EventSynchronized)

#: Position of ``non_blocking`` in ``copy_`` and ``_copy_from``; ``_to_copy`` takes it by name.
_COPY_NON_BLOCKING: Final = 2


class OperationChecker:
    """Checks operations with the engine. Called by one thread at a time, when all earlier operations are checked.

    The recorder (`record_operator`) has `check` called for operators that were pending, and `check_unusual` at once
    for those that are not plain. `Watch` calls `check_special` after ``record_stream`` and ``resize_``, and for work
    without an operator `check`, or `check_host_access` if the host itself does it.

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
        self._callbacks, self._open_captures, self._streams = callbacks, callbacks.open_captures, callbacks.streams
        self._site_of = site_of
        self._resolve, self._append_to_log = memory.resolve, log.append

    def check(self, operation: Operation) -> Sequence[Race]:
        """Check an operation on the stream that was current when it was recorded."""
        if self._open_captures:  # it may be captured: it runs at each replay
            return self._launch_on_line(operation)
        self._resolve(operation, True)
        if len(operation) == NUM_HEAD_FIELDS:  # it accesses no bytes
            return ()
        self._append_to_log(operation)
        detector = self._detector
        detector.position += 1
        return detector.launch_op(operation)

    def _launch_on_line(self, operation: Operation) -> Sequence[Race]:
        """Launch an operation on its line, which may be another stream's, or capture it if the line is captured."""
        self._memory.resolve(operation, False)
        return self._callbacks.launch(operation) if len(operation) > NUM_HEAD_FIELDS else ()

    def check_host_access(self, operation: Operation) -> Sequence[Race]:
        """Check an access by the host itself."""
        self._memory.resolve(operation, False)
        if len(operation) == NUM_HEAD_FIELDS:
            return ()
        self._detector.clocks.host_step()
        self._log.append(operation)
        return self._detector.launch_op(operation)

    def check_unusual(
        self,
        thread: State,
        plan: Plan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        operation: Operation,
        unusual: list[TensorAccess],
    ) -> Sequence[Race]:
        """Check an operator that caused callbacks, or that accessed other memory than plain tensors of a GPU.

        Args:
            thread: The calling thread.
            plan: The operator's plan.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            operation: The operation so far; empty if no argument is on a GPU.
            unusual: The accesses of such memory: of the host, of sparse tensors, of scratch memory.
        """
        races: list[Race] = []
        plain = self._memory.plain  # stands for all host memory that nothing asynchronous uses: nothing to check
        if unusual and (operation or any(access.allocation is not plain for access in unusual)):
            operation, host_operation = self._add_unusual(thread, plan, args, kwargs, operation, unusual)
            races += self.check_host_access(host_operation)
        if thread.received:
            races += self._launch_among_received(thread, plan, operation)
        elif len(operation) > NUM_HEAD_FIELDS:
            races += self.check(operation)
        return races

    def _add_unusual(
        self,
        thread: State,
        plan: Plan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        operation: Operation,
        unusual: list[TensorAccess],
    ) -> tuple[Operation, Operation]:
        """Add accesses of the host's memory, of pieces of sparse tensors and of scratch memory to an operation.

        The host's side of a copy between host and GPU:

        - Host memory that no asynchronous copy has used is left out, unless this copy uses it asynchronously.
        - A copy from pageable memory has read it when the call returns, because the driver stages it: that is an
          access by the host.
        - A copy into pageable memory is work of the stream, and is done when the call returns (CUDA Runtime API, "API
          synchronization behavior"), even with ``non_blocking``. With that torch itself does not wait, so a wait of
          the host is appended to ``thread.received``; not while a graph is captured, because the copy runs later.
        - A copy from or into pinned memory is work of the stream.

        Returns:
            The operation on the stream, empty if it accesses no memory of a GPU; and the accesses by the host itself.
        """
        plain = self._memory.plain
        head = operation[:2] or [self._site_of(), clock.now_ns()]
        on_host: list[TensorAccess] = []
        for access in unusual:
            # A virtual device adopts scratch memory of torch's C++ code; pieces of a sparse tensor are new.
            is_new = access.allocation is None or access.allocation is plain
            if not is_new or not access.tensor.is_cuda:
                on_host.append(access)
                continue
            placed = self.find_placed(access.tensor)
            operation = operation or [*head, self._streams.of_operator(placed.device)]
            self._memory.note(operation, placed, access.tensor, access.operand, access.is_write)

        host_operation: Operation = [*head, self._detector.clocks.host]
        is_copy = plan.is_copy and bool(operation)
        non_blocking = is_copy and flag("non_blocking", _COPY_NON_BLOCKING, args, kwargs)
        for tensor, operand, is_write, allocation in on_host:
            is_tracked = allocation is not None and allocation is not plain
            is_on_stream = False
            if is_copy and (non_blocking or is_tracked):
                is_pinned = tensor.is_pinned()
                is_on_stream = is_write or is_pinned
                if non_blocking and is_pinned:
                    allocation = self._memory.track_host(tensor)
                elif non_blocking and is_write and not self._open_captures:
                    stream = operation[2].id
                    thread.received.append((gpu_trace.StreamSynchronized(stream.stream), stream.device))
            if allocation is not None and allocation is not plain:
                target = operation if is_on_stream else host_operation
                self._memory.note(target, allocation, tensor, operand, is_write)
        return operation, host_operation

    def _launch_among_received(self, thread: State, plan: Plan, operation: Operation) -> Sequence[Race]:
        """Check an operator among the records that it caused."""
        received, thread.received = thread.received, []
        if len(operation) <= NUM_HEAD_FIELDS:
            for record, device in received:
                self._callbacks.take(record, device)
            return ()
        operation[2], num_before, launches_again = self._place_launch(received, plan, operation[2])
        for record, device in received[:num_before]:
            self._callbacks.take(record, device)
        races = list(self._launch_on_line(operation))
        for record, device in received[num_before:]:
            self._callbacks.take(record, device)
        if launches_again:
            races += self._launch_on_line(operation)
        return races

    def _place_launch(self, received: list[Received], plan: Plan, line: Line) -> tuple[Line, int, bool]:
        """Return an operator's line, the number of records before its launch, and whether it launches again at the end.

        Args:
            received: The records that it caused.
            plan: Its plan.
            line: The line of the stream that was current.
        """
        stream_waits: list[tuple[int, int, int]] = []  # index of the record, stream, device
        host_waits: list[int] = []
        for index, (record, device) in enumerate(received):
            if isinstance(record, gpu_trace.EventWaited):
                stream_waits.append((index, record.stream, device))
            elif isinstance(record, HOST_WAITS):
                host_waits.append(index)

        if plan.is_collective:
            for index, stream, device in stream_waits:
                waiting_line = self._streams.of_pointer(stream, device)
                if waiting_line is not line:
                    return waiting_line, index + 1, False
        if plan.is_copy and stream_waits:
            # torch lets the source's stream wait for the target's, copies on the source's, and lets the target's wait
            index, stream, device = stream_waits[0]
            return self._streams.of_pointer(stream, device), index + 1, False
        if host_waits:
            launches_again = not plan.fetches
            return line, host_waits[0], launches_again
        if stream_waits:
            return line, stream_waits[0][0] + 1, False
        return line, 0, False

    def check_special(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], old: Allocation | None
    ) -> Sequence[Race]:
        """Check ``record_stream`` or ``resize_`` after it ran; `old` is the first argument's allocation before."""
        tensor = args[0]
        if plan.records_stream and tensor.is_cuda:
            stream = args[1] if len(args) > 1 else kwargs["s"]
            line = self._streams.of_pointer(pointer_of(stream), tensor.get_device())
            # `find_placed` also places a new allocation in the shadow, where `record_stream` looks for its block.
            self._memory.record_stream(self.find_placed(tensor).start, line)
        if plan.resizes and old is not None and old.whole is not None:
            return self._check_resize(plan, old, tensor)
        return ()

    def _check_resize(self, plan: Plan, old: Allocation, tensor: torch.Tensor) -> Sequence[Race]:
        """Check the copy from a tensor's old memory to its new memory."""
        storage: Any = tensor.untyped_storage()
        if old.device < 0:
            storage.__dict__.pop(self._key, None)
            return ()
        if storage.data_ptr() == old.start and old.run is self._run:
            return ()
        operand, site, line = Operand(plan.name, "self"), self._site_of(), self._streams.of_operator(old.device)
        operation: Operation = [site, clock.now_ns(), line]
        operation += (old.whole, False, operand, (old.num_bytes,), None, torch.uint8, old)
        new = self._memory.meet(storage, old.device, site, line)
        self._memory.note(operation, new, tensor, operand, True)
        return self._launch_on_line(operation)

    def find_allocation(self, tensor: Any) -> Allocation | None:
        """Return the allocation of a tensor's storage, or None for plain memory of the host."""
        storage = storage_of(tensor)
        if storage is None:
            return None
        allocation: Allocation | None = storage.__dict__.get(self._key)
        if allocation is None or allocation.run is not self._run or allocation is self._memory.plain:
            return None
        return allocation

    def find_placed(self, tensor: torch.Tensor) -> Allocation:
        """Return the allocation of a GPU's tensor, and place it in the shadow if it is new."""
        allocation = self.find_allocation(tensor)
        if allocation is None:
            allocation = self._memory.meet(tensor.untyped_storage(), tensor.get_device(), None, None)
        return self._memory.settled(allocation)
