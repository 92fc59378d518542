"""Scan the instructions of a memory snapshot's pickle before unpickling, and refuse unsafe ones.

A pickle is a program. A snapshot needs the instructions that make dicts, lists, text, numbers and pairs of numbers.
This scan admits no others, so that no class is looked up, nothing is called, and no object of another type is made. It
also checks the admitted instructions, so that a short file cannot exhaust memory, hang or crash the reader:

- lengths must not exceed the file; memo indices must be consecutive, as picklers write them;
- integers have at most nine bytes, so that they are read in constant time;
- tuples are pairs of numbers below 2**31. Python hashes a tuple that is a dict key recursively, without a limit and
  again for each reference: nested tuples would crash it or take forever, and larger numbers can be chosen so that all
  have the same hash;
- the number of empty dicts and lists, which need more memory than file size, is limited in proportion to the file.

The reader limits the size and depth of shared references: see `cudalens.frames.snapshots.build`.

The scan runs at the speed of `re`: one pattern matches runs of short instructions, and only instructions with a length
in the file are checked one by one.
"""

from __future__ import annotations

import os
import pickle
import re
from typing import Final, NoReturn

from cudalens.errors import TraceFormatError, UnsafeSnapshotError

#: Larger files are refused.
MAX_BYTES: Final = 4 << 30
_MAX_INTEGER_BYTES: Final = 9  # an address in the upper half of 64 bits, and its sign
_MAX_CUT_BYTES: Final = 64 << 20  # a length that exceeds a file that was cut off by more than this is an attack
_NUM_FREE_CONTAINERS: Final = 1 << 16
_BYTES_PER_CONTAINER: Final = 6

_LONG1: Final = b"|".join(re.escape(bytes([n])) + b".{%d}" % n for n in (6, 7, 8, 5, 4, 3, 2, 1, 0, 9))
_INT: Final = rb"(?:K.|M..|J.{4})"  # BININT1 BININT2 BININT
_SHORT: Final = b"|".join(re.escape(bytes([n])) + b".{%d}" % n for n in (3, 0, 1, 2, 4, 5, 6, 7, 8))
_INSTRUCTIONS: Final = (
    rb"(?:j.{4})++"  # LONG_BINGET: a reference into the memo
    rb"|(?:h.)++"  # BINGET
    rb"|[\x94(}u\]aesN\x88\x89]++"  # MEMOIZE MARK EMPTY_DICT SETITEMS EMPTY_LIST APPEND APPENDS SETITEM NONE ...
    rb"|" + _INT + rb"(?:" + _INT + rb"\x86)?+"  # a number, or TUPLE2 of two
    rb"|\x8a(?:" + _LONG1 + rb")"  # LONG1
    rb"|q."  # BINPUT: a memo index below 256
    rb"|G.{8}"  # BINFLOAT
)
#: Matches instructions up to one that must be checked. Short texts (SHORT_BINUNICODE) are matched, too.
_RUN: Final = re.compile(rb"(?:" + _INSTRUCTIONS + rb"|\x8c(?:" + _SHORT + rb"))*+", re.DOTALL)
#: The same, but stops at every text, since the texts before a refused instruction name what it would load.
_RUN_TO_TEXT: Final = re.compile(rb"(?:" + _INSTRUCTIONS + rb")*+", re.DOTALL)
_NAMES: Final = {
    value[0]: name
    for name, value in vars(pickle).items()
    if name.isupper() and isinstance(value, bytes) and len(value) == 1
}
_PROTO, _FRAME, _STOP = pickle.PROTO[0], pickle.FRAME[0], pickle.STOP[0]
_SHORT_TEXT, _TEXT, _LONG_PUT = pickle.SHORT_BINUNICODE[0], pickle.BINUNICODE[0], pickle.LONG_BINPUT[0]
#: Instructions with a length, and the size of the length field in bytes.
_LENGTHS: Final = {_SHORT_TEXT: 1, _TEXT: 4, _FRAME: 8}

_PROTOCOLS: Final = range(2, 6)
_GLOBALS: Final = frozenset({"GLOBAL", "STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"})
_CALLS: Final = frozenset({"REDUCE", "BUILD", "NEWOBJ", "NEWOBJ_EX", "OBJ", "PERSID", "BINPERSID"})
_TUPLES: Final = frozenset({"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"})
_ADVICE: Final = (
    "Do not open this file with pickle.load or torch.load either, unless you trust who made it: they would run what it "
    "says. torch.cuda.memory._dump_snapshot(path) writes a snapshot that cudalens reads."
)
_EXPECTED: Final = "a memory snapshot: dicts, lists, text and numbers alone"


def scan(path: str | os.PathLike[str], data: bytes) -> int:
    """Check that the pickle in `data` only has contents that a snapshot may have; returns its end.

    Args:
        path: The file, for messages.
        data: The contents of the file.

    Raises:
        UnsafeSnapshotError: An instruction is not admitted, or a limit is exceeded.
        TraceFormatError: The file is cut off, or is not a pickle.
    """
    check_size(path, len(data))
    num_containers = data.count(b"}") + data.count(b"]")
    if num_containers > _NUM_FREE_CONTAINERS + len(data) // _BYTES_PER_CONTAINER:
        _refuse_limit(path, f"up to {num_containers:,} empty dicts and lists", "them in proportion to the file")
    return _Scan(path, data).run()


def check_size(path: str | os.PathLike[str], num_bytes: int) -> None:
    """Check that a file of that size may be read.

    Raises:
        UnsafeSnapshotError: It is too large.
    """
    if num_bytes > MAX_BYTES:
        _refuse_limit(path, f"{num_bytes:,} bytes", f"at most {MAX_BYTES:,}")


class _Scan:
    def __init__(self, path: str | os.PathLike[str], data: bytes, pattern: re.Pattern[bytes] = _RUN) -> None:
        self._path, self._data, self._pattern = path, data, pattern
        self._last_put = 255
        self._texts: tuple[bytes, bytes] = (b"", b"")

    def run(self) -> int:
        at = self._header()
        data, match, size = self._data, self._pattern.match, len(self._data)
        while True:
            at = match(data, at).end()  # type: ignore[union-attr]  # it matches nothing at all, too
            if at >= size:
                raise _cut_off(self._path, at)
            opcode = data[at]
            if opcode in _LENGTHS:
                at = self._skip(at, opcode)
            elif opcode == _LONG_PUT:
                at = self._put(at)
            elif opcode == _STOP:
                return at + 1
            else:
                self._refuse(at)

    def _header(self) -> int:
        head = self._data[:2]
        if len(head) < 2 or head[0] != _PROTO:
            raise TraceFormatError(
                self._path, position="byte 0", found="no pickle of protocol 2 to 5", expected=_EXPECTED
            )
        if head[1] not in _PROTOCOLS:
            found = f"a pickle of protocol {head[1]}"
            raise TraceFormatError(self._path, position="byte 1", found=found, expected="protocol 2 to 5")
        return 2

    def _skip(self, at: int, opcode: int) -> int:
        """Return the position after the text, or after the header of the frame, that begins at `at`."""
        begin = at + 1 + _LENGTHS[opcode]
        length = int.from_bytes(self._data[at + 1 : begin], "little")
        if begin + length > len(self._data):
            left = max(len(self._data) - begin, 0)
            if length - left <= _MAX_CUT_BYTES:
                raise _cut_off(self._path, len(self._data))
            raise UnsafeSnapshotError(
                self._path,
                opcode=_NAMES[opcode],
                byte=at,
                found=f"{_NAMES[opcode]} of {length:,} bytes where {left:,} are left",
                expected="lengths within the file",
                hint="It is not a snapshot, or it was made to exhaust the reader's memory.",
            )
        if opcode == _FRAME:
            return begin
        self._texts = self._texts[1], self._data[begin : begin + min(length, 80)]
        return begin + length

    def _put(self, at: int) -> int:
        """The position after a LONG_BINPUT. Its memo index must be at most the next one, since the memo grows to it."""
        index = int.from_bytes(self._data[at + 1 : at + 5], "little")
        if index > self._last_put + 1:
            raise UnsafeSnapshotError(
                self._path,
                opcode="LONG_BINPUT",
                byte=at,
                found=f"LONG_BINPUT to place {index:,} of the memo, {index - self._last_put - 1:,} beyond the next",
                expected="places that follow each other",
                hint="It is made to exhaust the memory of what reads it.",
            )
        self._last_put = max(index, self._last_put)
        return at + 5

    def _refuse(self, at: int) -> NoReturn:
        if self._pattern is _RUN:
            _Scan(self._path, self._data, _RUN_TO_TEXT).run()  # reaches this line again, with the texts
        opcode = self._data[at]
        name = _NAMES.get(opcode)
        if name is None:
            found = f"byte 0x{opcode:02x} where an instruction should be"
            raise TraceFormatError(self._path, position=f"byte {at}", found=found, expected=_EXPECTED)
        raise UnsafeSnapshotError(
            self._path, opcode=name, byte=at, found=self._words(name, at), expected=_EXPECTED, hint=_ADVICE
        )

    def _words(self, name: str, at: int) -> str:
        """Return a description of the refused instruction."""
        if name == "LONG1" and at + 1 < len(self._data):
            return f"LONG1, an integer of {self._data[at + 1]} bytes (at most {_MAX_INTEGER_BYTES} are admitted)"
        if name in _GLOBALS:
            return f"{name}, which asks for {self._target(name, at)}"
        if name in _CALLS:
            return f"{name}, which runs or rebuilds an object that the file names"
        if name in _TUPLES:
            return f"{name}, a tuple of something else than two numbers"
        return f"{name}, which no memory snapshot holds"

    def _target(self, name: str, at: int) -> str:
        if name == "STACK_GLOBAL":
            parts = list(self._texts)
        elif name.startswith("EXT"):
            return "a class by its number in copyreg"
        else:
            parts = self._data[at + 1 : at + 161].split(b"\n")[:2]
        return ".".join(ascii(part.decode("utf-8", "replace"))[1:-1] for part in parts) or "a class or function"


def _cut_off(path: str | os.PathLike[str], at: int) -> TraceFormatError:
    return TraceFormatError(path, position=f"byte {at}", found="the end of the file", expected="the rest of the pickle")


def _refuse_limit(path: str | os.PathLike[str], found: str, expected: str) -> NoReturn:
    hint = "It is not a snapshot, or it was made to exhaust the reader's memory."
    raise UnsafeSnapshotError(path, found=found, expected=expected, hint=hint)
