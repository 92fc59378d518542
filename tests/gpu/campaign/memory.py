"""What the caching allocator does in six programs: its actions, its statistics, and torch's memory snapshots."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from campaign import processes
from campaign.memory_programs import PROGRAMS, SETTINGS
from campaign.run import Run

#: Actions that are kept of a program. All programs here have fewer.
MAX_ACTIONS: Final = 100_000
#: Programs of which the snapshot is kept, with the Python stack of each allocation.
_WITH_STACKS: Final = ("transformer_training", "mlp_training", "convolutions")
_SHORT: Final = ("two_streams",)
_FIELDS: Final = ("action", "addr", "size", "stream")


def run_traces(this: Run) -> str:
    """The actions of the allocator in each program, each in a process of its own."""
    found, problems = {}, []
    for name in _SHORT if this.is_short else PROGRAMS:
        text, problem = _in_process(this, name, _trace)
        if problem:
            problems.append(f"{name}: {problem}")
        else:
            found[name] = json.loads(text)
            this.facts = found[name].pop("facts")
        this.write({"programs": found, "problems": problems})
    return f"{len(found)} programs, {len(problems)} problems"


def run_snapshots(this: Run) -> str:
    """torch's snapshots of some programs, as pickles in a zip file."""
    problems, kept = [], []
    with zipfile.ZipFile(this.path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _WITH_STACKS[1:2] if this.is_short else _WITH_STACKS:
            data, problem = _in_process(this, name, _snapshot)
            if problem:
                problems.append(f"{name}: {problem}")
            else:
                archive.writestr(f"{name}.pickle", data)
                kept.append(name)
        archive.writestr("problems.json", json.dumps(problems))
    return f"{len(kept)} snapshots, {len(problems)} problems"


def _in_process(this: Run, name: str, record: Callable[[Run, str], bytes]) -> tuple[bytes, str]:
    """What `record` returns for a program, in a process whose allocator is new; and what went wrong."""
    result = this.path.with_name(f".{this.path.stem}-{name}")
    problem = "no time left"
    if not this.is_over:
        problem = processes.forked(lambda: _keep(result, record(this, name)), None, this.seconds_left)
    data = result.read_bytes() if result.exists() else b""
    result.unlink(missing_ok=True)
    return data, problem


def _keep(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _recorded(name: str, stacks: str | None) -> dict[str, Any]:
    if name in SETTINGS:
        torch.cuda.memory._set_allocator_settings(SETTINGS[name])
    torch.cuda.memory._record_memory_history("all", context=stacks, stacks="python", max_entries=MAX_ACTIONS)
    PROGRAMS[name]()
    torch.cuda.synchronize()
    return dict(torch.cuda.memory._snapshot())


def _trace(this: Run, name: str) -> bytes:
    with this.device(values=False):
        snapshot = _recorded(name, None)
        stats = {key: int(value) for key, value in torch.cuda.memory_stats().items() if isinstance(value, int | float)}
        actions = [[entry[field] for field in _FIELDS] for entry in snapshot["device_traces"][0]]
        segments = [_segment(segment) for segment in snapshot["segments"]]
        found = {"facts": this.facts, "settings": SETTINGS.get(name, ""), "actions": actions}
        return json.dumps(found | {"segments": segments, "stats": stats}).encode()


def _segment(segment: dict[str, Any]) -> dict[str, Any]:
    names = ("address", "total_size", "allocated_size", "active_size", "requested_size", "stream", "segment_type")
    blocks = [[block["size"], block["requested_size"], block["state"]] for block in segment["blocks"]]
    return {name: segment[name] for name in names} | {"blocks": blocks}


def _snapshot(this: Run, name: str) -> bytes:
    with this.device(values=False):
        return pickle.dumps(_recorded(name, "all"))
