"""Print what the fixes of the planted programs gain: ``python tests/planted/fix_scores.py [--write] [NAME ...]``."""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent)]

import torch  # noqa: E402
from fix_programs import CELLS, Cell  # noqa: E402

import cudalens  # noqa: E402
from cudalens.analysis import Finding, findings  # noqa: E402
from cudalens.fixes.settings import find_clock  # noqa: E402
from cudalens.fixes.trying.attempt import Attempt  # noqa: E402
from cudalens.fixes.trying.choosing import Trying  # noqa: E402

#: What `tools/fix_docs.py` makes the table of docs/findings.md from; ``--write`` writes it.
RESULTS = Path(__file__).parent / "fix_results.json"
#: The fix must give this share of the true gain.
ENOUGH = 0.7


@dataclass(frozen=True)
class Score:
    """What the fix of a program gave.

    Attributes:
        cell: The program.
        attempt: The try of its fix.
        true_gain: Gain of the hand-written fix, as a share of the time.
        predicted_pct: Gain of the advice of the rule's finding alone, in per cent of the measured window.
    """

    cell: Cell
    attempt: Attempt
    true_gain: float
    predicted_pct: float | None = None

    @property
    def share(self) -> float:
        """Gain of the written fix, as a share of the true gain."""
        return (self.attempt.gain_pct or 0.0) / 100 / max(self.true_gain, 1e-9)

    @property
    def is_right(self) -> bool:
        """Whether the fix gives enough, and its results are as claimed."""
        is_as_claimed = self.attempt.difference.is_exact or not self.cell.is_equal or not self.cell.has_values
        is_gain = self.attempt.is_faster and self.true_gain > 0 and self.share >= ENOUGH
        return not self.attempt.refusal and is_gain and is_as_claimed


def run(cell: Cell) -> Score:
    """Try the fix of a program, and time the hand-written one."""
    torch.manual_seed(0)
    device = cudalens.virtual.device(cell.gpu, values=cell.has_values) if cell.gpu else contextlib.nullcontext()
    with device:
        try:
            names = _ran(cell.before)
            exec(compile(cell.planted, "<cell>", "exec"), names)
            found = Finding(cell.rule, cell.kind, "", None, None, (), None, "", "high")
            predicted_pct = _predicted(cell)
            attempt = Trying("cell", cell.planted, names).attempt(found)
            before = _time(cell.before, cell.planted)
            after = _time(cell.before, cell.fixed)
        finally:
            torch.set_grad_enabled(True)
            torch.backends.cuda.matmul.allow_tf32 = False
    return Score(cell, attempt, 1 - after / before, predicted_pct)


def _predicted(cell: Cell) -> float | None:
    """Gain of the advice of the rule of a program alone, in per cent of the measured window."""
    names = _ran(cell.before)
    code = compile(cell.planted, "<cell>", "exec")
    for _ in range(2):  # the first runs also have what only comes once, as memory from the driver
        exec(code, names)
    find_clock().wait()  # else the measured window begins with what these runs still have queued
    with cudalens.profile(keep=False) as profiled:
        exec(code, names)
    gains = [one.alone_pct for one in findings(profiled.trace, most=None) if one.rule == cell.rule]
    return max((one for one in gains if one is not None), default=None)


def _ran(text: str) -> dict[str, Any]:
    import linecache

    name = f"<before {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    return names


def _time(before: str, text: str) -> float:
    """Modelled time of the last of several runs of a cell, without its lines that run once."""
    names, clock, times = _ran(before), find_clock(), []
    lines = text.split("\n")
    once = [line for line in lines if line.endswith("# once")]
    rest = compile("\n".join(line for line in lines if line not in once), "<cell>", "exec")
    exec("\n".join(once), names)
    for _ in range(3):
        times.append(clock.time(lambda: exec(rest, names))[0])
    return statistics.median(times)


def main(chosen: list[str]) -> int:
    """Run the programs, print a line for each, and the scores."""
    warnings.simplefilter("ignore")
    scores = []
    for name, cell in CELLS.items():
        if chosen and not any(part in name for part in chosen):
            continue
        try:
            score = run(cell)
        except Exception as error:
            print(f"!! {name:26} {type(error).__name__}: {error}")
            continue
        scores.append(score)
        mark = "ok" if score.is_right else "--"
        gains = f"true {100 * score.true_gain:4.0f} % got {score.attempt.gain_pct or 0:4.0f} %"
        print(f"{mark} {name:26} {gains}  {score.attempt.headline()[:150]}", flush=True)
        if chosen:
            print(score.attempt)
    right = [score for score in scores if score.is_right]
    kinds = {score.cell.kind for score in right}
    right_ones = f"{len(right)} of {len(scores)} programs of {len(kinds)} kinds"
    if "--write" in sys.argv:
        _write(scores)
    print(f"{right_ones} give {100 * ENOUGH:.0f} % of the true gain, results as claimed")
    return 0


def _write(scores: list[Score]) -> None:
    """Write the scores beside those of programs that did not run."""
    rows = {row["name"]: row for row in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    rows |= {score.cell.name: _row(score) for score in scores}
    kept = [rows[name] for name in CELLS if name in rows]
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def _row(score: Score) -> dict[str, Any]:
    """A score for the documentation."""
    gain = score.attempt.gain_pct
    return {
        "name": score.cell.name,
        "kind": score.cell.kind,
        "rule": score.cell.rule,
        "is_modelled": score.attempt.is_modelled,
        "predicted_pct": None if score.predicted_pct is None else round(score.predicted_pct, 1),
        "gain_pct": None if gain is None else round(gain, 1),
        "true_pct": round(100 * score.true_gain, 1),
        "is_right": score.is_right,
    }


if __name__ == "__main__":
    sys.exit(main([word for word in sys.argv[1:] if word != "--write"]))
