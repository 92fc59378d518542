"""Record what torch fires no callback for: launches of Triton kernels, and ``query()`` of events and streams.

``kernel[grid](...)`` ends in ``triton.runtime.jit.JITFunction.run``, autotuned or not. Between `watch_launches` and
`unwatch_launches`, each such launch becomes a record of `cudalens.device.gpu_trace` with the tensors that it writes.

torch derives the written tensors from Triton's intermediate code, as torch.compile needs it
(``torch._higher_order_ops.triton_kernel_wrap``); this happens once for each compiled kernel. If it fails (inline
assembly, tensors within tuples, an unsupported Triton version), the tensors count as read: counting them as written
would report races in correct programs.

Not recorded: kernels that were compiled before and are called directly (``compiled[grid](...)``).
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from torch.utils._python_dispatch import _disable_current_modes

from cudalens.device import gpu_trace
from cudalens.device.gpu_trace import EventFoundDone, StreamFoundDone
from cudalens.device.interpose import Interposed, interposed, when_imported
from cudalens.device.streams import current_device, current_stream

#: The module with the method that launches; it is wrapped when Triton is imported during `watch_launches`.
_RUNNER: Final = "triton.runtime.jit"
_lock = threading.Lock()
_num_launch_watchers = 0
_stop_waiting: Callable[[], None] | None = None
_runs: Final[list[Interposed]] = []

#: The parameters that a compiled kernel writes; None if unknown.
_written: Final[WeakKeyDictionary[Any, frozenset[str] | None]] = WeakKeyDictionary()


def watch_launches() -> None:
    """Start to emit a record of each launch. Each call needs one `unwatch_launches`.

    Triton may be imported later, or never.
    """
    global _num_launch_watchers, _stop_waiting
    _num_launch_watchers += 1
    if _num_launch_watchers == 1:
        _stop_waiting = when_imported(_RUNNER, _interpose)


def unwatch_launches() -> None:
    """End one `watch_launches`."""
    global _num_launch_watchers, _stop_waiting
    _num_launch_watchers -= 1
    if _num_launch_watchers == 0:
        assert _stop_waiting is not None
        _stop_waiting()
        _stop_waiting = None
        while _runs:
            _runs.pop().remove(after=_launched)


def _interpose(module: ModuleType) -> None:
    kind = getattr(module, "JITFunction", None)
    if isinstance(kind, type) and hasattr(kind, "run"):
        run = interposed(kind, "run")
        run.add(after=_launched)
        _runs.append(run)


def _launched(compiled: Any, function: Any, *args: Any, **kwargs: Any) -> None:
    """Called after ``JITFunction.run``. Nothing was launched if that only compiled, or returned no kernel."""
    if compiled is None or kwargs.get("warmup") or not gpu_trace.is_on():
        return
    given = bound(function, args, kwargs)
    tensors = list(tensors_in(given))
    if not tensors:
        return
    with _disable_current_modes():  # queries of tensors here are not calls of the user's program
        written = _written_by(compiled, function, given)
    device = current_device()
    stream = kwargs.get("stream")  # Triton 2 took one; later versions launch on torch's current stream
    gpu_trace.emit(
        gpu_trace.KernelLaunched(
            name_of(function),
            device,
            stream if isinstance(stream, int) else current_stream(device),
            tuple((name, tensor, name in (written or ())) for name, tensor in tensors),
            written is not None,
        )
    )


def name_of(function: Any) -> str:
    """Return the name of a kernel's Python function."""
    return str(getattr(getattr(function, "fn", function), "__name__", type(function).__name__))


def bound(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a launch by the names of the kernel's parameters, its defaults included.

    Args:
        function: A Triton function, compiled or interpreted.
        args: Positional arguments of the launch.
        kwargs: Keyword arguments of the launch; launch options are left out.
    """
    names = list(function.arg_names)
    given = dict(zip(names, args, strict=False))
    given.update((name, value) for name, value in kwargs.items() if name in names)
    for parameter in getattr(function, "params", ()):
        if parameter.name not in given and parameter.has_default:
            given[parameter.name] = parameter.default
    return {name: given[name] for name in names if name in given}


def tensors_in(given: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor among bound arguments with its parameter's name: also those of descriptors (TMA) and in tuples."""
    for name, value in given.items():
        yield from ((name, tensor) for tensor in _flat(value))


def _flat(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
    elif isinstance(base := getattr(value, "base", None), torch.Tensor):
        yield base


def _written_by(compiled: Any, function: Any, given: dict[str, Any]) -> frozenset[str] | None:
    try:
        return _written[compiled]
    except KeyError:
        found = _written[compiled] = find_written(function, given)
        return found
    except TypeError:  # it cannot be a key
        return find_written(function, given)


class _FailureLog:
    """Replaces torch's logger during the analysis of a kernel: torch logs there that the analysis failed."""

    has_failed = False

    def warning(self, *args: Any, **kwargs: Any) -> None:
        """Record the failure."""
        self.has_failed = True

    def debug(self, *args: Any, **kwargs: Any) -> None:
        """Ignore details."""


def find_written(function: Any, given: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the parameters that a kernel writes, by torch's analysis; None if the analysis fails.

    Args:
        function: The kernel, a ``JITFunction``.
        given: The arguments of a launch, by name.
    """
    if any(isinstance(value, list | tuple) and any(True for _ in _flat(value)) for value in given.values()):
        return None
    plain = {name: value.base if _is_descriptor(value) else value for name, value in given.items()}
    blocks = {name: ("stable", (list(value.block_shape),)) for name, value in given.items() if _is_descriptor(value)}
    try:
        wrap: Any = importlib.import_module("torch._higher_order_ops.triton_kernel_wrap")
        with _lock:
            failures, log = _FailureLog(), wrap.log
            wrap.log = failures
            try:
                if hasattr(wrap, "identify_accessed_tensors"):  # from torch 2.13 on
                    accesses = wrap.identify_accessed_tensors(function, plain, blocks).read_writes
                    written = frozenset(dep.name for dep in accesses.writes)
                else:
                    written = frozenset(wrap.identify_mutated_tensors(function, plain, blocks))
            finally:
                wrap.log = log
        return None if failures.has_failed else written
    except Exception:  # an unsupported version of Triton or torch
        return None


def _is_descriptor(value: Any) -> bool:
    return hasattr(value, "block_shape") and isinstance(getattr(value, "base", None), torch.Tensor)


# Queries of events and streams, for which torch fires no callback.

_num_query_watchers = 0


def watch_queries() -> None:
    """Start to emit records of such queries. Each call needs one `unwatch_queries`.

    An ``Event.query()`` or ``Stream.query()`` that returns True orders what follows, like a synchronisation. Between
    `watch_queries` and `unwatch_queries`, such queries become records of `cudalens.device.gpu_trace`.
    """
    global _num_query_watchers
    _num_query_watchers += 1
    if _num_query_watchers == 1:
        _watched_queries[:] = _methods()
        for method, listener in _watched_queries:
            method.add(after=listener)


def unwatch_queries() -> None:
    """End one `watch_queries`."""
    global _num_query_watchers
    _num_query_watchers -= 1
    if _num_query_watchers == 0:
        for method, listener in _watched_queries:
            method.remove(after=listener)
        _watched_queries.clear()


def _event_queried(is_done: bool, cuda_event: Any) -> None:
    pointer = cuda_event.cuda_event
    if is_done and pointer:
        gpu_trace.emit(EventFoundDone(int(pointer)))


def _stream_queried(is_done: bool, stream: Any) -> None:
    if is_done:
        gpu_trace.emit(StreamFoundDone(int(stream.cuda_stream)))


_watched_queries: Final[list[tuple[Interposed, Any]]] = []


def _methods() -> list[tuple[Interposed, Any]]:
    """The methods of torch.cuda's current classes: in a CUDA build of torch, a virtual device replaces the classes."""
    return [
        (interposed(torch.cuda.Event, "query"), _event_queried),
        (interposed(torch.cuda.Stream, "query"), _stream_queried),
    ]
