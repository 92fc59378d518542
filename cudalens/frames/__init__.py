"""The Trace and its frames: the column catalog, the call tree, the stack table, saving and loading. No torch."""

from cudalens.frames.build import (
    GPU_ACTIVITIES,
    GPU_CATEGORIES,
    OVERHEAD_KINDS,
    RUNTIME_CATEGORIES,
    WORK_ELSEWHERE,
    RawRows,
    build_events,
    build_memory,
)
from cudalens.frames.catalog_frames import (
    BLOCK_CATEGORIES,
    BLOCK_STATES,
    FRAMES,
    Column,
    check_frame,
    columns_of,
    empty_frame,
)
from cudalens.frames.column_arrays import categorical, is_category, nullable
from cudalens.frames.files import atomic_write
from cudalens.frames.info import DeviceInfo, Judged, Overhead, Problem, RunInfo, Trust, TrustFinding
from cudalens.frames.ranks import Ranks
from cudalens.frames.stacks import StackTable
from cudalens.frames.sync_kinds import SyncKind
from cudalens.frames.trace import Trace

__all__ = [
    "BLOCK_CATEGORIES",
    "BLOCK_STATES",
    "FRAMES",
    "GPU_ACTIVITIES",
    "GPU_CATEGORIES",
    "OVERHEAD_KINDS",
    "RUNTIME_CATEGORIES",
    "WORK_ELSEWHERE",
    "Column",
    "DeviceInfo",
    "Judged",
    "Overhead",
    "Problem",
    "Ranks",
    "RawRows",
    "RunInfo",
    "StackTable",
    "SyncKind",
    "Trace",
    "Trust",
    "TrustFinding",
    "atomic_write",
    "build_events",
    "build_memory",
    "categorical",
    "check_frame",
    "columns_of",
    "empty_frame",
    "is_category",
    "nullable",
]
