"""The global step of several requesters, in the words of torch's own tests, and beside torch's own tracker."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import profiler as torch_profiler
from torch.autograd.profiler import KinetoStepTracker

from cudalens import profile
from cudalens.profiler import StepTracker, steps
from cudalens.profiler.schedules import OwnCounts


@pytest.fixture(autouse=True)
def torchs_counts_stay(monkeypatch):
    """Requesters of a test are forgotten; the global step, as in life, only grows."""
    known = dict(KinetoStepTracker._step_dict)
    yield
    KinetoStepTracker._step_dict.clear()
    KinetoStepTracker._step_dict.update(known)


class Moves:
    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1


def test_multiple_steppers_count_one_step_an_iteration():
    """A profiler and an optimizer each step once in an iteration; the global step is the largest, not the sum."""
    moves = Moves()
    tracker = StepTracker(moves)
    tracker.init("ProfilerStep")
    for n in range(1, 9):
        assert tracker.increment("yet_another_step") == n
        assert tracker.increment("ProfilerStep") == n
    assert tracker.current == 8
    assert moves.count == 8
    assert tracker.requesters == {"yet_another_step": 8, "ProfilerStep": 8}


def test_who_comes_later_counts_from_the_current_step():
    moves = Moves()
    tracker = StepTracker(moves)
    for _ in range(5):
        tracker.increment("first")
    assert tracker.increment("second") == 6
    assert tracker.increment("first") == 6
    assert (moves.count, tracker.requesters) == (6, {"first": 6, "second": 6})


def test_one_that_is_slower_moves_nothing():
    moves = Moves()
    tracker = StepTracker(moves)
    tracker.init("slow")
    for _ in range(4):
        tracker.increment("fast")
    assert [tracker.increment("slow") for _ in range(3)] == [4, 4, 4]
    assert moves.count == 4


def test_a_jump_warns_and_moves_the_real_one_as_often():
    moves, counts = Moves(), OwnCounts()
    tracker = StepTracker(moves, counts)
    tracker.increment("one")
    counts._step_dict["one"] = 5
    with pytest.warns(UserWarning, match=r"jumps by 5, from 1; counts are {'one': 6}"):
        assert tracker.increment("one") == 6
    assert moves.count == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracker.increment("one")


def test_a_removed_requester_no_longer_counts():
    tracker = StepTracker(Moves())
    for _ in range(3):
        tracker.increment("gone")
    assert tracker.forget("gone")
    assert not tracker.forget("gone")
    assert tracker.current == 3
    assert tracker.increment("next") == 4
    assert tracker.requesters == {"next": 4}


actions = st.lists(
    st.tuples(st.sampled_from(["init", "forget", "increment", "set"]), st.sampled_from("abc"), st.integers(0, 9))
)


@given(actions)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_it_does_whatever_torchs_does(script):
    """The same calls on ours, and on a copy of torch's own class, with the real step's moves counted in both."""

    class Torchs(KinetoStepTracker):
        _current_step = 0
        _step_dict = torch_profiler.defaultdict(int)

    ours_moves, torchs_moves, counts = Moves(), Moves(), OwnCounts()
    ours = StepTracker(ours_moves, counts)
    original = torch_profiler._kineto_step
    torch_profiler._kineto_step = torchs_moves
    try:
        for action, requester, value in script:
            if action == "set":
                counts._step_dict[requester] = Torchs._step_dict[requester] = value
            elif action == "init":
                ours.init(requester)
                Torchs.init_step_count(requester)
            elif action == "forget":
                assert ours.forget(requester) == Torchs.erase_step_count(requester)
            else:
                assert ours.increment(requester) == Torchs.increment_step(requester)
            assert (ours.current, ours.requesters) == (Torchs.current_step(), dict(Torchs._step_dict))
            assert ours_moves.count == torchs_moves.count
    finally:
        torch_profiler._kineto_step = original


def test_torchs_optimizers_and_our_profiler_are_requesters_of_one_step(monkeypatch):
    moves = Moves()
    monkeypatch.setattr(torch.autograd, "_kineto_step", moves)
    monkeypatch.setattr(torch_profiler, "_kineto_step", moves)
    begin = steps.current
    assert begin == KinetoStepTracker.current_step()
    with profile(cpu_only=True, keep=False) as p:
        assert "cudalens" in steps.requesters
        for n in range(1, 5):
            KinetoStepTracker.increment_step("Optimizer")
            p.step()
            assert steps.current == KinetoStepTracker.current_step() == begin + n
    assert moves.count == 4
    assert "cudalens" not in steps.requesters
    assert steps.requesters["Optimizer"] == begin + 4


def test_a_profile_that_fails_to_start_is_no_requester():
    with torch_profiler.profile(use_kineto=True), pytest.raises(RuntimeError), profile(cpu_only=True):
        pass
    assert "cudalens" not in steps.requesters
