"""States of torch that a graphed function reads by a call: all public getters of the installed version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import programs
import pytest

SUPPORT = Path(programs.__file__).parent


@pytest.fixture(scope="module")
def found() -> Any:
    done = programs.run(SUPPORT / "torch_states.py")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_getter_of_torch_is_compared_or_refused(found) -> None:
    assert found["getters"] > 100
    assert found["uncovered"] == []


def test_a_replay_returns_the_present_state_of_torch(found) -> None:
    assert found["pairs"] > 30
    assert found["stale"] == []
