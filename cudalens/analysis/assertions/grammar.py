"""The language of assertions, such as ``idle < 20% and peak_memory < 8 GB``: a recursive-descent parser.

.. code-block:: text

    either     = both ("or" both)*
    both       = single ("and" single)*
    single     = "not" single | "(" either ")" | comparison
    comparison = value (("<" | "<=" | ">" | ">=" | "==" | "!=") value)+
    value      = number [unit] | figure
    figure     = name ["(" text ")"] ["." name]
    text       = '"' … '"' | "'" … "'"

A comparison of three values and more holds when each pair does, as in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NoReturn

from cudalens.errors import AssertionSyntaxError

#: What a number can be.
PERCENT, TIME, BYTES, COUNT = "per cent", "time", "bytes", "count"

#: Units by name: what they measure, and their size in per cent, ns or bytes. KB is 1000 bytes, KiB 1024.
UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "%": (PERCENT, 1),
    "ns": (TIME, 1),
    "us": (TIME, 1e3),
    "µs": (TIME, 1e3),
    "ms": (TIME, 1e6),
    "s": (TIME, 1e9),
    "min": (TIME, 60e9),
    "B": (BYTES, 1),
    **{f"{prefix}B": (BYTES, 1000.0 ** (1 + "KMGT".index(prefix.upper()))) for prefix in ("K", "k", "M", "G", "T")},
    **{f"{prefix}iB": (BYTES, 1024.0 ** (1 + "KMGT".index(prefix))) for prefix in "KMGT"},
}

_UNITS_OF: Final = {
    TIME: "ns, us, ms, s or min",
    BYTES: "B, KB, MB, GB, KiB, MiB or GiB",
    PERCENT: "%",
    COUNT: "no unit",
}

MAX_LENGTH: Final = 2_000
_MAX_DEPTH: Final = 50
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<sign><=|>=|==|!=|[<>=().%]))"
)
_COMPARE: Final = frozenset({"<", "<=", ">", ">=", "==", "!="})
_WORDS: Final = frozenset({"and", "or", "not"})


@dataclass(frozen=True)
class Number:
    """A number in per cent, ns, bytes or without a unit; zero without a unit can be compared with every measure."""

    value: float
    kind: str
    text: str

    @property
    def kinds(self) -> frozenset[str]:
        """The measures in which it can be compared."""
        return (
            frozenset({PERCENT, TIME, BYTES, COUNT})
            if self.value == 0 and self.kind == COUNT
            else frozenset({self.kind})
        )


@dataclass(frozen=True)
class Figure:
    """A figure of a Trace: its name, its argument, and its part."""

    name: str
    argument: str | None
    part: str | None
    kinds: frozenset[str]
    text: str


@dataclass(frozen=True)
class Comparison:
    """Two values and the sign between them, to be compared as `kind`."""

    left: Number | Figure
    sign: str
    right: Number | Figure
    kind: str
    text: str


@dataclass(frozen=True)
class Junction:
    """Several expressions joined by ``and`` or ``or``, or one after ``not``."""

    word: str
    parts: tuple[Expression, ...]


Expression = Comparison | Junction

#: What a figure of a name, with an argument and a part or None, can be measured as; None where there is none such.
Known = Callable[[str, str | None, str | None], "frozenset[str] | None"]


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


class Parser:
    """Parses one assertion.

    Args:
        text: The assertion.
        known: The measures of each figure.
        names: Their names, for suggestions.
    """

    def __init__(self, text: str, known: Known, names: tuple[str, ...]) -> None:
        self._text, self._known, self._names = text, known, names
        self._depth = 0
        self._tokens = self._split()
        self._next = 0

    def parse(self) -> Expression:
        """The whole assertion.

        Raises:
            AssertionSyntaxError: It cannot be parsed; the message has the place.
        """
        found = self._joined("or")
        if self._peek().kind != "end":
            self._refuse(self._peek(), f"found {self._peek().text!r}; expected and, or, or the end")
        return found

    def _split(self) -> list[_Token]:
        tokens, at = [], 0
        if len(self._text) > MAX_LENGTH:
            self._refuse(_Token("", "", MAX_LENGTH), f"an assertion has at most {MAX_LENGTH:,} characters")
        while self._text[at:].strip():
            match = _TOKEN.match(self._text, at)
            if match is None or match.lastgroup is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                self._refuse(_Token("", "", at), f"{self._text[at]!r} has no meaning here")
            tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            at = match.end()
        return [*tokens, _Token("end", "", len(self._text.rstrip()))]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, *texts: str) -> _Token | None:
        token = self._peek()
        if token.kind == "text" or token.text not in texts:
            return None
        self._next += 1
        return token

    def _joined(self, word: str) -> Expression:
        parts = [self._joined("and") if word == "or" else self._single()]
        while self._take(word):
            parts.append(self._joined("and") if word == "or" else self._single())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _single(self) -> Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._refuse(self._peek(), f"more than {_MAX_DEPTH} brackets or nots are nested")
        try:
            if self._take("not"):
                return Junction("not", (self._single(),))
            if self._take("("):
                inner = self._joined("or")
                if not self._take(")"):
                    self._refuse(self._peek(), "a bracket is not closed; expected )")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Expression:
        begin = self._peek()
        left = self._value()
        pairs: list[Expression] = []
        while (sign := self._peek()).text in _COMPARE or sign.text == "=":
            if sign.text == "=":
                self._refuse(sign, "found =; expected == (or <, <=, >, >=, !=)")
            self._next += 1
            at = self._peek()
            right = self._value()
            pairs.append(self._pair(begin, left, sign.text, right, at))
            begin, left = at, right
        if not pairs:
            self._refuse(self._peek(), f"{left.text} is compared with nothing; expected <, <=, >, >=, == or !=")
        return pairs[0] if len(pairs) == 1 else Junction("and", tuple(pairs))

    def _pair(self, begin: _Token, left: Number | Figure, sign: str, right: Number | Figure, at: _Token) -> Comparison:
        common = left.kinds & right.kinds
        if not common:
            wanted = left if isinstance(left, Figure) else right
            other, where = (right, at) if wanted is left else (left, begin)
            units = " or ".join(_UNITS_OF[kind] for kind in sorted(wanted.kinds, reverse=True))
            is_bare = isinstance(other, Number) and other.kind == COUNT
            problem = f"{other.text} has no unit" if is_bare else f"{other.text} is no measure of {wanted.text}"
            self._refuse(where, f"{problem}; expected {units}")
        # By the unit of the number; of two figures by the first measure of both.
        number = next((v for v in (right, left) if isinstance(v, Number) and v.kind in common), None)
        kind = number.kind if number else next(k for k in (TIME, BYTES, COUNT, PERCENT) if k in common)
        return Comparison(left, sign, right, kind, f"{left.text} {sign} {right.text}")

    def _value(self) -> Number | Figure:
        token = self._peek()
        if token.kind == "number":
            return self._number()
        if token.kind == "name" and token.text not in _WORDS:
            return self._figure()
        what = f"found {token.text!r}" if token.text else "it ends here"
        return self._refuse(token, f"{what}; expected a number or a figure")

    def _number(self) -> Number:
        token = self._tokens[self._next]
        self._next += 1
        unit, value = self._peek(), float(token.text.replace("_", ""))
        if not (unit.kind == "name" and unit.text not in _WORDS) and unit.text != "%":
            return Number(value, COUNT, token.text)
        if unit.text not in UNITS:
            close = get_close_matches(unit.text, UNITS, 1, 0.5) or [u for u in UNITS if u.lower() == unit.text.lower()]
            hint = f"; did you mean {close[0]}?" if close else f"; expected one of {', '.join(UNITS)}"
            self._refuse(unit, f"{unit.text!r} is no unit{hint}")
        self._next += 1
        kind, size = UNITS[unit.text]
        return Number(value * size, kind, f"{token.text}{'' if unit.text == '%' else ' '}{unit.text}")

    def _figure(self) -> Figure:
        begin = self._tokens[self._next]
        self._next += 1
        argument = part = None
        if self._take("("):
            text = self._peek()
            if text.kind != "text":
                self._refuse(text, f'expected a text in quotes, as in {begin.text}("…")')
            self._next += 1
            argument = text.text[1:-1]
            if not self._take(")"):
                self._refuse(self._peek(), "a bracket is not closed; expected )")
        if self._take("."):
            name = self._peek()
            if name.kind != "name":
                self._refuse(name, "expected a name after the dot")
            self._next += 1
            part = name.text
        kinds = self._kinds(begin, argument, part)
        shown = f"{begin.text}{'' if argument is None else f'({argument!r})'}{'' if part is None else f'.{part}'}"
        return Figure(begin.text, argument, part, kinds, shown)

    def _kinds(self, begin: _Token, argument: str | None, part: str | None) -> frozenset[str]:
        try:
            kinds = self._known(begin.text, argument, part)
        except ValueError as error:
            self._refuse(begin, str(error))
        if kinds is None:
            close = get_close_matches(begin.text, self._names, 1, 0.5)
            hint = f"did you mean {close[0]}? " if close else ""
            self._refuse(begin, f"there is no figure {begin.text!r}; {hint}There are: {', '.join(self._names)}")
        return kinds

    def _refuse(self, token: _Token, reason: str) -> NoReturn:
        raise AssertionSyntaxError(self._text, token.at, reason)
