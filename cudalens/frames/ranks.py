"""`Ranks`: the traces of one distributed job, by rank, read from their files when they are used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import pandas as pd

from cudalens.frames.info import Problem, RunInfo
from cudalens.frames.lazy_methods import call_lazy
from cudalens.frames.trace import Trace

if TYPE_CHECKING:
    import os
    from pathlib import Path

#: Events of the traces that are kept in memory after use: about half a gigabyte.
MAX_KEPT_EVENTS: Final = 1_500_000


class RankSource(Protocol):
    """Where the traces of a job are: files of any kind, or a store. Can be pickled."""

    def read(self, rank: int) -> Trace:
        """The Trace of a rank."""

    def read_events(self, rank: int, columns: list[str] | None = None, step: int | None = None) -> pd.DataFrame:
        """Events of a rank: these columns (None for all) of the rows of one step (None for all)."""


class _LazyTraces(Mapping[int, Trace]):
    """Traces by rank, each read at its first use; the last ones that were used are kept."""

    def __init__(self, ranks: Iterable[int], source: RankSource, kept: Mapping[int, Trace]) -> None:
        self._ranks = dict.fromkeys(sorted(ranks))
        self.source = source
        self._kept = OrderedDict(kept)

    def __getitem__(self, rank: int) -> Trace:
        if rank not in self._ranks:
            raise KeyError(rank)
        trace = self._kept.pop(rank, None) or self.source.read(rank)
        self._kept[rank] = trace
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > MAX_KEPT_EVENTS:
            self._kept.popitem(last=False)
        return trace

    def __iter__(self) -> Iterator[int]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)


class Ranks(Mapping[int, Trace]):
    """The traces of one distributed job, by rank, in order of rank; ``ranks[17]`` is a Trace, read when it is used.

    What all ranks have in common is small and always there: `frames` with the time of the steps, kernels, operators and
    collectives of every rank. Analyses that take a Trace and return a frame take Ranks as well: their frames then begin
    with a column ``rank``.

    Attributes:
        name: Name of the job, for example that of its folder.
        problems: Problems of the set: a missing rank, a file of another job, a damaged file.
    """

    def __init__(
        self,
        traces: Mapping[int, Trace],
        *,
        name: str,
        problems: tuple[Problem, ...] = (),
        infos: Mapping[int, RunInfo] | None = None,
        frames: Mapping[str, pd.DataFrame] | None = None,
    ) -> None:
        self._traces = traces if isinstance(traces, _LazyTraces) else dict(sorted(traces.items()))
        self.name = name
        self.problems = problems
        self._infos = infos
        self._frames = frames

    @classmethod
    def of_source(
        cls,
        source: RankSource,
        infos: Mapping[int, RunInfo],
        *,
        name: str,
        frames: Mapping[str, pd.DataFrame],
        problems: tuple[Problem, ...] = (),
        kept: Mapping[int, Trace] | None = None,
    ) -> Ranks:
        """Ranks whose traces are read from `source` when they are used; those in `kept` are in memory."""
        return cls(_LazyTraces(infos, source, kept or {}), name=name, problems=problems, infos=infos, frames=frames)

    @classmethod
    def open(cls, store: str | os.PathLike[str]) -> Ranks:
        """Open what ``load_ranks(source, store=store)`` wrote, without reading a trace.

        Args:
            store: The folder, or an fsspec URL.

        Raises:
            TraceFormatError: There is no store, it is not complete, or of another version.
        """
        ranks: Ranks = call_lazy("open_ranks", store)
        return ranks

    def __getitem__(self, rank: int) -> Trace:
        try:
            return self._traces[rank]
        except KeyError:
            known = ", ".join(map(str, self._traces)) or "none"
            raise KeyError(f"there is no rank {rank!r} in '{self.name}'; there are: {known[:200]}") from None

    def __iter__(self) -> Iterator[int]:
        return iter(self._traces)

    def __len__(self) -> int:
        return len(self._traces)

    @cached_property
    def infos(self) -> Mapping[int, RunInfo]:
        """The run info of each rank; reads no trace."""
        return self._infos or {rank: trace.info for rank, trace in self.items()}

    @cached_property
    def frames(self) -> Mapping[str, pd.DataFrame]:
        """What is known of all ranks without their events, each frame with a first column ``rank``.

        ``summary`` (a row per rank), ``steps``, ``kernels``, ``operators``, ``collectives``, ``stretches`` (compute
        between communications), ``work`` (operators in these), ``findings``.
        """
        frames: Mapping[str, pd.DataFrame] = self._frames or call_lazy("reduce_ranks", self)
        return frames

    @cached_property
    def analysis(self) -> Any:
        """What the ranks have to do with each other: collectives, clocks, waits, stragglers.

        A `cudalens.analysis.ranks.job.RankAnalysis`; each of its results is computed at first use.
        """
        return call_lazy("analyse_ranks", self)

    @property
    def source(self) -> RankSource:
        """Where the traces are read from."""
        return self._traces.source if isinstance(self._traces, _LazyTraces) else _InMemory(self._traces)

    @property
    def events(self) -> Any:
        """The events of all ranks as a ``dask.dataframe``: a partition per rank, with a first column ``rank``.

        Raises:
            ImportError: dask is not installed; ``pip install cudalens[ranks]`` installs it.
        """
        from cudalens.frames.rank_events import lazy_events

        return lazy_events(self.source, list(self))

    def window(
        self, *, step: int | None = None, ranks: Iterable[int] | None = None, columns: Iterable[str] | None = None
    ) -> pd.DataFrame:
        """The events of some ranks and of one step as a pandas frame with a first column ``rank``.

        Of a store, reads only what it needs: the files of these ranks, and in them the pieces that hold the step.

        Args:
            step: A profiler step; None for all.
            ranks: The ranks; None for all.
            columns: Columns of ``Trace.events``; None for all.
        """
        from cudalens.frames.rank_events import joined

        chosen = list(self if ranks is None else ranks)
        for rank in chosen:
            if rank not in self._traces:
                self[rank]  # raises the error that lists the ranks
        wanted = None if columns is None else list(columns)
        return joined({rank: self.source.read_events(rank, wanted, step) for rank in chosen})

    def figure(self, analysis: str, **options: Any) -> Any:
        """A plotly figure of the analysis `analysis`, of all ranks; an unknown name lists them all."""
        return call_lazy("figure", self, analysis, **options)

    @cached_property
    def transfer_curves(self) -> pd.DataFrame:
        """Modelled bandwidth of the job's collectives by size, if its GPU is one of the calibrated ones; else empty.

        Columns: ``kind``, ``group_size``, ``num_bytes``, ``bus_bytes_per_s``; `cudalens.virtual.collective_time`.
        """
        curves: pd.DataFrame = call_lazy("transfer_curves", self)
        return curves

    def widget(self) -> Any:
        """The summary as a live widget: choose the step, the ranks and the collective of the pictures.

        Raises:
            ImportError: ipywidgets is not installed; ``pip install cudalens[lab]`` installs it.
        """
        return call_lazy("ranks_widget", self)

    def summary(self) -> Any:
        """The stragglers and what they cost; prints as text, shows as pictures and tables in a notebook."""
        return call_lazy("ranks_summary", self)

    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write one offline HTML file that shows the job (``title=`` its heading); returns its path."""
        written: Path = call_lazy("ranks_html", self, path, **options)
        return written

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return call_lazy("ranks_mimebundle", self, **kwargs)

    def __repr__(self) -> str:
        """One cheap line."""
        kinds, size = len(self.problems), len(self)
        damage = f", {kinds} kind{'s' * (kinds != 1)} of problems" if kinds else ""
        return f"<cudalens.Ranks '{self.name}': {size} rank{'s' * (size != 1)}{damage}>"


class _InMemory:
    """Traces that are in memory, as a `RankSource`."""

    def __init__(self, traces: Mapping[int, Trace]) -> None:
        self._traces = traces

    def read(self, rank: int) -> Trace:
        return self._traces[rank]

    def read_events(self, rank: int, columns: list[str] | None = None, step: int | None = None) -> pd.DataFrame:
        return events_of(self._traces[rank], columns, step)


def events_of(trace: Trace, columns: list[str] | None = None, step: int | None = None) -> pd.DataFrame:
    """These columns (None for all) of the events of one step (None for all) of `trace`; the index is the row number."""
    events = trace.events
    if step is not None:
        events = events[(events["step"] == step).fillna(False).to_numpy(bool)]
    return events if columns is None else events[columns]
