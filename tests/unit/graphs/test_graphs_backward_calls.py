"""Scenarios of CUDA-graph trees on the virtual device: when a backward runs."""

from __future__ import annotations

import pytest
from graph_scenarios import backward_calls, play, scenarios_of

SCENARIOS = scenarios_of(backward_calls)


@pytest.mark.parametrize("name", SCENARIOS)
def test_on_a_virtual_device(name: str, device_for) -> None:
    with device_for(SCENARIOS[name]):
        play(SCENARIOS[name])
