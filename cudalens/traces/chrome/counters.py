"""Read counters (phase C) into the frame ``counters``, and the allocator's instants into the frame ``memory``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import categorical, nullable
from cudalens.frames.build import CounterValues
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import SYNTAX_ERRORS, decoder, text_of
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.columns import Codes
from cudalens.traces.chrome.lanes import number
from cudalens.traces.chrome.records import Record
from cudalens.traces.chrome.scanned import ScannedAllocations
from cudalens.traces.chrome.values import COUNTED, MARK, MISSING, MemoryArgs, decode_args

#: The name of the only value of a counter, as our writer and most others spell it.
_PLAIN: Final = "value"
_MAX_SERIES: Final = 1000
#: All of CUPTI's metrics have this in their names, and no other argument has.
_METRIC: Final = "__"


class Counters:
    """Collects the values of counters."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._values = CounterValues()
        self._text = lru_cache(1 << 12)(text_of)  # most counters repeat a few names

    def __len__(self) -> int:
        return len(self._values)

    def add(self, found: Sequence[tuple[Record, int]], where: str) -> None:
        """Keep the values of records of phase C, given with their times, ns."""
        kept = [(record, ts) for record, ts in found if record.cat != MARK]  # those repeat our other frames
        for (record, ts), args in zip(kept, self._decoded([record.args for record, _ in kept]), strict=True):
            if ts == MISSING:
                self._problems.add("counter without a usable ts", where)
            elif not isinstance(args, dict) or not args:
                self._problems.add("counter without a value", where)
            else:
                name = self._text(record.name if record.id is None else f"{record.name} {text_of(record.id)}")
                process = None if record.pid is None else self._text(record.pid)
                if len(args) > _MAX_SERIES:
                    self._problems.add(
                        f"series of a counter beyond the first {_MAX_SERIES}", where, len(args) - _MAX_SERIES
                    )
                for series, value in list(args.items())[:_MAX_SERIES]:
                    label = None if series == _PLAIN and len(args) == 1 else self._text(series)
                    if not self._values.add(ts, name, value, series=label, process=process):
                        self._problems.add("counter with a value that is not a number", where)

    def add_ranges(self, records: Sequence[Record], ts: Ints) -> None:
        """Keep CUPTI's counters among complete events, whose arguments they are; the series is a range or a kernel."""
        for record, at in zip(records, ts.tolist(), strict=True):
            args = _decoded(record.args) if record.cat == COUNTED else None
            for name, value in list(args.items())[:_MAX_SERIES] if isinstance(args, dict) else ():
                if _METRIC in name:
                    device = None if record.pid is None else text_of(record.pid)
                    self._values.add(at, text_of(name), value, series=text_of(record.name), process=device)

    def _decoded(self, raw: list[msgspec.Raw]) -> list[Any]:
        try:
            return decoder(list[Any]).decode(b"[" + b",".join(raw) + b"]")
        except SYNTAX_ERRORS:
            return [_decoded(one) for one in raw]

    def to_frame(self, base: int) -> pd.DataFrame:
        """Return the frame; `base`, in ns, is added to the times."""
        return self._values.to_frame(base)


def _decoded(raw: msgspec.Raw) -> Any:
    try:
        return decoder(Any).decode(raw)
    except SYNTAX_ERRORS:
        return None


_ACTIONS: Final = ("alloc", "free_completed", "oom")
_FACTS: Final = ("ts", "action", "pid", "tid")
_FIELDS: Final = MemoryArgs.__struct_fields__
_TOTALS: Final = ("allocated_bytes", "reserved_bytes")
#: Allocations whose arguments are decoded together.
_PART: Final = 4096
_NAMES: Final = {"[memory]": 0, "[OutOfMemory]": 2}
# c10::DeviceType, in its order.
# fmt: off
DEVICE_TYPES: Final = [
    "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla", "vulkan", "metal", "xpu", "mps",
    "meta", "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone",
]
# fmt: on


class Allocations:
    """Collects the instants that record allocations."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._raw: list[msgspec.Raw] = []
        self._facts: list[tuple[int, int, Any, Any]] = []
        self._keys = Codes()
        self._parts: dict[str, list[NDArray[Any]]] = {name: [] for name in (*_FACTS, *_FIELDS)}
        self._num_rows = 0

    def __len__(self) -> int:
        return self._num_rows + len(self._facts)

    def take(self, record: Record, ts: int, where: str) -> bool:
        """Keep `record` if it records an allocation; returns whether it does."""
        if (action := _NAMES.get(record.name)) is None:
            return False
        self._raw.append(record.args)
        self._facts.append((ts, action, record.pid, record.tid))
        if len(self._raw) >= _PART:
            self._decode()
        return True

    def add_scanned(self, found: ScannedAllocations) -> None:
        """Keep the allocations that the scanner found."""
        if len(found.ts):
            self._decode()
            self._add(found.ts, np.zeros(len(found.ts), np.int32), found.pid, found.tid, found.values)

    def _decode(self) -> None:
        """Decode what `take` kept: its arguments are views into the text of the file, which they keep in memory."""
        if not self._raw:
            return
        decoded, _ = decode_args(self._raw, MemoryArgs, self._problems, "memory events")
        ts, action, pid, tid = zip(*self._facts, strict=True)
        values = {field: self._integers(decoded, field) for field in _FIELDS}
        self._add(np.array(ts, np.int64), np.array(action, np.int32), pid, tid, values)
        self._raw, self._facts = [], []

    def _add(self, ts: Ints, action: Any, pid: Any, tid: Any, values: dict[str, Ints]) -> None:
        pids, tids = (np.fromiter(map(self._keys.__getitem__, keys), np.int32, len(ts)) for keys in (pid, tid))
        for name, part in (values | {"ts": ts, "action": action, "pid": pids, "tid": tids}).items():
            self._parts[name].append(part)
        self._num_rows += len(ts)

    def to_columns(self, base: int) -> dict[str, Any]:
        """Return the raw columns of the memory frame. `base`, in ns, is added to the times."""
        self._decode()
        columns = {
            name: np.concatenate(parts) if parts else np.empty(0, np.int64) for name, parts in self._parts.items()
        }
        known = columns["num_bytes"] != MISSING
        if not known.all():
            self._problems.add("memory event without bytes", "memory events", int((~known).sum()))
            columns = {name: values[known] for name, values in columns.items()}
        signed, action, kind = columns["num_bytes"], columns["action"].astype(np.int32), columns["device_type"]
        is_kind = (kind >= 0) & (kind < len(DEVICE_TYPES))
        device, addr = columns["device"], columns["addr"]
        return {
            "ts": columns["ts"] + base,
            "action": categorical(np.where((action == 0) & (signed < 0), 1, action).astype(np.int32), [*_ACTIONS]),
            "device_type": categorical(np.where(is_kind, kind, -1).astype(np.int32), DEVICE_TYPES),
            "device": nullable(*_some(device, (device >= 0) & (device < 1 << 31), np.int32)),
            "addr": nullable(*_some(addr, addr != MISSING, np.uint64)),
            "num_bytes": np.abs(signed),
            **{name: nullable(*_some(columns[name], columns[name] != MISSING)) for name in _TOTALS},
            **{name: self._numbers(columns[name].astype(np.int64)) for name in ("pid", "tid")},
        }

    def _numbers(self, codes: Ints) -> Any:
        """Processes or threads by their codes, as numbers; missing where one is not a number."""
        values = [number(key) for key in self._keys]
        known = np.array([*(isinstance(value, int) for value in values), False])[codes]
        whole = np.array([*(value if isinstance(value, int) else 0 for value in values), 0], np.int64)[codes]
        return nullable(whole, ~known)

    def _integers(self, decoded: list[Any], field: str) -> Ints:
        """A column as int64. Addresses are unsigned; those in the upper half of the range are stored as negative."""
        with suppress(TypeError, OverflowError):  # null, or beyond 64 bits
            return np.fromiter(map(attrgetter(field), decoded), np.int64, len(decoded))
        found = np.full(len(decoded), MISSING)
        for i, one in enumerate(decoded):
            value = getattr(one, field)
            if value is None:
                continue
            if field == "addr" and 1 << 63 < value < 1 << 64:
                value -= 1 << 64
            if -(1 << 63) <= value < 1 << 63:
                found[i] = value
            else:
                self._problems.add(f"'{field}' beyond 64 bits", "memory events")
        return found


def _some(values: Ints, known: Any, dtype: Any = np.int64) -> tuple[Any, Any]:
    return np.where(known, values, 0).astype(dtype), ~known
