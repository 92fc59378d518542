"""Without values, a program has the same kernels at the same times, and the same memory, as with values."""

from __future__ import annotations

import gc
import os

import pytest
import torch
from operator_calls import Call, Runner, difference, run_on_device
from training_programs import PROGRAMS

import cudalens

_COLUMNS = ["name", "cat", "ts", "dur", "device", "stream", "num_bytes"]


#: `make test-thorough` runs all programs.
_ALL = os.environ.get("CUDALENS_HYPOTHESIS") == "thorough"
_QUICK = (
    "language_model_bfloat16_with_checkpoints",
    "convolutions_in_channels_last",
    "long_short_term_memory",
    "graph_of_a_training_step",
    "indexing_and_writing_in_place",
    "autocast_and_clipped_gradients",
)


@pytest.fixture(autouse=True, scope="module")
def torch_has_imported_everything():
    """The first step of a process imports modules of torch, which run operators that take host time."""
    _recorded(_QUICK[0], values=True)


def _recorded(name, *, values):
    """The device's events in order, the allocator's actions and its statistics."""
    torch.manual_seed(0)
    with cudalens.virtual.device("h100", values=values):
        with cudalens.profile() as prof:
            PROGRAMS[name]()
            gc.collect()
        stats = {key: value for key, value in torch.cuda.memory_stats().items() if "private_pool" not in key}
    events = prof.trace.events[lambda rows: rows["device"].notna()]
    return events[_COLUMNS].astype(object).values.tolist(), prof.trace.memory.astype(str).values.tolist(), stats


@pytest.mark.parametrize("name", PROGRAMS if _ALL else _QUICK)
def test_kernels_times_and_memory_are_the_same(name):
    events, memory, stats = _recorded(name, values=True)
    found_events, found_memory, found_stats = _recorded(name, values=False)
    assert str(found_events) == str(events)
    assert found_memory == memory
    assert found_stats == stats
    assert events


@pytest.mark.parametrize(
    "call",
    [
        Call("linalg.solve_ex", 0, "out"),
        Call("linalg.inv", 0, "out"),
        Call("linalg.cholesky", 0, "out"),
        Call("masked_select", 0, "out"),
        Call("nonzero", 0, "out"),
    ],
    ids=str,
)
def test_a_given_result_costs_the_same(call):
    runner = Runner(call)
    assert runner.is_possible
    found = run_on_device(runner)
    assert found.error is None
    assert difference(found, run_on_device(runner, values=False), device="cuda:0") is None


def test_a_given_result_is_returned_and_has_no_values():
    with cudalens.virtual.device("h100", values=False):
        x = torch.tensor([1.0, 2.0, 3.0], device="cuda")
        out = torch.zeros(3, device="cuda")
        assert torch.masked_select(torch.empty(3, device="cuda"), x > 0, out=out) is out
        with pytest.raises(cudalens.VirtualDeviceError, match="value"):
            out.tolist()
