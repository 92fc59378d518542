"""Read torch's memory snapshots: the pickles that ``torch.cuda.memory._dump_snapshot`` writes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import BinaryIO, Final

from cudalens.frames import RunInfo, Trace
from cudalens.frames.snapshots.build import snapshot_frames
from cudalens.frames.snapshots.values import text
from cudalens.traces.safe_pickle import check_size, load_snapshot

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
