"""What differs between a real device's observation and its virtual twin's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, zip_longest
from typing import Any, Final

from fidelity.observation import Observation

NOISE_MS: Final = 0.05
"""Marks that a real device came by within so short a time have no order worth comparing."""

_AROUND: Final = 4


@dataclass(frozen=True)
class Difference:
    """Something that was not the same.

    Attributes:
        kind: "callbacks", "memory", "segments", "order", "facts" or "errors".
        where: Which of them.
        real: What the real device said.
        virtual: What its twin said.
    """

    kind: str
    where: str
    real: Any
    virtual: Any

    def __str__(self) -> str:
        return f"{self.kind}, {self.where}: real {self.real!r}, virtual {self.virtual!r}"


def compare(real: Observation, virtual: Observation) -> list[Difference]:
    """All differences, none where the twin is faithful. Times are not compared, only their order."""
    return [
        *_callbacks(real.callbacks, virtual.callbacks),
        *_memory(real, virtual),
        *_segments(real, virtual),
        *_order(real.marks_ms, virtual.marks_ms),
        *_mapping("facts", real.facts, virtual.facts),
        *_mapping("errors", real.errors, virtual.errors),
    ]


def predicted_over_measured(real: Observation, virtual: Observation) -> dict[str, float]:
    """For each two marks that follow each other: the twin's time over the real one's. Information, no verdict."""
    ratios = {}
    for before, after in zip(list(real.marks_ms), list(real.marks_ms)[1:], strict=False):
        measured = real.marks_ms[after] - real.marks_ms[before]
        if measured > NOISE_MS and before in virtual.marks_ms and after in virtual.marks_ms:
            ratios[f"{before} to {after}"] = (virtual.marks_ms[after] - virtual.marks_ms[before]) / measured
    return ratios


def _callbacks(real: list[str], virtual: list[str]) -> Iterator[Difference]:
    """Where they part, with what led there; and which kinds came more or less often."""
    for position, (ours, theirs) in enumerate(zip_longest(real, virtual)):
        if ours != theirs:
            around = slice(max(0, position - _AROUND), position + _AROUND)
            yield Difference("callbacks", f"from number {position} on", real[around], virtual[around])
            break
    counts = [Counter(text.partition(" ")[0] for text in texts) for texts in (real, virtual)]
    yield from _mapping("callbacks", *({f"number of {k}": c[k] for k in counts[0] | counts[1]} for c in counts))


def _memory(real: Observation, virtual: Observation) -> Iterator[Difference]:
    yield from _mapping("memory", dict.fromkeys(real.memory, "asked"), dict.fromkeys(virtual.memory, "asked"))
    for place in real.memory.keys() & virtual.memory.keys():
        ours, theirs = real.memory[place], virtual.memory[place]
        shared = ours.keys() & theirs.keys()  # versions of torch differ in what they count
        yield from _mapping(
            "memory", *({f"{place}: {key}": values[key] for key in sorted(shared)} for values in (ours, theirs))
        )


def _segments(real: Observation, virtual: Observation) -> Iterator[Difference]:
    ours, theirs = ([_frozen(s) for s in o.segments] for o in (real, virtual))
    missing, extra = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
    if missing or extra:
        yield Difference("segments", "at the end", sorted(missing.elements()), sorted(extra.elements()))


def _frozen(segment: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(segment.items()))


def _order(real: Mapping[str, float], virtual: Mapping[str, float]) -> Iterator[Difference]:
    yield from _mapping("order", dict.fromkeys(real, "marked"), dict.fromkeys(virtual, "marked"))
    for first, second in combinations([name for name in real if name in virtual], 2):
        before, after = sorted((first, second), key=real.__getitem__)
        if real[after] - real[before] > NOISE_MS and virtual[after] < virtual[before]:
            yield Difference(
                "order", f"{before!r} and {after!r}", real[after] - real[before], virtual[after] - virtual[before]
            )


def _mapping(kind: str, real: Mapping[str, Any], virtual: Mapping[str, Any]) -> Iterator[Difference]:
    for name in [*real, *(name for name in virtual if name not in real)]:
        if real.get(name) != virtual.get(name):
            yield Difference(kind, name, real.get(name), virtual.get(name))
