"""Print how well the findings name and price planted bottlenecks: ``python tests/planted/scores.py [NAME ...]``."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "unit" / "analysis")]

import cpu_programs  # noqa: E402, F401
import gpu_programs  # noqa: E402, F401
import host_programs  # noqa: E402, F401
import recorded_programs  # noqa: E402, F401
from cases import CASES, Result, run  # noqa: E402

from cudalens.analysis import units  # noqa: E402

#: A figure within these factors of the true gain is right.
LOW, HIGH = 0.7, 1.4


def line(result: Result) -> str:
    """The result of a case on one line."""
    found = ", ".join(f"{one.rule} {units.duration(one.gain_ns)}" for one in result.found[:4]) or "nothing"
    mark = "1" if result.is_first else "+" if result.is_named else "-"
    ratio = "    -" if result.ratio is None else f"{result.ratio:5.2f}"
    right = "ok" if result.ratio is not None and LOW <= result.ratio <= HIGH else "  "
    control = f" CONTROL {','.join(result.alarms)}" if result.alarms else ""
    spoiled = f" (control gains {100 * result.control_share:.0f} %)" if result.control_share > 0.03 else ""
    gain = f"{units.duration(result.gain_ns)} ({100 * result.share:.0f} %)"
    return f"{mark} {ratio} {right} {result.case.name:30} true {gain:18} {found}{control}{spoiled}"


def main(names: list[str]) -> int:
    """Run the cases, print a line for each, and the scores."""
    warnings.simplefilter("ignore")
    results = []
    for name, case in CASES.items():
        if not names or any(part in name for part in names):
            results.append(run(case))
            print(line(results[-1]), flush=True)
    n, controls = len(results), [one for one in results if one.case.has_control]
    priced = [one for one in results if one.ratio is not None and LOW <= one.ratio <= HIGH]
    print(f"{n} programs of {len({one.case.kind for one in results})} kinds")
    first, named = sum(one.is_first for one in results), sum(one.is_named for one in results)
    print(f"first {first}, named {named}, priced {len(priced)} of {n}")
    print(f"silent controls {sum(not one.alarms for one in controls)} of {len(controls)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
