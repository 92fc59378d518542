"""Conditions of ``cudalens compare --fail-if``, such as ``slower > 5%``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cudalens.errors import AssertionSyntaxError

if TYPE_CHECKING:
    from cudalens.analysis.compare.runs import Differences

_CONDITION: Final = re.compile(r"\s*(\w+)\s*(>=|>)\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*")
#: What can be compared: words, and their meaning for ``--help``.
FIGURES: Final = {
    "slower": "the step (or run) takes longer",
    "faster": "it takes less long",
    "memory": "the largest peak of allocated memory is higher",
}
_PEAK: Final = "peak allocated"


@dataclass(frozen=True)
class Condition:
    """A figure of a comparison and its limit.

    Attributes:
        figure: One of `FIGURES`.
        is_reached: Whether the limit itself counts.
        limit_pct: The limit, in per cent of before.
        text: The condition as given.
    """

    figure: str
    is_reached: bool
    limit_pct: float
    text: str

    def found(self, differences: Differences) -> str | None:
        """Return what was found, in words, if the condition holds; else None.

        A change within the noise of the repeats does not count. With one repeat, noise is not known, and it counts.
        """
        change = _change_pct(self.figure, differences)
        if change is None:
            return None
        from cudalens.analysis import units

        holds = change >= self.limit_pct if self.is_reached else change > self.limit_pct
        return f"{self.text}: it is {units.number(change)}%" if holds and change > 0 else None


def parse_condition(text: str) -> Condition:
    """Return the condition in `text`.

    Raises:
        AssertionSyntaxError: It is none; the message says what was expected.
    """
    match = _CONDITION.fullmatch(text)
    known = ", ".join(FIGURES)
    if match is None:
        raise AssertionSyntaxError(text, 0, f"expected a figure ({known}), > or >=, and per cent, as in slower > 5%")
    if match[1] not in FIGURES:
        raise AssertionSyntaxError(text, match.start(1), f"there is no figure {match[1]!r}; expected one of {known}")
    return Condition(match[1], match[2] == ">=", float(match[3]), text.strip())


def _change_pct(figure: str, differences: Differences) -> float | None:
    """Return the change in the direction of `figure`, in per cent of before; None if nothing changed."""
    if figure == "memory":
        return _memory_pct(differences)
    whole = differences.whole
    if whole.ratio is None or whole.status == "same":
        return None
    return 100 * (whole.ratio if figure == "slower" else -whole.ratio)


def _memory_pct(differences: Differences) -> float | None:
    frame = differences.memory
    peaks = frame[(frame["name"] == _PEAK) & (frame["status"] != "same")]
    changes = [
        math.inf if before == 0 else 100 * (after - before) / before
        for before, after in zip(peaks["a_bytes"].tolist(), peaks["b_bytes"].tolist(), strict=True)
        if after != before
    ]
    return max(changes, default=None)
