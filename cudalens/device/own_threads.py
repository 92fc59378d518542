"""Threads of cudalens itself: a profile of the user's program leaves out what they did. No torch."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class OwnThread:
    """A thread of ours: the system's number of it, and when it ran, epoch ns; `end_ns` is None while it runs."""

    tid: int
    start_ns: int
    end_ns: int | None = None


_seen: Final[deque[OwnThread]] = deque(maxlen=256)


@contextmanager
def own_thread() -> Iterator[None]:
    """The calling thread is one of ours, for the length of the block."""
    thread = OwnThread(threading.get_native_id(), time.time_ns())
    _seen.append(thread)
    try:
        yield
    finally:
        thread.end_ns = time.time_ns()


def own_threads() -> list[OwnThread]:
    """The threads of ours that run, and the last that ran: the system may give their numbers to others afterwards."""
    return list(_seen)
