"""Collect event rows from tables into the columns of `build_events`, and name calls, copies and kernels."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.errors import TraceFormatError
from cudalens.frames import build_events, categorical, nullable
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.columns import Codes
from cudalens.traces.chrome.values import MAX_NS, MISSING

Mask = NDArray[np.bool_]

_INT32: Final = frozenset({"device", "registers"})
_MAX_INT32: Final = (1 << 31) - 1


@dataclass
class Texts:
    """A text per row, as codes into the distinct ones; code -1 is missing.

    Attributes:
        codes: Shape (n,).
        values: The distinct texts.
    """

    codes: Ints
    values: list[str]

    @classmethod
    def same(cls, text: str, n: int) -> Texts:
        """`text` in every one of `n` rows."""
        return cls(np.zeros(n, np.int64), [text])

    @classmethod
    def of(cls, values: Sequence[Any]) -> Texts:
        """From a value per row, None for missing."""
        codes, uniques = pd.factorize(np.array(values, object))
        return cls(codes.astype(np.int64), [text_of(value) for value in uniques])

    @classmethod
    def looked_up(cls, ids: Ints, strings: Mapping[int, str], otherwise: str | None = None) -> Texts:
        """From string ids; for an unknown id, `otherwise` formatted with the id, or missing."""
        codes, uniques = pd.factorize(ids)
        found = [_found(number, strings, otherwise) for number in uniques.tolist()]
        values = list(dict.fromkeys(text for text in found if text is not None))
        place = {text: i for i, text in enumerate(values)}
        new = np.array([-1 if text is None else place[text] for text in found] or [-1], np.int64)
        return cls(new[codes], values)

    @classmethod
    def joined(cls, columns: Sequence[Ints], text: Any) -> Texts:
        """Return the result of `text` for each distinct row of `columns`."""
        stacked = np.stack(columns, axis=1) if columns else np.empty((0, 0), np.int64)
        if not len(stacked):
            return cls(np.empty(0, np.int64), [])
        key = np.zeros(len(stacked), np.int64)
        for column in columns:
            codes, uniques = pd.factorize(column)
            key = pd.factorize(key * len(uniques) + codes)[0].astype(np.int64)
        first = np.unique(key, return_index=True)[1]
        return cls(key, [text(*row) for row in stacked[first].tolist()])

    def filled(self, other: Texts) -> Texts:
        """These texts, with missing ones replaced by those of `other`."""
        codes = np.where(self.codes >= 0, self.codes, np.where(other.codes >= 0, other.codes + len(self.values), -1))
        return Texts(codes, [*self.values, *other.values])

    def mapped(self, change: Any) -> Texts:
        """Return the result of `change` for each distinct text; None for missing."""
        new = [change(value) for value in self.values]
        place = np.array([*(-1 if text is None else i for i, text in enumerate(new)), -1], np.int64)
        return Texts(place[self.codes], [text or "" for text in new])

    def take(self, rows: NDArray[Any]) -> Texts:
        """Return the texts of some rows, by number or mask."""
        return Texts(self.codes[rows], self.values)


def _found(number: int, strings: Mapping[int, str], otherwise: str | None) -> str | None:
    text = strings.get(number)
    if text is None and otherwise is not None:
        return otherwise.format("NULL" if number == MISSING else number)
    return text


@dataclass
class Activities:
    """Collects rows of events, a table at a time.

    Attributes:
        num_rows: Rows so far.
    """

    problems: Problems
    num_rows: int = 0
    _parts: list[dict[str, Ints]] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)
    _codes: dict[str, Codes] = field(default_factory=dict)

    def add(
        self,
        where: str,
        *,
        start: Ints,
        end: Ints | None,
        cat: str | Texts,
        name: Texts,
        ints: Mapping[str, Ints] | None = None,
        texts: Mapping[str, Texts] | None = None,
        is_async: Mask | None = None,
        is_instant: Mask | None = None,
    ) -> None:
        """Append a row per value of `start`; rows without a usable start are counted and left out.

        Args:
            where: The table, for counted problems.
            start: Start times, ns, `MISSING` where unknown.
            end: End times, ns, `MISSING` where unknown; None for instants.
            cat: Category, of all or of each row.
            name: Name of each row.
            ints: Integer columns of the catalog, `MISSING` where unknown.
            texts: Text columns of the catalog.
            is_async: Rows that are not in a call tree.
            is_instant: Rows that are points in time.
        """
        n = len(start)
        end = start if end is None else end
        columns = {"ts": start, "dur": self._durations(start, end, where), **(ints or {})}
        columns["is_async"] = _flags(is_async, n)
        columns["is_instant"] = _flags(is_instant, n)
        cats = Texts.same(cat, n) if isinstance(cat, str) else cat
        for column, values in {"cat": cats, "name": name, **(texts or {})}.items():
            columns[column] = self._shared(column, values)
        self._append({column: self._fitting(column, values, where) for column, values in columns.items()}, where)

    def _append(self, columns: dict[str, Ints], where: str) -> None:
        usable = is_time(columns["ts"])
        if not usable.all():
            first = f"{where}, row {int(np.argmin(usable)) + 1}"
            self.problems.add("event without a usable start", first, int((~usable).sum()))
            columns = {name: values[usable] for name, values in columns.items()}
        if len(columns["ts"]):
            self._parts.append(columns)
            self._counts.append(len(columns["ts"]))
            self.num_rows += len(columns["ts"])

    def _durations(self, start: Ints, end: Ints, where: str) -> Ints:
        has_start, has_end = is_time(start), is_time(end)
        dur = np.where(has_start & has_end, end - start, 0)
        if unknown := int((has_start & ~has_end).sum()):
            self.problems.add("event without a usable end, taken as length 0", where, unknown)
        if negative := int((dur < 0).sum()):
            first = f"{where}, row {int(np.argmax(dur < 0)) + 1}"
            self.problems.add("negative dur", first, negative)
            dur = np.maximum(dur, 0)
        return dur

    def _fitting(self, column: str, values: Ints, where: str) -> Ints:
        """`values`, with `MISSING` for those that do not fit into the type of the column."""
        if column not in _INT32:
            return values
        too_large = (np.abs(values) > _MAX_INT32) & (values != MISSING)
        if too_large.any():
            self.problems.add(f"'{column}' beyond 32 bits", where, int(too_large.sum()))
            values = np.where(too_large, MISSING, values)
        return values

    def _shared(self, column: str, texts: Texts) -> Ints:
        codes = self._codes.setdefault(column, Codes())
        is_used = np.zeros(len(texts.values) + 1, bool)
        is_used[texts.codes] = True  # code -1, missing, is the position after the last text
        table = np.full(len(texts.values) + 1, -1, np.int64)
        for i in np.flatnonzero(is_used[:-1]).tolist():
            table[i] = codes[texts.values[i]]
        return table[texts.codes]

    def to_columns(self) -> tuple[dict[str, Any], Mask]:
        """Return the columns by their names in the catalog, and the rows that are not in a call tree."""
        names = dict.fromkeys(name for part in self._parts for name in part)
        whole = {name: self._whole(name) for name in [*names, *(() if names else ("ts", "dur", "cat", "name"))]}
        is_async = whole.pop("is_async", np.zeros(self.num_rows, np.int64)).astype(bool)
        columns: dict[str, Any] = {}
        for name, values in whole.items():
            if name in ("ts", "dur"):
                columns[name] = values
            elif name == "is_instant":
                columns[name] = values.astype(bool)
            elif name in self._codes or name in ("cat", "name"):
                columns[name] = categorical(values.astype(np.int32), list(self._codes.get(name, ())))
            else:
                missing = values == MISSING
                dtype = np.int32 if name in _INT32 else np.int64
                columns[name] = nullable(np.where(missing, 0, values).astype(dtype), missing)
        return columns, is_async

    def to_events(self, base_ns: int = 0) -> pd.DataFrame:
        """Return the frame of events, with `base_ns` added to all times; the rows are given up."""
        columns, is_async = self.to_columns()
        self._parts.clear()
        columns["ts"] = columns["ts"] + base_ns
        return build_events(columns, async_mask=is_async if is_async.any() else None)

    def last_start(self) -> int:
        """Return the latest start, ns; 0 without rows."""
        return max((int(part["ts"].max()) for part in self._parts), default=0)

    def _whole(self, name: str) -> Ints:
        """One column over all parts; missing in parts without it."""
        fill = -1 if name in self._codes else MISSING
        parts = [
            part[name] if name in part else np.full(count, fill)
            for part, count in zip(self._parts, self._counts, strict=True)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


def is_time(values: Ints) -> Mask:
    """Return whether each of `values` can be a time: it is known, and arithmetic with it does not overflow."""
    return (values > -MAX_NS) & (values < MAX_NS)


def positive(ids: Ints) -> Ints:
    """`ids`, with `MISSING` for values that are not positive."""
    return np.where(ids > 0, ids, MISSING)


def _flags(mask: Mask | None, n: int) -> Ints:
    return np.zeros(n, np.int64) if mask is None else mask.astype(np.int64)


def refuse_repeats(path: Path, table: str, column: str, ids: Ints, within: Sequence[Ints] = ()) -> None:
    """Raise if an id occurs twice; 0 and missing ids are ignored.

    torch's reader of nvprof files also refuses them (``EnforceUnique``).

    Args:
        path: The file.
        table: The table of the ids.
        column: Description of the ids.
        ids: Shape (n,).
        within: Columns within whose equal values an id is unique (a process, say), each of shape (n,).

    Raises:
        TraceFormatError: An id occurs twice.
    """
    known = (ids != MISSING) & (ids != 0)
    keys = np.stack([ids[known], *(column_[known] for column_ in within)], axis=1)
    if len(keys) < 2:
        return
    order = np.lexsort(keys.T)
    same = (keys[order[1:]] == keys[order[:-1]]).all(axis=1)
    if same.any():
        again = order[1:][same]
        row = int(np.flatnonzero(known)[again.min()])
        raise TraceFormatError(
            path,
            position=f"table '{table}', row {row + 1}",
            found=f"{column} {int(ids[row])} a second time ({int(same.sum())} such rows)",
            expected=f"each {column} once: it says which rows belong together",
            hint="The file is damaged, or was put together from several recordings; export each on its own.",
        )


# Names that readers share: of CUDA API calls and copies by CUPTI's numbers, of HIP calls, and demangled kernels.

#: Kinds of copies, by the numbers of cupti_activity.h (https://docs.nvidia.com/cupti/); those of unified memory are
#: nsys's own.
COPY_KINDS: Final = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD (Unified)",
    12: "DtoH (Unified)",
    13: "DtoD (Unified)",
}

#: Kinds of copies of unified memory, and the cause of those that the program asked for (cudaMemPrefetchAsync).
_MIGRATIONS: Final = (11, 12, 13)
_PREFETCHED: Final = 1

#: Columns of a kernel: its grid and blocks, and what it was launched with.
SHAPE: Final = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
LAUNCH: Final = ("registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
MEMORY_KINDS: Final = {
    1: "Pageable",
    2: "Pinned",
    3: "Device",
    4: "Array",
    5: "Managed",
    6: "Device Static",
    7: "Managed Static",
}
SYNC_KINDS: Final = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
#: CUPTI's number for no stream, no context and no event; nvprof writes it as -1.
NO_ID: Final = 0xFFFFFFFF

_VERSION: Final = re.compile(r"_v\d{4,}\Z")
_DRIVER: Final = re.compile(r"cu[A-Z0-9]")


@cache
def _names() -> dict[str, list[str]]:
    text = files("cudalens.traces.sqlite").joinpath("cupti_names.json").read_text("utf-8")
    return json.loads(text)


def call_name(kind: str, number: int) -> str:
    """Name of the API call with CUPTI's callback id `number`; `kind` is ``runtime`` or ``driver``."""
    names = _names()[kind]
    name = names[number] if 0 <= number < len(names) else ""
    return name or f"{kind} call {'without an id' if number == MISSING else number}"


def plain_call(name: str) -> str:
    """Return an API call's name without the CUDA version that nsys and CUPTI append (``cudaMalloc_v3020``)."""
    return _VERSION.sub("", name)


def is_driver_call(name: str) -> bool:
    """Return whether a name is from the driver API: ``cuLaunchKernel`` is, ``cudaLaunchKernel`` is not."""
    return _DRIVER.match(name) is not None


def copy_names(kind: Ints, source: Ints, target: Ints, cause: Ints, memory_kinds: dict[int, str]) -> Texts:
    """Names of copies, as Kineto writes them: ``Memcpy HtoD (Pageable -> Device)``; and whether pages were prefetched.

    Args:
        kind: Kind of each copy.
        source: Kind of the memory that it reads.
        target: Kind of the memory that it writes.
        cause: Why a page of unified memory moves; `MISSING` where that is not recorded.
        memory_kinds: Names of kinds of memory.
    """

    def name(kind: int, source: int, target: int, cause: int) -> str:
        ends = (memory_kinds.get(end, "Unknown") for end in (source, target))
        prefetched = ", prefetched" if cause == _PREFETCHED and kind in _MIGRATIONS else ""
        return f"Memcpy {COPY_KINDS.get(kind, 'of unknown kind')} ({' -> '.join(ends)}){prefetched}"

    return Texts.joined([kind, source, target, cause], name)


def memset_names(kind: Ints, memory_kinds: dict[int, str]) -> Texts:
    """Names of memsets, as Kineto writes them: ``Memset (Device)``."""
    return Texts.joined([kind], lambda kind: f"Memset ({memory_kinds.get(kind, 'Unknown')})")


def triple(x: Ints, y: Ints, z: Ints) -> Texts:
    """Return a grid or block size as JSON text, ``[x,y,z]``; missing if one of the numbers is missing."""
    texts = Texts.joined([x, y, z], lambda *xyz: "" if MISSING in xyz else "[{},{},{}]".format(*xyz))
    return texts.mapped(lambda text: text or None)


_COPIES: Final = {
    "HOST_TO_DEVICE": "Memcpy HtoD (Host -> Device)",
    "DEVICE_TO_HOST": "Memcpy DtoH (Device -> Host)",
    "DEVICE_TO_DEVICE": "Memcpy DtoD (Device -> Device)",
    "HOST_TO_HOST": "Memcpy HtoH (Host -> Host)",
    "HOSTTODEVICE": "Memcpy HtoD (Host -> Device)",
    "DEVICETOHOST": "Memcpy DtoH (Device -> Host)",
    "DEVICETODEVICE": "Memcpy DtoD (Device -> Device)",
}


def call_category(kind: str) -> str:
    """Kineto's category of a host range, by the name of its domain (``HIP_RUNTIME_API``)."""
    upper = kind.upper()
    if "HIP" in upper:
        return "hip_runtime"
    if "HSA" in upper:
        return "hip_driver"
    if any(word in upper for word in ("MARKER", "ROCTX", "RANGE")):
        return "user_annotation"
    return kind.lower().removesuffix("_api") or "unknown"


def copy_name(text: str) -> str:
    """Kineto's name of a copy, for ``MEMORY_COPY_HOST_TO_DEVICE`` and ``CopyHostToDevice``; else `text`."""
    upper = text.upper()
    return next((name for word, name in _COPIES.items() if upper.endswith(word)), text)


_MAX_MANGLED: Final = 1 << 14
_TIMEOUT_S: Final = 20

#: Reads a name a line, writes a demangled name a line, in the same order; an empty line if it cannot be demangled.
_CHILD: Final = """
import ctypes, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
library, libc = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None)
demangle, free = library.__cxa_demangle, libc.free
demangle.restype, free.argtypes, free.restype = ctypes.c_void_p, (ctypes.c_void_p,), None
demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
room = 1 << 26
for name in sys.stdin.buffer:
    pointer = demangle(name.rstrip(b"\\n"), None, None, None)
    text = ctypes.string_at(pointer) if pointer else b""
    free(pointer)
    text = text if len(text) <= min(1 << 16, room) and b"\\n" not in text else b""
    room -= len(text)
    sys.stdout.buffer.write(text + b"\\n")
    sys.stdout.buffer.flush()
"""


def demangler(names: Iterable[str]) -> Callable[[str], str]:
    """Return a function from a name to its demangled form, for any of `names`; other names stay as they are.

    The library's ``__cxa_demangle`` has no limits: a crafted name makes it use all memory. The child process that calls
    it has limits of memory, time and output. A name that it does not demangle stays as it is, as do all names on a
    system without ``libstdc++`` or without limits of memory (only Linux has both).
    """
    mangled = [
        name
        for name in dict.fromkeys(names)
        if name.startswith("_Z") and len(name) <= _MAX_MANGLED and name.isascii() and name.isprintable()
    ]
    plain = {name: text for name, text in zip(mangled, _run(mangled), strict=False) if text} if mangled else {}
    return lambda name: plain.get(name, name)


def _run(names: list[str]) -> list[str]:
    """Return a line for each name; fewer if the child process ended early."""
    try:
        child = subprocess.run(  # noqa: S603  a fixed program; the names are its input
            [sys.executable, "-I", "-S", "-c", _CHILD],
            input="\n".join(names).encode(),
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    *lines, _ = child.stdout.decode("utf-8", "replace").split("\n")
    return lines
