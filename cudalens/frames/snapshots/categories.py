"""The use of blocks (parameter, gradient, ...), by the call stacks that allocated them.

The rules use functions and files of torch. What they do not cover is unknown. The live collector in cudalens.memory has
more data, such as the parameters of modules, and writes to the same column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import numpy as np
import pandas as pd

from cudalens.frames.column_arrays import categorical, integers
from cudalens.frames.column_catalog import BLOCK_CATEGORIES

_WORKSPACE: Final = re.compile(
    r"(?i)getCurrentCUDABlas(?:Lt)?Handle|getCUDABlasLtWorkspace|ChosenWorkspaceSize|cublas\w*Create|\bworkspace\b"
)
#: ``:4096:2:16:8`` in KiB (ATen/cuda/CublasHandlePool.cpp). The 32 MiB of newer GPUs are the size of many tensors too.
_WORKSPACE_BYTES: Final = (4096 * 2 + 16 * 8) * 1024
_ACCUMULATES: Final = re.compile(r"AccumulateGrad|accumulate_?grad", re.IGNORECASE)
_BACKWARD: Final = re.compile(r"torch::autograd::(?:Engine|python::PythonEngine)|_engine_run_backward|^backward$")
_FILES: Final = {
    "optimizer": re.compile(r"[/\\]torch[/\\]optim[/\\]\w+\.py$"),
    "loader": re.compile(r"[/\\]torch[/\\]utils[/\\]data[/\\]"),
    "module": re.compile(r"[/\\]torch[/\\]nn[/\\]modules[/\\]module\.py$"),
    "modules": re.compile(r"[/\\]torch[/\\]nn[/\\]"),
    "autograd": re.compile(r"[/\\]torch[/\\](?:autograd[/\\]|_tensor\.py$)"),
}
_MOVES: Final = frozenset({"_apply", "convert", "to_empty"})
_BUILDS: Final = frozenset({"__init__", "reset_parameters", "_reset_parameters", "load_state_dict"})
_CALLS: Final = frozenset({"_call_impl", "_wrapped_call_impl"})


def stack_marks(stacks: pd.DataFrame) -> dict[int, set[str]]:
    """Return the marks of each call stack of the frame `stacks`, by its id; stacks without marks are absent."""
    if not len(stacks):
        return {}
    entries = stacks[["file", "function"]].drop_duplicates()
    marks = {(file, function): _marks(file, function) for file, function in _texts(entries)}
    found: dict[int, set[str]] = {}
    for number, key in zip(stacks["stack"].tolist(), _texts(stacks), strict=True):
        if mark := marks[key]:
            found.setdefault(number, set()).update(mark)
    return found


def _texts(entries: pd.DataFrame) -> Iterable[tuple[str, str]]:
    file = entries["file"].astype(object).where(entries["file"].notna(), "")
    function = entries["function"].astype(object).where(entries["function"].notna(), "")
    return zip(file.tolist(), function.tolist(), strict=True)


def _marks(file: str, function: str) -> frozenset[str]:
    """Return the marks of one stack frame."""
    place = {name for name, pattern in _FILES.items() if pattern.search(file)}
    name = function.rpartition(".")[2]
    rules = {
        "workspace": not file.endswith(".py") and bool(_WORKSPACE.search(function)),
        "accumulates": bool(_ACCUMULATES.search(function)),
        "state": "optimizer" in place and name == "_init_group",
        "optimizer": "optimizer" in place and name != "__init__",
        "backward": bool(_BACKWARD.search(function)) and (not file.endswith(".py") or "autograd" in place),
        "loads": "loader" in place,
        "calls": "module" in place and name in _CALLS,
        "builds": ("module" in place and name in _MOVES) or ("modules" in place and name in _BUILDS),
    }
    return frozenset(mark for mark, holds in rules.items() if holds)


def _category(marks: set[str], now: set[str], *, was_released: bool) -> str | None:
    """Return the category of an active block.

    Args:
        marks: The marks of its stack.
        now: The marks of the last action's stack: a backward or a step that may be unfinished.
        was_released: Whether some block of that stack was released in the history.
    """
    if "workspace" in marks:
        return "workspace"
    if "accumulates" in marks:
        return "gradient"
    if "optimizer" in marks:
        return "temporary" if "optimizer" in now and was_released and "state" not in marks else "optimizer state"
    if "backward" in marks:
        return None if "backward" in now and was_released else "gradient"
    rest = (("loads", "input"), ("calls", "activation"), ("builds", "parameter"))
    return next((category for mark, category in rest if mark in marks), None)


def block_categories(blocks: pd.DataFrame, stacks: pd.DataFrame, memory: pd.DataFrame) -> pd.Categorical:
    """Return the use of each active block, by its pool and its stack.

    - ``graph pool``: it is in the pool of a graph capture, and stays with the graph, whatever its stack is.
    - ``workspace``: allocated for a cuBLAS handle or workspace, by its stack, or by the size that torch requests for it
      on most GPUs: a stack of Python lines does not show the difference.
    - ``gradient``: allocated by autograd's accumulation, or in a backward that has ended. While the last action is in a
      backward, only if no block of the same stack was ever released.
    - ``optimizer state``: allocated in ``_init_group`` of torch.optim, or in an optimizer's step that has ended. While
      the last action is in a step, blocks with a stack of which some block was released are ``temporary``.
    - ``input``: allocated under torch.utils.data; ``activation``: in a module's call; ``parameter``: while a module is
      built, moved or loaded.

    Args:
        blocks: Columns ``pool_id_first``, ``requested_bytes``, ``stack``, ``alloc`` and ``state`` of the frame
            ``blocks``.
        stacks: The frame ``stacks``.
        memory: Columns ``stack`` and ``action`` of the frame ``memory``.
    """
    marks = stack_marks(stacks)
    known = memory["stack"].dropna()
    now = marks.get(int(known.iloc[-1]), set()) if len(known) else set()
    place = {name: i for i, name in enumerate(BLOCK_CATEGORIES)}
    released = _released(blocks, memory)
    codes_of = {
        number: place.get(_category(mark, now, was_released=number in released) or "", -1)
        for number, mark in marks.items()
    }
    numbers = integers(blocks["stack"])
    codes = np.fromiter((codes_of.get(number, -1) for number in numbers.tolist()), np.int64, len(numbers))
    codes[integers(blocks["requested_bytes"]) == _WORKSPACE_BYTES] = place["workspace"]
    codes[integers(blocks["pool_id_first"], 0) != 0] = place["graph pool"]
    codes[(blocks["state"] == "inactive").to_numpy()] = -1
    return categorical(codes, list(BLOCK_CATEGORIES))


def _released(blocks: pd.DataFrame, memory: pd.DataFrame) -> set[int]:
    """Stacks of which more blocks were allocated in the history than are active."""
    allocated = memory["stack"][(memory["action"] == "alloc").to_numpy()].value_counts()
    is_alive = (blocks["alloc"].notna() & (blocks["state"] != "inactive")).to_numpy()
    alive = blocks["stack"][is_alive].value_counts()
    left = allocated.sub(alive, fill_value=0)
    return {int(number) for number in left.index[(left > 0).to_numpy()]}
