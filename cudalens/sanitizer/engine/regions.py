"""Which bytes an access touches: a start address, sizes and strides, decided exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Region:
    """A set of bytes: `run` bytes at ``start + i0*strides[0] + i1*strides[1] …`` for every index below `shape`.

    Attributes:
        start: First byte's address, in an address space that only the sanitizer knows.
        run: Contiguous bytes at each place, at least 1.
        shape: Number of places along each dimension, each at least 1; empty for one place.
        strides: Bytes from one place to the next along each dimension, not negative.
    """

    start: int
    run: int
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    @cached_property
    def end(self) -> int:
        """One past the last byte touched."""
        return self.start + self.run + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether every byte from `start` to `end` is touched; False also where that is not plain to see."""
        filled = self.run
        for stride, count in sorted(zip(self.strides, self.shape, strict=True)):
            if count > 1 and stride > filled:
                return False
            filled += (count - 1) * stride
        return True

    @cached_property
    def _places(self) -> np.ndarray:
        """An array at these addresses that is never read: numpy's overlap solver needs only its layout."""
        layout = {
            "data": (self.start + 1, True),  # numpy takes address 0 for "no data"
            "shape": (*self.shape, self.run),
            "strides": (*self.strides, 1),
            "typestr": "|u1",
            "version": 3,
        }
        return np.asarray(type("Places", (), {"__array_interface__": layout})())

    def overlaps(self, other: Region) -> bool:
        """Whether any byte is touched by both, exactly (a bounded Diophantine problem where both are strided)."""
        if self.end <= other.start or other.end <= self.start:
            return False
        if self.is_contiguous and other.is_contiguous:
            return True
        return bool(np.shares_memory(self._places, other._places))

    def covers(self, other: Region) -> bool:
        """Whether every byte of `other` is touched; False also where that is not plain to see."""
        if self == other:
            return True
        return self.is_contiguous and self.start <= other.start and other.end <= self.end
