"""The cases with known verdicts, written as PyTorch code and watched live on the virtual device."""

import json
from pathlib import Path

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_programs import Program

import cudalens
from cudalens.sanitizer import replay
from cudalens.sanitizer.engine import Detector
from cudalens.sanitizer.engine.races import Findings
from cudalens.virtual import device

CASES = Path(__file__).parents[4] / "shared" / "races" / "cases.jsonl"


def cases():
    return [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []


@pytest.mark.skipif(not CASES.exists(), reason="../shared/races/cases.jsonl is not beside this checkout")
@pytest.mark.parametrize("uses_operators", [True, False], ids=["operators", "annotations"])
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_cases_with_known_verdicts(case, uses_operators):
    with device("h100"), cudalens.sanitize() as san:
        Program(san, uses_operators=uses_operators).run(case["ops"])
    assert san.error is None
    assert (len(san.races) > 0) == (case["expect"] == "race")
    assert set().union(*(race.tensors for race in san.races)) == set(case["race_on"])


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
    st.just({"op": "device_sync"}),
)
PROLOGUE = [{"op": "alloc", "t": t, "bytes": 128, "stream": "s0"} for t in "ab"]


@settings(deadline=None, max_examples=examples(150))
@given(st.lists(operations, max_size=12))
def test_watched_live_a_program_races_where_it_does_when_replayed(ops):
    racing = set()

    def collect():
        """Races of one place are one finding, so that the findings are collected after each operator."""
        racing.update(*(race.tensors for race in san.races))
        san.clear()

    with device("h100"), cudalens.sanitize() as san:
        Program(san, uses_operators=True, after_operator=collect).run(PROLOGUE + ops)
        records = san.log.records()
    assert racing == set().union(*(race.tensors for race in replay(PROLOGUE + ops)))
    if {"op": "device_sync"} not in ops:  # which empties the log
        detector = Detector(Findings(lambda race: again.update(race.tensors) is None))
        again = set()
        for record in records:
            detector.add(record)
        assert racing == again
