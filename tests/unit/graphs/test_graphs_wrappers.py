"""Scenarios of CUDA-graph trees on the virtual device: wrappers."""

from __future__ import annotations

import pytest
from graph_scenarios import play, scenarios_of, wrappers

SCENARIOS = scenarios_of(wrappers)


@pytest.mark.parametrize("name", SCENARIOS)
def test_on_a_virtual_device(name: str, device_for) -> None:
    with device_for(SCENARIOS[name]):
        play(SCENARIOS[name])
