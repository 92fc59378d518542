"""What costs can be grouped by: each key gives every row a code, and each code its value."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.time.attribution_keys import inherited, own_keys, unnamed_modules
from cudalens.analysis.time.averages_stacks import Stacks
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.columns import categorical

if TYPE_CHECKING:
    from cudalens.frames import Trace

Ints = NDArray[np.int64]

#: The one name under which all steps are averaged, as torch does.
STEP_NAME: Final = "ProfilerStep*"

#: Entries of a stack that can be told apart.
MAX_STACK: Final = 64

_STACK: Final = re.compile(r"stack:([1-9]\d{0,5})")

#: From row numbers to a column of the key's values there.
Values = Callable[[Ints], Any]


class TorchGroups(TypedDict, total=False):
    """What to group by, by the names of torch.profiler's ``key_averages``."""

    group_by_input_shape: bool
    group_by_input_shapes: bool
    group_by_stack_n: int
    group_by_overload_name: bool


def with_torch_groups(by: Sequence[str] | str, groups: TorchGroups) -> tuple[str, ...]:
    """The keys of `by`, and those that torch.profiler's options of ``key_averages`` stand for.

    Raises:
        TypeError: torch has no such option, or there is no such key here.
    """
    if unknown := groups.keys() - TorchGroups.__annotations__.keys():
        raise TypeError(
            f"there is no option {min(unknown)!r}; expected by, rows, top_level or one of torch's: "
            f"{', '.join(TorchGroups.__annotations__)}"
        )
    if groups.get("group_by_overload_name"):
        raise TypeError(
            "group_by_overload_name: overload names are not recorded; by=['name', 'input_shapes'] tells "
            "calls with different inputs apart"
        )
    keys = (by,) if isinstance(by, str) else tuple(by)
    is_by_shape = groups.get("group_by_input_shape") or groups.get("group_by_input_shapes")
    keys += ("input_shapes",) if is_by_shape and "input_shapes" not in keys else ()
    return keys + ((f"stack:{depth}",) if (depth := groups.get("group_by_stack_n", 0)) > 0 else ())


def check_keys(by: Sequence[str] | str) -> tuple[str, ...]:
    """The keys of `by`, once each of them is one.

    Raises:
        TypeError: `by` holds no texts.
        ValueError: There is no such key, a key is there twice, or there is none at all.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    choices = ", ".join((*COLUMNS, "stack:<entries>"))
    if not keys:
        raise ValueError(f"by is empty; give at least one of: {choices}")
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"by holds {key!r}, expected texts out of: {choices}")
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
    texts = [STEP_NAME if text.startswith(STEP_PREFIX) else text for text in names.categories.tolist()]
    codes, distinct = pd.factorize(np.array(texts, object))
    return np.append(codes, -1)[names.codes].astype(np.int64), list(distinct)


def _texts(codes: Ints, texts: list[str]) -> tuple[Ints, Values]:
    return codes, lambda rows: categorical(codes[rows], texts)


def _modules_around(trace: Trace) -> tuple[Ints, list[str]]:
    """The module of each row, of device work that of its launch, where calls of modules tell more than the column."""
    events = trace.events
    parent, forward, launch = (_plain(events[link].array) for link in ("parent", "forward", "launch"))
    key, texts = own_keys(trace, "module")
    key = inherited(key, parent, forward)
    return np.where(launch >= 0, key[launch], key), texts


def _plain(values: Any) -> Ints:
    plain: Ints = values.to_numpy(dtype=np.int64, na_value=-1)
    return plain


def _by_name(events: pd.DataFrame) -> tuple[Ints, Values]:
    return _texts(*step_names(events["name"].array))


def _by_shapes(events: pd.DataFrame) -> tuple[Ints, Values]:
    """Shapes as torch.profiler groups them: a list of tensors is ``[]``, whatever they are."""
    shapes = events["shapes"].array
    texts = [_flat(text) for text in shapes.categories.tolist()]
    codes, distinct = pd.factorize(np.array(texts, object))
    return _texts(np.append(codes, -1)[shapes.codes].astype(np.int64), list(distinct))


def _flat(text: str) -> str:
    try:
        shapes = msgspec.json.decode(text, type=list[Any])
    except msgspec.MsgspecError:
        return text
    flat = [
        [] if isinstance(shape, list) and any(isinstance(size, list) for size in shape) else shape for shape in shapes
    ]
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
    raise AssertionError("looked up in the stacks")


#: Keys by name; besides, ``stack:N``.
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
