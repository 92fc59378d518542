"""Check every operator of torch's OpInfo database that has a float32 sample, and print how many calls ended how.

.venv/bin/python tests/hunt/all_operators.py --samples 3 --forms function method
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "gpu")]

import torch  # noqa: E402
from hunting import Subject, check_program  # noqa: E402
from operator_calls import FORMS, Call, operators, samples_of  # noqa: E402
from subjects.operators import SUBJECT, check  # noqa: E402


def subject_of(*, shapes: bool) -> Subject[Call]:
    """The subject, with or without the comparison with a device without values."""
    return replace(SUBJECT, check=lambda call: check(call, shapes=shapes))


def main() -> int:
    """Run the checks; the exit status is the number of faults, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=3, help="samples of each operator and form")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--shapes", nargs="*", choices=FORMS, default=["function"], help="forms to run without values")
    parser.add_argument("--only", nargs="*", default=None, help="names of operators")
    options = parser.parse_args()

    faults: list[str] = []
    num_operators = 0
    for name, op in operators().items():
        if torch.float32 not in op.dtypes or (options.only and name not in options.only):
            SUBJECT.counts["operators without a float32 sample, or not wanted"] += 1
            continue
        num_operators += 1
        num = len(samples_of(name, torch.float32))
        places = range(num) if num <= options.samples else [i * num // options.samples for i in range(options.samples)]
        for call in [Call(name, place, form) for form in options.forms for place in places]:
            fault = check_program(subject_of(shapes=call.sample == 0 and call.form in options.shapes), call)
            if fault is not None:
                faults.append(f"{call}: {fault.kind}: {' '.join(fault.text.split())[-300:]}")
                print(faults[-1], flush=True)
    print(f"{num_operators} operators, {len(faults)} faults")
    for what, number in sorted(Counter(SUBJECT.counts).items()):
        print(f"{number:>8,}  {what}")
    return min(len(faults), 1)


if __name__ == "__main__":
    sys.exit(main())
