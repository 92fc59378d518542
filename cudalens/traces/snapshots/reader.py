"""Read torch's memory snapshots: the pickles that ``torch.cuda.memory._dump_snapshot`` writes."""

from __future__ import annotations

import io
import os
import pickle
import time
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from cudalens.errors import TraceFormatError, UnsafeSnapshotError
from cudalens.frames import RunInfo, Trace
from cudalens.frames.snapshots.build import snapshot_frames
from cudalens.frames.snapshots.values import text
from cudalens.traces.snapshots.scan import check_size, scan

PICKLE_MAGIC: Final = b"\x80"
#: Smaller than the size of a block or an action in any pickle that torch writes.
_BYTES_PER_ROW: Final = 16
_NUM_FREE_ROWS: Final = 1024


def read_snapshot(path: Path, file: BinaryIO) -> Trace:
    """Return the Trace of the snapshot in `file`.

    The pickle is scanned first (`cudalens.traces.snapshots.scan`). A pickle that passes cannot name a class or call
    anything, and contains only dicts, lists, pairs of numbers, text and numbers.

    Raises:
        UnsafeSnapshotError: It holds other things, or would exhaust memory; nothing of it was run.
        TraceFormatError: It is cut off, or is not a snapshot.
    """
    began = time.perf_counter()
    check_size(path, os.fstat(file.fileno()).st_size)
    data = file.read()
    end = scan(path, data)
    num_bytes = len(data)
    snapshot = _unpickled(path, data)
    del data
    found = snapshot_frames(snapshot, name=str(path), max_rows=num_bytes // _BYTES_PER_ROW + _NUM_FREE_ROWS)
    memory = found.frames["memory"]
    has_times = len(memory) and found.options["snapshot_has_times"]
    info = RunInfo(
        name=text(path.name),
        source="file:torch_snapshot",
        started_ns=int(memory["ts"].iloc[0]) if has_times else None,
        ended_ns=int(memory["ts"].iloc[-1]) if has_times else None,
        options=found.options | {"file_bytes": num_bytes, "file_bytes_after_end": num_bytes - end},
        extra=found.extra,
        problems=found.problems,
        build_s=time.perf_counter() - began,
    )
    return Trace(info, **found.frames)


class _Unpickler(pickle.Unpickler):
    """Unpickles data that has passed the scan. As a second check it refuses every global."""

    def __init__(self, path: Path, data: bytes) -> None:
        super().__init__(io.BufferedReader(io.BytesIO(data)))
        self._path = path

    def find_class(self, module: str, name: str) -> NoReturn:
        self._refuse(f"the global {ascii(module)[1:81]}.{ascii(name)[1:81]}")

    def persistent_load(self, pid: Any) -> NoReturn:
        self._refuse("a persistent id")

    def _refuse(self, found: str) -> NoReturn:
        raise UnsafeSnapshotError(self._path, found=found, expected="dicts, lists, text and numbers alone")


def _unpickled(path: Path, data: bytes) -> Any:
    try:
        return _Unpickler(path, data).load()
    except UnsafeSnapshotError:
        raise
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise TraceFormatError(
            path, found=f"a broken pickle ({_words(error)})", expected="a memory snapshot"
        ) from error


def _words(error: Exception) -> str:
    return text(str(error))[:200] or type(error).__name__
