"""Dumps of torch's FlightRecorder as files: JSON, pickles, damaged and hostile ones."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_job import SimulatedJob

import cudalens
from cudalens.errors import TraceFormatError, UnsafeSnapshotError
from cudalens.traces.safe_pickle import load_plain

KEYS = st.text(max_size=5) | st.integers(-(2**63), 2**63 - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@given(VALUES, st.integers(2, 5))
def test_plain_values_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    assert load_plain("dump", pickle.dumps(value, protocol)) == value


def test_pairs_become_lists() -> None:
    assert load_plain("dump", pickle.dumps({"group": ("0", "default_pg"), "long": (1, 2, 3, 4)}, 2)) == {
        "group": ["0", "default_pg"],
        "long": [1, 2, 3, 4],
    }


class _Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("ran",)


@pytest.mark.parametrize("value", [_Runs(), {"entries": [_Runs()]}, os.mkdir, {(("a", "b"), "c"): 1}, {1, 2}, 1 << 90])
def test_other_contents_are_refused_and_not_run(value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsafeSnapshotError):
        load_plain("dump", pickle.dumps(value, 2))
    assert not list(tmp_path.iterdir())


@given(st.data())
def test_damaged_pickles_raise_a_format_error_or_give_a_value(data: st.DataObject) -> None:
    whole = bytearray(pickle.dumps({"entries": [{"process_group": ("0", "default_pg"), "seq": 5}] * 3}, 2))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    with contextlib.suppress(TraceFormatError):
        load_plain("dump", bytes(whole[:cut]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    job = SimulatedJob(3)
    job.steps(1)
    job.enter([0, 2])
    return job.write(tmp_path / "dumps")


def test_pickles_and_json_of_one_job_read_alike(folder: Path) -> None:
    expected = cudalens.load_flight_recorder(folder)
    for path in folder.glob("*_1.json"):
        path.with_suffix(".pickle").write_bytes(pickle.dumps(json.loads(path.read_text()), 2))
        path.unlink()
    found = cudalens.load_flight_recorder(folder)
    assert found.verdict == expected.verdict
    assert found.entries.equals(expected.entries)


@pytest.mark.parametrize("name", ["nccl_trace_rank_{}", "fr-{}.json", "Rank{}_trace", "{}"])
def test_ranks_are_in_the_names_of_the_files(folder: Path, name: str) -> None:
    for path in folder.glob("*.state.json"):
        path.unlink()
    for path in folder.iterdir():
        path.rename(folder / name.format(path.name.split(".")[0].removeprefix("rank_")))
    assert sorted(cudalens.load_flight_recorder(folder).entries["rank"].unique()) == [0, 1, 2]


def test_files_that_are_no_dump_are_counted(folder: Path) -> None:
    (folder / "rank_7.json").write_text("[1, 2]")
    (folder / "rank_8.pickle").write_bytes(b"\x80\x02cos\nmkdir\n.")
    (folder / "notes.md").write_text("ours")
    text = str(cudalens.load_flight_recorder(folder))
    assert "a file is not a dump (twice): " in text


def test_an_entry_that_cannot_be_read_costs_one_entry(folder: Path) -> None:
    path = folder / "rank_1.dump_1.json"
    dump = json.loads(path.read_text())
    dump["entries"][1]["process_group"] = 5
    path.write_text(json.dumps(dump))
    record = cudalens.load_flight_recorder(folder)
    assert (record.entries["rank"] == 1).sum() == 2
    assert "cannot be read" in str(record)


@pytest.mark.parametrize("make", ["nothing", "file", "empty"])
def test_a_folder_without_dumps_is_an_error(tmp_path: Path, make: str) -> None:
    target = tmp_path / "dumps"
    if make == "file":
        target.write_text("")
    elif make == "empty":
        target.mkdir()
    with pytest.raises(TraceFormatError, match="watch_hangs"):
        cudalens.load_flight_recorder(target)
