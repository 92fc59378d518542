"""Stragglers, clocks and matches of simulated jobs whose truth is known; CUDALENS_HYPOTHESIS=thorough runs many."""

import json
import os

import jobs
import numpy as np
import pandas as pd
import pytest
from jobs import Job, Plant

import cudalens

IS_THOROUGH = os.environ.get("CUDALENS_HYPOTHESIS") == "thorough"
#: Seeds of jobs; those of the ordinary suite have few ranks: reading a rank is what costs time.
PLANTED, HEALTHY, CLOCKS = (range(50), range(50), range(100)) if IS_THOROUGH else ((2, 7), (0,), (6,))
OPERATORS = ("aten::mm", "aten::addmm", "aten::gelu_backward", "aten::_foreach_add_")


def loaded(job, folder, form="today"):
    result = jobs.simulate(job)
    return result, cudalens.load_ranks(result.write(folder))


def random_job(seed, **changes):
    """A job of 2 to 16 ranks, with 1 to 4 stages, noise, offsets and drifts."""
    rng = np.random.default_rng([seed, 7])
    stages = int(rng.choice([1, 1, 2, 4]))
    options = {
        "stages": stages,
        "data": int(rng.integers(2, 5 if stages > 1 else 9)),
        "steps": int(rng.integers(4, 8)),
        "micro": int(rng.integers(max(stages, 2), stages + 3)),
        "noise": float(rng.uniform(0.005, 0.04)),
        "offset_ns": 10 ** float(rng.uniform(3, 10)),
        "drift_ppm": float(rng.uniform(0, 40)),
        "form": str(rng.choice(["today", "no_seq", "cpu_names"])),
    }
    return Job(seed=seed, **options | changes), rng


@pytest.mark.parametrize("seed", PLANTED)
def test_a_slow_rank_is_named_with_its_operator_and_its_cost(tmp_path, seed):
    job, rng = random_job(seed)
    plant = Plant("rank", int(rng.integers(job.ranks)), str(rng.choice(OPERATORS[:2])), float(rng.uniform(1.35, 2.0)))
    clean = jobs.simulate(job)
    while True:  # a slow rank that others do not wait for costs nothing
        job = Job(**vars(job) | {"plants": (plant,)})
        truth = jobs.simulate(job).step_ends[-1] - clean.step_ends[-1]
        if truth > 0.015 * clean.step_ends[-1]:
            break
        plant = Plant("rank", plant.where, plant.op, plant.factor * 1.3)
    result, ranks = loaded(job, tmp_path)
    first = ranks.analysis.stragglers.found[0]
    assert (first.rank, first.op.split(" ")[0]) == (plant.where, plant.op)
    assert first.is_persistent
    what_if = result.step_ends[-1] - first.loss_ns * job.steps
    assert what_if == pytest.approx(clean.step_ends[-1], rel=0.02)
    assert f"rank {plant.where} is " in ranks.summary().verdict


@pytest.mark.parametrize("factor", [1.1, 1.3, 2.0])
def test_peers_whose_compute_is_slower_beside_a_waiting_collective_do_not_hide_the_cost(tmp_path, factor):
    """While they wait for the slow rank, NCCL's kernels take SMs and bandwidth from the backward pass of its peers."""
    job = Job(data=4, steps=4, layers=6, shared=0.18, plants=(Plant("rank", 2, None, factor),), seed=5)
    lost = jobs.simulate(job).step_ends[-1] - jobs.simulate(job.clean()).step_ends[-1]
    _, ranks = loaded(job, tmp_path)
    first = ranks.analysis.stragglers.found[0]
    assert first.rank == 2
    assert first.loss_ns * job.steps == pytest.approx(lost, rel=0.1)
    assert first.slower_pct == pytest.approx(100 * (factor - 1), abs=5)


@pytest.mark.parametrize("seed", HEALTHY)
def test_no_straggler_is_claimed_in_a_healthy_job(tmp_path, seed):
    job, _ = random_job(1000 + seed)
    _, ranks = loaded(job, tmp_path)
    assert ranks.analysis.stragglers.found == ()
    assert ranks.summary().verdict.startswith("no straggler among")


@pytest.mark.parametrize("seed", CLOCKS)
def test_offsets_of_clocks_are_within_their_uncertainty(tmp_path, seed):
    job, _ = random_job(2000 + seed)
    result, ranks = loaded(job, tmp_path)
    clocks = ranks.analysis.clocks
    at = (clocks["at_ns"].iloc[0] - jobs.EPOCH_NS - result.offsets[0]) / (1 + result.drifts[0])
    true = np.array([result.clock(rank, at) - result.clock(0, at) for rank in ranks])
    error = np.abs(clocks["offset_ns"].to_numpy(float) - true)
    assert (error <= clocks["uncertainty_ns"].to_numpy(float) + 1).all()
    assert clocks["uncertainty_ns"].max() < 100_000


@pytest.mark.parametrize("form", ["today", "no_seq", "cpu_names"])
def test_collectives_are_matched_as_they_were_made(tmp_path, form):
    job = Job(data=2, stages=2, steps=3, offset_ns=1e9, form=form)
    result, ranks = loaded(job, tmp_path)
    found = ranks.analysis.collectives
    assert (found["match"] >= 0).all()
    for rank in ranks:
        rows = found[(found["rank"] == rank).to_numpy()].sort_values("place")
        made = [row[1] for row in result.ranks[rank].rows if row[0] == "comm"]
        assert rows["members"].tolist() == [len(comm.ranks) for comm in made]
        waits = [max(comm.arrived.values()) - comm.arrived[rank] for comm in made]
        assert np.allclose(rows["wait_ns"].tolist(), waits, atol=20_000)
    assert set(found["confidence"]) == ({"high", "medium"} if form != "no_seq" else {"medium"})


def test_kernels_without_any_names_are_matched_by_order_with_low_confidence(tmp_path):
    _, ranks = loaded(Job(data=3, stages=1, steps=3, form="bare"), tmp_path)
    found = ranks.analysis.collectives
    assert set(found["confidence"]) == {"low"}
    assert (found["members"] == 3).all()


def test_a_replay_of_the_recorded_times_gives_the_recorded_times(tmp_path):
    _, ranks = loaded(Job(data=1, stages=2, steps=3, noise=0.05), tmp_path)
    graph = ranks.analysis.graph
    nothing = (np.empty(0, np.int64), np.empty(0))
    assert graph.is_consistent
    assert graph.makespans([nothing]) == pytest.approx([graph.times[:-1].max()])


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (Plant("stage", 1, None, 1.3), "the stage of ranks 2 to 3 compute"),
        (Plant("data", 1, "aten::mm", 1.6), "on larger inputs"),
        (Plant("jitter", 2, "aten::addmm", 4.0), "steps: the job loses"),
        (Plant("rank", 0, None, 1.4), "slower in most operators"),
        (Plant("host", 2, None, 80), "waits for its host between kernels"),
    ],
)
def test_the_verdict_says_what_is_slow(tmp_path, plant, words):
    shape = {"data": 2, "stages": 2} if plant.kind == "stage" else {"data": 3, "stages": 1}
    _, ranks = loaded(Job(**shape, steps=6, plants=(plant,), seed=3), tmp_path)
    assert words in ranks.summary().verdict


def test_ranks_without_communication_or_device_work_have_a_summary(tmp_path):
    for rank in range(2):
        events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 5, "args": {}}]
        (tmp_path / f"rank-{rank}.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    ranks = cudalens.load_ranks(tmp_path)
    assert ranks.summary().verdict.startswith("2 ranks; no communication between them is recorded")


def test_a_slow_link_is_found(tmp_path):
    job = Job(data=3, stages=2, steps=3, plants=(Plant("link", 1, None, 40.0),))
    _, ranks = loaded(job, tmp_path)
    found = ranks.analysis.stragglers
    assert found.found == ()
    assert found.by_group.sort_values("loss_ns")["process_group"].iloc[-1] == "pp1"
    assert "process group pp1 is slow" in ranks.summary().verdict


def test_parts_of_a_step_add_up(tmp_path):
    _, ranks = loaded(Job(data=2, steps=3), tmp_path)
    steps = ranks.analysis.steps
    parts = steps[["compute_ns", "wait_ns", "transfer_ns", "copy_ns", "idle_ns"]].sum(axis=1)
    assert (parts - steps["step_ns"]).abs().max() <= 20_000
    assert len(steps) == 6


def test_a_change_of_the_step_time_is_found():
    from cudalens.analysis.ranks.job import change_points

    rng = np.random.default_rng(0)
    times = np.where(np.arange(40) < 25, 10e6, 11e6) * (1 + 0.01 * rng.standard_normal(40))
    steps = pd.DataFrame({"rank": 0, "step": np.arange(40), "step_ns": times.astype(np.int64)})
    (found,) = change_points(steps).to_dict("records")
    assert found["step"] == 25
    assert found["after_ns"] == pytest.approx(11e6, rel=0.01)
    assert not len(change_points(steps[steps["step"] < 25]))


def test_a_report_is_one_offline_page_and_escapes_names(tmp_path):
    _, ranks = loaded(Job(data=2, steps=3, plants=(Plant("rank", 1, "aten::mm", 1.5),)), tmp_path / "<script>alert(1)")
    page = ranks.to_html(tmp_path / "report.html").read_text()
    assert "rank 1 is 50 % slower in aten::mm" in page
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert len(page) < 300_000


def test_the_command_prints_the_answer_and_writes_the_report(tmp_path, capsys):
    from cudalens.__main__ import main

    job = Job(data=2, steps=3, plants=(Plant("rank", 1, "aten::mm", 1.5),))
    folder = jobs.simulate(job).write(tmp_path / "job")
    output = tmp_path / "report.html"
    assert main(["ranks", str(folder), "-o", str(output), "--store", str(tmp_path / "store")]) == 0
    assert capsys.readouterr().out.startswith("rank 1 is 50 % slower in aten::mm (train.py:91): the job loses")
    assert "rank 1 is 50 % slower" in output.read_text()
    assert main(["ranks", str(tmp_path / "store")]) == 0
    assert "rank 1 is 50 % slower" in capsys.readouterr().out
