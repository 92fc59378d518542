"""Threads of cudalens itself, whose events are left out of profiles. No torch."""

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
    """A thread of cudalens: its system id, and when it ran, epoch ns; `end_ns` is None while it runs."""

    tid: int
    start_ns: int
    end_ns: int | None = None


_seen: Final[deque[OwnThread]] = deque(maxlen=256)


@contextmanager
def own_thread() -> Iterator[None]:
    """Mark the calling thread as a thread of cudalens during the block."""
    thread = OwnThread(threading.get_native_id(), time.time_ns())
    _seen.append(thread)
    try:
        yield
    finally:
        thread.end_ns = time.time_ns()


def own_threads() -> list[OwnThread]:
    """Running and recently ended threads of cudalens. The system may reuse the ids of ended threads."""
    return list(_seen)
