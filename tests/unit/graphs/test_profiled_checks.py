"""The profile of a function with ``check=True``: the check has a range and a finding of its own, and no other one."""

import pytest
import torch

import cudalens
from cudalens import virtual
from cudalens.analysis import findings
from cudalens.frames.build import REPLAY_CHECK


def profiled(*, check):
    """A forward and a backward eight times: warm-ups, recordings, replays. Each step is launch-bound."""
    with virtual.device("h100"):
        graphed = cudalens.cudagraph(lambda x: (x @ x).relu().sum(), check=check, eager_if_slower=False)
        with cudalens.profile("graphed", keep=False) as run:
            for _ in range(8):
                graphed(torch.ones(64, 64, device="cuda", requires_grad=True)).backward()
    return run.trace


@pytest.fixture(scope="module")
def checked():
    return profiled(check=True)


@pytest.fixture(scope="module")
def unchecked():
    return profiled(check=False)


def span_of(trace):
    events = trace.events
    return int((events["ts"] + events["dur"]).max() - events["ts"].min())


def rules_of(trace):
    return {one.rule: one for one in findings(trace)}


def test_checks_are_the_first_finding_and_their_gain_is_what_the_profile_without_them_is_shorter(checked, unchecked):
    first = findings(checked)[0]
    assert first.rule == "replay_check"
    assert first.gain_ns == pytest.approx(span_of(checked) - span_of(unchecked), rel=0.1)


def test_no_finding_about_driver_memory_counts_calls_of_a_check(checked, unchecked):
    in_check = checked.events.index[checked.events["name"] == REPLAY_CHECK]
    rows = list(rules_of(checked)["driver_memory"].rows)
    parents = checked.events.loc[rows, "parent"]
    while len(parents):
        assert not parents.isin(in_check).any()
        parents = checked.events.loc[parents[parents >= 0], "parent"].dropna()
        parents = parents[parents >= 0]
    calls = [int((trace.events["name"] == "cudaMalloc").sum()) for trace in (checked, unchecked)]
    assert calls[0] > calls[1]
    mallocs = checked.events.loc[rows, "name"] == "cudaMalloc"
    assert mallocs.sum() == calls[1]


def test_a_function_without_a_check_has_no_range_and_no_finding_of_one(unchecked):
    assert REPLAY_CHECK not in set(unchecked.events["name"])
    assert "replay_check" not in rules_of(unchecked)
