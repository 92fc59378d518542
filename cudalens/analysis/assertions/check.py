"""Parse and check assertions about a Trace, such as ``idle < 20%`` and ``peak_memory < 8 GB and races == 0``.

`parse_assertion` parses one before the code runs; `Assertion.check` evaluates it on a Trace. The language is defined in
`cudalens.analysis.assertions.grammar`, the figures in `cudalens.analysis.assertions.figures`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cudalens.analysis import units
from cudalens.analysis.assertions.figures import NAMES, NotRecordedError, kinds_of, measure
from cudalens.analysis.assertions.grammar import (
    BYTES,
    COUNT,
    PERCENT,
    TIME,
    Comparison,
    Expression,
    Figure,
    Number,
    Parser,
)
from cudalens.errors import AssertionFailed
from cudalens.frames import Trace

_SIGNS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Outcome:
    """Whether an assertion holds on a Trace.

    Attributes:
        text: The assertion.
        holds: Whether it holds; False also if a figure that it needs was not recorded.
        found: The figures in it with their values, or why one is missing, as text.
    """

    text: str
    holds: bool
    found: str


@dataclass(frozen=True)
class Assertion:
    """A parsed assertion.

    Attributes:
        text: The text that was parsed.
        expression: The parsed expression.
    """

    text: str
    expression: Expression

    def check(self, trace: Trace) -> Outcome:
        """Return whether it holds on `trace`. Figures that ``and`` and ``or`` do not evaluate can be missing."""
        found: dict[str, str] = {}
        try:
            holds = _holds(self.expression, trace, found)
        except NotRecordedError as reason:
            return Outcome(self.text, False, str(reason))
        return Outcome(self.text, holds, "; ".join(f"{name} is {value}" for name, value in found.items()))


def parse_assertion(text: str) -> Assertion:
    """Parse an assertion, such as ``idle < 20%``.

    Raises:
        AssertionSyntaxError: It cannot be parsed; the message marks the place and names what was expected.
    """
    return Assertion(text.strip(), Parser(text, kinds_of, NAMES).parse())


def check(trace: Trace, *assertions: str | Assertion) -> None:
    """Raise an exception if an assertion about `trace` does not hold.

    Args:
        trace: Any Trace.
        *assertions: Texts, such as ``idle < 20%``, or results of `parse_assertion`.

    Raises:
        AssertionSyntaxError: One cannot be parsed; none has been checked.
        AssertionFailed: At least one does not hold; the message lists them with their figures.
    """
    read = [parse_assertion(one) if isinstance(one, str) else one for one in assertions]
    outcomes = [one.check(trace) for one in read]
    failed = [(one.text, one.found) for one in outcomes if not one.holds]
    if failed:
        raise AssertionFailed(_message(trace, failed, len(outcomes)), failed)


def _message(trace: Trace, failed: list[tuple[str, str]], number: int) -> str:
    width = min(max(len(text) for text, _ in failed), 60)
    modelled = " (modelled times)" if trace.info.is_simulated else ""
    verb = "does not hold" if len(failed) == 1 else "do not hold"
    head = f"{len(failed)} of {units.plural(number, 'assertion')} {verb} on {trace.info.name!r}{modelled}:"
    return "\n".join([head, *(f"  {text:<{width}}  {found}" for text, found in failed)])


def _holds(expression: Expression, trace: Trace, found: dict[str, str]) -> bool:
    if isinstance(expression, Comparison):
        return _compares(expression, trace, found)
    parts: Iterable[bool] = (_holds(part, trace, found) for part in expression.parts)
    if expression.word == "not":
        return not next(iter(parts))
    return any(parts) if expression.word == "or" else all(parts)


def _compares(comparison: Comparison, trace: Trace, found: dict[str, str]) -> bool:
    left, right = (_value(value, comparison.kind, trace, found) for value in (comparison.left, comparison.right))
    return _SIGNS[comparison.sign](left, right)


def _value(value: Number | Figure, kind: str, trace: Trace, found: dict[str, str]) -> float:
    """Return the value of a number or figure; adds the text of a figure's value to `found`."""
    if isinstance(value, Number):
        return value.value
    measures = measure(trace, value.name, value.argument, value.part)
    found[value.text] = _written(measures, kind)
    return measures[kind]


def _written(measures: Mapping[str, float], kind: str) -> str:
    """Return the figure in the compared measure, and its other measures in parentheses."""
    others = ", ".join(_WRITERS[other](value) for other, value in measures.items() if other != kind)
    return _WRITERS[kind](measures[kind]) + (f" ({others})" if others else "")


def _bytes(value: float) -> str:
    return f"{units.size(value)} ({value / 1e9:.3g} GB)" if value >= 1e8 else units.size(value)


_WRITERS: Final[Mapping[str, Callable[[float], str]]] = {
    TIME: units.duration,
    BYTES: _bytes,
    PERCENT: lambda value: f"{value:.3g} %",
    COUNT: lambda value: f"{value:,.0f}",
}
