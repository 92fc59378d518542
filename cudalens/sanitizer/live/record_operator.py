"""Record which memory each operator accessed, when it returns, and keep operations that are not checked yet in order.

This runs after every operator of the program, with cold caches: a line of Python here takes several times as long as in
a loop. So it does only what cannot be deferred: find the storages of the tensors and the stream.

An operator's accesses are recorded immediately, because its tensors may be freed later. The check can be deferred. It
is several times faster for many operations at once, while its code and data are in the processor's caches; between two
operators of a program they are not. So operations and freed addresses are queued here. Other records (an event, a
synchronisation) and requests for the races are processed immediately, after the queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, TypeAlias

import torch

from cudalens.device import clock
from cudalens.device.gpu_trace import Record
from cudalens.sanitizer.engine.accesses import NUM_ACCESS_FIELDS, NUM_HEAD_FIELDS, Allocation, Line, Operand, Operation
from cudalens.sanitizer.engine.races import Race
from cudalens.sanitizer.engine.shadow import NOWHERE
from cudalens.sanitizer.live.calls import call
from cudalens.sanitizer.live.memory import SHAPES, Memory
from cudalens.sanitizer.live.schema import Plan, flag, pairs, pieces, results, storage_of

#: A record, and the GPU that was current at the time.
Received: TypeAlias = tuple[Record, int]


class State:
    """The state on one thread.

    Attributes:
        is_inside: Whether an operator that the sanitizer observes is running.
        received: Records of that operator that order something.
    """

    __slots__ = ("is_inside", "received")

    def __init__(self) -> None:
        self.is_inside = False
        self.received: list[Received] = []


class Threads(threading.local):
    """The state on each thread."""

    def __init__(self) -> None:
        self.state = State()


#: Number of entries at which they are checked.
MAX_WAITING: Final = 512

#: An operation, the address of a freed block, or a function and its argument.
PendingEntry: TypeAlias = Operation | int | tuple[Callable[[Any], Any], Any]


class Pending:
    """The entries of one run, checked by one thread at a time.

    Args:
        check: Checks an operation.
        free: Processes the address of a freed block.
        lock: A reentrant lock, held while entries are checked.

    Attributes:
        entries: The queue. Any thread may append at any time and must call `drain` or `now` eventually.
        lock: The lock.
    """

    def __init__(
        self,
        check: Callable[[Operation], Sequence[Race]],
        free: Callable[[int], None],
        lock: AbstractContextManager[Any],
    ) -> None:
        self._check, self._free = check, free
        self.entries: Final[deque[PendingEntry]] = deque()
        self.lock: Final = lock
        self._is_busy = False

    def drain(self) -> Sequence[Race]:
        """Check all entries.

        Returns at once if this thread is doing so already (an entry can be added by garbage collection); the outer
        call then checks the entry.

        Returns:
            The races of operators.
        """
        with self.lock:
            if self._is_busy:
                return ()
            self._is_busy = True
            try:
                return self._drain()
            finally:
                self._is_busy = False

    def _drain(self) -> list[Race]:
        races: list[Race] = []
        entries, check, free = self.entries, self._check, self._free
        while entries:
            entry = entries.popleft()
            if isinstance(entry, list):
                races += check(entry)
            elif isinstance(entry, int):
                free(entry)
            else:
                act, argument = entry
                act(argument)
        return races

    def now(self, act: Callable[..., Sequence[Race]], *arguments: Any) -> Sequence[Race]:
        """Check all entries, then call a function under the lock.

        Returns:
            The races of operators, and those that the function returns.
        """
        with self.lock:
            if self._is_busy:
                return act(*arguments)
            self._is_busy = True
            try:
                races = self._drain()
                races += act(*arguments)
                races += self._drain()
                return races
            finally:
                self._is_busy = False


_Tensor: Final = torch.Tensor

#: Depth of the stack frame that called the operator, from a method that `OperatorRecorder.record` calls: that method,
#: `record`, the dispatch mode and `call` itself are between.
_CALLER: Final = 4

#: Position of the first allocation in an operation.
_ALLOCATION_AT: Final = NUM_HEAD_FIELDS + NUM_ACCESS_FIELDS - 1


class TensorAccess(NamedTuple):
    """An access that the recorder leaves to `CheckUnusual`: host memory, a sparse tensor's piece, or scratch memory.

    Attributes:
        tensor: The tensor.
        operand: Operator and argument.
        is_write: Whether it is written.
        allocation: Its allocation, or None if it has none yet.
    """

    tensor: Any
    operand: Operand
    is_write: bool
    allocation: Allocation | None


#: Checks an operator at once: thread, plan, positional and keyword arguments, operation so far, unusual accesses.
CheckUnusual: TypeAlias = Callable[
    [State, Plan, tuple[Any, ...], dict[str, Any], Operation, list[TensorAccess]], Sequence[Race]
]


class OperatorRecorder:
    """Records operators.

    Args:
        key: Name of the attribute of storages that holds their allocation.
        run: Identifies allocations of this run.
        memory: The storages.
        line_of: Returns the timeline of a GPU's current stream.
        pending: The operations that are not checked yet.
        limit: Number of pending entries at which they are checked.
        check_unusual: Checks an operation at once that caused callbacks, or that accessed host memory which an
            asynchronous operation uses.
    """

    def __init__(
        self,
        key: str,
        run: object,
        memory: Memory,
        line_of: Callable[[int], Line],
        pending: Pending,
        limit: int,
        check_unusual: CheckUnusual,
    ) -> None:
        self._key, self._run, self._memory, self._line = key, run, memory, line_of
        self._pending, self._entries, self._limit = pending, pending.entries, limit
        self._check_unusual = check_unusual

    def record(self, thread: State, plan: Plan, args: tuple[Any, ...], kwargs: Any, out: Any) -> Sequence[Race]:
        """Record an operator that has returned.

        Returns:
            The races found, if the pending operations were checked.
        """
        if plan.training is not None and flag("training", plan.training_at, args, kwargs or {}):
            plan = plan.training
        unusual: list[TensorAccess] = []
        if plan.has_lists or (kwargs and not plan.by_name.keys().isdisjoint(kwargs)):
            inputs: Any = pairs(plan, args, kwargs or {})
        else:
            inputs = zip(args, plan.inputs)  # noqa: B905 - trailing arguments may be left out
        op, line, is_on_host = self._record_inputs(plan, inputs, unusual)
        if plan.outputs:
            # without a known storage of an argument on the host, results may be on a GPU
            is_elsewhere = unusual[-1].allocation is None if unusual else not is_on_host
            if line is not None and plan.is_plain and isinstance(out, _Tensor):
                op = self._record_plain_result(plan, out, op, line, unusual)
            elif line is not None or plan.makes or is_elsewhere:
                device = -1 if line is None or plan.makes or plan.is_copy else op[_ALLOCATION_AT].device
                op = self._record_results(plan, out, op, unusual, device)
        if unusual or thread.received:
            return self._check_unusual(thread, plan, args, kwargs or {}, op, unusual)
        if len(op) > NUM_HEAD_FIELDS:
            self._entries.append(op)
        return self._pending.drain() if len(self._entries) >= self._limit else ()

    def _record_inputs(
        self, plan: Plan, inputs: Any, unusual: list[TensorAccess]
    ) -> tuple[Operation, Line | None, bool]:
        """Record the tensor arguments.

        Args:
            plan: The operator's plan.
            inputs: Pairs of an argument and its use.
            unusual: Receives the accesses of other memory than plain tensors of a GPU.

        Returns:
            The operation (empty if no argument is on a GPU), the stream's timeline, and whether an argument is on the
            host.
        """
        run, key, memory = self._run, self._key, self._memory
        op: Operation = []
        line: Line | None = None
        is_on_host = False
        for value, use in inputs:
            if use is None or not isinstance(value, _Tensor):
                continue
            try:
                storage: Any = value.untyped_storage()
            except (RuntimeError, NotImplementedError):  # it has none
                unusual += [TensorAccess(piece, use[0], use[1], None) for piece in pieces(value)]
                continue
            allocation = storage.__dict__.get(key)
            if allocation is None or allocation.run is not run:
                allocation = self._meet(value, storage)
            if allocation.device < 0:
                if allocation is not memory.plain or plan.is_copy:
                    unusual.append(TensorAccess(value, use[0], use[1], allocation))
                    continue
                if not value.is_cuda:
                    is_on_host = True
                    continue
                allocation = self._meet(value, storage)  # scratch that torch's C++ made on the host, which was taken in
            if line is None:
                line = self._line(allocation.device)
                op = [call(_CALLER), clock.now_ns(), line]
            if allocation.owner is not line:
                allocation.is_shared = True
            shape, dtype = value.shape, value.dtype
            if shape == allocation.shape and dtype is allocation.dtype and value.is_contiguous():
                op += (allocation.whole, use[1], use[0], allocation.shape, None, dtype, allocation)
            elif allocation.num_bytes == value.nbytes and value.is_contiguous():
                allocation.shape, allocation.dtype = SHAPES.setdefault(shape, shape), dtype
                op += (allocation.whole, use[1], use[0], allocation.shape, None, dtype, allocation)
            else:
                memory.note(op, allocation, value, use[0], use[1])
        return op, line, is_on_host

    def _record_plain_result(
        self, plan: Plan, out: torch.Tensor, op: Operation, line: Line, unusual: list[TensorAccess]
    ) -> Operation:
        """Record the one tensor that an operator without aliased outputs returned, and return the operation."""
        device = op[_ALLOCATION_AT].device
        try:  # contextlib.suppress would cost a microsecond
            storage: Any = out.untyped_storage()
        except (RuntimeError, NotImplementedError):
            storage = None
        if storage is None or self._key in storage.__dict__:
            return self._record_results(plan, out, op, unusual, device)
        allocation = self._memory.meet(storage, device, op[0], line)
        if allocation.num_bytes == out.nbytes and out.is_contiguous():
            shape = out.shape
            allocation.shape, allocation.dtype = SHAPES.setdefault(shape, shape), out.dtype
            op += (None, True, plan.outputs[0], allocation.shape, None, allocation.dtype, allocation)
        else:
            self._memory.note(op, allocation, out, plan.outputs[0], True)  # type: ignore[arg-type]
        return op

    def _meet(self, value: Any, storage: Any) -> Allocation:
        """Return the allocation of an argument's storage that is new to this run."""
        if value.is_cuda:
            return self._memory.meet(storage, value.get_device(), None, None)
        storage.__dict__[self._key] = self._memory.plain
        return self._memory.plain

    def _record_results(
        self, plan: Plan, out: Any, op: Operation, unusual: list[TensorAccess], device: int
    ) -> Operation:
        """Record what an operator returned, and return the operation.

        Args:
            plan: The operator's plan.
            out: The returned value.
            op: The operation so far; empty if no argument is on a GPU.
            unusual: Receives the accesses of other memory than plain tensors of a GPU.
            device: The device of all results; -1 if each must be asked for its own.
        """
        memory, run, key = self._memory, self._run, self._key
        for value, use in results(out, plan.outputs):
            storage = storage_of(value)
            if storage is None:
                unusual += [TensorAccess(piece, use, True, None) for piece in pieces(value)]
                continue
            allocation = storage.__dict__.get(key)
            if allocation is None or allocation.run is not run:
                if device < 0 and not value.is_cuda:
                    allocation = self._meet(value, storage)
                    if plan.is_copy:
                        unusual.append(TensorAccess(value, use, True, allocation))
                    continue
                op = op or [call(_CALLER), clock.now_ns(), self._line(value.get_device())]
                allocation = memory.meet(storage, device if device >= 0 else value.get_device(), op[0], op[2])
            elif allocation.device < 0 or any(
                touched is allocation for touched in op[_ALLOCATION_AT::NUM_ACCESS_FIELDS]
            ):
                continue  # it returns an argument
            if plan.is_empty:
                if allocation.block is NOWHERE and allocation.num_bytes:
                    self._entries.append((memory.settled, allocation))
                continue
            memory.note(op, allocation, value, use, True)
        return op
