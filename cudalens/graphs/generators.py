"""States of the random generators that a call can draw from: compare them, and set them back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from cudalens.graphs.functions import Variant


class GeneratorStates:
    """The states that random generators have now: those of the CPU, of the current device, and others.

    Args:
        others: Generators besides.
    """

    def __init__(self, others: Iterable[torch.Generator] = ()) -> None:
        device = torch.cuda.current_device()
        every = [torch.default_generator, torch.cuda.default_generators[device], *others]
        self._states = [(generator, generator.get_state()) for generator in every]

    def restore(self) -> None:
        """Set the generators back to these states."""
        for generator, state in self._states:
            generator.set_state(state)

    def difference(self, other: GeneratorStates) -> str | None:
        """Return the first generator whose state is another in `other`, in words; None if there is none."""
        for (generator, state), (_, now) in zip(self._states, other._states, strict=True):
            if not torch.equal(state, now):
                return f"the state of a random generator on {generator.device}"
        return None


def generator_states(variant: Variant, leaves: Sequence[Any]) -> GeneratorStates:
    """Return the states of the generators that a call can draw from.

    Args:
        variant: What is called.
        leaves: Its arguments.
    """
    given = [leaf for leaf in leaves if isinstance(leaf, torch.Generator)]
    return GeneratorStates([*variant.generators, *given])
