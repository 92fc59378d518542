"""Read memory files of torch: snapshots (``torch.cuda.memory._dump_snapshot``) and memory timelines."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np

from cudalens.errors import TraceFormatError
from cudalens.frames import RunInfo, Trace, build_memory, categorical, empty_frame, nullable
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import SYNTAX_ERRORS, decoder, text_of
from cudalens.frames.snapshots.build import snapshot_frames
from cudalens.frames.snapshots.history import text
from cudalens.traces.chrome.values import MAX_NS
from cudalens.traces.safe_pickle import check_size, load_snapshot
from cudalens.traces.source import name_of_file

PICKLE_MAGIC: Final = b"\x80"
#: Smaller than the size of a block or an action in any pickle that torch writes.
_BYTES_PER_ROW: Final = 16
_NUM_FREE_ROWS: Final = 1024


def read_snapshot(path: Path, file: BinaryIO) -> Trace:
    """Return the Trace of the snapshot in `file`.

    Raises:
        UnsafeSnapshotError: It holds other things, or would exhaust memory; nothing of it was run.
        TraceFormatError: It is cut off, or is not a snapshot.
    """
    began = time.perf_counter()
    check_size(path, os.fstat(file.fileno()).st_size)
    data = file.read()
    num_bytes = len(data)
    snapshot, end = load_snapshot(path, data)
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


# The JSON of ``torch.profiler``'s ``export_memory_timeline``.

#: The beginning of both forms: two brackets and a number, or two empty lists.
HEAD: Final = re.compile(rb"\[\s{0,64}\[\s{0,64}(?:-?\d|\]\s{0,64},\s{0,64}\[\s{0,64}\]\s{0,64}\])")
#: torch's categories in their order, named as in the blocks frame.
_CATEGORIES: Final = (
    "parameter",
    "optimizer state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd detail",
    "unknown",
)
_EXPECTED: Final = "[times, sizes] or a list of [time, action, bytes, category], as export_memory_timeline writes them"


def read_memory_timeline(path: Path, text: bytes) -> Trace:
    """Return the Trace in `text`: a row of ``memory`` for each change of a category, with its name in ``extra``.

    ``FILE.json`` is ``[times, sizes]``: times in microseconds, and at each the bytes of every category.
    ``FILE.raw.json`` is a list of (time in ns, action, bytes, category).

    Raises:
        TraceFormatError: It has another form.
    """
    began = time.perf_counter()
    ts, change, category = _changes(path, text)
    moved = change != 0
    ts, change, category = ts[moved], change[moved], category[moved]
    texts = [msgspec.json.encode({"category": name}).decode() for name in _CATEGORIES]
    columns: dict[str, Any] = {
        "ts": ts,
        "action": categorical((change < 0).astype(np.int32), ["alloc", "free_completed"]),
        "num_bytes": np.abs(change),
        "allocated_bytes": nullable(np.cumsum(change), np.zeros(len(ts), bool)),
        "extra": categorical(category.astype(np.int32), texts),
    }
    info = RunInfo(
        name=name_of_file(path),
        source="file:memory timeline",
        started_ns=int(ts[0]) if len(ts) else None,
        ended_ns=int(ts[-1]) if len(ts) else None,
        build_s=time.perf_counter() - began,
    )
    return Trace(info, memory=build_memory(columns, empty_frame("events")))


def _changes(path: Path, text: bytes) -> tuple[Ints, Ints, Ints]:
    """Times (ns, ascending), changes in bytes, and categories by number."""
    try:
        try:
            rows = np.array(decoder(list[tuple[int, int, int, int]]).decode(text), np.int64).reshape(-1, 4)
            found = _of_rows(rows)
        except msgspec.ValidationError:
            times, sizes = decoder(tuple[list[int], list[list[int]]]).decode(text)
            found = _of_sizes(np.array(times, np.int64), np.array(sizes, np.int64))
    except (*SYNTAX_ERRORS, OverflowError, ValueError) as error:
        raise TraceFormatError(path, found=f"other lists ({text_of(error)[:120]})", expected=_EXPECTED) from error
    ts, change, _ = found
    if len(ts) and (np.abs(change).max() > MAX_NS // len(ts) or ts.min() < 0 or ts.max() >= MAX_NS):
        raise TraceFormatError(path, found="times or sizes beyond 62 bits", expected=_EXPECTED)
    return found


def _of_rows(rows: Ints) -> tuple[Ints, Ints, Ints]:
    ts, category = rows[:, 0], rows[:, 3]
    known = ts >= 0  # -1: allocated before the recording
    ts = np.where(known, ts, ts[known].min() if known.any() else 0)
    order = np.argsort(ts, kind="stable")
    return ts[order], rows[order, 2], _known(category)[order]


def _of_sizes(times: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """`sizes` has a column of zeros first, as torch draws them on top of each other."""
    if not len(times) and not len(sizes):  # nothing was allocated
        return times, sizes, sizes
    if sizes.ndim != 2 or len(sizes) != len(times) or not len(times):
        raise ValueError(f"{len(times)} times and sizes of shape {sizes.shape}")
    if times.max() >= MAX_NS // 1000 or times.min() < -1:
        raise OverflowError("times beyond 62 bits")
    change = np.diff(sizes[:, 1:], axis=0, prepend=0)
    row, category = np.nonzero(change)
    order = np.argsort(times[row], kind="stable")
    return (np.maximum(times, 0)[row] * 1000)[order], change[row, category][order], _known(category)[order]


def _known(category: Ints) -> Ints:
    return np.where((category >= 0) & (category < len(_CATEGORIES)), category, len(_CATEGORIES) - 1)
