"""The edge to torch's profiler: the only module of this room that touches underscored torch names, each one probed.

Known to work with torch 2.9 to 2.13. A Kineto session belongs to the whole process, so at most one can be open.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import torch
from torch.autograd import profiler as torch_profiler

from cudalens.errors import ProfilerBusyError, ProfilerError
from cudalens.profiler.options import ProfilerOptions

_LOG_LEVEL: Final = "KINETO_LOG_LEVEL"
_SILENT: Final = "6"  # above USDT, Kineto's highest

_gate: Final = threading.Lock()
"""Held while a session starts, so that two threads cannot both find the profiler free."""


def is_busy() -> bool:
    """Whether a torch profiler is running: on this thread by C++'s account, or on any by Python's."""
    enabled: Callable[[], bool] | None = getattr(torch.autograd, "_profiler_enabled", None)
    return bool(enabled is not None and enabled()) or bool(getattr(torch_profiler, "_is_profiler_enabled", False))


def has_cuda() -> bool:
    """Whether there is a CUDA device and this build of torch can profile it."""
    supported: Callable[[], set[Any]] | None = getattr(torch.autograd, "_supported_activities", None)
    return torch.cuda.is_available() and (supported is None or torch.profiler.ProfilerActivity.CUDA in supported())


class KinetoSession:
    """One run of torch's Kineto profiler, over `torch.autograd.profiler.profile`.

    Args:
        options: What is recorded.
        watches_cuda: Whether what torch calls CUDA is a GPU that Kineto can watch.

    Attributes:
        uses_cuda: Whether GPU work is recorded.
    """

    def __init__(self, options: ProfilerOptions, *, watches_cuda: bool = True) -> None:
        self.uses_cuda = watches_cuda and not options.cpu_only and has_cuda()
        self._profile: Any = torch_profiler.profile(
            use_cpu=True,
            use_device="cuda" if self.uses_cuda else None,
            record_shapes=options.shapes,
            with_flops=options.flops,
            profile_memory=options.memory,
            with_stack=options.traces_python,
            with_modules=options.modules,
            use_kineto=True,
        )

    def start(self) -> None:
        """Turn the profiler on; when that is interrupted or fails, it is off again.

        Raises:
            ProfilerBusyError: Another torch profiler is running; it goes on undisturbed.
            ProfilerError: torch refused to start.
        """
        with _gate:
            self._start()

    def _start(self) -> None:
        if is_busy():
            raise ProfilerBusyError(
                "another torch profiler is running in this process (a torch.profiler block, emit_nvtx, or a profile on "
                "another thread); it goes on undisturbed. Leave its block first, or profile inside it with that tool."
            )
        try:
            with _quiet_kineto():
                self._profile.__enter__()
        except BaseException as error:
            _switch_off()
            if isinstance(error, (RuntimeError, AssertionError)):
                raise ProfilerError(f"torch's profiler did not start: {error}") from error
            raise

    def stop(self) -> Any:
        """Turn the profiler off and return torch's raw results (a `_ProfilerResult`).

        Raises:
            ProfilerError: The profiler was already off: somebody else ended it.
        """
        if not getattr(torch.autograd, "_profiler_enabled", lambda: True)():
            _switch_off()
            raise ProfilerError(
                "torch's profiler was ended inside the block (by a torch.profiler of its own?), "
                "or is being stopped on another thread."
            )
        try:
            self._profile.__exit__(None, None, None)
        except RuntimeError as error:
            raise ProfilerError(
                f"torch's profiler could not be read ({error}); another profiler ended it inside the block?"
            ) from error
        finally:
            if self._profile.kineto_results is None:
                _switch_off()
        if self._profile.kineto_results is None:
            raise ProfilerError("torch's profiler returned no results.")
        return self._profile.kineto_results

    @property
    def torch_profile(self) -> Any:
        """The torch profile object behind it: the peer that tests and benchmarks compare with."""
        return self._profile


@contextmanager
def _quiet_kineto() -> Iterator[None]:
    """Keep Kineto from printing a line into the user's output at every start and stop of a profiler.

    Kineto reads its log level from the environment once, at the first start in a process; the variable is there for no
    longer than that. A level that the user has set is left alone. What Kineto's errors would have told (no CUPTI), the
    run info tells.
    """
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = _SILENT
    try:
        yield
    finally:
        os.environ.pop(_LOG_LEVEL, None)


def _switch_off() -> None:
    """Leave no profiler behind, whatever state an interrupted start or stop left."""
    edge: Any = torch.autograd
    if getattr(edge, "_profiler_enabled", bool)():
        with suppress(RuntimeError):
            edge._disable_profiler()
    mark: Callable[[], None] | None = getattr(torch_profiler, "_run_on_profiler_stop", None)
    if mark is not None:
        mark()


def demangled(name: str) -> str:
    """A C++ symbol in words; any other text as it is."""
    if not name.startswith("_Z"):
        return name
    demangle: Callable[[str], str] | None = getattr(torch._C, "_demangle", None)
    return demangle(name) if demangle is not None else name
