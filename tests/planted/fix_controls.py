"""Try all fixes for well-written programs: ``python tests/planted/fix_controls.py [NAME ...]``.

The programs are the hand-written fixed ones of `fix_programs`. Their findings are tried, and then the rules without a
finding. No kept fix may be slower in a new run or change results, and the next run has to be that without a try.
Fixes that compile are left out. Exit status 1: something is wrong.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import torch  # noqa: E402
from fix_programs import CELLS, Cell  # noqa: E402
from fix_scores import _ran  # noqa: E402
from support.every_rule import leave_out_compiling, with_every_rule  # noqa: E402

import cudalens  # noqa: E402
from cudalens.analysis import findings  # noqa: E402
from cudalens.fixes.settings import find_clock  # noqa: E402
from cudalens.fixes.trying.choosing import Tries, Trying  # noqa: E402
from cudalens.fixes.values import compare_values, values_in  # noqa: E402


def run(cell: Cell) -> tuple[Tries, str]:
    """Try all fixes for a fixed program; returns what they gave, and what is wrong, "" if nothing is."""
    torch.manual_seed(0)
    device = cudalens.virtual.device(cell.gpu, values=cell.has_values) if cell.gpu else contextlib.nullcontext()
    with device:
        try:
            names, code = _ready(cell)
            find_clock().wait()
            with cudalens.profile(keep=False) as profiled:
                exec(code, names)
            found = with_every_rule(findings(profiled.trace, most=None))
            tries = Trying("cell", _text(cell), names).all(found)
            if not cell.has_values:
                return tries, ""
            before = _next_run(code, names)
            torch.manual_seed(0)
            names, code = _ready(cell)
            exec(code, names)
            difference = compare_values(_next_run(code, names), before)
            return tries, "" if difference.is_exact else str(difference)
        finally:
            torch.set_grad_enabled(True)
            torch.backends.cuda.matmul.allow_tf32 = False


def _text(cell: Cell) -> str:
    return "\n".join(line for line in cell.fixed.split("\n") if not line.endswith("# once"))


def _ready(cell: Cell) -> tuple[dict[str, Any], Any]:
    """The variables of a program after a run, and the code of its cell."""
    names = _ran(cell.before)
    exec("\n".join(line for line in cell.fixed.split("\n") if line.endswith("# once")), names)
    code = compile(_text(cell), "<cell>", "exec")
    exec(code, names)
    return names, code


def _next_run(code: Any, names: dict[str, Any]) -> dict[str, Any]:
    exec(code, names)
    find_clock().wait()
    own = {name: value for name, value in names.items() if not name.startswith("_")}
    return {
        where: one.detach().clone() if isinstance(one, torch.Tensor) else one
        for name, value in own.items()
        for where, one in values_in(name, value)
    }


def main(chosen: list[str]) -> int:
    """Run the programs, and print a line for each and the total."""
    warnings.simplefilter("ignore")
    leave_out_compiling()
    num_wrong = num_kept = num_programs = 0
    for name, cell in CELLS.items():
        if chosen and not any(part in name for part in chosen):
            continue
        num_programs += 1
        try:
            tries, problem = run(cell)
        except Exception as error:
            print(f"!! {name:26} {type(error).__name__}: {error}", flush=True)
            num_wrong += 1
            continue
        together = tries.together
        if together is not None and (together.refusal or (together.gain_pct or 0) <= 0):
            problem = problem or together.headline()
        num_wrong += bool(problem)
        num_kept += sum(tries.kept)
        print(f"{'!!' if problem else 'ok'} {name:26} {problem or tries.headline()[:150]}", flush=True)
        for attempt, is_kept in zip(tries.attempts, tries.kept, strict=True):
            if is_kept:
                print(f"     {attempt.rule}: {attempt.title}: {attempt.headline()[:140]}")
    print(f"{num_programs} programs, {num_kept} fixes kept, {num_wrong} wrong")
    return 1 if num_wrong or not num_programs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
