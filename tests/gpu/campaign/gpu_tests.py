"""tests/gpu with the outcome of each test. The fidelity programs are a part of their own."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from campaign import processes
from campaign.packages import ROOT
from campaign.run import Run

_MAX_TEXT: Final = 3000
#: What a short run on a virtual device runs: callbacks of torch, which it fires as a real device does.
_SHORT: Final = ("tests/gpu/test_hooks_gpu.py", "-k", "event or pointer")
_FOLDER: Final = Path("tests/gpu")


def run(this: Run) -> str:
    """Run each file of tests in a process of its own; a test that fails or crashes does not fail the part."""
    os.environ["CUDALENS_CAMPAIGN"] = "1"
    os.chdir(ROOT)
    files = [str(path) for path in sorted(_FOLDER.glob("test_*_gpu.py"))]
    rows: list[dict[str, Any]] = []
    for selection in [list(_SHORT)] if this.is_short else [[file] for file in files]:
        rows += _run_file(this, selection)
        this.write(rows)
    counts = {name: sum(row["outcome"] == name for row in rows) for name in ("passed", "failed", "skipped")}
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _run_file(this: Run, selection: list[str]) -> list[dict[str, Any]]:
    """The rows of the tests of a file, and one for the file itself if its process does not end by itself."""
    path = this.path.with_name(f".{Path(selection[0]).stem}.json")
    part = replace(this, path=path, seconds=this.seconds_left, began=time.monotonic())
    problem = "no time left"
    if not this.is_over:
        problem = processes.forked(lambda: _run_tests(part, selection), None, this.seconds_left)
    rows: list[dict[str, Any]] = []
    if part.path.exists():
        found = json.loads(part.path.read_text(encoding="utf-8"))
        part.path.unlink()
        this.facts, rows = found["facts"], found["results"]
    if problem:
        rows.append({"test": selection[0], "outcome": "failed", "seconds": 0.0, "text": problem})
    return rows


def _run_tests(this: Run, selection: list[str]) -> None:
    import pytest

    plugin = Outcomes(this)
    options = ["-m", "gpu", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", "--rootdir", str(ROOT)]
    with this.device():
        pytest.main([*options, *selection], plugins=[plugin])
    this.write(plugin.rows)


class Outcomes:
    """A pytest plugin that writes each test's outcome, and ends the session when the time is over."""

    def __init__(self, this: Run) -> None:
        self._run = this
        self.rows: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep one row for each test: its call, or what failed or skipped it earlier."""
        if report.when != "call" and report.passed:
            return
        row = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 3)}
        if not report.passed:
            row["text"] = report.longreprtext[-_MAX_TEXT:] if report.failed else str(report.longrepr)[-300:]
        self.rows.append(row)
        if len(self.rows) % 20 == 0 or report.failed:
            self._run.write(self.rows)

    def pytest_runtest_setup(self, item: Any) -> None:
        """Start no test after the time limit."""
        if self._run.is_over:
            item.session.shouldstop = "no time left"
