"""One thing that a watched program did, as it can be done again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from cudalens.device.stacks import NOWHERE
from cudalens.device.stacks import Place as Site
from cudalens.virtual.explorer.places import Place, Span


@dataclass(frozen=True, slots=True)
class Draw:
    """In the place of a random generator: the state that it had when the host issued the operator.

    So it is on a GPU, whose kernels are given the seed and the offset to begin from.
    """

    state: torch.Tensor


@dataclass(slots=True)
class LoggedOp:
    """A task: an operator on a stream, or what the host itself did.

    Attributes:
        name: ``aten::add``, or words of ours (``host read``).
        func: What is called; None where the values that it gave are kept (`contents`).
        args: Its arguments, `Place` for tensors in memory that is followed, `Draw` for generators.
        kwargs: Likewise.
        makes: What it returns that lies in memory of its own: where in the result, and its place.
        moves: Arguments that were given other memory meanwhile: the place before, the place after.
        contents: Bytes that it leaves, where it cannot be called again: the span, and its bytes.
        writes: Places among the arguments that it overwrites.
        reads: All others among them.
        site: Where in the user's program.
        is_observed: The host learned what it returned.
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
        """The bytes that it may write."""
        spans = [place.span for place in self.writes]
        spans += [place.span for _, place in self.makes] + [after.span for _, after in self.moves]
        return spans + [span for span, _ in self.contents]

    def touched(self) -> list[Span]:
        """The bytes of all storages that it needs."""
        places = [*self.writes, *self.reads, *(place for _, place in self.makes), *(after for _, after in self.moves)]
        return [place.storage for place in places] + [span for span, _ in self.contents]
