"""Functions whose code torch's dispatcher calls observe the same with graphs as without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from graph_scenarios import undisturbed
from graph_scenarios.cases_operators import OPERATORS
from graph_scenarios.hand_made import difference

from cudalens import virtual

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def _device() -> Iterator[None]:
    with undisturbed(), virtual.device("h100"):
        yield


@pytest.mark.parametrize("name", OPERATORS)
def test_a_function_observes_the_same_with_graphs(name: str) -> None:
    assert difference(OPERATORS[name]) is None
