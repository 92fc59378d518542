"""Kineto's categories: today's names for older ones, and which of them name work on a device."""

from __future__ import annotations

from enum import Enum
from typing import Final

from cudalens.frames import GPU_CATEGORIES

#: Category names of 2021's traces, and what the same events are called since.
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
}

#: Category of an event whose file names none.
UNKNOWN: Final = "unknown"


class Kind(Enum):
    """Which of an event's args its category gives a meaning to."""

    OP = "operator or range on a host thread"
    CALL = "runtime or driver call on a host thread"
    DEVICE = "on a device stream"
    PLAIN = "on a host thread, without args of interest"
    OTHER = "a category that we do not know: its args decide"


_OPS: Final = frozenset({"cpu_op", "user_annotation"})
_PLAIN: Final = frozenset({"python_function", "overhead", "Trace", "cpu_instant_event"})


def kind_of(cat: str) -> Kind:
    """The kind of a category by today's name.

    An argument alone never makes an event device work: host calls have ``stream`` arguments too.
    """
    if cat in GPU_CATEGORIES:
        return Kind.DEVICE
    if cat in _OPS:
        return Kind.OP
    if cat.endswith(("_runtime", "_driver")):
        return Kind.CALL
    return Kind.PLAIN if cat in _PLAIN else Kind.OTHER
