"""The payload's columns of call stacks: each stack frame once, each stack as a list of stack frame numbers."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.column_arrays import integers
from cudalens.views.timeline.payload_codec import PayloadWriter

Ints = NDArray[np.int64]

#: Longest name of a file or function that is sent, in characters.
MAX_TEXT: Final = 400


def add_stacks(writer: PayloadWriter, stacks: pd.DataFrame, wanted: Ints) -> None:
    """Add the columns ``frame.*`` and ``stack.*``.

    Args:
        writer: The payload.
        stacks: The frame ``stacks``.
        wanted: Ids of the stacks to add, ascending; shape (k,).
    """
    entries = stacks[np.isin(stacks["stack"].to_numpy(), wanted)]
    owner = np.searchsorted(wanted, entries["stack"].to_numpy())
    order = np.lexsort((entries["position"].to_numpy(), owner))
    entries, owner = entries.iloc[order], owner[order]
    keys = pd.DataFrame(
        {
            "file": _add_names(writer, "files", entries["file"]),
            "line": integers(entries["line"]) + 1,
            "function": _add_names(writer, "functions", entries["function"]),
        }
    )
    code = keys.groupby(list(keys), sort=False).ngroup().to_numpy().astype(np.int64)
    first = keys[~pd.Series(code).duplicated().to_numpy()]
    for name in keys:
        writer.add_ints(f"frame.{name}", first[name].to_numpy())
    writer.add_ints("stack.sizes", np.bincount(owner, minlength=len(wanted)))
    writer.add_ints("stack.frames", code)


def _add_names(writer: PayloadWriter, name: str, column: pd.Series) -> Ints:
    """Add the texts of `column`; returns the index of each row's text, 0 for a missing one."""
    codes, uniques = pd.factorize(column.astype(object))
    writer.add_texts(name, ["", *(_cut(str(text)) for text in uniques)])
    return codes.astype(np.int64) + 1


def _cut(text: str) -> str:
    """`text`, or its end if it is too long: the end of a path is the most specific part."""
    return text if len(text) <= MAX_TEXT else f"…{text[-MAX_TEXT:]}"
