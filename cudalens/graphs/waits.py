"""Waits inside of a recording: the host reads a value of the device between two graphs, and goes on as recorded.

A function that reads a value of the device (``if x.sum() > 0``) is recorded as several graphs, split at the reads. A
replay launches the first graph, reads the value as eager execution does, and launches the next graph only if the value
is that of the recording: the Python code would then do the same again. Another value belongs to another recording.

An operator whose result has a size that depends on values (``x[mask]``) runs between two graphs without a graph. The
host reads the size alone: if it is that of the recording, the result is copied to where the next graph reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, TypeAlias

import torch

from cudalens.device.stacks import Place
from cudalens.graphs.inputs import copy_all
from cudalens.graphs.liveness import storage_id

#: A value that the host has read, in a form that is equal only for the same bits: NaN equals itself, 0.0 is not -0.0.
ReadValue: TypeAlias = tuple[str, Any]

#: Reads of a variant that gave a value without a recording, after which it runs without graphs if most of them did.
MOST_MISSES: Final = 8

#: Replays in which the time of a read is measured.
MOST_TIMED: Final = 20

#: Reads of a recording that its description names.
MOST_SHOWN: Final = 4


def read_value(value: Any) -> ReadValue:
    """Return what an operator gave the host, in a form that can be compared."""
    if isinstance(value, torch.Tensor) and value.is_cuda:
        return str(value.dtype), (tuple(value.shape), value.stride())
    if isinstance(value, torch.Tensor):
        plain = value.detach().contiguous()
        return f"{plain.dtype} {list(plain.shape)}", plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, tuple | list):
        return "several", tuple(map(read_value, value))
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, complex):
        return "complex", struct.pack("<dd", value.real, value.imag)
    return type(value).__name__, value


def show_value(value: Any) -> str:
    """Return the same for people."""
    if isinstance(value, tuple | list):
        return show_value(value[0])
    if isinstance(value, torch.Tensor) and value.is_cuda:
        return f"size {list(value.shape)}"
    if isinstance(value, torch.Tensor) and value.numel() > 1:
        return f"other values of {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return str(value.item()) if isinstance(value, torch.Tensor) and value.numel() else str(value)


@dataclass(slots=True)
class Wait:
    """A place of a recording where the host reads a value of the device.

    Attributes:
        graph: What the device runs before it.
        read: Runs the operator that reads the value that the device has now.
        value: What it was in the recording; of a result on the device, its size.
        results: The results on the device, where the next graph reads them.
        shown: The same for people.
        place: The line that reads it.
        change: The change of the program that leaves the read out, as lines of a diff; "" if none is known.
        num_kernels: Operators of that graph that launch work.
        times_ns: For how long the host waited in the first replays.
    """

    graph: torch.cuda.CUDAGraph
    read: Callable[[], Any]
    value: ReadValue
    results: list[torch.Tensor]
    shown: str
    place: Place
    change: str
    num_kernels: int
    times_ns: list[int] = field(default_factory=list)

    @property
    def wait_ns(self) -> int | None:
        """For how long the host waits in a replay, median; None before the first one."""
        return round(median(self.times_ns)) if self.times_ns else None

    def read_timed(self, now_ns: Callable[[], int]) -> Any:
        """Read the value, and time some of the reads."""
        if len(self.times_ns) >= MOST_TIMED:
            return self.read()
        begin_ns = now_ns()
        found = self.read()
        self.times_ns.append(now_ns() - begin_ns)
        return found

    def keep(self, found: Any) -> None:
        """Copy what the operator gave on the device to where the next graph reads it."""
        if self.results:
            with torch.no_grad():
                copy_all(self.results, new_results(found))


@dataclass(slots=True)
class ReadCounts:
    """How often a replay of a variant read the values of a recording.

    Attributes:
        hits: All values were those of a recording.
        misses: A value was another one than in all recordings.
    """

    hits: int = 0
    misses: int = 0

    @property
    def is_pointless(self) -> bool:
        """Whether most calls read values without a recording."""
        return self.misses >= MOST_MISSES and self.misses > self.hits


def describe_split(waits: Sequence[Wait]) -> str | None:
    """Return where a recording is split and what this costs each replay, in words; None if it is one graph."""
    if not waits:
        return None
    reads = [f"{wait.shown} at {wait.place}" for wait in waits[:MOST_SHOWN]]
    if len(waits) > MOST_SHOWN:
        reads.append(f"{len(waits) - MOST_SHOWN} more")
    times = "once" if len(waits) == 1 else f"{len(waits)} times"
    return f"as {len(waits) + 1} graphs; each replay waits for the device {times}, to read {', '.join(reads)}"


def new_results(found: Any, given: Container[int] = ()) -> list[torch.Tensor]:
    """Return the tensors on the device among the results of an operator, without those that share memory with others.

    Args:
        found: What the operator gave.
        given: The storages of its arguments, which an operator in place gives back.
    """
    tensors = (one for one in torch.utils._pytree.tree_leaves(found) if isinstance(one, torch.Tensor))
    return [tensor for tensor in tensors if tensor.is_cuda and storage_id(tensor) not in given]


def begins_with(waits: Sequence[Wait], values: Sequence[ReadValue]) -> bool:
    """Return whether a recording with these waits has these values at its first ones."""
    return len(waits) >= len(values) and all(wait.value == value for wait, value in zip(waits, values, strict=False))
