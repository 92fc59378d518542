"""Bubbles of interleaved pipelines, the load of experts, and ranks that are slow by their clock."""

import json

import jobs
import numpy as np
import pandas as pd
import pytest
from jobs import Job, Plant

import cudalens
from cudalens.frames import Ranks
from cudalens.frames.catalog_frames import empty_frame

INTERLEAVED = Job(data=2, stages=2, chunks=2, micro=4, steps=3, layers=1, plants=(Plant("rank", 3, "aten::mm", 1.6),))


@pytest.fixture(scope="module")
def interleaved(tmp_path_factory):
    return cudalens.load_ranks(jobs.simulate(INTERLEAVED).write(tmp_path_factory.mktemp("job")))


def test_a_slow_rank_of_an_interleaved_pipeline_is_named_with_its_cost(interleaved):
    first = interleaved.analysis.stragglers.found[0]
    assert (first.rank, first.op.split(" ")[0]) == (3, "aten::mm")
    lost = jobs.simulate(INTERLEAVED).step_ends[-1] - jobs.simulate(INTERLEAVED.clean()).step_ends[-1]
    assert first.loss_ns * INTERLEAVED.steps == pytest.approx(lost, rel=0.05)


def test_bubbles_of_an_interleaved_pipeline_are_the_waits_for_what_is_received(interleaved):
    found = interleaved.analysis.bubbles.groupby("rank")["bubble_ns"].sum()
    result = jobs.simulate(INTERLEAVED)
    for rank in interleaved:
        received = [row[1] for row in result.ranks[rank].rows if row[0] == "comm" and row[2] == "recv"]
        waits = sum(max(comm.arrived.values()) - comm.arrived[rank] for comm in received)
        assert found[rank] == pytest.approx(waits, rel=0.02, abs=50_000)


def all_to_all(rank, sent, received):
    facts = {
        "Collective name": "all_to_allv", "In msg nelems": sent, "Out msg nelems": received, "dtype": "BFloat16",
        "Process Group Name": "ep", "Group size": 3, "Process Group Ranks": "[0, 1, 2]", "Seq": 1,
        "device": 0, "stream": 7, "correlation": 1,
    }  # fmt: skip
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 1, "tid": 1, "ts": 10, "dur": 900}
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 20, "dur": 5}
    kernel = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv()", "pid": 0, "tid": 7, "ts": 50, "dur": 100}
    events = [step | {"args": {}}, launch | {"args": {"correlation": 1}}, kernel | {"args": facts}]
    around = {"backend": "nccl", "rank": rank, "world_size": 3}
    return json.dumps({"schemaVersion": 1, "distributedInfo": around, "traceEvents": events})


def test_the_expert_that_receives_most_is_named(tmp_path):
    for rank, received in enumerate((100, 100, 400)):
        (tmp_path / f"rank-{rank}.json").write_text(all_to_all(rank, 200, received))
    ranks = cudalens.load_ranks(tmp_path)
    load = ranks.analysis.experts
    assert load[["rank", "step", "in_elements", "out_elements"]].values.tolist() == [
        [0, 4, 200, 100],
        [1, 4, 200, 100],
        [2, 4, 200, 400],
    ]
    assert load["load_pct"].tolist() == [50, 50, 200]
    assert "Rank 2 receives 100 % more in all-to-alls than the mean rank in step 4" in str(ranks.summary())


@pytest.mark.parametrize(("clock_mhz", "cause"), [(1_200, "clock"), (1_750, "all operators")])
def test_a_rank_at_a_lower_clock_is_slow_by_its_clock(tmp_path, clock_mhz, cause):
    job = Job(data=3, steps=3, layers=1, plants=(Plant("rank", 1, None, 1.4),))
    loaded = cudalens.load_ranks(jobs.simulate(job).write(tmp_path))

    def with_clock(trace, mhz):
        rows = pd.DataFrame({"clock_mhz": np.full(4, mhz)}).reindex(columns=empty_frame("metrics").columns)
        metrics = rows.assign(ts=trace.events["ts"].iloc[0], device=0)
        return trace.replace(metrics=metrics.astype(empty_frame("metrics").dtypes.to_dict()))

    clocks = {rank: clock_mhz if rank == 1 else 1_755 for rank in loaded}
    ranks = Ranks({rank: with_clock(trace, clocks[rank]) for rank, trace in loaded.items()}, name="job")
    assert ranks.frames["summary"]["clock_mhz"].tolist() == [1_755, clock_mhz, 1_755]
    (one,) = ranks.analysis.stragglers.found
    assert (one.rank, one.cause) == (1, cause)
