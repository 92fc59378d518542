"""Decode the entries of ``traceEvents`` into typed records, in two ways.

The fast way decodes a whole slice of the file into strictly typed records. If that fails or would round a time, the
lenient way accepts any JSON value and converts entry by entry. Both return the same `Batch`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import SYNTAX_ERRORS, text_of
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.scanned import Scanned, Scanner, is_scanner_in_use
from cudalens.traces.chrome.values import MAX_NS, MISSING

#: Below this a double with a microsecond count and three decimals is exact to the nanosecond.
_EXACT_US: Final = float(1 << 43)
_MAX_US: Final = float(MAX_NS // 1000)
_DECIMAL_TS: Final = re.compile(rb'"ts"\s{0,64}:\s{0,64}-?\d+[.eE]')
_DECIMAL_DUR: Final = re.compile(rb'"dur"\s{0,64}:\s{0,64}-?\d+[.eE]')
#: A string (group 1), or a number without a JSON form, as Python or C++ prints it.
NOT_FINITE: Final = re.compile(
    rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")|-?\bInfinity\b|\bNaN\b|-?\bnan\b(?:\(ind\))?|-?\binf\b', re.DOTALL
)
_NAN: Final = math.nan
_NO_ARGS: Final = msgspec.Raw(b"{}")


class Record(msgspec.Struct, gc=False):
    """One entry of ``traceEvents``; ``args`` is not decoded, since each category needs different parts of it."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float = _NAN
    dur: float = _NAN
    args: msgspec.Raw = _NO_ARGS
    id: int | str | None = None
    id2: dict[str, int | str | None] | None = None
    scope: str | None = None


class _AnyRecord(msgspec.Struct):
    ph: Any = ""
    cat: Any = None
    name: Any = ""
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: msgspec.Raw = _NO_ARGS
    id: Any = None
    id2: Any = None
    scope: Any = None


class Batch(NamedTuple):
    """The decoded contents of a slice of the file.

    Attributes:
        num_entries: Number of entries, of every phase.
        records: The complete events (phase X) among them.
        ts: Their starts, ns; `MISSING` where an entry has none.
        dur: Their durations, ns; `MISSING` where an entry has none.
        others: Entries of other phases except flows, each with its ts.
        scanned: The complete events as columns instead of `records`; None if these were decoded.
    """

    num_entries: int
    records: list[Record]
    ts: Ints
    dur: Ints
    others: list[tuple[Record, int]]
    scanned: Scanned | None = None


class _Ns(int):
    """A time that is already in nanoseconds, read from a number with decimals."""


class _Unusable(str):
    """The text of a number that is not a time: NaN, infinite or too large."""

    __slots__ = ()


def exact_ns(text: str) -> _Ns | _Unusable:
    """Exact nanoseconds of a decimal number of microseconds; rounded half to even after three decimals."""
    whole, _, part = text.partition(".")
    if len(part) == 3 and part.isdigit() and len(whole) < 17:
        return _Ns(whole + part)
    try:
        number = Decimal(text)
        # A short text can represent a number of a billion digits.
        return _Ns((number * 1000).to_integral_value()) if number.adjusted() < 18 else _Unusable(text)
    except (InvalidOperation, ValueError, OverflowError):
        return _Unusable(text)


_FAST: Final = msgspec.json.Decoder(list[Record])
_LENIENT: Final = msgspec.json.Decoder(list[_AnyRecord], float_hook=exact_ns)
_LENIENT_ONE: Final = msgspec.json.Decoder(_AnyRecord, float_hook=exact_ns)
_TS, _DUR = attrgetter("ts"), attrgetter("dur")
_SKIPPED: Final = frozenset({"X", "s", "t", "f"})


class RecordDecoder:
    """Decodes slices of ``traceEvents``. Once a slice needs exact decimals, the rest of the file is decoded so too."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._is_exact = False
        self._scanner = Scanner() if is_scanner_in_use() else None

    @property
    def uses_scanner(self) -> bool:
        """Whether the compiled scanner reads what it can."""
        return self._scanner is not None

    def begin(self, data: bytes, size: int) -> None:
        """Begin to scan the start of `data` in another thread, if the scanner is in use; `decode` of it comes next."""
        if self._scanner is not None:
            self._scanner.begin(data, size, self._is_exact)

    def close(self) -> None:
        """Release the memory of the scanner's tables."""
        self._scanner = None

    def decode(self, data: bytes, size: int, first: int) -> Batch:
        """Return the entries in the first `size` bytes of `data`, the contents of a JSON array.

        Args:
            data: The text.
            size: Where the entries end.
            first: The number of the first of them.

        Raises:
            One of `SYNTAX_ERRORS`: They are not objects throughout.
        """
        batch = self._scan(data, size)
        return self._decode(b"".join((b"[", memoryview(data)[:size], b"]")), first) if batch is None else batch

    def _scan(self, data: bytes, size: int) -> Batch | None:
        """Return the entries by the compiled scanner; None without it, and for what is left to `_decode`."""
        if self._scanner is None or (scanned := self._scanner.scan(data, size, self._is_exact)) is None:
            return None
        if (rest := _others(data, scanned)) is None:
            self._scanner.undo()
            return None
        self._is_exact |= scanned.is_exact
        return Batch(scanned.num_entries, [], scanned.ts, scanned.dur, rest.others, scanned)

    def _decode(self, data: bytes, first: int) -> Batch:
        if not self._is_exact:
            try:
                records = _FAST.decode(data)
            except msgspec.ValidationError:
                return self._tidied(_LENIENT.decode(data), first)
            if (batch := _fast_batch(records, data)) is not None:
                return batch
            self._is_exact = True
        return self._tidied(_LENIENT.decode(data), first)

    def decode_each(self, entries: Sequence[bytes], first: int, offsets: Sequence[int]) -> Batch:
        """Return the entries that can be read at all; the others are counted as problems."""
        found: list[_AnyRecord] = []
        for i, (entry, offset) in enumerate(zip(entries, offsets, strict=True)):
            where = f"event {first + i}, byte {offset}"
            if (record := self._decode_one(entry, where)) is not None:
                found.append(record)
        return self._tidied(found, first)

    def _decode_one(self, entry: bytes, where: str) -> _AnyRecord | None:
        try:
            return _LENIENT_ONE.decode(entry)
        except msgspec.ValidationError:
            self._problems.add("entry that is not an event", where)
        except RecursionError:
            self._problems.add("event nested too deeply", where)
        except UnicodeDecodeError:
            return self._as_utf8(entry, where)
        except msgspec.DecodeError:
            return self._repaired(entry, where)
        return None

    def _as_utf8(self, entry: bytes, where: str) -> _AnyRecord | None:
        """Return an entry with the replacement character for bytes that are not UTF-8."""
        try:
            found = _LENIENT_ONE.decode(entry.decode("utf-8", "replace").encode())
        except SYNTAX_ERRORS:
            return self._repaired(entry, where)
        self._problems.add("invalid UTF-8", where)
        return found

    def _repaired(self, entry: bytes, where: str) -> _AnyRecord | None:
        """An entry with bad UTF-8, control characters, lone surrogates or NaN, decoded by Python's lenient reader."""
        tame = NOT_FINITE.sub(lambda m: m[1] or _constant(m[0]), entry)
        text = tame.decode("utf-8", "replace")
        try:
            value = json.loads(text, strict=False, parse_float=exact_ns, parse_constant=_Unusable)
            plain = json.loads(text, strict=False, parse_float=_finite, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            self._problems.add("event that is not JSON", where)
            return None
        if not isinstance(value, dict):
            self._problems.add("entry that is not an event", where)
            return None
        self._problems.add("invalid UTF-8" if "\ufffd" in text else "event that is not strict JSON", where)
        args = json.dumps(plain.get("args"), ensure_ascii=False).encode("utf-8", "replace")
        known = {key: value[key] for key in _AnyRecord.__struct_fields__ if key in value}
        return _AnyRecord(**known | {"args": msgspec.Raw(args)})

    def _tidied(self, found: list[_AnyRecord], first: int) -> Batch:
        records, times, others = [], [], []
        for i, record in enumerate(found):
            if record.ph == "X":
                records.append(_tidy(record))
                times.append((to_ns(record.ts), dur := to_ns(record.dur)))
                if dur == MISSING and record.dur is not None:
                    self._problems.add("unusable dur", f"event {first + i}")
            elif not isinstance(record.ph, str) or record.ph not in _SKIPPED:
                others.append((_tidy(record), to_ns(record.ts)))
        ts, dur_ = np.array(times, np.int64).reshape(-1, 2).T
        return Batch(len(found), records, ts, dur_, others)


def _others(data: bytes, scanned: Scanned) -> Batch | None:
    """Return the entries of `scanned` that are not complete events; None if they are left to the Python reader."""
    if not scanned.others:
        return Batch(0, [], scanned.ts, scanned.dur, [])
    found = b"".join((b"[", b",".join([data[a:b] for a, b in scanned.others]), b"]"))
    try:
        batch = _fast_batch(_FAST.decode(found), found)
    except SYNTAX_ERRORS:
        return None
    return None if batch is not None and batch.records else batch  # "X" may be spelled with an escape


def _constant(word: bytes) -> bytes:
    """Return a number that is not finite as Python's JSON reader spells it."""
    sign = b"-" if word.startswith(b"-") else b""
    return sign + b"Infinity" if b"inf" in word.lower() else b"NaN"


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _fast_batch(found: list[Record], data: bytes) -> Batch | None:
    """`found` with nanoseconds, or None if doubles are too coarse for them."""
    records = [record for record in found if record.ph == "X"]
    rest = [record for record in found if record.ph not in _SKIPPED] if len(records) < len(found) else []
    n = len(records)
    ts = microseconds_to_ns(np.fromiter(map(_TS, records), np.float64, n), _DECIMAL_TS, data)
    dur = microseconds_to_ns(np.fromiter(map(_DUR, records), np.float64, n), _DECIMAL_DUR, data)
    other_ts = microseconds_to_ns(np.fromiter(map(_TS, rest), np.float64, len(rest)), _DECIMAL_TS, data)
    if ts is None or dur is None or other_ts is None:
        return None
    return Batch(len(found), records, ts, dur, list(zip(rest, other_ts.tolist(), strict=True)))


def microseconds_to_ns(us: NDArray[np.float64], decimals: re.Pattern[bytes], data: bytes) -> Ints | None:
    """Exact nanoseconds of microseconds with three decimals, NaN as `MISSING`.

    Returns:
        None if doubles are too coarse: there are large numbers, and `decimals` finds a fraction in `data`, their
        source text. (The double of such a number may be whole.)
    """
    size = np.abs(us)
    if (size >= _EXACT_US).any() and ((size >= _MAX_US).any() or decimals.search(data)):
        return None
    whole = np.floor(us)
    part = us - whole
    unknown = np.isnan(us)
    if unknown.any():
        whole[unknown] = part[unknown] = 0
    ns: Ints = whole.astype(np.int64) * 1000 + np.rint(part * 1000).astype(np.int64)
    ns[unknown] = MISSING
    return ns


def to_ns(value: Any) -> int:
    """Nanoseconds of a JSON value in microseconds; `MISSING` for a value that is not a time."""
    if isinstance(value, str) and len(value) < 64:
        value = _number(value)
    if isinstance(value, _Ns):
        ns = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        ns = value * 1000
    else:
        return MISSING
    return ns if -MAX_NS < ns < MAX_NS else MISSING


def _number(text: str) -> Any:
    stripped = text.strip()
    digits = stripped.removeprefix("-")
    return int(stripped) if digits.isascii() and digits.isdigit() else exact_ns(stripped)


def _tidy(record: _AnyRecord) -> Record:
    return Record(
        ph=record.ph if isinstance(record.ph, str) else "",
        cat=None if record.cat is None else _text(record.cat),
        name=_text(record.name),
        pid=_key(record.pid),
        tid=_key(record.tid),
        args=record.args,
        id=_key(record.id),
        id2={key: _key(value) for key, value in record.id2.items()} if isinstance(record.id2, dict) else None,
        scope=None if record.scope is None else _text(record.scope),
    )


def _text(value: Any) -> str:
    return str(_key(value)) if isinstance(value, _Ns) else text_of(value)


def _key(value: Any) -> int | str | None:
    if isinstance(value, _Ns):  # a number with decimals: 7.0 becomes 7
        return int(value) // 1000 if value % 1000 == 0 else str(int(value) / 1000)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return text_of(value)
