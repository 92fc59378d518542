"""Parse the language of assertions, such as ``idle < 20% and peak_memory < 8 GB``, by recursive descent.

    either     = both ("or" both)*
    both       = single ("and" single)*
    single     = "not" single | "(" either ")" | comparison
    comparison = value (("<" | "<=" | ">" | ">=" | "==" | "!=") value)+
    value      = number [unit] | figure
    figure     = name ["(" text ")"] ["." name]
    text       = '"' … '"' | "'" … "'"

A comparison of three or more values holds if each pair does, as in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NoReturn

from cudalens.errors import AssertionSyntaxError

#: What a number can measure.
PERCENT, TIME, BYTES, COUNT = "per cent", "time", "bytes", "count"

#: Units by name: what they measure, and their size in per cent, ns or bytes. KB is 1000 bytes, KiB is 1024.
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
_NOT_CLOSED: Final = "a parenthesis is not closed; expected )"
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
        return frozenset(_UNITS_OF if self.value == 0 and self.kind == COUNT else {self.kind})


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
    """Two values and the sign between them; `kind` is the measure in which they are compared."""

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

#: The measures of a figure by name, argument or None, and part or None; None if there is no such figure.
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
        known: Returns the measures of each figure.
        names: The names of the figures, for suggestions.
    """

    def __init__(self, text: str, known: Known, names: tuple[str, ...]) -> None:
        self._text, self._known, self._names = text, known, names
        self._depth = self._next = 0
        self._tokens = self._split()

    def parse(self) -> Expression:
        """Return the whole assertion.

        Raises:
            AssertionSyntaxError: It cannot be parsed; the message marks the place.
        """
        found = self._either()
        if self._peek().kind != "end":
            self._refuse(self._peek().at, f"found {self._peek().text!r}; expected and, or, or the end")
        return found

    def _split(self) -> list[_Token]:
        tokens, at = [], 0
        if len(self._text) > MAX_LENGTH:
            self._refuse(MAX_LENGTH, f"an assertion has at most {MAX_LENGTH:,} characters")
        while self._text[at:].strip():
            match = _TOKEN.match(self._text, at)
            if match is None or match.lastgroup is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                self._refuse(at, f"unexpected {self._text[at]!r}")
            tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            at = match.end()
        return [*tokens, _Token("end", "", len(self._text.rstrip()))]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _take(self, text: str) -> bool:
        """Advance if the next token is the sign or word `text`."""
        is_next = self._peek().kind != "text" and self._peek().text == text
        self._next += is_next
        return is_next

    def _expect(self, kind: str, reason: str) -> _Token:
        if self._peek().kind != kind:
            self._refuse(self._peek().at, reason)
        return self._advance()

    def _close(self) -> None:
        if not self._take(")"):
            self._refuse(self._peek().at, _NOT_CLOSED)

    def _either(self) -> Expression:
        return self._joined("or", lambda: self._joined("and", self._single))

    def _joined(self, word: str, parse_part: Callable[[], Expression]) -> Expression:
        parts = [parse_part()]
        while self._take(word):
            parts.append(parse_part())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _single(self) -> Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._refuse(self._peek().at, f"more than {_MAX_DEPTH} parentheses or nots are nested")
        if self._take("not"):
            found: Expression = Junction("not", (self._single(),))
        elif self._take("("):
            found = self._either()
            self._close()
        else:
            found = self._comparison()
        self._depth -= 1
        return found

    def _comparison(self) -> Expression:
        begin = self._peek()
        left = self._value()
        pairs: list[Expression] = []
        while (sign := self._peek()).text in _COMPARE:
            self._next += 1
            at = self._peek()
            right = self._value()
            pairs.append(self._pair(begin, left, sign.text, right, at))
            begin, left = at, right
        if self._peek().text == "=":
            self._refuse(self._peek().at, "found =; expected == (or <, <=, >, >=, !=)")
        if not pairs:
            self._refuse(self._peek().at, f"{left.text} is not compared; expected <, <=, >, >=, == or !=")
        return pairs[0] if len(pairs) == 1 else Junction("and", tuple(pairs))

    def _pair(self, begin: _Token, left: Number | Figure, sign: str, right: Number | Figure, at: _Token) -> Comparison:
        common = left.kinds & right.kinds
        if not common:
            wanted, other, where = (left, right, at) if isinstance(left, Figure) else (right, left, begin)
            units = " or ".join(_UNITS_OF[kind] for kind in sorted(wanted.kinds, reverse=True))
            is_bare = isinstance(other, Number) and other.kind == COUNT
            problem = "has no unit" if is_bare else f"cannot be compared with {wanted.text}"
            self._refuse(where.at, f"{other.text} {problem}; expected {units}")
        # In the unit of the number; for two figures in the first measure of both.
        number = next((v for v in (right, left) if isinstance(v, Number) and v.kind in common), None)
        kind = number.kind if number else next(k for k in (TIME, BYTES, COUNT, PERCENT) if k in common)
        return Comparison(left, sign, right, kind, f"{left.text} {sign} {right.text}")

    def _value(self) -> Number | Figure:
        token = self._peek()
        if token.kind == "number":
            return self._number()
        if token.kind != "name" or token.text in _WORDS:
            found = f"found {token.text!r}" if token.text else "unexpected end"
            self._refuse(token.at, f"{found}; expected a number or a figure")
        return self._figure(self._advance())

    def _number(self) -> Number:
        token, unit = self._advance(), self._peek()
        value = float(token.text.replace("_", ""))
        if unit.text != "%" and (unit.kind != "name" or unit.text in _WORDS):
            return Number(value, COUNT, token.text)
        if unit.text not in UNITS:
            close = get_close_matches(unit.text, UNITS, 1, 0.5) or [u for u in UNITS if u.lower() == unit.text.lower()]
            hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(UNITS)}"
            self._refuse(unit.at, f"unknown unit {unit.text!r}; {hint}")
        self._next += 1
        kind, size = UNITS[unit.text]
        return Number(value * size, kind, f"{token.text}{'' if unit.text == '%' else ' '}{unit.text}")

    def _figure(self, name: _Token) -> Figure:
        argument = part = None
        if self._take("("):
            argument = self._expect("text", f'expected a text in quotes, as in {name.text}("…")').text[1:-1]
            self._close()
        if self._take("."):
            part = self._expect("name", "expected a name after the dot").text
        shown = f"{name.text}{'' if argument is None else f'({argument!r})'}{'' if part is None else f'.{part}'}"
        return Figure(name.text, argument, part, self._kinds(name, argument, part), shown)

    def _kinds(self, name: _Token, argument: str | None, part: str | None) -> frozenset[str]:
        try:
            kinds = self._known(name.text, argument, part)
        except ValueError as error:
            self._refuse(name.at, str(error))
        if kinds is None:
            close = get_close_matches(name.text, self._names, 1, 0.5)
            hint = f"did you mean {close[0]}? Expected" if close else "expected"
            self._refuse(name.at, f"unknown figure {name.text!r}; {hint} one of {', '.join(self._names)}")
        return kinds

    def _refuse(self, at: int, reason: str) -> NoReturn:
        raise AssertionSyntaxError(self._text, at, reason)
