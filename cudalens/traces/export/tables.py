"""Write the frames of a Trace as Parquet or CSV, a file per frame.

Categoricals are written as text. Missing values are null in Parquet and an empty field in CSV, where empty text is
``""``; pyarrow and polars distinguish the two. Columns and units are those of the catalog. Facts about the run are in
``info.json``. `Trace.save` keeps a Trace exactly, in one file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from cudalens.errors import OutputError
from cudalens.frames import Trace, atomic_write
from cudalens.frames.files import atomic_folder

INFO: Final = "info.json"
PARQUET: Final = ".parquet"


def to_parquet(trace: Trace, path: str | os.PathLike[str], *, frame: str = "events") -> Path:
    """Write frames of `trace` as Parquet.

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
