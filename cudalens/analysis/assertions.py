"""Check assertions about a Trace, such as ``idle < 20%``: parse them, compute their figures, say which do not hold.

`parse_assertion` parses one before the code runs; `Assertion.check` evaluates it on a Trace. The language is defined in
`cudalens.analysis.assertions`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.event_arrays import EventArrays
from cudalens.analysis.findings import RULES, findings
from cudalens.analysis.findings.window_rules import unexplained
from cudalens.analysis.memory.totals import is_memory_snapshot
from cudalens.analysis.summary import step_rows, summarize, wall_ns
from cudalens.analysis.time.overlap import device_time
from cudalens.analysis.time.sync_advice import summarize_syncs, syncs
from cudalens.errors import AssertionFailed, AssertionSyntaxError
from cudalens.frames import GPU_ACTIVITIES, RUNTIME_CATEGORIES, Trace, is_category

# The language of assertions.

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
    """Parses one assertion, such as ``idle < 20% and peak_memory < 8 GB``, by recursive descent.

        either     = both ("or" both)*
        both       = single ("and" single)*
        single     = "not" single | "(" either ")" | comparison
        comparison = value (("<" | "<=" | ">" | ">=" | "==" | "!=") value)+
        value      = number [unit] | figure
        figure     = name ["(" text ")"] ["." name]
        text       = '"' … '"' | "'" … "'"

    A comparison of three or more values holds if each pair does, as in Python.

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
        left, right = (_value(value, expression.kind, trace, found) for value in (expression.left, expression.right))
        return _SIGNS[expression.sign](left, right)
    parts: Iterable[bool] = (_holds(part, trace, found) for part in expression.parts)
    if expression.word == "not":
        return not next(iter(parts))
    return any(parts) if expression.word == "or" else all(parts)


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


#: A figure's value by measure.
Measures = Mapping[str, float]
Measure = Callable[[Trace], Measures]


class NotRecordedError(Exception):
    """A figure that the run did not record; the message names the option that records it."""


class Definition(NamedTuple):
    """A figure: the measures that it has, and the function that measures it."""

    kinds: frozenset[str]
    measure: Measure


def _with_share(value_ns: float, trace: Trace) -> Measures:
    """Return a time, and its share of the measured window."""
    wall = wall_ns(trace)
    return {TIME: value_ns, PERCENT: 100 * value_ns / wall if wall else 0.0}


def _device_ns(trace: Trace, field: str) -> int:
    value = device_time(trace)[field]
    if pd.isna(value):
        raise NotRecordedError("no device was used in this run")
    return int(value)


def _device(field: str) -> Definition:
    return Definition(_SHARE, lambda trace: _with_share(_device_ns(trace, field), trace))


def _step(statistic: Callable[[Any], float]) -> Definition:
    def measure(trace: Trace) -> Measures:
        lengths = trace.events["dur"].to_numpy()[step_rows(trace)]
        if not len(lengths):
            raise NotRecordedError(
                "no step was recorded; profile with --repeat N, or call cudalens.step() in the profiled block"
            )
        return {TIME: float(statistic(lengths))}

    return Definition(_TIME, measure)


def _recorded(memory: pd.DataFrame) -> pd.DataFrame:
    if not len(memory):
        raise NotRecordedError("memory was not recorded; profile with --memory (cudalens.profile(memory=True))")
    return memory


def _peak(column: str) -> Definition:
    """Return the peak of a device's memory; of the host's if the run used no device."""

    def measure(trace: Trace) -> Measures:
        known = _recorded(trace.memory[trace.memory[column].notna()])
        on_device = known[known["device_type"].notna() & (known["device_type"].astype(str) != "cpu")]
        return {BYTES: float((on_device if len(on_device) else known)[column].max())}

    return Definition(_BYTES, measure)


def _copied(way: str) -> Definition:
    def measure(trace: Trace) -> Measures:
        arrays = EventArrays(trace)
        num_bytes = trace.events["num_bytes"][arrays.is_in("gpu_memcpy") & arrays.is_named(way)]
        if len(num_bytes) and num_bytes.isna().all():
            raise NotRecordedError("the sizes of copies were not recorded")
        return {BYTES: float(num_bytes.fillna(0).sum())}

    return Definition(_BYTES, measure)


def _host_wait(trace: Trace) -> Measures:
    found = summarize_syncs(syncs(trace))
    return _with_share(found.hidden_ns + found.explicit_ns, trace)


def _host_syncs(trace: Trace) -> float:
    cat = trace.events["cat"].array
    has_calls = is_category(cat, RUNTIME_CATEGORIES).any() or trace.info.options.get("syncs")
    if is_category(cat, GPU_ACTIVITIES).any() and not has_calls:
        raise NotRecordedError("no calls of the CUDA runtime were recorded, which show waits; profile with --syncs")
    return summarize_syncs(syncs(trace)).num_hidden


def _races(trace: Trace) -> float:
    if trace.info.judged is None and not len(trace.races):
        raise NotRecordedError("races were not checked; switch the sanitizer on with %cudasan on (cudalens.sanitize())")
    return float((~trace.races["is_suppressed"]).sum())


def _actions(name: str) -> Definition:
    return _count(lambda trace: float((_recorded(trace.memory)["action"] == name).sum()))


def _count(function: Callable[[Trace], float]) -> Definition:
    return Definition(_COUNT, lambda trace: {COUNT: float(function(trace))})


_SHARE = frozenset({TIME, PERCENT})
_TIME, _BYTES, _COUNT = frozenset({TIME}), frozenset({BYTES}), frozenset({COUNT})

#: Figures that have a name alone.
FIGURES: Final[Mapping[str, Definition]] = {
    "wall": Definition(_TIME, lambda trace: {TIME: float(wall_ns(trace))}),  # length of the measured window
    "busy": _device("busy_ns"),  # time in which any device was at work
    "idle": Definition(_SHARE, lambda t: _with_share(wall_ns(t) - _device_ns(t, "busy_ns"), t)),  # the rest of `wall`
    "compute": _device("comp_ns"),  # time of kernels that compute
    "communication": _device("comm_ns"),  # time of collectives' kernels
    "exposed_communication": _device("exposed_comm_ns"),  # of it, without computation at the same time
    "copies": _device("mem_ns"),  # time of copies and memory sets on the device
    "exposed_copies": _device("exposed_mem_ns"),  # of it, without a kernel at the same time
    "host_wait": Definition(_SHARE, _host_wait),  # time in which the host waited for the GPU
    "step": _step(np.mean),
    "step_median": _step(np.median),
    "step_max": _step(np.max),
    "peak_memory": _peak("allocated_bytes"),  # most bytes allocated at once, on the fullest device
    "reserved_memory": _peak("reserved_bytes"),  # most bytes reserved by the allocator at once
    "copied_to_device": _copied("HtoD|HostToDevice"),
    "copied_to_host": _copied("DtoH|DeviceToHost"),
    "kernels": _count(lambda t: summarize(t).num_kernels),
    "launches": _count(lambda t: summarize(t).num_launches),  # calls that launched work
    "ops": _count(lambda t: summarize(t).num_ops),  # CPU operators
    "events": _count(len),
    "steps": _count(lambda t: summarize(t).num_steps or 0),
    "host_syncs": _count(_host_syncs),  # waits for the GPU that are not explicit
    "syncs": _count(lambda t: len(t.syncs)),  # all waits of the host for the GPU
    "races": _count(_races),  # kinds of stream races, without suppressed ones
    "ooms": _actions("oom"),  # allocations that failed
    "allocations": _actions("alloc"),
    "findings": _count(lambda t: len(findings(t, most=None))),  # all of cudalens.analysis.findings
    "problems": _count(lambda t: sum(p.count for p in t.info.problems)),  # damage in the data
}

#: Parts of the figures about events of a name: their number, and their summed, mean, median and longest duration.
PARTS: Final[Mapping[str, frozenset[str]]] = {
    "count": _COUNT,
    "time": _SHARE,
    "mean": _TIME,
    "median": _TIME,
    "max": _TIME,
}
_STATISTICS: Final[Mapping[str, Callable[[Any], float]]] = {"mean": np.mean, "median": np.median, "max": np.max}

#: Figures about events whose name matches a regular expression, with the categories of these events.
NAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "kernel": ("kernel",),
    "op": ("cpu_op",),
    "range": ("user_annotation",),
    "device": GPU_ACTIVITIES,
}

NAMES: Final = (*FIGURES, *(f'{name}("…").{"|".join(PARTS)}' for name in NAMED), 'finding("rule")')

#: Figures that a memory snapshot has.
_OF_MEMORY: Final = frozenset({"peak_memory", "reserved_memory", "ooms", "allocations", "problems"})

_RULE_NAMES: Final = re.compile(r"``(\w+)``")


def rules() -> tuple[str, ...]:
    """Names of the rules of findings, from the docstrings of `RULES` and of the rule about the rest."""
    docs = [rule.__doc__ or "" for rule in RULES] + [unexplained.__doc__ or ""]
    return tuple(name for doc in docs for name in _RULE_NAMES.findall(doc.partition(":")[0]))


def kinds_of(name: str, argument: str | None, part: str | None) -> frozenset[str] | None:
    """Return the measures of a figure; None if there is no figure of that name.

    Raises:
        ValueError: It has a wrong argument or part.
    """
    if name in NAMED:
        if argument is None or part is None or part not in PARTS:
            raise ValueError(f'expected {name}("…") with one of .{", .".join(PARTS)}')
        try:
            re.compile(argument)
        except re.error as error:
            raise ValueError(f"invalid regular expression {argument!r}: {error}") from None
        return PARTS[part]
    if name == "finding":
        if argument not in rules() or part is not None:
            raise ValueError(f'expected finding("rule") < time, with one of the rules {", ".join(rules())}')
        return _SHARE
    if name not in FIGURES:
        return None
    if argument is not None or part is not None:
        raise ValueError(f"{name} takes no argument and has no parts")
    return FIGURES[name].kinds


def measure(trace: Trace, name: str, argument: str | None, part: str | None) -> Measures:
    """Return the value of a figure on `trace`.

    Raises:
        NotRecordedError: The run did not record it.
    """
    if is_memory_snapshot(trace) and name not in _OF_MEMORY:
        raise NotRecordedError(f"a memory snapshot has no {name}; compare snapshots with Trace.memory_diff")
    if name in FIGURES:
        return FIGURES[name].measure(trace)
    if name == "finding":
        return _with_share(sum(one.gain_ns or 0 for one in findings(trace, most=None) if one.rule == argument), trace)
    pattern = argument or ""
    part = part or ""
    arrays = EventArrays(trace)
    lengths = arrays.dur[arrays.is_named(pattern) & arrays.is_in(*NAMED[name])]
    if part == "count":
        return {COUNT: float(len(lengths))}
    if part == "time":
        return _with_share(float(lengths.sum()), trace)
    if not len(lengths):
        raise NotRecordedError(f"no {name} has {pattern!r} in its name")
    return {TIME: float(_STATISTICS[part](lengths))}
