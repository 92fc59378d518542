"""Scenarios of CUDA-graph trees on the virtual device: values and identities of arguments."""

from __future__ import annotations

import pytest
from graph_scenarios import argument_values, play, scenarios_of

SCENARIOS = scenarios_of(argument_values)


@pytest.mark.parametrize("name", SCENARIOS)
def test_on_a_virtual_device(name: str, device_for) -> None:
    with device_for(SCENARIOS[name]):
        play(SCENARIOS[name])
