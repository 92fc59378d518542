"""Choose which recordings of a long run to keep, within a number and a size. No torch."""

from __future__ import annotations

import random
from typing import Final, Generic, Protocol, TypeVar

MOST_RECORDINGS: Final = 12
MOST_BYTES: Final = 16_000_000

#: Reasons to keep a recording, most important first.
REASONS: Final = ("first", "requested", "after a change", "last", "slowest", "sample")
#: Recordings that are kept for one reason.
_NUM_OF: Final = {"first": 1, "last": 1, "requested": 3, "after a change": 4, "slowest": 2, "sample": 3}


class Kept(Protocol):
    """A recording, as the store sees it."""

    step: int
    step_ns: int
    num_bytes: int
    is_requested: bool
    is_after_change: bool


_K = TypeVar("_K", bound=Kept)


class RecordingStore(Generic[_K]):
    """The first, the last, the slowest, those asked for, the first after each change, and a random sample.

    The sample is a reservoir: each recording that has no other reason is in it with the same probability (J. S. Vitter,
    "Random sampling with a reservoir", ACM TOMS 11 (1985), algorithm R).

    Args:
        most: Recordings that are kept, at least 2: the first and the last.
        most_bytes: Their size; the first and the last are always kept.
        seed: Of the random sample.
    """

    def __init__(self, most: int = MOST_RECORDINGS, most_bytes: int = MOST_BYTES, seed: int = 0) -> None:
        self._most, self._most_bytes = max(most, 2), most_bytes
        self._random = random.Random(seed)  # noqa: S311 - a sample, not a secret
        self._sample: list[_K] = []
        self._num_seen = 0
        self._kept: list[_K] = []
        self._first: _K | None = None

    @property
    def kept(self) -> list[_K]:
        """The recordings, in order of time."""
        return list(self._kept)

    def add(self, one: _K) -> list[_K]:
        """Add a recording, the newest; returns those that are no longer kept, which may include it."""
        self._first = self._first or one
        self._draw(one)
        self._kept.append(one)
        reasons = self.reasons()
        ends = (self._first, one)
        order = sorted(
            self._kept,
            key=lambda kept: (not any(kept is end for end in ends), _rank(reasons.get(id(kept))), -kept.step),
        )
        wanted: list[_K] = []
        size = 0
        for kept in order:
            fits = len(wanted) < self._most and size + kept.num_bytes <= self._most_bytes
            is_end = kept is self._first or kept is one
            if is_end or (id(kept) in reasons and fits):
                wanted.append(kept)
                size += kept.num_bytes
        dropped = [kept for kept in self._kept if not any(kept is other for other in wanted)]
        self._kept = [kept for kept in self._kept if any(kept is other for other in wanted)]
        self._sample = [kept for kept in self._sample if not any(kept is other for other in dropped)]
        return dropped

    def reasons(self) -> dict[int, str]:
        """Return the reason of each recording that has one, by its ``id``."""
        found: dict[int, str] = {}
        groups: dict[str, list[_K]] = {
            "first": [kept for kept in self._kept if kept is self._first],
            "last": self._kept[-1:],
            "requested": [kept for kept in self._kept if kept.is_requested],
            "after a change": [kept for kept in self._kept if kept.is_after_change],
            "slowest": sorted(self._kept, key=lambda kept: kept.step_ns),
            "sample": self._sample,
        }
        for reason in REASONS:
            free = [kept for kept in groups[reason] if id(kept) not in found]
            found |= {id(kept): reason for kept in free[-_NUM_OF[reason] :]}
        return found

    def _draw(self, one: _K) -> None:
        self._num_seen += 1
        if len(self._sample) < _NUM_OF["sample"]:
            self._sample.append(one)
        elif (at := self._random.randrange(self._num_seen)) < len(self._sample):
            self._sample[at] = one


def _rank(reason: str | None) -> int:
    return REASONS.index(reason) if reason is not None else len(REASONS)
