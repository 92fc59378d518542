"""Log what a program does on a virtual device, so that it can be run again in another order.

The operators come from the virtual device's dispatch handler as it computes them on the CPU, so a rerun needs none of
the user's Python. A task is added to its stream when its kernel is launched; the records of `cudalens.device.gpu_trace`
order it against events and synchronisations. Memory is identified by its device address, or as one piece of host
memory; its contents are stored at the first use. Host memory is tracked if it is page-locked, if a device was copied
into it, and in what torch computes from it on the host; all other host memory is assumed constant.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.device import gpu_trace, launches
from cudalens.device.interpose import interposed
from cudalens.device.stacks import Place as Site
from cudalens.device.stacks import place as site_of
from cudalens.virtual.capture.captured_ops import CapturedOp, Tape, writes_of
from cudalens.virtual.capture.graph_memory import Memory, Operand
from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.dispatch.plans import make_plan
from cudalens.virtual.explorer.logged import DEVICE, Draw, LoggedOp, Place, Span
from cudalens.virtual.explorer.memory import TrackedMemory
from cudalens.virtual.explorer.orders import HOST, Program
from cudalens.virtual.explorer.waits import Waits
from cudalens.virtual.tensors.nested import item_at, tensors_in
from cudalens.virtual.tensors.residency import residence_of

if TYPE_CHECKING:
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.timing.machine import Device
    from cudalens.virtual.timing.streams import Stream


_aten = torch.ops.aten
_BLANK: Final = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
#: Operators without a kernel that are logged as well.
_MATTERS: Final = frozenset({"aten::_local_scalar_dense", "aten::resize_", "aten::resize_as_", "aten::_resize_output_"})

#: Methods of torch.Tensor that read host memory without an operator.
_HOST_READERS: Final = ("numpy", "tolist", "__array__", "__dlpack__")

#: Operators of torch.distributed.
_COLLECTIVES: Final = "c10d::"

_has_effect: dict[Any, bool] = {}


class _Pending:
    """A computed operator whose kernel may not be launched yet, and the places of whose results may be unknown."""

    __slots__ = ("device", "known", "number", "op", "storages")

    def __init__(self, op: LoggedOp, device: Device | None, storages: list[tuple[Place, Any]]) -> None:
        self.op, self.device, self.storages = op, device, storages
        self.known = {id(storage) for _, storage in storages}
        self.number: int | None = None


class _Thread(threading.local):
    pending: _Pending | None = None
    collective: _Pending | None = None


class OpLog:
    """The log of one run.

    Args:
        gpus: The virtual GPUs.
        max_bytes: The limit of stored contents: initial memory, and values of the host.

    Attributes:
        ops: The tasks by number.
        memory: The tracked memory.
        problem: Why the program cannot be run again; None if it can.
        num_threads: The number of threads for reruns; None before it is chosen.
    """

    def __init__(self, gpus: Gpus, *, max_bytes: int) -> None:
        self.gpus, self._machine = gpus, gpus.machine
        self.ops: list[LoggedOp] = []
        self.problem: str | None = None
        self.num_threads: int | None = None
        self.memory = TrackedMemory(gpus, max_bytes, self._leave, self._refuse)
        self._waits = Waits(self._machine)
        self._thread = _Thread()
        self._lock = threading.RLock()
        self._works: dict[int, tuple[object, _Pending]] = {}
        self._subscription: gpu_trace.Subscription | None = None

    # Start and stop

    def start(self) -> None:
        """Start to log."""
        quick = {gpu_trace.MemoryAllocated: self._allocated, gpu_trace.MemoryFreed: self._freed}
        self._subscription = gpu_trace.subscribe(self._on_record, quick=quick)
        launches.watch_queries()
        for name in _HOST_READERS:
            interposed(torch.Tensor, name).add(before=self._read_by_host)
        self._machine.op_log = self

    def stop(self) -> None:
        """Stop to log."""
        if self._subscription is None:
            return
        self.collected()
        for work, _ in list(self._works.values()):
            self.collected(work)
        self._subscription.close()
        self._subscription = None
        launches.unwatch_queries()
        for name in _HOST_READERS:
            interposed(torch.Tensor, name).remove(before=self._read_by_host)
        if self._machine.op_log is self:
            self._machine.op_log = None

    @property
    def is_on(self) -> bool:
        """Whether it is logging."""
        return self._subscription is not None and self.problem is None

    @property
    def program(self) -> Program:
        """The order of the tasks."""
        return self._waits.builder.program

    @property
    def streams(self) -> dict[int, Stream]:
        """The stream of each lane by its number, without the host's lane."""
        return self._waits.streams

    def _refuse(self, problem: str) -> None:
        """Record why this program cannot be run again, and drop its log."""
        self.problem = self.problem or problem
        self.ops.clear()
        self._waits = Waits(self._machine)
        self.memory.clear()

    # Operators

    def watch(self, dispatch: Callable[..., Any], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Dispatch an operator, and log what it does.

        Args:
            dispatch: Called with the other arguments; runs the operator.
            func: The overload.
            args: Its arguments.
            kwargs: Its keyword arguments.
        """
        thread = self._thread
        outer, thread.pending = thread.pending, None
        try:
            if not self.is_on:
                return dispatch(func, args, kwargs)
            at_host = self._host_op(func, args, kwargs)
            out = dispatch(func, args, kwargs)
            pending = thread.pending or at_host
            if pending is not None and self.is_on:
                with self._lock, below_modes():
                    self._finish(pending, out)
            return out
        finally:
            thread.pending = outer

    def run(self, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute an operator; its kernel follows by `launched`, its results when `watch` returns.

        Args:
            device: Its device.
            func: The overload that is called on the CPU.
            args: The arguments for the CPU.
            kwargs: Its keyword arguments.
        """
        if not self.is_on or not _matters(func):
            return func(*args, **kwargs)
        with self._lock, below_modes():
            pending = self._start(device, func, args, kwargs)
        out = func(*args, **kwargs)
        self._thread.pending = pending
        return out

    def log_factory(self, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """As `run`, for a factory whose result exists already."""
        if self.is_on:
            with self._lock, below_modes():
                self._thread.pending = self._start(device, func, args, kwargs)

    def begin_call(self, name: str, call: Callable[..., Any] | None, args: Any, kwargs: dict[str, Any]) -> None:
        """Log the start of a kernel that is not an operator; `launched` and then `called` follow.

        Args:
            name: The name of the kernel.
            call: Runs it again on host tensors; None if that is not possible, so that its results are stored instead.
            args: Its arguments.
            kwargs: Its keyword arguments.
        """
        if not self.is_on:
            return
        with self._lock, below_modes():
            storages: list[tuple[Place, Any]] = []
            op = LoggedOp(name, call, site=site_of(2))
            op.args, op.kwargs = self._logged(op, args, False, storages), self._logged(op, kwargs, False, storages)
            self._thread.pending = _Pending(op, self._machine.current_device, storages)

    def called(self, written: Iterable[torch.Tensor]) -> None:
        """Log the end of that kernel.

        Args:
            written: The tensors that it wrote.
        """
        pending, self._thread.pending = self._thread.pending, None
        if pending is None or not self.is_on:
            return
        with self._lock, below_modes():
            for tensor in written:
                place = self.memory.place_of(tensor, is_written=True)
                if place is not None:
                    pending.op.writes.append(place)
                    if pending.op.func is None:
                        pending.op.contents.append((place.storage, self.memory.contents(tensor.untyped_storage())))
            self._finish(pending, None)

    def started(self, work: object) -> None:
        """Log the object by which the program waits for this thread's last collective."""
        collective, self._thread.collective = self._thread.collective, None
        if collective is not None:
            self._works[id(work)] = (work, collective)

    def collected(self, work: object = None) -> None:
        """Log that a collective is complete, and store its results.

        Args:
            work: The object to wait for it; by default, this thread's last collective if it has none.
        """
        _, collective = self._works.pop(id(work), (None, None))
        if collective is None:
            collective, self._thread.collective = self._thread.collective, None
        if collective is not None and self.is_on:
            with self._lock, below_modes():
                kept = [(place, storage) for place, storage in collective.storages if place in collective.op.writes]
                contents = [(place.storage, self.memory.contents(storage)) for place, storage in kept]
                collective.op.contents = contents

    def launched(self, stream: Stream) -> None:
        """Log that work was issued to a stream: the kernel of the current operator, if it has none yet."""
        pending = self._thread.pending
        if pending is not None and pending.number is None and self.is_on:
            with self._lock:
                self._put(pending, self._waits.lane(stream))

    def _host_op(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Pending | None:
        """Log an operator on the host if it accesses tracked memory."""
        tensors = [tensor for _, tensor in tensors_in((args, list(kwargs.values())))]
        if not any(self.memory.is_tracked(tensor) for tensor in tensors):
            return None
        if any(residence_of(tensor) is not None for tensor in tensors) or _is_on_device(kwargs):
            return None
        if func is not _aten._pin_memory.default and not _matters(func):
            return None
        if func is _aten._pin_memory.default:
            func, args, kwargs = _aten.clone.default, args[:1], {}
        with self._lock, below_modes():
            return self._start(None, func, args, {key: value for key, value in kwargs.items() if key != "pin_memory"})

    def _start(self, device: Device | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Pending:
        self.collected()
        storages: list[tuple[Place, Any]] = []
        op = LoggedOp(func._schema.name, func, site=site_of(2))
        if op.name.startswith(_COLLECTIVES):
            # It cannot run again, because other processes take part. Its first argument is what it writes.
            self._logged(op, args[0], "send" not in op.name, storages)
            others = [value for value in (*args[1:], *kwargs.values()) if _holds_tensors(value)]
            self._logged(op, others, False, storages)
            op.func = None
            self._thread.collective = _Pending(op, device, storages)
            return self._thread.collective
        for index, value in enumerate(args):
            op.args = (*op.args, self._logged(op, value, index in writes_of(func), storages))
        for name, value in kwargs.items():
            op.kwargs[name] = self._logged(op, value, name in writes_of(func), storages)
        return _Pending(op, device, storages)

    def _logged(self, op: LoggedOp, value: Any, is_written: bool, storages: list[tuple[Place, Any]]) -> Any:
        """Return the logged form of an argument; host tensors that are not tracked are copied."""
        if isinstance(value, torch.Tensor):
            place = self.memory.place_of(value, is_written=is_written)
            if place is None:
                return self.memory.constant(value)
            (op.writes if is_written else op.reads).append(place)
            storages.append((place, value.untyped_storage()))
            return place
        if isinstance(value, torch._C.Generator):
            return Draw(torch._C.Generator.get_state(value))
        if isinstance(value, list | tuple):
            items = [self._logged(op, item, is_written, storages) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {key: self._logged(op, item, is_written, storages) for key, item in value.items()}
        return value

    def _put(self, pending: _Pending, lane: int) -> None:
        pending.op.lane = lane
        pending.number = self._add(pending.op)

    def replay(self, tape: Tape, stream: Stream) -> None:
        """Replay a graph; each of its operators is a task of the stream."""
        if not self.is_on:
            tape.replay()
            return
        with self._lock, below_modes():
            replay(tape, self.memory, functools.partial(self._add_to, self._waits.lane(stream)), site_of(2))

    def _add_to(self, lane: int, op: LoggedOp) -> None:
        op.lane = lane
        self._add(op)

    def _add(self, op: LoggedOp) -> int:
        self.ops.append(op)
        return self._waits.add(op.lane, op.touched())

    def _finish(self, pending: _Pending, out: Any) -> None:
        """After an operator: log the places of its results, and arguments that were moved."""
        op = pending.op
        for path, tensor in tensors_in(out):
            storage = self.memory.storage_of(tensor)
            if storage is not None and id(storage) not in pending.known:
                pending.known.add(id(storage))
                op.makes.append((path, self.memory.made(tensor)))
        self._log_moves(pending)
        if op.name in _BLANK:
            self.memory.blank += [(len(self.ops), place.storage) for _, place in op.makes]
            return
        if pending.device is None and op.func is not None and make_plan(op.func).draws:
            # A host operator that draws random numbers: store its results.
            op.func = None
            kept = [(place, storage) for place, storage in pending.storages if place in op.writes]
            kept += [(place, item_at(out, path).untyped_storage()) for path, place in op.makes]
            op.contents = [(place.storage, self.memory.contents(storage)) for place, storage in kept]
        is_host = pending.device is None
        if is_host:
            op.is_observed = _has_numbers(out)
        else:  # a copy to pageable host memory makes the host wait
            spaces = [place.storage.space for place in (*op.writes, *(place for _, place in op.makes))]
            op.is_observed = _has_numbers(out) or any(s and not self.memory.is_pinned(s) for s in spaces)
        if not (op.writes or op.makes or op.is_observed):
            return  # a view
        if pending.number is None:
            self._put(pending, HOST if is_host else self._waits.current_lane(pending.device))
        elif op.makes:
            assert pending.number is not None
            self._waits.add_accesses(pending.number, [place.storage for _, place in op.makes])
        self.memory.after_op(op)

    def _log_moves(self, pending: _Pending) -> None:
        for place, storage in pending.storages:
            now = self.memory.span_of(storage)
            if place in pending.op.writes and now is not None and now != place.storage:
                moved = self.memory.moved(place, storage)
                if moved is not None:
                    pending.op.moves.append((place, moved))

    def _leave(self, span: Span, contents: torch.Tensor, name: str) -> None:
        """Log contents that come from no operator: torch's internal tensors on a device, or writes of Python."""
        is_host = span.space != 0
        lane = HOST if is_host else self._waits.current_lane()
        self._add(LoggedOp(name, None, contents=[(span, contents)], site=site_of(2), lane=lane))

    def _read_by_host(self, tensor: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(tensor, torch.Tensor) or not self.is_on or not self.memory.is_tracked(tensor):
            return
        with self._lock, below_modes():
            place = self.memory.place_of(tensor)
            if place is not None and place.storage.space:
                self._add(LoggedOp("host read", _value_of, (place,), reads=[place], site=site_of(2), is_observed=True))
                self.memory.expose(tensor)

    # Order

    def _on_record(self, record: gpu_trace.Record) -> None:
        """Handle a record of `cudalens.device.gpu_trace`."""
        if self.is_on:
            with self._lock:
                self._waits.handle(record)

    def host_waits(self, stream: Stream) -> None:
        """Log that the host waits for a stream within a copy, without a synchronisation call."""
        if self.is_on:
            with self._lock:
                self._waits.host_waits(stream)

    def _allocated(self, address: int) -> None:
        if self.is_on:
            self.memory.allocated.add(address)

    def _freed(self, address: int) -> None:
        if self._waits.is_shared(address) and self.is_on:
            with self._lock:
                self._waits.freed(address, self.memory.block_at(address))


def _holds_tensors(value: Any) -> bool:
    return next(tensors_in(value), None) is not None


def _value_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the value that the host reads from a tensor."""
    return tensor.clone()


def _matters(func: Any) -> bool:
    """Return whether an operator is logged: it accesses memory, or it is a factory whose result must be known."""
    known = _has_effect.get(func)
    if known is None:
        name = func._schema.name
        is_plain = isinstance(func, torch._ops.OpOverload)  # else it replaces the implementation of an operator
        known = _has_effect[func] = name in _MATTERS or name in _BLANK or not is_plain or make_plan(func).has_work
    return known


def _is_on_device(kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    return device is not None and getattr(device, "type", None) == "cuda"


def _has_numbers(out: Any) -> bool:
    """Return whether a result contains Python numbers."""
    if isinstance(out, list | tuple):
        return any(_has_numbers(item) for item in out)
    return isinstance(out, bool | int | float | complex)


# Replays of CUDA graphs as tasks.


def replay(tape: Tape, memory: TrackedMemory, add: Callable[[LoggedOp], Any], site: Site) -> None:
    """Run the operators of a graph, and log each.

    The operators of a graph keep the order of the capture: tasks of other streams can run in between, but the branches
    of a graph are not reordered.

    Args:
        tape: The operators of the graph.
        memory: The memory of the log.
        add: Called with each task.
        site: The location in the user's program.
    """
    for op in tape.ops:
        if isinstance(op, Tape):
            replay(op, memory, add, site)
        elif isinstance(op, CapturedOp) and not op.is_blank:
            logged = _started(op, memory, site)
            op.run()
            if op.is_zeros and op.makes[0][1].memory.arena is not None:
                logged.writes = [place for _, place in _made(op, memory)]
                logged.func, logged.args, logged.kwargs = torch.ops.aten.zero_.default, tuple(logged.writes), {}
            else:
                logged.makes = _made(op, memory)
            add(logged)
        else:
            op.run()


def _started(op: CapturedOp, memory: TrackedMemory, site: Site) -> LoggedOp:
    logged, written = LoggedOp(op.func._schema.name, op.func, site=site), writes_of(op.func)
    logged.args = tuple(_kept(value, n in written, logged, memory) for n, value in enumerate(op.args))
    logged.kwargs = {name: _kept(value, name in written, logged, memory) for name, value in op.kwargs.items()}
    for _, operand in op.makes:
        _span_of(operand.memory, memory)
    return logged


def _made(op: CapturedOp, memory: TrackedMemory) -> list[tuple[tuple[int, ...], Place]]:
    return [(path, _place(operand, memory)) for path, operand in op.makes]


def _kept(value: Any, is_written: bool, logged: LoggedOp, memory: TrackedMemory) -> Any:
    if isinstance(value, Operand):
        place = _place(value, memory)
        (logged.writes if is_written else logged.reads).append(place)
        return place
    if isinstance(value, torch._C.Generator):
        return Draw(torch._C.Generator.get_state(value))
    if isinstance(value, list | tuple):
        items = [_kept(item, is_written, logged, memory) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _place(operand: Operand, memory: TrackedMemory) -> Place:
    dtype, size, stride, offset, flags = operand.layout
    return Place(_span_of(operand.memory, memory), dtype, tuple(size), stride, offset, flags)


def _span_of(piece: Memory, memory: TrackedMemory) -> Span:
    """Return the span of a graph's memory: an address in a pool, the user's storage, or a space of its own."""
    arena = piece.arena
    if arena is not None:
        span = Span(DEVICE, piece.address, piece.address + piece.num_bytes)
        memory.cover(span, lambda: arena.bytes_at(piece.address, piece.num_bytes))
        return span
    if piece.storage is not None:
        return memory.track(piece.storage)
    return memory.own_space(piece, piece.num_bytes)
