"""`step`: end a step of what is recorded, where no object of it is at hand."""

from __future__ import annotations

from cudalens.api import profile as profiles
from cudalens.api import watch as watches


def step() -> None:
    """End a step of the profile and of the watch that are on.

    In a cell with a magic there is no object to call::

        %%cudawatch
        for _ in range(20):
            torch.ones(8, 8).sum()
            cudalens.step()

    It calls `profile.step` of the outermost profile and `Watch.step`. No effect where nothing is on, so that the line
    can stay in a loop.

    Raises:
        ProfilerError: A cycle of the profile's schedule cannot begin.
    """
    if (running := profiles.active()) is not None:
        running.step()
    if (watching := watches.active()) is not None:
        watching.step()
