"""A logged operation that can be run again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from cudalens.device.stacks import NOWHERE
from cudalens.device.stacks import Place as Site
from cudalens.virtual.explorer.places import Place, Span


@dataclass(frozen=True, slots=True)
class Draw:
    """Replaces a random generator: its state when the host issued the operator.

    This matches a GPU, whose kernels receive the seed and the offset as arguments.
    """

    state: torch.Tensor


@dataclass(slots=True)
class LoggedOp:
    """A task: an operator on a stream, or an access of the host.

    Attributes:
        name: The operator (``aten::add``), or a description (``host read``).
        func: The function to call; None if the results are stored instead (`contents`).
        args: The arguments, with `Place` for tensors in tracked memory and `Draw` for generators.
        kwargs: The keyword arguments, in the same form.
        makes: Results in new memory: the path in the result, and the place.
        moves: Arguments that were moved to other memory: the place before and after.
        contents: If it cannot be called again, the spans that it writes and their bytes.
        writes: The places of the arguments that it writes.
        reads: The places of the other arguments.
        site: The location in the user's program.
        is_observed: Whether the host reads its result.
        lane: The number of its lane.
    """

    name: str
    func: Any
    args: Any = ()
    kwargs: Any = field(default_factory=dict)
    makes: list[tuple[tuple[int, ...], Place]] = field(default_factory=list)
    moves: list[tuple[Place, Place]] = field(default_factory=list)
    contents: list[tuple[Span, torch.Tensor]] = field(default_factory=list)
    writes: list[Place] = field(default_factory=list)
    reads: list[Place] = field(default_factory=list)
    site: Site = NOWHERE
    is_observed: bool = False
    lane: int = 0

    def written(self) -> list[Span]:
        """Return the bytes that it may write."""
        spans = [place.span for place in self.writes]
        spans += [place.span for _, place in self.makes] + [after.span for _, after in self.moves]
        return spans + [span for span, _ in self.contents]

    def touched(self) -> list[Span]:
        """Return the bytes of all storages that it accesses."""
        places = [*self.writes, *self.reads, *(place for _, place in self.makes), *(after for _, after in self.moves)]
        return [place.storage for place in places] + [span for span, _ in self.contents]
