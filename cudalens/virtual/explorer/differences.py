"""Compare two outcomes bit by bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from cudalens.frames.exploration import Difference
from cudalens.kernels.differing import difference_of
from cudalens.virtual.explorer.image import UNWRITTEN
from cudalens.virtual.explorer.outcomes import Outcome, Seen


def differences(expected: Outcome, found: Outcome, names: Mapping[Seen, str]) -> list[Difference]:
    """All differences between two outcomes, values seen by the host first.

    Args:
        expected: The outcome of the program order.
        found: The outcome of another order.
        names: The names of the values.
    """
    differing: list[Difference] = []
    for number, error in found.errors.items():
        if expected.errors.get(number) != error:
            differing.append(Difference(names.get(number, ""), 0, 0, (), None, None, None, (), "", error=error))
    for seen, before in expected.values.items():
        now = found.values.get(seen)
        if now is not None and (difference := compared(names.get(seen, str(seen)), before, now)) is not None:
            differing.append(difference)
    return differing


def compared(name: str, before: torch.Tensor, now: torch.Tensor) -> Difference | None:
    """The difference between two tensors of one dtype; None if every bit is equal.

    Reads both once, and again if they differ.
    """
    difference = difference_of(name, before, now)
    if difference is None or difference.error is not None:
        return difference
    first = now[difference.first_index].reshape(1).contiguous()
    return replace(difference, is_unwritten=bool((first.view(torch.uint8) == UNWRITTEN).all()))
