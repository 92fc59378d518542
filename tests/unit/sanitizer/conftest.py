"""A virtual device for tests that watch a program live, and side streams on it."""

import pytest


@pytest.fixture
def gpu():
    from cudalens.virtual import device

    with device("h100x2"):
        yield


@pytest.fixture
def side(gpu):
    import torch

    return torch.cuda.Stream()
