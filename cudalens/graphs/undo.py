"""Undo of a replay that stops at a value of another recording: set back the memory from outside that it wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

from cudalens.graphs.inputs import copy_all

#: Bytes that replays save, at most. A function that writes more before it reads a value is not split there.
MOST_SAVED_BYTES: Final = 64 << 20


class Undo:
    """The contents of memory from outside that a recording writes before its last read of a value of the device.

    If a replay reads another value than the recording, the function runs again from its start, and must not find what
    the replay wrote.
    """

    def __init__(self) -> None:
        self._memories: list[Callable[[], torch.Tensor]] = []
        self._addresses: set[int] = set()
        self._saved: list[torch.Tensor] = []

    def has(self, address: int) -> bool:
        """Return whether the contents of the storage at an address are saved."""
        return address in self._addresses

    def add(self, address: int, memory: Callable[[], torch.Tensor]) -> None:
        """Save the contents of a storage, here and before each replay.

        Args:
            address: Of the storage.
            memory: Gives a tensor on all of it.
        """
        self._memories.append(memory)
        self._addresses.add(address)
        with torch.no_grad():
            self._saved.append(memory().clone())

    def save(self) -> None:
        """Save the present contents."""
        copy_all(self._saved, [memory() for memory in self._memories])

    def restore(self) -> None:
        """Set the memory back to the saved contents."""
        copy_all([memory() for memory in self._memories], self._saved)


def whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on all elements of the storage of `tensor`."""
    plain = tensor.detach()
    num_elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    return plain.as_strided((num_elements,), (1,), 0)
