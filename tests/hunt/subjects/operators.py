"""Random operators of torch with samples of its OpInfo database: a virtual device, the CPU, and shapes alone."""

from __future__ import annotations

import random

import torch
from hunting import Fault, Subject, drawn_by
from operator_calls import FORMS, Call, Runner, difference, operators, run_on_device

from cudalens.errors import VirtualDeviceError

#: Half of the calls are of float32: most kernels of the CPU are written for it.
DTYPES = (torch.float32,) * 6 + (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64)


def draw(rng: random.Random) -> Call:
    """Draw a call of any operator."""
    name = rng.choice(sorted(operators()))
    return Call(name, rng.randrange(1_000), rng.choice(FORMS), rng.choice(DTYPES), rng.randrange(10))


def check(call: Call, *, shapes: bool = True) -> Fault | None:
    """Compare a call on the CPU, on a virtual device and, with `shapes`, on one without values."""
    runner = Runner(call)
    if not runner.is_possible:
        SUBJECT.counts["without this form or dtype"] += 1
        return None
    expected = runner.run("cpu")
    found = run_on_device(runner)
    differs = difference(expected, found, device="cuda:0")
    if differs is not None:
        return Fault(f"{call.name}, {call.form}: {differs.partition(':')[0]}", differs)
    count("with values", found.error)
    if found.error is not None or not shapes:
        return None
    without = run_on_device(runner, values=False)
    differs = difference(found, without, device="cuda:0")
    if differs is not None:
        return Fault(f"{call.name}, {call.form}, without values: {differs.partition(':')[0]}", differs)
    count("without values", without.error)
    return None


def count(where: str, error: Exception | None) -> None:
    """Count how a call ended."""
    ending = "equal" if error is None else "refused" if isinstance(error, VirtualDeviceError) else "raises as the CPU"
    SUBJECT.counts[f"{where}: {ending}"] += 1


def source(call: Call) -> str:
    """Return the program as Python."""
    return f"""import sys

import torch

sys.path[:0] = ["tests/support", "tests/hunt"]
from operator_calls import Call
from subjects.operators import check

print(check({call}))"""


SUBJECT = Subject("operators", drawn_by(draw), check, source, num_quick=8, num_round=60)
