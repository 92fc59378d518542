"""Read the getters of torch's raw profiler events into arrays; a value that cannot be read is unknown and counted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import OVERHEAD_KINDS, WORK_ELSEWHERE, categorical
from cudalens.frames.column_arrays import Ints
from cudalens.frames.info import DAMAGED_NAMES
from cudalens.frames.limits import Problems

#: Getters from which the category is derived in builds without ``activity_type``.
CATEGORY_SOURCES: Final = ("device_type", "is_user_annotation", "is_python_function")

#: Categories that can be derived.
DERIVED: Final = [
    *("cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver"),
    *("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "overhead"),
]

_OVERHEAD: Final = frozenset(OVERHEAD_KINDS.values())


def categories(texts: dict[str, Coded], name_codes: NDArray[np.int32], names: list[str]) -> pd.Categorical:
    """Kineto's category of each event, from torch or else derived from names and device types."""
    if "activity_type" in texts:
        codes, types = texts["activity_type"]
        names = [WORK_ELSEWHERE.get(str(kind), str(kind)) for kind in types]
        unique = list(dict.fromkeys(names))
        return categorical(np.array([*map(unique.index, names), -1], np.int32)[codes], unique)
    if not len(name_codes):
        return categorical(name_codes, [])
    codes, types = texts["device_type"]
    on_host = np.array([not kind or kind.endswith(".CPU") for kind in types], bool)[codes]
    host = np.array([DERIVED.index(_host_category(name)) for name in names], np.int32)[name_codes]
    device = np.array([DERIVED.index(_device_category(name)) for name in names], np.int32)[name_codes]
    derived = np.where(on_host, host, device)
    for getter, there, here in (
        ("is_user_annotation", "gpu_user_annotation", "user_annotation"),
        ("is_python_function", "python_function", "python_function"),
    ):
        codes, values = texts[getter]
        marked = np.array(values, bool)[codes]
        derived[marked & on_host] = DERIVED.index(here)
        derived[marked & ~on_host] = DERIVED.index(there)
    return categorical(derived, DERIVED)


def _host_category(name: str) -> str:
    if name.startswith(("cuda", "hip")) and "::" not in name:
        return "cuda_runtime"
    if name in _OVERHEAD:
        return "overhead"
    return "cuda_driver" if name.startswith("cu") and name[2:3].isupper() else "cpu_op"


def _device_category(name: str) -> str:
    if name.startswith("Memcpy "):
        return "gpu_memcpy"
    if name.startswith("Memset "):
        return "gpu_memset"
    return "cuda_sync" if name in ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event") else "kernel"


#: What takes the place of a damaged file or function name.
DAMAGED_FILE: Final = "<damaged file>"
DAMAGED_NAME: Final = "<damaged name>"

#: As torch writes a Python function: ``file(line): function``.
_FUNCTION: Final = re.compile(r"(.*)\((\d+)\): (.*)", re.DOTALL)

#: Functions whose code never begins at line 0.
_INNER: Final = frozenset({"<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


def with_damage_marked(
    codes: NDArray[np.int32], names: list[str], is_python: NDArray[np.bool_], problems: Problems
) -> Coded:
    """Names with `DAMAGED_FILE` and `DAMAGED_NAME` in place of damaged parts, each name once.

    Args:
        codes: Code of the name of each event, shape (n,).
        names: The distinct names.
        is_python: True for rows of Python functions, shape (n,).
        problems: Where events with damaged names are counted.
    """
    # A range of the program may be named as a function is, so rows of functions get codes of their own.
    pairs = codes.astype(np.int64) * 2 + is_python
    counts = np.bincount(pairs, minlength=2 * len(names))
    used = np.flatnonzero(counts)
    texts = [_of_function(names[pair // 2]) if pair % 2 else _of_other(names[pair // 2]) for pair in used.tolist()]
    for pair, text in zip(used.tolist(), texts, strict=True):
        if text != names[pair // 2] or "\ufffd" in text:
            problems.add(DAMAGED_NAMES, f"'{text[:150]}'", int(counts[pair]))
    of_used, once = factorized(texts)
    new = np.full(len(counts), -1, np.int32)
    new[used] = of_used
    return new[pairs], once


def _of_function(name: str) -> str:
    match = _FUNCTION.fullmatch(name)
    if match is None:
        return _of_other(name)
    file, line, function = match.groups()
    if _is_garbage(function) or (line == "0" and not _is_outermost(function)):
        is_file = not _is_garbage(file) and file.endswith((".py", ">"))
        return f"{file if is_file else DAMAGED_FILE}({line}): {DAMAGED_NAME}"
    return f"{DAMAGED_FILE}({line}): {function}" if _is_garbage(file) else name


def _of_other(name: str) -> str:
    return DAMAGED_NAME if name == "\ufffd" else name


def _is_garbage(text: str) -> bool:
    """Whether `text` cannot be the name of a file or a function: it is empty, not UTF-8, or has control characters."""
    return not text or "\ufffd" in text or any(unicodedata.category(char) == "Cc" for char in text)


def _is_outermost(function: str) -> bool:
    """Whether the code of `function` may begin at line 0: that of a module, of ``exec``, or of a notebook's cell."""
    return function.startswith("<") and function.endswith(">") and function not in _INNER


#: Codes into distinct values, shape (n,), and those values.
Coded = tuple[NDArray[np.int32], list[Any]]

#: An integer that could not be read, for getters without a value of their own for "unknown".
MISSING: Final = -(1 << 63)

#: What a getter of integers returns for "unknown", if that is not 0.
_UNKNOWN: Final = {
    "start_ns": MISSING,
    "duration_ns": MISSING,
    "nbytes": MISSING,
    "device_resource_id": MISSING,
    "device_index": MISSING,
    "start_thread_id": MISSING,
    "end_thread_id": MISSING,
    "sequence_nr": -1,
}

#: 64 bits without a sign: torch gives all ones to the Python frames of threads that it did not record.
_UNSIGNED: Final = frozenset({"start_thread_id", "end_thread_id", "fwd_thread_id"})

#: Events whose getters are all read before the next are touched, so that they stay in the processor's cache.
_CHUNK: Final = 1024


@dataclass(frozen=True)
class _Kind:
    """How a getter of repeated values is read.

    Attributes:
        unknown: Replaces a value that cannot be used.
        is_usable: Whether a value can be used.
        key: Makes a value hashable; None if it is.
    """

    unknown: Any
    is_usable: Callable[[Any], bool]
    key: Callable[[Any], Hashable] | None = None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value == value.encode("utf-8", "replace").decode()


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_json_list(text: bytes) -> bool:
    value = msgspec.json.decode(text)
    return isinstance(value, list) and all(map(_is_item, value))


def _is_item(value: Any) -> bool:
    """Return whether `value` is a text, a size, or nested lists of them."""
    if isinstance(value, list):
        return all(map(_is_item, value))
    return isinstance(value, str) or (type(value) is int and value >= 0)


_LISTS: Final = _Kind(b"[]", _is_json_list, msgspec.json.Encoder().encode)
_KINDS: Final = {
    "name": _Kind("\ufffd", _is_text),
    "activity_type": _Kind("unknown", _is_text),
    "device_type": _Kind("", _is_text, str),
    "is_user_annotation": _Kind(False, _is_bool),
    "is_python_function": _Kind(False, _is_bool),
    "structured_input_shapes": _LISTS,
    "shapes": _LISTS,
    "dtypes": _LISTS,
}


class Codes(dict[Any, int]):
    """Numbers values in order of appearance; ``codes[value]`` is the number, given on first sight."""

    def __missing__(self, value: Any) -> int:
        self[value] = number = len(self)
        return number


def factorized(values: Iterable[Any]) -> Coded:
    """Codes into the distinct `values` in order of appearance, and those values."""
    known = Codes()
    codes = np.array([known[value] for value in values], np.int32)
    return codes, list(known)


class EventReader:
    """Reads the getters of many raw events at once.

    Args:
        events: torch's raw events, all of one class.
        problems: Where values that cannot be read are counted.
    """

    def __init__(self, events: Sequence[Any], problems: Problems) -> None:
        self.events, self._problems = events, problems
        self._class: Any = type(events[0]) if events else None

    def has(self, getter: str) -> bool:
        """Return whether this build of torch has the getter."""
        return hasattr(self._class, getter)

    def ints(self, getter: str) -> Ints:
        """Return the getter of each event as int64."""
        return self.scan([getter], ())[0][getter]

    def codes(self, getter: str) -> Coded:
        """Return the getter of each event as codes into its distinct values."""
        return self.scan((), [getter])[1][getter]

    def scan(self, numbers: Iterable[str], others: Iterable[str]) -> tuple[dict[str, Ints], dict[str, Coded]]:
        """Many getters of all events, read a chunk of events at a time; unknown throughout if this build lacks one.

        Args:
            numbers: Getters of integers.
            others: Getters whose values repeat.

        Returns:
            Each number getter's values, shape (n,); each other getter's codes, shape (n,), and distinct values.
        """
        n = len(self.events)
        ints = {name: np.full(n, _UNKNOWN.get(name, 0), np.int64) for name in numbers}
        codes = {name: (np.zeros(n, np.int32), Codes()) for name in others}
        for begin in range(0, n, _CHUNK):
            chunk = self.events[begin : begin + _CHUNK]
            here = slice(begin, begin + len(chunk))
            for name in filter(self.has, ints):
                ints[name][here] = self._numbers(name, chunk)
            for name, (of_events, known) in codes.items():
                of_events[here] = self._codes(name, known, chunk)
        return ints, {name: self._usable(name, of_events, list(known)) for name, (of_events, known) in codes.items()}

    def _numbers(self, name: str, events: Sequence[Any]) -> Ints:
        """Return the values of one getter; all ones, the number of a thread that torch did not record, become -1."""
        getter, dtype = getattr(self._class, name), np.uint64 if name in _UNSIGNED else np.int64
        try:
            return np.fromiter(map(getter, events), dtype, len(events)).view(np.int64)
        except Exception:  # torch raises exceptions of any type; the other values are kept
            return np.array([self._number(name, getter, dtype, event) for event in events], np.int64)

    def _number(self, name: str, getter: Callable[[Any], Any], dtype: type, event: Any) -> int:
        try:
            return int(np.array([int(getter(event))], dtype).view(np.int64)[0])
        except Exception as error:
            self._count(name, f"{type(error).__name__}: {error}")
            return _UNKNOWN.get(name, 0)

    def _codes(self, name: str, known: Codes, events: Sequence[Any]) -> NDArray[np.int32]:
        """Return the code of each event's value; `known` numbers the values."""
        getter, key = getattr(self._class, name, None), _KINDS[name].key
        if getter is None:
            return np.full(len(events), known[_KINDS[name].unknown], np.int32)
        try:
            values = map(getter, events)
            keys = values if key is None else map(key, values)
            return np.fromiter(map(known.__getitem__, keys), np.int32, len(events))
        except Exception:
            return np.array([known[self._value(name, getter, event)] for event in events], np.int32)

    def _value(self, name: str, getter: Callable[[Any], Any], event: Any) -> Any:
        kind = _KINDS[name]
        try:
            value = getter(event) if kind.key is None else kind.key(getter(event))
            hash(value)
        except UnicodeDecodeError as error:
            if name == "name":
                return bytes(error.object).decode("utf-8", "replace")
            self._count(name, f"{type(error).__name__}: {error}")
        except Exception as error:
            self._count(name, f"{type(error).__name__}: {error}")
        else:
            return value
        return kind.unknown

    def _usable(self, name: str, codes: NDArray[np.int32], values: list[Any]) -> Coded:
        """Return the same with "unknown" in place of values that cannot be used."""
        bad = [i for i, value in enumerate(values) if not _KINDS[name].is_usable(value)]
        if not bad:
            return codes, values
        counts = np.bincount(codes, minlength=len(values))
        for i in bad:
            self._count(name, repr(values[i]), int(counts[i]))
            values[i] = _KINDS[name].unknown
        new, once = factorized(values)
        return new[codes], once

    def _count(self, name: str, where: str, count: int = 1) -> None:
        if name != "name":  # `names` counts all damaged names
            self._problems.add(f"unusable {name}", where[:200], count)
