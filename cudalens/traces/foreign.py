"""Identify unsupported files by their first bytes, and suggest what to do with them."""

from __future__ import annotations

import os
import zipfile
from typing import Final

from cudalens.errors import TraceFormatError

_KINDS: Final = (
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ\0", "xz-compressed data"),
    (b"\x04\x22\x4d\x18", "lz4-compressed data"),
    (b"\x7fELF", "a program (ELF)"),
    (b"PAR1", "a Parquet file"),
    (b"\xff\xfe\0\0", "UTF-32 text"),
    (b"\0\0\xfe\xff", "UTF-32 text"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
    (b"<", "HTML or XML"),
    (b"NVR\0", "a report of Nsight Compute (.ncu-rep)"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x0a", "a Perfetto protocol buffer trace, perhaps"),
)
#: First bytes of JSON in UTF-16 without a byte order mark.
_UTF_16: Final = (b"{\0", b"[\0", b"\0{", b"\0[")
_TAR: Final = (257, b"ustar")
_HINTS: Final = {
    "Nsight Compute": "It describes single kernels, not a run: record a run with nsys or torch.profiler.",
    "Perfetto": "Convert it: traceconv json FILE out.json (https://perfetto.dev/docs/quickstart/traceconv).",
    "HDF5": "If nsys wrote it, export the report again: nsys export --type sqlite REPORT.",
    "Arrow": "If nsys wrote it, export the report again: nsys export --type sqlite REPORT.",
    "Parquet": "If nsys wrote it, export the report again: nsys export --type sqlite REPORT.",
    "-compressed": "Decompress it first: plain JSON, and JSON compressed once with gzip, are read.",
    "tar archive": "Unpack it first, and load the trace that is in it.",
    "UTF-": "JSON is UTF-8: convert it, as with iconv -f UTF-16 -t UTF-8 FILE.",
}


def kind_of_file(head: bytes) -> str | None:
    """The kind of file that begins with `head`, in words; None for JSON and for unknown data."""
    at, magic = _TAR
    if head[at : at + len(magic)] == magic:
        return "a tar archive"
    if head.startswith(_UTF_16):
        return "UTF-16 text"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")[:1] in (b"{", b"["):
        return None
    return next((what for magic, what in _KINDS if head.startswith(magic)), None)


def hint_for(what: str) -> str | None:
    """What the user can do with a file of the kind `what`; None if there is no hint."""
    return next((hint for word, hint in _HINTS.items() if word in what), None)


def refuse_other_archives(path: str | os.PathLike[str], expected: str) -> None:
    """Raise if a zip archive is not a saved Trace, judged by its file names; `Trace.load` reports a broken archive.

    Raises:
        TraceFormatError: The archive has files, and none of them is a Parquet file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return
    if not names or any(name.endswith(".parquet") for name in names):
        return
    found = f"a zip archive that is not a saved Trace ({len(names)} files; the first is {names[0][:80]!r})"
    raise TraceFormatError(path, found=found, expected=expected, hint="Unpack it, and load the trace that is in it.")
