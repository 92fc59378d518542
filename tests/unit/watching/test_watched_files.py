"""The folder of a watched run: what was written is read, and a damaged file is an error that says where."""

import json

import numpy as np
import pytest

import cudalens
from cudalens.__main__ import main
from cudalens.watching import record
from cudalens.watching.run import (
    HISTORY_NAME,
    STEP_COLUMNS,
    WatchedChange,
    WatchedRecording,
    WatchedRun,
    WatchFacts,
    read_watched,
    write_history,
)

FACTS = WatchFacts("run", "ok", 1, 2, 30, "optimizer", "host", 0.02, 0.01, 1)


def a_run(**changes):
    columns = {name: np.arange(30, dtype=np.int64) + 1 for name in STEP_COLUMNS}
    columns["elements"] = np.full(30, -1, np.int64)
    changed = WatchedChange(20, 5, 1e6, 2e6, 28, ("+1.00 ms in data loading",), ("data loading",))
    recording = WatchedRecording(3, 2, 7, 1e6, "first", "a verdict", {"operators": 1e6})
    return WatchedRun(
        **{"facts": FACTS, "columns": columns, "changes": (changed,), "recordings": (recording,), **changes}
    )


def damaged(folder, **changes):
    write_history(a_run(), folder)
    path = folder / HISTORY_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def test_a_run_is_read_as_it_was_written(tmp_path):
    write_history(a_run(), tmp_path)
    found = read_watched(tmp_path)
    assert (found.facts, found.changes, found.recordings) == (FACTS, a_run().changes, a_run().recordings)
    assert found.steps().equals(a_run().steps())
    assert found.steps()["elements"].isna().all()


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 99},
        {"steps": {"step": [1]}},
        {"steps": {name: [2**80] for name in STEP_COLUMNS}},
        {"changes": [{"step": "x"}]},
        {"facts": None},
    ],
)
def test_a_damaged_history_is_an_error_with_its_path(tmp_path, changes):
    with pytest.raises(cudalens.TraceFormatError, match="watch"):
        read_watched(damaged(tmp_path, **changes))


def test_no_file_outside_of_the_folder_is_read(tmp_path):
    recordings = [{"step": -1, "num_steps": 1, "ts": 0, "step_ns": 1, "reason": "../../x"}]
    assert read_watched(damaged(tmp_path, recordings=recordings)).recordings == ()


def test_a_recording_whose_file_is_gone_is_an_error(tmp_path):
    write_history(a_run(), tmp_path)
    run = read_watched(tmp_path)
    with pytest.raises(cudalens.TraceFormatError, match=r"step-3\.cudalens"):
        run.trace(run.recordings[0])


def test_verbs_show_a_watched_folder_or_say_that_it_is_no_trace(tmp_path, capsys):
    with cudalens.watch("job", folder=tmp_path / "run") as w:
        w.step()
    main(["summary", str(tmp_path / "run")])
    assert "job, ended" in capsys.readouterr().out
    main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "run.html")])
    assert "job, ended" in (tmp_path / "run.html").read_text()
    assert main(["brief", str(tmp_path / "run")])
    assert "the folder of a watched run" in capsys.readouterr().err


@pytest.mark.parametrize(("num_steps", "steps"), [(1, "step 7"), (3, "steps 7 to 9")])
def test_the_verdict_says_which_steps_were_recorded(num_steps, steps):
    columns = {name: np.full(1, 20_000_000) for name in STEP_COLUMNS}
    recording = WatchedRecording(7, num_steps, 7, 19_000_000, "last", "19.0 ms, GPU busy 71 %", {})
    verdict = record.verdict(WatchedRun(FACTS, columns, recordings=(recording,)))
    assert verdict == f"step 30: 20.0 ms a step; recorded {steps}: 19.0 ms, GPU busy 71 %"
