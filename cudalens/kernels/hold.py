"""`hold` keeps a stream busy for a limited time; `poison` fills memory with a pattern that `check_poison` finds."""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import torch

from cudalens.errors import KernelError
from cudalens.kernels.compare import index_of
from cudalens.kernels.launch import Backend, can_launch, uses_triton
from cudalens.kernels.values import BITS, Reading, loaded, reading_of

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
    from cudalens.kernels.triton_kernels import run_hold as run

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


# `poison` and `check_poison`: fill memory that must not be read with a pattern, and search results for the pattern.

#: 0xFFFD repeated: NaN as float16, bfloat16, float32 and float64; -3 as a 16-bit integer.
_PATTERN: Final = {1: 0xFD, 2: -0x3, 4: -0x20003, 8: -0x2000200020003}


@dataclass(frozen=True, slots=True)
class PoisonReport:
    """How much of a tensor is the pattern or NaN.

    Attributes:
        num_elements: Elements that were checked.
        num_poisoned: Elements that are exactly the pattern: memory that was read before it was written, or after it was
            freed. In one-byte dtypes the pattern is an ordinary number (253 or -3).
        num_nan: Elements that are NaN, including those: values computed from the pattern are NaN, but not the pattern.
        first: Index of the first element that is the pattern or NaN; None if there is none.
    """

    num_elements: int
    num_poisoned: int
    num_nan: int
    first: tuple[int, ...] | None

    @property
    def is_clean(self) -> bool:
        """Whether no element is the pattern or NaN."""
        return self.first is None

    def __str__(self) -> str:
        """``12 of 64 elements are unwritten memory, 3 more are NaN; first at [1, 4]``."""
        if self.first is None:
            return f"none of {self.num_elements:,} elements comes from poisoned memory"
        more = max(self.num_nan - self.num_poisoned, 0)
        nan = f", {more:,} more are NaN" if more else ""
        return (
            f"{self.num_poisoned:,} of {self.num_elements:,} elements are poisoned memory{nan}; "
            f"first at {list(self.first)}"
        )


def poison(block: torch.Tensor, *, backend: Backend = "auto") -> torch.Tensor:
    """Fill the elements of `block`, and no memory between them, with the pattern; returns `block`.

    The shortest possible time is ``block.nbytes`` divided by the measured write bandwidth. The work is queued on the
    current stream.

    Args:
        block: Memory without contents yet (``torch.empty``), or whose contents are no longer needed.
        backend: Whether the Triton kernel or the reference runs; for tests.

    Raises:
        KernelError: Elements of `block` share memory (broadcast), or it has no plain memory.
    """
    _check("poison", block)
    if any(step == 0 for size, step in zip(block.shape, block.stride(), strict=True) if size > 1):
        raise KernelError(
            "poison: elements of the block share memory (a broadcast tensor); poison what it was made from."
        )
    with torch.no_grad():
        bits = _bits(block.detach())
        pattern = _PATTERN[bits.element_size()]
        if uses_triton(backend, block) and bits.is_contiguous() and bits.numel():
            from cudalens.kernels.triton_kernels import fill

            fill(bits, pattern)
        else:
            bits.fill_(pattern)
    return block


def check_poison(tensor: torch.Tensor, *, backend: Backend = "auto") -> PoisonReport:
    """Search a result for the pattern, and for NaNs that may have been computed from it.

    The shortest possible time is ``tensor.nbytes`` divided by the measured read bandwidth. Tensors that are not
    contiguous are copied first. Waits for the device.

    Args:
        tensor: A result that was computed while some memory was poisoned.
        backend: Whether the Triton kernel or the reference runs; for tests.

    Raises:
        KernelError: `tensor` does not hold plain numbers.
    """
    _check("check_poison", tensor)
    if not tensor.numel():
        return PoisonReport(0, 0, 0, None)
    with torch.no_grad():
        plain = tensor.detach().resolve_conj().resolve_neg()
        if plain.dtype is torch.bool:  # a copy of bool makes each true element 1, and the pattern is not 1
            plain = plain.view(torch.uint8)
        dense = plain.contiguous()
        num_poisoned, num_nan, first = _search(dense, backend)
    index = None if first is None else index_of(first, tensor.shape)
    return PoisonReport(tensor.numel(), num_poisoned, num_nan, index)


def _search(dense: torch.Tensor, backend: Backend) -> tuple[int, int, int | None]:
    if uses_triton(backend, dense):
        from cudalens.kernels.triton_kernels import search

        pattern = _PATTERN[_bits(dense).element_size()]
        return search(_bits(dense), loaded(dense), dense, pattern)
    bits = _bits(dense)
    is_pattern = bits == _PATTERN[bits.element_size()]
    if dense.dtype.is_complex:
        is_pattern = is_pattern.any(dim=-1)
    reads_floats = reading_of(dense.dtype) is not Reading.INTEGER
    is_nan = torch.zeros_like(is_pattern)
    if reads_floats:
        is_nan = (dense.float() if dense.element_size() == 1 else dense).isnan()
    either = (is_pattern | is_nan).reshape(-1)
    counts = torch.stack([is_pattern.sum(), is_nan.sum(), either.sum(), either.to(torch.uint8).argmax()])
    num_poisoned, num_nan, num_either, first = (int(count) for count in counts.tolist())
    return num_poisoned, num_nan, first if num_either else None


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements as integers of the same size; complex numbers as two integers in an extra last dimension."""
    real: Any = torch.view_as_real(tensor) if tensor.dtype.is_complex else tensor
    return real.view(BITS[real.element_size()])


def _check(what: str, tensor: object) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise KernelError(f"{what}: got {type(tensor).__name__}, expected a tensor.")
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta or reading_of(tensor.dtype) is None:
        raise KernelError(
            f"{what}: a {tensor.dtype} tensor that is sparse, nested, meta or quantised holds no plain numbers."
        )
