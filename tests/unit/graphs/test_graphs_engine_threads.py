"""Graphs whose backward runs in a thread of the autograd engine, as on a GPU, where no Python code calls the mode."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from engine_threads import backward_on_engine_thread
from graph_scenarios import Scenario, backward, backward_calls, higher_order, play, scenarios_of, training
from graph_scenarios.observed_state import a_hook_of_an_argument_in_a_backward_inside

SCENARIOS = {
    **scenarios_of(backward, backward_calls, higher_order, training),
    "a_hook_of_an_argument_in_a_backward_inside": a_hook_of_an_argument_in_a_backward_inside,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_as_on_a_gpu(name: str, device_for: Callable[[Scenario], AbstractContextManager[object]]) -> None:
    entry = SCENARIOS[name]
    with device_for(entry), backward_on_engine_thread():
        play(entry)
