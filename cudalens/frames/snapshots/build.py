"""A snapshot of torch's CUDA allocator as frames: `blocks`, `memory`, `stacks`, and `events` of its annotations.

`snapshot_frames` takes what ``torch.cuda.memory._snapshot()`` returns and what ``_dump_snapshot`` writes, of torch 2.0
to 2.13, and the bare list of segments that ``torch.cuda.memory_snapshot()`` returns. It needs no torch, and takes
nothing for granted: a snapshot may come from anywhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from cudalens.errors import TraceFormatError, UnsafeSnapshotError
from cudalens.frames.build import build_events
from cudalens.frames.info import Problem
from cudalens.frames.snapshots.annotations import annotation_columns
from cudalens.frames.snapshots.blocks import SnapshotBlocks
from cudalens.frames.snapshots.categories import block_categories
from cudalens.frames.snapshots.memory import SnapshotMemory
from cudalens.frames.snapshots.stacks import SnapshotStacks
from cudalens.frames.snapshots.values import Place, text

#: Option of `RunInfo` that holds a snapshot's own keys, in its order, with "|" between them.
_KNOWN: Final = ("segments", "device_traces", "external_annotations")
SNAPSHOT_KEYS: Final = "snapshot_keys"
#: Option of `RunInfo` that says whether every action of the history has a time; ``ts`` counts actions where not.
HAS_TIMES: Final = "snapshot_has_times"
EXPECTED: Final = "torch's memory snapshot: a dict with 'segments', or a list of segments"


@dataclass(frozen=True)
class SnapshotFrames:
    """What a snapshot holds.

    Attributes:
        frames: The frames ``blocks``, ``memory``, ``stacks`` and ``events`` by name, as the catalog defines them.
        options: For `RunInfo.options`: `SNAPSHOT_KEYS` and `HAS_TIMES`.
        extra: For `RunInfo.extra`: ``allocator_settings``, and fields unknown to cudalens, as JSON text.
        problems: Damage that was survived.
    """

    frames: dict[str, pd.DataFrame]
    options: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def snapshot_frames(
    snapshot: Any, *, name: str = "snapshot", max_rows: int | None = None, device_type: str = "cuda"
) -> SnapshotFrames:
    """The frames of a snapshot.

    ``blocks`` has a row per block, in the snapshot's order. ``memory`` has a row per action of the history, by time and
    each device's own order, with what was allocated, active, requested and reserved after it, counted backward from the
    snapshot: blocks that were there before the history began are in it. Sizes of blocks that are gone are not recorded;
    what was asked for, rounded as the allocator rounds, stands for them in ``allocated_bytes`` and ``active_bytes``,
    while ``requested_bytes`` and ``reserved_bytes`` are exact.

    Args:
        snapshot: A dict with ``segments`` and, mostly, ``device_traces``; or a list of segments.
        name: The file, or what else it came from, for messages.
        max_rows: The most blocks and actions that it may have, where whoever calls knows.
        device_type: Of the devices.

    Raises:
        TraceFormatError: It is no snapshot; says where and why.
        UnsafeSnapshotError: It unfolds to more than `max_rows`, or has fields that are nested too deep.
    """
    place = Place(name)
    whole = {"segments": snapshot} if isinstance(snapshot, list) else snapshot
    if not isinstance(whole, dict) or "segments" not in whole:
        found = (
            f"{type(snapshot).__name__} without 'segments'" if isinstance(snapshot, dict) else type(snapshot).__name__
        )
        raise TraceFormatError(name, found=found, expected=EXPECTED)
    segments = place.require(whole["segments"], list, "segments")
    traces = place.require(whole.get("device_traces", []), list, "device_traces")
    place.require_all(traces, list, "device_traces")
    _check_size(segments, traces, place, max_rows)
    stacks = SnapshotStacks(place)
    blocks = SnapshotBlocks(segments, place, stacks)
    memory = SnapshotMemory(traces, place, stacks)
    annotations = annotation_columns(whole.get("external_annotations"), memory.end_ns, place)
    links = memory.link(blocks, whole.get("allocator_settings"))
    stack_frame = stacks.to_frame()
    block_frame = blocks.to_frame(links.alloc, *memory.told_of_blocks(links), device_type)
    memory_frame = memory.to_frame(links, blocks, device_type)
    block_frame["category"] = block_categories(block_frame, stack_frame, memory_frame)
    frames = {
        "events": build_events(annotations),
        "memory": memory_frame,
        "blocks": block_frame,
        "stacks": stack_frame,
    }
    options: dict[str, str | int | float | bool | None] = {SNAPSHOT_KEYS: _keys(snapshot), HAS_TIMES: memory.has_times}
    return SnapshotFrames(frames, options, _extra(whole, place), place.problems.to_tuple())


def _check_size(segments: list[Any], traces: list[list[Any]], place: Place, max_rows: int | None) -> None:
    """Refuse a snapshot whose lists, many of which may be one and the same object, unfold to more than they should."""
    place.require_all(segments, dict, "segments")
    lists = [b for segment in segments if isinstance(b := segment.get("blocks"), list)] + traces
    num_rows = len(segments) + sum(map(len, lists))
    if max_rows is not None and num_rows > max_rows:
        raise UnsafeSnapshotError(
            place.name,
            found=f"lists that unfold to {num_rows:,} blocks and actions",
            expected=f"at most {max_rows:,}, given its size",
            hint="It is not a snapshot written by torch, or it was made to exhaust the reader's memory.",
        )


def _keys(snapshot: Any) -> str | None:
    return "|".join(text(str(key))[:100] for key in [*snapshot][:100]) if isinstance(snapshot, dict) else None


def _extra(whole: dict[Any, Any], place: Place) -> dict[str, str]:
    return {text(str(key)): place.to_json(value, text(str(key))) for key, value in whole.items() if key not in _KNOWN}


def settings_of(extra: dict[str, str]) -> dict[str, Any]:
    """The ``allocator_settings`` that a snapshot told, from `RunInfo.extra`; empty where it told none."""
    settings = json.loads(extra.get("allocator_settings", "{}"))
    return settings if isinstance(settings, dict) else {}
