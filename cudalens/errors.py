"""The exceptions that cudalens raises on purpose.

One root, so that ``except cudalens.CudalensError`` catches every refusal of ours and nothing else.

.. code-block:: text

    CudalensError
    ├── TraceError              a Trace cannot be what was asked of it
    │   ├── TraceFormatError    a file is not what it should be (also a ValueError)
    │   │   └── UnsafeSnapshotError  a memory snapshot holds what no snapshot needs; nothing of it was run
    │   └── SchemaError         a frame does not fit the column catalog (also a ValueError)
    ├── AssertionSyntaxError    an assertion about a Trace cannot be read (also a ValueError)
    ├── AssertionFailed         an assertion about a Trace does not hold (also an AssertionError)
    ├── HistoryError            a file of past runs cannot be read or written (also an OSError)
    ├── OutputError             a file that we were asked to write cannot be written (also an OSError)
    ├── RecordError             a recorded program cannot be judged (also a ValueError)
    ├── SanitizerError          the sanitizer cannot do what was asked of it (also a ValueError)
    ├── ExploreError            a program's other orders cannot be tried (also a RuntimeError)
    ├── RaceError               accesses of two streams, or of a stream and the host, race (also a RuntimeError)
    ├── KernelError             a device function of ours cannot do this with what it was given (also a ValueError)
    ├── MetricsError            this machine's GPUs cannot be read: no driver, no library (also a RuntimeError)
    ├── MemorySnapshotError     there is no allocator whose memory could be examined (also a RuntimeError)
    ├── GraphError              a CUDA graph manager cannot do this here (also a RuntimeError)
    ├── VirtualDeviceError      a virtual CUDA device cannot be or do this (also a RuntimeError)
    └── ProfilerError           a profile cannot start, or cannot be read (also a RuntimeError)
        └── ProfilerBusyError   another profiler is active on this thread or holds CUPTI

Every message says what was wrong, where, what was expected and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any


class CudalensError(Exception):
    """Root of every exception that cudalens raises on purpose."""


class TraceError(CudalensError):
    """A Trace cannot be what was asked of it."""


class TraceFormatError(TraceError, ValueError):
    """A file is not the trace that it should be; nothing half-made is left behind.

    Attributes:
        path: The file, as the user named it.
        position: Where in it, in words ("byte 1042", "event 17", "member 'events.parquet'"), or None.
        found: What was there.
        expected: What should have been there.
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
        self.position = position
        self.found = found
        self.expected = expected
        where = f"{self.path}, {position}" if position else self.path
        message = f"{where}: found {found}; expected {expected}."
        super().__init__(f"{message} {hint}" if hint else message)


class UnsafeSnapshotError(TraceFormatError):
    """A pickle that should be a memory snapshot holds what no snapshot needs. Nothing of it was run.

    Attributes:
        opcode: Name of the pickle's instruction that is refused ("STACK_GLOBAL"), or None where a limit is passed.
        byte: Where it stands in the file, or None.
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
    """An assertion about a Trace cannot be read. The message shows it with a mark below the place.

    Attributes:
        text: The assertion.
        position: Where in it, from 0.
        reason: What is wrong there, and what was expected.
    """

    def __init__(self, text: str, position: int, reason: str) -> None:
        self.text, self.position, self.reason = text, position, reason
        # The place on one line of reasonable length, whatever the text is.
        begin = max(0, position - 60)
        line = " ".join(text[begin : position + 60].splitlines() or [""])
        super().__init__(
            f"the assertion cannot be read at column {position + 1}: {reason}\n  {line}\n  {' ' * (position - begin)}^"
        )


class AssertionFailed(CudalensError, AssertionError):  # noqa: N818 - reads as what happened
    """Assertions about a Trace do not hold.

    Attributes:
        failures: For each that does not hold, its text and what was found instead.
    """

    def __init__(self, message: str, failures: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.failures = tuple(failures)


class HistoryError(CudalensError, OSError):
    """A file of past runs cannot be read or written: it is locked, broken, or something else's."""


class OutputError(CudalensError, OSError):
    """A file that we were asked to write cannot be written; an existing file is untouched."""


class RecordError(CudalensError, ValueError):
    """A recorded program cannot be judged: an op is unknown, incomplete, or touches memory that is not there."""


class SanitizerError(CudalensError, ValueError):
    """The sanitizer cannot do what was asked of it: an unknown detector, a suppression that is none, a wrong state."""


class ExploreError(CudalensError, RuntimeError):
    """A watched program cannot be done again in other orders: nothing was noted, too much, or what cannot be redone."""


class RaceError(CudalensError, RuntimeError):
    """Two accesses to the same memory race: nothing orders them, and one is a write.

    Attributes:
        races: The new races, at least one; each a `cudalens.sanitizer.Race`.
    """

    def __init__(self, message: str, races: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.races = list(races)


class KernelError(CudalensError, ValueError):
    """A device function of ours (`cudalens.kernels`) cannot do this with what it was given."""


class MetricsError(CudalensError, RuntimeError):
    """Utilization, memory, temperature and power of this machine's GPUs cannot be read."""


class MemorySnapshotError(CudalensError, RuntimeError):
    """There is no allocator whose memory could be examined: no device, or one that keeps no list of blocks."""


class GraphError(CudalensError, RuntimeError):
    """A CUDA graph manager cannot do what was asked: it is freed, a capture is under way, or a result is no tensors."""


class VirtualDeviceError(CudalensError, RuntimeError):
    """A virtual CUDA device cannot be made, or was asked for what it does not model."""


class ProfilerError(CudalensError, RuntimeError):
    """A profile cannot start, or its results cannot be read."""


class ProfilerBusyError(ProfilerError):
    """Another profiler is active on this thread, or another tool holds CUPTI."""
