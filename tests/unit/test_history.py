"""Past runs: what is kept, what a new run is compared with, and files that cannot be used."""

import json
import os
import sqlite3
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens import history
from cudalens.api.history import HistoryFile, PastRun
from cudalens.errors import HistoryError
from cudalens.frames import DeviceInfo, RunInfo, Trace, build_events
from cudalens.views.sections import verdict as text

MS = 1_000_000


@pytest.fixture(autouse=True)
def nothing_before_and_after():
    history.clear()
    history.off()
    yield
    history.clear()
    history.off()


def run(ms, name="cell-1", code="train()", device="A100", **info):
    events = build_events(
        {
            "ts": np.array([0]),
            "dur": np.array([1000]),
            "name": np.array(["aten::add"]),
            "cat": np.array(["cpu_op"]),
            "pid": pd.array([1], dtype="Int64"),
            "tid": pd.array([1], dtype="Int64"),
        }
    )
    known = {"name": name, "source": "cuda", "started_ns": 0, "ended_ns": round(ms * MS), "code": code}
    return Trace(RunInfo(**(known | {"devices": (DeviceInfo(0, device),)} | info)), events=events)


def baselines(*runs, **where):
    return [history.record(one, **where).info.baseline for one in runs]


def test_the_fourth_run_is_compared_with_the_three_before():
    *first, last = baselines(run(10), run(10.1), run(9.9), run(11.8))
    assert first == [None] * 3
    assert (last.num_runs, last.median_ns, last.value_ns) == (3, 10 * MS, 11_800_000)
    assert not last.is_within
    assert last.change_pct == pytest.approx(18)


def test_the_verdict_reports_it_and_nothing_within_the_band():
    for ms in (10, 10.1, 9.9):
        history.record(run(ms))
    slower, faster = history.record(run(11.8)), run(10.4)
    assert "18 % slower than the last 3 runs (10.0 ms)" in text.verdict(slower).partition("; ")[0]
    assert "than the last" not in text.verdict(history.record(faster))


def test_the_band_is_as_wide_as_the_runs_lie_apart():
    *_, noisy = baselines(run(10), run(14), run(9), run(12), run(10.5), run(13.9))
    assert noisy.is_within
    *_, out = baselines(run(30))
    assert not out.is_within


@pytest.mark.parametrize(
    "other",
    [{"code": "other()"}, {"device": "H100"}, {"source": "virtual:h100"}, {"options": {"stacks": True}}],
)
def test_what_is_not_alike_is_not_compared(other):
    *_, alone = baselines(run(10), run(10), run(10), run(20, **other))
    assert alone is None


def test_a_cell_is_known_by_its_source_and_a_named_run_by_its_name():
    *_, moved = baselines(*(run(10, name=f"cell-{n}") for n in (1, 2, 7)), run(20, name="cell-9"))
    assert moved.num_runs == 3
    *_, renamed = baselines(*(run(10, name="train") for _ in range(3)), run(20, name="train", code="better()"))
    assert (renamed.num_runs, renamed.has_other_code) == (3, True)


def test_runs_that_failed_are_not_kept():
    for status in ("raised", "interrupted"):
        assert history.record(run(10, status=status)).info.baseline is None
    assert history.table().empty


def test_nothing_is_written_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    baselines(run(10), run(10))
    assert history.where() is None
    history.on()
    assert list(tmp_path.iterdir()) == []
    history.record(run(10))
    assert [path.name for path in tmp_path.iterdir()] == [history.DEFAULT_FILE]


def test_a_file_outlives_the_session(tmp_path):
    file = history.on(tmp_path / "h.jsonl")
    baselines(run(10), run(10), run(10))
    history.clear()
    (baseline,) = baselines(run(20))
    assert baseline.num_runs == 3
    assert len(history.table()) == 4
    history.off()
    assert len(history.table()) == 1  # what this session ran
    assert len(HistoryFile(file).last(10)) == 4


def test_a_file_for_one_run_alone(tmp_path):
    baselines(run(10), run(10), run(10), file=tmp_path / "h.jsonl")
    assert history.where() is None
    history.clear()
    assert baselines(run(20)) == [None]
    history.clear()
    assert baselines(run(20), file=tmp_path / "h.jsonl")[0].num_runs == 3


def test_the_table_holds_what_was_measured():
    history.record(run(10, name="train"))
    history.record(run(12))
    table = history.table()
    assert table["name"].tolist() == ["train", "cell-1"]
    assert table["value_ns"].tolist() == [10 * MS, 12 * MS]
    assert table["busy_ns"].isna().all()
    assert len(history.table("train")) == 1


def broken(path):
    path.write_bytes(b"not a history at all\n" * 100)


def foreign(path):
    path.write_bytes(b'{"name": "train", "loss": 3.0}\n')


def sqlite(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs (value_ns)")


def newer(path):
    HistoryFile(path).add(past(1))
    path.write_text(path.read_text().replace('"cudalens_history":1', '"cudalens_history":99'))


def twisted(path):
    HistoryFile(path).add(past(1))
    HistoryFile(path).add(past(2))
    path.write_text(path.read_text().replace('"value_ns":2', '"value_ns":"many"'))


def too_large(path):
    HistoryFile(path).add(past(1))
    path.write_text(path.read_text().replace('"value_ns":1', f'"value_ns":{2**63}'))


def cut_off(path):
    HistoryFile(path).add(past(1))
    HistoryFile(path).add(past(2))
    path.write_bytes(path.read_bytes()[:-9])


def endless(path):
    path.write_bytes(b" " * (1 << 20))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (broken, "line 1: damaged"),
        (foreign, "line 1: a file of another program"),
        (sqlite, "an SQLite file, as earlier versions of cudalens wrote"),
        (newer, "line 1: version 99"),
        (twisted, "line 2: damaged.*value_ns"),
        (too_large, "line 1: damaged.*value_ns"),
        (cut_off, "line 2: no end of the line"),
        (endless, "line 1: no end of the line in 65,536 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_left_alone(tmp_path, spoil, said):
    path = tmp_path / "h.jsonl"
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(HistoryError, match=said):
        history.on(path)
    with pytest.raises(HistoryError, match=said):
        HistoryFile(path).add(past(3))
    assert path.read_bytes() == before
    assert history.where() is None


def test_each_run_is_a_line_that_any_program_can_read(tmp_path):
    path = tmp_path / "h.jsonl"
    HistoryFile(path).add(past(1))
    first = path.read_bytes()
    HistoryFile(path).add(past(2))
    assert path.read_bytes().startswith(first)
    assert [json.loads(line)["value_ns"] for line in path.read_text().splitlines()] == [1, 2]


def test_runs_of_several_processes_do_not_mix(tmp_path):
    path = tmp_path / "h.jsonl"
    with ThreadPoolExecutor(4) as pool:  # each opens the file for itself, as a process does
        list(pool.map(lambda number: HistoryFile(path).add(past(number, "x" * number)), range(100)))
    assert sorted(one.value_ns for one in HistoryFile(path).last(1000)) == list(range(100))


@given(st.text(), st.integers(0, 2**63 - 1), st.none() | st.integers(0, 2**63 - 1))
def test_a_run_is_read_as_it_was_written(text, value_ns, busy_ns):
    run = PastRun(value_ns, text, text, text, text, text, value_ns, 3, value_ns, busy_ns, busy_ns)
    with tempfile.TemporaryDirectory() as folder:
        file = HistoryFile(Path(folder) / "h.jsonl")
        file.add(run)
        assert file.last(1, text, text) == [run]


def test_a_run_is_not_lost_with_the_file(tmp_path):
    broken(tmp_path / "h.jsonl")
    baselines(run(10), run(10), run(10))
    with pytest.warns(history.HistoryWarning, match="damaged"):
        known = history.record(run(20), tmp_path / "h.jsonl")
    assert known.info.baseline.num_runs == 3


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    path = tmp_path / "h.jsonl"
    HistoryFile(path).add(past(1))

    def refuse(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    with pytest.warns(history.HistoryWarning, match="the run was not added .No space left on device"):
        history.record(run(10), path)
    monkeypatch.undo()
    assert len(HistoryFile(path).last(10)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of the size of files")
def test_a_full_disk_in_the_middle_of_a_line_leaves_the_file_as_it_was(tmp_path):
    """The kernel writes what there is room for, and reports no error for that part."""
    import resource

    path = tmp_path / "h.jsonl"
    HistoryFile(path).add(past(1))
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
    try:
        with pytest.raises(HistoryError, match=r"the run was not added \(File too large\)"):
            HistoryFile(path).add(past(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    HistoryFile(path).add(past(2))
    assert [one.value_ns for one in HistoryFile(path).last(10)] == [1, 2]


def test_a_line_that_is_too_long_to_read_is_not_written(tmp_path):
    path = tmp_path / "h.jsonl"
    HistoryFile(path).add(past(1))
    with pytest.raises(HistoryError, match=r"its line has 70,\d+ bytes, at most 65,536 are read; give a shorter name"):
        HistoryFile(path).add(past(2, "x" * 70_000))
    longest = 65_536 - len(HistoryFile(path).path.read_bytes())
    HistoryFile(path).add(past(3, "x" * longest))
    assert [one.value_ns for one in HistoryFile(path).last(10)] == [1, 3]


def test_a_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(HistoryError, match="a folder; give the name of a file in it"):
        history.on(tmp_path)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that is read-only for every user")
def test_a_folder_that_cannot_be_written_is_reported_at_once():
    """Not with the first run: by then the user relies on it."""
    with pytest.raises(HistoryError, match=r"nothing can be written to its folder \(.+\)"):
        history.on("/proc/history.jsonl")
    assert history.where() is None


def test_a_folder_that_is_missing(tmp_path):
    with pytest.raises(HistoryError, match="there is no folder"):
        history.on(tmp_path / "none" / "h.jsonl")


def past(value_ns, code_hash=""):
    return PastRun(value_ns, "series", "setting", "name", code_hash, "device", value_ns, 0, value_ns, None, None)


@given(st.lists(st.integers(1, 10**12), min_size=3, max_size=15), st.integers(1, 10**12))
def test_the_band_by_its_definition(values, value):
    baseline = history.compared(past(value), [past(one) for one in values])
    last = np.array(values[-10:], float)
    spread = 3 * 1.4826 * np.median(np.abs(last - np.median(last)))
    half = max(spread, 0.05 * np.median(last))
    assert baseline.num_runs == len(last)
    assert baseline.low_ns == pytest.approx(max(0, min(np.median(last) - half, last.min())), abs=1)
    assert baseline.high_ns == pytest.approx(max(np.median(last) + half, last.max()), abs=1)
    assert all(history.compared(past(one), [past(v) for v in values]).is_within for one in values[-10:])
