"""Assertions about a Trace, such as ``idle < 20%`` and ``peak_memory < 8 GB and races == 0``: parsing and checking.

`parse_assertion` parses one, before anything runs; `Assertion.check` evaluates it on a Trace. The language is in
`cudalens.analysis.assertions.grammar`, the figures in `cudalens.analysis.assertions.figures`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cudalens.analysis import units
from cudalens.analysis.assertions.figures import FIGURES, NAMES, NotRecordedError, kinds_of, measure
from cudalens.analysis.assertions.grammar import BYTES, PERCENT, TIME, Comparison, Expression, Figure, Number, Parser
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
        holds: Whether it holds; False also where a figure that it needs was not recorded.
        found: The figures in it with their values, or why one is missing, in words.
    """

    text: str
    holds: bool
    found: str


@dataclass(frozen=True)
class Assertion:
    """A parsed assertion.

    Attributes:
        text: As it was written.
        expression: The parsed expression.
    """

    text: str
    expression: Expression

    def check(self, trace: Trace) -> Outcome:
        """Whether it holds on `trace`. A figure that ``and`` and ``or`` do not evaluate may be missing."""
        found: dict[str, str] = {}
        try:
            holds = _holds(self.expression, trace, found)
        except NotRecordedError as reason:
            return Outcome(self.text, False, str(reason))
        return Outcome(self.text, holds, "; ".join(f"{name} is {value}" for name, value in found.items()))


def parse_assertion(text: str) -> Assertion:
    """Parse an assertion, such as ``idle < 20%``.

    Raises:
        AssertionSyntaxError: It cannot be parsed; the message has the place and what was expected.
    """
    return Assertion(text.strip(), Parser(text, kinds_of, NAMES).parse())


def check(trace: Trace, *assertions: str | Assertion) -> None:
    """Raise an exception where an assertion about `trace` does not hold.

    Args:
        trace: Any Trace.
        *assertions: Texts, such as ``idle < 20%``, or results of `parse_assertion`.

    Raises:
        AssertionSyntaxError: One cannot be parsed; nothing has been checked.
        AssertionFailed: One does not hold; the message lists all that do not hold, with their figures.
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


def figures_text() -> str:
    """The figures with their meanings, a line each."""
    width = max(map(len, NAMES[: len(FIGURES)]))
    return "\n".join(f"{name:<{width}}  {known.meaning}" for name, known in FIGURES.items())


def _holds(expression: Expression, trace: Trace, found: dict[str, str]) -> bool:
    if isinstance(expression, Comparison):
        return _compares(expression, trace, found)
    parts: Iterable[bool] = (_holds(part, trace, found) for part in expression.parts)
    if expression.word == "not":
        return not next(iter(parts))
    return any(parts) if expression.word == "or" else all(parts)


def _compares(comparison: Comparison, trace: Trace, found: dict[str, str]) -> bool:
    values = []
    for value in (comparison.left, comparison.right):
        if isinstance(value, Number):
            values.append(value.value)
        else:
            values.append(_value(value, comparison.kind, trace, found))
    return _SIGNS[comparison.sign](*values)


def _value(figure: Figure, kind: str, trace: Trace, found: dict[str, str]) -> float:
    measures = measure(trace, figure.name, figure.argument, figure.part)
    found[figure.text] = _written(measures, kind)
    return measures[kind]


def _written(measures: Mapping[str, float], kind: str) -> str:
    """The figure in the compared measure, and its other measures in parentheses."""
    order = [kind, *(other for other in measures if other != kind)]
    texts = [_WRITERS.get(one, _plain)(measures[one]) for one in order]
    return texts[0] + (f" ({', '.join(texts[1:])})" if texts[1:] else "")


def _bytes(value: float) -> str:
    return f"{units.size(value)} ({value / 1e9:.3g} GB)" if value >= 1e8 else units.size(value)


def _plain(value: float) -> str:
    return f"{value:,.0f}"


_WRITERS: Final[Mapping[str, Callable[[float], str]]] = {
    TIME: units.duration,
    BYTES: _bytes,
    PERCENT: lambda value: f"{value:.3g} %",
}
