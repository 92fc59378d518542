"""Message classes for the parts of published schemas that the readers use, made in code with the package protobuf.

A schema is a table: each message by name, and each of its fields by name with its number and its type. Texts are
``bytes``, so that text that is no UTF-8 is no error. A map is a list of entries. Fields of an unknown number are
skipped, as the format has it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from cudalens.errors import TraceFormatError

Schema = Mapping[str, Mapping[str, tuple[int, str]]]

_EXTRA: Final = "protobuf"


def message_classes(path: str | os.PathLike[str], package: str, schema: Schema) -> dict[str, Any]:
    """Return the classes of the messages in `schema`, by name.

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
