"""Jobs on CPUs, which communicate with gloo: compute is operators, communication the ranges of gloo's threads."""

import json

import jobs
import pytest
from jobs import Job, Plant

import cudalens


def loaded(job, folder):
    return cudalens.load_ranks(jobs.simulate(job).write(folder))


def test_a_slow_rank_of_a_gloo_job_is_named_with_its_operator_and_its_cost(tmp_path):
    job = Job(data=4, steps=4, form="gloo", plants=(Plant("rank", 2, "aten::mm", 1.5),))
    ranks = loaded(job, tmp_path)
    (one,) = ranks.analysis.stragglers.found
    assert (one.rank, one.op.split(" ")[0], one.cause) == (2, "aten::mm", "operator")
    lost = jobs.simulate(job).step_ends[-1] - jobs.simulate(job.clean()).step_ends[-1]
    assert one.loss_ns * job.steps == pytest.approx(lost, rel=0.05)
    assert ranks.summary().verdict.startswith("rank 2 is ")


def test_a_healthy_gloo_job_has_no_straggler_and_its_parts_are_those_of_the_simulation(tmp_path):
    job = Job(data=3, steps=3, form="gloo", offset_ns=1e9)
    ranks = loaded(job, tmp_path)
    assert ranks.analysis.stragglers.found == ()
    found = ranks.analysis.collectives
    assert (found["members"] == 3).all()
    assert set(found["confidence"]) == {"medium"}
    assert set(found["process_group"]) == {"0"}
    made = [row for row in jobs.simulate(job).ranks[1].rows if row[0] == "op"]
    compute = ranks.frames["summary"].set_index("rank").at[1, "comp_ns"]
    assert compute == pytest.approx(sum(row[4] for row in made), rel=1e-3)


def test_operators_that_wait_for_a_collective_are_no_compute(tmp_path):
    """The wrapper of an operator of the backward pass, in which the rank waits, and an operator on another thread."""
    folder = jobs.simulate(Job(data=2, steps=2, form="gloo")).write(tmp_path)
    expected = cudalens.load_ranks(folder).frames["summary"]["comp_ns"].tolist()
    for path in folder.iterdir():
        trace = json.loads(path.read_text())
        events = trace["traceEvents"]
        begin, end = min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)
        around = {"ph": "X", "cat": "cpu_op", "ts": begin, "dur": end - begin, "pid": 9, "args": {}}
        names = {"autograd::engine::evaluate_function: MmBackward0": 9, "aten::copy_": 77}
        events += [around | {"name": name, "tid": tid} for name, tid in names.items()]
        path.write_text(json.dumps(trace))
    assert cudalens.load_ranks(folder).frames["summary"]["comp_ns"].tolist() == expected
