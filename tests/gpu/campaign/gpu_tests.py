"""tests/gpu with the outcome of each test. The fidelity programs are a part of their own."""

from __future__ import annotations

import os
from typing import Any, Final

from campaign.packages import ROOT
from campaign.run import Run

_MAX_TEXT: Final = 3000
#: What a short run on a virtual device runs: callbacks of torch, which it fires as a real device does.
_SHORT: Final = ("tests/gpu/test_hooks_gpu.py", "-k", "event or pointer")


def run(this: Run) -> str:
    """Run the tests; a test that fails does not fail the part."""
    import pytest

    os.environ["CUDALENS_CAMPAIGN"] = "1"
    order = list(_SHORT) if this.is_short else ["tests/gpu", "--ignore=tests/gpu/test_fidelity.py"]
    plugin = Outcomes(this)
    options = ["-m", "gpu", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", "--rootdir", str(ROOT)]
    os.chdir(ROOT)
    with this.device():
        pytest.main([*options, *order], plugins=[plugin])
    this.write(plugin.rows)
    counts = {name: sum(row["outcome"] == name for row in plugin.rows) for name in ("passed", "failed", "skipped")}
    return ", ".join(f"{count} {name}" for name, count in counts.items())


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
