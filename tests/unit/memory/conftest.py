"""A virtual device for each test, and names that are looked for in a dict of the test's own."""

from __future__ import annotations

import gc

import pytest

import cudalens.virtual as virtual


@pytest.fixture
def device():
    """A virtual H100; what an earlier test left behind is gone."""
    gc.collect()
    with virtual.device("h100") as on:
        yield on


@pytest.fixture(scope="module")
def one_device():
    """A virtual H100 for all tests of a file, which ask for no totals."""
    gc.collect()
    with virtual.device("h100") as on:
        yield on
