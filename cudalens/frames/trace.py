"""`Trace`: the recorded data of one run, as pandas frames."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from cudalens.frames.build import marks_frame
from cudalens.frames.catalog_frames import FRAMES, check_frame, empty_frame
from cudalens.frames.info import RunInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import plotly.graph_objects as go
    from numpy.typing import ArrayLike

    from cudalens.analysis.assertions import Assertion
    from cudalens.analysis.compare.runs import Comparable
    from cudalens.frames.info import Ceilings
    from cudalens.traces.export.hta import HtaTraces
    from cudalens.views.brief import Brief
    from cudalens.views.memory.section import MemoryDiff
    from cudalens.views.sections.page import Summary
    from cudalens.views.sections.shown import Shown
    from cudalens.views.sections.trust import TrustText
    from cudalens.views.widget import TimelineWidget


class Trace:
    """The recorded data of one run: frames of events, memory and others, the stack table, and the run info.

    A Trace is immutable, except for its marks. Its frames are returned as shallow copies: adding or replacing a column
    of one does not change the Trace. A frame that the run did not make is empty, with the right columns.

    The columns of the frames are documented in ``docs/frames.md``. The ten frames are spelled out in signatures here,
    so that editors and type checkers show them.
    """

    __slots__ = ("__weakref__", "_frames", "_info")

    def __init__(
        self,
        info: RunInfo,
        *,
        events: pd.DataFrame | None = None,
        memory: pd.DataFrame | None = None,
        blocks: pd.DataFrame | None = None,
        races: pd.DataFrame | None = None,
        graphs: pd.DataFrame | None = None,
        syncs: pd.DataFrame | None = None,
        metrics: pd.DataFrame | None = None,
        counters: pd.DataFrame | None = None,
        marks: pd.DataFrame | None = None,
        stacks: pd.DataFrame | None = None,
    ) -> None:
        """Build a Trace from frames that follow the catalog; a frame of None is empty.

        Args:
            info: Facts about the run.
            events: A row per interval or instant.
            memory: A row per allocator action.
            blocks: A row per block of the allocator.
            races: A row per race.
            graphs: A row per action of the graph manager.
            syncs: A row per wait of the host for the GPU.
            metrics: A row per reading of a GPU: utilization, memory, power and others, in columns of their own.
            counters: A row per value of a counter of any name, which another tool recorded.
            marks: A row per mark.
            stacks: A row per stack frame of a call stack.

        Raises:
            SchemaError: A frame's columns or dtypes differ from the catalog.
        """
        given = {
            "events": events,
            "memory": memory,
            "blocks": blocks,
            "races": races,
            "graphs": graphs,
            "syncs": syncs,
            "metrics": metrics,
            "counters": counters,
            "marks": marks,
            "stacks": stacks,
        }
        self._info = info
        self._frames = {name: empty_frame(name) for name in FRAMES}
        for name, frame in given.items():
            if frame is not None:
                self._frames[name] = check_frame(name, frame)

    @property
    def info(self) -> RunInfo:
        """What ran, where, when, with which versions and options."""
        return self._info

    @property
    def events(self) -> pd.DataFrame:
        """A row per interval or instant, by start; of equal starts the longest first."""
        return self._frames["events"].copy(deep=False)

    @property
    def memory(self) -> pd.DataFrame:
        """A row per allocator action, in time order."""
        return self._frames["memory"].copy(deep=False)

    @property
    def stacks(self) -> pd.DataFrame:
        """The call stacks of the ``stack`` columns, a row per stack frame, innermost first."""
        return self._frames["stacks"].copy(deep=False)

    @property
    def races(self) -> pd.DataFrame:
        """A row per race that the sanitizer found: two unordered accesses to the same bytes."""
        return self._frames["races"].copy(deep=False)

    @property
    def blocks(self) -> pd.DataFrame:
        """A row per block of the allocator's memory: its address, the variables that hold it, and its use."""
        return self._frames["blocks"].copy(deep=False)

    @property
    def graphs(self) -> pd.DataFrame:
        """What the graph manager did: a row per function, recording, path, skip and re-recording."""
        return self._frames["graphs"].copy(deep=False)

    @property
    def syncs(self) -> pd.DataFrame:
        """A row per wait of the host for the GPU: its kind, duration and line."""
        return self._frames["syncs"].copy(deep=False)

    @property
    def metrics(self) -> pd.DataFrame:
        """A row per reading of a GPU: utilization, memory, temperature, power and clocks; by time, then by device."""
        return self._frames["metrics"].copy(deep=False)

    @property
    def counters(self) -> pd.DataFrame:
        """A row per value of a counter that another tool recorded, by time."""
        return self._frames["counters"].copy(deep=False)

    @property
    def marks(self) -> pd.DataFrame:
        """A row per mark that a reader made with `mark` or in the page, by time."""
        return self._frames["marks"].copy(deep=False)

    def mark(self, ts: int, note: str, *, dur: int = 0) -> None:
        """Add a mark with a note, which the timeline shows, and which is saved with this Trace.

        Args:
            ts: Its time in ns, on the clock of ``events["ts"]``.
            note: The text, of which 500 characters are kept.
            dur: Length of the marked time in ns; 0 for a moment.

        Raises:
            ValueError: `dur` is negative.
            OverflowError: `ts` or `dur` needs more than 64 bits.
        """
        if dur < 0:
            raise ValueError(f"dur={dur!r}: expected the length of the marked time in ns, 0 or more")
        known = self._frames["marks"]
        rows = [*zip(known["ts"], known["dur"], known["note"], strict=True), (int(ts), int(dur), str(note))]
        self._frames["marks"] = marks_frame(rows)

    @property
    def frames(self) -> Mapping[str, pd.DataFrame]:
        """All frames by name."""
        return {name: frame.copy(deep=False) for name, frame in self._frames.items()}

    def replace(
        self,
        *,
        info: RunInfo | None = None,
        events: pd.DataFrame | None = None,
        memory: pd.DataFrame | None = None,
        blocks: pd.DataFrame | None = None,
        races: pd.DataFrame | None = None,
        graphs: pd.DataFrame | None = None,
        syncs: pd.DataFrame | None = None,
        metrics: pd.DataFrame | None = None,
        counters: pd.DataFrame | None = None,
        marks: pd.DataFrame | None = None,
        stacks: pd.DataFrame | None = None,
    ) -> Trace:
        """Return a Trace with another `info` or other frames; None keeps that of this one."""
        given = {
            "events": events,
            "memory": memory,
            "blocks": blocks,
            "races": races,
            "graphs": graphs,
            "syncs": syncs,
            "metrics": metrics,
            "counters": counters,
            "marks": marks,
            "stacks": stacks,
        }
        replaced = {name: frame for name, frame in given.items() if frame is not None}
        return Trace(info or self._info, **(self._frames | replaced))

    # The following methods call later layers (analysis/, views/, traces/, report/), which import frames/. Each imports
    # its function at the first call, so that frames/ works without these packages and `import cudalens` is fast.
    # tools/import_cycles.py permits it here.

    @property
    def selection(self) -> pd.DataFrame:
        """The rows of `events` that are selected in the last widget shown of this Trace; all if none are."""
        from cudalens.views.timeline.marks import selected_events

        return selected_events(self)

    def summary(self) -> Summary:
        """Return the verdict and the largest costs; prints as text, shows as a table in a notebook."""
        from cudalens.views.sections.page import summary

        return summary(self)

    def brief(self, tokens: int = 1500) -> Brief:
        """Return what matters, for language models and CI: a dictionary of at most `tokens` tokens.

        Its key ``text`` is the same as text, of at most `tokens` tokens as well.
        """
        from cudalens.views.brief import brief

        return brief(self, tokens)

    def check(self, *assertions: str | Assertion) -> None:
        """Raise `AssertionFailed` if an assertion does not hold, as in ``trace.check("idle < 20%")``."""
        from cudalens.analysis.assertions import check

        check(self, *assertions)

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
        """Draw the analysis `analysis`, such as ``"idle_time"``, with plotly.

        Args:
            analysis: A name; an unknown one raises an error that lists them all.
            mode: Colours: ``light``, ``dark``, or ``auto`` for those of the page.
            by: What is one bar or point. Passed to the analysis, as are all following options. None is the analysis'
                own default; an option that it does not have raises an error that lists those it has.
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

    def graph_tree(self) -> Shown:
        """Return the CUDA graphs: their tree, what did not replay and why; prints as text, shows as a table."""
        from cudalens.views.graphs.section import graph_tree

        return graph_tree(self)

    def memory_diff(self, after: Trace, *, by: str = "stack") -> MemoryDiff:
        """Return the memory that only one of this Trace and `after` holds; prints as text, shows both on one axis.

        Args:
            after: With blocks; of the same program, perhaps with other settings.
            by: ``stack``, or a column of `blocks` (``category``, ``stream`` …).
        """
        from cudalens.views.memory.section import memory_diff

        return memory_diff(self, after, by=by)

    def sql(self, query: str) -> pd.DataFrame:
        """Return the result of an SQL query over the frames; needs DuckDB, ``pip install 'cudalens[sql]'``.

        Args:
            query: A ``SELECT`` of DuckDB, as ``SELECT name, sum(dur) FROM events WHERE cat = 'kernel' GROUP BY name``.
                Each frame is a table of its name with a first column ``row``, to which ``parent`` and ``launch`` refer.

        Raises:
            QueryError: The query is not valid, or refers to something other than the frames.
            ImportError: DuckDB is not installed.
        """
        from cudalens.analysis.queries import query_trace

        return query_trace(self, query)

    def timeline(
        self,
        *,
        on_select: Callable[[pd.DataFrame], object] | None = None,
        against: Trace | None = None,
        max_bytes: int | None = None,
    ) -> TimelineWidget:
        """Return the live widget: stream timeline, operator and kernel table, memory curve.

        Args:
            on_select: Called with the selected rows of `events` whenever the selection changes.
            against: Another run, which the flame graph compares with.
            max_bytes: Size of the largest message with events or allocations. Of a longer trace the page has the last
                events, and says so. None for no limit, on Databricks and Colab for what these transport.
        """
        from cudalens.views.widget import timeline

        return timeline(self, on_select=on_select, against=against, max_bytes=max_bytes)

    def trust(self) -> TrustText:
        """Return whether this Trace is complete and consistent; prints as text, shows as a table in a notebook."""
        from cudalens.views.sections.trust import trust_text

        return trust_text(self)

    def key_averages(
        self,
        rows: ArrayLike | None = None,
        *,
        by: Sequence[str] | str = ("name",),
        top_level: bool = False,
        group_by_input_shape: bool = False,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> pd.DataFrame:
        """Return costs by name, as `cudalens.analysis.key_averages` defines its columns and options.

        Args:
            rows: The rows of `events` to average, as a boolean mask or as row numbers; None for all.
            by: The keys of a group: ``name``, ``input_shapes``, ``stack:N``, ``module``, ``stream`` and others.
            top_level: Average only rows without a parent: device work, and the outermost host rows.
            group_by_input_shape: torch.profiler's option: adds ``input_shapes`` to `by`.
            group_by_input_shapes: The same.
            group_by_stack_n: torch.profiler's option: adds ``stack:N`` to `by`.
            group_by_overload_name: torch.profiler's option; refused, because overload names are not recorded.
        """
        from cudalens.analysis.time.averages import key_averages

        return key_averages(
            self,
            rows,
            by=by,
            top_level=top_level,
            group_by_input_shape=group_by_input_shape,
            group_by_input_shapes=group_by_input_shapes,
            group_by_stack_n=group_by_stack_n,
            group_by_overload_name=group_by_overload_name,
        )

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        *,
        by: Sequence[str] | str = ("name",),
        top_level: bool = False,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        max_src_column_width: int | None = 80,
        group_by_input_shape: bool = False,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> str:
        """Return `key_averages` as an aligned text table, as torch.profiler prints it.

        Args:
            sort_by: A column of `key_averages`, or torch's name of one (``cuda_time_total``), largest first; None for
                self time.
            row_limit: Rows to show; -1 for all.
            by: The keys of a group, as `key_averages` takes them.
            top_level: Only rows that no other row encloses.
            header: A line above the table.
            top_level_events_only: torch's name of `top_level`.
            time_unit: "s", "ms", "us" or "ns" for all times; None for a unit that suits each.
            max_name_column_width: Characters of a name; None for all.
            max_shapes_column_width: Characters of any other value of `by`; None for all.
            max_src_column_width: Characters of a source line; None for all.
            group_by_input_shape: As `key_averages` takes it, as are the following.
            group_by_input_shapes: The same.
            group_by_stack_n: Number of entries of the call stack.
            group_by_overload_name: Refused.
        """
        from cudalens.views.sections.averages_table import table

        return table(
            self,
            sort_by,
            row_limit,
            by=by,
            top_level=top_level,
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            max_src_column_width=max_src_column_width,
            group_by_input_shape=group_by_input_shape,
            group_by_input_shapes=group_by_input_shapes,
            group_by_stack_n=group_by_stack_n,
            group_by_overload_name=group_by_overload_name,
        )

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        against: Trace | None = None,
        max_bytes: int = 5_000_000,
    ) -> Path:
        """Write one HTML file that shows this Trace without a network; return its path.

        Args:
            path: The file, written whole or not at all.
            title: Heading of the page; None for the run's name.
            against: Another run, which the flame graph compares with.
            max_bytes: Size that the file should not exceed: details of the events are left out first, then the first
                events, and the page says how many.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        from cudalens.report import to_html

        return to_html(self, path, title=title, against=against, max_bytes=max_bytes)

    def to_chrome(self, path: str | os.PathLike[str], *, tracks: bool = True) -> Path:
        """Write Chrome trace JSON for Perfetto and others; return its path.

        Args:
            path: The file; compressed with gzip if it ends in ``.gz``.
            tracks: Add counter tracks of memory and of the GPUs' readings.
        """
        from cudalens.traces.export.chrome import to_chrome

        return to_chrome(self, path, tracks=tracks)

    def to_collapsed(
        self,
        path: str | os.PathLike[str],
        *,
        weight: Literal["host", "device", "self"] = "host",
        by: Literal["tree", "stack", "module"] = "tree",
    ) -> Path:
        """Write stacks of costs, a line each, for flamegraph.pl and inferno; return the path.

        Args:
            path: The file.
            weight: The cost of a stack, as `cudalens.traces.export.flame.to_collapsed` defines it.
            by: What a stack consists of: the call tree, Python's call stack, or the modules.
        """
        from cudalens.traces.export.flame import to_collapsed

        return to_collapsed(self, path, weight=weight, by=by)

    def to_speedscope(self, path: str | os.PathLike[str]) -> Path:
        """Write a profile per host thread and per stream for https://www.speedscope.app; return the path."""
        from cudalens.traces.export.flame import to_speedscope

        return to_speedscope(self, path)

    def to_parquet(self, path: str | os.PathLike[str], *, frame: str = "events") -> Path:
        """Write one frame to a ``.parquet`` file, or every frame into a folder of them; return the path."""
        from cudalens.traces.export.hta import to_parquet

        return to_parquet(self, path, frame=frame)

    def to_csv(self, folder: str | os.PathLike[str]) -> Path:
        """Write every frame as CSV into a folder; return it."""
        from cudalens.traces.export.hta import to_csv

        return to_csv(self, folder)

    def to_hta(self, folder: str | os.PathLike[str] | None = None) -> HtaTraces | Path:
        """Export for HolisticTraceAnalysis: its data frame and symbols, or (with `folder`) a folder of rank files."""
        from cudalens.traces.export.hta import to_hta

        return to_hta(self, folder)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write this Trace to one ``.cudalens`` file (a zip of Parquet and JSON); return its path.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        from cudalens.frames.store import save

        return save(self._info, self._frames, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Trace:
        """Read a ``.cudalens`` file, exactly as it was saved.

        Args:
            path: The file.
            max_bytes: The most bytes that its contents may have. Default: by its size and the free memory.

        Raises:
            TraceFormatError: The file is damaged, of an unknown version, not a saved Trace, or does not exist.
        """
        from cudalens.frames.store import load

        info, frames = load(path, max_bytes=max_bytes)
        return cls(info, **frames)

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self._frames["events"])

    def __bool__(self) -> bool:
        """A Trace is true, also without events."""
        return True

    def __repr__(self) -> str:
        """One cheap line; never reads the frames."""
        return f"<cudalens.Trace '{self._info.name}': {len(self):,} events, {self._info.source}>"

    def _ipython_display_(self) -> None:
        """Show the widget, and below it the picture that a saved notebook keeps."""
        from cudalens.views.mimebundle import show

        show(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from cudalens.views.mimebundle import mimebundle

        return mimebundle(self)  # IPython filters it by `include` and `exclude`
