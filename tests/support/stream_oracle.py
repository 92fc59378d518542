"""A slow, independent oracle of stream races: every access, every ordering call, and reachability between them.

It observes torch's public methods of streams, events and graphs, and the operators, and shares no code with the
sanitizer. An access is a set of addresses; the work that is complete before an operation is a bit mask over operations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from unittest import mock

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.device import modes

#: Operators that access no element, whatever their schemas say.
SILENT = {
    "record_stream",
    "empty",
    "empty_strided",
    "empty_like",
    "new_empty",
    "_reshape_alias",
    "is_pinned",
    "detach",
    "set_",
    "lift",
}

#: File of the functions that replace torch's, which is none of the program's for the sanitizer.
_NOT_OF_THE_PROGRAM = "<frozen oracle>"

COPIES = {"copy_", "_to_copy"}


@dataclass
class Allocation:
    """The memory of one storage: its addresses, and the work that the allocator waited for before it reused them."""

    device: int
    start: int
    num_bytes: int
    stream: int
    recorded: set[int] = field(default_factory=set)
    awaited: int = 0
    awaited_from: int | None = None
    is_live: bool = True


@dataclass
class Access:
    """An operator's access to one tensor."""

    allocation: Allocation
    addresses: frozenset[int]
    is_write: bool


@dataclass
class Operation:
    """One launch, or one access by the host: the line that caused it, what was complete before, and its replay."""

    line: int
    accesses: list[Access]
    before: int
    replay: int | None = None


@dataclass
class Capture:
    """The operations of a graph capture."""

    operations: list[Operation] = field(default_factory=list)
    events: dict[int, int] = field(default_factory=dict)
    last: dict[tuple[int, int], int] = field(default_factory=dict)


class Oracle:
    """Observes a program in one file.

    Args:
        path: The file; lines of other files are attributed to the caller in it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.operations: list[Operation] = []
        self.host = 0
        self.streams: dict[tuple[int, int], int] = {}
        self.events: dict[int, int] = {}
        self.allocations: list[Allocation] = []
        self.by_storage: dict[int, Allocation] = {}
        self.captures: dict[int, Capture] = {}
        self.all_captures: list[Capture] = []
        self.open_capture: Capture | None = None
        self.blocking: set[int] = set()

    # What the program did

    def line(self) -> int:
        """The innermost line of the program's file on the call stack."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.path:
            frame = frame.f_back
        return 0 if frame is None else frame.f_lineno

    def before(self, key: tuple[int, int]) -> int:
        """Everything that is complete before the next operation of a stream."""
        device, stream = key
        mask = self.streams.get(key, 0) | self.host
        if stream == 0:
            for other in self.blocking:
                mask |= self.streams.get((device, other), 0)
        elif stream in self.blocking:
            mask |= self.streams.get((device, 0), 0)
        return mask

    def launch(self, key: tuple[int, int], accesses: list[Access], *, more: int = 0) -> None:
        """An operation on a stream."""
        if not accesses:
            return
        if self.open_capture is not None and key in self.open_capture.last:
            capture = self.open_capture
            number = len(capture.operations)
            capture.operations.append(Operation(self.line(), accesses, capture.last[key]))
            capture.last[key] |= 1 << number
            return
        self.streams[key] = self.add(self.before(key) | more, accesses)

    def add(self, before: int, accesses: list[Access], replay: int | None = None) -> int:
        """Add an operation; returns the mask of it and of what was complete before."""
        number = len(self.operations)
        self.operations.append(Operation(self.line(), accesses, before, replay))
        return before | 1 << number

    def on_host(self, accesses: list[Access]) -> None:
        """An access by the host."""
        if accesses:
            self.host = self.add(self.host, accesses)

    def record(self, event: int, key: tuple[int, int]) -> None:
        """An event is recorded."""
        capture = self.open_capture
        if capture is not None and key in capture.last:
            capture.events[event] = capture.last[key]
            return
        self.events[event] = self.before(key)
        if capture is not None:
            capture.events.pop(event, None)

    def wait(self, event: int, key: tuple[int, int]) -> None:
        """A stream waits for an event."""
        capture = self.open_capture
        if capture is not None and event in capture.events:
            capture.last[key] = capture.last.get(key, 0) | capture.events[event]
            return
        self.streams[key] = self.before(key) | self.events.get(event, 0)

    def host_waits(self, mask: int) -> None:
        """The host waits until some work is complete."""
        self.host |= mask

    def replay(self, graph: int, key: tuple[int, int]) -> None:
        """All operations of a graph are launched together."""
        capture = self.captures.get(graph)
        if capture is None:
            return
        before, first = self.before(key), len(self.operations)
        done = before
        for operation in capture.operations:
            done |= self.add(before | operation.before << first, operation.accesses, first)
        self.streams[key] = done

    def use_blocking(self, stream) -> None:
        """A stream of another library, which waits for the legacy default stream, and that stream for it."""
        self.blocking.add(handle_of(stream))

    # Memory

    def allocation_of(self, tensor: torch.Tensor) -> Allocation:
        """The allocation of a tensor's storage, which is new if the storage is."""
        storage = tensor.untyped_storage()
        known = storage.__dict__.get("_oracle")
        if known is not None and known.oracle is self:
            return known.allocation
        device = tensor.get_device() if tensor.is_cuda else -1
        stream = current_stream(device) if device >= 0 else 0
        allocation = Allocation(device, storage.data_ptr(), storage.nbytes(), stream)
        for former in self.allocations:
            if not former.is_live and former.awaited_from is None and overlap(former, allocation):
                former.awaited_from = len(self.operations)
        self.allocations.append(allocation)
        storage.__dict__["_oracle"] = Released(self, allocation)
        return allocation

    def released(self, allocation: Allocation) -> None:
        """A storage was released: the allocator waits for the streams of ``record_stream`` before it reuses it."""
        allocation.is_live = False
        for stream in allocation.recorded:
            allocation.awaited |= self.before((allocation.device, stream))

    def access(self, tensor: torch.Tensor, is_write: bool) -> Access | None:
        """The access of a tensor; None if it has no elements."""
        if not tensor.numel():
            return None
        allocation = self.allocation_of(tensor)
        offsets = {0}
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
            offsets = {offset + index * stride for offset in offsets for index in range(size)}
        size = tensor.element_size()
        start = tensor.data_ptr()
        addresses = {start + offset * size + byte for offset in offsets for byte in range(0, size, min(size, 4))}
        return Access(allocation, frozenset(addresses), is_write)

    # Races

    def racing_lines(self) -> set[tuple[int, int]]:
        """Pairs of lines that race."""
        pairs = {(self.operations[one].line, self.operations[two].line) for one, two in racing_pairs(self.operations)}
        for capture in self.all_captures:
            operations = capture.operations
            pairs |= {(operations[one].line, operations[two].line) for one, two in racing_pairs(operations)}
        return pairs


class Released:
    """Reports the release of the storage that it is an attribute of."""

    def __init__(self, oracle: Oracle, allocation: Allocation) -> None:
        self.oracle, self.allocation = oracle, allocation

    def __del__(self) -> None:
        self.oracle.released(self.allocation)


def overlap(one: Allocation, two: Allocation) -> bool:
    """Whether two allocations share an address."""
    return one.device == two.device and one.start < two.start + two.num_bytes and two.start < one.start + one.num_bytes


def racing_pairs(operations: list[Operation]) -> Iterator[tuple[int, int]]:
    """Pairs of operations that nothing orders and that access the same address, one of them to write it."""
    for two, later in enumerate(operations):
        for one, earlier in enumerate(operations[:two]):
            if later.before >> one & 1 or (later.replay is not None and later.replay == earlier.replay):
                continue  # a race within a graph is one of its capture
            if any(clash(first, second, one, two) for first in earlier.accesses for second in later.accesses):
                yield one, two


def clash(first: Access, second: Access, one: int, two: int) -> bool:
    """Whether two accesses touch the same address, and the allocator did not wait for the first one in between."""
    if first.allocation.device != second.allocation.device or not (first.is_write or second.is_write):
        return False
    former = first.allocation
    is_awaited = former.awaited_from is not None and two >= former.awaited_from and former.awaited >> one & 1
    return not is_awaited and not first.addresses.isdisjoint(second.addresses)


def current_stream(device: int) -> int:
    """Handle of the current stream of a device."""
    return handle_of(torch.cuda.current_stream(device))


class Observer(TorchDispatchMode):
    """Passes operators to an oracle."""

    #: The sanitizer, which runs above it, must not see its calls in the program's stack.
    cudalens_observes = False

    def __init__(self, oracle: Oracle) -> None:
        super().__init__()
        self.oracle = oracle

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        oracle, name = self.oracle, func._schema.name.partition("::")[2]
        inputs = list(arguments_of(func, args, kwargs))
        for tensor, _ in inputs:
            oracle.allocation_of(tensor)
        out = func(*args, **kwargs)
        if func.is_view or name in SILENT:
            return out
        accesses = [oracle.access(tensor, is_write) for tensor, is_write in inputs]
        known = {id(tensor.untyped_storage().__dict__.get("_oracle")) for tensor, _ in inputs}
        for tensor in pytree.tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and id(tensor.untyped_storage().__dict__.get("_oracle")) not in known:
                accesses.append(oracle.access(tensor, True))
        observe(oracle, name, [access for access in accesses if access is not None], args, kwargs)
        return out


def arguments_of(func, args, kwargs):
    """The tensors among the arguments of an operator, and whether it writes them."""
    by_name = {argument.name: argument for argument in func._schema.arguments}
    pairs = [*zip(func._schema.arguments, args, strict=False), *((by_name[name], kwargs[name]) for name in kwargs)]
    for argument, value in pairs:
        is_write = argument.alias_info is not None and argument.alias_info.is_write
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                yield leaf, is_write


def observe(oracle: Oracle, name: str, accesses: list[Access], args: tuple, kwargs: dict) -> None:
    """Add an operator to the oracle, with what it waits for."""
    devices = list(dict.fromkeys(access.allocation.device for access in accesses if access.allocation.device >= 0))
    if not devices:
        oracle.on_host(accesses)
        return
    if name not in COPIES:
        key = (devices[0], current_stream(devices[0]))
        oracle.launch(key, accesses)
        if name == "_local_scalar_dense":
            oracle.host_waits(oracle.before(key))
        return
    copy(oracle, accesses, devices, bool(kwargs.get("non_blocking", len(args) > 2 and args[2])), args)


def copy(oracle: Oracle, accesses: list[Access], devices: list[int], non_blocking: bool, args: tuple) -> None:
    """Add a copy: within a device, between devices, or between a device and the host."""
    source = next(access for access in accesses if not access.is_write)
    target = next(access for access in accesses if access.is_write)
    if source.allocation.device >= 0 and target.allocation.device >= 0:
        keys = [(a.allocation.device, current_stream(a.allocation.device)) for a in (source, target)]
        more = oracle.before(keys[1]) if devices[1:] else 0
        oracle.launch(keys[0], [source, target], more=more)
        if devices[1:]:
            oracle.streams[keys[1]] = oracle.before(keys[1]) | oracle.before(keys[0])
        return
    key = (devices[0], current_stream(devices[0]))
    host = source if source.allocation.device < 0 else target
    is_pinned = any(isinstance(each, torch.Tensor) and not each.is_cuda and each.is_pinned() for each in args)
    if non_blocking and not is_pinned and host is source:
        oracle.on_host([source])  # staged by the driver
        oracle.launch(key, [target])
        return
    oracle.launch(key, [source, target])
    if not (non_blocking and is_pinned):
        oracle.host_waits(oracle.before(key))


def handle_of(stream) -> int:
    """Handle of a stream; 0 for the legacy default stream, which has the handle 1, too."""
    if not hasattr(stream, "cuda_stream"):
        stream = torch.cuda.Stream(
            stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
        )
    return 0 if stream.cuda_stream == 1 else int(stream.cuda_stream)


@contextmanager
def observed(path: str) -> Iterator[Oracle]:
    """Observe the program of a file in the block, on the threads on which `on_thread` runs its functions."""
    oracle = Oracle(path)
    with ExitStack() as stack:
        for owner, name, make in _METHODS:
            original = getattr(owner, name)
            replaced = make(oracle, original)
            replaced.__code__ = replaced.__code__.replace(co_filename=_NOT_OF_THE_PROGRAM)
            stack.enter_context(mock.patch.object(owner, name, replaced))
        mode = Observer(oracle)
        modes.enter(mode)
        stack.callback(modes.leave, mode)
        yield oracle


def current_observer() -> Observer | None:
    """The observer of this thread."""
    stack = [torch._C._get_dispatch_stack_at(at) for at in range(torch._C._len_torch_dispatch_stack())]
    return next((mode for mode in stack if isinstance(mode, Observer)), None)


def key_of(stream) -> tuple[int, int]:
    """Device and handle of a stream; of the current one without."""
    stream = torch.cuda.current_stream() if stream is None else stream
    return stream.device_index, handle_of(stream)


def _record_event(oracle: Oracle, original: Callable) -> Callable:
    def record(self, stream=None):
        original(self, *(() if stream is None else (stream,)))
        oracle.record(id(self), key_of(stream))

    return record


def _wait_event(oracle: Oracle, original: Callable) -> Callable:
    def wait(self, stream=None):
        original(self, *(() if stream is None else (stream,)))
        oracle.wait(id(self), key_of(stream))

    return wait


def _synchronize_event(oracle: Oracle, original: Callable) -> Callable:
    def synchronize(self):
        original(self)
        oracle.host_waits(oracle.events.get(id(self), 0))

    return synchronize


def _synchronize_stream(oracle: Oracle, original: Callable) -> Callable:
    def synchronize(self):
        original(self)
        oracle.host_waits(oracle.before(key_of(self)))

    return synchronize


def _synchronize_device(oracle: Oracle, original: Callable) -> Callable:
    def synchronize(device=None):
        original(device)
        index = torch.cuda.current_device() if device is None else torch.device("cuda", device).index
        for key in list(oracle.streams):
            if key[0] == index:
                oracle.host_waits(oracle.before(key))

    return synchronize


def _begin_capture(oracle: Oracle, original: Callable) -> Callable:
    def capture_begin(self, *args, **kwargs):
        original(self, *args, **kwargs)
        oracle.open_capture = oracle.captures[id(self)] = Capture(last={key_of(None): 0})
        oracle.all_captures.append(oracle.open_capture)

    return capture_begin


def _end_capture(oracle: Oracle, original: Callable) -> Callable:
    def capture_end(self):
        oracle.open_capture = None
        original(self)

    return capture_end


def _replay(oracle: Oracle, original: Callable) -> Callable:
    def replay(self):
        original(self)
        oracle.replay(id(self), key_of(None))

    return replay


def _record_stream(oracle: Oracle, original: Callable) -> Callable:
    def record_stream(self, stream):
        original(self, stream)
        allocation = oracle.allocation_of(self)
        if handle_of(stream) != allocation.stream:  # which the allocator orders itself
            allocation.recorded.add(handle_of(stream))

    return record_stream


_METHODS = [
    (torch.Tensor, "record_stream", _record_stream),
    (torch.cuda.Event, "record", _record_event),
    (torch.cuda.Event, "wait", _wait_event),
    (torch.cuda.Event, "synchronize", _synchronize_event),
    (torch.cuda.Stream, "synchronize", _synchronize_stream),
    (torch.cuda, "synchronize", _synchronize_device),
    (torch.cuda.CUDAGraph, "capture_begin", _begin_capture),
    (torch.cuda.CUDAGraph, "capture_end", _end_capture),
    (torch.cuda.CUDAGraph, "replay", _replay),
]
