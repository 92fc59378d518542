"""Loading the ranks of a job: in this process, in others, on Dask; stores, windows and files that fail."""

import os
import shutil
import subprocess
import sys

import jobs
import pandas as pd
import pytest

import cudalens
from cudalens.api import load_ranks
from cudalens.api.load_ranks import RankTask, in_processes
from cudalens.errors import OutputError, TraceFormatError
from cudalens.frames import Ranks

JOB = jobs.Job(data=2, steps=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return jobs.simulate(JOB).write(tmp_path_factory.mktemp("job"))


@pytest.fixture(scope="module")
def loaded(folder):
    return cudalens.load_ranks(folder)


@pytest.fixture(scope="module")
def store(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("ranks") / "store"
    cudalens.load_ranks(folder, store=path)
    return path


def assert_same(frames, others):
    assert list(frames) == list(others)
    for name, frame in frames.items():
        pd.testing.assert_frame_equal(frame, others[name], obj=name)


def test_frames_hold_what_the_analyses_of_each_rank_find(loaded):
    analysis = cudalens.analysis
    found = loaded.frames
    for name, function in (("kernels", analysis.kernel_breakdown), ("operators", analysis.op_breakdown)):
        pd.testing.assert_frame_equal(found[name].astype({"name": str}), function(loaded).astype({"name": str}))
    steps = analysis.temporal_breakdown(loaded, "step")
    pd.testing.assert_frame_equal(found["steps"][steps.columns.tolist()], steps, check_dtype=False)
    collectives = analysis.collectives(loaded)
    for name in ("rank", "ts", "dur", "num_bytes", "group_size", "step", "stream"):
        assert found["collectives"][name].tolist() == collectives[name].tolist()


def test_processes_find_the_same(folder, loaded):
    tasks = [RankTask(str(folder / f"rank-{rank}.json"), rank) for rank in range(JOB.ranks)]
    results = {one.rank: one for one in in_processes(tasks, 2)}
    for rank, one in results.items():
        for name, frame in one.reduction.frames.items():
            mine = loaded.frames[name]
            assert (
                frame.astype(str).values.tolist() == mine[mine["rank"] == rank].iloc[:, 1:].astype(str).values.tolist()
            )


def test_a_process_that_dies_is_replaced_and_one_file_fails(folder, tmp_path, monkeypatch):
    """A module that ends the process while it imports pandas: the file is reported, nothing hangs."""
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(9)")
    monkeypatch.syspath_prepend(str(tmp_path))
    (result,) = in_processes([RankTask(str(folder / "rank-0.json"), 0)], 1)
    assert "ended with code" in result.error


def test_a_fork_that_dies_is_reported_with_its_code(folder, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import os; os.register_at_fork(after_in_child=lambda: os._exit(9))")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(load_ranks, "_TRIES", 1)
    (result,) = in_processes([RankTask(str(folder / "rank-0.json"), 0)], 1)
    assert result.error == "OSError: the process that read it ended with code 9"


def test_a_dask_client_finds_the_same(folder, loaded, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        found = cudalens.load_ranks(folder, client=client, store=tmp_path / "store")
    assert_same(found.frames, loaded.frames)
    assert found.problems == loaded.problems
    for rank, trace in loaded.items():
        assert trace.info.replace(build_s=0) == found[rank].info.replace(build_s=0)
        pd.testing.assert_frame_equal(found[rank].events, trace.events)
        pd.testing.assert_frame_equal(found[rank].stacks, trace.stacks)


def test_a_store_is_opened_without_the_traces(tmp_path, loaded):
    folder = jobs.simulate(JOB).write(tmp_path / "job")
    cudalens.load_ranks(folder, store=tmp_path / "store")
    for file in folder.iterdir():
        file.unlink()
    found = Ranks.open(tmp_path / "store")
    assert (list(found), found.name, found.problems) == ([0, 1], "job", ())
    assert_same(found.frames, loaded.frames)
    pd.testing.assert_frame_equal(found[1].events, loaded[1].events)
    assert found[1].info.trust == loaded[1].info.trust
    assert [str(one) for one in cudalens.analysis.findings(found)] == [
        str(one) for one in cudalens.analysis.findings(loaded)
    ]


def test_a_store_can_be_in_any_file_system(folder, loaded):
    found = cudalens.load_ranks(folder, store="memory://ranks-store", select=[1])
    assert list(found) == [1]
    assert found.problems == ()
    pd.testing.assert_frame_equal(Ranks.open("memory://ranks-store")[1].events, loaded[1].events)


def test_sources_can_be_urls_patterns_and_lists(folder, loaded):
    from fsspec.implementations.memory import MemoryFileSystem

    memory = MemoryFileSystem()
    for path in folder.iterdir():
        memory.pipe_file(f"/ranks-job/{path.name}", path.read_bytes())
    for source in ("memory://ranks-job", str(folder / "rank-*.json"), sorted(folder.iterdir())):
        found = cudalens.load_ranks(source)
        assert_same(found.frames, loaded.frames)
    assert found.name == folder.name


def test_a_folder_with_other_files_is_no_store(folder, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="holds other files"):
        cudalens.load_ranks(folder, store=tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_a_store_is_replaced_as_a_whole(folder, store, tmp_path):
    shutil.copytree(store, tmp_path / "store")
    cudalens.load_ranks(folder, store=tmp_path / "store", select=[1])
    assert list(Ranks.open(tmp_path / "store")) == [1]
    assert [path.name for path in (tmp_path / "store" / "events").iterdir()] == ["part-00000.parquet"]


@pytest.mark.parametrize("damage", ["absent", "json", "version", "part"])
def test_a_damaged_store_is_refused(store, tmp_path, damage):
    store = shutil.copytree(store, tmp_path / "store")
    head = store / "job.json"
    if damage == "absent":
        head.unlink()
    elif damage == "json":
        head.write_text("{")
    elif damage == "version":
        head.write_text(head.read_text().replace('"version":1', '"version":7'))
    else:
        (store / "events" / "part-00000.parquet").write_bytes(b"PAR1 not parquet")
    with pytest.raises(TraceFormatError, match=r"load_ranks|version"):
        Ranks.open(store)[0]


def test_a_window_has_the_rows_of_a_step_of_some_ranks(loaded, store):
    for ranks in (loaded, Ranks.open(store)):
        window = ranks.window(step=1, ranks=[0, 1], columns=["name", "ts"])
        assert list(window.columns) == ["rank", "name", "ts"]
        for rank in (0, 1):
            events = loaded[rank].events
            wanted = events[events["step"] == 1]
            assert window[window["rank"] == rank]["ts"].tolist() == wanted["ts"].tolist()
            assert window[window["rank"] == rank]["name"].tolist() == wanted["name"].tolist()
    assert len(loaded.window()) == sum(map(len, loaded.values()))
    with pytest.raises(KeyError, match="no rank 9"):
        loaded.window(ranks=[9])


def test_events_of_all_ranks_are_a_dask_dataframe(loaded, store):
    pytest.importorskip("dask.dataframe")
    for ranks in (loaded, Ranks.open(store)):
        events = ranks.events
        assert events.npartitions == 2
        busy = events[events["cat"] == "kernel"].groupby("rank")["dur"].sum().compute()
        assert {rank: int(ns) for rank, ns in busy.items()} == {
            rank: int(trace.events.loc[trace.events["cat"] == "kernel", "dur"].sum()) for rank, trace in loaded.items()
        }


def test_traces_are_read_when_they_are_used(store):
    loaded = Ranks.open(store)
    assert loaded[0] is loaded[0]
    with pytest.raises(KeyError, match="there is no rank 9 in"):
        loaded[9]


def test_a_rank_that_fails_does_not_stop_the_others(tmp_path):
    folder = jobs.simulate(JOB).write(tmp_path / "job")
    (folder / "rank-0.json").write_text('{"traceEvents": [')
    for options in ({}, {"store": tmp_path / "store"}):
        found = cudalens.load_ranks(folder, **options)
        assert list(found) == [1]
        kinds = {problem.kind: problem.where for problem in found.problems}
        assert "rank-0.json" in kinds["file that cannot be read"]
        assert kinds["rank without a file"] == "rank 0 of 2"


def test_import_cudalens_does_not_import_dask():
    code = "import cudalens, sys; cudalens.load_ranks; cudalens.frames.Ranks; print({*sys.modules} & {*sys.argv})"
    done = subprocess.run(
        [sys.executable, "-c", code, "dask", "distributed"], capture_output=True, text=True, env=os.environ, check=True
    )
    assert done.stdout.strip() == "set()"
