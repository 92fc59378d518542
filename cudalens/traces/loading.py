"""`load`: read any supported trace file. The format is detected from the content, never from the name."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from cudalens.errors import TraceFormatError
from cudalens.frames import Trace
from cudalens.frames.garbage import no_garbage_collection
from cudalens.frames.limits import Limit
from cudalens.traces.chrome.reader import read_chrome
from cudalens.traces.foreign import hint_for, kind_of_file, refuse_other_archives
from cudalens.traces.snapshots.reader import PICKLE_MAGIC, read_snapshot
from cudalens.traces.source import GZIP_MAGIC
from cudalens.traces.sqlite.file import SQLITE_MAGIC
from cudalens.traces.sqlite_reader import read_sqlite

_HEAD: Final = 4096
_PROGRESS_FROM_BYTES: Final = 50 << 20
_READABLE: Final = (
    "a saved Trace (.cudalens), Chrome trace JSON (torch.profiler's export), plain or gzip, an SQLite file of nsys "
    "(nsys export --type sqlite) or nvprof, or a memory snapshot (torch.cuda.memory._dump_snapshot)"
)
#: Suffixes of nsys's own reports, whose format is not public.
_REPORTS: Final = (".nsys-rep", ".qdrep", ".qdstrm")


def load(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Trace:
    """Read a trace from `path`.

    Reads files that `Trace.save` wrote, Chrome trace JSON (plain or gzip) as torch.profiler and Kineto write it for
    CUDA, ROCm and other devices, SQLite files of nsys (``nsys export --type sqlite``) and of nvprof, and memory
    snapshots as ``torch.cuda.memory._dump_snapshot`` writes them. No code in a snapshot's pickle is ever run. The
    format is detected from the content. A progress bar is shown for large traces.

    Args:
        path: The file.
        max_bytes: The most bytes that the contents of a Chrome trace or a saved Trace may have. Default: the free
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
        if path.is_dir():
            hint = "cudalens.load_ranks(folder) reads the ranks of a job from a folder."
            raise TraceFormatError(path, found="a folder", expected=_READABLE, hint=hint)
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would wait for its writer
            hint = "Copy what it gives to a file, and load that."
            raise TraceFormatError(path, found="a pipe or device", expected=f"a regular file: {_READABLE}", hint=hint)
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            file.seek(0)
            if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                refuse_other_archives(path, _READABLE)
                return Trace.load(path, max_bytes=max_bytes)
            if head.startswith(PICKLE_MAGIC):
                with no_garbage_collection():
                    return read_snapshot(path, file)
            if head.startswith(SQLITE_MAGIC):
                with no_garbage_collection():
                    return read_sqlite(path, _row_progress(path))
            _refuse_foreign(path, head)
            with _progress(path, file) as on_progress, no_garbage_collection():
                return read_chrome(path, file, Limit(path, max_bytes), on_progress)
    except OSError as error:
        found = error.strerror or str(error)
        raise TraceFormatError(path, found=found, expected=f"a readable file: {_READABLE}") from error
    except MemoryError as error:
        raise TraceFormatError(path, found="more than the free memory holds", expected=_READABLE) from error


def _refuse_foreign(path: Path, head: bytes) -> None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    what = kind_of_file(head)
    if head.startswith(GZIP_MAGIC) or (what is None and text[:1] in (b"{", b"[")):
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
    if size < _PROGRESS_FROM_BYTES:
        yield None
        return
    with _bar(size, path, unit="B", delay=0.5) as bar:
        yield bar.update


def _bar(total: int, path: Path, **options: Any) -> Any:
    """A progress bar in a notebook or on a terminal; elsewhere it shows nothing."""
    from tqdm.auto import tqdm  # slow to import

    shown = False if "ipykernel" in sys.modules else None  # None: only where stderr is a terminal
    return tqdm(total=total, desc=f"reading {path.name}", unit_scale=True, leave=False, disable=shown, **options)


def _row_progress(path: Path) -> Callable[[int], Any]:
    """A context manager that shows a progress bar, in rows, while a large SQLite file is read."""

    @contextmanager
    def watch(num_rows: int) -> Iterator[Callable[[int], object] | None]:
        if path.stat().st_size < _PROGRESS_FROM_BYTES:
            yield None
            return
        with _bar(num_rows, path, unit=" rows") as bar:
            yield bar.update

    return watch
