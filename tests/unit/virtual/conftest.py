"""Fixtures: virtual devices for tests of CUDA graphs."""

from __future__ import annotations

import pytest
import torch

from cudalens.virtual import device
from cudalens.virtual.patching import is_dummy
from cudalens.virtual.torch_cuda import graph_handles, pool_handles


@pytest.fixture(params=["in place", "new classes"])
def graph_gpus(request, monkeypatch):
    """Two H100, with the patches for CPU builds of torch and with those for CUDA builds."""
    in_place = request.param == "in place"
    if in_place and not is_dummy(torch._C._CUDAGraph):
        pytest.skip("a CUDA build of torch has classes of its own")
    for part in (graph_handles, pool_handles):
        install = part.install
        monkeypatch.setattr(part, "install", lambda p, g, install=install: install(p, g, in_place=in_place))
    with device("h100x2") as virtual:
        yield virtual.gpus


@pytest.fixture
def h100():
    """Two H100."""
    with device("h100x2") as virtual:
        yield virtual.gpus
