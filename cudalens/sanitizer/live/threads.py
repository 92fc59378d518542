"""What each thread is about."""

from __future__ import annotations

import threading
from typing import TypeAlias

from cudalens.device.gpu_trace_records import Record

#: A record, and the GPU that was current when it came.
Told: TypeAlias = tuple[Record, int]


class State:
    """What one thread is about.

    Attributes:
        is_inside: An operator of ours runs on it.
        told: Records of the operator that runs, which order something.
    """

    __slots__ = ("is_inside", "told")

    def __init__(self) -> None:
        self.is_inside = False
        self.told: list[Told] = []


class Threads(threading.local):
    """Each thread's state."""

    def __init__(self) -> None:
        self.state = State()
