"""The fast part of the planted bottlenecks: ``make planted`` runs all of them."""

import pytest
from scores import CASES, HIGH, LOW, run

FAST = [
    "workers_too_slow",
    "python_between_launches",
    "garbage_between_steps",
    "context_creation",
    "repeated_launches",
    "waits_at_two_lines",
    "pageable_each_step",
    "more_communication_than_work",
    "sgemm",
    "attention_in_pieces",
    "optimizer_one_by_one",
]


@pytest.mark.parametrize("name", FAST)
def test_the_planted_cause_comes_first_with_its_true_gain(name):
    found = run(CASES[name])
    assert found.is_first
    assert LOW <= found.ratio <= HIGH
    assert found.alarms == ()
