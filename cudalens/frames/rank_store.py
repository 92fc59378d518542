"""The store of a job's ranks: a folder (or fsspec URL) of Parquet files, one per rank and frame, and what they share.

Layout, version 1: ``<frame>/part-<number>.parquet`` holds a frame of one rank with a first column ``rank``, texts as
dictionaries, so that pandas, dask and Spark read it; ``shared/<name>.parquet`` the frames of `Ranks.frames`;
``job.json``, written last, the name, the problems, and the run info and number of each rank. Files are untrusted, as
those of `cudalens.frames.store` are. No pickle is involved.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cudalens.errors import OutputError, TraceFormatError
from cudalens.frames.catalog_frames import FRAMES, columns_of, empty_frame
from cudalens.frames.column_arrays import categorical, integers, nullable
from cudalens.frames.files import filesystem_of
from cudalens.frames.info import Problem, RunInfo
from cudalens.frames.ranks import Ranks
from cudalens.frames.store import check_links
from cudalens.frames.trace import Trace

if TYPE_CHECKING:
    from cudalens.frames.ranks import RankSource

_MISSING = "ranks.events needs dask: pip install 'cudalens[ranks]'. ranks.window(...) works without it."


def lazy_events(source: RankSource, ranks: Sequence[int]) -> Any:
    """Return a ``dask.dataframe`` with a partition for each of `ranks`.

    Raises:
        ImportError: dask is not installed.
    """
    try:
        dataframe: Any = import_module("dask.dataframe")
    except ImportError as error:
        raise ImportError(_MISSING) from error
    meta = dataframe.utils.clear_known_categories(with_rank(empty_frame("events"), 0))
    return dataframe.from_map(_Partition(source), list(ranks), meta=meta, enforce_metadata=False)


class _Partition:
    """Reads the events of one rank; dask passes the columns that it needs."""

    def __init__(self, source: RankSource, columns: list[str] | None = None) -> None:
        self._source, self._columns = source, columns

    def __call__(self, rank: int, columns: list[str] | None = None) -> pd.DataFrame:
        wanted = None if columns is None else [name for name in columns if name != "rank"]
        frame = with_rank(self._source.read_events(rank, wanted), rank)
        return frame if columns is None else frame[columns]


def with_rank(frame: pd.DataFrame, rank: int) -> pd.DataFrame:
    """`frame` with a first column ``rank`` (Int64)."""
    ranks = pd.arrays.IntegerArray(np.full(len(frame), rank, np.int64), np.zeros(len(frame), bool))
    return pd.concat([pd.DataFrame({"rank": ranks}, index=frame.index), frame], axis=1)


def joined(by_rank: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Return the frames of several ranks, one after the other, with a first column ``rank``; categories are united."""
    frames = [with_rank(frame, rank) for rank, frame in by_rank.items()]
    if not frames:
        return with_rank(empty_frame("events"), 0)
    columns = {}
    for name in frames[0]:
        parts = [frame[name].array for frame in frames]
        if isinstance(parts[0], pd.Categorical):
            texts: dict[str, int] = {}
            codes = [_codes_in(part, texts) for part in parts]
            columns[name] = categorical(np.concatenate(codes), list(texts))
        elif isinstance(parts[0], np.ndarray):
            columns[name] = np.concatenate(parts)
        else:
            columns[name] = type(parts[0])._concat_same_type(parts)
    return pd.DataFrame(columns)


def _codes_in(part: pd.Categorical, texts: dict[str, int]) -> Any:
    """Return the codes of `part` in `texts`, to which its categories are added."""
    new = [texts.setdefault(text, len(texts)) for text in part.categories.tolist()]
    return np.array([*new, -1], np.int32)[part.codes]


VERSION: Final = 1
_HEAD: Final = "job.json"
_EXPECTED: Final = "a store that load_ranks(..., store=...) wrote"
#: Rows that are read at once for a window: a step of most traces.
_GROUP_ROWS: Final = 1 << 16
_CATEGORIES: Final = b"cudalens.categories"
_DTYPES: Final = b"cudalens.dtypes"


class _Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    name: str
    infos: dict[int, RunInfo]
    parts: dict[int, int]
    shared: list[str]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Store:
    """A store as a `RankSource`.

    Attributes:
        url: Its folder or fsspec URL.
        parts: Number of the files of each rank.
        infos: Run info of each rank.
    """

    url: str
    parts: Mapping[int, int]
    infos: Mapping[int, RunInfo]

    def read(self, rank: int) -> Trace:
        """Return the Trace of a rank, exactly as it was written."""
        frames = {name: self._frame(name, rank) for name in FRAMES}
        check_links(_part(self.url, "events", self.parts[rank]), frames, None)
        return Trace(self.infos[rank], **frames)

    def read_events(self, rank: int, columns: list[str] | None = None, step: int | None = None) -> pd.DataFrame:
        """Events of a rank; of one step, only the row groups that hold it are read."""
        names = [column.name for column in columns_of("events") if columns is None or column.name in columns]
        if columns is not None and (unknown := set(columns) - set(names)):
            raise KeyError(f"the events have no column {sorted(unknown)}")
        filters = None if step is None else [("step", "==", step)]
        read = names if step is None or "step" in names else [*names, "step"]
        frame = _read(_part(self.url, "events", self.parts[rank]), columns=read, filters=filters)
        return frame[columns or names]

    def _frame(self, name: str, rank: int) -> pd.DataFrame:
        url = _part(self.url, name, self.parts[rank])
        filesystem, path = filesystem_of(url)
        if name != "events" and not filesystem.exists(path):
            return empty_frame(name)
        return _read(url, columns=[column.name for column in columns_of(name)])


def write_part(url: str, number: int, rank: int, trace: Trace) -> None:
    """Write the frames of one rank as the files with this number.

    Raises:
        OutputError: They cannot be written.
    """
    for name, frame in trace.frames.items():
        if name == "events" or len(frame):
            _write(_part(url, name, number), with_rank(frame, rank))


def remove_part(url: str, number: int) -> None:
    """Remove the files with this number, of a trace that is left out."""
    for name in FRAMES:
        filesystem, path = filesystem_of(_part(url, name, number))
        if filesystem.exists(path):
            filesystem.rm_file(path)


def write_store(url: str, ranks: Ranks, parts: Mapping[int, int]) -> Ranks:
    """Write what all ranks share, and return `ranks` as read from the store."""
    for name, frame in ranks.frames.items():
        _write(_join(url, "shared", f"{name}.parquet"), frame)
    infos = dict(ranks.infos)
    job = _Job(VERSION, ranks.name, infos, dict(parts), list(ranks.frames), ranks.problems)
    with _opened(_join(url, _HEAD), "wb") as file:
        file.write(msgspec.json.encode(job))
    source = Store(url, dict(parts), infos)
    return Ranks.of_source(source, infos, name=ranks.name, frames=ranks.frames, problems=ranks.problems)


def open_store(store: str | os.PathLike[str]) -> Ranks:
    """Return the ranks in a store.

    Raises:
        TraceFormatError: There is no store, it is not complete, or of another version.
    """
    url = os.fspath(store)
    try:
        with _opened(_join(url, _HEAD), "rb") as file:
            job = msgspec.json.decode(file.read(), type=_Job)
    except (OutputError, OSError) as error:
        raise TraceFormatError(url, found=f"no readable {_HEAD}", expected=_EXPECTED) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceFormatError(url, position=_HEAD, found=str(error), expected=_EXPECTED) from error
    if job.version != VERSION or any(not name.isidentifier() for name in job.shared):
        raise TraceFormatError(url, position=_HEAD, found=f"version {job.version}", expected=f"version {VERSION}")
    frames = {name: _read(_join(url, "shared", f"{name}.parquet")) for name in job.shared}
    source = Store(url, job.parts, job.infos)
    return Ranks.of_source(source, job.infos, name=job.name, frames=frames, problems=job.problems)


def clear_store(url: str) -> None:
    """Remove the files of an older store at `url`; refuses a folder with other contents.

    Raises:
        OutputError: It is a file, or holds other files.
    """
    filesystem, path = filesystem_of(url)
    if filesystem.isfile(path):
        raise OutputError(f"cannot write {url}: it is a file; expected a folder, or a name that is free.")
    if not filesystem.exists(path):
        return
    names = {posixpath.basename(name.rstrip("/")) for name in filesystem.ls(path, detail=False)}
    if names and names - {*FRAMES, "shared", _HEAD}:
        raise OutputError(f"cannot write {url}: it holds other files; expected an empty folder or a store.")
    files = [posixpath.join(path, _HEAD), *(f"{path}/{frame}/part-*.parquet" for frame in FRAMES)]
    for file in [found for pattern in files for found in filesystem.glob(pattern)]:
        filesystem.rm_file(file)


def _part(url: str, frame: str, number: int) -> str:
    return _join(url, frame, f"part-{number:05d}.parquet")


def _join(url: str, *names: str) -> str:
    return posixpath.join(url, *names) if "://" in url else str(Path(url, *names))


def _opened(url: str, mode: str) -> IO[bytes]:
    """Return an open file; folders are made for writing."""
    try:
        filesystem, path = filesystem_of(url)
        if "w" in mode:
            filesystem.makedirs(posixpath.dirname(path), exist_ok=True)
        file: IO[bytes] = filesystem.open(path, mode)
    except OSError as error:
        raise OutputError(f"cannot open {url}: {error.strerror or error}.") from error
    return file


def _write(url: str, frame: pd.DataFrame) -> None:
    table = to_table(frame)
    with _opened(url, "wb") as file:
        pq.write_table(table, file, compression="zstd", row_group_size=_GROUP_ROWS)


def _read(url: str, columns: list[str] | None = None, filters: Any = None) -> pd.DataFrame:
    try:
        with _opened(url, "rb") as file:
            table = pq.read_table(file, columns=columns, filters=filters)
        return from_table(table)
    except (OutputError, OSError, pa.ArrowException, msgspec.MsgspecError, KeyError, ValueError) as error:
        raise TraceFormatError(url, found=str(error)[:200], expected=_EXPECTED) from error


def to_table(frame: pd.DataFrame) -> pa.Table:
    """`frame` as an Arrow table from which `from_table` makes the same frame; texts are dictionaries."""
    arrays = [_to_arrow(frame[name].array) for name in frame.columns]
    texts = {name: frame[name].cat.categories.tolist() for name in frame.columns if frame[name].dtype == "category"}
    dtypes = {name: str(frame[name].dtype) for name in frame.columns}
    table = pa.Table.from_arrays(arrays, names=list(frame.columns))
    return table.replace_schema_metadata(
        {_CATEGORIES: msgspec.json.encode(texts), _DTYPES: msgspec.json.encode(dtypes)}
    )


def _to_arrow(array: Any) -> pa.Array:
    if isinstance(array, pd.Categorical):
        codes = pa.array(array.codes.astype(np.int32), mask=array.codes < 0)
        return pa.DictionaryArray.from_arrays(codes, pa.array(array.categories.tolist(), pa.string()))
    if isinstance(array, (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)):
        return pa.array(array.to_numpy(dtype=array.dtype.numpy_dtype, na_value=0), mask=np.asarray(array.isna()))
    return pa.array(array.to_numpy())


def from_table(table: pa.Table) -> pd.DataFrame:
    """Return the frame of which `to_table` made `table`.

    Raises:
        ValueError: It is not such a table.
    """
    metadata = table.schema.metadata or {}
    texts = msgspec.json.decode(metadata.get(_CATEGORIES, b"{}"), type=dict[str, list[str]])
    dtypes = msgspec.json.decode(metadata.get(_DTYPES, b"{}"), type=dict[str, str])
    columns = {name: _from_arrow(table.column(name), dtypes[name], texts.get(name, [])) for name in table.column_names}
    return pd.DataFrame(columns, copy=False)


def _from_arrow(chunked: pa.ChunkedArray, dtype: str, texts: list[str]) -> Any:
    if dtype == "category":
        return _categories(chunked, texts)
    array = chunked.combine_chunks()
    if dtype in ("int64", "int32", "int8", "int16", "bool", "float64"):
        if array.null_count:
            raise ValueError(f"{array.null_count} missing values of dtype {dtype}, expected none")
        return array.cast(dtype if dtype != "float64" else "double").to_numpy(zero_copy_only=False)
    mask = array.is_null().to_numpy(zero_copy_only=False)
    if dtype == "boolean":
        return pd.arrays.BooleanArray(array.fill_null(False).to_numpy(zero_copy_only=False).copy(), mask.copy())
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    return nullable(values.astype(dtype.lower(), copy=True), mask.copy())


def _categories(chunked: pa.ChunkedArray, texts: list[str]) -> pd.Categorical:
    number = {text: code for code, text in enumerate(texts)}
    parts = []
    for chunk in chunked.chunks:
        if not pa.types.is_dictionary(chunk.type):
            raise ValueError(f"texts of type {chunk.type}, expected a dictionary")
        new = np.array([*(number[text] for text in chunk.dictionary.to_pylist()), -1], np.int64)
        parts.append(new[integers(pd.array(chunk.indices.to_pandas(), dtype="Int64"))])
    return categorical(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int32), texts)
