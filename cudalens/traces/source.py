"""Read a plain or gzip file in pieces, name what is in it, and describe the run of its events.

Damaged gzip data is read up to the damage.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from cudalens.frames import RunInfo
from cudalens.frames.lenient_json import SYNTAX_ERRORS, text_of
from cudalens.frames.limits import Limit, Problems
from cudalens.traces.protobuf.wire import kind_of_message

if TYPE_CHECKING:
    import pandas as pd


def name_of_file(path: Path) -> str:
    """Return the name of the run in a file: its own name up to the first dot."""
    return text_of(path.name.split(".")[0].encode("utf-8", "replace").decode())


def run_info_of(name: str, source: str, events: pd.DataFrame, problems: Problems, num_entries: int) -> RunInfo:
    """Return the run info of a file from its events.

    Args:
        name: Name of the run.
        source: Where it comes from: ``file:nsys``.
        events: The frame of events; the run lasts from the first start to the last end of those that are not instants.
        problems: The damage that was found.
        num_entries: Number of entries of the file.
    """
    timed = events[~events["is_instant"]]
    return RunInfo(
        name=name,
        source=source,
        started_ns=int(timed["ts"].min()) if len(timed) else None,
        ended_ns=int((timed["ts"] + timed["dur"]).max()) if len(timed) else None,
        options={"file_events": num_entries},
        problems=problems.to_tuple(),
    )


def _imported() -> Any:
    """Return the optional package zlib-ng, which decompresses in less than half the time, else Python's zlib."""
    try:
        return import_module("zlib_ng.zlib_ng")
    except ImportError:
        return import_module("zlib")


zlib = _imported()
#: Whether zlib-ng is in use.
IS_ZLIB_NG: Final = zlib.__name__ != "zlib"
GZIP_MAGIC: Final = b"\x1f\x8b"
PIECE: Final = 1 << 19
_SLICE: Final = 1 << 16
_GZIP: Final = 31  # zlib's window bits for a gzip header and trailer


class Source:
    """Reads a file from its start in pieces, and decompresses gzip.

    Attributes:
        piece: Number of bytes of a piece, about; it may be changed.
        damage: What is wrong with the compressed data, in words; None while no damage was found.
        num_bytes: Bytes of (decompressed) data returned so far.
    """

    def __init__(self, file: BinaryIO, limit: Limit, on_progress: Callable[[int], object] | None = None) -> None:
        self._file, self._limit = file, limit
        self._num_packed = 0
        self._progress = on_progress or (lambda _: None)
        self.piece = PIECE
        self.damage: str | None = None
        self.num_bytes = 0
        self.is_gzip = file.read(2) == GZIP_MAGIC
        file.seek(0)
        self._inflater = _Inflater(self._compressed) if self.is_gzip else None

    def read(self) -> bytes:
        """Return the next piece; empty at the end of what can be read.

        Raises:
            TraceFormatError: The text so far is longer than the limit.
        """
        if self._inflater is None:
            piece = self._compressed(self.piece)
        else:
            piece = self._inflater.read(self.piece)
            self.damage = self._inflater.damage
        self.num_bytes += len(piece)
        packed = self._num_packed if self.is_gzip else None
        self._limit.check(self.num_bytes, packed, what="the text of the trace", position=f"byte {self._num_packed}")
        return piece

    def check_size(self) -> None:
        """Refuse a plain file that is longer than the limit."""
        if not self.is_gzip:
            self._limit.check(os.fstat(self._file.fileno()).st_size, what="the file")

    def _compressed(self, size: int) -> bytes:
        data = self._file.read(size)
        self._num_packed += len(data)
        self._progress(len(data))
        return data


def read_all(source: Source) -> bytes:
    """Return all that can be read of `source`; for damage, `Source.damage` says what.

    Raises:
        TraceFormatError: It is longer than the limit; for a plain file, nothing is read then.
    """
    source.check_size()
    pieces = []
    while piece := source.read():
        pieces.append(piece)
    return b"".join(pieces)


class _Inflater:
    """Decompresses gzip members one after the other. On damage it returns the data before it, then nothing."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._zlib = zlib.decompressobj(_GZIP)
        self._pending = b""
        self._num_members = 0
        self._done = False
        self.damage: str | None = None

    def read(self, piece: int) -> bytes:
        """About `piece` bytes; empty at the end of what can be read."""
        out: list[bytes] = []
        size = 0
        while size < piece and not self._done:
            out.append(self._step())
            size += len(out[-1])
        return b"".join(out)

    def _step(self) -> bytes:
        data = self._pending or self._read(_SLICE)
        if self._zlib.eof:
            return self._next_member(data)
        if not data:
            self._stop("the gzip data stop before their end")
            return b""
        safe = self._zlib.copy()
        try:
            inflated: bytes = self._zlib.decompress(data, PIECE)
        except zlib.error as error:
            self._stop(f"the gzip data are damaged ({error})")
            # The output of `inflater` for `data` up to the damage.
            out: list[bytes] = []
            try:
                for i in range(len(data)):  # byte by byte: a call that fails loses its output
                    out.append(safe.decompress(data[i : i + 1]))  # noqa: PERF401 - keep what came before the error
            except zlib.error:
                pass
            return b"".join(out)
        self._pending = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
        self._num_members += self._zlib.eof
        return inflated

    def _next_member(self, data: bytes) -> bytes:
        data = data.lstrip(b"\0")  # tapes and some writers pad with zeros
        if data.startswith(GZIP_MAGIC[: len(data)]) and data:
            self._zlib, self._pending = zlib.decompressobj(_GZIP), data
        elif data:
            self._stop("data that is not gzip follows the gzip data")
        else:
            self._pending = b""
            self._done = not (data := self._read(_SLICE))
            self._pending = data
        return b""

    def _stop(self, damage: str) -> None:
        self.damage, self._done = damage, True


# Identify unsupported files by their first bytes, and suggest what to do with them.

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
