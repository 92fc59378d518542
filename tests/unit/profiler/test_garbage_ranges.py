"""Garbage collections during a profile are ranges, and a finding where they take the time."""

import gc

import pytest
import torch

import cudalens
from cudalens.analysis import findings
from cudalens.profiler.ranges import RANGE


def rings(number):
    """Objects that only the collector can release."""
    for _ in range(number):
        ring = []
        ring.append(ring)


def test_collections_are_ranges_and_the_callback_comes_off():
    before = list(gc.callbacks)
    x = torch.ones(4)
    with cudalens.profile(cpu_only=True, keep=False) as run:
        for _ in range(5):
            x = x + 1
            rings(1000)
            gc.collect()
    assert gc.callbacks == before
    events = run.trace.events
    assert int((events["name"] == RANGE).sum()) >= 5
    found = next(one for one in findings(run.trace) if one.rule == "garbage_collection")
    assert "gc.freeze()" in found.advice
    taken = int(events.loc[events["name"] == RANGE, "dur"].sum())
    assert 0.9 * taken <= found.gain_ns <= taken


@pytest.fixture
def no_automatic_collections():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_automatic_collections")
def test_young_generations_and_virtual_devices_have_no_ranges():
    with cudalens.profile(cpu_only=True, keep=False) as run:
        torch.ones(2)
        gc.collect(0)
        gc.collect(1)
    names = run.trace.events["name"].astype(str).tolist()
    assert names.count(RANGE) == 0
    with cudalens.virtual.device("a100"), cudalens.profile(keep=False) as run:
        torch.ones(2, device="cuda")
        gc.collect()
    assert RANGE not in run.trace.events["name"].astype(str).tolist()


def test_a_collection_that_is_running_at_the_end_is_closed():
    class Last:
        """Ends the profile from within a collection."""

        def __del__(self):
            run.__exit__(None, None, None)

    run = cudalens.profile(cpu_only=True, keep=False)
    run.__enter__()
    torch.ones(2)
    ring = [Last()]
    ring.append(ring)
    del ring
    gc.collect()
    assert int((run.trace.events["name"] == RANGE).sum()) == 1
