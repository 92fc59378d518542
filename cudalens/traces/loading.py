"""`load`: read any supported trace file, also in folders and archives. The format is detected from the content."""

from __future__ import annotations

import gzip
import os
import re
import stat
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Final, Protocol

from cudalens.errors import TraceFormatError, UnsafeSnapshotError
from cudalens.frames import Trace
from cudalens.frames.build import no_garbage_collection
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import ROWS_RATIO, VALUE_BYTES, Limit, Problems
from cudalens.traces import nsys as nsys
from cudalens.traces import nvprof as nvprof
from cudalens.traces.chrome.reader import read_chrome
from cudalens.traces.protobuf.perfetto import read_perfetto
from cudalens.traces.protobuf.wire import kind_of_message
from cudalens.traces.protobuf.xplane import read_xplane
from cudalens.traces.rocm_databases import is_rocpd, is_rpd, read_rocpd, read_rpd
from cudalens.traces.rocm_json import KEY as TOOL_KEY
from cudalens.traces.rocm_json import read_tool_json
from cudalens.traces.snapshots import HEAD as TIMELINE_HEAD
from cudalens.traces.snapshots import PICKLE_MAGIC, read_memory_timeline, read_snapshot
from cudalens.traces.source import GZIP_MAGIC, Source, hint_for, is_tar, kind_of_file, read_all
from cudalens.traces.sqlite.file import SQLITE_MAGIC, Database, open_sqlite

# Detect the format of a file from its first bytes.

_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_TOOL: Final = re.compile(rb'\{\s{0,64}"' + TOOL_KEY.encode() + b'"')
_EVENTS: Final = re.compile(rb'"traceEvents"|\[\s*\{[^\0]{0,4000}"ph"\s*:', re.DOTALL)
_MAX_HEAD_BYTES: Final = 4096


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
        return zlib.decompressobj(31).decompress(head, _MAX_HEAD_BYTES)
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


_HEAD_BYTES: Final = 4096
_PROGRESS_FROM_BYTES: Final = 50 << 20
_MAX_DEPTH: Final = 3
#: Memory of an object of a JSON text, about.
_OBJECT_BYTES: Final = 250
_READABLE: Final = (
    "a saved Trace (.cudalens), Chrome trace JSON (torch.profiler's export), an SQLite file of nsys (nsys export "
    "--type sqlite), nvprof or rocprofv3, XPlane or Perfetto protocol buffers, or a memory snapshot "
    "(torch.cuda.memory._dump_snapshot)"
)
#: Readers of formats that are decoded from the whole text; it may be compressed with gzip.
_IN_MEMORY: Final[dict[Kind, Callable[..., Trace]]] = {
    Kind.XPLANE: read_xplane,
    Kind.PERFETTO: read_perfetto,
    Kind.TOOL_JSON: read_tool_json,
    Kind.TIMELINE: read_memory_timeline,
}
#: Suffixes of nsys's own reports, whose format is not public.
_REPORTS: Final = (".nsys-rep", ".qdrep", ".qdstrm")


def load(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Trace:
    """Read a trace from `path`.

    Reads files that `Trace.save` wrote; Chrome trace JSON as torch.profiler and Kineto write it for CUDA, ROCm and
    other devices; SQLite files of nsys (``nsys export --type sqlite``), nvprof, rocprofv3 and RPD; the JSON of
    rocprofv3; XPlane (JAX, TensorFlow) and Perfetto protocol buffers; memory snapshots as
    ``torch.cuda.memory._dump_snapshot`` writes them, and the JSON of ``export_memory_timeline``. Each may be compressed
    with gzip, or be the only trace in a folder, a zip or a tar archive. No code in a snapshot's pickle is ever run. The
    format is detected from the content. A progress bar is shown for large traces.

    Args:
        path: The file or folder.
        max_bytes: The most bytes that the contents may have, uncompressed. For XPlane, Perfetto, memory timelines and
            rocprofv3's JSON: the most bytes of memory, estimated as about ten times the contents. Default: the free
            memory of the machine, and for compressed files also a hundred times their size.

    Returns:
        The Trace. Damage that does not prevent reading is counted in ``trace.info.problems``.

    Raises:
        TraceFormatError: The file cannot be read, is not a trace, or holds nothing usable. The message says where, and
            what was found.
        UnsafeSnapshotError: It is a pickle with contents that a memory snapshot does not have; nothing of it was run.
    """
    path = Path(path)
    try:
        return _load(path, max_bytes, 0)
    except OSError as error:
        found = error.strerror or str(error)
        raise TraceFormatError(path, found=found, expected=f"a readable file: {_READABLE}") from error
    except MemoryError as error:
        raise TraceFormatError(path, found="more than the free memory holds", expected=_READABLE) from error


def _load(path: Path, max_bytes: int | None, depth: int) -> Trace:
    """Read `path`, which is in `depth` archives."""
    if depth > _MAX_DEPTH:
        raise TraceFormatError(path, found="archives in archives", expected="a trace in one archive")
    load_one = partial(_load, max_bytes=max_bytes, depth=depth + 1)
    if path.is_dir():
        return load_folder(path, load_one)
    if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would wait for its writer
        hint = "Copy what it gives to a file, and load that."
        raise TraceFormatError(path, found="a pipe or device", expected=f"a regular file: {_READABLE}", hint=hint)
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        file.seek(0)
        limit = Limit(path, max_bytes)
        inner = unpacked_head(head) if head.startswith(GZIP_MAGIC) else head
        kind = kind_of_binary(inner) or kind_of_text(inner)
        if kind is not None and inner is not head and kind not in _IN_MEMORY:
            with gzip.open(file) as unpacked:
                return load_unpacked(path, unpacked, limit, load_one)
        if kind is Kind.ZIP:
            return Trace.load(path, max_bytes=max_bytes) if is_saved_trace(path) else load_zip(path, limit, load_one)
        if kind is Kind.TAR:
            return load_tar(path, limit, load_one)
        _refuse_foreign(path, head, inner)
        with no_garbage_collection():
            return _read(path, file, kind, limit)


def _read(path: Path, file: BinaryIO, kind: Kind | None, limit: Limit) -> Trace:
    if kind is Kind.PICKLE:
        return read_snapshot(path, file)
    if kind is Kind.SQLITE:

        @contextmanager
        def watch(num_rows: int) -> Iterator[Callable[[int], object] | None]:
            """Show a progress bar, in rows, while a large SQLite file is read."""
            if path.stat().st_size < _PROGRESS_FROM_BYTES or not _shows_progress():
                yield None
                return
            with _bar(num_rows, path, unit=" rows") as bar:
                yield bar.update

        return read_sqlite(path, watch)
    with _progress(path, file) as on_progress:
        if kind is None:
            return read_chrome(path, file, limit, on_progress)
        source = Source(file, limit, on_progress)
        text = read_all(source)
        packed = os.fstat(file.fileno()).st_size if source.is_gzip else None
        num_bytes = len(text) * VALUE_BYTES  # an estimate of the memory that decoding a whole text takes
        if kind is Kind.TOOL_JSON:  # an empty object takes 3 bytes of text and 500 in memory
            num_bytes = len(text) + text.count(b"{") * _OBJECT_BYTES
        limit.check(num_bytes, packed, what="the values of the file", ratio=ROWS_RATIO)
        if kind is Kind.PERFETTO:
            return read_perfetto(path, text, limit)
        return _IN_MEMORY[kind](path, text)


def _refuse_foreign(path: Path, head: bytes, inner: bytes) -> None:
    if inner is not head and inner.startswith(b"\n") and (what := kind_of_file(inner)):
        found = f"{what} in the compressed data"
        raise TraceFormatError(path, position="byte 0", found=found, expected=_READABLE, hint=hint_for(what))
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    what = kind_of_file(head)
    if head.startswith(GZIP_MAGIC) or kind_of_binary(head) or (what is None and text[:1] in (b"{", b"[")):
        return
    if not text and len(head) < _HEAD_BYTES:
        raise TraceFormatError(path, position="byte 0", found="an empty file", expected=_READABLE)
    if not text:
        return  # only white space so far: `read_chrome` reports what follows
    what = what or f"data that begin with {head[:16]!r}"
    if is_report := path.name.lower().endswith(_REPORTS):
        what = f"a report of nsys that was not exported ({path.suffix})"
    hint = f"Export it: nsys export --type sqlite {path.name}" if is_report else None
    raise TraceFormatError(path, position="byte 0", found=what, expected=_READABLE, hint=hint or hint_for(what))


@contextmanager
def _progress(path: Path, file: BinaryIO) -> Iterator[Callable[[int], object] | None]:
    size = os.fstat(file.fileno()).st_size
    if size < _PROGRESS_FROM_BYTES or not _shows_progress():
        yield None
        return
    with _bar(size, path, unit="B", delay=0.5) as bar:
        yield bar.update


def _bar(total: int, path: Path, unit: str, delay: float = 0.0) -> Any:
    from tqdm.auto import tqdm  # slow to import

    return tqdm(total=total, desc=f"reading {path.name}", unit=unit, unit_scale=True, leave=False, delay=delay)


def _shows_progress() -> bool:
    """Return whether there is a notebook or a terminal for a progress bar."""
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


# The one trace in a folder, a zip or a tar archive.

LoadOne = Callable[[Path], Trace]

_MEMBER_HEAD_BYTES: Final = 1 << 16
_PIECE: Final = 1 << 20
_MAX_MEMBERS: Final = 10_000
_NAMED: Final = 6
_UNSAFE: Final = re.compile(r"[^\w.\-+@ ]")
_DAMAGE: Final = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError)
_ONE_TRACE: Final = "one trace among its files"
_RANKS: Final = "cudalens.load_ranks(FOLDER) reads the ranks of a job from a folder; load one of them by its name."


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class _Member:
    """A file in an archive or folder.

    Attributes:
        name: Its name there.
        num_bytes: Its size.
        packed: Bytes that it takes in the archive; None if it is not compressed there.
        open: Opens it.
    """

    name: str
    num_bytes: int
    packed: int | None
    open: Callable[[], IO[bytes]]


def is_saved_trace(path: Path) -> bool:
    """Return whether a zip archive may be a saved Trace; also if it is too damaged to decide."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (*_DAMAGE, ValueError):
        return True
    return not names or any(name.endswith(".parquet") for name in names)


def load_zip(path: Path, limit: Limit, load_one: LoadOne) -> Trace:
    """Return the only trace in a zip archive."""
    with _as_format_error(path, "zip"), zipfile.ZipFile(path) as archive:
        infos = [info for info in archive.infolist()[: _MAX_MEMBERS + 1] if not info.is_dir()]
        members = [
            _Member(info.filename, info.file_size, info.compress_size, partial(archive.open, info)) for info in infos
        ]
        return _load_only(path, "a zip archive", members, limit, load_one)


def load_tar(path: Path, limit: Limit, load_one: LoadOne) -> Trace:
    """Return the only trace in a tar archive that is not compressed."""
    with _as_format_error(path, "tar"), tarfile.open(path, "r:") as archive:
        members = []
        for info in archive:
            if info.isreg():
                members.append(_of_tar(archive, info))
            if len(members) > _MAX_MEMBERS:
                break
        return _load_only(path, "a tar archive", members, limit, load_one)


def _of_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    def opened() -> IO[bytes]:
        file = archive.extractfile(info)
        if file is None:
            raise tarfile.ReadError("a member without contents")
        return file

    return _Member(info.name, info.size, None, opened)


def load_folder(path: Path, load_one: LoadOne) -> Trace:
    """Return the only trace in a folder and the folders in it."""
    members = []
    for folder, _, names in os.walk(path):
        for name in sorted(names):
            file = Path(folder, name)
            if file.is_file():
                members.append(_of_file(path, file))
        if len(members) > _MAX_MEMBERS:
            break
    return load_one(path / _only(path, "a folder", members).name)


def _of_file(folder: Path, file: Path) -> _Member:
    return _Member(file.relative_to(folder).as_posix(), file.stat().st_size, None, lambda: open(file, "rb"))


def _load_only(path: Path, what: str, members: list[_Member], limit: Limit, load_one: LoadOne) -> Trace:
    """Return the trace of the only member that is one by its contents.

    It is copied to a temporary file, in bounded pieces, and read as any other file.
    """
    member = _only(path, what, members)
    with member.open() as file:
        return load_copy(path, member.name, file, limit, load_one, num_bytes=member.num_bytes, packed=member.packed)


def _only(path: Path, what: str, members: list[_Member]) -> _Member:
    """Return the member that is a trace.

    Raises:
        TraceFormatError: There is none, or there are several.
    """
    if len(members) > _MAX_MEMBERS:
        raise TraceFormatError(path, found=f"{what} of more than {_MAX_MEMBERS:,} files", expected=_ONE_TRACE)
    kinds = {member.name: kind for member in members if (kind := _kind(member)) is not None}
    found = [member for member in members if member.name in kinds]
    if len({PurePosixPath(member.name).parent for member in found}) == 1:
        # The profilers of JAX and TensorFlow write the same run in several formats into one folder.
        found = [member for member in found if kinds[member.name] is Kind.XPLANE] or found
    if len(found) == 1:
        return found[0]
    names = ", ".join(repr(member.name[:80]) for member in (found or members)[:_NAMED])
    more = ", …" if len(found or members) > _NAMED else ""
    if found:
        text, hint = f"{what} with {len(found)} traces ({names}{more})", _RANKS
    else:
        text = f"{what} without a trace ({names}{more})" if members else f"{what} without files"
        hint = "If one of its files is a trace, load that."
    raise TraceFormatError(path, found=text, expected=_ONE_TRACE, hint=hint)


def _kind(member: _Member) -> Kind | None:
    try:
        with member.open() as file:
            return kind_of_head(file.read(_MEMBER_HEAD_BYTES))
    except (*_DAMAGE, OSError):
        return None


def load_copy(
    path: Path,
    name: str,
    file: _Readable,
    limit: Limit,
    load_one: LoadOne,
    *,
    num_bytes: int = 0,
    packed: int | None = None,
) -> Trace:
    """Return the Trace in `file`, the member `name` of `path`, read from a temporary copy.

    Args:
        path: The archive, for messages.
        name: The member.
        file: Its contents.
        limit: Bounds its size.
        load_one: Reads a file.
        num_bytes: The size that the archive gives, 0 if it gives none.
        packed: Bytes of the archive that it takes; None if it is not compressed.
    """
    where = f"member {name[:200]!r}"
    limit.check(num_bytes, packed, what="a member of the archive", position=where)
    with tempfile.TemporaryDirectory(prefix="cudalens-") as folder:
        copy = Path(folder, _UNSAFE.sub("_", Path(name).name)[-120:] or "trace")
        with open(copy, "wb") as target:
            size = 0
            while piece := file.read(_PIECE):
                size += len(piece)
                limit.check(size, packed, what="a member of the archive", position=where)
                target.write(piece)
        with _as_member(path, where):
            return load_one(copy)


def load_unpacked(path: Path, file: gzip.GzipFile, limit: Limit, load_one: LoadOne) -> Trace:
    """Return the Trace in `file`, what the gzip file `path` holds."""
    with _as_format_error(path, "gzip"):
        try:
            return load_copy(path, path.name.removesuffix(".gz"), file, limit, load_one, packed=path.stat().st_size)
        except gzip.BadGzipFile as error:
            raise zlib.error(str(error)) from error


@contextmanager
def _as_member(path: Path, where: str) -> Iterator[None]:
    """Errors about the temporary copy name the archive and its member."""
    try:
        yield
    except UnsafeSnapshotError as error:
        raise UnsafeSnapshotError(
            path, found=f"{error.found} in {where}", expected=error.expected, opcode=error.opcode, byte=error.byte
        ) from None
    except TraceFormatError as error:
        position = f"{where}, {error.position}" if error.position else where
        raise TraceFormatError(
            path, position=position, found=error.found, expected=error.expected, hint=error.hint
        ) from None


@contextmanager
def _as_format_error(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        found = f"a damaged {what} archive ({str(error)[:200]})"
        hint = "It may be cut short or encrypted: unpack it, and load the trace that is in it."
        raise TraceFormatError(path, found=found, expected="a whole archive", hint=hint) from error


# Read SQLite files; the tables decide which tool wrote one.

_CUPTI: Final = "CUPTI_ACTIVITY_KIND_"
_NSYS: Final = ("StringIds", "NVTX_EVENTS", "META_DATA_EXPORT", "TARGET_INFO_SYSTEM_ENV", "ANALYSIS_DETAILS")
_SQLITE_TABLES: Final = (
    "the tables of an nsys export (nsys export --type sqlite), of nvprof (nvprof -o FILE), of rocprofv3 "
    "(--output-format rocpd) or of RPD"
)

#: Tables of ``rocprof`` before version 3: one for each kind of trace, of texts that it formats itself.
_ROCPROF_1: Final = frozenset({"HSA", "HIP", "COPY", "OPS", "KFD", "rocTX"})


def read_sqlite(path: Path, watch: Callable[[int], Any]) -> Trace:
    """Return the Trace in an SQLite file of nsys, nvprof, rocprofv3 or RPD.

    Args:
        path: The file.
        watch: Called with the number of rows in the file. Returns a context manager whose value is called with the
            number of rows of each chunk that was read.

    Raises:
        TraceFormatError: The file has other tables, cannot be read, or holds nothing usable.
    """
    problems = Problems()
    with open_sqlite(path, problems) as database:
        reader, tables = _reader(database)
        with watch(database.num_rows(tables)) as on_rows:
            database.on_rows(on_rows)
            trace = reader(database, problems)
    _refuse_useless(path, trace, problems)
    return trace


def _reader(database: Database) -> tuple[Callable[[Database, Problems], Trace], tuple[str, ...]]:
    tables = database.tables
    activities = [columns for name, columns in tables.items() if name.startswith(_CUPTI)]
    if "StringTable" in tables or any("_id_" in columns for columns in activities):
        return nvprof.read_nvprof, nvprof.TABLES
    if activities or any(name in tables for name in _NSYS):
        return nsys.read_nsys, nsys.TABLES
    if is_rpd(tables):
        return read_rpd, tuple(tables)
    if is_rocpd(tables):
        return read_rocpd, tuple(tables)
    if _ROCPROF_1 & set(tables) and all(name in _ROCPROF_1 or name.isupper() for name in tables):
        hint = "Load the results.json beside it, or record again with rocprofv3 --output-format rocpd."
        raise TraceFormatError(
            database.path, found="the database of rocprof (version 1)", expected=_SQLITE_TABLES, hint=hint
        )
    raise TraceFormatError(database.path, found=_what(tables), expected=_SQLITE_TABLES)


def _what(tables: dict[str, frozenset[str]]) -> str:
    if not tables:
        return "an SQLite file without tables"
    names = ", ".join(text_of(name)[:40] for name in sorted(tables)[:8])
    return f"an SQLite file with other tables ({names}{', …' if len(tables) > 8 else ''})"


def _refuse_useless(path: Path, trace: Trace, problems: Problems) -> None:
    """Raise if a damaged file holds nothing usable; an intact export without events is an empty Trace."""
    if len(trace) or len(trace.memory) or len(trace.counters) or not len(problems):
        return
    raise TraceFormatError(path, found=f"no usable event; first damage: {problems.first()}", expected=_SQLITE_TABLES)
