"""Which recordings of a run are kept, the history of steps in bounded memory, and the budget."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest

from cudalens.watching.loop import PAUSE_NS, Budget
from cudalens.watching.steps import Known, StepHistory
from cudalens.watching.worker import RecordingStore

MS = 1_000_000


@dataclass
class Made:
    step: int
    step_ns: int = 10
    num_bytes: int = 100
    is_requested: bool = False
    is_after_change: bool = False


def filled(ones, **limits):
    store = RecordingStore(**limits)
    for one in ones:
        store.add(one)
    return store


def kept_for(store):
    reasons = store.reasons()
    return {one.step: reasons[id(one)] for one in store.kept}


def test_first_last_slowest_requested_and_after_a_change_are_kept():
    ones = [Made(k) for k in range(100)]
    ones[10].step_ns, ones[20].is_requested, ones[30].is_after_change = 99, True, True
    reasons = kept_for(filled(ones))
    assert {0: "first", 10: "slowest", 20: "requested", 30: "after a change", 99: "last"}.items() <= reasons.items()
    assert sum(reason == "sample" for reason in reasons.values()) == 3


def test_no_more_than_the_number_and_the_bytes_are_kept():
    store = filled([Made(k, is_requested=k % 3 == 0, is_after_change=k % 5 == 0) for k in range(200)], most=6)
    assert len(store.kept) == 6
    store = filled([Made(k, num_bytes=400) for k in range(200)], most_bytes=1000)
    assert {store.kept[0].step, store.kept[-1].step} == {0, 199}
    assert sum(one.num_bytes for one in store.kept) <= 1000


def test_what_is_no_longer_kept_is_returned():
    store = RecordingStore(most=2)
    assert store.add(Made(0)) == []
    assert store.add(Made(1)) == []
    assert [one.step for one in store.add(Made(2))] == [1]


def test_every_recording_is_in_the_sample_equally_often():
    hits = np.zeros(40)
    for seed in range(60):
        for step, reason in kept_for(filled([Made(k) for k in range(40)], seed=seed)).items():
            hits[step] += reason == "sample"
    inner = hits[1:-4]
    assert (inner > 0).mean() > 0.8
    assert inner.max() < 5 * inner.mean()


def history(num_steps, most):
    steps = StepHistory(most)
    for k in range(num_steps):
        steps.add(k, k * 10, 10 + k % 2, Known(data_ns=4))
    return steps


def test_a_history_keeps_recent_steps_one_by_one():
    columns = history(1000, 64).columns()
    assert columns["step"][-32:].tolist() == list(range(968, 1000))
    assert (columns["num_steps"][-32:] == 1).all()


def test_a_history_of_any_length_counts_every_step_once():
    for num_steps in (5, 64, 65, 1000, 5000):
        columns = history(num_steps, 64).columns()
        assert len(columns["step"]) <= 64
        assert columns["num_steps"].sum() == num_steps
        assert (columns["step"] + columns["num_steps"])[:-1].tolist() == columns["step"][1:].tolist()
        assert columns["max_dur"].max() == 11
        assert set(columns["elements"].tolist()) == {-1}
        assert set(columns["data_ns"].tolist()) == {4}


def test_steps_that_were_timed_together_are_one_row():
    steps = StepHistory(64)
    steps.add(0, 0, 10)
    steps.add(1, 10, 12, Known(data_ns=3), num_steps=5)
    columns = steps.columns()
    assert columns["num_steps"].tolist() == [1, 5]
    assert columns["dur"].tolist() == [10, 12]


def test_columns_that_another_thread_reads_have_the_same_rows():
    history, found = StepHistory(most=64), []
    reader = threading.Thread(target=lambda: found.extend(history.columns() for _ in range(300)))
    reader.start()
    step = 0
    while reader.is_alive():
        history.add(step, ts=step, dur=step)
        step += 1
    reader.join()
    for columns in found:
        assert {len(values) for values in columns.values()} == {len(columns["step"])}
        assert (columns["step"] == columns["ts"]).all()


def spend(budget, num_steps, *, disturbed_ns=0):
    for k in range(num_steps):
        is_disturbed = bool(disturbed_ns) and k == 0
        budget.add(20 * MS + (disturbed_ns if is_disturbed else 0), 20_000, is_disturbed=is_disturbed)


def test_the_cost_is_what_disturbed_steps_took_more_and_the_hooks():
    budget = Budget(0.02)
    spend(budget, 50)
    assert budget.cost_ns == 50 * 20_000
    spend(budget, 50, disturbed_ns=100 * MS)
    assert budget.cost_ns == 99 * 20_000 + 100 * MS
    assert budget.cost_share == pytest.approx(0.102 / 2, rel=0.05)


def test_a_recording_costs_at_least_what_the_other_thread_worked_for_it():
    budget = Budget(0.02)
    spend(budget, 50)
    budget.add(21 * MS, 0, is_disturbed=True)
    budget.add_thread(300 * MS)
    assert budget.cost_ns == 50 * 20_000 + 300 * MS
    spend(budget, 50)
    assert budget.cost_ns == 100 * 20_000 + 300 * MS
    assert budget.recordings_ns == 300 * MS


def test_what_is_shown_between_recordings_costs_its_cpu_time():
    budget = Budget(0.02)
    spend(budget, 50)
    budget.add_shown(40 * MS)
    spend(budget, 50, disturbed_ns=100 * MS)
    budget.add_shown(40 * MS)
    assert budget.cost_ns == 99 * 20_000 + 180 * MS


def test_a_recording_that_makes_its_steps_faster_by_chance_has_no_negative_cost():
    budget = Budget(0.02)
    spend(budget, 50, disturbed_ns=-5 * MS)
    spend(budget, 50, disturbed_ns=-5 * MS)
    assert budget.cost_ns >= 98 * 20_000


def test_recordings_wait_until_the_time_pays_for_them():
    budget = Budget(0.02)
    assert budget.allows()
    spend(budget, 20)
    spend(budget, 20, disturbed_ns=200 * MS)
    num_steps = 0
    while not budget.allows():
        spend(budget, 1)
        num_steps += 1
    # Both this recording and the next one have to fit: 2 * 200 ms at 80 % of 2 %.
    assert num_steps * 20 * MS > PAUSE_NS
    assert 0.4e9 / (0.02 * 0.8) <= budget.elapsed_ns <= 1.2 * 0.4e9 / (0.02 * 0.8)


def test_no_recording_follows_another_before_a_step_without_any():
    budget = Budget(0.5)
    spend(budget, 3)
    budget.add(1000 * MS, 0, is_disturbed=True)
    budget.add(1000 * MS, 0, is_disturbed=True)
    assert not budget.allows()
    spend(budget, 500)
    assert budget.allows()


def test_beyond_the_budget_one_change_a_minute_is_recorded():
    budget = Budget(0.02)
    spend(budget, 10)
    spend(budget, 1, disturbed_ns=30_000 * MS)
    assert [budget.takes_soon() for _ in range(3)] == [True, False, False]
    spend(budget, 60 * 50)
    assert [budget.takes_soon() for _ in range(2)] == [True, False]
