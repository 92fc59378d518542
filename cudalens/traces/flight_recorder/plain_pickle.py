"""Read a pickle that holds only dicts, lists, pairs, text and numbers, without `pickle`.

torch writes FlightRecorder dumps as pickles of protocol 2. A pickle is a program, and `pickle.load` runs it. This
reader has the instructions that such a dump needs, and refuses all others. No class is looked up and nothing is called.
Tuples become lists, and a key must be a text or a number, so that hashing never recurses. Memory is proportional to the
file.

The scan of memory snapshots (`cudalens.traces.snapshots.scan`) admits only pairs of numbers. A dump has pairs of texts,
which may be references; whether such a reference is a nested tuple is only known by executing the instructions.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import Any, Final

from cudalens.errors import TraceFormatError, UnsafeSnapshotError

_EXPECTED: Final = "a FlightRecorder dump: dicts, lists, text and numbers alone"
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
        raise UnsafeSnapshotError(path, found=str(error), byte=reader.at, expected=_EXPECTED) from None
    except (IndexError, KeyError, ValueError, TypeError, struct.error) as error:
        raise TraceFormatError(
            path, position=f"byte {reader.at}", found="a broken or cut-off pickle", expected=_EXPECTED
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
