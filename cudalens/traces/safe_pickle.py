"""Read pickles of unknown origin without running them: FlightRecorder dumps and memory snapshots.

A pickle is a program, and `pickle.load` runs it. torch writes both kinds of file, and neither needs a class or a call.

- `load_plain` reads a FlightRecorder dump (protocol 2, small) with an interpreter of its own. It has the instructions
  that such a dump needs and refuses all others. Tuples become lists, and a key must be a text or a number, so that
  hashing never recurses. Memory is proportional to the file.
- `load_snapshot` reads a memory snapshot (up to 4 GB). `scan` checks the instructions at the speed of `re`, and then
  Python's unpickler reads the file. A scan is not enough for a dump: it has pairs of texts, which may be references.
  Whether such a reference is a nested tuple is only known by executing the instructions.

A snapshot needs the instructions that make dicts, lists, text, numbers and pairs of numbers. The scan admits no others,
and it also checks the admitted instructions, so that a short file cannot exhaust memory, hang or crash the reader:

- lengths must not exceed the file; memo indices must be consecutive, as picklers write them;
- integers have at most nine bytes, so that they are read in constant time;
- tuples are pairs of numbers below 2**31. Python hashes a tuple that is a dict key recursively, without a limit and
  again for each reference: nested tuples would crash it or take forever, and larger numbers can be chosen so that all
  have the same hash;
- the number of empty dicts and lists, which need more memory than file size, is limited in proportion to the file.

`cudalens.frames.snapshots.build` limits the size and depth of shared references. One pattern of the scan matches runs
of short instructions; only instructions with a length in the file are checked one by one.
"""

from __future__ import annotations

import io
import os
import pickle
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from cudalens.errors import TraceFormatError, UnsafeSnapshotError
from cudalens.frames.snapshots.history import text

#: Larger files are refused.
MAX_BYTES: Final = 4 << 30
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
_SNAPSHOT: Final = "a memory snapshot: dicts, lists, text and numbers alone"


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
                self._path, position="byte 0", found="no pickle of protocol 2 to 5", expected=_SNAPSHOT
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
            raise TraceFormatError(self._path, position=f"byte {at}", found=found, expected=_SNAPSHOT)
        raise UnsafeSnapshotError(
            self._path, opcode=name, byte=at, found=self._words(name, at), expected=_SNAPSHOT, hint=_ADVICE
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


_DUMP: Final = "a FlightRecorder dump: dicts, lists, text and numbers alone"
_MAX_INTEGER_BYTES: Final = 9
_MARK: Final = object()
_NAMES: Final = {
    value[0]: name
    for name, value in vars(pickle).items()
    if name.isupper() and isinstance(value, bytes) and len(value) == 1
}


class _RefusedError(Exception):
    """An instruction is not admitted; the argument describes it."""


def load_plain(path: str, data: bytes) -> Any:
    """Return the object of the pickle in `data`.

    Args:
        path: The file, for messages.
        data: Its contents.

    Raises:
        UnsafeSnapshotError: It has an instruction that no dump needs; nothing of it was run.
        TraceFormatError: It is cut off, or is not a pickle.
    """
    reader = _Reader(data)
    try:
        return reader.run()
    except _RefusedError as error:
        raise UnsafeSnapshotError(path, found=str(error), byte=reader.at, expected=_DUMP) from None
    except (IndexError, KeyError, ValueError, TypeError, struct.error) as error:
        raise TraceFormatError(
            path, position=f"byte {reader.at}", found="a broken or cut-off pickle", expected=_DUMP
        ) from error


class _Reader:
    """Executes the admitted instructions.

    Attributes:
        at: Position of the instruction that is executed.
    """

    def __init__(self, data: bytes) -> None:
        self.at = 0
        self._data = data
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        if self._data[:1] != pickle.PROTO:
            raise ValueError("no protocol")
        at, data, actions = 2, self._data, _ACTIONS
        while data[at] != pickle.STOP[0]:
            self.at = at
            action = actions.get(data[at])
            if action is None:
                name = _NAMES.get(data[at], f"byte 0x{data[at]:02x}")
                raise _RefusedError(f"the instruction {name}, which no dump needs")
            at = action(self, at + 1)
        (found,) = self._stack
        return found

    def _push(self, value: Any, end: int) -> int:
        self._stack.append(value)
        return end

    def _number(self, at: int, num_bytes: int, *, is_signed: bool = False) -> int:
        end = at + num_bytes
        if end > len(self._data):
            raise IndexError(end)
        return int.from_bytes(self._data[at:end], "little", signed=is_signed)

    def integer(self, at: int, num_bytes: int, *, is_signed: bool = False) -> int:
        return self._push(self._number(at, num_bytes, is_signed=is_signed), at + num_bytes)

    def long(self, at: int) -> int:
        num_bytes = self._number(at, 1)
        if num_bytes > _MAX_INTEGER_BYTES:
            raise _RefusedError(f"an integer of {num_bytes} bytes")
        return self.integer(at + 1, num_bytes, is_signed=True)

    def real(self, at: int) -> int:
        return self._push(struct.unpack_from(">d", self._data, at)[0], at + 8)

    def text(self, at: int, length_bytes: int) -> int:
        begin = at + length_bytes
        end = begin + self._number(at, length_bytes)
        if end > len(self._data):
            raise IndexError(end)
        return self._push(self._data[begin:end].decode("utf-8", "replace"), end)

    def put(self, at: int, num_bytes: int) -> int:
        self._memo[self._number(at, num_bytes)] = self._stack[-1]
        return at + num_bytes

    def get(self, at: int, num_bytes: int) -> int:
        return self._push(self._memo[self._number(at, num_bytes)], at + num_bytes)

    def memoize(self, at: int) -> int:
        self._memo[len(self._memo)] = self._stack[-1]
        return at

    def constant(self, at: int, value: Any) -> int:
        return self._push(value, at)

    def new(self, at: int, kind: Callable[[], Any]) -> int:
        return self._push(kind(), at)

    def pair(self, at: int, length: int) -> int:
        items = self._stack[-length:]
        if len(items) < length or any(item is _MARK for item in items):
            raise ValueError("tuple")
        self._stack[-length:] = [items]
        return at

    def tuple(self, at: int) -> int:
        return self._push(self._items(), at)

    def append(self, at: int) -> int:
        self._target(list, -2).append(self._stack.pop())
        return at

    def appends(self, at: int) -> int:
        items = self._items()
        self._target(list, -1).extend(items)
        return at

    def set_item(self, at: int) -> int:
        value, key = self._stack.pop(), self._stack.pop()
        self._target(dict, -1).update(_pairs([key, value]))
        return at

    def set_items(self, at: int) -> int:
        items = self._items()
        self._target(dict, -1).update(_pairs(items))
        return at

    def _items(self) -> list[Any]:
        """Return the values above the last mark; removes them and the mark."""
        stack = self._stack
        begin = len(stack) - 1
        while stack[begin] is not _MARK:
            begin -= 1
            if begin < 0:
                raise ValueError("no mark")
        items = stack[begin + 1 :]
        del stack[begin:]
        return items

    def _target(self, kind: type, index: int) -> Any:
        target = self._stack[index]
        if type(target) is not kind:
            raise TypeError(kind)
        return target


def _pairs(items: list[Any]) -> dict[Any, Any]:
    keys = items[::2]
    if any(type(key) not in (str, int) for key in keys):
        raise _RefusedError("a dict with a key that is neither text nor an integer")
    return dict(zip(keys, items[1::2], strict=True))


_Action = Callable[[_Reader, int], int]
_ACTIONS: Final[dict[int, _Action]] = {
    code[0]: action
    for code, action in (
        (pickle.FRAME, lambda reader, at: at + 8),
        (pickle.EMPTY_DICT, lambda reader, at: reader.new(at, dict)),
        (pickle.EMPTY_LIST, lambda reader, at: reader.new(at, list)),
        (pickle.EMPTY_TUPLE, lambda reader, at: reader.new(at, list)),
        (pickle.MARK, lambda reader, at: reader.constant(at, _MARK)),
        (pickle.NONE, lambda reader, at: reader.constant(at, None)),
        (pickle.NEWTRUE, lambda reader, at: reader.constant(at, True)),
        (pickle.NEWFALSE, lambda reader, at: reader.constant(at, False)),
        (pickle.BININT, lambda reader, at: reader.integer(at, 4, is_signed=True)),
        (pickle.BININT1, lambda reader, at: reader.integer(at, 1)),
        (pickle.BININT2, lambda reader, at: reader.integer(at, 2)),
        (pickle.LONG1, lambda reader, at: reader.long(at)),
        (pickle.BINFLOAT, lambda reader, at: reader.real(at)),
        (pickle.SHORT_BINUNICODE, lambda reader, at: reader.text(at, 1)),
        (pickle.BINUNICODE, lambda reader, at: reader.text(at, 4)),
        (pickle.BINPUT, lambda reader, at: reader.put(at, 1)),
        (pickle.LONG_BINPUT, lambda reader, at: reader.put(at, 4)),
        (pickle.BINGET, lambda reader, at: reader.get(at, 1)),
        (pickle.LONG_BINGET, lambda reader, at: reader.get(at, 4)),
        (pickle.MEMOIZE, lambda reader, at: reader.memoize(at)),
        (pickle.TUPLE1, lambda reader, at: reader.pair(at, 1)),
        (pickle.TUPLE2, lambda reader, at: reader.pair(at, 2)),
        (pickle.TUPLE3, lambda reader, at: reader.pair(at, 3)),
        (pickle.TUPLE, lambda reader, at: reader.tuple(at)),
        (pickle.APPEND, lambda reader, at: reader.append(at)),
        (pickle.APPENDS, lambda reader, at: reader.appends(at)),
        (pickle.SETITEM, lambda reader, at: reader.set_item(at)),
        (pickle.SETITEMS, lambda reader, at: reader.set_items(at)),
    )
}


def load_snapshot(path: Path, data: bytes) -> tuple[Any, int]:
    """Scan the pickle of a memory snapshot and read it; return its object and the position of its end.

    Raises:
        UnsafeSnapshotError: It holds other things than a snapshot, or would exhaust memory; nothing of it was run.
        TraceFormatError: It is cut off, or is not a pickle.
    """
    end = scan(path, data)
    try:
        return _Unpickler(path, data).load(), end
    except UnsafeSnapshotError:
        raise
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        reason = text(str(error))[:200] or type(error).__name__
        raise TraceFormatError(path, found=f"a broken pickle ({reason})", expected="a memory snapshot") from error


class _Unpickler(pickle.Unpickler):
    """Unpickles data that has passed the scan. As a second check it refuses every global."""

    def __init__(self, path: Path, data: bytes) -> None:
        super().__init__(io.BufferedReader(io.BytesIO(data)))
        self._path = path

    def find_class(self, module: str, name: str) -> NoReturn:
        self._refuse(f"the global {ascii(module)[1:81]}.{ascii(name)[1:81]}")

    def persistent_load(self, pid: Any) -> NoReturn:
        self._refuse("a persistent id")

    def _refuse(self, found: str) -> NoReturn:
        raise UnsafeSnapshotError(self._path, found=found, expected="dicts, lists, text and numbers alone")
