"""Memory snapshots of any length, as a training loop leaves them: shared stack frames, deep stacks, late history."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

_MIB = 1 << 20
_SLOTS_PER_SEGMENT = 10
_SLOT = 2 * _MIB


def training_snapshot(num_rows: int, *, seed: int = 0) -> dict[str, Any]:
    """A snapshot with `num_rows` actions, in torch 2.13's layout.

    Stacks are 20 to 45 deep, 400 of them, and share their stack frames, as torch's do; every allocation has a list of
    its own, the two rows of a release share one. A third of the blocks existed before the history began.
    """
    draw = random.Random(seed)
    frames = [{"filename": f"/app/model_{i % 40}.py", "name": f"layer_{i}", "line": i % 900 + 1} for i in range(2000)]
    stacks = [draw.sample(frames, draw.randint(20, 45)) for _ in range(400)]
    slots = list(range(max(200, min(num_rows // 20, 6000))))
    base = 0x7F0000000000
    trace: list[dict[str, Any]] = []
    time_us = 1_700_000_000_000_000
    held = {slot: (draw.randint(_MIB + 1, _SLOT), draw.choice(stacks)) for slot in slots[::3]}
    free = [slot for slot in slots if slot not in held]

    def log(action: str, slot: int, size: int, stack: list[Any]) -> None:
        nonlocal time_us
        time_us += draw.randint(1, 40)
        row = {"action": action, "addr": base + slot * _SLOT, "size": size, "stream": 0, "time_us": time_us}
        context = b"N/A".decode()  # a text of its own for each row, as torch's binding makes them
        trace.append(row | {"compile_context": context, "user_metadata": "", "pool_id": (0, 0), "frames": stack})

    while len(trace) < num_rows:
        if free and (not held or draw.random() < 0.5):
            slot = free.pop(draw.randrange(len(free)))
            held[slot] = draw.randint(_MIB + 1, _SLOT), list(draw.choice(stacks))
            log("alloc", slot, *held[slot])
        else:
            slot = draw.choice(list(held)) if len(held) < 50 else next(iter(held))
            size, _ = held.pop(slot)
            free.append(slot)
            stack = list(draw.choice(stacks))
            log("free_requested", slot, size, stack)
            log("free_completed", slot, size, stack)
    return {
        "segments": [_segment(base, first, held) for first in range(0, len(slots), _SLOTS_PER_SEGMENT)],
        "device_traces": [trace],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "roundup_power2_divisions": {}},
        "external_annotations": [],
    }


def _segment(base: int, first: int, held: dict[int, tuple[int, list[Any]]]) -> dict[str, Any]:
    blocks = []
    for slot in range(first, first + _SLOTS_PER_SEGMENT):
        size, stack = held.get(slot, (0, []))
        state = "active_allocated" if size else "inactive"
        block = {"address": base + slot * _SLOT, "size": _SLOT, "requested_size": size, "state": state, "frames": stack}
        blocks.append(block)
    active = sum(block["size"] for block in blocks if block["requested_size"])
    return {
        "device": 0,
        "address": base + first * _SLOT,
        "total_size": _SLOTS_PER_SEGMENT * _SLOT,
        "allocated_size": active,
        "active_size": active,
        "requested_size": sum(block["requested_size"] for block in blocks),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def write_snapshot(path: Path, num_rows: int, *, protocol: int = 4) -> int:
    """Write a snapshot of `num_rows` actions as ``_dump_snapshot`` does; returns the size of the file."""
    with path.open("wb") as file:
        pickle.dump(training_snapshot(num_rows), file, protocol=protocol)
    return path.stat().st_size
