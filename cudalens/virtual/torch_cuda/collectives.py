"""Collectives of torch.distributed on a virtual device: those with ``async_op=True`` run on a stream of their group.

As with NCCL on real GPUs, that stream waits for the current stream, and later work waits for nothing until
``Work.wait()`` makes the then current stream wait. The backend (gloo) computes the values on the tensors in place.
Without ``async_op`` a collective runs on the current stream, and so does a collective that torch's C++ starts
internally (DistributedDataParallel), because its waits cannot be observed; in a job of many ranks, `Communicator` runs
these beside the backward pass, until their results are used.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.timing.streams import CudaEvent, Stream

_STARTS: Final = (
    "_allgather_base",
    "_reduce_scatter_base",
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "scatter",
)
#: Always on the group's stream: ``dist.send`` is an ``isend`` with a wait.
_TRANSFERS: Final = ("recv", "recv_anysource", "send")

#: Methods of a Work after which the current stream may use the tensors. The waits of a future cannot be observed, so
#: ``get_future`` counts as a wait.
_WAITS: Final = ("block_current_stream", "get_future", "synchronize", "wait")

_MAX_WAIT_S: Final = 1.0
_POLL_S: Final = 0.0005
_WORKS: Final = ("Work", "FakeWork")
_IS_OURS: Final = "cudalens_reports"


class _Started:
    """A collective that the program has not waited for.

    Args:
        gpus: The GPUs.
        stream: The stream of its group.
        tensors: The tensors, kept alive until the wait, as NCCL does.
    """

    def __init__(self, gpus: Gpus, stream: Stream, tensors: list[torch.Tensor]) -> None:
        self._gpus, self._stream, self._tensors = gpus, stream, tensors
        self._end = CudaEvent(gpus.machine)
        stream.record(self._end)

    def wait(self) -> None:
        """Make the current stream wait for it."""
        self._gpus.machine.current_stream(self._stream.device).wait(self._end)

    def __del__(self) -> None:
        if not self._gpus.is_closed:
            self._end.delete()


def install(patches: Patches, gpus: Gpus) -> None:
    """Run asynchronous collectives on separate streams."""
    module = getattr(torch._C, "_distributed_c10d", None)
    group = getattr(module, "ProcessGroup", None)
    if group is None or not hasattr(module, "Work"):  # a build without torch.distributed
        return
    destroy = torch.distributed.destroy_process_group

    @functools.wraps(destroy)
    def collect_and_destroy(*args: Any, **kwargs: Any) -> None:
        """Free unused DistributedDataParallel modules before their group ends: later, their C++ part waits for it."""
        gc.collect()
        destroy(*args, **kwargs)

    for owner in (torch.distributed, torch.distributed.distributed_c10d):
        patches.set(owner, "destroy_process_group", collect_and_destroy)
    if gpus.shapes is not None:
        _refuse_data_parallel(patches, gpus)
    collectives = _Collectives(gpus)
    for name in (*_STARTS, *_TRANSFERS):
        if name in vars(group):
            patches.set(group, name, collectives.starting(name, vars(group)[name]))
    for kind in (getattr(module, name) for name in _WORKS if hasattr(module, name)):
        for name in _WAITS:
            if name in vars(kind):
                patches.set(kind, name, collectives.waiting(name, vars(kind)[name]))


def _refuse_data_parallel(patches: Patches, gpus: Gpus) -> None:
    """Refuse DistributedDataParallel without values: its C++ part reads the results of collectives."""
    kind = torch.nn.parallel.DistributedDataParallel
    original = kind.__init__

    @functools.wraps(original)
    def init(module: Any, inner: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        if not gpus.is_closed and any(residence_of(parameter) is not None for parameter in inner.parameters()):
            raise VirtualDeviceError(
                "DistributedDataParallel needs values: its C++ part reads the result of each all_reduce. Run the "
                "module without it (its buckets take as much memory as the gradients), or use a device with values."
            )
        original(module, inner, *args, **kwargs)

    patches.set(kind, "__init__", init)


class _Collectives:
    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._streams: dict[tuple[str, int, str], Stream] = {}
        self._started: WeakKeyDictionary[Any, _Started] = WeakKeyDictionary()

    def starting(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a method of a process group that starts a collective."""
        is_transfer = name in _TRANSFERS

        @functools.wraps(original)
        def start(group: Any, *args: Any, **kwargs: Any) -> Any:
            tensors = [] if self._gpus.is_closed else _resident(args) + _resident(tuple(kwargs.values()))
            options = [value for value in (*args, *kwargs.values()) if hasattr(value, "asyncOp")]
            is_async = bool(options and options[0].asyncOp)
            if not tensors or not (is_transfer or is_async):
                return original(group, *args, **kwargs)
            return self._start(original, group, args, kwargs, tensors, is_transfer=is_transfer)

        return start

    def waiting(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a method of a Work that makes the current stream wait."""
        has_callbacks = name == "get_future" and self._gpus.shapes is None

        @functools.wraps(original)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            if has_callbacks and not self._gpus.is_closed:
                work.wait()  # callbacks of a future that has ended run on this thread, which uses the device
            result = original(work, *args, **kwargs)
            if self._gpus.machine.op_log is not None:
                self._gpus.machine.op_log.collected(work)
            started = self._started.pop(work, None)
            if started is not None and not self._gpus.is_closed:
                started.wait()
            return result

        setattr(wait, _IS_OURS, True)
        return wait

    def _start(
        self,
        original: Callable[..., Any],
        group: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[torch.Tensor],
        *,
        is_transfer: bool,
    ) -> Any:
        machine = self._gpus.machine
        residence = residence_of(tensors[0])
        assert residence is not None
        current = machine.current_stream(residence.device)
        # NCCL makes a communicator for each pair of ranks that send and receive.
        lane = f"{original.__name__} {args[1]}" if is_transfer and len(args) > 1 else ""
        stream = self._stream_of(group, residence.device, lane)
        self._edge(current, stream)
        machine.set_stream(stream)
        try:
            work = original(group, *args, **kwargs)
            if self._gpus.machine.op_log is not None:
                self._gpus.machine.op_log.started(work)
                if not is_transfer and _has_ended(work):
                    self._gpus.machine.op_log.collected(work)
        finally:
            machine.set_stream(current)
        started = _Started(self._gpus, stream, tensors)
        if hasattr(getattr(type(work), "wait", None), _IS_OURS):
            self._started[work] = started
        else:
            started.wait()  # no Work, or a Python backend whose waits cannot be observed
        return work

    def _stream_of(self, group: Any, device: Any, lane: str) -> Stream:
        key = (str(group.group_name), device.index, lane)
        if key not in self._streams:
            self._streams[key] = device.pool_stream(-1)
        return self._streams[key]

    def _edge(self, first: Stream, second: Stream) -> None:
        begin = CudaEvent(self._gpus.machine)
        first.record(begin)
        second.wait(begin)
        begin.delete()


def _has_ended(work: Any) -> bool:
    """Wait a limited time for the end of a collective; other ranks may be waiting for this one."""
    end = time.monotonic() + _MAX_WAIT_S
    while hasattr(work, "is_completed") and not work.is_completed() and time.monotonic() < end:
        time.sleep(_POLL_S)
    return bool(getattr(work, "is_completed", bool)())


def _resident(values: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found += [value] if residence_of(value) is not None else []
        elif isinstance(value, list | tuple):
            found += _resident(value)
    return found
