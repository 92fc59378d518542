"""Parquet and CSV files, read back with common libraries."""

import json
from csv import DictReader

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from budget import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudalens.errors import OutputError
from cudalens.frames import FRAMES, RunInfo, StackTable, Trace, build_events
from cudalens.frames.files import atomic_folder

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
ROW = st.fixed_dictionaries(
    {"ts": st.integers(0, 10**6), "dur": st.integers(0, 10**6), "name": TEXT, "module": st.none() | TEXT},
    optional={"external_id": st.integers(-(1 << 62), 1 << 62), "occupancy_pct": st.floats(0, 100, width=32)},
)


def trace_of(rows):
    columns = {
        "ts": np.array([row["ts"] for row in rows], np.int64),
        "dur": np.array([row["dur"] for row in rows], np.int64),
        "name": pd.Categorical([row["name"] for row in rows], categories=sorted({row["name"] for row in rows})),
        "cat": pd.Categorical(["cpu_op"] * len(rows)),
        "module": pd.Categorical([row["module"] for row in rows]),
        "external_id": pd.array([row.get("external_id") for row in rows], dtype="Int64"),
        "occupancy_pct": pd.array([row.get("occupancy_pct") for row in rows], dtype="Float32"),
        "tid": pd.array([1] * len(rows), dtype="Int64"),
    }
    stacks = StackTable()
    stacks.add(["a.py(1): f", '<built-in, "quoted">'])
    return Trace(RunInfo(name="r", source="cpu"), events=build_events(columns), stacks=stacks.to_frame())


def plain(values):
    return [None if value is None or value is pd.NA or value != value else value for value in values]


def assert_same(table, frame):
    assert table.column_names == list(frame.columns)
    for name in frame.columns:
        assert plain(table[name].to_pylist()) == plain(frame[name].astype(object).tolist()), name


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, max_size=8))
def test_round_trip(tmp_path, rows):
    trace = trace_of(rows)
    parquet, csv = trace.to_parquet(tmp_path / "pq"), trace.to_csv(tmp_path / "csv")
    for name, frame in trace.frames.items():
        assert_same(pq.read_table(parquet / f"{name}.parquet"), frame)
        table = pq.read_table(parquet / f"{name}.parquet").schema
        types = {field.name: field.type for field in table}
        options = pa_csv.ConvertOptions(
            column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        )
        parsing = pa_csv.ParseOptions(newlines_in_values=True)
        assert_same(pa_csv.read_csv(csv / f"{name}.csv", convert_options=options, parse_options=parsing), frame)


def test_folders_hold_every_frame_and_the_facts(tmp_path):
    trace = trace_of([])
    folder = trace.to_csv(tmp_path / "csv")
    assert {file.name for file in folder.iterdir()} == {f"{name}.csv" for name in FRAMES} | {"info.json"}
    assert json.loads((folder / "info.json").read_bytes())["name"] == "r"
    header = (folder / "events.csv").read_text().splitlines()
    assert len(header) == 1
    assert header[0].startswith('"ts","dur"')


def test_one_frame_in_one_file(tmp_path):
    trace = trace_of([{"ts": 1, "dur": 2, "name": "a", "module": None}])
    assert_same(pq.read_table(trace.to_parquet(tmp_path / "x.parquet")), trace.events)
    assert_same(pq.read_table(trace.to_parquet(tmp_path / "x.parquet", frame="stacks")), trace.stacks)
    assert pq.read_schema(tmp_path / "x.parquet").field("file").type == pa.string()
    with pytest.raises(ValueError, match="a Trace has events"):
        trace.to_parquet(tmp_path / "x.parquet", frame="nonsense")


def test_a_folder_keeps_what_is_not_ours(tmp_path):
    folder = tmp_path / "csv"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "events.csv").write_text("old")
    trace_of([]).to_csv(folder)
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "events.csv").read_text() != "old"
    assert [file.name for file in tmp_path.iterdir()] == ["csv"]


@pytest.mark.parametrize("method", ["to_csv", "to_parquet", "to_hta"])
def test_refused_targets(tmp_path, method):
    trace = trace_of([])
    (tmp_path / "file").write_text("x")
    for target in (tmp_path / "file", tmp_path / "missing" / "folder"):
        with pytest.raises(OutputError):
            getattr(trace, method)(target)
    assert (tmp_path / "file").read_text() == "x"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_a_text_that_a_spreadsheet_takes_for_a_formula_is_written_exactly(tmp_path, name):
    folder = trace_of([{"ts": 1, "dur": 2, "name": name, "module": None}]).to_csv(tmp_path / "csv")
    with (folder / "events.csv").open(newline="", encoding="utf-8") as file:
        assert [row["name"] for row in DictReader(file)] == [name]


def test_csv_is_a_folder(tmp_path):
    with pytest.raises(OutputError, match="give a folder"):
        trace_of([]).to_csv(tmp_path / "x.csv")


def test_a_folder_that_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("old")

    def fail():
        with atomic_folder(tmp_path / "out") as made:
            (made / "a").write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "out" / "a").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
