"""Waits inside of a recording: the host reads a value of the device between two graphs, and goes on as recorded.

A function that reads a value of the device (``if x.sum() > 0``) is recorded as several graphs, split at the reads. A
replay launches the first graph, reads the value as eager execution does, and launches the next graph only if the value
is that of the recording: the Python code would then do the same again. Another value belongs to another recording.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch

from cudalens.device.stacks import Place

#: A value that the host has read, in a form that is equal only for the same bits: NaN equals itself, 0.0 is not -0.0.
ReadValue: TypeAlias = tuple[str, Any]

#: Reads of a variant that gave a value without a recording, after which it runs without graphs if most of them did.
MOST_MISSES: Final = 8


def read_value(value: Any) -> ReadValue:
    """Return what an operator gave the host, in a form that can be compared."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().contiguous()
        return f"{plain.dtype} {list(plain.shape)}", plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, complex):
        return "complex", struct.pack("<dd", value.real, value.imag)
    return type(value).__name__, value


def show_value(value: Any) -> str:
    """Return the same for people."""
    if isinstance(value, torch.Tensor) and value.numel() > 1:
        return f"other values of {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return str(value.item()) if isinstance(value, torch.Tensor) and value.numel() else str(value)


@dataclass(slots=True)
class Wait:
    """A place of a recording where the host reads a value of the device.

    Attributes:
        graph: What the device runs before it.
        read: Reads the value that the device has now.
        value: What it was in the recording.
        shown: The same for people.
        place: The line that reads it.
        change: The change of the program that leaves the read out, as lines of a diff; "" if none is known.
    """

    graph: torch.cuda.CUDAGraph
    read: Callable[[], Any]
    value: ReadValue
    shown: str
    place: Place
    change: str


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


def begins_with(waits: Sequence[Wait], values: Sequence[ReadValue]) -> bool:
    """Return whether a recording with these waits has these values at its first ones."""
    return len(waits) >= len(values) and all(wait.value == value for wait, value in zip(waits, values, strict=False))
