"""Saves a Trace as one file and loads it again: a zip of Parquet and JSON, never pickle.

Layout, version 9: ``trace.json`` holds the format version, the run info and the texts of the categorical columns;
``<frame>.parquet`` holds a frame's columns, categoricals as codes. Files are untrusted: member names, sizes, versions,
columns, dtypes and codes are checked before anything is built. ``FRAMES_SINCE`` and ``Column.since`` of the catalog
list the frames and columns that older versions do not have.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cudalens.errors import TraceFormatError
from cudalens.frames.catalog_frames import FRAMES, FRAMES_SINCE, Column, columns_of, empty_frame, missing_array
from cudalens.frames.column_arrays import categorical, nullable
from cudalens.frames.files import atomic_write
from cudalens.frames.info import RunInfo
from cudalens.frames.limits import ROWS_RATIO, Limit

VERSION: Final = 9
_HEAD: Final = "trace.json"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the zip format's earliest date: the same Trace gives the same bytes
#: Bytes of a value and its mask in a frame.
_VALUE_BYTES: Final = 9
#: A file may have as many row groups, and one more for as many rows; `save` writes one for each million.
_MAX_ROW_GROUPS: Final = 1000


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    info: RunInfo
    categories: dict[str, dict[str, list[str]]]


class _Version(msgspec.Struct):
    version: int


def save(info: RunInfo, frames: dict[str, pd.DataFrame], path: str | os.PathLike[str]) -> Path:
    """Write `info` and `frames` to `path` atomically."""
    with atomic_write(path) as file:
        write(info, frames, file)
    return Path(path)


def write(info: RunInfo, frames: dict[str, pd.DataFrame], file: IO[bytes]) -> None:
    """As `save`, into an open file."""
    categories = {name: _categories(frame) for name, frame in frames.items()}
    head = msgspec.json.encode(_Head(VERSION, info, categories))
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_HEAD, _EPOCH), head, zipfile.ZIP_DEFLATED)
        for name, frame in frames.items():
            arrays = [_to_arrow(frame[column.name].array) for column in columns_of(name)]
            table = pa.Table.from_arrays(arrays, names=[column.name for column in columns_of(name)])
            sink = io.BytesIO()
            pq.write_table(table, sink, compression="zstd")
            archive.writestr(zipfile.ZipInfo(_member(name), _EPOCH), sink.getvalue(), zipfile.ZIP_STORED)


def load(
    path: str | os.PathLike[str],
    *,
    file: IO[bytes] | None = None,
    num_events: int | None = None,
    max_bytes: int | None = None,
) -> tuple[RunInfo, dict[str, pd.DataFrame]]:
    """Read a file that `save` wrote.

    Args:
        path: The file.
        file: Where to read from instead of `path`, which is then used in messages only.
        num_events: Number of events that the other frames may refer to, if those are kept elsewhere.
        max_bytes: The most bytes that the frames may have; None for a limit by the memory and the size of the file.

    Raises:
        TraceFormatError: The file is damaged, of another version, or not a saved Trace.
    """
    try:
        with zipfile.ZipFile(path if file is None else file) as archive:
            limit = Limit(path, max_bytes)
            _check_members(path, archive, limit)
            head = _read_head(path, archive)
            frames = {}
            for name in FRAMES:
                if head.version < FRAMES_SINCE.get(name, 1):
                    frames[name] = empty_frame(name)
                elif _member(name) not in archive.namelist():
                    raise _absent(path, _member(name))
                else:
                    frames[name] = _read_frame(path, archive, name, head, limit)
            check_links(path, frames, num_events)
            return head.info, frames
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise TraceFormatError(path, found=f"a damaged zip ({error})", expected="a saved Trace") from error
    except OSError as error:
        raise TraceFormatError(
            path, found=error.strerror or str(error), expected="a readable file that Trace.save wrote"
        ) from error


def _member(frame: str) -> str:
    return f"{frame}.parquet"


def _categories(frame: pd.DataFrame) -> dict[str, list[str]]:
    return {c: frame[c].cat.categories.tolist() for c in frame.columns if frame[c].dtype == "category"}


def _to_arrow(array: Any) -> pa.Array:
    if isinstance(array, pd.Categorical):
        return pa.array(array.codes.astype(np.int32))
    if isinstance(array, (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)):
        return pa.array(array.to_numpy(dtype=array.dtype.numpy_dtype, na_value=0), mask=np.asarray(array.isna()))
    return pa.array(array.to_numpy())


def _check_members(path: str | os.PathLike[str], archive: zipfile.ZipFile, limit: Limit) -> None:
    expected = [_HEAD, *map(_member, FRAMES)]
    names = archive.namelist()
    for name in names:
        if name not in expected:
            raise _broken(path, name, "an unknown member", f"{expected}")
        if names.count(name) > 1:
            raise _broken(path, name, "it twice", "it once")
        member = archive.getinfo(name)
        limit.check(member.file_size, member.compress_size, what="a member of the zip", position=f"member {name!r}")
    if _HEAD not in names:
        raise _absent(path, _HEAD)


def _broken(path: str | os.PathLike[str], member: str, found: str, expected: str, hint: str = "") -> TraceFormatError:
    return TraceFormatError(path, position=f"member {member!r}", found=found, expected=expected, hint=hint)


def _absent(path: str | os.PathLike[str], member: str) -> TraceFormatError:
    return _broken(path, member, "nothing", "it in the zip")


def _read_head(path: str | os.PathLike[str], archive: zipfile.ZipFile) -> _Head:
    data = archive.read(_HEAD)
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if not 1 <= version <= VERSION:
            hint = "Open it with the cudalens that wrote it, or a newer one."
            raise _broken(path, _HEAD, f"format version {str(version)[:40]}", f"version 1 to {VERSION}", hint)
        return msgspec.json.decode(data, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(path, _HEAD, str(error), "run info") from error


def _read_frame(
    path: str | os.PathLike[str], archive: zipfile.ZipFile, name: str, head: _Head, limit: Limit
) -> pd.DataFrame:
    try:
        data = archive.read(_member(name))
        known = pq.read_metadata(pa.BufferReader(data))
        _check_schema(name, known)
        pages = sum(known.row_group(i).total_byte_size for i in range(known.num_row_groups))
        num_bytes = max(pages, known.num_rows * known.num_columns * _VALUE_BYTES)
        limit.check(
            num_bytes, len(data), what=f"frame '{name}'", position=f"member '{_member(name)}'", ratio=ROWS_RATIO
        )
        table = pq.read_table(pa.BufferReader(data))
        texts = head.categories.get(name, {})
        columns = {
            c.name: missing_array(c.dtype, len(table))
            if c.since > head.version
            else _from_arrow(table.column(c.name), c, texts)
            for c in columns_of(name)
        }
    except TraceFormatError:
        raise
    except (pa.ArrowException, KeyError, ValueError, TypeError, OSError, MemoryError) as error:
        raise _broken(path, _member(name), _words(error), f"frame '{name}'") from error
    if unknown := set(table.column_names) - columns.keys():
        raise _broken(path, _member(name), f"columns {sorted(unknown)}", "the catalog's")
    return pd.DataFrame(columns, copy=False)


def _check_schema(frame: str, known: pq.FileMetaData) -> None:
    """Refuse what a frame of numbers does not need: texts in dictionaries and nested values expand when they are read.

    Raises:
        ValueError: There are other columns, or very many row groups.
    """
    if known.num_row_groups > _MAX_ROW_GROUPS + known.num_rows // _MAX_ROW_GROUPS:
        raise ValueError(f"{known.num_row_groups:,} row groups of {known.num_rows:,} rows")
    if known.num_columns > 2 * len(columns_of(frame)):
        raise ValueError(f"{known.num_columns:,} columns")
    for field in known.schema.to_arrow_schema():
        if not any(is_type(field.type) for is_type in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)):
            raise ValueError(f"column {field.name[:80]!r} of type {str(field.type)[:80]}, expected numbers")


def _words(error: Exception) -> str:
    text = f"no {error.args[0]!r}" if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(text[:500].split())


def _from_arrow(chunked: pa.ChunkedArray, column: Column, categories: dict[str, list[str]]) -> Any:
    array = chunked.combine_chunks()
    if column.dtype == "category":
        codes = array.cast(pa.int32()).to_numpy(zero_copy_only=False)
        return categorical(codes, categories[column.name])
    if column.dtype in ("int64", "int32", "bool"):
        if array.null_count:
            raise ValueError(f"column '{column.name}' has {array.null_count} missing values, expected none")
        return array.cast(column.dtype).to_numpy(zero_copy_only=False)
    mask = array.is_null().to_numpy(zero_copy_only=False)
    if column.dtype == "boolean":
        return pd.arrays.BooleanArray(array.fill_null(False).to_numpy(zero_copy_only=False).copy(), mask.copy())
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    return nullable(values.astype(column.dtype.lower(), copy=True), mask.copy())


def check_links(path: str | os.PathLike[str], frames: dict[str, pd.DataFrame], num_events: int | None) -> None:
    """Refuse row numbers that do not exist, and parents that come after their children (possible loops)."""
    for name, frame in frames.items():
        for column in (c for c in columns_of(name) if c.names):
            values = frame[column.name].dropna().to_numpy(np.int64)
            if column.names == "events" and num_events is not None:
                limit = num_events
            elif column.names == "stacks":
                limit = int(frames["stacks"]["stack"].max()) + 1 if len(frames["stacks"]) else 0
            else:
                limit = len(frames[column.names])
            bad = values[(values < 0) | (values >= limit)]
            if len(bad):
                found = f"column '{column.name}' names row {bad[0]}"
                raise _broken(path, _member(name), found, f"rows below {limit}")
    parent = frames["events"]["parent"]
    if (parent >= parent.index).any():
        raise _broken(path, _member("events"), "a parent after its child", "parents first")
