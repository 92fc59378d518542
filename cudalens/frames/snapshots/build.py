"""A snapshot of torch's CUDA allocator as frames: `blocks`, `memory`, `stacks`, and `events` of its annotations.

`snapshot_frames` takes the result of ``torch.cuda.memory._snapshot()``, the file of ``_dump_snapshot`` (torch 2.0 to
2.13), and the list of segments that ``torch.cuda.memory_snapshot()`` returns. It needs no torch. Snapshots are
untrusted: all types and ranges are checked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.errors import TraceFormatError, UnsafeSnapshotError
from cudalens.frames.build import build_events
from cudalens.frames.column_arrays import categorical
from cudalens.frames.info import Problem
from cudalens.frames.snapshots.blocks import SnapshotBlocks
from cudalens.frames.snapshots.categories import block_categories
from cudalens.frames.snapshots.memory import SnapshotMemory
from cudalens.frames.snapshots.stacks import SnapshotStacks
from cudalens.frames.snapshots.values import NOT_BY_TORCH, Validator, text

_LANE: Final = "annotations"


def annotation_columns(annotations: Any, end_ns: int | None, check: Validator) -> dict[str, Any]:
    """Raw columns for `build_events`, a row per range.

    torch records a START and an END of each; the innermost open range of a name and device ends first. A range without
    an END was open when the snapshot was taken and lasts until `end_ns`.

    Args:
        annotations: The snapshot's ``external_annotations``.
        end_ns: End of the history, or None.
        check: Of the snapshot.
    """
    if annotations is not None and not isinstance(annotations, list):
        check.problems.add("annotations that are not a list", "external_annotations")
        annotations = None
    spans, opened = _spans(annotations or [], check)
    for (name, _), begins in opened.items():
        spans += [(begin, max(end_ns or begin, begin), name) for begin in begins]
    names = {name: i for i, name in enumerate(dict.fromkeys(name for *_, name in spans))}
    begin, end = (np.array([span[i] for span in spans], np.int64) for i in (0, 1))
    return {
        "ts": begin,
        "dur": end - begin,
        "name": categorical(np.array([names[name] for *_, name in spans], np.int64), list(names)),
        "cat": categorical(np.zeros(len(spans), np.int64), ["user_annotation"]),
        "thread": categorical(np.zeros(len(spans), np.int64), [_LANE]),
    }


def _spans(annotations: list[Any], check: Validator) -> tuple[list[tuple[int, int, str]], dict[Any, list[int]]]:
    spans: list[tuple[int, int, str]] = []
    opened: dict[Any, list[int]] = {}
    for i, entry in enumerate(annotations):
        fields = entry if isinstance(entry, dict) else {}
        stage, name, time_us, device = (fields.get(key) for key in ("stage", "name", "time_us", "device"))
        time_ns = time_us * 1000 if type(time_us) is int and 0 <= time_us < 1 << 53 else -1
        if type(name) is not str or time_ns < 0 or stage not in ("START", "END"):
            check.problems.add("annotation of another form", f"external_annotations[{i}]")
            continue
        begins = opened.setdefault((text(name), device if type(device) is int else None), [])
        if stage == "START":
            begins.append(time_ns)
        elif begins:
            begin = begins.pop()
            spans.append((begin, max(time_ns, begin), text(name)))
        else:
            check.problems.add("annotation that ends without a start", f"external_annotations[{i}]")
    return spans, opened


_KNOWN: Final = ("segments", "device_traces", "external_annotations")

#: Option of `RunInfo` that holds the keys of a snapshot, in its order, separated by "|".
SNAPSHOT_KEYS: Final = "snapshot_keys"
#: Option of `RunInfo`: whether every action of the history has a time; if not, ``ts`` counts actions.
HAS_TIMES: Final = "snapshot_has_times"
EXPECTED: Final = "torch's memory snapshot: a dict with 'segments', or a list of segments"


@dataclass(frozen=True)
class SnapshotFrames:
    """The contents of a snapshot.

    Attributes:
        frames: The frames ``blocks``, ``memory``, ``stacks`` and ``events`` by name, as the catalog defines them.
        options: For `RunInfo.options`: `SNAPSHOT_KEYS` and `HAS_TIMES`.
        extra: For `RunInfo.extra`: ``allocator_settings``, and fields unknown to cudalens, as JSON text.
        problems: Damage that was worked around.
    """

    frames: dict[str, pd.DataFrame]
    options: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def snapshot_frames(
    snapshot: Any, *, name: str = "snapshot", max_rows: int | None = None, device_type: str = "cuda"
) -> SnapshotFrames:
    """Return the frames of a snapshot.

    ``blocks`` has a row per block, in the snapshot's order. ``memory`` has a row per action of the history, by time,
    those of a device in their order, with the allocated, active, requested and reserved bytes after it. These are
    counted backward from the snapshot, so they include blocks from before the history. Sizes of freed blocks are not
    recorded: ``allocated_bytes`` and ``active_bytes`` count their requested size, rounded as the allocator rounds.
    ``requested_bytes`` and ``reserved_bytes`` are exact.

    Args:
        snapshot: A dict with ``segments`` and usually ``device_traces``; or a list of segments.
        name: The file or other source, for messages.
        max_rows: Limit of the number of blocks and actions, if known.
        device_type: Type of the devices.

    Raises:
        TraceFormatError: It is not a snapshot; says where and why.
        UnsafeSnapshotError: It expands to more than `max_rows`, or has fields that are nested too deeply.
    """
    check = Validator(name)
    whole = {"segments": snapshot} if isinstance(snapshot, list) else snapshot
    if not isinstance(whole, dict) or "segments" not in whole:
        found = type(snapshot).__name__ + (" without 'segments'" if isinstance(snapshot, dict) else "")
        raise TraceFormatError(name, found=found, expected=EXPECTED)
    segments = check.require(whole["segments"], list, "segments")
    traces = check.require(whole.get("device_traces", []), list, "device_traces")
    check.require_all(traces, list, "device_traces")
    _check_size(segments, traces, check, max_rows)
    stacks = SnapshotStacks(check)
    blocks = SnapshotBlocks(segments, check, stacks)
    memory = SnapshotMemory(traces, check, stacks)
    annotations = annotation_columns(whole.get("external_annotations"), memory.end_ns, check)
    links = memory.link(blocks, whole.get("allocator_settings"))
    stack_frame = stacks.to_frame()
    block_frame = blocks.to_frame(links.alloc, *memory.block_allocations(links), device_type)
    memory_frame = memory.to_frame(links, blocks, device_type)
    block_frame["category"] = block_categories(block_frame, stack_frame, memory_frame)
    frames = {
        "events": build_events(annotations),
        "memory": memory_frame,
        "blocks": block_frame,
        "stacks": stack_frame,
    }
    options: dict[str, str | int | float | bool | None] = {SNAPSHOT_KEYS: _keys(snapshot), HAS_TIMES: memory.has_times}
    return SnapshotFrames(frames, options, _extra(whole, check), check.problems.to_tuple())


def _check_size(segments: list[Any], traces: list[list[Any]], check: Validator, max_rows: int | None) -> None:
    """Refuse a snapshot whose lists are too long; many of them may be the same object."""
    check.require_all(segments, dict, "segments")
    lists = [b for segment in segments if isinstance(b := segment.get("blocks"), list)] + traces
    num_rows = len(segments) + sum(map(len, lists))
    if max_rows is not None and num_rows > max_rows:
        raise UnsafeSnapshotError(
            check.name,
            found=f"lists that expand to {num_rows:,} blocks and actions",
            expected=f"at most {max_rows:,}, given its size",
            hint=NOT_BY_TORCH,
        )


def _keys(snapshot: Any) -> str | None:
    return "|".join(text(str(key))[:100] for key in [*snapshot][:100]) if isinstance(snapshot, dict) else None


def _extra(whole: dict[Any, Any], check: Validator) -> dict[str, str]:
    return {text(str(key)): check.to_json(value, text(str(key))) for key, value in whole.items() if key not in _KNOWN}


def settings_of(extra: dict[str, str]) -> dict[str, Any]:
    """Return the ``allocator_settings`` of a snapshot, from `RunInfo.extra`; empty if it has none."""
    settings = json.loads(extra.get("allocator_settings", "{}"))
    return settings if isinstance(settings, dict) else {}
