"""`Ranks`: the Traces of one distributed job, by rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cudalens.frames.info import Problem
from cudalens.frames.lazy_methods import call_lazy
from cudalens.frames.trace import Trace


class Ranks(Mapping[int, Trace]):
    """The Traces of one distributed job, by rank, in order of rank.

    Analyses that take a Trace and return a frame take Ranks as well: their frames then begin with a column ``rank``.

    Attributes:
        name: Name of the job, for example that of its folder.
        problems: Problems of the set: a missing rank, a file of another job, a damaged file.
    """

    def __init__(self, traces: Mapping[int, Trace], *, name: str, problems: tuple[Problem, ...] = ()) -> None:
        self._traces = dict(sorted(traces.items()))
        self.name = name
        self.problems = problems

    def __getitem__(self, rank: int) -> Trace:
        try:
            return self._traces[rank]
        except KeyError:
            known = ", ".join(map(str, self._traces)) or "none"
            raise KeyError(f"there is no rank {rank!r} in '{self.name}'; there are: {known}") from None

    def __iter__(self) -> Iterator[int]:
        return iter(self._traces)

    def __len__(self) -> int:
        return len(self._traces)

    def figure(self, analysis: str, **options: Any) -> Any:
        """A plotly figure of the analysis `analysis`, of all ranks; an unknown name lists them all."""
        return call_lazy("figure", self, analysis, **options)

    def __repr__(self) -> str:
        """One cheap line."""
        damage = f", {len(self.problems)} kinds of problems" if self.problems else ""
        return f"<cudalens.Ranks '{self.name}': {len(self)} ranks{damage}>"
