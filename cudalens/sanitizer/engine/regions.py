"""The bytes of an access: a start address, sizes and strides; overlap is decided exactly."""

from __future__ import annotations

from functools import cached_property

import numpy as np


class Region:
    """A set of bytes: `run` bytes at ``start + i0*strides[0] + i1*strides[1] …`` for every index below `shape`.

    Attributes:
        start: First byte's address, in an address space of the sanitizer.
        run: Contiguous bytes at each place, at least 1.
        shape: Number of places along each dimension, each at least 1; empty for one place.
        strides: Bytes from one place to the next along each dimension, not negative.
        end: One past the last byte touched.
    """

    def __init__(self, start: int, run: int, shape: tuple[int, ...] = (), strides: tuple[int, ...] = ()) -> None:
        # A frozen dataclass is several times slower, and many are created while blocks are split and merged.
        self.start, self.run, self.shape, self.strides = start, run, shape, strides
        self.end = start + run
        if shape:
            self.end += sum((n - 1) * s for n, s in zip(shape, strides, strict=True))

    def __repr__(self) -> str:
        return f"Region(start={self.start}, run={self.run}, shape={self.shape}, strides={self.strides})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        return (
            self.start == other.start
            and self.run == other.run
            and self.shape == other.shape
            and self.strides == other.strides
        )

    def __hash__(self) -> int:
        return hash((self.start, self.run, self.shape, self.strides))

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether every byte from `start` to `end` is included. May be False for layouts that are not analysed."""
        if not self.shape:
            return True
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
        """Whether the two share a byte, exactly (a bounded Diophantine problem if both are strided)."""
        if self.end <= other.start or other.end <= self.start:
            return False
        if not self.shape and not other.shape:
            return True
        if self.is_contiguous and other.is_contiguous:
            return True
        return bool(np.shares_memory(self._places, other._places))

    def covers(self, other: Region) -> bool:
        """Whether every byte of `other` is included. May be False for layouts that are not analysed."""
        if self.start <= other.start and other.end <= self.end:
            return not self.shape or self == other or self.is_contiguous
        return False
