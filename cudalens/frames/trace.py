"""`Trace`: the recorded data of one run, as pandas frames."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from cudalens.frames.catalog_frames import check_frame, empty_frame
from cudalens.frames.column_catalog import FRAMES
from cudalens.frames.info import RunInfo
from cudalens.frames.lazy_methods import call_lazy
from cudalens.frames.marks import marks_frame

if TYPE_CHECKING:
    from pathlib import Path


class Trace:
    """The recorded data of one run: frames of events, memory and others, the stack table, and the run info.

    A Trace is immutable, except for its marks. Its frames are returned as shallow copies: adding or replacing a column
    of one does not change the Trace. A frame that the run did not make is empty, with the right columns.

    Attributes are documented column by column in ``docs/frames.md``.
    """

    __slots__ = ("__weakref__", "_frames", "_info")

    def __init__(self, info: RunInfo, **frames: pd.DataFrame) -> None:
        """Build a Trace from frames that follow the catalog.

        Args:
            info: Facts about the run.
            **frames: Frames by their name in the catalog; the others are empty.

        Raises:
            SchemaError: A frame's columns or dtypes differ from the catalog.
            TypeError: A frame has a name that is not in the catalog.
        """
        if unknown := frames.keys() - FRAMES.keys():
            raise TypeError(f"Trace has no frame {sorted(unknown)}; it has {list(FRAMES)}")
        self._info = info
        self._frames = {n: check_frame(n, frames[n]) if n in frames else empty_frame(n) for n in FRAMES}

    @property
    def info(self) -> RunInfo:
        """What ran, where, when, with which versions and options."""
        return self._info

    @property
    def events(self) -> pd.DataFrame:
        """A row per interval or instant, sorted by (start, longest first)."""
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

    def replace(self, *, info: RunInfo | None = None, **frames: pd.DataFrame) -> Trace:
        """A Trace with another `info` or other frames, and the rest of this one."""
        return Trace(info or self._info, **(self._frames | frames))

    @property
    def selection(self) -> pd.DataFrame:
        """The rows of `events` that are selected in the last widget shown of this Trace; all if none are."""
        frame: pd.DataFrame = call_lazy("selection", self)
        return frame

    def summary(self) -> Any:
        """The verdict and the largest costs; prints as text, shows as a table in a notebook."""
        return call_lazy("summary", self)

    def brief(self, tokens: int = 1500) -> Any:
        """What matters, for language models and CI: a dictionary with a `text`, of at most `tokens` tokens each."""
        return call_lazy("brief", self, tokens)

    def check(self, *assertions: str) -> None:
        """Raise `AssertionFailed` if an assertion does not hold, as in ``trace.check("idle < 20%")``."""
        call_lazy("check", self, *assertions)

    def figure(self, analysis: str, **options: Any) -> Any:
        """A plotly figure of the analysis `analysis`, such as ``"idle_time"``; an unknown name lists them all."""
        return call_lazy("figure", self, analysis, **options)

    def graph_tree(self) -> Any:
        """The CUDA graphs: their tree, what did not replay and why; prints as text, shows as a table of rows."""
        return call_lazy("graph_tree", self)

    def memory_diff(self, after: Trace, *, by: str = "stack") -> Any:
        """Memory that only one of this Trace and `after` holds; prints as text, shows both on one axis.

        Args:
            after: With blocks; of the same program, perhaps with other settings.
            by: ``stack``, or a column of `blocks` (``category``, ``stream`` …).
        """
        return call_lazy("memory_diff", self, after, by=by)

    def timeline(self, **options: Any) -> Any:
        """The live widget: stream timeline, operator and kernel table, memory curve."""
        return call_lazy("timeline", self, **options)

    def trust(self) -> Any:
        """Whether this Trace is complete and consistent; prints as text, shows as a table in a notebook."""
        return call_lazy("trust", self)

    def key_averages(self, **options: Any) -> pd.DataFrame:
        """Costs by name, as `cudalens.analysis.key_averages` defines them."""
        frame: pd.DataFrame = call_lazy("key_averages", self, **options)
        return frame

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """`key_averages` as an aligned text table, as torch.profiler prints it."""
        text: str = call_lazy("table", self, sort_by, row_limit, **options)
        return text

    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write one offline HTML file that shows this Trace; returns its path."""
        written: Path = call_lazy("to_html", self, path, **options)
        return written

    def to_chrome(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write Chrome trace JSON (gzip when `path` ends in ``.gz``) for Perfetto and others; returns its path."""
        written: Path = call_lazy("to_chrome", self, path, **options)
        return written

    def to_collapsed(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write stacks of costs, a line each, for flamegraph.pl and inferno; returns the path.

        Args:
            path: The file.
            **options: ``weight`` (``host``, ``device``, ``self``) and ``by`` (``tree``, ``stack``, ``module``), as
                `cudalens.traces.export.flame.to_collapsed` defines them.
        """
        written: Path = call_lazy("to_collapsed", self, path, **options)
        return written

    def to_speedscope(self, path: str | os.PathLike[str]) -> Path:
        """Write a profile per host thread and per stream for https://www.speedscope.app; returns the path."""
        written: Path = call_lazy("to_speedscope", self, path)
        return written

    def to_parquet(self, path: str | os.PathLike[str], *, frame: str = "events") -> Path:
        """Write one frame to a ``.parquet`` file, or every frame into a folder of them; returns the path."""
        written: Path = call_lazy("to_parquet", self, path, frame=frame)
        return written

    def to_csv(self, folder: str | os.PathLike[str]) -> Path:
        """Write every frame as CSV into a folder; returns it."""
        written: Path = call_lazy("to_csv", self, folder)
        return written

    def to_hta(self, folder: str | os.PathLike[str] | None = None) -> Any:
        """For HolisticTraceAnalysis: its data frame and symbols, or (with `folder`) a folder of rank files."""
        return call_lazy("to_hta", self, folder)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write this Trace to one ``.cudalens`` file (a zip of Parquet and JSON); returns its path.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        written: Path = call_lazy("save", self._info, self._frames, path)
        return written

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Trace:
        """Read a ``.cudalens`` file, exactly as it was saved.

        Args:
            path: The file.
            max_bytes: The most bytes that its contents may have. Default: by its size and the free memory.

        Raises:
            TraceFormatError: The file is damaged, of an unknown version, not a saved Trace, or does not exist.
        """
        info, frames = call_lazy("load", path, max_bytes=max_bytes)
        return cls(info, **frames)

    def __len__(self) -> int:
        """Number of events."""
        return len(self._frames["events"])

    def __bool__(self) -> bool:
        """A Trace is true, also without events."""
        return True

    def __repr__(self) -> str:
        """One cheap line; never reads the frames."""
        return f"<cudalens.Trace '{self._info.name}': {len(self):,} events, {self._info.source}>"

    def _ipython_display_(self) -> None:
        """Show the widget, and below it the picture that a saved notebook keeps."""
        call_lazy("show", self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return call_lazy("mimebundle", self, **kwargs)
