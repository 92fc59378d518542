"""`hold`: keep a stream busy for a limited time, so that work on other streams runs first."""

from __future__ import annotations

import ctypes
import weakref
from types import TracebackType
from typing import Any, Final

import torch

from cudalens.errors import KernelError
from cudalens.kernels.launch import can_launch

#: The longest time that a stream can be held; display drivers stop kernels that run longer.
MAX_NS: Final = 60_000_000_000


class Hold:
    """A stream that is kept busy; as a context manager it always releases the stream at its end.

    Attributes:
        stream: The stream.
        nanoseconds: The time limit, ns.
    """

    def __init__(self, stream: torch.cuda.Stream, nanoseconds: int, flag: torch.Tensor | None) -> None:
        self.stream, self.nanoseconds = stream, nanoseconds
        self._finalizer = weakref.finalize(self, _raise_flag, flag)

    def release(self) -> None:
        """Release the stream now. No effect the second time, or if an early release is not possible (see `hold`)."""
        self._finalizer()

    @property
    def is_released(self) -> bool:
        """Whether `release` was called."""
        return not self._finalizer.alive

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        self.release()


def hold(stream: torch.cuda.Stream, nanoseconds: int | None = None) -> Hold:
    """Keep `stream` busy until it is released, at most for `nanoseconds`.

    One thread of one multiprocessor polls a flag in pinned host memory; the rest of the device stays free. The kernel
    ends when `Hold.release` sets the flag (also at the end of a ``with`` block, on an interrupt, and when the Hold is
    deleted), or when the time limit is reached by the device's clock. It copies no memory.

    Without Triton, and on a virtual device, torch's timed kernel is used instead: it lasts `nanoseconds` by the clock
    rate that the device reports, and cannot be released early.

    Args:
        stream: A stream of a GPU, real or virtual.
        nanoseconds: The time limit, 1 to `MAX_NS`.

    Raises:
        KernelError: There is no time limit, or it is out of range; or `stream` is not a stream of a GPU.
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
        # A pinned block is reused only after copies from it have finished, so the flag outlives the kernel.
        torch.empty_like(flag, device=stream.device, pin_memory=False).copy_(flag, non_blocking=True)
    return Hold(stream, nanoseconds, flag)


def _sleep(stream: torch.cuda.Stream, nanoseconds: int) -> None:
    properties: Any = torch.cuda.get_device_properties(stream.device_index)
    khz = int(getattr(properties, "clock_rate", 0)) or 1_000_000
    with torch.cuda.stream(stream):
        torch.cuda._sleep(max(1, nanoseconds * khz // 1_000_000))  # type: ignore[no-untyped-call]


def _raise_flag(flag: torch.Tensor | None) -> None:
    """Set the flag by its address, so that no torch operator is dispatched or recorded."""
    if flag is not None:
        ctypes.c_int32.from_address(flag.data_ptr()).value = 1
