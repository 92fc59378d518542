"""`Trace`: what one run left behind, as pandas frames."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from cudalens.frames import lazy_methods, store
from cudalens.frames.catalog import FRAMES
from cudalens.frames.info import RunInfo
from cudalens.frames.schema import check_frame, empty_frame

if TYPE_CHECKING:
    from pathlib import Path

_FRAME_NAMES: Final = tuple(FRAMES)


class Trace:
    """What one run left behind: frames of events and memory, the stack table, and facts about the run.

    A Trace does not change. Its frames are handed out as shallow copies: adding or replacing a column of one leaves the
    Trace as it was. A frame that the run did not make is empty, with the right columns.

    Attributes are documented column by column in ``docs/frames.md``.
    """

    __slots__ = ("__weakref__", "_frames", "_info")

    def __init__(self, info: RunInfo, **frames: pd.DataFrame) -> None:
        """Build a Trace of frames that obey the catalog.

        Args:
            info: Facts about the run.
            **frames: Frames by their name in the catalog; the others are empty.

        Raises:
            SchemaError: A frame's columns or dtypes differ from the catalog.
            TypeError: A frame has a name that the catalog does not know.
        """
        if unknown := frames.keys() - FRAMES.keys():
            raise TypeError(f"Trace has no frame {sorted(unknown)}; it has {list(_FRAME_NAMES)}")
        self._info = info
        self._frames = {name: _checked(name, frames.get(name)) for name in _FRAME_NAMES}

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
        """The call stacks that the ``stack`` column names, a row per stack frame, innermost first."""
        return self._frames["stacks"].copy(deep=False)

    @property
    def races(self) -> pd.DataFrame:
        """A row per race that the sanitizer found: two accesses to the same bytes that nothing orders."""
        return self._frames["races"].copy(deep=False)

    @property
    def blocks(self) -> pd.DataFrame:
        """A row per block of the allocator's memory: where it stands, who holds it, and what for."""
        return self._frames["blocks"].copy(deep=False)

    @property
    def graphs(self) -> pd.DataFrame:
        """What the graph manager did: a row per function, recording, path, skip and re-recording."""
        return self._frames["graphs"].copy(deep=False)

    @property
    def syncs(self) -> pd.DataFrame:
        """A row per wait of the host for the GPU: what it waited in, for how long, at which line."""
        return self._frames["syncs"].copy(deep=False)

    @property
    def metrics(self) -> pd.DataFrame:
        """A row per reading of a GPU: utilization, memory, temperature, power and clocks; by time, then by device."""
        return self._frames["metrics"].copy(deep=False)

    @property
    def frames(self) -> Mapping[str, pd.DataFrame]:
        """All frames by name."""
        return {name: frame.copy(deep=False) for name, frame in self._frames.items()}

    def replace(self, *, info: RunInfo | None = None, **frames: pd.DataFrame) -> Trace:
        """A Trace with another `info` or other frames, and the rest of this one."""
        return Trace(info or self._info, **(self._frames | frames))

    @property
    def selection(self) -> pd.DataFrame:
        """The rows of `events` that are selected in the last widget shown of this Trace; all where nothing is."""
        frame: pd.DataFrame = lazy_methods.open_door("selection", self)
        return frame

    def summary(self) -> Any:
        """The verdict and the largest costs; prints as text, shows as a table in a notebook."""
        return lazy_methods.open_door("summary", self)

    def check(self, *assertions: str) -> None:
        """Raise `AssertionFailed` where an assertion does not hold, as in ``trace.check("idle < 20%")``."""
        lazy_methods.open_door("check", self, *assertions)

    def figure(self, analysis: str, **options: Any) -> Any:
        """A plotly figure of the analysis called `analysis` (``"idle_time"``, say); a wrong name lists them all."""
        return lazy_methods.open_door("figure", self, analysis, **options)

    def graph_tree(self) -> Any:
        """The CUDA graphs alone: their tree, what did not replay and why; prints as text, shows as a table of rows."""
        return lazy_methods.open_door("graph_tree", self)

    def memory_diff(self, after: Trace, *, by: str = "stack") -> Any:
        """What `after` holds that this Trace does not, and the other way round; prints as text, shows both on one axis.

        Args:
            after: With blocks; of the same program, perhaps with other settings.
            by: ``stack``, or a column of `blocks` (``category``, ``stream`` …).
        """
        return lazy_methods.open_door("memory_diff", self, after, by=by)

    def timeline(self, **options: Any) -> Any:
        """The live widget: stream timeline, operator and kernel table, memory curve."""
        return lazy_methods.open_door("timeline", self, **options)

    def trust(self) -> Any:
        """How far this Trace can be trusted: verdict and findings; prints as text, shows as a table in a notebook."""
        return lazy_methods.open_door("trust", self)

    def key_averages(self, **options: Any) -> pd.DataFrame:
        """Costs by name, as `cudalens.analysis.key_averages` defines them."""
        frame: pd.DataFrame = lazy_methods.open_door("key_averages", self, **options)
        return frame

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """`key_averages` as an aligned text table, as torch.profiler prints it."""
        text: str = lazy_methods.open_door("table", self, sort_by, row_limit, **options)
        return text

    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write one offline HTML file that shows this Trace; returns its path."""
        written: Path = lazy_methods.open_door("to_html", self, path, **options)
        return written

    def to_chrome(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write Chrome trace JSON (gzip when `path` ends in ``.gz``) for Perfetto and others; returns its path."""
        written: Path = lazy_methods.open_door("to_chrome", self, path, **options)
        return written

    def to_collapsed(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write stacks of costs, a line each, for flamegraph.pl and inferno; returns the path.

        Args:
            path: The file.
            **options: ``weight`` (``host``, ``device``, ``self``) and ``by`` (``tree``, ``stack``, ``module``), as
                `cudalens.traces.export.flame.to_collapsed` defines them.
        """
        written: Path = lazy_methods.open_door("to_collapsed", self, path, **options)
        return written

    def to_speedscope(self, path: str | os.PathLike[str]) -> Path:
        """Write a profile per host thread and per stream for https://www.speedscope.app; returns the path."""
        written: Path = lazy_methods.open_door("to_speedscope", self, path)
        return written

    def to_parquet(self, path: str | os.PathLike[str], *, frame: str = "events") -> Path:
        """Write one frame to a ``.parquet`` file, or every frame into a folder of them; returns the path."""
        written: Path = lazy_methods.open_door("to_parquet", self, path, frame=frame)
        return written

    def to_csv(self, folder: str | os.PathLike[str]) -> Path:
        """Write every frame as CSV into a folder; returns it."""
        written: Path = lazy_methods.open_door("to_csv", self, folder)
        return written

    def to_hta(self, folder: str | os.PathLike[str] | None = None) -> Any:
        """For HolisticTraceAnalysis: its data frame and symbols, or (with `folder`) a folder of rank files."""
        return lazy_methods.open_door("to_hta", self, folder)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write this Trace to one ``.cudalens`` file (a zip of Parquet and JSON); returns its path.

        Raises:
            OutputError: The file cannot be written; what stood there is untouched.
        """
        return store.save(self._info, self._frames, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a ``.cudalens`` file, exactly as it was saved.

        Raises:
            TraceFormatError: The file is damaged, of an unknown version, or no such file at all.
        """
        info, frames = store.load(path)
        return cls(info, **frames)

    def __len__(self) -> int:
        """Number of events."""
        return len(self._frames["events"])

    def __bool__(self) -> bool:
        """A Trace is true, also when it holds no event."""
        return True

    def __repr__(self) -> str:
        """One cheap line; never reads the frames."""
        return f"<cudalens.Trace '{self._info.name}': {len(self):,} events, {self._info.source}>"

    def _ipython_display_(self) -> None:
        """Show it in a live kernel: a picture that the notebook keeps, and the widget in front of it."""
        lazy_methods.open_door("show", self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return lazy_methods.open_door("mimebundle", self, **kwargs)


def _checked(name: str, frame: pd.DataFrame | None) -> pd.DataFrame:
    return empty_frame(name) if frame is None else check_frame(name, frame)
