"""A snapshot of torch's CUDA allocator as frames: `blocks`, `memory`, `stacks`, and `events` of its annotations.

`snapshot_frames` takes the result of ``torch.cuda.memory._snapshot()``, the file of ``_dump_snapshot`` (torch 2.0 to
2.13), and the list of segments that ``torch.cuda.memory_snapshot()`` returns. It needs no torch. Snapshots are
untrusted: all types and ranges are checked.

The rules use functions and files of torch. What they do not cover is unknown. The live collector in cudalens.memory has
more data, such as the parameters of modules, and writes to the same column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.errors import TraceFormatError, UnsafeSnapshotError
from cudalens.frames.build import build_events
from cudalens.frames.catalog_frames import BLOCK_CATEGORIES
from cudalens.frames.column_arrays import categorical, integers
from cudalens.frames.info import Problem
from cudalens.frames.snapshots.blocks import SnapshotBlocks, SnapshotMemory, SnapshotStacks
from cudalens.frames.snapshots.history import NOT_BY_TORCH, Validator, text

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


_WORKSPACE: Final = re.compile(
    r"(?i)getCurrentCUDABlas(?:Lt)?Handle|getCUDABlasLtWorkspace|ChosenWorkspaceSize|cublas\w*Create|\bworkspace\b"
)
#: ``:4096:2:16:8`` in KiB (ATen/cuda/CublasHandlePool.cpp). The 32 MiB of newer GPUs are the size of many tensors too.
_WORKSPACE_BYTES: Final = (4096 * 2 + 16 * 8) * 1024
_ACCUMULATES: Final = re.compile(r"AccumulateGrad|accumulate_?grad", re.IGNORECASE)
_BACKWARD: Final = re.compile(r"torch::autograd::(?:Engine|python::PythonEngine)|_engine_run_backward|^backward$")
_FILES: Final = {
    "optimizer": re.compile(r"[/\\]torch[/\\]optim[/\\]\w+\.py$"),
    "loader": re.compile(r"[/\\]torch[/\\]utils[/\\]data[/\\]"),
    "module": re.compile(r"[/\\]torch[/\\]nn[/\\]modules[/\\]module\.py$"),
    "modules": re.compile(r"[/\\]torch[/\\]nn[/\\]"),
    "autograd": re.compile(r"[/\\]torch[/\\](?:autograd[/\\]|_tensor\.py$)"),
}
_MOVES: Final = frozenset({"_apply", "convert", "to_empty"})
_BUILDS: Final = frozenset({"__init__", "reset_parameters", "_reset_parameters", "load_state_dict"})
_CALLS: Final = frozenset({"_call_impl", "_wrapped_call_impl"})


def stack_marks(stacks: pd.DataFrame) -> dict[int, set[str]]:
    """Return the marks of each call stack of the frame `stacks`, by its id; stacks without marks are absent."""
    if not len(stacks):
        return {}
    entries = stacks[["file", "function"]].drop_duplicates()
    marks = {(file, function): _marks(file, function) for file, function in _texts(entries)}
    found: dict[int, set[str]] = {}
    for number, key in zip(stacks["stack"].tolist(), _texts(stacks), strict=True):
        if mark := marks[key]:
            found.setdefault(number, set()).update(mark)
    return found


def _texts(entries: pd.DataFrame) -> Iterable[tuple[str, str]]:
    file = entries["file"].astype(object).where(entries["file"].notna(), "")
    function = entries["function"].astype(object).where(entries["function"].notna(), "")
    return zip(file.tolist(), function.tolist(), strict=True)


def _marks(file: str, function: str) -> frozenset[str]:
    """Return the marks of one stack frame."""
    place = {name for name, pattern in _FILES.items() if pattern.search(file)}
    name = function.rpartition(".")[2]
    rules = {
        "workspace": not file.endswith(".py") and bool(_WORKSPACE.search(function)),
        "accumulates": bool(_ACCUMULATES.search(function)),
        "state": "optimizer" in place and name == "_init_group",
        "optimizer": "optimizer" in place and name != "__init__",
        "backward": bool(_BACKWARD.search(function)) and (not file.endswith(".py") or "autograd" in place),
        "loads": "loader" in place,
        "calls": "module" in place and name in _CALLS,
        "builds": ("module" in place and name in _MOVES) or ("modules" in place and name in _BUILDS),
    }
    return frozenset(mark for mark, holds in rules.items() if holds)


def _category(marks: set[str], now: set[str], *, was_released: bool) -> str | None:
    """Return the category of an active block.

    Args:
        marks: The marks of its stack.
        now: The marks of the last action's stack: a backward or a step that may be unfinished.
        was_released: Whether some block of that stack was released in the history.
    """
    if "workspace" in marks:
        return "workspace"
    if "accumulates" in marks:
        return "gradient"
    if "optimizer" in marks:
        return "temporary" if "optimizer" in now and was_released and "state" not in marks else "optimizer state"
    if "backward" in marks:
        return None if "backward" in now and was_released else "gradient"
    rest = (("loads", "input"), ("calls", "activation"), ("builds", "parameter"))
    return next((category for mark, category in rest if mark in marks), None)


def block_categories(blocks: pd.DataFrame, stacks: pd.DataFrame, memory: pd.DataFrame) -> pd.Categorical:
    """Return the use of each active block, by its pool and its stack.

    - ``graph pool``: it is in the pool of a graph capture, and stays with the graph, whatever its stack is.
    - ``workspace``: allocated for a cuBLAS handle or workspace, by its stack, or by the size that torch requests for it
      on most GPUs: a stack of Python lines does not show the difference.
    - ``gradient``: allocated by autograd's accumulation, or in a backward that has ended. While the last action is in a
      backward, only if no block of the same stack was ever released.
    - ``optimizer state``: allocated in ``_init_group`` of torch.optim, or in an optimizer's step that has ended. While
      the last action is in a step, blocks with a stack of which some block was released are ``temporary``.
    - ``input``: allocated under torch.utils.data; ``activation``: in a module's call; ``parameter``: while a module is
      built, moved or loaded.

    Args:
        blocks: Columns ``pool_id_first``, ``requested_bytes``, ``stack``, ``alloc`` and ``state`` of the frame
            ``blocks``.
        stacks: The frame ``stacks``.
        memory: Columns ``stack`` and ``action`` of the frame ``memory``.
    """
    marks = stack_marks(stacks)
    known = memory["stack"].dropna()
    now = marks.get(int(known.iloc[-1]), set()) if len(known) else set()
    place = {name: i for i, name in enumerate(BLOCK_CATEGORIES)}
    released = _released(blocks, memory)
    codes_of = {
        number: place.get(_category(mark, now, was_released=number in released) or "", -1)
        for number, mark in marks.items()
    }
    numbers = integers(blocks["stack"])
    codes = np.fromiter((codes_of.get(number, -1) for number in numbers.tolist()), np.int64, len(numbers))
    codes[integers(blocks["requested_bytes"]) == _WORKSPACE_BYTES] = place["workspace"]
    codes[integers(blocks["pool_id_first"], 0) != 0] = place["graph pool"]
    codes[(blocks["state"] == "inactive").to_numpy()] = -1
    return categorical(codes, list(BLOCK_CATEGORIES))


def _released(blocks: pd.DataFrame, memory: pd.DataFrame) -> set[int]:
    """Stacks of which more blocks were allocated in the history than are active."""
    allocated = memory["stack"][(memory["action"] == "alloc").to_numpy()].value_counts()
    is_alive = (blocks["alloc"].notna() & (blocks["state"] != "inactive")).to_numpy()
    alive = blocks["stack"][is_alive].value_counts()
    left = allocated.sub(alive, fill_value=0)
    return {int(number) for number in left.index[(left > 0).to_numpy()]}
