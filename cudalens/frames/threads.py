"""On how many CPUs a run could compute, and on how many it did: as it stands in the run info."""

from __future__ import annotations

from typing import Final

import msgspec

from cudalens.frames.info import RunInfo

#: Key of `RunInfo.extra` under which a live run tells its `Threads`, as JSON.
THREADS_KEY: Final = "threads"


class Threads(msgspec.Struct, frozen=True):
    """Threads and CPUs of a run.

    Attributes:
        torch: Threads that torch splits one operator among (``torch.get_num_threads()``), at the end of the run.
        cpus: CPUs that the process may use: those that it is bound to, and no more than its control group allows.
    """

    torch: int
    cpus: int

    def to_extra(self) -> dict[str, str]:
        """As an entry of `RunInfo.extra`."""
        return {THREADS_KEY: msgspec.json.encode(self).decode()}


def threads_of(info: RunInfo) -> Threads | None:
    """What the run info tells; None where it does not, or not in these words."""
    try:
        return msgspec.json.decode(info.extra.get(THREADS_KEY, ""), type=Threads)
    except msgspec.DecodeError:  # a file says what it likes
        return None
