"""Walk over the fields of a protocol buffer without decoding what they hold.

Large messages are split with it into parts that are decoded one by one, and files are recognised by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

VARINT: Final = 0
LENGTH: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_MAX_VARINT: Final = 10


class WireError(ValueError):
    """The bytes are not the fields of a message."""


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: Its number in the schema.
        kind: Its wire type: `VARINT`, `LENGTH`, or 1 and 5 for fixed sizes.
        start: Position of its contents.
        end: Position after its contents; beyond the data if they are cut off.
        value: The number, for `VARINT`; else 0.
    """

    number: int
    kind: int
    start: int
    end: int
    value: int


def fields(data: bytes | memoryview, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """Yield the fields of the message in ``data[start:end]``; the last may be cut off.

    Raises:
        WireError: The bytes are not fields.
    """
    end = len(data) if end is None else end
    at = start
    while at < end:
        key, at = varint(data, at, end)
        number, kind = key >> 3, key & 7
        value = 0
        begin = at
        if kind == VARINT:
            value, at = varint(data, at, end)
        elif kind == LENGTH:
            length, begin = varint(data, at, end)
            at = begin + length
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise WireError(f"byte {begin}: wire type {kind}")
        if not 0 < number < 1 << 29:
            raise WireError(f"byte {begin}: field number {number}")
        yield Field(number, kind, begin, at, value)


def varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Return the variable-length number at `at`, and the position after it.

    Raises:
        WireError: It has no end, or more than 64 bits.
    """
    value = 0
    for i in range(_MAX_VARINT):
        if at + i >= end:
            raise WireError(f"byte {at}: a number that is cut off")
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, at + i + 1
    raise WireError(f"byte {at}: a number of more than 64 bits")


def kind_of_message(head: bytes) -> str | None:
    """``xplane``, ``perfetto`` or ``pprof`` for the first bytes of such a file, else None.

    All three begin with field 1. The first field's own fields decide.
    """
    try:
        first = next(fields(head))
    except (WireError, StopIteration):
        return None
    if first.number != 1 or first.kind != LENGTH or first.end == first.start:
        return None
    inner = _inner(head, first)
    if not inner:
        return None
    if _is_pprof(first, inner):
        return "pprof"
    if _is_plane(head, inner):
        return "xplane"
    return "perfetto" if _is_packet(inner) else None


def _inner(head: bytes, first: Field) -> list[Field]:
    """Return the fields of `first` as far as `head` has them; none if its beginning is not a message."""
    found: list[Field] = []
    try:
        for field in fields(head, first.start, min(first.end, len(head))):
            found.append(field)  # noqa: PERF402 - keep what came before the error
    except WireError:
        return found if first.end > len(head) else []
    return found


def _is_pprof(first: Field, inner: list[Field]) -> bool:
    """Return whether it is a ValueType: two numbers of strings."""
    return first.end - first.start <= 8 and [(f.number, f.kind) for f in inner] == [(1, VARINT), (2, VARINT)]


def _is_plane(head: bytes, inner: list[Field]) -> bool:
    """Return whether it is an XPlane: a number, and a name in plain text."""
    known = {1: VARINT, 2: LENGTH, 3: LENGTH, 4: LENGTH, 5: LENGTH, 6: LENGTH}
    if any(known.get(field.number) != field.kind for field in inner[:8]):
        return False
    name = next((head[f.start : f.end] for f in inner if f.number == 2), b"")
    return bool(name) and len(name) < 400 and name.decode("utf-8", "replace").isprintable()


#: Fields of Perfetto's TracePacket that one of its first packets has: clocks, sequences, defaults and data.
_PACKET: Final = {
    **dict.fromkeys((3, 8, 10, 13, 41, 42, 58, 79, 87, 88), VARINT),
    **dict.fromkeys((1, 2, 5, 6, 11, 12, 33, 35, 36, 43, 44, 45, 50, 53, 54, 59, 60, 89), LENGTH),
}


def _is_packet(inner: list[Field]) -> bool:
    return all(_PACKET.get(field.number, field.kind) == field.kind and field.number < 1000 for field in inner) and any(
        field.number in _PACKET for field in inner
    )
