"""The state of the sanitizer on each thread."""

from __future__ import annotations

import threading
from typing import TypeAlias

from cudalens.device.gpu_trace_records import Record

#: A record, and the GPU that was current at the time.
Received: TypeAlias = tuple[Record, int]


class State:
    """The state on one thread.

    Attributes:
        is_inside: Whether an operator that the sanitizer observes is running.
        received: Records of that operator that order something.
    """

    __slots__ = ("is_inside", "received")

    def __init__(self) -> None:
        self.is_inside = False
        self.received: list[Received] = []


class Threads(threading.local):
    """The state on each thread."""

    def __init__(self) -> None:
        self.state = State()
