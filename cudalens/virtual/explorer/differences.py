"""What differs between two outcomes, by the bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from cudalens.frames.exploration import Difference
from cudalens.kernels.differing import difference_of
from cudalens.virtual.explorer.image import UNWRITTEN
from cudalens.virtual.explorer.outcomes import Outcome, Seen


def differences(expected: Outcome, found: Outcome, names: Mapping[Seen, str]) -> list[Difference]:
    """Everything that is not as expected, what the host saw first.

    Args:
        expected: What comes of the program's own order.
        found: What comes of another.
        names: What to call things.
    """
    told: list[Difference] = []
    for number, error in found.errors.items():
        if expected.errors.get(number) != error:
            told.append(Difference(names.get(number, ""), 0, 0, (), None, None, None, (), "", error=error))
    for seen, before in expected.values.items():
        now = found.values.get(seen)
        if now is not None and (difference := compared(names.get(seen, str(seen)), before, now)) is not None:
            told.append(difference)
    return told


def compared(name: str, before: torch.Tensor, now: torch.Tensor) -> Difference | None:
    """The difference between two tensors of one dtype, None where every bit is the same.

    Reads both once, and again where they differ.
    """
    told = difference_of(name, before, now)
    if told is None or told.error is not None:
        return told
    first = now[told.first_index].reshape(1).contiguous()
    return replace(told, is_unwritten=bool((first.view(torch.uint8) == UNWRITTEN).all()))
