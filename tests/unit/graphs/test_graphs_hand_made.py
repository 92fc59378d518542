"""Functions of many kinds observe the same with graphs as without: transforms, settings, tensors, modules, Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from graph_scenarios import undisturbed
from graph_scenarios.cases_python import CASES
from graph_scenarios.cases_replaced import CASES as REPLACED
from graph_scenarios.cases_torch import MODULES, SETTINGS, TENSORS, TRANSFORMS
from graph_scenarios.hand_made import difference

from cudalens import graphs, virtual

pytestmark = pytest.mark.filterwarnings("ignore")

ALL = {
    **TRANSFORMS,
    **SETTINGS,
    **TENSORS,
    **MODULES,
    **CASES,
    **{f"replaced: {name}": one for name, one in REPLACED.items()},
}


@pytest.fixture(scope="module", autouse=True)
def _device() -> Iterator[None]:
    with undisturbed(), virtual.device("h100"):
        yield
        graphs.reset()  # a case uses the manager of the thread, which would take the marks of later tests


@pytest.mark.parametrize("name", ALL)
def test_a_function_observes_the_same_with_graphs(name: str) -> None:
    assert difference(ALL[name]) is None
