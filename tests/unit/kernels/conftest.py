import importlib.util

import pytest


@pytest.fixture(autouse=True)
def _triton_is_there():
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed (pip install triton)")
