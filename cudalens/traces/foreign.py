"""Identify unsupported files by their first bytes, and suggest what to do with them."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from cudalens.frames.lenient_json import SYNTAX_ERRORS
from cudalens.traces.protobuf.wire import kind_of_message

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
    (b"NVR\0", "a report of Nsight Compute (.ncu-rep)"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"ARROW1", "an Arrow file"),
    (b"tracy", "a capture of Tracy"),
    (b"tlZ\x04", "a capture of Tracy"),
    (b"tZst", "a capture of Tracy"),
    (b"tr\xfdP", "a capture of Tracy"),
    (b"PERFILE2", "a recording of Linux perf (perf.data)"),
    (b"\x89PNG", "a picture (PNG)"),
)
#: Texts by a pattern that their beginning has.
_TEXTS: Final = tuple(
    (re.compile(pattern, flags), what)
    for pattern, flags, what in (
        (rb"\s*<[^\0]{0,3000}Memory Timeline", re.DOTALL, "a picture of torch's memory timeline (HTML)"),
        (rb"\s*<\?xml[^\0]{0,3000}(?:nvvp|NVIDIA Visual Profiler)", re.DOTALL, "a session of NVIDIA's Visual Profiler"),
        (
            # Also after lines of one frame; Python's frames may begin with "<module>".
            rb"(?!\s*<[!?])(?:[^\n;{\[\0]{1,300} \d{1,18}\r?\n){0,3}"
            rb"[^\n{\[\0]{1,3000};[^\n\0]{0,3000} \d{1,18}\r?(?:\n|\Z)",
            0,
            "collapsed stacks",
        ),
        (rb"\s*<", 0, "HTML or XML"),
        (
            rb'"?(?:Time ?\(%\)|Start \(ns\)|Operation|Range)"?,[^\n]{0,200}\((?:ns|%|us|ms)\)',
            0,
            "a table of nsys stats (CSV)",
        ),
        (rb'"?(?:Name"?,"?Calls"?,"?TotalDuration|Index"?,"?KernelName)', 0, "a table of rocprof (CSV)"),
        (rb'"?(?:Kind"?,"?(?:Agent|Operation|Stream)|Domain"?,"?Function|Guid"?,)', 0, "a table of rocprofv3 (CSV)"),
        (rb'"?\w[^\n\0{}\[\]]{0,500},[^\n\0{}\[\]]{1,500}\r?\n[^\n\0]{0,500},', 0, "a table (CSV)"),
    )
)
#: First bytes of JSON in UTF-16 without a byte order mark.
_UTF_16: Final = (b"{\0", b"[\0", b"\0{", b"\0[")
_TAR: Final = (257, b"ustar")
_HINTS: Final = {
    "Nsight Compute": "It describes single kernels, not a run: record a run with nsys or torch.profiler.",
    "pprof": "It has sums, without times: record a run with torch.profiler, or py-spy record -f chrometrace.",
    "HDF5": "If nsys wrote it, export the report again: nsys export --type sqlite REPORT.",
    "Arrow": "If nsys wrote it, export the report again: nsys export --type sqlite REPORT.",
    "Parquet": "If nsys wrote it, export the report again: nsys export --type sqlite REPORT.",
    "-compressed": "Decompress it first: plain files, and files compressed once with gzip, are read.",
    "UTF-": "JSON is UTF-8: convert it, as with iconv -f UTF-16 -t UTF-8 FILE.",
    "JSON lines": "Make one list of it, if the lines are trace events: jq -s . FILE > trace.json.",
    "nsys stats": "It has sums, without times: export the report itself, nsys export --type sqlite REPORT.",
    "rocprof (CSV)": "Record again with a format that is read: rocprofv3 --output-format rocpd (or json).",
    "rocprofv3 (CSV)": "Record again with a format that is read: rocprofv3 --output-format rocpd (or json).",
    "a table (CSV)": "Tables of other tools are not read: load the recording that it was made from.",
    "collapsed stacks": "They have sums, without times: load the recording that they were made from.",
    "speedscope": "It was made to be shown: load the recording that it was made from.",
    "torch's memory timeline": 'Write the numbers instead: export_memory_timeline("FILE.json") is read.',
    "Visual Profiler": "Load the SQLite file of its recording: nvprof -o FILE writes one.",
    "Tracy": "Tracy's format is its own: its tool tracy-csvexport writes tables, which are not read either.",
    "perf.data": "Convert it to Chrome JSON, as with perf script report or https://profiler.firefox.com.",
}
_SPEEDSCOPE: Final = re.compile(rb'speedscope\.app/file-format-schema|"exporter"\s*:\s*"speedscope')


def is_tar(head: bytes) -> bool:
    """Return whether a tar archive begins with `head`."""
    at, magic = _TAR
    return head[at : at + len(magic)] == magic


def kind_of_file(head: bytes) -> str | None:
    """The kind of file that begins with `head`, in words; None for JSON that may be a trace, and for unknown data."""
    if is_tar(head):
        return "a tar archive"
    if head.startswith(_UTF_16):
        return "UTF-16 text"
    if head.startswith(b"\n") and kind_of_message(head) == "pprof":
        return "a profile of pprof"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if text[:1] in (b"{", b"["):
        if text.startswith(b"{") and _SPEEDSCOPE.search(text):
            return "a profile for speedscope"
        first, line_break, rest = text.partition(b"\n")
        if line_break and first.startswith(b"{") and rest.startswith(b"{") and b'"traceEvents"' not in first:
            try:
                msgspec.json.decode(first)
            except SYNTAX_ERRORS:
                return None
            return "JSON lines"
        return None
    found = next((what for magic, what in _KINDS if head.startswith(magic)), None)
    return found or next((what for pattern, what in _TEXTS if pattern.match(head)), None)


def hint_for(what: str) -> str | None:
    """Return what the user can do with a file of the kind `what`; None if there is no hint."""
    return next((hint for word, hint in _HINTS.items() if word in what), None)
