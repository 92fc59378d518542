"""Decode JSON that may be damaged into typed structs: a field that cannot be used costs that field alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from cudalens.errors import TraceFormatError
from cudalens.frames.info import Problem

#: What msgspec raises for text that is not the JSON that it expects.
SYNTAX_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# Numbers beyond a double's range become infinite, and are then found unusable one by one.
_LAX: Final = msgspec.json.Decoder(float_hook=float)


@cache
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of one type."""
    return msgspec.json.Decoder(kind)


def decode_fields(raw: bytes, spec: Any, problems: Problems, where: str) -> Any:
    """Return the JSON object `raw` as a `spec`, its defaults in place of what cannot be used, which is counted.

    Args:
        raw: The text.
        spec: A `msgspec.Struct` all of whose fields have defaults and one of the types ``int | None``,
            ``float | None``, ``str | None`` and `msgspec.Raw`.
        problems: Where damage is counted.
        where: The place that the problems name.
    """
    try:
        return decoder(spec).decode(raw)
    except SYNTAX_ERRORS:
        pass
    try:
        value = _LAX.decode(raw.decode("utf-8", "replace"))
    except SYNTAX_ERRORS:
        problems.add("args that cannot be read", where)
        return spec()
    if isinstance(value, dict):
        return _usable_fields(value, spec, problems, where)
    if value is not None:
        problems.add("args that are not an object", where)
    return spec()


def _usable_fields(value: dict[str, Any], spec: type[Any], problems: Problems, where: str) -> Any:
    known = {}
    for field in msgspec.structs.fields(spec):
        if field.encode_name in value:
            usable = _CONVERT[field.type](value[field.encode_name])
            if usable is None and value[field.encode_name] is not None:
                problems.add(f"unusable '{field.encode_name}'", where)
            elif usable is not None:
                known[field.name] = usable
    return spec(**known)


def _integer(value: Any) -> int | None:
    try:
        if isinstance(value, bool):
            return None
        return int(value, 0) if isinstance(value, str) else int(value)
    except (ValueError, TypeError, OverflowError):
        return None


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        return None


def text_of(value: Any) -> str:
    """`value` as text that UTF-8 can hold."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    return text.encode("utf-8", "replace").decode()


def texts_of(texts: list[str]) -> list[str]:
    """`text_of` each of `texts`; nearly always `texts` itself."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return [text_of(text) for text in texts]
    return texts


#: What texts do not have that are lists of integers, of less than 19 digits each, and zero bytes between them.
_NOT_INTEGERS: Final = re.compile(rb"[^][0-9,\s\0-]|[0-9]{19}")
#: JSON texts of values that are missing.
_NOTHING: Final = ("null", '""')
_CONVERT: Final[dict[Any, Callable[[Any], Any]]] = {
    int | None: _integer,
    float | None: _number,
    str | None: lambda value: None if value is None else text_of(value),
    msgspec.Raw: lambda value: None if value is None else msgspec.Raw(msgspec.json.encode(value)),
}


def compact_json_of(raws: Sequence[bytes]) -> list[str | None]:
    """`compact_json` of each of `raws`, values that a strict reader found in a JSON text, in a fraction of the time."""
    joined = b"\0".join(raws)
    if raws and not _NOT_INTEGERS.search(joined):
        return list(joined.translate(None, b" \t\r\n").decode().split("\0"))
    try:
        text = msgspec.json.format(b"".join((b"[", b",".join(raws), b"]")), indent=-1)
        msgspec.json.decode(text)  # a Raw is not checked
        found = [bytes(one).decode() for one in msgspec.json.decode(text, type=list[msgspec.Raw])]
    except SYNTAX_ERRORS:
        found = []
    if len(found) != len(raws):
        return [compact_json(raw) for raw in raws]
    return [_compact_value(one) for one in found]


def _compact_value(text: str) -> str | None:
    if text.startswith('"'):
        return compact_json(text.encode())
    return None if text == "null" else text


def compact_json(raw: bytes) -> str | None:
    """Return a JSON value without spaces; None for nothing, null, an empty text and what is not JSON.

    A text that contains a list, as Kineto writes those of collectives, is that list.
    """
    try:
        text = msgspec.json.format(raw, indent=-1).decode() if raw else "null"
        value = msgspec.json.decode(text)
        if isinstance(value, str) and value.startswith("["):
            return compact_json(value.encode()) or text
    except SYNTAX_ERRORS:
        return None
    return None if text in _NOTHING else text


# How much a file may expand while it is read, and what damage in it a reader works around.


class Problems:
    """Number of occurrences of each kind of damage, and the first one."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, where: str, count: int = 1) -> None:
        """Count `kind`; `where` is kept for the first occurrence only."""
        before, first = self._found.get(kind, (0, where))
        self._found[kind] = (before + count, first)

    def count(self, *beginnings: str) -> int:
        """Occurrences of the kinds that begin with one of `beginnings`."""
        return sum(count for kind, (count, _) in self._found.items() if kind.startswith(beginnings))

    def __len__(self) -> int:
        return len(self._found)

    def first(self) -> str | None:
        """Return the first damage in words, or None."""
        return next((f"{kind} ({where})" for kind, (_, where) in self._found.items()), None)

    def to_tuple(self) -> tuple[Problem, ...]:
        """For `RunInfo.problems`, in order of first occurrence."""
        return tuple(Problem(kind, count, where) for kind, (count, where) in self._found.items())


#: Files may expand to this without regard to their size.
FREE_BYTES: Final = 96 << 20
#: How often the bytes of the file they may have after that; recorded traces have 10 to 40.
RATIO: Final = 100
#: The same for the rows of a Parquet file, whose equal values take no bytes.
ROWS_RATIO: Final = 400
#: Memory of what each byte of numbers or small messages describes, as measured, for formats that are decoded at once.
VALUE_BYTES: Final = 10
_MEMORY: Final = Path("/proc/meminfo")
_CONTAINER: Final = Path("/sys/fs/cgroup/memory.max")


def available_bytes() -> int:
    """Memory that a new allocation can have, of the machine and of its container; 4 GiB if unknown."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = _MEMORY.read_text().splitlines()
        found.append(int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) << 10)
    with suppress(OSError, ValueError):
        found.append(int(_CONTAINER.read_text()))  # "max" is no limit
    return min(found, default=4 << 30)


class Limit:
    """The most bytes that the contents of one file may have in memory."""

    def __init__(self, path: str | os.PathLike[str], max_bytes: int | None = None) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._available = available_bytes() if max_bytes is None else max_bytes

    def check(
        self, num_bytes: int, packed: int | None = None, *, what: str, position: str | None = None, ratio: int = RATIO
    ) -> None:
        """Refuse contents that are too large.

        Args:
            num_bytes: Bytes of the contents, known or so far.
            packed: Bytes of the file that they expanded from; None if it was not compressed.
            what: What has the bytes.
            position: Where it is, for the message.
            ratio: The most bytes for each of `packed`.

        Raises:
            TraceFormatError: `num_bytes` is above the limit.
        """
        limit = self._available
        if self._max_bytes is None and packed is not None:
            limit = min(limit, FREE_BYTES + ratio * packed)
        if num_bytes <= limit:
            return
        packed_text = "" if packed is None else f" from {packed:,} compressed bytes"
        raise TraceFormatError(
            self._path,
            position=position,
            found=f"{num_bytes:,} bytes or more in {what}{packed_text}",
            expected=f"at most {limit:,}, by the sizes of the file and of the free memory",
            hint=f"If the file can be trusted: cudalens.load(path, max_bytes={_rounded(num_bytes):_}).",
        )


def _rounded(num_bytes: int) -> int:
    """Return the next power of two above `num_bytes`."""
    return 1 << num_bytes.bit_length()
