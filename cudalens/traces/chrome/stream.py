"""Stream the entries of ``traceEvents`` from a JSON text of any size, and collect the other top-level keys.

The text is cut into slices of some megabytes at places that look like the border between two entries. A cut in the
wrong place (inside a string or nested args) leaves a bracket or a quote open, so that decoding fails: a slice that
decodes was cut correctly. Brackets are counted only if decoding fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from cudalens.errors import TraceFormatError
from cudalens.frames.lenient_json import SYNTAX_ERRORS, decoder, text_of
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.records import NOT_FINITE, Batch, RecordDecoder
from cudalens.traces.chrome.top_level import KEY
from cudalens.traces.source import Source, hint_for, kind_of_file

_BORDER: Final = re.compile(rb'\}\s{0,64},\s{0,64}(?=\{\s{0,64}"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tdur|tts)")')
_END: Final = re.compile(rb"\}\s{0,64}\]\s{0,64}(?=[,}]|\Z)")
# A string without an end matches the rest of the buffer, so that brackets in it are not counted.
# Possessive, since `re` keeps memory for every place to which it might return.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[][{}]', re.DOTALL)
_EVENTS_KEY: Final = re.compile(rb'"traceEvents"\s{0,64}:\s{0,64}')
_BASE: Final = re.compile(rb'"baseTimeNanoseconds"\s{0,64}:\s{0,64}(\d{1,19})\b')
_LIST: Final = re.compile(rb"\[\s{0,64}[{\]]")
#: Other escapes (group 1), or half of a character.
_SURROGATE: Final = re.compile(
    rb"(\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}", re.DOTALL
)
_SPACE: Final = b" \t\r\n"
#: Bytes of a slice for the scanner, which has costs per slice; for the Python reader smaller slices stay in the caches.
_SCANNED_PIECE: Final = 1 << 22
_TRIES: Final = 3
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
#: Keys "traceEvents" of which it is checked whether they are of the outermost object; each takes a decoding.
_MAX_KEYS: Final = 16
_BORDER_WINDOW: Final = 1 << 16
_MAX_ENTRY: Final = 1 << 24
#: An entry with more open brackets is not searched for its end.
_MAX_DEPTH: Final = 100_000
#: Entries of damaged text that are decoded together.
_MAX_SPANS: Final = 50_000
#: Largest value of another key, in bytes of text; a larger one is ignored.
_MAX_VALUE: Final = 1 << 22
_MAX_AROUND: Final = 1 << 28


class EventStream:
    """The entries of one Chrome trace.

    Attributes:
        metadata: The other top-level keys; complete once the batches have been read.
        num_entries: Entries of ``traceEvents`` so far, readable or not.
        is_list: Whether the file is a bare list of entries.
    """

    def __init__(self, path: str | os.PathLike[str], source: Source, problems: Problems) -> None:
        self._path, self._source, self._problems = path, source, problems
        self._decoder = RecordDecoder(problems)
        if self._decoder.uses_scanner:
            source.piece = max(source.piece, _SCANNED_PIECE)
        self._buffer = self._ahead = b""
        self._offset = 0
        self.metadata: dict[str, Any] = {}
        self.num_entries = 0
        self.is_list = False
        self._at_events = self._read_head()

    def batches(self) -> Iterator[Batch]:
        """Yield all entries, in file order, a batch at a time.

        Raises:
            TraceFormatError: The entries are not a list.
        """
        is_stuck, ready = False, None
        while self._at_events:
            piece, size = self._double() if is_stuck else self._read_piece(), len(self._buffer)
            borders = self._borders() if piece else []
            self._begin(borders)
            if ready is not None:  # the caller handles it while the next slice is scanned
                yield ready
                ready = None
            self._ahead = self._ahead or self._source.read()
            ready = self._fast_slice(borders) or self._last_slice()
            if ready is None and piece and len(self._buffer) < _BORDER_WINDOW:
                continue
            if ready is None:
                yield from self._scanned(is_end=not piece)
            is_stuck = len(self._buffer) == size
        self._decoder.close()
        if ready is not None:
            yield ready

    def _read_head(self) -> bool:
        """Read up to the first entry; returns False if the list of entries is empty."""
        while not len(self._buffer.lstrip(_SPACE)) > 4096 and (piece := self._source.read()):
            if not self._buffer.strip(_SPACE):
                self._drop(len(self._buffer))
            self._buffer += piece
        self._drop(len(self._buffer) - len(self._buffer.removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)))
        if self._buffer.startswith(b"["):
            self.is_list = True
            self._drop(1)
        elif self._buffer.startswith(b"{"):
            self._find_events()
        else:
            raise self._no_json()
        return True

    def _no_json(self) -> TraceFormatError:
        expected = "a JSON object or list"
        if not self._buffer:
            return self._refusal("nothing", expected)
        if what := kind_of_file(bytes(self._buffer)):
            return self._refusal(f"{what} in the compressed data", expected, hint=hint_for(what))
        return self._refusal(f"{self._buffer[:20]!r}", expected)

    def _find_events(self) -> None:
        searched = 0
        while True:
            for key in islice(_EVENTS_KEY.finditer(self._buffer, max(0, searched - 256)), _MAX_KEYS):
                if key.end() < len(self._buffer) and self._is_top_level(key.start()):
                    self._enter(key.end())
                    return
            searched = len(self._buffer)
            if searched > _MAX_AROUND or not self._double():
                self._find_unusual_events()
                return

    def _is_top_level(self, at: int) -> bool:
        """Return whether the key at `at` belongs to the outermost object: the text before it must be complete JSON."""
        try:
            head = _top_level(self._buffer[:at] + b'"":0}')
        except SYNTAX_ERRORS:
            return False
        del head[""]
        self.metadata = self._values(head, "before the events")
        return True

    def _find_unusual_events(self) -> None:
        """Enter a list whose key has an unusual spelling, or before which the JSON is broken."""
        try:
            found = _top_level(self._buffer)
        except SYNTAX_ERRORS as error:
            self._find_events_after_damage(error)
            return
        if (events := found.pop("traceEvents", None)) is None:
            what, hint = describe(found)
            raise self._refusal(what, "a JSON object with 'traceEvents', or a list of events", hint=hint)
        self.metadata = self._values(found, "around the events")
        self._buffer = bytes(events) + b"}"
        self._enter(0)

    def _find_events_after_damage(self, error: Exception) -> None:
        """Enter the first list of objects, as torch writes it after metadata of the user with quotes in them."""
        keys = _EVENTS_KEY.finditer(self._buffer)
        if (key := next((key for key in keys if _LIST.match(self._buffer, key.end())), None)) is None:
            damage = self._source.damage or f"broken JSON without 'traceEvents' ({error})"
            at = self._offset + len(self._buffer)
            raise self._refusal(damage, "a JSON object with 'traceEvents'", at=at)
        self._problems.add("broken JSON before the events", str(error))
        if bases := _BASE.findall(self._buffer, 0, key.start()):
            self.metadata["baseTimeNanoseconds"] = int(bases[-1])
        self._enter(key.end())

    def _enter(self, at: int) -> None:
        if self._buffer[at : at + 1] != b"[":
            self._drop(at)
            raise self._refusal(f"{self._buffer[:20]!r} after 'traceEvents'", "a list of events")
        self._drop(at + 1)

    def _values(self, found: dict[str, msgspec.Raw], where: str) -> dict[str, Any]:
        """Return the values of the other keys; those that are long are ignored, except our own frames."""
        own = found.pop(KEY, None)
        values: dict[str, Any] = {} if own is None else {KEY: _own_frames(own)}
        for key, raw in found.items():
            try:
                if len(raw) <= _MAX_VALUE:
                    values[key] = _value(raw)
            except SYNTAX_ERRORS:
                self._problems.add(f"a value of {text_of(key)[:40]!r} that cannot be read", where)
        return values

    def _borders(self) -> list[re.Match[bytes]]:
        """Return the last borders in the buffer, the last one first."""
        borders = list(_BORDER.finditer(self._buffer, max(0, len(self._buffer) - _BORDER_WINDOW)))
        return borders[: -_TRIES - 1 : -1]

    def _begin(self, borders: list[re.Match[bytes]]) -> None:
        """Scan the entries up to the last border in another thread, if the scanner is in use."""
        if borders:
            self._decoder.begin(self._buffer, borders[0].start() + 1)

    def _fast_slice(self, borders: list[re.Match[bytes]]) -> Batch | None:
        """Return the entries up to one of `borders`, or None if they do not decode."""
        for border in borders:
            if (batch := self._decode(border.start() + 1)) is not None:
                self._drop(border.end())
                return batch
        return None

    def _last_slice(self) -> Batch | None:
        """The entries up to the end of the list, if the end is in the buffer and all of them decode; else None."""
        for end in islice(_END.finditer(self._buffer), _TRIES):
            if (batch := self._decode(end.start() + 1)) is not None:
                self._drop(self._buffer.index(b"]", end.start()) + 1)
                self._read_tail()
                return batch
        return None

    def _decode(self, end: int) -> Batch | None:
        try:
            batch = self._decoder.decode(self._buffer, end, self.num_entries)
        except SYNTAX_ERRORS:
            return None
        self.num_entries += batch.num_entries
        return batch

    def _scanned(self, is_end: bool) -> Iterator[Batch]:
        """Decode entry by entry, by counting brackets; used for damaged text."""
        is_full, closed = True, False
        while is_full:
            spans, rest, closed = scan(self._buffer)
            is_full = len(spans) >= _MAX_SPANS and not closed
            if spans:
                entries = [self._buffer[a:b] for a, b in spans]
                offsets = [self._offset + a for a, _ in spans]
                batch = self._decoder.decode_each(entries, self.num_entries, offsets)
                self.num_entries += len(entries)
                yield batch
            self._drop(rest)
        if closed:
            self._read_tail()
        elif is_end or len(self._buffer) > _MAX_ENTRY:
            self._at_events = False
            where = f"event {self.num_entries}, byte {self._offset}"
            if self._source.damage:
                self._problems.add(self._source.damage, where)
            else:
                self._problems.add("the file stops before its end" if is_end else "an entry without an end", where)

    def _read_tail(self) -> None:
        """Read the other keys of the object, after the list."""
        self._at_events = False
        self._fill(lambda data: len(data) > _MAX_AROUND)
        if self._source.damage:
            self._problems.add(self._source.damage, self._where())
        tail = self._buffer.strip(_SPACE)
        if self.is_list:
            if tail:
                self._problems.add("something after the list of events", self._where())
            return
        try:
            found = _top_level(b"{" + tail.removeprefix(b","))
        except SYNTAX_ERRORS:
            self._problems.add(
                "the file stops before its end" if not tail.endswith(b"}") else "broken JSON", self._where()
            )
            return
        if "traceEvents" in found:
            self._problems.add("a second list of events, ignored", self._where())
        self.metadata |= self._values(found, self._where())

    def _where(self) -> str:
        return f"byte {self._offset}, after the events"

    def _fill(self, is_enough: Any) -> None:
        while not is_enough(self._buffer) and self._double():
            pass

    def _read_piece(self) -> bool:
        piece, self._ahead = self._ahead or self._source.read(), b""
        self._buffer += piece
        return bool(piece)

    def _double(self) -> bool:
        """Read as much again as the buffer has, so that reading takes linear time; False at the end."""
        pieces, size = [self._buffer, self._ahead], len(self._ahead)
        self._ahead = b""
        while size <= len(self._buffer) and (piece := self._source.read()):
            pieces.append(piece)
            size += len(piece)
        self._buffer = b"".join(pieces)
        return size > 0

    def _drop(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._offset += count

    def _refusal(self, found: str, expected: str, hint: str | None = None, at: int | None = None) -> TraceFormatError:
        position = f"byte {self._offset if at is None else at}"
        if self._source.damage and self._source.damage not in found:
            found = f"{found}, and {self._source.damage}"
        return TraceFormatError(self._path, position=position, found=found, expected=expected, hint=hint)


def scan(buffer: bytes) -> tuple[list[tuple[int, int]], int, bool]:
    """Complete entries of a JSON list that starts before `buffer`, the first ones if there are very many.

    Returns:
        The (start, end) of each complete entry that is an object or a list; the start of the incomplete rest (after the
        closing bracket, if it was found); and whether the closing bracket was found.
    """
    spans: list[tuple[int, int]] = []
    depth = start = rest = 0
    for token in _TOKEN.finditer(buffer):
        kind = buffer[token.start()]
        if kind in b"{[":
            if depth == 0:
                _add_scalars(buffer, rest, token.start(), spans)
                start = token.start()
            depth += 1
        elif kind in b"}]":
            if depth == 0:
                _add_scalars(buffer, rest, token.start(), spans)
                return spans, token.end(), True
            depth -= 1
            if depth == 0:
                spans.append((start, token.end()))
                rest = token.end()
        if depth > _MAX_DEPTH or len(spans) >= _MAX_SPANS:
            break
    return spans, start if depth else rest, False


def _add_scalars(buffer: bytes, start: int, end: int, spans: list[tuple[int, int]]) -> None:
    """Add the text between two entries, except space and commas, to `spans`: entries such as numbers."""
    for part in re.finditer(rb"[^\s,]+", buffer[start:end]):
        spans.append((start + part.start(), start + part.end()))  # noqa: PERF401


def describe(value: Any) -> tuple[str, str | None]:
    """Return what a JSON value that is not a trace seems to be, and a hint what to do."""
    if not isinstance(value, dict):
        return f"a JSON {type(value).__name__}", None
    if "nodes" in value and ("schema" in value or "start_ts" in value):
        what = "a PyTorch execution trace (ExecutionTraceObserver)"
        return what, "It holds a graph of operators without times; load the profiler's trace of the same run instead."
    keys = ", ".join(repr(str(key)[:40]) for key in list(value)[:5]) or "no key at all"
    return f"a JSON object with {keys}", None


def _top_level(text: bytes) -> dict[str, msgspec.Raw]:
    """Return the values of a JSON object, as text."""
    text, read = _without_nan(text), _OBJECT.decode
    try:
        return read(text)
    except SYNTAX_ERRORS:
        if (unicode := _valid_unicode(text)) == text:
            raise
        return read(unicode)


def _valid_unicode(text: bytes) -> bytes:
    """`text` with the replacement character for bytes that are not UTF-8, and for escapes of half a character."""
    whole = text.decode("utf-8", "replace").encode()
    return _SURROGATE.sub(lambda m: m[1] or rb"\ufffd", whole) if rb"\u" in whole else whole


def _value(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except UnicodeDecodeError:
        return msgspec.json.decode(bytes(raw).decode("utf-8", "replace"))


def _own_frames(raw: msgspec.Raw) -> Any:
    """Return the value of `KEY`; None if it is not an object of numbers and texts."""
    try:
        return decoder(dict[str, int | str]).decode(raw)
    except SYNTAX_ERRORS:
        return None


def _without_nan(text: bytes) -> bytes:
    """`text` with NaN, Infinity and C's nan and inf outside of strings replaced by null."""
    if not any(word in text for word in (b"NaN", b"Infinity", b"nan", b"inf")):
        return text
    return NOT_FINITE.sub(lambda m: m[1] or b"null", text)
