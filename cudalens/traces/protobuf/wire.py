"""Walk over the fields of a protocol buffer without decoding what they hold.

Large messages are split with it into parts that are decoded one by one, and files are recognised by it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from cudalens.errors import TraceFormatError

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


# Message classes for the parts of published schemas that the readers use.

Schema = Mapping[str, Mapping[str, tuple[int, str]]]

_EXTRA: Final = "protobuf"


def message_classes(path: str | os.PathLike[str], package: str, schema: Schema) -> dict[str, Any]:
    """Return the classes of the messages in `schema`, by name.

    A schema is a table: each message by name, and each of its fields by name with its number and its type. Texts are
    ``bytes``, so that invalid UTF-8 is not an error. A map is a list of entries. Fields of an unknown number are
    skipped, as the format has it.

    Args:
        path: The file to read, for the message.
        package: Name of the schema's package.
        schema: The messages; a type that begins with ``*`` is repeated, and one that names a message is that message.

    Raises:
        TraceFormatError: The package protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise TraceFormatError(
            path,
            found=f"a protocol buffer ({package}), which needs the Python package protobuf",
            expected="that package to be installed",
            hint=f'Install it: pip install "cudalens[{_EXTRA}]".',
        ) from None
    file = descriptor_pb2.FileDescriptorProto(name=f"cudalens/{package}.proto", package=package, syntax="proto2")
    for name, fields in schema.items():
        _describe(file.message_type.add(name=name), package, fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in schema}


def _describe(message: Any, package: str, fields: Mapping[str, tuple[int, str]]) -> None:
    for name, (number, kind) in fields.items():
        field = message.field.add(name=name, number=number)
        plain = kind.removeprefix("*")
        field.label = field.LABEL_REPEATED if kind.startswith("*") else field.LABEL_OPTIONAL
        if plain[0].isupper():
            field.type, field.type_name = field.TYPE_MESSAGE, f".{package}.{plain}"
        else:
            field.type = getattr(field, f"TYPE_{plain.upper()}")


def text(data: bytes) -> str:
    """`data` as text, for people; what is no UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")
