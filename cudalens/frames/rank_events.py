"""The events of many ranks in one frame: a lazy ``dask.dataframe``, or a pandas frame of some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cudalens.frames.catalog_frames import empty_frame
from cudalens.frames.column_arrays import categorical

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
    return pd.DataFrame({name: _joined_column([frame[name].array for frame in frames]) for name in frames[0]})


def _joined_column(parts: list[Any]) -> Any:
    if isinstance(parts[0], pd.Categorical):
        texts: dict[str, int] = {}
        codes = [_codes_in(part, texts) for part in parts]
        return categorical(np.concatenate(codes), list(texts))
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else type(parts[0])._concat_same_type(parts)


def _codes_in(part: pd.Categorical, texts: dict[str, int]) -> Any:
    """Return the codes of `part` in `texts`, to which its categories are added."""
    new = [texts.setdefault(text, len(texts)) for text in part.categories.tolist()]
    return np.array([*new, -1], np.int32)[part.codes]
