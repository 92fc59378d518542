"""Report the tasks of a running program as they are issued: operators, Triton kernels, replays of graphs.

Accesses by the host are tasks only at requested places: a race with the host has one access there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.device import accumulation, modes
from cudalens.device.interpose import interposed
from cudalens.device.launches import bound, name_of, tensors_in
from cudalens.device.modes import conjugation, has_own_dispatch
from cudalens.device.stacks import Place, place

#: Methods of torch.Tensor that read host memory without an operator.
_HOST_READERS: Final = ("numpy", "tolist", "__array__", "__dlpack__")

#: Operators without work for a device.
_IDLE: Final = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "_reshape_alias"}
    | {"set_", "resize_", "record_stream", "lift_fresh", "is_pinned", "set_data", "requires_grad_"}
)

#: Operators that write arguments which their schemas do not declare as written.
_UNDECLARED: Final = frozenset({"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"})


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of work of a program.

    Attributes:
        number: Its number in the order in which the host issued the tasks, from 0.
        name: Name of the operator or kernel.
        place: Place of the call.
        device: Index of the GPU; None for an access by the host.
        stream: The stream's handle; None for the host.
        is_replay: Whether it is the replay of a graph.
    """

    number: int
    name: str
    place: Place
    device: int | None
    stream: int | None
    is_replay: bool = False

    @property
    def lane(self) -> tuple[int | None, int | None]:
        """Its device and stream."""
        return self.device, self.stream


@dataclass(frozen=True, slots=True)
class Spot:
    """An access of a race, to find among tasks.

    Attributes:
        name: Name of the operator.
        filename: File of the source, as Python names it; empty without a Python caller.
        function: Qualified name of the function.
        line: Line number.
        instruction: Offset in the bytecode.
        stream: Handle of its stream; None for the host.
    """

    name: str
    filename: str
    function: str
    line: int
    instruction: int
    stream: int | None

    @property
    def ways(self) -> Sequence[Callable[[Task], bool]]:
        """Predicates that identify its tasks, the most reliable first."""
        return self._is_instruction, self._is_line, self._is_on_stream

    def _is_instruction(self, task: Task) -> bool:
        spot = task.place
        return self._is_line(task) and (spot.function, spot.instruction) == (self.function, self.instruction)

    def _is_line(self, task: Task) -> bool:
        is_there = bool(self.filename) and (task.place.filename, task.place.line) == (self.filename, self.line)
        return is_there and (task.name == self.name or task.is_replay or task.device is None)

    def _is_on_stream(self, task: Task) -> bool:
        """Operators of a graph have the place of the capture; operators of autograd's threads have none."""
        return task.stream == self.stream and (task.is_replay or task.name == self.name)


class Listener(Protocol):
    """Receives the tasks."""

    def writes(self, tensors: Sequence[torch.Tensor]) -> None:
        """These tensors may be about to be written, by a task or by the host."""

    def replays(self) -> None:
        """A graph is about to be replayed, whose writes are unknown."""

    def makes(self, tensors: Sequence[torch.Tensor]) -> None:
        """These were returned by an operator."""

    def before(self, task: Task) -> None:
        """A task is about to be issued on the current stream."""

    def after(self, task: Task) -> None:
        """The task was issued."""


@contextmanager
def without_sync_warnings() -> Iterator[None]:
    """Disable torch's sync debug mode in the block, in which cudalens itself waits for the device."""
    before = torch.cuda.get_sync_debug_mode()
    if not before:  # the first change emits a warning of its own
        yield
        return
    torch.cuda.set_sync_debug_mode(0)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


class Reporter:
    """Numbers tasks and reports them to a listener; operators of the listener itself are not tasks.

    Attributes:
        failure: The exception of the listener, which does not reach the program; nothing is reported afterwards.
    """

    def __init__(self, listener: Listener, host_lines: frozenset[tuple[str, int]]) -> None:
        self._listener, self._host_lines = listener, host_lines
        self._count = 0
        self._local = threading.local()
        self._lock = threading.Lock()
        self.failure: Exception | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether the listener is running on this thread."""
        return getattr(self._local, "is_quiet", False)

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Run the listener; its exceptions do not reach the program."""
        before, self._local.is_quiet = self.is_quiet, True
        try:
            with without_sync_warnings():
                yield
        except Exception as error:
            self.failure = self.failure or error
        finally:
            self._local.is_quiet = before

    @property
    def begun(self) -> list[Task | None]:
        """Active calls of methods on this thread."""
        found: list[Task | None] | None = getattr(self._local, "begun", None)
        if found is None:
            found = self._local.begun = []
        return found

    def begin(
        self, name: str, written: Sequence[torch.Tensor], device: int | None, *, is_replay: bool = False
    ) -> Task | None:
        """Report a task that is about to be issued, and return it; None if nothing is issued, as during a capture."""
        is_capturing = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]
        if self.is_quiet or self.failure is not None or is_capturing:
            return None
        task = None
        with self._quiet():
            if is_replay:
                self._listener.replays()
            self._listener.writes(written)
            at = place(2)
            if device is None and (at.filename, at.line) not in self._host_lines:
                return None
            stream = None if device is None else int(torch.cuda.current_stream(device).cuda_stream)
            with self._lock:
                task = Task(self._count, name, at, device, stream, is_replay)
                self._count += 1
            self._listener.before(task)
        return task

    def end(self, task: Task | None, made: Sequence[torch.Tensor] = ()) -> None:
        """Report that a task was issued."""
        if self.is_quiet or self.failure is not None:
            return
        with self._quiet():
            self._listener.makes(made)
            if task is not None:
                self._listener.after(task)


class _Mode(TorchDispatchMode):
    """Reports operators. It stays above modes that execute them."""

    cudalens_observes = True
    supports_higher_order_operators = True

    def __init__(self, reporter: Reporter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._reporter = reporter

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is accumulation.ADD:
            func = accumulation.addition(args, kwargs)
        if has_own_dispatch(types):
            return NotImplemented  # operators that the subclass calls arrive here again
        if self._reporter.is_quiet or not hasattr(func, "_schema") or func.is_view:
            with conjugation(func):
                return func(*args, **kwargs)  # a higher-order operator calls others
        task = None
        if func._schema.name.partition("::")[2] not in _IDLE:
            arguments = list(_tensor_arguments(func, args, kwargs))
            written = [tensor for tensor, is_written in arguments if is_written]
            task = self._reporter.begin(func._schema.name, written, _device_of(arguments, kwargs))
        with conjugation(func):
            out = func(*args, **kwargs)
        self._reporter.end(task, [leaf for leaf in pytree.tree_leaves(out) if isinstance(leaf, torch.Tensor)])
        return out


def _tensor_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[torch.Tensor, bool]]:
    """Yield each tensor among the arguments, and whether the operator may write it."""
    schema = func._schema
    namespace, _, short = schema.name.partition("::")
    is_unsure = namespace not in ("aten", "prims") or short in _UNDECLARED
    by_name = {argument.name: argument for argument in schema.arguments}
    given = [*zip(schema.arguments, args, strict=False), *((by_name.get(name), kwargs[name]) for name in kwargs)]
    for argument, value in given:
        alias = getattr(argument, "alias_info", None)
        is_written = is_unsure or (alias is not None and bool(alias.is_write))
        yield from ((leaf, is_written) for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _device_of(arguments: Sequence[tuple[torch.Tensor, bool]], kwargs: dict[str, Any]) -> int | None:
    """Return the GPU on which an operator works: that of an argument, or that on which it makes a tensor."""
    for tensor, _ in arguments:
        if tensor.is_cuda:
            return tensor.get_device()
    if kwargs.get("device") is None:
        return None
    device = torch.device(kwargs["device"])
    if device.type != "cuda":
        return None
    return torch.cuda.current_device() if device.index is None else device.index


@contextmanager
def reported_tasks(listener: Listener, spots: Sequence[Spot]) -> Iterator[Reporter]:
    """Report every task that the block issues.

    Args:
        listener: Receives the tasks.
        spots: Accesses; those by the host are tasks too.
    """
    reporter = Reporter(listener, frozenset((spot.filename, spot.line) for spot in spots if spot.stream is None))
    mode = _Mode(reporter)
    with ExitStack() as stack:
        _around(stack, torch.cuda.CUDAGraph, "replay", lambda *_, **__: _begin_replay(reporter), reporter)
        for name in _HOST_READERS:
            _around(stack, torch.Tensor, name, lambda x, *_, n=name, **__: _begin_read(reporter, n, x), reporter)
        runner = getattr(sys.modules.get("triton.runtime.jit"), "JITFunction", None)
        if isinstance(runner, type):
            _around(stack, runner, "run", lambda *a, **k: _begin_kernel(reporter, *a, **k), reporter)
        modes.enter(mode)
        stack.callback(modes.leave, mode)
        yield reporter


def _around(stack: ExitStack, owner: type, name: str, begin: Callable[..., Task | None], reporter: Reporter) -> None:
    """Report each call of a method."""
    method = interposed(owner, name)

    def before(*args: Any, **kwargs: Any) -> None:
        reporter.begun.append(begin(*args, **kwargs))

    def after(result: Any, *args: Any, **kwargs: Any) -> None:
        task = reporter.begun.pop() if reporter.begun else None
        if task is not None:
            reporter.end(task)

    method.add(before=before, after=after)
    stack.callback(method.remove, before=before, after=after)


def _begin_replay(reporter: Reporter) -> Task | None:
    return reporter.begin("graph replay", (), torch.cuda.current_device(), is_replay=True)


def _begin_read(reporter: Reporter, name: str, tensor: torch.Tensor) -> Task | None:
    return None if tensor.is_cuda else reporter.begin(name, (), None)


def _begin_kernel(reporter: Reporter, function: Any, *args: Any, **kwargs: Any) -> Task | None:
    if kwargs.get("warmup") or reporter.is_quiet:
        return None
    tensors = [tensor for _, tensor in tensors_in(bound(function, args, kwargs))]
    device = next((tensor.get_device() for tensor in tensors if tensor.is_cuda), None)
    return reporter.begin(name_of(function), tensors, device)
