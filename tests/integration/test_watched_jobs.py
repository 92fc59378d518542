"""A rank of a real job of gloo processes becomes slower: all ranks report it, and the view of all names the rank."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import programs

import cudalens
from cudalens.watching.ranks import WatchedRanks
from cudalens.watching.run import WatchedChange, WatchedRun


def planted_change(run: WatchedRun) -> WatchedChange:
    """The change that was planted: it is in the recorded steps, so its cause is known.

    A busy machine adds others, which may be larger and end before a step is recorded, and delays the detection.
    """
    explained = [change for change in run.changes if change.kinds]
    return max(explained, key=lambda change: change.after_ns / change.before_ns)


SLOW = 1


def test_a_rank_that_becomes_slower_is_named(tmp_path: Path) -> None:
    done = programs.run(Path(__file__).with_name("slow_rank_job.py"), tmp_path / "job", "3", str(SLOW))
    assert done.returncode == 0, done.stderr
    job = cudalens.load(tmp_path / "job")
    assert isinstance(job, WatchedRanks)
    changes = {rank: planted_change(run) for rank, run in job.runs.items()}
    planted = WatchedRanks({rank: replace(run, changes=(changes[rank],)) for rank, run in job.runs.items()})
    assert f"rank {SLOW} arrives last: the others wait" in planted.verdict
    for rank, change in changes.items():
        assert (change.kinds[0] == "communication") == (rank != SLOW), (rank, change.causes)
