"""`Ranks`: the traces of one distributed job, by rank, read from their files when they are used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import pandas as pd

from cudalens.frames.info import Problem, RunInfo
from cudalens.frames.trace import Trace

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import dask.dataframe as dd
    import ipywidgets
    import plotly.graph_objects as go

    from cudalens.analysis.compare.runs import Comparable
    from cudalens.analysis.ranks.job import RankAnalysis
    from cudalens.frames.info import Ceilings
    from cudalens.views.ranks.section import RanksSummary

#: Events of the traces that are kept in memory after use: about half a gigabyte.
MAX_KEPT_EVENTS: Final = 1_500_000


class RankSource(Protocol):
    """Where the traces of a job are: files of any kind, or a store. Can be pickled."""

    def read(self, rank: int) -> Trace:
        """Return the Trace of a rank."""

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
        from cudalens.frames.rank_store import open_store

        return open_store(store)

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
        if self._frames:
            return self._frames
        from cudalens.analysis.ranks.job import reduce_ranks

        return reduce_ranks(self)

    @cached_property
    def analysis(self) -> RankAnalysis:
        """What the ranks have to do with each other: collectives, clocks, waits, stragglers.

        Each of its results is computed at first use.
        """
        from cudalens.analysis.ranks.job import RankAnalysis

        return RankAnalysis(self)

    @property
    def source(self) -> RankSource:
        """Where the traces are read from."""
        return self._traces.source if isinstance(self._traces, _LazyTraces) else _InMemory(self._traces)

    @property
    def events(self) -> dd.DataFrame:
        """The events of all ranks as a ``dask.dataframe``: a partition per rank, with a first column ``rank``.

        Raises:
            ImportError: dask is not installed; ``pip install cudalens[ranks]`` installs it.
        """
        from cudalens.frames.rank_store import lazy_events

        return lazy_events(self.source, list(self))

    def window(
        self, *, step: int | None = None, ranks: Iterable[int] | None = None, columns: Iterable[str] | None = None
    ) -> pd.DataFrame:
        """Return the events of some ranks and of one step as a pandas frame with a first column ``rank``.

        Of a store, reads only what it needs: the files of these ranks, and in them the pieces that hold the step.

        Args:
            step: A profiler step; None for all.
            ranks: The ranks; None for all.
            columns: Columns of ``Trace.events``; None for all.
        """
        from cudalens.frames.rank_store import joined

        chosen = list(self if ranks is None else ranks)
        for rank in chosen:
            if rank not in self._traces:
                self[rank]  # raises the error that lists the ranks
        wanted = None if columns is None else list(columns)
        return joined({rank: self.source.read_events(rank, wanted, step) for rank in chosen})

    def sql(self, query: str) -> pd.DataFrame:
        """Return the result of an SQL query over the frames of all ranks; needs DuckDB.

        A store is read as it is and can be larger than memory; otherwise the traces of all ranks are read.

        Args:
            query: As of `Trace.sql`. The tables are the frames of a Trace with first columns ``rank`` and ``row``, and
                the `frames` of the job.

        Raises:
            QueryError: The query is not valid, or refers to something other than these tables.
            ImportError: DuckDB is not installed; ``pip install 'cudalens[sql]'`` installs it.
        """
        from cudalens.analysis.queries import query_ranks

        return query_ranks(self, query)

    def figure(
        self,
        analysis: str,
        *,
        mode: Literal["auto", "light", "dark"] = "auto",
        by: str | None = None,
        step: int | None = None,
        start: int | None = None,
        end: int | None = None,
        weight: str | None = None,
        per_thread: bool | None = None,
        min_ns: int | None = None,
        length: int | tuple[int, int] | None = None,
        min_count: int | None = None,
        max_gap_ns: int | None = None,
        top: int | None = None,
        call_cutoff_ns: int | None = None,
        delay_cutoff_ns: int | None = None,
        full_queue: int | None = None,
        ceilings: Ceilings | Mapping[int, Ceilings] | None = None,
        other: Comparable | None = None,
    ) -> go.Figure:
        """Draw the analysis `analysis` of all ranks, such as ``"idle_time"``, with plotly.

        Args:
            analysis: A name; an unknown one raises an error that lists them all.
            mode: Colours: ``light``, ``dark``, or ``auto`` for those of the page.
            by: What is one bar or point: of the analysis of that name, as are all following options. None is the
                analysis' own default; an option that it does not have raises an error that lists those it has.
            step: A profiler step.
            start: Start of a ``critical_path``, ns.
            end: End of a ``critical_path``, ns.
            weight: The times of a ``flame_graph``: ``host`` or ``device``.
            per_thread: Whether a ``flame_graph`` separates threads.
            min_ns: Shortest gap of ``idle_time`` and ``idle_causes``, ns.
            length: Number of kernels of ``kernel_sequences``.
            min_count: Least number of occurrences of ``kernel_sequences``.
            max_gap_ns: Longest gap within ``kernel_sequences``, ns.
            top: Most rows of ``kernel_sequences``.
            call_cutoff_ns: Duration of a long call of ``launch_statistics``, ns.
            delay_cutoff_ns: Duration of a long delay of ``launch_statistics``, ns.
            full_queue: Length of a full queue of ``launch_statistics``.
            ceilings: The ceilings of a ``roofline``.
            other: The run after, of ``compare``.

        Raises:
            ValueError: There is no such analysis, or an option has a value that the analysis does not take.
            TypeError: The analysis does not have an option.
        """
        from cudalens.views.figures import figure

        return figure(
            self,
            analysis,
            mode=mode,
            by=by,
            step=step,
            start=start,
            end=end,
            weight=weight,
            per_thread=per_thread,
            min_ns=min_ns,
            length=length,
            min_count=min_count,
            max_gap_ns=max_gap_ns,
            top=top,
            call_cutoff_ns=call_cutoff_ns,
            delay_cutoff_ns=delay_cutoff_ns,
            full_queue=full_queue,
            ceilings=ceilings,
            other=other,
        )

    @cached_property
    def transfer_curves(self) -> pd.DataFrame:
        """Modelled bandwidth of the job's collectives by size, if its GPU is one of the calibrated ones; else empty.

        Columns: ``kind``, ``group_size``, ``num_bytes``, ``bus_bytes_per_s``; `cudalens.virtual.collective_time`.
        """
        from cudalens.api.load_ranks import transfer_curves

        return transfer_curves(self)

    def widget(self) -> ipywidgets.VBox:
        """Return the summary as a live widget: choose the step, the ranks and the collective of the pictures.

        Raises:
            ImportError: ipywidgets is not installed; ``pip install cudalens[lab]`` installs it.
        """
        from cudalens.views.ranks.widget import widget

        return widget(self)

    def summary(self) -> RanksSummary:
        """Return the stragglers and what they cost; prints as text, shows as pictures and tables in a notebook."""
        from cudalens.views.ranks.section import summary

        return summary(self)

    def to_html(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
        """Write one HTML file that shows the job without a network, with the heading `title`; return its path."""
        from cudalens.views.ranks.section import to_html

        return to_html(self, path, title=title)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from cudalens.views.ranks.section import mimebundle

        return mimebundle(self)  # IPython filters it by `include` and `exclude`

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
