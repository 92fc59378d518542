"""When dispatch modes of cudalens observed all operators, whose extra rows are left out of profiles. No torch."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final


@dataclass(slots=True)
class Observation:
    """A time in which a mode of cudalens observed operators, epoch ns; `end_ns` is None while it does."""

    start_ns: int = field(default_factory=time.time_ns)
    end_ns: int | None = None

    def end(self) -> None:
        """The mode observes no longer."""
        self.end_ns = time.time_ns()


_seen: Final[deque[Observation]] = deque(maxlen=256)


def observation() -> Observation:
    """A new observation, which starts now."""
    _seen.append(found := Observation())
    return found


def observations() -> list[Observation]:
    """Present and recent observations."""
    return list(_seen)
