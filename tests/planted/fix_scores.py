"""Print what the fixes of the planted programs gain: ``python tests/planted/fix_scores.py [NAME ...]``."""

from __future__ import annotations

import contextlib
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
from cudalens.analysis import Finding  # noqa: E402
from cudalens.fixes.clocks import find_clock  # noqa: E402
from cudalens.fixes.trying.attempt import Attempt  # noqa: E402
from cudalens.fixes.trying.choosing import Trying  # noqa: E402

#: The fix must give this share of the true gain.
ENOUGH = 0.7


@dataclass(frozen=True)
class Score:
    """What the fix of a program gave.

    Attributes:
        cell: The program.
        attempt: The try of its fix.
        true_gain: Gain of the hand-written fix, as a share of the time.
    """

    cell: Cell
    attempt: Attempt
    true_gain: float

    @property
    def share(self) -> float:
        """Gain of the written fix, as a share of the true gain."""
        return (self.attempt.gain_pct or 0.0) / 100 / max(self.true_gain, 1e-9)

    @property
    def is_right(self) -> bool:
        """Whether the fix gives enough, and its results are as claimed."""
        is_as_claimed = self.attempt.difference.is_exact or not self.cell.is_equal or not self.cell.has_values
        is_gain = self.attempt.is_faster and self.share >= ENOUGH
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
            attempt = Trying("cell", cell.planted, names).attempt(found)
            before = _time(cell.before, cell.planted)
            after = _time(cell.before, cell.fixed)
        finally:
            torch.set_grad_enabled(True)
            torch.backends.cuda.matmul.allow_tf32 = False
    return Score(cell, attempt, 1 - after / before)


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
    print(f"{right_ones} give {100 * ENOUGH:.0f} % of the true gain, results as claimed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
