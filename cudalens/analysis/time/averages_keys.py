"""The keys by which costs can be grouped: a code for every row, and a value for every code."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.time.attribution_keys import inherited, own_keys, unnamed_modules
from cudalens.analysis.time.averages_stacks import Stacks
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Ints, categorical, integers, text_column

if TYPE_CHECKING:
    from cudalens.frames import Trace

#: The one name under which all steps are averaged, as torch does.
STEP_NAME: Final = "ProfilerStep*"

#: Largest number of entries of a stack key.
MAX_STACK: Final = 64

_STACK: Final = re.compile(r"stack:([1-9]\d{0,5})")

#: From row numbers to a column of the key's values there.
Values = Callable[[Ints], Any]


def with_torch_groups(by: Sequence[str] | str, *, by_input_shape: bool, stack_entries: int) -> tuple[str, ...]:
    """Return the keys of `by`, and those that torch.profiler's options of ``key_averages`` stand for."""
    keys = [by] if isinstance(by, str) else list(by)
    if by_input_shape and "input_shapes" not in keys:
        keys.append("input_shapes")
    if stack_entries > 0:
        keys.append(f"stack:{stack_entries}")
    return tuple(keys)


def check_keys(by: Sequence[str] | str) -> tuple[str, ...]:
    """Check and return the keys of `by`.

    Raises:
        TypeError: `by` has other values than texts.
        ValueError: A key is unknown or repeated, or there is none.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    choices = ", ".join((*COLUMNS, "stack:<entries>"))
    if not keys:
        raise ValueError(f"by is empty; give at least one of: {choices}")
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"by has {key!r}, expected texts out of: {choices}")
        match = _STACK.fullmatch(key)
        if key not in COLUMNS and (match is None or int(match[1]) > MAX_STACK):
            hint = f" (stack:1 to stack:{MAX_STACK})" if key.startswith("stack") else ""
            raise ValueError(f"by holds {key!r}{hint}; there are: {choices}")
    doubles = {"stack" if key.startswith("stack:") else key for key in keys}
    if len(doubles) < len(keys):
        raise ValueError(f"by={list(keys)} names a key twice")
    return keys


def column_of(key: str) -> str:
    """The column that holds the values of `key`."""
    return "stack" if key.startswith("stack:") else key


def codes_of(trace: Trace, key: str, stacks: Callable[[], Stacks]) -> tuple[Ints, Values]:
    """A code for each row's value of `key` (equal values, equal codes; -1 for none), and the values by row.

    Args:
        trace: Any Trace.
        key: One of `COLUMNS`, or ``stack:N``.
        stacks: Gives the Trace's stacks, for keys that need them.
    """
    match = _STACK.fullmatch(key)
    if match is not None:
        return _texts(*stacks().innermost(int(match[1])))
    if key == "cell_line":
        return _texts(*stacks().places())
    if key == "module" and len(unnamed_modules(trace.events)):
        return _texts(*_modules_around(trace))
    return COLUMNS[key](trace.events)


def step_names(names: pd.Categorical) -> tuple[Ints, list[str]]:
    """Codes and texts of the names with every step under one name."""
    return _recoded(names, lambda text: STEP_NAME if text.startswith(STEP_PREFIX) else text)


def _recoded(column: pd.Categorical, function: Callable[[str], str]) -> tuple[Ints, list[str]]:
    """Codes and texts of a column after `function` of each text."""
    texts = text_column(map(function, column.categories.tolist()))
    return np.append(texts.codes, -1).astype(np.int64)[column.codes], texts.categories.tolist()


def _texts(codes: Ints, texts: list[str]) -> tuple[Ints, Values]:
    return codes, lambda rows: categorical(codes[rows], texts)


def _modules_around(trace: Trace) -> tuple[Ints, list[str]]:
    """The module of each row, for device work that of its launch, from the calls of modules."""
    events = trace.events
    parent, forward, launch = (integers(events[link]) for link in ("parent", "forward", "launch"))
    key, texts = own_keys(trace, "module")
    key = inherited(key, parent, forward)
    return np.where(launch >= 0, key[launch], key), texts


def _by_name(events: pd.DataFrame) -> tuple[Ints, Values]:
    return _texts(*step_names(events["name"].array))


def _by_shapes(events: pd.DataFrame) -> tuple[Ints, Values]:
    """Shapes as torch.profiler groups them: a list of tensors is ``[]``, whatever their shapes are."""
    return _texts(*_recoded(events["shapes"].array, _flat))


def _flat(text: str) -> str:
    try:
        shapes = msgspec.json.decode(text, type=list[Any])
    except (msgspec.MsgspecError, RecursionError):
        return text
    is_nested = [isinstance(shape, list) and any(isinstance(size, list) for size in shape) for shape in shapes]
    flat = [[] if nested else shape for nested, shape in zip(is_nested, shapes, strict=True)]
    return msgspec.json.encode(flat).decode()


def _by_category(column: str, events: pd.DataFrame) -> tuple[Ints, Values]:
    values = events[column].array
    return values.codes.astype(np.int64), values.take


def _by_number(column: str, events: pd.DataFrame) -> tuple[Ints, Values]:
    values = events[column].array
    known = ~np.asarray(values.isna())
    codes = np.full(len(values), -1, np.int64)
    codes[known] = pd.factorize(values[known].to_numpy(dtype=np.int64))[0]
    return codes, values.take


def _from_stacks(events: pd.DataFrame) -> tuple[Ints, Values]:
    raise AssertionError("codes_of reads these from the stacks")


#: Keys by name, without ``stack:N``.
COLUMNS: Final[dict[str, Callable[[pd.DataFrame], tuple[Ints, Values]]]] = {
    "name": _by_name,
    "input_shapes": _by_shapes,
    "module": partial(_by_category, "module"),
    "cell_line": _from_stacks,
    "stream": partial(_by_number, "stream"),
    "device": partial(_by_number, "device"),
    "tid": partial(_by_number, "tid"),
    "thread": partial(_by_category, "thread"),
    "step": partial(_by_number, "step"),
    "cat": partial(_by_category, "cat"),
    "shapes": partial(_by_category, "shapes"),
    "dtypes": partial(_by_category, "dtypes"),
}
