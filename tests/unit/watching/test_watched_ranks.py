"""Ranks that watch themselves write into one folder; the view names the rank that arrives last."""

import dataclasses

import msgspec
import numpy as np
import pytest
import torch

import cudalens
from cudalens.watching.ranks import WatchedRanks
from cudalens.watching.run import STEP_COLUMNS, WatchedRecording, WatchedRun, WatchFacts

MS = 1_000_000


def a_rank(rank, communication_ms):
    facts = WatchFacts("job", "running", 1, 2, 40, "optimizer", "device", 0.02, 0.01, 1, rank=rank)
    columns = {name: np.zeros(40, np.int64) for name in STEP_COLUMNS}
    columns |= {"step": np.arange(40), "num_steps": np.ones(40, np.int64), "dur": np.full(40, 20 * MS)}
    parts = {"GPU compute": 10.0 * MS, "communication": communication_ms * 1.0 * MS}
    return WatchedRun(facts, columns, recordings=(WatchedRecording(3, 2, 7, 20 * MS, "last", "", parts),) * 3)


@pytest.mark.parametrize("late", range(4))
def test_the_rank_that_waits_least_arrives_last(late):
    job = WatchedRanks({rank: a_rank(rank, 1 if rank == late else 6) for rank in range(4)})
    assert job.verdict == f"4 ranks, 20.0 ms a step; rank {late} arrives last: the others wait 5.00 ms a step for it"
    assert f"rank {late} arrives last" in str(job)
    assert "<svg" in job._repr_html_()


def test_ranks_without_a_gpu_are_judged_by_their_collectives():
    parts = {"operators": 9.0 * MS, "communication": 8.0 * MS}
    runs = {rank: a_rank(rank, 0) for rank in range(3)}
    for rank, run in runs.items():
        mine = parts | ({"communication": 1.0 * MS} if rank == 1 else {})
        runs[rank] = dataclasses.replace(run, recordings=(WatchedRecording(3, 2, 7, 20 * MS, "last", "", mine),) * 3)
    assert "rank 1 arrives last: the others wait 7.00 ms" in WatchedRanks(runs).verdict


def test_a_recording_of_an_unusually_long_step_does_not_count():
    runs = {rank: a_rank(rank, 6) for rank in range(3)}
    usual = runs[1].recordings
    long = msgspec.structs.replace(usual[0], step_ns=200 * MS, parts=usual[0].parts | {"communication": 1.0 * MS})
    runs[1] = dataclasses.replace(runs[1], recordings=(*usual, long, long, long))
    assert WatchedRanks(runs).verdict == "3 ranks, 20.0 ms a step"


def with_waits(runs, rank, *waits_ms):
    """Another recording for each of the times that `rank` waited."""
    (one, *_) = runs[rank].recordings
    parts = [one.parts | {"communication": wait * 1.0 * MS} for wait in waits_ms]
    found = tuple(msgspec.structs.replace(one, parts=some) for some in parts)
    return runs | {rank: dataclasses.replace(runs[rank], recordings=found)}


def test_a_rank_that_is_late_in_some_recordings_only_is_not_the_last_one():
    runs = {rank: a_rank(rank, 6) for rank in range(3)}
    assert "rank 1 arrives last" in WatchedRanks(with_waits(runs, 1, 1, 2, 3)).verdict
    assert "arrives last" not in WatchedRanks(with_waits(runs, 1, 1, 1, 7)).verdict
    assert "arrives last" not in WatchedRanks(with_waits(runs, 1, 1, 1)).verdict


def test_ranks_that_wait_equally_long_have_no_last_one():
    assert WatchedRanks({rank: a_rank(rank, 6) for rank in range(4)}).verdict == "4 ranks, 20.0 ms a step"


def test_each_rank_writes_its_own_folder_and_one_load_shows_all(tmp_path, monkeypatch):
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        with cudalens.watch("job", folder=tmp_path) as w:
            for _ in range(10):
                torch.ones(4).sum()
                w.step()
    job = cudalens.load(tmp_path)
    assert [run.facts.rank for run in job.runs.values()] == [0, 1]
    assert job.verdict.startswith("2 ranks, ")
    assert job[1].steps["step"].tolist() == list(range(10))
    assert job.to_html(tmp_path / "job.html").exists()
