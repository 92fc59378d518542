"""Ranks that recorded different parts of a job: only what several of them recorded is compared."""

import jobs
import pytest
from jobs import Job, Plant

import cudalens

JOB = Job(data=3, steps=3, layers=1, plants=(Plant("rank", 2, "aten::mm", 1.5),))


def written(folder, texts):
    for rank, text in enumerate(texts):
        (folder / f"rank-{rank}.json").write_text(text)
    return cudalens.load_ranks(folder)


def texts(job=JOB):
    result = jobs.simulate(job)
    return [result.text(rank) for rank in range(job.ranks)]


def found(ranks):
    return [
        (one.rank, round(one.slower_pct, -1), one.cause, one.is_persistent) for one in ranks.analysis.stragglers.found
    ]


def test_a_rank_that_recorded_more_steps_is_not_slow(tmp_path):
    longer = texts(Job(**vars(JOB) | {"steps": 5}))
    ranks = written(tmp_path, [longer[rank] if rank == 1 else text for rank, text in enumerate(texts())])
    assert found(ranks) == [(2, 50, "operator", True)]
    (note,) = [note for note in ranks.summary().section.notes if "steps" in note]
    assert note == "rank 1 recorded 5 steps, most ranks 3: a step is compared among the ranks that recorded it"


def test_a_rank_that_numbers_its_steps_otherwise_is_compared(tmp_path):
    shifted = [
        text.replace("ProfilerStep#", "ProfilerStep#1") if rank == 1 else text for rank, text in enumerate(texts())
    ]
    ranks, whole = written(tmp_path, shifted), jobs.simulate(JOB)
    assert found(ranks) == [(2, 50, "operator", True)]
    assert ranks.analysis.stragglers.step_ns == pytest.approx(whole.step_ends[-1] / JOB.steps, rel=0.02)


@pytest.mark.parametrize(("cut", "share"), [(0, 0.6), (1, 0.9), (2, 0.8)])
def test_a_trace_that_ends_early_makes_no_other_rank_slower(tmp_path, cut, share):
    whole = texts()
    whole[cut] = whole[cut][: int(len(whole[cut]) * share)]
    assert found(written(tmp_path, whole)) == [(2, 50, "operator", True)]


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_recordings_without_steps_are_compared_as_far_as_both_go(tmp_path, num_ranks):
    without = [text.replace("ProfilerStep#", "range ") for text in texts(Job(data=num_ranks, steps=3, layers=1))]
    without[1] = without[1][: int(len(without[1]) * 0.6)]
    assert found(written(tmp_path, without)) == []
