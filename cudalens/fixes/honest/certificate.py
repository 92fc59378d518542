"""`Certificate`: what a benchmark of two functions measured, under which conditions, and what was refused."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from cudalens.analysis import units
from cudalens.fixes.values import Difference

#: Smaller differences of times, as a share, are those of repeats.
MIN_CHANGE: Final = 0.02

#: What each name of a cheat means.
CHEATS: Final[dict[str, str]] = {
    "cached output": "returns the result of an earlier call",
    "memoized": "looks up results of inputs that it has seen",
    "constant output": "its result does not depend on the inputs",
    "returns its input": "returns an input unchanged",
    "leftover memory": "its result is what other work left in memory",
    "correct only at first": "its result is right when it is checked and wrong when it is timed",
    "wrong result": "its result differs",
    "skipped part": "a part of the result is right and the rest is not computed",
    "special inputs": "its result is right for the given inputs and wrong for others of the same shapes",
    "different shape": "its result has another shape or structure",
    "smaller dtype": "its result has another dtype",
    "reduced precision": "it computes in a precision that is lower than that of its inputs",
    "detached output": "its result has no gradient",
    "mutated inputs": "writes into its inputs",
    "shared output": "overwrites the result of the call before",
    "wrong stream": "leaves work on a stream that the current stream does not wait for",
    "unfinished thread": "leaves a thread that still works",
    "lazy output": "returns an object that computes when it is read",
    "patched timer": "replaces a clock or a function that waits",
    "patched torch": "replaces functions of torch",
    "changed settings": "changes settings of torch",
    "too few bytes": "is faster than its bytes can be moved",
    "too few operations": "is faster than its operations can be done",
    "no synchronization": "the claimed time is that of the launches",
    "inputs in L2": "the claimed time needs inputs that are in the L2 cache",
    "reused inputs": "the claimed time is that of the same inputs again",
    "unfounded claim": "the claimed time is below what was measured",
}


def is_noise(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether the times of two functions do not show which one is faster.

    In at least nine of ten pairs of runs the same one must be faster, and the shortest runs must differ by 2 % as well:
    other programs only lengthen runs.
    """
    if not a or not b:
        return True
    wins = sum(one > other for one in a for other in b) / (len(a) * len(b))
    middle, least = statistics.median(a) - statistics.median(b), min(a) - min(b)
    return 0.1 < wins < 0.9 or middle * least <= 0 or abs(least) < MIN_CHANGE * min(a)


@dataclass(frozen=True)
class Cheat:
    """A reason to refuse a benchmark.

    Attributes:
        name: One of the keys of `CHEATS`.
        what: What was observed, in one sentence with its numbers.
    """

    name: str
    what: str

    def __str__(self) -> str:
        """Name and observation."""
        return f"{self.name}: {self.what}"


@dataclass(frozen=True)
class Timing:
    """The timed runs of one function.

    Attributes:
        runs_ns: Time of a call in each run, ns.
        first_ns: Time of the very first call, ns, which is not one of the runs.
        peak_bytes: Peak of allocated device memory above the start, bytes; None on the CPU.
    """

    runs_ns: tuple[float, ...]
    first_ns: int
    peak_bytes: int | None

    @property
    def median_ns(self) -> float:
        """Median time of a call, ns."""
        return statistics.median(self.runs_ns) if self.runs_ns else 0.0

    @property
    def spread_pct(self) -> float:
        """Median absolute deviation of the runs, in per cent of the median."""
        middle = self.median_ns
        if not middle:
            return 0.0
        return 100 * statistics.median(abs(one - middle) for one in self.runs_ns) / middle


@dataclass(frozen=True)
class Certificate:
    """What a benchmark of two functions measured.

    Attributes:
        a: The timed runs of the first function; None if it was refused before.
        b: The timed runs of the second function; None if it was refused before.
        difference: How the results of `b` differ from those of `a`.
        cheats: Why the benchmark is refused; empty if it is accepted.
        conditions: Under which conditions it was measured, by name.
        is_modelled: Whether the times are modelled.
    """

    a: Timing | None
    b: Timing | None
    difference: Difference
    cheats: tuple[Cheat, ...]
    conditions: dict[str, str]
    is_modelled: bool

    @property
    def is_accepted(self) -> bool:
        """Whether nothing was found that makes the comparison of times meaningless."""
        return not self.cheats

    @property
    def speedup(self) -> float | None:
        """Time of `a` divided by the time of `b`; None if the benchmark is refused."""
        if self.cheats or self.a is None or self.b is None or not self.b.median_ns:
            return None
        return self.a.median_ns / self.b.median_ns

    @property
    def is_noise(self) -> bool:
        """Whether the runs do not show which function is faster: medians and minima must both differ."""
        return self.a is not None and self.b is not None and is_noise(self.a.runs_ns, self.b.runs_ns)

    def headline(self) -> str:
        """Return the answer: the times and how results differ, or why the benchmark is refused."""
        if self.cheats:
            return f"refused: {self.cheats[0]}"
        assert self.a is not None
        assert self.b is not None
        modelled = " (modelled)" if self.is_modelled else ""
        times = f"{units.duration(self.a.median_ns)} -> {units.duration(self.b.median_ns)}{modelled}"
        runs = f"{len(self.b.runs_ns)} runs each"
        if self.is_noise:
            return f"no difference beyond noise: {times}, {runs}, {self.difference}"
        change = self.b.median_ns / self.a.median_ns - 1
        word = "less" if change < 0 else "more"
        return f"{times} ({abs(100 * change):.0f} % {word}, {runs}), {self.difference}"

    def __str__(self) -> str:
        """The answer, further reasons, and the conditions."""
        lines = [self.headline(), *(f"refused: {cheat}" for cheat in self.cheats[1:])]
        width = max((len(name) for name in self.conditions), default=0)
        return "\n".join([*lines, *(f"  {name:{width}}  {value}" for name, value in self.conditions.items())])

    def __repr__(self) -> str:
        """The text, so that a notebook shows it."""
        return str(self)

    def _repr_html_(self) -> str:
        """The text, with the first line in bold."""
        first, _, rest = str(self).partition("\n")
        return f"<p><b>{escape(first)}</b></p><pre style='white-space:pre-wrap'>{escape(rest)}</pre>"
