"""Keep torch's structured log out of pytest's captured log, which makes each compilation several times slower."""

import logging

import pytest


@pytest.fixture(autouse=True)
def without_structured_log(monkeypatch):
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "handlers", [])
