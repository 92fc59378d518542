"""Programs with known verdicts: a race shows in values, a clean one never does; and so for random programs."""

import json
from pathlib import Path

import pytest
import torch
from budget import examples
from hypothesis import event, given, settings
from hypothesis import strategies as st
from random_programs import programs
from tricky_cases import CASES as TRICKY
from valued_programs import Program

import cudalens
from cudalens.virtual import device

CASES = Path(__file__).parents[4] / "shared" / "races" / "cases.jsonl"


def cases():
    return [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []


def explored(ops, *, budget, seed=0):
    with device("h100"):
        with cudalens.sanitize(explore=True) as san:
            program = Program()
            program.run(ops)
            outputs, tensors = program.outputs, program.tensors  # noqa: F841 - these variables are compared
        return san, san.explore(budget, seed=seed)


def assert_known(ops, expect):
    san, found = explored(ops, budget=50 if expect == "race" else 200)
    assert san.error is None
    assert not [note for note in found.notes if "uninitialized memory" not in note]
    if expect == "race":
        assert san.races
        assert found.confirmed
        assert not found.others
        assert all(race.verdict == "confirmed" for race in found.races)
    else:
        assert not found.races
        assert not found.differs
        assert found.num_schedules == 200 or found.is_exhaustive


@pytest.mark.skipif(not CASES.exists(), reason="../shared/races/cases.jsonl is not beside this checkout")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_cases_with_known_verdicts(case):
    assert_known(case["ops"], case["expect"])


@pytest.mark.parametrize(("title", "expect", "ops"), TRICKY, ids=[title for title, _, _ in TRICKY])
def test_tricky_cases(title, expect, ops):
    assert_known(ops, expect)


@settings(max_examples=examples(40))
@given(programs, st.integers(0, 100))
def test_no_schedule_changes_a_bit_but_where_a_race_was_reported(ops, seed):
    """In both directions: where the sanitizer is silent nothing differs, and what differs turns a reported race."""
    san, found = explored(ops, budget=25, seed=seed)
    assert san.error is None
    assert not [note for note in found.notes if "uninitialized memory" not in note]
    event("races" if san.races else "clean")
    assert not found.others
    if not san.races:
        assert not found.differs


def test_values_of_a_tensor_of_an_earlier_device_show_no_race():
    """It has the address of a tensor of this device that a race writes, and is not on this device."""
    with device("h100"):
        old = torch.ones(64, device="cuda")
        address = old.data_ptr()
    with device("h100"):
        side, x = torch.cuda.Stream(), torch.ones(64, device="cuda")
        assert x.data_ptr() == address
        torch.cuda.synchronize()
        san = cudalens.sanitize(explore=True)
        with san:
            x.fill_(1)
            with torch.cuda.stream(side):
                x.fill_(1)
            san.end_block({"old": old})
            found = san.explore()
    assert len(san.races) == 1
    assert found.outputs == ()
    assert not found.confirmed
