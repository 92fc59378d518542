"""The exceptions that cudalens raises on purpose.

All derive from one class: ``except cudalens.CudalensError`` catches every error that cudalens raises on purpose.

.. code-block:: text

    CudalensError
    ├── TraceError              a Trace is not valid for an operation
    │   ├── TraceFormatError    a file is not a valid trace (also a ValueError)
    │   │   └── UnsafeSnapshotError  a memory snapshot has unexpected pickle instructions; none was run
    │   └── SchemaError         a frame does not fit the column catalog (also a ValueError)
    ├── AssertionSyntaxError    an assertion about a Trace cannot be read (also a ValueError)
    ├── QueryError              an SQL query about a Trace is not valid (also a ValueError)
    ├── AssertionFailed         an assertion about a Trace does not hold (also an AssertionError)
    ├── HistoryError            a file of past runs cannot be read or written (also an OSError)
    ├── OutputError             a file cannot be written (also an OSError)
    ├── RecordError             a recorded program cannot be checked (also a ValueError)
    ├── SanitizerError          invalid arguments or state of the sanitizer (also a ValueError)
    ├── ExploreError            a program cannot be run in other orders (also a RuntimeError)
    ├── RaceError               accesses of two streams, or of a stream and the host, race (also a RuntimeError)
    ├── KernelError             invalid arguments of a function of cudalens.kernels (also a ValueError)
    ├── MetricsError            this machine's GPUs cannot be read: no driver, no library (also a RuntimeError)
    ├── MemorySnapshotError     there is no allocator with a list of blocks (also a RuntimeError)
    ├── GraphError              invalid operation of a CUDA graph manager (also a RuntimeError)
    ├── FixError                a fix cannot be written, or not be tried (also a RuntimeError)
    ├── BenchmarkError          invalid arguments of a benchmark, or a function fails in it (also a ValueError)
    ├── WatchError              invalid use of a watch of a running loop (also a RuntimeError)
    ├── VirtualDeviceError      not supported by a virtual CUDA device (also a RuntimeError)
    └── ProfilerError           a profile cannot start, or cannot be read (also a RuntimeError)
        └── ProfilerBusyError   another profiler is active on this thread or holds CUPTI

Every message says what was wrong, where, what was expected and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import Any


class CudalensError(Exception):
    """Root of every exception that cudalens raises on purpose."""


class TraceError(CudalensError):
    """A Trace is not valid for an operation."""


class TraceFormatError(TraceError, ValueError):
    """A file is not a valid trace.

    Attributes:
        path: The file, as given by the user.
        position: Position in it, in words ("byte 1042", "event 17", "member 'events.parquet'"), or None.
        found: What the file has there.
        expected: What was expected there.
        hint: What to do, or None.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        found: str,
        expected: str,
        position: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.path = fspath(path)
        self.hint = hint
        self.position = position
        self.found = found
        self.expected = expected
        where = f"{self.path}, {position}" if position else self.path
        message = f"{where}: found {found}; expected {expected}."
        super().__init__(f"{message} {hint}" if hint else message)


class QueryError(CudalensError, ValueError):
    """An SQL query about a Trace or its ranks is not valid, or refers to something other than their frames."""


class UnsafeSnapshotError(TraceFormatError):
    """A pickle that should be a memory snapshot has other contents. None of it was run.

    Attributes:
        opcode: Name of the refused pickle instruction ("STACK_GLOBAL"), or None if a limit is exceeded.
        byte: Its position in the file, or None.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        found: str,
        expected: str,
        opcode: str | None = None,
        byte: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(
            path, found=found, expected=expected, position=None if byte is None else f"byte {byte}", hint=hint
        )
        self.opcode = opcode
        self.byte = byte


class SchemaError(TraceError, ValueError):
    """A frame does not fit the column catalog."""


class AssertionSyntaxError(CudalensError, ValueError):
    """An assertion about a Trace cannot be read. The message marks the position.

    Attributes:
        text: The assertion.
        position: Position of the error, from 0.
        reason: What is wrong there, and what was expected.
    """

    def __init__(self, text: str, position: int, reason: str) -> None:
        self.text, self.position, self.reason = text, position, reason
        # A long text is shortened around the position.
        begin = max(0, position - 60)
        line = " ".join(text[begin : position + 60].splitlines() or [""])
        super().__init__(
            f"the assertion cannot be read at column {position + 1}: {reason}\n  {line}\n  {' ' * (position - begin)}^"
        )


class AssertionFailed(CudalensError, AssertionError):  # noqa: N818 - reads as what happened
    """Assertions about a Trace do not hold.

    Attributes:
        failures: For each assertion that does not hold, its text and what was found.
    """

    def __init__(self, message: str, failures: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.failures = tuple(failures)


class HistoryError(CudalensError, OSError):
    """A file of past runs cannot be read or written: it is locked, damaged, or not such a file."""


class OutputError(CudalensError, OSError):
    """A file cannot be written; an existing file is unchanged."""


class RecordError(CudalensError, ValueError):
    """A recorded program cannot be checked: an op is unknown, incomplete, or uses memory that is not allocated."""


class SanitizerError(CudalensError, ValueError):
    """Invalid arguments or state of the sanitizer: an unknown detector, an invalid suppression, a wrong state."""


class ExploreError(CudalensError, RuntimeError):
    """A recorded program cannot be run in other orders: too little or too much is recorded, or it is not repeatable."""


class RaceError(CudalensError, RuntimeError):
    """Two accesses to the same memory race: they are unordered, and one is a write.

    Attributes:
        races: The new races, at least one; each a `cudalens.sanitizer.Race`.
    """

    def __init__(self, message: str, races: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.races = list(races)


class KernelError(CudalensError, ValueError):
    """Invalid arguments of a function of `cudalens.kernels`."""


class MetricsError(CudalensError, RuntimeError):
    """Utilization, memory, temperature and power of this machine's GPUs cannot be read."""


class MemorySnapshotError(CudalensError, RuntimeError):
    """There is no allocator to inspect: no device, or one without a list of blocks."""


class GraphError(CudalensError, RuntimeError):
    """Invalid operation of a CUDA graph manager: it is freed, a capture is active, or a result has no tensors."""


class FixError(CudalensError, RuntimeError):
    """A fix cannot be written for the user's source, or the program cannot run again."""


class BenchmarkError(CudalensError, ValueError):
    """Invalid arguments of a benchmark of two functions, or one of the functions fails."""


class WatchError(CudalensError, RuntimeError):
    """Invalid use of a watch of a running loop: another one is on, or there is none to attach to."""


class VirtualDeviceError(CudalensError, RuntimeError):
    """A virtual CUDA device cannot be created, or does not support an operation."""


class UnsupportedOperatorError(VirtualDeviceError, NotImplementedError):
    """An operator has no implementation on a virtual CUDA device, in general or for the dtype of its tensors."""


class ProfilerError(CudalensError, RuntimeError):
    """A profile cannot start, or its results cannot be read."""


class ProfilerBusyError(ProfilerError):
    """Another profiler is active on this thread, or another tool holds CUPTI."""


def invalid_choice(
    name: str, value: object, choices: Iterable[object], error: type[Exception] = ValueError
) -> Exception:
    """Return the `error` for argument `name` with a `value` that is not one of `choices`."""
    return error(f"invalid value for {name}: {value!r}; expected one of {', '.join(map(repr, choices))}")
