"""`load`: read any supported trace file. The format is detected from the content, never from the name."""

from __future__ import annotations

import gzip
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from cudalens.errors import TraceFormatError
from cudalens.frames import Trace
from cudalens.frames.build import no_garbage_collection
from cudalens.frames.limits import ROWS_RATIO, VALUE_BYTES, Limit
from cudalens.traces.archives import is_saved_trace, load_folder, load_tar, load_unpacked, load_zip
from cudalens.traces.chrome.reader import read_chrome
from cudalens.traces.detect import Kind, kind_of_binary, kind_of_text, unpacked_head
from cudalens.traces.foreign import hint_for, kind_of_file
from cudalens.traces.memory_timeline import read_memory_timeline
from cudalens.traces.protobuf.perfetto import read_perfetto
from cudalens.traces.protobuf.xplane import read_xplane
from cudalens.traces.rocm_json import read_tool_json
from cudalens.traces.snapshots import read_snapshot
from cudalens.traces.source import GZIP_MAGIC, Source, read_all
from cudalens.traces.sqlite_reader import read_sqlite

_HEAD: Final = 4096
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
        head = file.read(_HEAD)
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
        limit.check(_num_bytes_of_values(kind, text), packed, what="the values of the file", ratio=ROWS_RATIO)
        if kind is Kind.PERFETTO:
            return read_perfetto(path, text, limit)
        return _IN_MEMORY[kind](path, text)


def _num_bytes_of_values(kind: Kind, text: bytes) -> int:
    """Return an estimate of the memory that decoding a whole text takes."""
    if kind is Kind.TOOL_JSON:  # an empty object takes 3 bytes of text and 500 in memory
        return len(text) + text.count(b"{") * _OBJECT_BYTES
    return len(text) * VALUE_BYTES


def _refuse_foreign(path: Path, head: bytes, inner: bytes) -> None:
    if inner is not head and inner.startswith(b"\n") and (what := kind_of_file(inner)):
        found = f"{what} in the compressed data"
        raise TraceFormatError(path, position="byte 0", found=found, expected=_READABLE, hint=hint_for(what))
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    what = kind_of_file(head)
    if head.startswith(GZIP_MAGIC) or kind_of_binary(head) or (what is None and text[:1] in (b"{", b"[")):
        return
    if not text and len(head) < _HEAD:
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


def _bar(total: int, path: Path, **options: Any) -> Any:
    from tqdm.auto import tqdm  # slow to import

    return tqdm(total=total, desc=f"reading {path.name}", unit_scale=True, leave=False, **options)


def _shows_progress() -> bool:
    """Return whether there is a notebook or a terminal for a progress bar."""
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
