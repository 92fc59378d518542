"""Read a plain or gzip file in pieces; damaged gzip data is read up to the damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO, Final

from cudalens.frames.limits import Limit


def _imported() -> Any:
    """Return the optional package zlib-ng, which decompresses in less than half the time, else Python's zlib."""
    try:
        return import_module("zlib_ng.zlib_ng")
    except ImportError:
        return import_module("zlib")


zlib = _imported()
#: Whether zlib-ng is in use.
IS_ZLIB_NG: Final = zlib.__name__ != "zlib"
GZIP_MAGIC: Final = b"\x1f\x8b"
PIECE: Final = 1 << 19
_SLICE: Final = 1 << 16
_GZIP: Final = 31  # zlib's window bits for a gzip header and trailer


class Source:
    """Reads a file from its start in pieces, and decompresses gzip.

    Attributes:
        piece: Number of bytes of a piece, about; it may be changed.
        damage: What is wrong with the compressed data, in words; None while no damage was found.
        num_bytes: Bytes of (decompressed) data returned so far.
    """

    def __init__(self, file: BinaryIO, limit: Limit, on_progress: Callable[[int], object] | None = None) -> None:
        self._file, self._limit = file, limit
        self._num_packed = 0
        self._progress = on_progress or (lambda _: None)
        self.piece = PIECE
        self.damage: str | None = None
        self.num_bytes = 0
        self.is_gzip = file.read(2) == GZIP_MAGIC
        file.seek(0)
        self._inflater = _Inflater(self._compressed) if self.is_gzip else None

    def read(self) -> bytes:
        """Return the next piece; empty at the end of what can be read.

        Raises:
            TraceFormatError: The text so far is longer than the limit.
        """
        if self._inflater is None:
            piece = self._compressed(self.piece)
        else:
            piece = self._inflater.read(self.piece)
            self.damage = self._inflater.damage
        self.num_bytes += len(piece)
        packed = self._num_packed if self.is_gzip else None
        self._limit.check(self.num_bytes, packed, what="the text of the trace", position=f"byte {self._num_packed}")
        return piece

    def check_size(self) -> None:
        """Refuse a plain file that is longer than the limit."""
        if not self.is_gzip:
            self._limit.check(os.fstat(self._file.fileno()).st_size, what="the file")

    def _compressed(self, size: int) -> bytes:
        data = self._file.read(size)
        self._num_packed += len(data)
        self._progress(len(data))
        return data


def read_all(source: Source) -> bytes:
    """Return all that can be read of `source`; for damage, `Source.damage` says what.

    Raises:
        TraceFormatError: It is longer than the limit; for a plain file, nothing is read then.
    """
    source.check_size()
    pieces = []
    while piece := source.read():
        pieces.append(piece)
    return b"".join(pieces)


class _Inflater:
    """Decompresses gzip members one after the other. On damage it returns the data before it, then nothing."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._zlib = zlib.decompressobj(_GZIP)
        self._pending = b""
        self._num_members = 0
        self._done = False
        self.damage: str | None = None

    def read(self, piece: int) -> bytes:
        """About `piece` bytes; empty at the end of what can be read."""
        out: list[bytes] = []
        size = 0
        while size < piece and not self._done:
            out.append(self._step())
            size += len(out[-1])
        return b"".join(out)

    def _step(self) -> bytes:
        data = self._pending or self._read(_SLICE)
        if self._zlib.eof:
            return self._next_member(data)
        if not data:
            self._stop("the gzip data stop before their end")
            return b""
        safe = self._zlib.copy()
        try:
            inflated: bytes = self._zlib.decompress(data, PIECE)
        except zlib.error as error:
            self._stop(f"the gzip data are damaged ({error})")
            # The output of `inflater` for `data` up to the damage.
            out: list[bytes] = []
            try:
                for i in range(len(data)):  # byte by byte: a call that fails loses its output
                    out.append(safe.decompress(data[i : i + 1]))  # noqa: PERF401 - keep what came before the error
            except zlib.error:
                pass
            return b"".join(out)
        self._pending = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
        self._num_members += self._zlib.eof
        return inflated

    def _next_member(self, data: bytes) -> bytes:
        data = data.lstrip(b"\0")  # tapes and some writers pad with zeros
        if data.startswith(GZIP_MAGIC[: len(data)]) and data:
            self._zlib, self._pending = zlib.decompressobj(_GZIP), data
        elif data:
            self._stop("data that is not gzip follows the gzip data")
        else:
            self._pending = b""
            self._done = not (data := self._read(_SLICE))
            self._pending = data
        return b""

    def _stop(self, damage: str) -> None:
        self.damage, self._done = damage, True
