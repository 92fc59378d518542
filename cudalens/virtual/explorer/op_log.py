"""What a watched program does on a virtual device, noted so that it can be done again in another order.

The operators come from the virtual device's dispatch handler as it computes them on the CPU, so nothing of the user's
Python is needed to do them again. A task is put on its stream when its kernel is launched, and stands among events and
synchronisations as `cudalens.device.gpu_trace` tells of them. Memory is known by its device address, or as one piece of
host memory; what lay there before is kept when it is first met. Host memory is followed where it is page-locked, where
somebody copied from a device into it, and in what torch computes from it on the host; all else of the host's is taken
to be as it was.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.device import gpu_trace, queries
from cudalens.device.interpose import interposed
from cudalens.device.stacks import place as site_of
from cudalens.virtual.capture.captured_ops import writes_of
from cudalens.virtual.dispatch.dispatch_utils import unseen
from cudalens.virtual.dispatch.plans import make_plan
from cudalens.virtual.explorer.logged import Draw, LoggedOp
from cudalens.virtual.explorer.memory import KnownMemory
from cudalens.virtual.explorer.orders import HOST, Program
from cudalens.virtual.explorer.places import Place, Span, at, tensors_in
from cudalens.virtual.explorer.replays import replay
from cudalens.virtual.explorer.waits import Waits
from cudalens.virtual.tensors.residency import residence_of

if TYPE_CHECKING:
    from cudalens.virtual.capture.captured_ops import Tape
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.timing.machine import Device
    from cudalens.virtual.timing.streams import Stream

_aten = torch.ops.aten
_BLANK: Final = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
_MATTERS: Final = frozenset({"aten::_local_scalar_dense", "aten::resize_", "aten::resize_as_", "aten::_resize_output_"})
"""Operators without a kernel that are to be done again all the same."""

_HOST_READERS: Final = ("numpy", "tolist", "__array__", "__dlpack__")
"""Methods of torch.Tensor by which Python looks at host memory without an operator."""

_COLLECTIVES: Final = "c10d::"
"""Operators of torch.distributed."""

_has_effect: dict[Any, bool] = {}


class _Pending:
    """An operator that has been computed, and may not have been launched or found a place for its results yet."""

    __slots__ = ("device", "known", "number", "op", "storages")

    def __init__(self, op: LoggedOp, device: Device | None, storages: list[tuple[Place, Any]]) -> None:
        self.op, self.device, self.storages = op, device, storages
        self.known = {id(storage) for _, storage in storages}
        self.number: int | None = None


class _Thread(threading.local):
    pending: _Pending | None = None
    collective: _Pending | None = None


class OpLog:
    """The log of one watch.

    Args:
        gpus: The virtual GPUs.
        max_bytes: Memory that may be kept: what lay in memory before, and values of the host.

    Attributes:
        ops: The tasks, by their number.
        memory: What is known of memory.
        problem: Why this cannot be done again; None while it can.
        num_threads: Threads that it is done again on; None until somebody has found out what is best.
    """

    def __init__(self, gpus: Gpus, *, max_bytes: int) -> None:
        self.gpus, self._machine = gpus, gpus.machine
        self.ops: list[LoggedOp] = []
        self.problem: str | None = None
        self.num_threads: int | None = None
        self.memory = KnownMemory(max_bytes, self._leave, self._refuse)
        self._waits = Waits(self._machine)
        self._thread = _Thread()
        self._lock = threading.RLock()
        self._works: dict[int, tuple[object, _Pending]] = {}
        self._subscription: gpu_trace.Subscription | None = None

    # On and off

    def start(self) -> None:
        """Begin to note."""
        quick = {gpu_trace.MemoryAllocated: self._allocated, gpu_trace.MemoryFreed: self._freed}
        self._subscription = gpu_trace.subscribe(self._told, quick=quick)
        queries.watch()
        for name in _HOST_READERS:
            interposed(torch.Tensor, name).add(before=self._read_by_host)
        self._machine.op_log = self

    def stop(self) -> None:
        """Note nothing more."""
        if self._subscription is None:
            return
        self.collected()
        for work, _ in list(self._works.values()):
            self.collected(work)
        self._subscription.close()
        self._subscription = None
        queries.unwatch()
        for name in _HOST_READERS:
            interposed(torch.Tensor, name).remove(before=self._read_by_host)
        if self._machine.op_log is self:
            self._machine.op_log = None

    @property
    def is_on(self) -> bool:
        """Whether it notes what happens."""
        return self._subscription is not None and self.problem is None

    @property
    def program(self) -> Program:
        """The order of the tasks."""
        return self._waits.builder.program

    @property
    def streams(self) -> dict[int, Stream]:
        """The stream of each lane, by its number; the host's is not among them."""
        return self._waits.streams

    def _refuse(self, problem: str) -> None:
        """This program cannot be done again: keep nothing of it."""
        self.problem = self.problem or problem
        self.ops.clear()
        self._waits = Waits(self._machine)
        self.memory.forget()

    # Operators

    def watch(self, dispatch: Callable[..., Any], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Let an operator be dispatched, and note what it does.

        Args:
            dispatch: Takes the other arguments, and carries it out.
            func: The overload.
            args: Its arguments.
            kwargs: Likewise.
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
                with self._lock, unseen():
                    self._finish(pending, out)
            return out
        finally:
            thread.pending = outer

    def run(self, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute an operator's values; its kernel comes by `launched`, its results are found when it has returned.

        Args:
            device: Where it runs.
            func: What is called on the CPU.
            args: Its arguments, as the CPU is given them.
            kwargs: Likewise.
        """
        if not self.is_on or not _matters(func):
            return func(*args, **kwargs)
        with self._lock, unseen():
            pending = self._begun(device, func, args, kwargs)
        out = func(*args, **kwargs)
        self._thread.pending = pending
        return out

    def note(self, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """As `run`, of a factory whose result is there already."""
        if self.is_on:
            with self._lock, unseen():
                self._thread.pending = self._begun(device, func, args, kwargs)

    def begin_call(self, name: str, call: Callable[..., Any] | None, args: Any, kwargs: dict[str, Any]) -> None:
        """A kernel that is no operator is about to run; its work comes by `launched`, then `called`.

        Args:
            name: Of the kernel.
            call: What runs it again on host tensors; None where that cannot be, so that it leaves what it left.
            args: Its arguments.
            kwargs: Likewise.
        """
        if not self.is_on:
            return
        with self._lock, unseen():
            storages: list[tuple[Place, Any]] = []
            op = LoggedOp(name, call, site=site_of(2))
            op.args, op.kwargs = self._kept(op, args, False, storages), self._kept(op, kwargs, False, storages)
            self._thread.pending = _Pending(op, self._machine.current_device, storages)

    def called(self, written: Iterable[torch.Tensor]) -> None:
        """The kernel has run, and was launched.

        Args:
            written: The tensors that it wrote.
        """
        pending, self._thread.pending = self._thread.pending, None
        if pending is None or not self.is_on:
            return
        with self._lock, unseen():
            for tensor in written:
                place = self.memory.place_of(tensor, is_written=True)
                if place is not None:
                    pending.op.writes.append(place)
                    if pending.op.func is None:
                        pending.op.contents.append((place.storage, self.memory.contents(tensor.untyped_storage())))
            self._finish(pending, None)

    def started(self, work: object) -> None:
        """The last collective of this thread will be waited for by that object."""
        collective, self._thread.collective = self._thread.collective, None
        if collective is not None:
            self._works[id(work)] = (work, collective)

    def collected(self, work: object = None) -> None:
        """A collective is done: what it left is what it leaves again.

        Args:
            work: What it was waited for by; by default it is the last one of this thread, if nothing is known of it.
        """
        _, collective = self._works.pop(id(work), (None, None))
        if collective is None:
            collective, self._thread.collective = self._thread.collective, None
        if collective is not None and self.is_on:
            with self._lock, unseen():
                kept = [(place, storage) for place, storage in collective.storages if place in collective.op.writes]
                contents = [(place.storage, self.memory.contents(storage)) for place, storage in kept]
                collective.op.contents = contents

    def launched(self, stream: Stream) -> None:
        """A stream was given work: that of the operator which is under way, if it has none yet."""
        pending = self._thread.pending
        if pending is not None and pending.number is None and self.is_on:
            with self._lock:
                self._put(pending, self._waits.lane(stream))

    def _host_op(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Pending | None:
        """An operator that is about to run on the host, where it touches memory that is followed."""
        tensors = [tensor for _, tensor in tensors_in((args, list(kwargs.values())))]
        if not any(self.memory.is_followed(tensor) for tensor in tensors):
            return None
        if any(residence_of(tensor) is not None for tensor in tensors) or _is_on_device(kwargs):
            return None
        if func is not _aten._pin_memory.default and not _matters(func):
            return None
        if func is _aten._pin_memory.default:
            func, args, kwargs = _aten.clone.default, args[:1], {}
        with self._lock, unseen():
            return self._begun(None, func, args, {key: value for key, value in kwargs.items() if key != "pin_memory"})

    def _begun(self, device: Device | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Pending:
        self.collected()
        storages: list[tuple[Place, Any]] = []
        op = LoggedOp(func._schema.name, func, site=site_of(2))
        if op.name.startswith(_COLLECTIVES):
            return self._begun_collective(device, op, args, kwargs, storages)
        for index, value in enumerate(args):
            op.args = (*op.args, self._kept(op, value, index in writes_of(func), storages))
        for name, value in kwargs.items():
            op.kwargs[name] = self._kept(op, value, name in writes_of(func), storages)
        return _Pending(op, device, storages)

    def _begun_collective(
        self, device: Device | None, op: LoggedOp, args: Any, kwargs: dict[str, Any], storages: list[tuple[Place, Any]]
    ) -> _Pending:
        """Other processes have a part in it: it cannot run again. What it writes stands first among its arguments."""
        self._kept(op, args[0], "send" not in op.name, storages)
        self._kept(op, [value for value in (*args[1:], *kwargs.values()) if _holds_tensors(value)], False, storages)
        op.func = None
        self._thread.collective = _Pending(op, device, storages)
        return self._thread.collective

    def _kept(self, op: LoggedOp, value: Any, is_written: bool, storages: list[tuple[Place, Any]]) -> Any:
        """What stands for an argument; tensors of the host that nobody follows are kept as they are now."""
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
            items = [self._kept(op, item, is_written, storages) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {key: self._kept(op, item, is_written, storages) for key, item in value.items()}
        return value

    def _put(self, pending: _Pending, lane: int) -> None:
        pending.op.lane = lane
        pending.number = self._add(pending.op)

    def replay(self, tape: Tape, stream: Stream) -> None:
        """Run a graph's operators again; each is a task of the stream."""
        if not self.is_on:
            tape.replay()
            return
        with self._lock, unseen():
            replay(tape, self.memory, functools.partial(self._add_to, self._waits.lane(stream)), site_of(2))

    def _add_to(self, lane: int, op: LoggedOp) -> None:
        op.lane = lane
        self._add(op)

    def _add(self, op: LoggedOp) -> int:
        self.ops.append(op)
        return self._waits.add(op.lane, op.touched())

    def _finish(self, pending: _Pending, out: Any) -> None:
        """An operator has returned: where its results lie, and whether an argument lies elsewhere now."""
        op = pending.op
        for path, tensor in tensors_in(out):
            storage = self.memory.storage_of(tensor)
            if storage is not None and id(storage) not in pending.known:
                pending.known.add(id(storage))
                op.makes.append((path, self.memory.made(tensor)))
        self._note_moves(pending)
        if op.name in _BLANK:
            self.memory.blank += [(len(self.ops), place.storage) for _, place in op.makes]
            return
        if pending.device is None and op.func is not None and make_plan(op.func).draws:
            self._keep_results(op, pending, out)
        is_host = pending.device is None
        op.is_observed = _has_numbers(out) or (not is_host and self._lands_on_host(op))
        if not (op.writes or op.makes or op.is_observed):
            return  # a view
        if pending.number is None:
            self._put(pending, HOST if is_host else self._waits.current_lane(pending.device))
        elif op.makes:
            assert pending.number is not None
            self._waits.touches(pending.number, [place.storage for _, place in op.makes])
        self.memory.settled(op)

    def _keep_results(self, op: LoggedOp, pending: _Pending, out: Any) -> None:
        """An operator of the host's drew random numbers; done again, it leaves what it left."""
        op.func = None
        kept = [(place, storage) for place, storage in pending.storages if place in op.writes]
        kept += [(place, at(out, path).untyped_storage()) for path, place in op.makes]
        op.contents = [(place.storage, self.memory.contents(storage)) for place, storage in kept]

    def _note_moves(self, pending: _Pending) -> None:
        for place, storage in pending.storages:
            now = self.memory.span_of(storage)
            if place in pending.op.writes and now is not None and now != place.storage:
                moved = self.memory.moved(place, storage)
                if moved is not None:
                    pending.op.moves.append((place, moved))

    def _lands_on_host(self, op: LoggedOp) -> bool:
        """Whether it is a copy to ordinary host memory, for which the host waits."""
        landed = [*op.writes, *(place for _, place in op.makes)]
        return any(place.storage.space and not self.memory.is_pinned(place.storage.space) for place in landed)

    def _leave(self, span: Span, contents: torch.Tensor, name: str) -> None:
        """Memory holds what no operator brought: torch's own scratch that joined a device, or what Python wrote."""
        is_host = span.space != 0
        lane = HOST if is_host else self._waits.current_lane()
        self._add(LoggedOp(name, None, contents=[(span, contents)], site=site_of(2), lane=lane))

    def _read_by_host(self, tensor: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(tensor, torch.Tensor) or not self.is_on or not self.memory.is_followed(tensor):
            return
        with self._lock, unseen():
            place = self.memory.place_of(tensor)
            if place is not None and place.storage.space:
                self._add(LoggedOp("host read", _as_it_is, (place,), reads=[place], site=site_of(2), is_observed=True))
                self.memory.expose(tensor)

    # Order

    def _told(self, record: gpu_trace.Record) -> None:
        """Listener of `cudalens.device.gpu_trace`."""
        if self.is_on:
            with self._lock:
                self._waits.told(record)

    def host_waits(self, stream: Stream) -> None:
        """The host waits for a stream without a call that says so: the driver does it in a copy."""
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


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    """What the host sees that looks at a tensor."""
    return tensor.clone()


def _matters(func: Any) -> bool:
    """Whether an operator does anything to memory; blank factories count, since their results are to be known."""
    known = _has_effect.get(func)
    if known is None:
        name = func._schema.name
        is_plain = isinstance(func, torch._ops.OpOverload)  # else it computes values in an operator's place
        known = _has_effect[func] = name in _MATTERS or name in _BLANK or not is_plain or make_plan(func).has_work
    return known


def _is_on_device(kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    return device is not None and getattr(device, "type", None) == "cuda"


def _has_numbers(out: Any) -> bool:
    """Whether an operator told the host a number."""
    if isinstance(out, list | tuple):
        return any(_has_numbers(item) for item in out)
    return isinstance(out, bool | int | float | complex)
