"""Merges the frames of several collectors into those of one Trace."""

from __future__ import annotations

from collections.abc import Mapping, Set

import pandas as pd

from cudalens.frames.column_catalog import columns_of

Frames = dict[str, pd.DataFrame]


def merge_frames(first: Mapping[str, pd.DataFrame], second: Mapping[str, pd.DataFrame]) -> Frames:
    """Return all frames of both; of two with one name that of `first`, except for the call stacks, which are merged.

    Args:
        first: Frames by name.
        second: Frames by name, whose stack ids are moved past those of `first`. Row numbers of a frame of it that is
            left out are missing in the result.
    """
    left_out = first.keys() & second.keys() - {"stacks"}
    second = {name: _unlinked(name, frame, left_out) for name, frame in second.items()}
    if not all("stacks" in frames and len(frames["stacks"]) for frames in (first, second)):
        longer = first if len(first.get("stacks", ())) else second
        return {**second, **first, **({"stacks": longer["stacks"]} if "stacks" in longer else {})}
    offset = int(first["stacks"]["stack"].max()) + 1
    moved = {name: _moved(name, frame, offset) for name, frame in second.items()}
    return {**moved, **first, "stacks": merge_stacks(first["stacks"], moved["stacks"])}


def _unlinked(name: str, frame: pd.DataFrame, left_out: Set[str]) -> pd.DataFrame:
    """`frame` without row numbers of the frames `left_out`."""
    links = [c.name for c in columns_of(name) if c.names in left_out and c.name in frame]
    return frame.assign(**{link: pd.array([pd.NA] * len(frame), dtype="Int64") for link in links}) if links else frame


def _moved(name: str, frame: pd.DataFrame, offset: int) -> pd.DataFrame:
    columns = [column.name for column in columns_of(name) if column.names == "stacks"]
    columns += ["stack"] if name == "stacks" else []
    return frame.assign(**{column: frame[column] + offset for column in columns})


def merge_stacks(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """One stack table of two whose stacks have different ids."""
    texts = [name for name, dtype in first.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]
    plain = dict.fromkeys(texts, object)
    joined = pd.concat([first.astype(plain), second.astype(plain)], ignore_index=True)
    return joined.astype(dict.fromkeys(texts, "category"))
