"""Scenarios of CUDA-graph trees on the virtual device: second derivatives and transforms."""

from __future__ import annotations

import pytest
from graph_scenarios import higher_order, play, scenarios_of

SCENARIOS = scenarios_of(higher_order)


@pytest.mark.parametrize("name", SCENARIOS)
def test_on_a_virtual_device(name: str, device_for) -> None:
    with device_for(SCENARIOS[name]):
        play(SCENARIOS[name])
