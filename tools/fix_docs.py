"""Write the table of docs/findings.md that compares predictions of rules with what fixes gave; ``--check`` compares.

The figures are of the planted programs: ``python tests/planted/fix_scores.py --write``.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from generated_page import write_or_compare

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "tests" / "planted" / "fix_results.json"
PAGE = ROOT / "docs" / "findings.md"
MARKS = re.compile(r"(?<=<!-- predictions: begin -->\n).*?(?=<!-- predictions: end -->)", re.DOTALL)
HEAD = """| rule | programs | with the finding | predicted | the fix gave | given of predicted | at most predicted |
| --- | --- | --- | --- | --- | --- | --- |
"""


def table(results: list[dict[str, Any]]) -> str:
    """A row for each rule: medians over its programs, and the range of what was given of the prediction."""
    rows = []
    for rule in sorted({one["rule"] for one in results}):
        programs = [one for one in results if one["rule"] == rule]
        known = [one for one in programs if one["predicted_pct"] and one["gain_pct"] is not None]
        cells = [f"`{rule}`", str(len(programs)), str(len(known))]
        rows.append(f"| {' | '.join([*cells, *_figures(known)])} |\n")
    return HEAD + "".join(rows)


def _figures(known: list[dict[str, Any]]) -> list[str]:
    if not known:
        return ["-"] * 4
    predicted = statistics.median(one["predicted_pct"] for one in known)
    given = statistics.median(one["gain_pct"] for one in known)
    ratios = [one["gain_pct"] / one["predicted_pct"] for one in known]
    # Two points: modelled times of the profiled run and of the timed runs differ by as much.
    bounded = sum(one["gain_pct"] <= one["predicted_pct"] + 2 for one in known)
    span = f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else f"{ratios[0]:.2f}"
    return [f"{predicted:.0f} %", f"{given:.0f} %", span, f"{bounded} of {len(known)}"]


def page() -> str:
    """The page with the table."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return MARKS.sub(lambda _: table(results), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(write_or_compare(PAGE, page(), "tests/planted/fix_results.json"))
