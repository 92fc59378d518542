"""`hold`: keeps a stream busy for a while, so that what other streams do meanwhile comes first."""

from __future__ import annotations

import ctypes
import weakref
from types import TracebackType
from typing import Any, Final

import torch

from cudalens.errors import KernelError
from cudalens.kernels.launch import can_launch

#: The longest that a stream can be held: a minute; a display driver ends kernels that run for longer anyway.
MAX_NS: Final = 60_000_000_000


class Hold:
    """A stream that is kept busy; a context manager that lets go of it at its end, whatever happens within.

    Attributes:
        stream: The stream.
        nanoseconds: For how long at most.
    """

    def __init__(self, stream: torch.cuda.Stream, nanoseconds: int, flag: torch.Tensor | None) -> None:
        self.stream, self.nanoseconds = stream, nanoseconds
        self._finalizer = weakref.finalize(self, _raise_flag, flag)

    def release(self) -> None:
        """Let the stream go on now. Harmless when done twice, and where it cannot be let go early (see `hold`)."""
        self._finalizer()

    @property
    def is_released(self) -> bool:
        """Whether it was let go."""
        return not self._finalizer.alive

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        self.release()


def hold(stream: torch.cuda.Stream, nanoseconds: int | None = None) -> Hold:
    """Keep `stream` busy until it is released, and never longer than `nanoseconds`.

    One thread of one multiprocessor polls a flag in pinned host memory; all else of the device is free. It ends when
    `Hold.release` raises the flag (also at the end of a ``with`` block, on an interrupt, and when the Hold is dropped),
    or when the device's own clock says that the time is over. Moves no memory.

    Without Triton, and on a virtual device, torch's own timed kernel takes the place: it lasts `nanoseconds` by the
    clock rate that the device reports, and cannot be let go early.

    Args:
        stream: A stream of a GPU, real or virtual.
        nanoseconds: For how long at most: 1 to `MAX_NS`.

    Raises:
        KernelError: There is no bound, or it is out of range; `stream` is no stream of a GPU.
    """
    if not isinstance(stream, torch.cuda.Stream):
        raise KernelError(f"hold: stream is {type(stream).__name__}, expected a torch.cuda.Stream.")
    if nanoseconds is None:
        raise KernelError("hold: no bound; say for how many nanoseconds at most, such as hold(stream, 5_000_000).")
    if isinstance(nanoseconds, bool) or not isinstance(nanoseconds, int) or not 0 < nanoseconds <= MAX_NS:
        raise KernelError(f"hold: nanoseconds is {nanoseconds!r}, expected a whole number from 1 to {MAX_NS:,}.")
    if not can_launch(stream.device):
        _sleep(stream, nanoseconds)
        return Hold(stream, nanoseconds, None)
    from cudalens.kernels.hold_triton import run

    flag = torch.zeros(1, dtype=torch.int32, pin_memory=True)
    with torch.cuda.stream(stream):
        run(flag, nanoseconds)
        # Pinned memory that was copied from is given to nobody else before the copy: so the flag outlives the kernel.
        torch.empty_like(flag, device=stream.device, pin_memory=False).copy_(flag, non_blocking=True)
    return Hold(stream, nanoseconds, flag)


def _sleep(stream: torch.cuda.Stream, nanoseconds: int) -> None:
    properties: Any = torch.cuda.get_device_properties(stream.device_index)
    khz = int(getattr(properties, "clock_rate", 0)) or 1_000_000
    with torch.cuda.stream(stream):
        torch.cuda._sleep(max(1, nanoseconds * khz // 1_000_000))  # type: ignore[no-untyped-call]


def _raise_flag(flag: torch.Tensor | None) -> None:
    """By its address: whoever listens to torch's operators, or stands in its dispatcher, hears nothing of it."""
    if flag is not None:
        ctypes.c_int32.from_address(flag.data_ptr()).value = 1
