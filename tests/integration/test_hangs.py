"""Jobs of real gloo processes that do not go on: `watch_hangs` writes dumps, `load_flight_recorder` names the rank."""

from __future__ import annotations

import os
from pathlib import Path

import programs
import pytest

import cudalens

#: Rank 1 is at fault in each. The status, the ranks that are named, and why.
EXPECTED = {
    "healthy": ("running", [], set()),
    "healthy with two groups": ("running", [], set()),
    "slow": ("running", [], set()),
    "missing": ("no_progress", [1], {"not entered"}),
    "order": ("hang", [1], {"other order"}),
    "operation": ("hang", [1], {"other operation"}),
    "size, larger": ("failed or hang", [1], {"other size"}),
    "size, smaller": ("failed or hang", [1], {"other size", "no dump"}),
    "dtype": ("failed or hang", [1], {"other dtype"}),
    "group": ("hang", [1], {"other group"}),
    "exit": ("failed", [1], {"exited"}),
    "dead": ("failed", [1], {"no dump"}),
    "exception": ("failed", [1], {"raised"}),
    "deadlock": ("hang", [0, 1], {"deadlock"}),
    "endless Python loop": ("no_progress", [1], {"not entered"}),
    "receive": ("no_progress", [1], {"not entered"}),
    "send to each other": ("hang", [0, 1], {"deadlock"}),
}
#: Kinds of the ordinary suite; CUDALENS_HANGS=1 (`make test-hangs`) runs all, each for up to a minute.
ALWAYS = ("operation", "exception")


def kinds() -> list[object]:
    skip = pytest.mark.skipif(not os.environ.get("CUDALENS_HANGS"), reason="`make test-hangs` runs all kinds of hangs")
    return [kind if kind in ALWAYS else pytest.param(kind, marks=skip) for kind in EXPECTED]


@pytest.mark.parametrize("kind", kinds())
def test_the_rank_at_fault_is_named(kind: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("hang_job.py")
    folder = tmp_path / "dumps"
    done = programs.run(script, kind, folder, os.environ.get("CUDALENS_HANG_RANKS", "3"))
    assert done.returncode == 0, done.stderr
    hang = cudalens.load_flight_recorder(folder).hang
    status, ranks, reasons = EXPECTED[kind]
    assert hang.status in status.split(" or ")  # of many ranks, only neighbours of the one at fault raise
    assert [one.rank for one in hang.culprits] == ranks
    assert {one.reason for one in hang.culprits} <= reasons


def test_a_watcher_that_stops_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, threading, cudalens\n"
        "hook, threads = sys.excepthook, threading.active_count()\n"
        f"with cudalens.watch_hangs({str(tmp_path / 'dumps')!r}, timeout_s=5):\n"
        "    assert threading.active_count() == threads + 1\n"
        "assert (sys.excepthook, threading.active_count()) == (hook, threads)\n"
    )
    done = programs.run("-c", program)
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "dumps").iterdir())


def test_times_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="timeout_s and interval_s must be positive; got 0 and None"):
        cudalens.watch_hangs(tmp_path, timeout_s=0)
