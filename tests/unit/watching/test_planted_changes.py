"""Changes planted into loops on a virtual device are reported soon, with the right cause first."""

import os

import planted_loops
import pytest

QUICK = ("slower loading", "one sync", "longer batches", "a leak", "a lower clock")
#: CUDALENS_WATCH_PLANTED=1 runs all.
CHOSEN = planted_loops.PLANTED if os.environ.get("CUDALENS_WATCH_PLANTED") else QUICK


@pytest.mark.parametrize("what", CHOSEN)
def test_a_planted_change_is_reported_within_thirty_steps_with_its_cause(what):
    change = planted_loops.run(what)
    assert change is not None
    # The first 7 batches are loaded before steps are found.
    assert change.found_at <= planted_loops.BEFORE + 23
    assert change.kinds[0] in planted_loops.PLANTED[what].kinds, (change.kinds, change.causes)
