"""Store the frames that Chrome's events cannot represent inside a Chrome trace, under a key next to ``traceEvents``.

The key ``cudalens`` holds the output of `Trace.save` without the events, as base64. Viewers ignore it. Our reader
restores races, graphs, blocks, syncs and metrics exactly from it, and the allocator's history if the ``[memory]``
instants do not hold all of it. The value is untrusted and gets the same checks as a file.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.errors import TraceFormatError
from cudalens.frames import RunInfo, Trace, columns_of, empty_frame
from cudalens.frames.build import merge_stacks
from cudalens.frames.limits import Problems

KEY: Final = "cudalens"
_CHROME_ACTIONS: Final = ("alloc", "free_completed", "oom")
_CHROME_COLUMNS: Final = frozenset(
    {"ts", "action", "device_type", "device", "addr", "num_bytes", "allocated_bytes", "reserved_bytes", "pid", "tid"}
    | {"event"}
)


class _Extra(msgspec.Struct, forbid_unknown_fields=True):
    """The value of `KEY`."""

    num_events: int
    frames: str


def extra_frames(trace: Trace) -> dict[str, Any] | None:
    """Return the value of `KEY` for `trace`; None if its events and allocations hold everything."""
    frames = trace.frames
    kept = {name: frame for name, frame in frames.items() if name not in ("events", "stacks", "memory") and len(frame)}
    # Blocks refer to rows of the allocator's history, so the two are stored together.
    kept |= {} if _is_in_instants(frames["memory"]) and "blocks" not in kept else {"memory": frames["memory"]}
    if not kept and trace.info.judged is None:
        return None
    if used := _used_stacks(kept):
        kept["stacks"] = frames["stacks"][frames["stacks"]["stack"].isin(used)]
    every = {name: kept.get(name, empty_frame(name)) for name in frames}
    from cudalens.frames import store  # imports pyarrow: on first use

    sink = io.BytesIO()
    store.write(RunInfo(name="", source="file:kineto", judged=trace.info.judged), every, sink)
    return {"num_events": len(trace), "frames": base64.b64encode(sink.getvalue()).decode()}


def _is_in_instants(memory: pd.DataFrame) -> bool:
    """Return whether ``[memory]`` instants hold all of `memory`."""
    if not memory["action"].isin(_CHROME_ACTIONS).all():
        return False
    return bool(memory[[name for name in memory.columns if name not in _CHROME_COLUMNS]].isna().all(axis=None))


def _used_stacks(frames: dict[str, pd.DataFrame]) -> list[int]:
    """Ids of the stacks that `frames` refer to."""
    named = [frame[c.name].dropna() for name, frame in frames.items() for c in columns_of(name) if c.names == "stacks"]
    return [] if not named else np.unique(np.concatenate([ids.to_numpy(np.int64) for ids in named])).tolist()


def with_extra_frames(
    path: str | os.PathLike[str], frames: dict[str, pd.DataFrame], value: Any, problems: Problems
) -> tuple[dict[str, pd.DataFrame], RunInfo | None]:
    """Add the frames under `KEY` to `frames` of a Chrome trace; also returns the run info stored there, or None.

    Args:
        path: The file, for messages.
        frames: ``events``, ``memory``, ``stacks`` and frames derived from them.
        value: The value of `KEY`.
        problems: Counts what is wrong with the value; `frames` are unchanged then.
    """
    from cudalens.frames import store  # imports pyarrow: on first use

    try:
        extra = msgspec.convert(value, _Extra)
        data = io.BytesIO(base64.b64decode(extra.frames, validate=True))
        if extra.num_events != len(frames["events"]):
            raise ValueError(f"it is about {extra.num_events} events, the file has {len(frames['events'])}")
        info, found = store.load(path, file=data, num_events=extra.num_events)
    except (msgspec.ValidationError, binascii.Error, ValueError, TraceFormatError) as error:
        problems.add("frames of cudalens that cannot be read", f"key '{KEY}': {error}"[:300])
        return frames, None
    kept = {name: frame for name, frame in found.items() if len(frame) and name not in ("events", "stacks")}
    return frames | _with_stacks(frames["stacks"], kept, found["stacks"]), info


Frames = dict[str, pd.DataFrame]


def _with_stacks(stacks: pd.DataFrame, frames: Frames, theirs: pd.DataFrame) -> Frames:
    """`frames`, whose stack ids refer to `theirs`, renumbered for `stacks`; new stacks are added to `stacks`."""
    known = {entries: number for number, entries in _entries(stacks).items()}
    first_free = int(stacks["stack"].max()) + 1 if len(stacks) else 0
    of_theirs = _entries(theirs)
    numbers = {number: known.setdefault(entries, first_free + number) for number, entries in of_theirs.items()}
    fresh = [number for number, moved in numbers.items() if moved == first_free + number]
    moved = {name: _renumbered(frame, name, numbers) for name, frame in frames.items()}
    if not fresh:
        return moved | {"stacks": stacks}
    part = theirs[theirs["stack"].isin(fresh)]
    return moved | {"stacks": merge_stacks(stacks, part.assign(stack=part["stack"].map(numbers).astype("int64")))}


def _entries(stacks: pd.DataFrame) -> dict[int, tuple[Any, ...]]:
    """Return the entries of each stack, by its number."""
    found: dict[int, list[Any]] = {}
    columns = [stacks[name].astype(object) for name in ("file", "line", "first_line", "function", "extra")]
    plain = [column.where(column.notna(), None).tolist() for column in columns]
    for number, *entry in zip(stacks["stack"].tolist(), *plain, strict=True):
        found.setdefault(number, []).append(tuple(entry))
    return {number: tuple(entries) for number, entries in found.items()}


def _renumbered(frame: pd.DataFrame, name: str, numbers: dict[int, int]) -> pd.DataFrame:
    links = [c.name for c in columns_of(name) if c.names == "stacks"]
    return frame.assign(**{link: frame[link].map(numbers, na_action="ignore").astype("Int64") for link in links})
