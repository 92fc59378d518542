"""Values shared by the readers of Chrome traces: categories of events, the missing integer, the range of times."""

from __future__ import annotations

from enum import Enum
from typing import Final

from cudalens.frames import GPU_CATEGORIES, WORK_ELSEWHERE

#: A missing integer inside the readers; it becomes <NA> in a frame.
MISSING: Final = -(1 << 63)

#: Times are below this, ns.
MAX_NS: Final = 1 << 62


#: Category names in traces of 2021 and of other devices, and their names in a Trace.
TODAY: Final = {
    "Operator": "cpu_op",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Runtime": "cuda_runtime",
    "Driver": "cuda_driver",
    "User Annotation": "user_annotation",
    "GPU User Annotation": "gpu_user_annotation",
    "Python": "python_function",
    "Overhead": "overhead",
} | WORK_ELSEWHERE

#: Category of CUPTI's counters for a range or a kernel.
COUNTED: Final = "cuda_profiler_range"

#: Category of an event without one in the file.
UNKNOWN: Final = "unknown"


class Kind(Enum):
    """How the args of an event are interpreted, by its category."""

    OP = "operator or range on a host thread"
    CALL = "runtime or driver call on a host thread"
    DEVICE = "on a device stream"
    PLAIN = "on a host thread, without args of interest"
    OTHER = "unknown category: its args decide"


_OPS: Final = frozenset({"cpu_op", "user_annotation"})
_PLAIN: Final = frozenset({"python_function", "overhead", "Trace", "cpu_instant_event"})


def kind_of(cat: str) -> Kind:
    """Return the kind of a category, given its current name.

    An argument alone never makes an event device work: host calls have ``stream`` arguments too.
    """
    if cat in GPU_CATEGORIES:
        return Kind.DEVICE
    if cat in _OPS:
        return Kind.OP
    if cat.endswith(("_runtime", "_driver")):
        return Kind.CALL
    return Kind.PLAIN if cat in _PLAIN else Kind.OTHER
