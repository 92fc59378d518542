"""Programs with known verdicts: a race shows in values, a clean one never does; and so for random programs."""

import json
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
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


@pytest.mark.skipif(not CASES.exists(), reason="../shared/races/cases.jsonl is not beside this checkout")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_cases_with_known_verdicts(case):
    san, found = explored(case["ops"], budget=50 if case["expect"] == "race" else 200)
    assert san.error is None
    assert not [note for note in found.notes if "nobody wrote" not in note]
    if case["expect"] == "race":
        assert san.races
        assert found.confirmed
        assert not found.others
        assert all(race.verdict == "confirmed" for race in found.races)
    else:
        assert not found.races
        assert not found.differs
        assert found.num_schedules == 200 or found.is_exhaustive


tensors, streams, events = (st.sampled_from(names) for names in (["a", "b"], ["s0", "s1", "s2"], ["e", "f"]))
parts = st.sampled_from(["", "[0:64]", "[64:128]", "[32:96]", "[0:120:16:8]", "[8:128:16:8]"])
accesses = st.tuples(tensors, parts).map("".join)
operations = st.one_of(
    st.builds(
        lambda s, r, w: {"op": "launch", "stream": s, "reads": r, "writes": w},
        streams,
        st.lists(accesses, max_size=2),
        st.lists(accesses, max_size=1),
    ),
    st.builds(lambda e, s: {"op": "event_record", "event": e, "stream": s}, events, streams),
    st.builds(lambda e, s: {"op": "event_wait", "event": e, "stream": s}, events, streams),
    st.builds(lambda e: {"op": "event_sync", "event": e}, events),
    st.builds(lambda s: {"op": "stream_sync", "stream": s}, streams),
    st.builds(lambda t: {"op": "host_read", "t": "h"}, st.none()),
    st.builds(lambda s: {"op": "launch", "stream": s, "reads": ["a"], "writes": ["h"]}, streams),
    st.just({"op": "device_sync"}),
)
PROLOGUE = [{"op": "alloc", "t": t, "bytes": 128, "stream": "s0"} for t in "ab"]
PROLOGUE += [{"op": "alloc", "t": "h", "bytes": 128, "host": True}]
PROLOGUE += [{"op": "launch", "stream": "s0", "reads": [], "writes": [t]} for t in "ab"] + [{"op": "device_sync"}]


@settings(deadline=None, max_examples=120)
@given(st.lists(operations, max_size=10), st.integers(0, 100))
def test_where_the_sanitizer_finds_nothing_no_schedule_changes_a_bit(ops, seed):
    san, found = explored(PROLOGUE + ops, budget=30, seed=seed)
    assert san.error is None
    assert not [note for note in found.notes if "nobody wrote" not in note]
    event("races" if san.races else "clean")
    assert not found.others
    if not san.races:
        assert not found.differs
