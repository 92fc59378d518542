"""The container of the binary payload: named integer columns as deflated byte planes, text lists, one JSON header.

Layout (little-endian):

.. code-block:: text

    4 bytes  magic "CLP1"
    4 bytes  codec of every blob: 0 none, 1 zlib
    4 bytes  length of the header's blob
    header   JSON; ``columns`` names the blobs that follow, in their order
    blobs    one after the other

An integer column of n values is cut into byte planes: all lowest bytes, then all second bytes, and so on, since the
upper bytes of small numbers repeat and compress well. A plane of one repeated byte takes no blob at all.
"""

from __future__ import annotations

import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.views.foreign import without_controls

MAGIC: Final = b"CLP1"

# Level 6 costs 1 to 2 % in size against 9 and takes a third of its time.
_LEVEL: Final = 6


class PayloadWriter:
    """Collects columns and joins them with a header into one payload."""

    def __init__(self, *, compress: bool) -> None:
        self._compress = compress
        self._columns: dict[str, dict[str, Any]] = {}
        self._blobs: dict[str, list[bytes]] = {}
        self._pool = ThreadPoolExecutor(max_workers=2)

    def add_ints(self, name: str, values: NDArray[np.integer]) -> None:
        """Add column `name` of integers, shape (n,); negative ones are zigzag coded."""
        signed = bool(len(values)) and bool(values.min() < 0)
        coded = zigzag(values) if signed else values.astype(np.uint64)
        planes, blobs = [], []
        for plane in byte_planes(coded):
            if bool((plane == plane[0]).all()):
                planes.append(-1 - int(plane[0]))
            else:
                planes.append(0)
                blobs.append(plane)
        self._columns[name] = {"n": len(values), "signed": signed, "planes": planes}
        self._put(name, [plane.tobytes() for plane in blobs])

    def add_texts(self, name: str, texts: list[str]) -> None:
        """Add column `name` of any texts, without control characters; lone surrogates are kept as JSON escapes."""
        self._columns[name] = {"n": len(texts), "text": 0}
        self._put(name, [json.dumps([without_controls(text) for text in texts]).encode("ascii")])

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self._columns)

    def num_bytes(self, *names: str) -> int:
        """Size of the blobs of the columns `names` as they will be written, bytes."""
        return sum(len(blob) for name in names for blob in self._blobs[name])

    def size_of(self, value: Any) -> int:
        """Size of a JSON `value` as part of the header, bytes."""
        return len(self._coded(json.dumps(value).encode("ascii")))

    def drop(self, *names: str) -> None:
        """Remove the columns `names`."""
        for name in names:
            del self._columns[name], self._blobs[name]

    def to_bytes(self, header: dict[str, Any]) -> bytes:
        """Return the payload, with `header` and what the columns need to be read again."""
        for name, column in self._columns.items():
            sizes = iter([len(blob) for blob in self._blobs[name]])
            if "text" in column:
                column["text"] = next(sizes)
            else:
                column["planes"] = [plane if plane < 0 else next(sizes) for plane in column["planes"]]
        text = json.dumps(header | {"columns": self._columns}, allow_nan=False).encode("ascii")
        head = self._coded(text)
        numbers = np.array([int(self._compress), len(head)], "<u4").tobytes()
        return b"".join([MAGIC, numbers, head, *(blob for blobs in self._blobs.values() for blob in blobs)])

    def _coded(self, raw: bytes) -> bytes:
        return zlib.compress(raw, _LEVEL) if self._compress else raw

    def _put(self, name: str, raw: list[bytes]) -> None:
        # zlib releases the interpreter lock, so planes are compressed in parallel.
        self._blobs[name] = list(self._pool.map(self._coded, raw)) if self._compress else raw


def zigzag(values: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Signed to unsigned, small stays small: 0, -1, 1, -2 become 0, 1, 2, 3. Shape (n,)."""
    wide = values.astype(np.int64)
    return ((wide << 1) ^ (wide >> 63)).view(np.uint64)


def byte_planes(values: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Bytes of `values`, shape (n,), lowest first, as an array of shape (planes, n); no plane above the largest."""
    if not len(values):
        return np.empty((0, 0), np.uint8)
    width = max(1, (int(values.max()).bit_length() + 7) // 8)
    return np.ascontiguousarray(values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].T)
