"""The module, line, range or operator of each host row."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Ints, integers, is_category, map_texts
from cudalens.frames.stacks import OWN_FILES, Place

if TYPE_CHECKING:
    from cudalens.frames import Trace

MODULE_PREFIX: Final = "nn.Module: "
_PYTHON: Final = re.compile(r"^(?P<file>.+)\(\d{1,9}\): (?P<function>.*)", re.DOTALL)
#: A `Place` without a line, as text.
_FUNCTION_PLACE: Final = re.compile(r".* \((?P<file>.*)\)$", re.DOTALL)
#: Files of libraries.
_LIBRARY: Final = re.compile(
    rf"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|^(?:torch|<frozen)\b|{OWN_FILES}"
)
#: Modules that enclose a program: Python's own, notebooks, launchers, test runners.
_LIBRARY_MODULES: Final = sys.stdlib_module_names | {
    *("IPython", "ipykernel", "ipykernel_launcher", "traitlets", "tornado", "zmq", "jupyter_client", "nbclient"),
    *("torch", "accelerate", "lightning", "pytorch_lightning", "ray", "pytest", "_pytest", "pluggy", "cudalens"),
}
_CELL: Final = re.compile(r"(?:ipykernel_\d+[/\\]\d+\.py|<ipython-input-(?P<number>\d+)-[^>]*>)$")


def own_keys(trace: Trace, by: str) -> tuple[Ints, list[str]]:
    """Return the own key of each row: its number among the texts, -1 for none; shape (n,)."""
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
    """Return the names of rows of some categories as keys; none if the name's text is None."""
    known = [text for text in dict.fromkeys(texts) if text is not None]
    place = {text: number for number, text in enumerate(known)}
    of_name = np.array([*(place.get(text, -1) if text is not None else -1 for text in texts), -1], np.int64)
    key = np.where(is_category(events["cat"].array, categories), of_name[events["name"].array.codes], -1)
    return key, known


def _module_keys(events: pd.DataFrame) -> tuple[Ints, list[str]]:
    """The ``module`` column; for ``nn.Module`` calls without one, as in files, the chain of calls around them."""
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
    """Rows of calls of nn.Modules without a ``module``: files have it for operators only, or not at all."""
    is_module = map_texts(events["name"].array, lambda name: name.startswith(MODULE_PREFIX), False)
    calls = is_module & is_category(events["cat"].array, ("python_function",))
    return np.flatnonzero(calls & (events["module"].array.codes < 0))


def _module_chains(events: pd.DataFrame) -> tuple[Ints, list[str]]:
    """For each call of an nn.Module its path, the modules around it and itself with dots; -1 for other rows."""
    parent = integers(events["parent"])
    texts = [
        name.removeprefix(MODULE_PREFIX) if name.startswith(MODULE_PREFIX) else None
        for name in events["name"].cat.categories.tolist()
    ]
    marked, labels = _named(events, ("python_function",), texts)
    rows = np.flatnonzero(marked >= 0)
    key, paths = np.full(len(events), -1, np.int64), dict[str, int]()
    closest, paths_of = nearest(marked >= 0, parent), np.full(len(events), "", object)
    for row in rows.tolist():  # calls of modules are few compared with other events
        outer = paths_of[closest[parent[row]]] if parent[row] >= 0 and closest[parent[row]] >= 0 else ""
        paths_of[row] = f"{outer}.{labels[marked[row]]}" if outer else labels[marked[row]]
        key[row] = paths.setdefault(paths_of[row], len(paths))
    return key, list(paths)


def _line_keys(trace: Trace) -> tuple[Ints, list[str]]:
    """Return the innermost line of the user's code in each row's call stack; its function where no line is known."""
    texts: dict[str, int] = {}
    names, parent = trace.events["name"].array, integers(trace.events["parent"])
    is_python = is_category(trace.events["cat"].array, ("python_function",))
    called = [_PYTHON.match(name) for name in names.categories.tolist()]
    files = [_user_file(match["file"]) if match else None for match in called]
    functions = [
        texts.setdefault(Place(file, None, match["function"]).text(), len(texts)) if match and file else -1
        for match, file in zip(called, files, strict=True)
    ]
    key = np.where(is_python, np.array([*functions, -1], np.int64)[names.codes], -1)
    # A call within a function of the user, other than that of another one, is the user's line.
    line = integers(trace.events["call_line"])
    rows = np.flatnonzero((line >= 0) & (key < 0) & (parent >= 0))
    rows = rows[key[parent[rows]] >= 0]
    for row, code, at in zip(rows.tolist(), names.codes[parent[rows]].tolist(), line[rows].tolist(), strict=True):
        key[row] = texts.setdefault(f"{files[code]}:{at}", len(texts))
    of_stack = {stack: texts.setdefault(text, len(texts)) for stack, text in _stack_places(trace.stacks).items()}
    stack, distinct = pd.factorize(trace.events["stack"])
    by_stack = np.array([*(of_stack.get(int(number), -1) for number in distinct), -1], np.int64)[stack]
    return np.where(by_stack >= 0, by_stack, key), list(texts)


def _stack_places(stacks: pd.DataFrame) -> dict[int, str]:
    """Return the innermost place of the user's code in each stack that has one, by its id."""
    places: dict[int, str] = {}
    columns = (stacks[name].astype(object) for name in ("stack", "file", "line", "first_line", "function"))
    for stack, file, line, first_line, function in zip(*columns, strict=True):
        is_known = isinstance(file, str) and not (pd.isna(line) and pd.isna(first_line))
        if stack not in places and is_known and (label := _user_file(file)):
            places[stack] = Place(label, None if pd.isna(line) else int(line), str(function)).text()
    return places


def is_library_call(name: str) -> bool:
    """Whether the name of a Python call is of a library: ``asyncio/events.py(80): _run``, ``<built-in method ...>``.

    torch shortens paths by the entries of ``sys.path``. So a library's file is known by its first folder or module.
    """
    match = _PYTHON.match(name)
    if match is None:
        return False
    return is_library_place(match["file"]) or _user_file(match["file"]) is None


def is_library_place(place: str) -> bool:
    """Whether a file, or a `Place` as text, is of Python, a notebook's kernel, a launcher, a test runner or torch."""
    match = _FUNCTION_PLACE.match(place)
    file = match["file"] if match else place
    top = file.partition(":")[0].replace("\\", "/").partition("/")[0].removesuffix(".py")
    return top in _LIBRARY_MODULES


def _user_file(file: str) -> str | None:
    """``In[n]`` for a notebook's cell, the file itself for other files of the user, None for libraries."""
    if (file.startswith("<") and not _CELL.search(file)) or _LIBRARY.search(file):
        return None
    if (cell := _CELL.search(file)) and cell["number"]:
        return f"In[{cell['number']}]"
    return file


def inherited(key: Ints, parent: Ints, forward: Ints) -> Ints:
    """Return each row's key: its own, or its forward operator's, or that of its parent, and so on; shape (n,).

    A backward row takes its forward operator's key if there is one, whatever its parent's key is.
    """
    with_forward = _resolved(key, np.where(forward >= 0, forward, np.where(key >= 0, -1, parent)))
    own = np.where(with_forward >= 0, with_forward, key)
    return _resolved(own, np.where(own >= 0, -1, parent))


def _resolved(key: Ints, link: Ints) -> Ints:
    """Return the key at the end of each row's links, which all lead to earlier rows."""
    at = np.where(link >= 0, link, np.arange(len(link)))
    while True:
        further = at[at]
        if (further == at).all():
            result: Ints = key[at] if len(at) else key
            return result
        at = further
