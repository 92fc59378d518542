"""Scenarios of CUDA-graph trees on the virtual device: state that a replay depends on."""

from __future__ import annotations

import pytest
from graph_scenarios import observed_state, play, scenarios_of

SCENARIOS = scenarios_of(observed_state)


@pytest.mark.parametrize("name", SCENARIOS)
def test_on_a_virtual_device(name: str, device_for) -> None:
    with device_for(SCENARIOS[name]):
        play(SCENARIOS[name])
