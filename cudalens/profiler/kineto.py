"""Start and stop torch's Kineto profiler: the only module of the profiler that uses private torch names, each probed.

Known to work with torch 2.9 to 2.15. A Kineto session belongs to the whole process, so at most one can be open.
"""

from __future__ import annotations

import os
import platform
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import torch
from torch.autograd import profiler as torch_profiler

from cudalens import device
from cudalens._version import __version__
from cudalens.device import call_tracing
from cudalens.errors import ProfilerBusyError, ProfilerError
from cudalens.frames import DeviceInfo
from cudalens.frames.info import Threads

_LOG_LEVEL: Final = "KINETO_LOG_LEVEL"
_SILENT: Final = "6"  # above USDT, Kineto's highest

#: Whether this process has freed a block of memory whose size torch's profiler does not know.
_has_freed_unknown = False

#: Held while a session starts, so that two threads cannot both find the profiler free.
_gate: Final = threading.Lock()


def is_busy() -> bool:
    """Return whether a torch profiler is running: on this thread according to C++, or on any according to Python."""
    enabled: Callable[[], bool] | None = getattr(torch.autograd, "_profiler_enabled", None)
    return bool(enabled is not None and enabled()) or bool(getattr(torch_profiler, "_is_profiler_enabled", False))


def has_cuda() -> bool:
    """Return whether there is a CUDA device and this build of torch can profile it."""
    supported: Callable[[], set[Any]] | None = getattr(torch.autograd, "_supported_activities", None)
    return torch.cuda.is_available() and (supported is None or torch.profiler.ProfilerActivity.CUDA in supported())


#: Options that the run info has only if they are given, or not at all.
_SPARSE: Final = ("use_device", "experimental")


@dataclass(frozen=True)
class ProfilerOptions:
    """What a profile should record.

    Attributes:
        memory: Every allocation and release of tensor memory.
        shapes: Shapes and dtypes of the inputs of each operator.
        stacks: The Python call stack of each operator (a Python tracer runs; slow).
        modules: The path of nn.Modules that were running (needs the Python tracer as well).
        flops: Floating-point operations by torch's formulas (records shapes as well, as torch does).
        cpu_only: Leave the GPU alone, also where there is one.
        use_device: The kind of device to record ("cuda", "xpu", a PrivateUse1 backend's name), which has to be there;
            None for a CUDA device where there is one.
        experimental: torch's `_ExperimentalConfig`, passed to Kineto unchanged; None for its defaults.
    """

    memory: bool = False
    shapes: bool = False
    stacks: bool = False
    modules: bool = False
    flops: bool = False
    cpu_only: bool = False
    use_device: str | None = None
    experimental: Any = None

    @property
    def traces_python(self) -> bool:
        """Whether torch's Python tracer has to run."""
        return self.stacks or self.modules

    def to_dict(self) -> dict[str, str | int | float | bool | None]:
        """Return the options as `RunInfo.options` has them."""
        recorded = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _SPARSE}
        if self.use_device is not None:
            recorded["use_device"] = self.use_device
        return recorded


class KinetoSession:
    """One run of torch's Kineto profiler, over `torch.autograd.profiler.profile`.

    Args:
        options: What is recorded.
        watches_cuda: Whether what torch calls CUDA is a GPU that Kineto can watch.

    Attributes:
        device: The kind of device whose work is recorded, as torch names it; None for the host alone.
        is_prepared: Whether it was made ready and waits for its start.

    Raises:
        ProfilerError: The device that the options ask for cannot be recorded here.
    """

    def __init__(self, options: ProfilerOptions, *, watches_cuda: bool = True) -> None:
        self.device = _device_of(options, watches_cuda)
        more = {} if options.experimental is None else {"experimental_config": _checked_config(options.experimental)}
        self.is_prepared = False
        self._has_memory, self._has_calls = options.memory, options.traces_python
        self._profile: Any = torch_profiler.profile(
            **more,
            use_cpu=True,
            use_device=self.device,
            record_shapes=options.shapes,
            with_flops=options.flops,
            profile_memory=options.memory,
            with_stack=options.traces_python,  # and modules; torch's with_modules is for TorchScript alone
            use_kineto=True,
        )

    @property
    def uses_cuda(self) -> bool:
        """Whether a device's work is recorded: CUDA's, or another's that Kineto records in the same way."""
        return self.device is not None

    def prepare(self) -> None:
        """Make ready, so that `start` is quick (CUPTI is loaded here); what runs until then is not kept.

        Raises:
            ProfilerBusyError: Another torch profiler is running.
            ProfilerError: torch refused.
        """
        prepare: Callable[[], None] | None = getattr(self._profile, "_prepare_trace", None)
        if prepare is None or not hasattr(self._profile, "_start_trace"):
            return
        with _gate:
            self._guarded(prepare)
            self.is_prepared = True

    def start(self) -> None:
        """Turn the profiler on; when that is interrupted or fails, it is off again.

        Raises:
            ProfilerBusyError: Another torch profiler is running; it is not affected.
            ProfilerError: torch refused to start.
        """
        earlier = [torch.UntypedStorage(64)] if self._has_memory else []  # type: ignore[no-untyped-call]
        if self._has_calls:
            call_tracing.find_field()
        with _gate:
            self._guarded(self._profile._start_trace if self.is_prepared else self._profile.__enter__)
            _other_profilers.set_recording(True)
            _free_silently(earlier)
            if self._has_calls:
                call_tracing.start()

    def _guarded(self, act: Callable[[], object]) -> None:
        _other_profilers.end_once()
        if is_busy():
            raise ProfilerBusyError(
                "another torch profiler is running in this process (a torch.profiler block, emit_nvtx, or a profile on "
                "another thread); it was not affected. Leave its block first, or profile inside it with that tool."
            )
        try:
            with _quiet_kineto():
                act()
        except BaseException as error:
            switch_off()
            if isinstance(error, (RuntimeError, AssertionError)):
                raise ProfilerError(f"torch's profiler did not start: {error}") from error
            raise

    def stop(self) -> Any:
        """Turn the profiler off and return torch's raw results (a `_ProfilerResult`).

        Raises:
            ProfilerError: The profiler was already off: other code ended it.
        """
        _other_profilers.set_recording(False)
        call_tracing.stop()
        if not getattr(torch.autograd, "_profiler_enabled", lambda: True)():
            switch_off()
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
                switch_off()
        if self._profile.kineto_results is None:
            raise ProfilerError("torch's profiler returned no results.")
        return self._profile.kineto_results

    @property
    def torch_profile(self) -> Any:
        """The torch profile object behind it: the peer that tests and benchmarks compare with."""
        return self._profile


class _OtherProfilers:
    """What happens when other code starts torch's profiler while a recording is open: it ends, or the start is refused.

    Attributes:
        end_recording: Ends the recording, if it is one that ends for other profilers.
        is_recording: Whether a recording is open.
    """

    def __init__(self) -> None:
        self.end_recording: Callable[[], object] | None = None
        self.is_recording = False
        self._replaced: dict[str, Callable[..., Any]] = {}  # functions of torch, while ours are in their place

    def set_recording(self, is_recording: bool) -> None:
        """Record whether a recording is open."""
        self.is_recording = is_recording
        self._update()

    def set_end(self, end_recording: Callable[[], object] | None) -> None:
        """Set what ends the recording; None if it does not end for other profilers."""
        self.end_recording = end_recording
        self._update()

    def end_once(self) -> None:
        """End the recording, if it ends for other profilers, and not a second time."""
        end = self.end_recording
        if end is not None:
            self.set_end(None)
            end()

    def _update(self) -> None:
        """Replace the functions that torch calls before a start, or put them back."""
        is_needed = self.end_recording is not None or self.is_recording
        if is_needed and not self._replaced:
            names = [name for name in ("_prepare_profiler", "_run_on_profiler_start") if hasattr(torch_profiler, name)]
            self._replaced = {name: getattr(torch_profiler, name) for name in names}
            for name, function in self._replaced.items():
                setattr(torch_profiler, name, self._checked(function))
        elif not is_needed:
            replaced, self._replaced = self._replaced, {}
            for name, function in replaced.items():
                setattr(torch_profiler, name, function)

    def _checked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.end_once()
            if self.is_recording:
                raise ProfilerBusyError(
                    "cudalens is recording in this process, and torch can run one profiler at a time. Start the other "
                    "profiler outside of cudalens' block; cudalens.record_function names a part of the recording."
                )
            return function(*args, **kwargs)

        return call


_other_profilers: Final = _OtherProfilers()


@contextmanager
def ending_for_other_profilers(end: Callable[[], object]) -> Iterator[None]:
    """During the block, call `end` before other code starts torch's profiler, also where torch itself starts it.

    `end` has to stop the running recording. It is called at most once.
    """
    _other_profilers.set_end(end)
    try:
        yield
    finally:
        _other_profilers.set_end(None)


def known_devices() -> tuple[str, ...]:
    """Kinds of devices that a profile accepts by name."""
    backend = _private_backend()
    return ("cpu", "cuda", *_OTHER_DEVICES, _PRIVATE, *([backend] if backend is not None else []))


_OTHER_DEVICES: Final = ("xpu", "mtia", "hpu")
#: torch's own name of the device of an extension, which may give it another one.
_PRIVATE: Final = "privateuseone"


def _private_backend() -> str | None:
    """Return the name of the PrivateUse1 backend, where one has registered itself."""
    get_name: Callable[[], str] | None = getattr(torch._C, "_get_privateuse1_backend_name", None)
    name = _PRIVATE if get_name is None else get_name()
    return None if name == _PRIVATE else name


def _device_of(options: ProfilerOptions, watches_cuda: bool) -> str | None:
    """The device to record, as torch's profiler names it; None for the host alone (a virtual one records itself)."""
    if options.cpu_only or options.use_device == "cpu":
        return None
    if options.use_device in (None, "cuda"):
        if not watches_cuda:
            return None
        if has_cuda():
            return "cuda"
        if options.use_device is None:
            return None
    wanted = (_private_backend() or _PRIVATE) if options.use_device == _PRIVATE else options.use_device
    assert wanted is not None
    if not _is_there(wanted):
        hint = ", or create a virtual one with cudalens.virtual.device()" if wanted == "cuda" else ""
        raise ProfilerError(
            f"use_device={wanted!r}: there is no such device that this build of torch ({torch.__version__}) can "
            f"profile. Omit use_device to record the devices that there are{hint}."
        )
    return wanted


def _checked_config(config: Any) -> Any:
    """`config`, once it is torch's experimental config and lets the results be read."""
    kind: Any = getattr(getattr(torch._C, "_profiler", None), "_ExperimentalConfig", None)
    if kind is None or not isinstance(config, kind):
        raise ProfilerError(
            f"experimental_config is {type(config).__name__}, expected torch._C._profiler._ExperimentalConfig."
        )
    if getattr(config, "trace_only", False):
        raise ProfilerError("experimental_config has trace_only=True, with which torch gives no events to read.")
    return config


def _is_there(device: str) -> bool:
    if device == "cuda":
        return has_cuda()
    module: Any = getattr(torch, device, None)
    is_available: Callable[[], bool] | None = getattr(module, "is_available", None)
    if module is None or (is_available is not None and not is_available()):
        return False
    if device == _private_backend():
        return True
    activity = getattr(torch.profiler.ProfilerActivity, device.upper(), None)
    supported: Callable[[], set[Any]] | None = getattr(torch.autograd, "_supported_activities", None)
    return activity is not None and (supported is None or activity in supported())


def toggle(enable: bool, activities: Iterable[Any]) -> None:
    """Record activities of the running profiler, or leave them out, from now on.

    Args:
        enable: Whether to record them.
        activities: Some of `torch.profiler.ProfilerActivity`.

    Raises:
        ProfilerError: No profiler is running, or this build of torch cannot.
    """
    change: Callable[[bool, set[Any]], None] | None = getattr(torch.autograd, "_toggle_collection_dynamic", None)
    if change is None:
        raise ProfilerError(f"this build of torch ({torch.__version__}) cannot change what a running profiler records.")
    if not is_busy():
        raise ProfilerError("nothing is recorded now; call toggle_collection_dynamic() inside a recorded block.")
    change(enable, set(activities))


def synchronize(device: str) -> None:
    """Wait for `device` to finish its work, where torch has a way to."""
    wait: Callable[[], None] | None = getattr(getattr(torch, device, None), "synchronize", None)
    if wait is not None:
        wait()


@contextmanager
def _quiet_kineto() -> Iterator[None]:
    """Keep Kineto from printing a line into the user's output at every start and stop of a profiler.

    Kineto reads its log level from the environment once, at the first start in a process; the variable is there for no
    longer than that. A level that the user has set is left alone. Errors of Kineto (no CUPTI) appear in the run info.
    """
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = _SILENT
    try:
        yield
    finally:
        os.environ.pop(_LOG_LEVEL, None)


def switch_off() -> None:
    """Leave no profiler behind, whatever state an interrupted start or stop left."""
    call_tracing.stop()
    edge: Any = torch.autograd
    if getattr(edge, "_profiler_enabled", bool)():
        with suppress(RuntimeError):
            edge._disable_profiler()
    mark: Callable[[], None] | None = getattr(torch_profiler, "_run_on_profiler_stop", None)
    if mark is not None:
        mark()


def demangled(name: str) -> str:
    """Return a C++ symbol in words; any other text as it is."""
    if not name.startswith("_Z"):
        return name
    demangle: Callable[[str], str] | None = getattr(torch._C, "_demangle", None)
    return demangle(name) if demangle is not None else name


def _free_silently(earlier: list[torch.UntypedStorage]) -> None:
    """Free the blocks of `earlier`, which were allocated before the profiler started, without torch's message about it.

    torch prints "Memory block of unknown size was allocated before the profiling started" to file descriptor 2 at the
    first such block of a process, and at each thousandth: above the output of the user's cell, about nothing that its
    reader did. Whatever else is written there in these microseconds is written again.
    """
    global _has_freed_unknown
    if _has_freed_unknown or not earlier:
        return
    _has_freed_unknown = True
    try:
        original = os.dup(2)
    except OSError:  # it is closed, so that nothing is printed
        return
    with tempfile.TemporaryFile() as file:
        try:
            os.dup2(file.fileno(), 2)
            earlier.clear()
        finally:
            os.dup2(original, 2)
        file.seek(0)
        others = [line for line in file if b"Memory block of unknown size" not in line]
        os.write(original, b"".join(others))
        os.close(original)


# Facts of this process for the run info.

#: The control group's share of CPU time and its period, in microseconds; "max" for no limit (Linux, cgroup v2).
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def versions() -> dict[str, str]:
    """Versions of what made the run."""
    known: dict[str, str | None] = {
        "cudalens": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda_runtime": torch.version.cuda,
        "hip_runtime": getattr(torch.version, "hip", None),
    }
    return {name: version for name, version in known.items() if version}


def devices(*, uses_cuda: bool) -> tuple[DeviceInfo, ...]:
    """Return the CUDA devices that this process sees; none if the run does not use them."""
    return device.devices(torch) if uses_cuda else ()


def host() -> str:
    """Host name and processor."""
    return f"{platform.node()}, {platform.machine()}, {os.cpu_count()} CPUs"


def rank() -> tuple[int | None, int | None]:
    """Rank and world size of a distributed job, or None twice."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None, None


def threads() -> Threads:
    """On how many threads torch computes, and how many CPUs there are for them."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Threads(torch.get_num_threads(), max(1, min(bound, _allowed_cpus(bound))))


def _allowed_cpus(unlimited: int) -> int:
    try:
        quota, period = _QUOTA.read_text().split()
        return unlimited if quota == "max" else int(quota) // int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return unlimited
