"""Dumps whose author means harm: sizes, numbers and nesting; each costs at most its own entries."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from simulated_job import SimulatedJob

import cudalens
from cudalens.traces.safe_pickle import load_plain


def write(folder: Path, **changes: Any) -> Path:
    """Dumps of two ranks; in the last entry of rank 1, `changes`."""
    job = SimulatedJob(2)
    job.steps(1)
    path = job.write(folder) / "rank_1.dump_1.json"
    dump = json.loads(path.read_text())
    dump["entries"][-1] |= changes
    path.write_text(json.dumps(dump))
    return folder


@pytest.mark.parametrize(
    "changes",
    [
        {"input_sizes": [[2**62] * 64]},
        {"collective_seq_id": 2**62},
        {"collective_seq_id": -5},
        {"time_created_ns": -(2**62)},
        {"process_group": ["0", "\x1b[2J" * 1000]},
        {"profiling_name": "nccl:send 0->1", "is_p2p": True},
        {"profiling_name": "nccl:send 9999999->1", "is_p2p": True},
        {"profiling_name": "nccl:recv 1<-1", "is_p2p": True},
        {"frames": [{"filename": "/x" * 5_000, "line": -1, "name": ""}] * 50},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_extreme_values_have_a_text(tmp_path: Path, changes: dict[str, Any]) -> None:
    record = cudalens.load_flight_recorder(write(tmp_path / "dumps", **changes))
    text = str(record)
    assert len(text) < 6_000
    assert "\x1b" not in text
    record.to_html(tmp_path / "hang.html")
    assert len(record.entries) in (5, 6)


def test_ranks_that_a_name_invents_are_no_ranks_of_the_job(tmp_path: Path) -> None:
    folder = write(tmp_path / "dumps", profiling_name="nccl:send 1->900000", is_p2p=True, retired=False)
    assert [one.rank for one in cudalens.load_flight_recorder(folder).hang.culprits] == []


def pickled(*parts: bytes) -> bytes:
    return pickle.PROTO + b"\x02" + b"".join(parts) + pickle.STOP


@pytest.mark.parametrize(
    "data",
    [
        pickled(pickle.BINUNICODE, struct.pack("<I", 0xFFFFFFFF), b"x"),
        pickled(pickle.LONG1, b"\xff"),
        pickled(pickle.MARK * 100_000),
        pickled(pickle.BINGET, b"\x07"),
        pickled(pickle.EMPTY_LIST, pickle.BINPUT, b"\x00", pickle.BINGET, b"\x00", pickle.APPEND),
        pickled(pickle.GLOBAL, b"os\nsystem\n"),
        pickled(pickle.EMPTY_LIST * 50_000, pickle.APPEND * 49_999),
        pickled(pickle.FRAME, struct.pack("<Q", 2**63)),
    ],
    ids=["text", "integer", "marks", "memo", "cycle", "global", "nesting", "frame"],
)
def test_hostile_pickles_are_refused_in_linear_time(tmp_path: Path, data: bytes) -> None:
    folder = write(tmp_path / "dumps")
    (folder / "rank_0.dump_1.json").unlink()
    (folder / "rank_0.dump_1.pickle").write_bytes(data)
    assert "a file is not a dump" in str(cudalens.load_flight_recorder(folder))


def test_values_that_refer_to_each_other_take_no_more_memory_than_the_file() -> None:
    doubled = pickle.BINPUT + b"\x00" + pickle.BINGET + b"\x00" + pickle.TUPLE2
    found, depth = load_plain("dump", pickled(pickle.EMPTY_TUPLE, doubled * 64)), 0
    while found:
        assert found[0] is found[1]
        found, depth = found[0], depth + 1
    assert depth == 64
