"""Convert the allocator's instants (``[memory]``) to columns of the memory frame."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from cudalens.frames import categorical, nullable
from cudalens.frames.problems import Problems
from cudalens.traces.chrome.args import MemoryArgs, decode_args
from cudalens.traces.chrome.columns import Codes
from cudalens.traces.chrome.lanes import number
from cudalens.traces.chrome.records import Record
from cudalens.traces.chrome.values import MISSING, Ints

_ACTIONS: Final = ("alloc", "free_completed", "oom")
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

    def __len__(self) -> int:
        return len(self._facts)

    def take(self, record: Record, ts: int, where: str) -> bool:
        """Keep `record` if it records an allocation; returns whether it does."""
        if (action := _NAMES.get(record.name)) is None:
            return False
        self._raw.append(record.args)
        self._facts.append((ts, action, record.pid, record.tid))
        return True

    def to_columns(self, base: int) -> dict[str, Any]:
        """The raw columns of the memory frame. `base`, in ns, is added to the times."""
        decoded, _ = decode_args(self._raw, MemoryArgs, self._problems, "memory events")
        values = {field: self._integers(decoded, field) for field in MemoryArgs.__struct_fields__}
        usable = (values["num_bytes"] != MISSING).nonzero()[0]
        if len(usable) < len(decoded):
            self._problems.add("memory event without bytes", "memory events", len(decoded) - len(usable))
        facts = [self._facts[i] for i in usable.tolist()]
        columns = {field: column[usable] for field, column in values.items()}
        columns["addr"] = columns["addr"].view(np.int64)
        signed = columns["num_bytes"]
        action = np.array([kind for _, kind, _, _ in facts], np.int32)
        known = (columns["device_type"] >= 0) & (columns["device_type"] < len(DEVICE_TYPES))
        return {
            "ts": np.array([ts + base for ts, *_ in facts], np.int64),
            "action": categorical(np.where((action == 0) & (signed < 0), 1, action).astype(np.int32), [*_ACTIONS]),
            "device_type": categorical(np.where(known, columns["device_type"], -1).astype(np.int32), DEVICE_TYPES),
            "device": nullable(
                *_some(columns["device"], (columns["device"] >= 0) & (columns["device"] < 1 << 31), np.int32)
            ),
            "addr": nullable(*_some(columns["addr"], columns["addr"] != MISSING, np.uint64)),
            "num_bytes": np.abs(signed),
            "allocated_bytes": nullable(*_some(columns["allocated_bytes"], columns["allocated_bytes"] != MISSING)),
            "reserved_bytes": nullable(*_some(columns["reserved_bytes"], columns["reserved_bytes"] != MISSING)),
        } | {key: _keys([fact[i] for fact in facts]) for i, key in ((2, "pid"), (3, "tid"))}

    def _integers(self, decoded: list[Any], field: str) -> Ints:
        """A column as int64. Addresses are unsigned; those in the upper half of the range are stored as negative."""
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


def _keys(keys: list[Any]) -> Any:
    codes = Codes()
    at = np.array([codes[key] for key in keys], np.int64)
    values = [number(key) for key in codes]
    known = np.array([isinstance(value, int) for value in values], bool)[at] if keys else np.zeros(0, bool)
    whole = np.array([value if isinstance(value, int) else 0 for value in values], np.int64)
    return nullable(whole[at] if keys else np.zeros(0, np.int64), ~known)
