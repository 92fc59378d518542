"""Virtual devices for scenarios of CUDA-graph trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from graph_scenarios import Scenario, undisturbed

from cudalens import virtual


@pytest.fixture(scope="module")
def device_for() -> Iterator[Callable[[Scenario], AbstractContextManager[object]]]:
    """Makes the virtual device that a scenario needs."""
    with undisturbed():
        yield lambda scenario: virtual.device("h100" if scenario.num_devices == 1 else "h100x2")
