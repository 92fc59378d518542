"""With ``check=True``: a replay that writes where an output of an earlier recording lies, which is still held."""

from __future__ import annotations

import pytest
import torch
from graph_scenarios import undisturbed

from cudalens import virtual
from cudalens.graphs import GraphManager


@pytest.fixture
def manager():
    with undisturbed(), virtual.device("h100"):
        manager = GraphManager(0, check=True)
        yield manager
        manager.shutdown()


def values():
    return torch.arange(6.0, device="cuda")


def checks(manager):
    frame = manager.frame()
    found = frame[frame["is_equal"].notna()]
    return {str(row["function"]): (bool(row["is_equal"]), row["first_diff"]) for _, row in found.iterrows()}


def play(manager, each):
    def first(x):
        return x + 1

    def second(x):
        return x * 2

    first, second = manager.wrap(first), manager.wrap(second)
    for n in range(4):
        held = first(values() + n)
        each(n, held)
        second(values())
    return held


def test_what_is_held_is_left_alone(manager):
    held = play(manager, lambda n, held: None)
    assert held.tolist() == [4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    found = checks(manager)
    assert len(found) == 2
    assert all(is_equal for is_equal, _ in found.values()), found


def test_a_held_output_that_a_replay_overwrites_is_found(manager, monkeypatch):
    """The fault is put in: the second function's graph also writes a byte where the first one's output lies."""
    backend, state = type(manager.backend), []
    replay = backend.replay

    def faulty(self, graph):
        replay(self, graph)
        if state:
            state.pop()[-1:].fill_(-1.0)

    monkeypatch.setattr(backend, "replay", faulty)
    play(manager, lambda n, held: state.append(held.detach()) if n == 2 else None)
    found = checks(manager)
    (name,) = (name for name in found if name.endswith("second"))
    is_equal, words = found.pop(name)
    assert not is_equal
    assert "an output of" in words
    assert "first" in words
    assert "which is still held: the replay has overwritten it" in words
    assert [outcome for outcome, _ in found.values()] == [True]
