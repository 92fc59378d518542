"""Detect the format of a file from its first bytes."""

from __future__ import annotations

import re
import zlib
from enum import Enum
from typing import Final

from cudalens.traces.foreign import is_tar, kind_of_file
from cudalens.traces.memory_timeline import HEAD as TIMELINE_HEAD
from cudalens.traces.protobuf.wire import kind_of_message
from cudalens.traces.rocm_json import KEY as TOOL_KEY
from cudalens.traces.snapshots import PICKLE_MAGIC
from cudalens.traces.source import GZIP_MAGIC
from cudalens.traces.sqlite.file import SQLITE_MAGIC

_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_TOOL: Final = re.compile(rb'\{\s{0,64}"' + TOOL_KEY.encode() + b'"')
_EVENTS: Final = re.compile(rb'"traceEvents"|\[\s*\{[^\0]{0,4000}"ph"\s*:', re.DOTALL)
_HEAD: Final = 4096


class Kind(Enum):
    """A format that `cudalens.load` reads."""

    ZIP = "a zip archive"
    TAR = "a tar archive"
    PICKLE = "a memory snapshot"
    SQLITE = "an SQLite file"
    XPLANE = "XPlane"
    PERFETTO = "Perfetto"
    TOOL_JSON = "rocprofv3's JSON"
    TIMELINE = "a memory timeline"
    CHROME = "Chrome JSON"
    GZIP = "gzip of a file that is no JSON"


_MESSAGES: Final = {"xplane": Kind.XPLANE, "perfetto": Kind.PERFETTO}


def kind_of_binary(head: bytes) -> Kind | None:
    """Return the kind of a file with a signature of its own; None for JSON and for what is not read."""
    if head.startswith(_ZIP):
        return Kind.ZIP
    if is_tar(head):
        return Kind.TAR
    if head.startswith(SQLITE_MAGIC):
        return Kind.SQLITE
    if head.startswith(PICKLE_MAGIC):
        return Kind.PICKLE
    # A line break before JSON is also the tag of a message's first field; no such field begins with a bracket.
    if not head.startswith(b"\n") or head.lstrip(b" \t\r\n").startswith((b"{", b"[")):
        return None
    return _MESSAGES.get(kind_of_message(head) or "")


def kind_of_text(head: bytes) -> Kind | None:
    """Return the kind of JSON that is not Chrome's; None for all other data."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if _TOOL.match(text):
        return Kind.TOOL_JSON
    return Kind.TIMELINE if TIMELINE_HEAD.match(text) else None


def unpacked_head(head: bytes) -> bytes:
    """Return the first bytes in a gzip file that begins with `head`, as far as they can be had."""
    try:
        return zlib.decompressobj(31).decompress(head, _HEAD)
    except zlib.error:
        return b""


def kind_of_head(head: bytes) -> Kind | None:
    """Return the kind of file that begins with `head`, or None if it is not a trace."""
    if head.startswith(GZIP_MAGIC):
        inner = unpacked_head(head)
        if kind_of_binary(inner) is not None:
            return Kind.GZIP
        return None if inner.startswith(GZIP_MAGIC) else kind_of_head(inner)
    if (kind := kind_of_binary(head) or kind_of_text(head)) is not None:
        return kind
    is_json = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")[:1] in (b"{", b"[")
    return Kind.CHROME if is_json and kind_of_file(head) is None and _EVENTS.search(head) else None
