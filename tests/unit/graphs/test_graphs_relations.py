"""Scenarios of CUDA-graph trees on the virtual device: how results are related."""

from __future__ import annotations

import pytest
from graph_scenarios import play, relations, scenarios_of

SCENARIOS = scenarios_of(relations)


@pytest.mark.parametrize("name", SCENARIOS)
def test_on_a_virtual_device(name: str, device_for) -> None:
    with device_for(SCENARIOS[name]):
        play(SCENARIOS[name])
