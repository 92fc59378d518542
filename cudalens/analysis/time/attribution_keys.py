"""Which module, line, range, operator or step each host row belongs to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.ancestors import nearest
from cudalens.frames import is_category
from cudalens.frames.build import STEP_PREFIX

if TYPE_CHECKING:
    from cudalens.frames import Trace

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Files that are a library's, not the user's.
MODULE_PREFIX: Final = "nn.Module: "
_PYTHON: Final = re.compile(r"^(?P<file>.+)\((?P<line>\d{1,9})\): ", re.DOTALL)
_LIBRARY: Final = re.compile(
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|^(?:torch|<frozen)\b"
)
_CELL: Final = re.compile(r"(?:ipykernel_\d+[/\\]\d+\.py|<ipython-input-(?P<number>\d+)-[^>]*>)$")


def own_keys(trace: Trace, by: str) -> tuple[Ints, list[str]]:
    """The key that each row brings itself: its number among the texts, -1 for none; shape (n,)."""
    events = trace.events
    names = events["name"].array
    if by == "op":
        return _named(events, ("cpu_op",), [str(name) for name in names.categories.tolist()])
    if by == "range":
        texts = [None if name.startswith(STEP_PREFIX) else str(name) for name in names.categories.tolist()]
        return _named(events, ("user_annotation",), texts)
    if by == "module":
        return _module_keys(events)
    return _line_keys(trace)


def _named(
    events: pd.DataFrame, categories: tuple[str, ...], texts: list[str | None] | list[str]
) -> tuple[Ints, list[str]]:
    """Names of rows of some categories as keys; a name whose text is None is none."""
    known = [text for text in dict.fromkeys(texts) if text is not None]
    place = {text: number for number, text in enumerate(known)}
    of_name = np.array([*(place.get(text, -1) if text is not None else -1 for text in texts), -1], np.int64)
    key = np.where(is_category(events["cat"].array, categories), of_name[events["name"].array.codes], -1)
    return key, known


def _module_keys(events: pd.DataFrame) -> tuple[Ints, list[str]]:
    """The ``module`` column; the chain of calls around it for ``nn.Module`` calls without one, as files have them."""
    column = events["module"].array
    codes, texts = column.codes.astype(np.int64), [str(text) for text in column.categories.tolist()]
    rows = unnamed_modules(events)
    if not len(rows):
        return codes, texts
    chain, paths = _module_chains(events)
    known = {text: number for number, text in enumerate(texts)}
    of_path = np.array([known.setdefault(path, len(known)) for path in paths], np.int64)
    codes[rows] = of_path[chain[rows]]
    return codes, list(known)


def unnamed_modules(events: pd.DataFrame) -> Ints:
    """Rows of calls of nn.Modules without a ``module`` of their own: files have it of operators alone, or of none."""
    is_module = np.array([name.startswith(MODULE_PREFIX) for name in events["name"].cat.categories] + [False], bool)
    if not is_module.any():
        return np.empty(0, np.int64)
    calls = is_module[events["name"].array.codes] & is_category(events["cat"].array, ("python_function",))
    return np.flatnonzero(calls & (events["module"].array.codes < 0))


def _module_chains(events: pd.DataFrame) -> tuple[Ints, list[str]]:
    """For each call of an nn.Module the modules around it and itself, between dots; -1 for other rows."""
    parent = events["parent"].to_numpy(dtype=np.int64, na_value=-1)
    texts = [
        name.removeprefix(MODULE_PREFIX) if name.startswith(MODULE_PREFIX) else None
        for name in events["name"].cat.categories.tolist()
    ]
    marked, labels = _named(events, ("python_function",), texts)
    rows = np.flatnonzero(marked >= 0)
    key, paths = np.full(len(events), -1, np.int64), dict[str, int]()
    closest, paths_of = nearest(marked >= 0, parent), np.full(len(events), "", object)
    for row in rows.tolist():  # calls of modules are few beside the events that they hold
        outer = paths_of[closest[parent[row]]] if parent[row] >= 0 and closest[parent[row]] >= 0 else ""
        paths_of[row] = f"{outer}.{labels[marked[row]]}" if outer else labels[marked[row]]
        key[row] = paths.setdefault(paths_of[row], len(paths))
    return key, list(paths)


def _line_keys(trace: Trace) -> tuple[Ints, list[str]]:
    """The user's innermost line in each row's call stack, or of a Python function's row."""
    events = trace.events
    texts: dict[str, int] = {}
    names = events["name"].array
    of_name = [
        _user_line(match["file"], int(match["line"])) if (match := _PYTHON.match(n)) else None
        for n in names.categories.tolist()
    ]
    codes = np.array([*(texts.setdefault(t, len(texts)) if t else -1 for t in of_name), -1], np.int64)
    key = np.where(is_category(events["cat"].array, ("python_function",)), codes[names.codes], -1)
    lines: dict[int, str] = {}
    stacks = trace.stacks
    columns = (stacks[name].astype(object) for name in ("stack", "file", "line"))
    for stack, file, line in zip(*columns, strict=True):
        if stack not in lines and isinstance(file, str) and not pd.isna(line) and (text := _user_line(file, int(line))):
            lines[stack] = text
    of_stack = {stack: texts.setdefault(text, len(texts)) for stack, text in lines.items()}
    stack, distinct = pd.factorize(events["stack"])
    by_stack = np.array([*(of_stack.get(int(number), -1) for number in distinct), -1], np.int64)[stack]
    return np.where(by_stack >= 0, by_stack, key), list(texts)


def _user_line(file: str, line: int) -> str | None:
    """``In[n]:line`` of a notebook's cell, ``file:line`` of the user's files, None for a library's."""
    if (file.startswith("<") and not _CELL.search(file)) or _LIBRARY.search(file):
        return None
    if (cell := _CELL.search(file)) and cell["number"]:
        return f"In[{cell['number']}]:{line}"
    return f"{file}:{line}"


def inherited(key: Ints, parent: Ints, forward: Ints) -> Ints:
    """Each row's key: its own, or its forward operator's, or that of the row above it, and so on; shape (n,).

    A backward row takes its forward operator's key where that has one, whatever stands above it.
    """
    with_forward = _resolved(key, np.where(forward >= 0, forward, np.where(key >= 0, -1, parent)))
    own = np.where(with_forward >= 0, with_forward, key)
    return _resolved(own, np.where(own >= 0, -1, parent))


def _resolved(key: Ints, link: Ints) -> Ints:
    """The key at the end of each row's links, which all lead to earlier rows."""
    at = np.where(link >= 0, link, np.arange(len(link)))
    while True:
        further = at[at]
        if (further == at).all():
            result: Ints = key[at] if len(at) else key
            return result
        at = further
