"""The run info of every Trace that this process records: versions, metadata of the program, names of notebook cells."""

from __future__ import annotations

import json
import linecache
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import torch

from cudalens.api.session import OK, Outcome
from cudalens.device import facts
from cudalens.frames import RunInfo, Trace, categorical
from cudalens.frames.catalog_frames import frame_of_rows
from cudalens.frames.info import Judged
from cudalens.gpus.constants import label_of
from cudalens.graphs.frames import joined
from cudalens.profiler import kineto
from cudalens.sanitizer.fixes.source import cell_as_typed
from cudalens.virtual import active

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudalens.graphs import GraphManager
    from cudalens.sanitizer import Sanitizer


class UserMetadata(dict[str, str]):
    """JSON texts by key."""

    def add(self, key: str, value: str) -> None:
        """Add a text.

        Raises:
            TypeError: `key` or `value` is not text.
        """
        if not isinstance(value, str):
            raise TypeError(
                f"the metadata {key!r} is {type(value).__name__}, expected text; add_metadata_json takes JSON"
            )
        self.add_json(key, json.dumps(value))

    def add_json(self, key: str, value: str) -> None:
        """Add a JSON text.

        Raises:
            TypeError: `key` or `value` is not text.
            ValueError: `value` is not JSON.
        """
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata {key!r}: {type(value).__name__}, expected a key and a JSON text")
        try:
            json.loads(value)
        except ValueError as error:
            raise ValueError(f"the metadata {key!r} is not JSON: {error}. add_metadata takes plain text.") from error
        self[key] = value

    def to_extra(self) -> dict[str, str]:
        """Return the form for `RunInfo.extra`: one JSON object under ``metadata``."""
        return {"metadata": json.dumps({key: json.loads(value) for key, value in self.items()})} if self else {}


#: Files of cells as Python names them, and as torch shortens them by the entries of ``sys.path``.
_CELL: Final = re.compile(r"(?:[^\n(]*[/\\])?(?P<file>ipykernel_\d+[/\\]\d+\.py|<ipython-input-\d+-[^>\n]*>)")

_NAMED: Final = re.compile(r"In\[\d+\]")
#: The columns that name files, by frame.
_COLUMNS: Final = {"events": "name", "stacks": "file"}


def with_cell_names(frames: dict[str, pd.DataFrame], shell: Any = None) -> dict[str, pd.DataFrame]:
    """Return the events and stacks of `frames`, with the names of cells instead of those of their files.

    Args:
        frames: Frames of a run; others than these two stay.
        shell: IPython's shell, if it is not the one of this process.

    Returns:
        The changed frames; empty outside of notebooks.
    """
    numbers = {match["file"]: number for _, match, number in _cells(shell)}
    if not numbers:
        return {}

    def rename(text: str) -> str:
        match = _CELL.match(text)
        number = None if match is None else numbers.get(match["file"])
        return text if match is None or number is None else f"In[{number}]{text[match.end() :]}"

    return {
        name: frames[name].assign(**{column: _renamed(frames[name][column].array, rename)})
        for name, column in _COLUMNS.items()
        if name in frames
    }


def named_sources(frames: dict[str, pd.DataFrame], shell: Any = None) -> dict[str, str]:
    """The text of each cell that a stack or a Python call of `frames` names, by ``In[7]``; see `with_cell_names`."""
    texts: list[Any] = []
    for name, column in _COLUMNS.items():
        texts += frames[name][column].cat.categories.tolist() if name in frames else []
    named = {match[0] for text in texts if (match := _NAMED.match(str(text)))}
    return {
        cell: "".join(cell_as_typed(name) or linecache.getlines(name))
        for name, _, number in _cells(shell)
        if (cell := f"In[{number}]") in named
    }


def _cells(shell: Any) -> list[tuple[str, re.Match[str], int]]:
    """Return the name of the file of each cell, what `_CELL` finds in it, and the number of the cell."""
    ipython = sys.modules.get("IPython")
    if shell is None and ipython is not None and hasattr(ipython, "get_ipython"):
        shell = ipython.get_ipython()
    known = getattr(getattr(shell, "compile", None), "_filename_map", None)
    pairs = known.items() if isinstance(known, dict) else ()
    return [(str(name), match, number) for name, number in pairs if (match := _CELL.match(str(name)))]


def _renamed(values: pd.Categorical, rename: Callable[[str], str]) -> pd.Categorical:
    """`values` with other texts; equal ones become one category."""
    codes, texts = pd.factorize(np.array([rename(str(text)) for text in values.categories.tolist()], object))
    return categorical(np.append(codes, -1)[values.codes], [str(text) for text in texts])


def run_info(name: str, outcome: Outcome = OK, **fields: Any) -> RunInfo:
    """Return the run info of a run in this process.

    Args:
        name: Name of the run.
        outcome: How its code ended.
        **fields: Further fields of `RunInfo`. They replace the values that are found here: source, versions, host, rank
            and world size.
    """
    rank, world_size = kineto.rank()
    found = {
        "source": source(),
        "versions": kineto.versions(),
        "host": kineto.host(),
        "rank": rank,
        "world_size": world_size,
    }
    return RunInfo(name=name, status=outcome.status, error=outcome.error, **(found | fields))


def source() -> str:
    """Return the device that ``torch.cuda`` calls reach now: ``virtual:<spec>``, ``cuda`` or ``cpu``."""
    device = active()
    if device is not None:
        return f"virtual:{label_of(device.spec)}"
    return "cuda" if torch.cuda.is_available() else "cpu"


# Make a Trace of what graph managers did, or of the races that a sanitizer found.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRun:
    """A function that ran without a manager, and the reason (such as a cell that prints).

    Attributes:
        function: Name of the function.
        reason: The reason, in one or two words.
        detail: A sentence about the function.
        advice: What to do.
        place: Location of the cause.
        source: Source line of the cause.
        count: Number of runs.
    """

    function: str
    reason: str
    detail: str
    advice: str | None = None
    place: str | None = None
    source: str | None = None
    count: int = 1


def graphs_trace(
    manager: GraphManager | Iterable[tuple[GraphManager, int | None]],
    name: str,
    *,
    since: int | None = None,
    code: str | None = None,
    outcome: Outcome = OK,
    plain: Sequence[PlainRun] = (),
) -> Trace:
    """Return a Trace without events, with the frames of one or more graph managers.

    Args:
        manager: A manager, or pairs of a manager and its mark.
        name: Name of the run.
        since: A result of the manager's ``mark()``; earlier records are left out. None for all.
        code: Source of the code that ran.
        outcome: How the code ended.
        plain: Functions that ran without a manager.
    """
    begin = time.perf_counter()
    pairs = list(manager) if isinstance(manager, Iterable) else [(manager, since)]
    frame = joined([*(one.frame(mark) for one, mark in pairs), plain_frame(plain)])
    info = run_info(name, outcome, build_s=time.perf_counter() - begin, devices=facts.devices(torch), code=code)
    return Trace(info, graphs=frame)


def plain_frame(runs: Sequence[PlainRun]) -> pd.DataFrame:
    """Return the ``graphs`` frame of functions that ran without a manager."""
    rows: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        row = asdict(run) | {"function_id": number}
        rows.append(row | {"kind": "function", "state": "eager", "num_eager": run.count})
        rows[-1] |= dict.fromkeys(("num_warmups", "num_recordings", "num_replays"), 0)
        rows.append(row | {"kind": "skip"})
    return frame_of_rows("graphs", rows)


def races_trace(
    sanitizer: Sanitizer,
    name: str,
    *,
    since: int = 0,
    code: str | None = None,
    outcome: Outcome = OK,
) -> Trace:
    """Return the races that a sanitizer found, with fixes, as a Trace without events.

    Args:
        sanitizer: The sanitizer, running or stopped.
        name: Name of the run.
        since: Number of first findings to leave out.
        code: Source of the code that ran.
        outcome: How the code ended.
    """
    begin = time.perf_counter()
    frames = sanitizer.frames_of(sanitizer.findings(since))
    state = sanitizer.status()
    judged = Judged(state.num_launches, state.num_streams, state.num_hidden, state.error, state.num_unseen_replays)
    info = run_info(name, outcome, build_s=time.perf_counter() - begin, code=code, judged=judged)
    return Trace(info, **frames)
