"""Named ranges: steps, profiles within profiles, the program's own; and every operator as an NVTX range."""

from __future__ import annotations

import gc
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, ParamSpec, Self, TypeVar, cast

import torch
from torch.autograd import profiler as torch_profiler

from cudalens.device.interrupts import defers_interrupts
from cudalens.errors import CudalensError, ProfilerBusyError, ProfilerError
from cudalens.frames.build import STEP_PREFIX
from cudalens.profiler import kineto
from cudalens.profiler.schedules import steps

if TYPE_CHECKING:
    import pandas as pd
    from torch.futures import Future

P = ParamSpec("P")
R = TypeVar("R")

#: Opens the range of a call, or of a generator's run to its next ``yield``.
Open = Callable[[], AbstractContextManager[Any]]


def named(function: Callable[P, R], open_range: Open) -> Callable[P, R]:
    """Wrap `function` so that each call is a range."""
    for kind, wrap in (
        (inspect.isasyncgenfunction, _async_generator),
        (inspect.iscoroutinefunction, _coroutine),
        (inspect.isgeneratorfunction, _generator),
    ):
        if kind(function):
            return cast("Callable[P, R]", wrap(function, open_range))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with open_range():
            return function(*args, **kwargs)

    return call


def _coroutine(function: Callable[..., Any], open_range: Open) -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with open_range():
            return await function(*args, **kwargs)

    return call


def _generator(function: Callable[..., Any], open_range: Open) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        act: Callable[[], Any] = partial(next, generator)
        while True:
            try:
                with open_range():
                    value = act()
            except StopIteration as end:
                return end.value
            try:
                sent = yield value
            except GeneratorExit:
                with open_range():  # cleanup code of the generator belongs to the range, too
                    generator.close()
                raise
            except BaseException as error:
                act = partial(generator.throw, error)
            else:
                act = partial(generator.send, sent)

    return call


def _async_generator(function: Callable[..., Any], open_range: Open) -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        act: Callable[[], Any] = partial(anext, generator)
        while True:
            try:
                with open_range():
                    value = await act()
            except StopAsyncIteration:
                return
            try:
                sent = yield value
            except GeneratorExit:
                with open_range():
                    await generator.aclose()
                raise
            except BaseException as error:
                act = partial(generator.athrow, error)
            else:
                act = partial(generator.asend, sent)

    return call


#: Name of the ranges, which `cudalens.analysis.findings` looks for.
RANGE: Final = "Python garbage collection"

#: Collections of younger generations take microseconds and are frequent; only the oldest visits all objects.
OLDEST: Final = 2


class GarbageRanges:
    """Opens a range around each collection of the oldest generation between `start` and `stop`.

    Args:
        is_wanted: Whether the host's time is real; on a modelled host a collection takes no time.
    """

    name = "garbage collection ranges"

    def __init__(self, is_wanted: Callable[[], bool]) -> None:
        self._is_wanted = is_wanted
        self._open: dict[int, Any] = {}

    def start(self) -> None:
        """Add the callback."""
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """Remove the callback, and close a range that is open."""
        with suppress(ValueError):
            gc.callbacks.remove(self._on_collection)
        while self._open:
            close_range(self._open.popitem()[1])

    def frames(self) -> dict[str, pd.DataFrame]:
        """Nothing: the ranges are among the profiler's events."""
        return {}

    @defers_interrupts("profile")  # Python ignores exceptions of these callbacks, an interrupt as well
    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        thread = threading.get_ident()
        if phase == "start" and info["generation"] == OLDEST and self._is_wanted():
            self._open[thread] = open_range(RANGE)
        elif phase == "stop" and thread in self._open:
            close_range(self._open.pop(thread))


T = TypeVar("T")

#: What our own steps are counted as.
REQUESTER = "cudalens"


def open_range(name: str) -> Any:
    """Begin a range that shows as a user annotation; give it to `close_range`."""
    range_: Any = torch_profiler.record_function(name)
    range_.__enter__()
    return range_


def close_range(range_: Any) -> None:
    """End a range that `open_range` began."""
    range_.__exit__(None, None, None)


class StepRanges:
    """Counts the steps of one recording, and keeps the range of the current one open, named as torch names its own."""

    def __init__(self) -> None:
        self.num_steps = 0
        self._range: Any = None

    def step(self, number: int | None = None) -> None:
        """End the current step, if there is one, and begin the next: `number`, or the one that follows."""
        self.close()
        self._range = open_range(f"{STEP_PREFIX}{self.num_steps if number is None else number}")
        self.num_steps += 1

    def close(self) -> None:
        """End the current step, if there is one."""
        range_, self._range = self._range, None
        if range_ is not None:
            close_range(range_)


def count_step() -> None:
    """Count one more step of the program for cudalens' profiler."""
    steps.increment(REQUESTER)


#: The ranges that are open here, innermost last: each thread and each asynchronous task has its own.
_open: Final[ContextVar[tuple[tuple[record_function, Any], ...]]] = ContextVar("cudalens_open_ranges", default=())


class record_function:  # noqa: N801 - reads as a verb, like torch's
    """Names a stretch of the program, as a context manager or as a decorator.

    It shows as a user annotation in whatever profile is running, ours or torch's, and under `emit_nvtx` as an NVTX
    range. An object may be entered again, also while it is open (by a recursive function), by several threads and by
    several asynchronous tasks.

    As a decorator it names each call: of a coroutine function from its first step to its end, waiting included; of a
    generator function each stretch between two values, since what runs in between is the caller's.

    Args:
        name: What it is called; without one, as ``@record_function()``, the function's own.
        args: Text that is kept with the range, as torch keeps it.

    Raises:
        TypeError: `name` or `args` is no text.
    """

    def __init__(self, name: str | None = None, args: str | None = None) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name is {type(name).__name__}, expected text; as a decorator write @record_function()")
        if args is not None and not isinstance(args, str):
            raise TypeError(f"args is {type(args).__name__}, expected text: repr(…) or str(…) makes it one")
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        if self.name is None:
            raise ProfilerError("a range needs a name: with cudalens.record_function('my range'): …")
        range_: Any = torch_profiler.record_function(self.name, self.args)
        range_.__enter__()
        _open.set((*_open.get(), (self, range_)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        at, range_ = self._innermost()
        if range_ is None:
            raise ProfilerError(f"the range '{self.name}' is not open here: it was left on another thread, or twice.")
        opened = _open.get()
        _open.set((*opened[:at], *opened[at + 1 :]))
        range_.__exit__(kind, error, trail)

    def _innermost(self) -> tuple[int, Any]:
        """Place and range of this object's innermost open block; None where none is open here."""
        opened = _open.get()
        for at in range(len(opened) - 1, -1, -1):
            if opened[at][0] is self:
                return at, opened[at][1]
        return -1, None

    def until(self, future: Future[T]) -> Future[T]:
        """Let the range that is open last until `future` is done, beyond the end of its block.

        Args:
            future: What an asynchronous call gave (``torch.distributed.rpc``, ``work.get_future()``).

        Returns:
            A future with the value of `future`, done once the range has ended. Wait for this one.

        Raises:
            ProfilerError: No block of this range is open here, or it waits for a future already.
            TypeError: `future` is none of torch's.
        """
        if not isinstance(future, torch.futures.Future):
            raise TypeError(
                f"until() takes a torch.futures.Future, not {type(future).__module__}.{type(future).__qualname__}; "
                "around an await a plain block is enough"
            )
        _, range_ = self._innermost()
        if range_ is None:
            raise ProfilerError("until() belongs inside the block of its range.")
        if not range_.run_callbacks_on_exit:
            raise ProfilerError(f"the range '{self.name}' waits for a future already.")
        return range_._call_end_callbacks_on_future(future)

    def _call_end_callbacks_on_future(self, fut: Future[T]) -> Future[T]:
        """Let the range last until a future is done: torch's name of `until`."""
        return self.until(fut)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Name each call of `function`."""
        name = self.name if self.name is not None else getattr(function, "__qualname__", type(function).__name__)
        return named(function, lambda: record_function(name, self.args))

    def __repr__(self) -> str:
        return f"<cudalens.record_function {self.name!r}>"


class _Emitter:
    """Every operator of a block as a range of another tool, over the class of that name in torch's profiler."""

    #: Name of torch's class, and what it needs.
    _torch_name: ClassVar[str]
    _needs: ClassVar[str]

    def __init__(self, enabled: bool = True, *, record_shapes: bool = False) -> None:
        self._enabled, self._record_shapes = enabled, record_shapes
        self._emitting: Any = None

    def __enter__(self) -> Self:
        if not self._enabled:
            return self
        name = self._torch_name
        if self._emitting is not None:
            raise ProfilerError(f"{name} is entered already; it does not nest.")
        if kineto.is_busy():
            raise ProfilerBusyError(f"a torch profiler is running in this process; leave its block before {name}.")
        emit: Any = getattr(torch_profiler, name)
        emitting = emit(record_shapes=self._record_shapes)
        try:
            emitting.__enter__()
        except BaseException as error:
            kineto.switch_off()
            if isinstance(error, CudalensError) or not isinstance(error, RuntimeError | AssertionError):
                raise
            raise ProfilerError(f"torch cannot start {name} here: {error}. It needs {self._needs}.") from error
        self._emitting = emitting
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        emitting, self._emitting = self._emitting, None
        if emitting is None:
            return
        try:
            emitting.__exit__(kind, error, trail)
        finally:
            kineto.switch_off()


class emit_nvtx(_Emitter):  # noqa: N801 - as torch calls it
    """Makes every operator of the block an NVTX range, for a run under nsys or ncu.

    The name of a range is that of its operator, with autograd's sequence number (``seq = N``), its input shapes if
    requested, and for a backward function the number of its forward operator (``stashed seq = N``). `cudalens.load`
    reads all of that from nsys' SQLite export.

    Args:
        enabled: False makes it do nothing.
        record_shapes: Add the shapes of the inputs.

    Raises:
        ProfilerBusyError: On entry: a profiler is running.
        ProfilerError: On entry: it is entered already, or torch cannot here (no GPU, no CUDA build).
        VirtualDeviceError: On entry: a virtual device is in place, which NVIDIA's tools do not see.
    """

    _torch_name = "emit_nvtx"
    _needs = "a CUDA build of torch and a GPU"


class emit_itt(_Emitter):  # noqa: N801 - as torch calls it
    """Makes every operator of the block an ITT range, for a run under Intel's VTune.

    Args:
        enabled: False makes it do nothing.
        record_shapes: Add the shapes of the inputs.

    Raises:
        ProfilerBusyError: On entry: a profiler is running.
        ProfilerError: On entry: it is entered already, or this build of torch has no ITT.
    """

    _torch_name = "emit_itt"
    _needs = "a build of torch with ITT, on x86"
