"""CUDA-graph trees on a real device: the scenarios that the virtual device passes, unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from graph_scenarios import (  # noqa: E402
    aliasing,
    argument_values,
    backward,
    backward_calls,
    faults,
    higher_order,
    host_values,
    inputs,
    lifetimes,
    observed_state,
    places,
    play,
    python_values,
    relations,
    scenarios_of,
    side_effects,
    state,
    stored,
    surroundings,
    training,
    trees,
    undisturbed,
    waits,
    whole_steps,
    wrappers,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

SCENARIOS = scenarios_of(
    aliasing,
    argument_values,
    backward,
    backward_calls,
    faults,
    higher_order,
    host_values,
    inputs,
    lifetimes,
    observed_state,
    places,
    python_values,
    relations,
    side_effects,
    state,
    stored,
    surroundings,
    training,
    trees,
    waits,
    whole_steps,
    wrappers,
)


@pytest.fixture(autouse=True, scope="module")
def _undisturbed() -> Iterator[None]:
    with undisturbed():
        yield


@pytest.mark.parametrize("name", SCENARIOS)
def test_on_a_real_device(name: str) -> None:
    entry = SCENARIOS[name]
    if torch.cuda.device_count() < entry.num_devices:
        pytest.skip(f"needs {entry.num_devices} CUDA devices")
    play(entry)
