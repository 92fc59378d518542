"""The device work of a trace as arrays, for all analyses, and which of it is communication."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.cached import forget_all, once_per_trace
from cudalens.frames import GPU_ACTIVITIES, Trace
from cudalens.frames.column_arrays import Bools, Ints, integers, is_category, map_texts

#: Names of such calls, as torch's profiler writes them: ``threading.py(331): wait``.
WAITING: Final = (
    r"(?:^|[/\\])(?:threading\.py\(\d+\): (?:wait|join|_wait_for_tstate_lock|_bootstrap\w*)"
    r"|selectors\.py\(\d+\): select|queue\.py\(\d+\): (?:get|put)|connection\.py\(\d+\): (?:poll|wait|_recv\w*)"
    r"|subprocess\.py\(\d+\): _?(?:try_)?wait)$"
    r"|^<built-in method (?:acquire|sleep|select|poll|epoll_wait|wait|recv|accept|sem_wait|waitpid|read) of"
    r"|^<built-in function (?:sleep|select|waitpid)>$|^time\.sleep$"
)


def is_waiting(names: pd.Categorical) -> Bools:
    """True for each name of such a call, shape (n,)."""
    search = re.compile(WAITING).search
    return map_texts(names, lambda name: search(name) is not None, False)


@once_per_trace
def uses_torch(trace: Trace) -> bool:
    """Whether the program uses torch, by its operators, Python calls or kernels: advice can name its API."""
    if not trace.info.source.startswith("file:"):
        return True
    events = trace.events
    is_torchs = is_category(events["cat"].array, ("cpu_op", "python_function"))
    return bool(is_torchs.any() or map_texts(events["name"].array, lambda name: _TORCHS(name) is not None, False).any())


_TORCHS: Final = re.compile(r"at::native|^aten::|torch").search

#: Names of the kinds by their number.
COMPUTE: Final = 0
COMMUNICATION: Final = 1
MEMORY: Final = 2
KINDS: Final = ("compute", "communication", "memory")


class Work(NamedTuple):
    """Device work in order of start: kernels, copies and sets; arrays of shape (n,), read-only.

    Attributes:
        rows: Rows of the events frame, ascending.
        start: Start, ns.
        end: End, ns.
        device: Device index; -1 if unknown.
        stream: Stream; -1 if unknown.
        kind: COMPUTE, COMMUNICATION or MEMORY, by the definitions of `cudalens.analysis.device_time`; dtype int8.
        launch: Row of the runtime call that launched it, -1 if not recorded.
    """

    rows: Ints
    start: Ints
    end: Ints
    device: Ints
    stream: Ints
    kind: NDArray[np.int8]
    launch: Ints


@once_per_trace
def device_work(trace: Trace) -> Work:
    """Return the device work of `trace`."""
    events = trace.events
    is_work = is_category(events["cat"].array, GPU_ACTIVITIES) & ~events["is_instant"].to_numpy()
    rows = np.flatnonzero(is_work)
    start = events["ts"].to_numpy()[rows]
    is_kernel = is_category(events["cat"].array, ("kernel",))[rows]
    is_comm = is_communication(events["name"].array[rows])
    kind = np.where(is_kernel, np.where(is_comm, COMMUNICATION, COMPUTE), MEMORY).astype(np.int8)
    device, stream, launch = (integers(events[name].array[rows]) for name in ("device", "stream", "launch"))
    work = Work(rows, start, start + events["dur"].to_numpy()[rows], device, stream, kind, launch)
    for array in work:
        array.flags.writeable = False
    return work


__all__ = ["PATTERNS", "is_communication", "register"]

#: Regular expressions that are searched for in the names of kernels, by library.
PATTERNS: Final = {
    "NCCL, RCCL": r"^(?:nccl|rccl).*Kernel",
    "MSCCL, MSCCL++": r"^(?:void )?(?:mscclpp::|msccl\w*Kernel)",
    "NVSHMEM": r"^(?:void )?\w*nvshmem",
    "DeepEP": r"\b(?:deep_ep|dpsk::ep)::(?!layout::)",
    "symmetric memory of torch": (
        r"\b(?:multimem_(?:one_shot_)?(?:all_reduce|all_gather|reduce_scatter)\w*|(?:one|two)_shot_all_reduce\w*"
        r"|stream_write_value32|barrier_kernel|(?:put|wait)_signal_kernel)\b"
    ),
    "custom all-reduce of vLLM, SGLang, aiter": r"\bcross_device_reduce_\dstage|\bquickreduce::|\bmulti_gpu_barrier",
    "TensorRT-LLM, FlashInfer": (
        r"(?i)\b(?:one|two)shot_?all_?reduce\w*kernel|\ballreduce_fusion_kernel|\bmoe(?:allto?all|_?comm)\w*kernel"
    ),
    "Transformer Engine": r"\bk?userbuffers_\w+",
    "oneCCL": r"\b(?:oneccl|ccl_sched|ccl::)\w*|^(?:void )?oneapi_ccl",
    "HCCL": r"^(?:hccl|hcom)(?:_|[A-Z])",
}

_registered: list[str] = []


def register(pattern: str) -> None:
    """Count kernels in whose name a regular expression is found as communication, in all analyses of this process.

    Args:
        pattern: As `re.search` takes it. A pattern that is registered already is ignored.

    Raises:
        ValueError: It is not a regular expression, or it is found in every name.

    Examples:
        >>> from cudalens.analysis import communication
        >>> communication.register(r"^my_ring_exchange")
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ValueError(f"invalid pattern {pattern!r}: {error}; expected a regular expression") from error
    if compiled.search(""):
        raise ValueError(f"invalid pattern {pattern!r}: it is found in every name; expected a part of some names")
    if pattern not in _registered:
        _registered.append(pattern)
        forget_all()


def is_communication(names: pd.Categorical) -> Bools:
    """True for each name of a kernel that communicates, shape (n,)."""
    searches = [re.compile(pattern).search for pattern in (*PATTERNS.values(), *_registered)]
    return map_texts(names, lambda name: any(search(name) is not None for search in searches), False)
