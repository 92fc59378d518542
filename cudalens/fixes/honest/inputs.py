"""Fresh inputs for each call of a benchmark: from the user's function, or by permuting the elements of examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from cudalens.errors import BenchmarkError
from cudalens.fixes.values import is_equal

#: Bytes of all sets of inputs of a run.
MAX_BYTES: Final = 128 << 20

#: Sets that are compared where contents are permuted.
_CHECKED_SETS: Final = 12

MakeInputs = Callable[[], Sequence[Any]]


class Inputs:
    """Makes sets of arguments that differ in their contents.

    Args:
        given: A function without parameters that returns the arguments of one call, with other contents each time; or
            a tuple of example arguments.

    Raises:
        BenchmarkError: It is neither.
    """

    def __init__(self, given: MakeInputs | Sequence[Any]) -> None:
        self._make: MakeInputs | None = None
        self._examples: tuple[Any, ...] = ()
        if callable(given):
            self._make = given
        elif isinstance(given, list | tuple):
            self._examples = tuple(given)
        else:
            raise BenchmarkError(
                f"inputs is {type(given).__name__}: expected a function that returns the arguments of one call, with "
                "other contents each time, or a tuple of example arguments."
            )

    @property
    def how(self) -> str:
        """How sets differ, in words."""
        return "made by inputs() for each call" if self._make else "elements of the examples permuted for each call"

    @property
    def has_examples(self) -> bool:
        """Whether sets are made from examples."""
        return self._make is None

    def fresh(self) -> tuple[Any, ...]:
        """Return a new set of arguments."""
        if self._make is not None:
            made = self._make()
            return tuple(made) if isinstance(made, list | tuple) else (made,)
        return tuple(_permuted(one) if isinstance(one, torch.Tensor) else one for one in self._examples)

    def spread(self) -> tuple[Any, ...]:
        """Return a set of the same shapes whose floating-point contents have another distribution."""
        made = self.fresh()
        return tuple(_spread(one) if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in made)

    def check(self) -> None:
        """Check that the contents differ from set to set.

        Raises:
            BenchmarkError: They do not, so a function that returns an old result could not be found.
        """
        # Two orders of a few elements are the same by chance: of 5 zeros and ones, each tenth time.
        sets = [self.fresh() for _ in range(2 if self._make else _CHECKED_SETS)]
        first = [one for one in sets[0] if isinstance(one, torch.Tensor)]
        others = [[one for one in given if isinstance(one, torch.Tensor)] for given in sets[1:]]
        if first and all(is_equal(a, b) for other in others for a, b in zip(first, other, strict=True)):
            hint = "inputs() must return other contents each time" if self._make else "pass a function instead"
            raise BenchmarkError(
                f"the inputs do not vary: two sets have the same contents, so cached results cannot be found; {hint}, "
                "for example inputs=lambda: (torch.randn(1024, device='cuda'),)."
            )


def copy_set(given: Sequence[Any]) -> tuple[Any, ...]:
    """Return a copy with memory of its own."""
    return tuple(_clone(one) if isinstance(one, torch.Tensor) else one for one in given)


def write_set(target: Sequence[Any], source: Sequence[Any]) -> None:
    """Write the contents of `source` into the tensors of `target`."""
    with torch.no_grad():
        for one, other in zip(target, source, strict=True):
            if isinstance(one, torch.Tensor):
                one.copy_(other)
                one.grad = None


def num_bytes(given: Sequence[Any]) -> int:
    """Return the bytes of the tensors of a set."""
    return sum(one.numel() * one.element_size() for one in given if isinstance(one, torch.Tensor))


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    copy.copy_(tensor.detach())
    return copy.requires_grad_(tensor.requires_grad)


def _permuted(tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        order = torch.randperm(tensor.numel(), device="cpu").to(tensor.device)
        made = _clone(tensor.detach())
        made.copy_(tensor.detach().reshape(-1)[order].reshape(tensor.shape))
    return made.requires_grad_(tensor.requires_grad)


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """Contents of another distribution: normal, with the mean and the spread of all elements, and no equal rows."""
    with torch.no_grad():
        wide = tensor.detach().float()
        scale = wide.std() if wide.numel() > 1 else wide.abs()
        noise = torch.randn(tensor.shape, device=tensor.device)
        made = wide.mean() + (scale + 1e-3) * noise
        low, high = wide.min(), wide.max()
        if bool(low >= 0):  # an element at a limit is none that the examples may have: 0 and 1 equal their squares
            within = low + (high - low) * torch.rand(tensor.shape, device=tensor.device)
            made = torch.where((made < low) | (made > high), within, made)
        copy = _clone(tensor.detach())
        copy.copy_(made)
    return copy.requires_grad_(tensor.requires_grad)
