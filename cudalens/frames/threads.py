"""The number of CPUs and threads that a run could use, as the run info has it."""

from __future__ import annotations

from typing import Final

import msgspec

from cudalens.frames.info import RunInfo

#: Key of `RunInfo.extra` that holds the `Threads` of a live run, as JSON.
THREADS_KEY: Final = "threads"


class Threads(msgspec.Struct, frozen=True):
    """Threads and CPUs of a run.

    Attributes:
        torch: ``torch.get_num_threads()`` at the end of the run.
        cpus: CPUs that the process may use: those of its affinity, limited by its control group.
    """

    torch: int
    cpus: int

    def to_extra(self) -> dict[str, str]:
        """As an entry of `RunInfo.extra`."""
        return {THREADS_KEY: msgspec.json.encode(self).decode()}


def threads_of(info: RunInfo) -> Threads | None:
    """Return the `Threads` of the run info; None if it has none, or if they are not valid."""
    try:
        return msgspec.json.decode(info.extra.get(THREADS_KEY, ""), type=Threads)
    except (msgspec.DecodeError, RecursionError):  # a file may hold any text
        return None
