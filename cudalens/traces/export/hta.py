"""Export a Trace to HolisticTraceAnalysis (HTA): its data frames and symbol table, or rank files for HTA to open.

Column names and codes are those of ``hta.common.trace.Trace`` (HTA 0.5): ``-1`` where an event has no such value, names
and categories as numbers into one table of symbols. Times are not rounded: microseconds with their decimals.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cudalens.errors import OutputError
from cudalens.frames import Ranks, RunInfo, Trace, atomic_write
from cudalens.frames.column_arrays import Ints, integers
from cudalens.frames.files import atomic_folder
from cudalens.traces.export.chrome import to_chrome

#: HTA's code for a value that an event does not have.
ABSENT: Final = -1

_TEXTS: Final = {"input_dims": "shapes", "input_type": "dtypes"}
_INTEGERS: Final = {"correlation": "correlation_id", "bytes": "num_bytes", "external_id": "external_id"}


class SymbolTable:
    """Names and categories by number, with the methods of HTA's ``TraceSymbolTable``.

    Attributes:
        sym_table: The texts, by number.
        sym_index: The numbers, by text.
    """

    def __init__(self, symbols: list[str]) -> None:
        self.sym_table = symbols
        self.sym_index = {text: number for number, text in enumerate(symbols)}

    def get_sym_table(self) -> list[str]:
        """Return the texts, by number."""
        return self.sym_table

    def get_sym_id_map(self) -> dict[str, int]:
        """Return the numbers, by text."""
        return self.sym_index


@dataclass(frozen=True)
class HtaTraces:
    """The ranks of a job as HTA's ``Trace`` holds them after ``parse_traces`` and ``align_and_filter_trace``.

    Attributes:
        traces: A data frame by rank, as `hta_frame` defines it.
        symbol_table: What the numbers in ``name`` and ``cat`` mean; one for all ranks.
        meta_data: The other top-level keys of each rank's file: rank, devices, name.
        min_ts_ns: Time 0: the earliest event of all ranks, ns.
    """

    traces: Mapping[int, pd.DataFrame]
    symbol_table: SymbolTable
    meta_data: Mapping[int, dict[str, Any]]
    min_ts_ns: int

    def get_ranks(self) -> list[int]:
        """Return the ranks, ascending."""
        return list(self.traces)

    def get_trace(self, rank: int) -> pd.DataFrame:
        """Return the data frame of `rank`.

        Raises:
            KeyError: There is no such rank; the message lists them.
        """
        if rank not in self.traces:
            raise KeyError(f"there is no rank {rank!r}; there are: {', '.join(map(str, self.traces))}")
        return self.traces[rank]

    def decoded(self, rank: int) -> pd.DataFrame:
        """Return the data frame of `rank` with columns ``s_name`` and ``s_cat``: names and categories as text."""
        frame, texts = self.get_trace(rank), np.array([*self.symbol_table.sym_table, None], object)
        return frame.assign(s_name=texts[frame["name"]], s_cat=texts[frame["cat"]])

    def __repr__(self) -> str:
        """One cheap line."""
        num_events, num_symbols = sum(map(len, self.traces.values())), len(self.symbol_table.sym_table)
        return f"<HTA traces: {len(self.traces)} ranks, {num_events:,} events, {num_symbols:,} symbols>"


def to_hta(trace: Trace | Ranks, folder: str | os.PathLike[str] | None = None) -> HtaTraces | Path:
    """Export `trace` to HolisticTraceAnalysis, as data frames or as a folder of rank files.

    Args:
        trace: A Trace (rank 0 if it has no rank), or the ranks of a job.
        folder: Folder for ``rank-<n>.json.gz``, to open with ``TraceAnalysis(trace_dir=folder)``; None for data frames.

    Returns:
        The data frames, or `folder`.

    Raises:
        OutputError: The folder cannot be written, or holds other trace files, which HTA would read as ranks as well.
        ValueError: There is no rank.
    """
    if isinstance(trace, Trace):
        ranks = {trace.info.rank if trace.info.rank is not None else 0: trace}
    elif len(trace):
        ranks = dict(trace)
    else:
        raise ValueError(f"'{trace.name}' holds no rank; there is nothing to write.")
    return _frames(ranks) if folder is None else _write(ranks, Path(folder))


def _write(ranks: dict[int, Trace], folder: Path) -> Path:
    names = {rank: f"rank-{rank}.json.gz" for rank in ranks}
    if folder.is_dir():
        others = sorted(file.name for file in folder.iterdir() if file.name.endswith((".json", ".gz")))
        if others := [name for name in others if name not in names.values()]:
            raise OutputError(
                f"cannot write ranks into {folder}: it holds {others[0]}, which HolisticTraceAnalysis would take for a "
                "rank of the same job; give an empty folder."
            )
    with atomic_folder(folder) as made:
        for rank, one in ranks.items():
            # HTA takes the rank of a file from its content, not from its name.
            numbered = one.replace(info=one.info.replace(rank=rank))
            to_chrome(numbered, made / names[rank], tracks=False)
    return folder


def _frames(ranks: dict[int, Trace]) -> HtaTraces:
    texts: set[str] = set()
    for one in ranks.values():
        for column in ("name", "cat"):
            used = one.events[column].array.remove_unused_categories()
            texts.update(map(str, used.categories.tolist()))
    table = SymbolTable(sorted(texts))
    starts = [int(one.events["ts"].min()) for one in ranks.values() if len(one)]
    origin = min(starts, default=0)
    frames = {rank: hta_frame(one, table, origin) for rank, one in ranks.items()}
    return HtaTraces(frames, table, {rank: _meta(one.info, rank) for rank, one in ranks.items()}, origin)


def hta_frame(trace: Trace, table: SymbolTable, origin: int) -> pd.DataFrame:
    """The intervals of `trace` in HTA's columns; instants and the row of the recording itself are left out, as by HTA.

    Args:
        trace: One rank.
        table: Symbols, among them all names and categories of `trace`.
        origin: Time 0, ns.

    Returns:
        ``index`` (row of ``trace.events``, also the index of the frame), ``cat`` and ``name`` (numbers of symbols),
        ``pid``, ``tid`` (device and stream for device work), ``ts``, ``dur``, ``end`` (µs from `origin`, exact to the
        nanosecond), ``stream``, ``correlation``, ``bytes``, ``external_id``, ``memory_bw_gbps`` (GB/s: bytes over
        duration, 0 for other events), ``input_dims``, ``input_type`` (JSON text, ``"-1"`` if not recorded),
        ``index_correlation`` (row at the other end of a launch; 0 if there is a correlation id but no other end, -1 if
        there is no correlation id), ``iteration`` (step, -1 outside steps).
    """
    events = trace.events
    cats = events["cat"].astype(object)
    rows = np.flatnonzero((~events["is_instant"] & (cats != "Trace")).to_numpy())
    part = events.iloc[rows]
    known = {name: integers(part[column], ABSENT) for name, column in _INTEGERS.items()}
    device, stream = integers(part["device"], ABSENT), integers(part["stream"], ABSENT)
    on_device = device >= 0
    # Row of the launch of device work, and of the last device work of a launch.
    correlation = known["correlation"]
    other = np.full(len(events), ABSENT, np.int64)
    other[rows] = np.where(correlation >= 0, 0, ABSENT)
    launch = integers(events["launch"], ABSENT)
    work = np.flatnonzero(launch >= 0)
    other[work], other[launch[work]] = launch[work], work
    columns = {
        "index": rows,
        "cat": _symbols(part["cat"].array, table),
        "name": _symbols(part["name"].array, table),
        "pid": np.where(on_device, device, integers(part["pid"], ABSENT)),
        "tid": np.where(on_device, stream, integers(part["tid"], ABSENT)),
        "ts": (part["ts"].to_numpy() - origin) / 1000,
        "dur": part["dur"].to_numpy() / 1000,
        "stream": stream,
        **known,
        "memory_bw_gbps": _bandwidth(known["bytes"], part["dur"].to_numpy()),
        **{name: part[column].astype(object).fillna(str(ABSENT)).to_numpy() for name, column in _TEXTS.items()},
        "index_correlation": other[rows],
        "iteration": integers(part["step"], ABSENT),
        "end": (part["ts"].to_numpy() + part["dur"].to_numpy() - origin) / 1000,
    }
    return pd.DataFrame(columns, index=pd.Index(rows))


def _symbols(array: pd.Categorical, table: SymbolTable) -> Ints:
    numbers: Ints = np.array(
        [*(table.sym_index.get(text, ABSENT) for text in array.categories.tolist()), ABSENT], np.int64
    )
    return numbers[array.codes]


def _bandwidth(num_bytes: Ints, dur: Ints) -> NDArray[np.float64]:
    is_copy = (num_bytes >= 0) & (dur > 0)
    # Bytes per nanosecond are GB/s.
    return np.divide(num_bytes, dur, out=np.zeros(len(dur)), where=is_copy)


def _meta(info: RunInfo, rank: int) -> dict[str, Any]:
    devices = [msgspec.to_builtins(device) for device in info.devices]
    return {"distributedInfo": {"rank": rank}, "deviceProperties": devices, "traceName": info.name}


# The frames of a Trace as Parquet or CSV, a file per frame.

INFO: Final = "info.json"
PARQUET: Final = ".parquet"


def to_parquet(trace: Trace, path: str | os.PathLike[str], *, frame: str = "events") -> Path:
    """Write frames of `trace` as Parquet: categoricals as text, missing values as null.

    Columns and units are those of the catalog. `Trace.save` keeps a Trace exactly, in one file.

    Args:
        trace: What to write.
        path: A file name that ends in ``.parquet``, for the one frame `frame`. Any other name is a folder, created if
            needed, for ``<frame>.parquet`` of every frame and ``info.json``.
        frame: The frame to write to a single file.

    Returns:
        `path`. Files with the same names in the folder are replaced; other files stay.

    Raises:
        ValueError: There is no such frame.
        OutputError: It cannot be written; existing files are unchanged.
    """
    frames = trace.frames
    if frame not in frames:
        raise ValueError(f"frame={frame!r} is unknown; a Trace has {', '.join(frames)}.")
    if Path(path).name.lower().endswith(PARQUET):
        with atomic_write(path) as file:
            pq.write_table(to_arrow(frames[frame]), file, compression="zstd")
        return Path(path)
    with atomic_folder(path) as folder:
        for name, one in frames.items():
            pq.write_table(to_arrow(one), folder / f"{name}{PARQUET}", compression="zstd")
        _write_info(trace, folder)
    return Path(path)


def to_csv(trace: Trace, folder: str | os.PathLike[str]) -> Path:
    """Write every frame of `trace` as ``<frame>.csv`` into `folder`, and facts about the run as ``info.json``.

    Fields are exact, for programs. A text of the Trace can begin with ``=``, ``+``, ``-`` or ``@``, which a spreadsheet
    takes for a formula: import the columns of a file from elsewhere as text.

    A missing value is an empty field, and empty text is ``""``; pyarrow and polars distinguish the two.

    Returns:
        `folder`, created if needed. Files are UTF-8, with a line of column names first, also for a frame without rows.
        Files with the same names are replaced; other files in the folder stay.

    Raises:
        OutputError: It cannot be written; existing files are unchanged.
    """
    if Path(folder).suffix.lower() == ".csv" and not Path(folder).is_dir():
        raise OutputError(
            f"cannot write {folder}: a Trace is several tables; give a folder, which gets a file of each."
        )
    with atomic_folder(folder) as made:
        for name, one in trace.frames.items():
            pa_csv.write_csv(to_arrow(one), made / f"{name}.csv")
        _write_info(trace, made)
    return Path(folder)


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    """`frame` as an Arrow table: categoricals as text, missing values as nulls."""
    columns: Mapping[str, pa.Array] = {str(name): _array(frame[name].array) for name in frame.columns}
    return pa.table(columns)


def _array(array: Any) -> pa.Array:
    if isinstance(array, pd.Categorical):
        texts = pa.array(array.categories.tolist(), pa.string())
        codes = pa.array(array.codes.astype(np.int32), mask=np.asarray(array.isna()))
        return pa.DictionaryArray.from_arrays(codes, texts).cast(pa.string())
    if hasattr(array, "isna") and not isinstance(array, pd.arrays.NumpyExtensionArray):
        return pa.array(array.to_numpy(dtype=array.dtype.numpy_dtype, na_value=0), mask=np.asarray(array.isna()))
    return pa.array(array.to_numpy())


def _write_info(trace: Trace, folder: Path) -> None:
    (folder / INFO).write_bytes(msgspec.json.format(msgspec.json.encode(trace.info), indent=2))
