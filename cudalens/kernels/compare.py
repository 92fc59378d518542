"""`compare`: compare two tensors element by element, in one pass over both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from cudalens.errors import KernelError
from cudalens.kernels.launch import Backend, uses_triton
from cudalens.kernels.values import Found, Reading, reading_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two tensors differ.

    Attributes:
        shape: Shape of both.
        dtype: Dtype of both.
        num_different: Elements that differ: unequal numbers, or a NaN on one side only. Two NaNs are equal, as are 0.0
            and -0.0; `cudalens.kernels.fingerprint` compares bits.
        max_abs_diff: Largest `|a - b|`, over elements without a NaN; an exact integer where the elements are integers.
        max_rel_diff: Largest `|a - b| / max(|a|, |b|)`, over the same; from 0 to 2, and 1 where one is infinite.
        first_different: Index of the first element that differs, in row-major order; None if there is none.
        first_values: The values of `a` and `b` at that index; None if there is none.
        num_nan_mismatches: Elements that are NaN on exactly one side.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    num_different: int
    max_abs_diff: float | int
    max_rel_diff: float
    first_different: tuple[int, ...] | None
    first_values: tuple[Any, Any] | None
    num_nan_mismatches: int

    @property
    def num_elements(self) -> int:
        """Number of elements of each tensor."""
        return math.prod(self.shape)

    @property
    def is_equal(self) -> bool:
        """Whether no element differs."""
        return self.num_different == 0

    def __bool__(self) -> bool:
        """Not defined, since true could mean equal or different.

        Raises:
            TypeError: Always.
        """
        raise TypeError("a Comparison has no truth value; use .is_equal.")

    def __str__(self) -> str:
        """``3,412 of 65,536 elements differ, first at [3, 17]: 0.0 instead of 1.7; …``: the value of `a`, then `b`."""
        if self.first_different is None or self.first_values is None:
            return f"all {self.num_elements:,} elements are equal"
        a, b = self.first_values
        words = [
            f"{self.num_different:,} of {self.num_elements:,} elements differ, "
            f"first at {list(self.first_different)}: {a!r} instead of {b!r}",
            f"largest difference {self.max_abs_diff:g}, relative {self.max_rel_diff:.3g}",
        ]
        if self.num_nan_mismatches:
            words.append(f"{self.num_nan_mismatches:,} NaN on one side only")
        return "; ".join(words)


def compare(a: torch.Tensor, b: torch.Tensor, *, backend: Backend = "auto") -> Comparison:
    """Compare two tensors element by element.

    Reads each input once and writes almost nothing, so the shortest possible time is ``a.nbytes + b.nbytes`` divided by
    the measured read bandwidth (`cudalens.kernels.ceilings`). Waits for the result.

    Differences of floating-point numbers of up to 32 bits are computed in float32, those of float64 and complex128 in
    float64; differences of integers are exact. Subnormal float32 numbers are not flushed to zero.

    Args:
        a: Strided, of any shape and strides (broadcast ones too), of any dtype of numbers: bfloat16, 8-bit floats,
            bool, signed and unsigned integers, complex.
        b: The expected tensor, with the shape, dtype and device of `a`.
        backend: Whether the Triton kernel or the reference runs; for tests.

    Raises:
        KernelError: The two cannot be compared; the message says why.
    """
    a, b = _checked(a, b)
    if not a.numel():
        return _nothing(a)
    begin, finish = _implementation(backend, a)
    with torch.no_grad():
        found = finish(begin(a, b), a.dtype)
    if found.first is None:
        return _comparison(a.shape, a.dtype, found, None)
    index = index_of(found.first, a.shape)
    return _comparison(a.shape, a.dtype, found, (_value(a[index]), _value(b[index])))


class PendingComparison:
    """A comparison that may still run on the device: its kernels are queued on the stream that was current."""

    def __init__(self, finish: Callable[[], Comparison]) -> None:
        self._finish = finish

    def result(self) -> Comparison:
        """Return the comparison; waits for the device."""
        return self._finish()


def begin_compare(a: torch.Tensor, b: torch.Tensor, *, backend: Backend = "auto") -> PendingComparison:
    """As `compare`, without waiting for the device; later changes of `a` and `b` have no effect on the result.

    Raises:
        KernelError: The two cannot be compared.
    """
    a, b = _checked(a, b)
    if not a.numel():
        nothing = _nothing(a)
        return PendingComparison(lambda: nothing)
    begin, finish = _implementation(backend, a)
    with torch.no_grad():
        out = begin(a, b)
        at = _places(out[:, 1].amin().clamp(max=a.numel() - 1), a.shape)
        values = a[at].clone(), b[at].clone()
    size, dtype = a.shape, a.dtype

    def wait() -> Comparison:
        found = finish(out, dtype)
        first = None if found.first is None else (_value(values[0]), _value(values[1]))
        return _comparison(size, dtype, found, first)

    return PendingComparison(wait)


def _places(number: torch.Tensor, shape: torch.Size) -> tuple[torch.Tensor, ...]:
    """Return the index of an element from its number, computed on the device."""
    index: list[torch.Tensor] = []
    for size in reversed(shape):
        index.insert(0, number % size)
        number = number // size
    return tuple(index)


def can_compare(tensor: torch.Tensor) -> bool:
    """Return whether `compare` supports tensors like this one."""
    is_plain = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_meta
    return is_plain and reading_of(tensor.dtype) is not None


def _checked(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    _check(a, b)
    return a.detach().resolve_conj().resolve_neg(), b.detach().resolve_conj().resolve_neg()


def _nothing(a: torch.Tensor) -> Comparison:
    is_integer = reading_of(a.dtype) is Reading.INTEGER
    return _comparison(a.shape, a.dtype, Found(0, None, 0 if is_integer else 0.0, 0.0, 0), None)


def _comparison(shape: torch.Size, dtype: torch.dtype, found: Found, values: tuple[Any, Any] | None) -> Comparison:
    index = None if found.first is None else index_of(found.first, shape)
    worst = (found.max_abs_diff, found.max_rel_diff)
    return Comparison(tuple(shape), dtype, found.num_different, *worst, index, values, found.num_nan_mismatches)


def _implementation(
    backend: Backend, tensor: torch.Tensor
) -> tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], Callable[[torch.Tensor, torch.dtype], Found]]:
    """Return the functions that begin a comparison and wait for its result."""
    if uses_triton(backend, tensor):
        from cudalens.kernels import triton_kernels  # imports Triton

        return triton_kernels.begin, triton_kernels.finish
    return begin_reference, finish_reference


def _value(element: torch.Tensor) -> Any:
    is_float8 = element.dtype.itemsize == 1 and element.dtype.is_floating_point
    return (element.float() if is_float8 else element).item()


def index_of(number: int, shape: torch.Size | tuple[int, ...]) -> tuple[int, ...]:
    """Index of the element with that number in row-major order."""
    index: list[int] = []
    for size in reversed(shape):
        number, position = divmod(number, size)
        index.insert(0, position)
    return tuple(index)


def _check(a: torch.Tensor, b: torch.Tensor) -> None:
    for name, tensor in (("a", a), ("b", b)):
        if not isinstance(tensor, torch.Tensor):
            raise KernelError(f"compare: {name} is {type(tensor).__name__}, expected a tensor.")
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta:
            what = str(tensor.layout)
            if tensor.is_nested or tensor.is_meta:
                what = "nested" if tensor.is_nested else "on the meta device"
            raise KernelError(f"compare: {name} is {what}, expected a strided tensor with data; compare its parts.")
        if reading_of(tensor.dtype) is None:
            raise KernelError(f"compare: {name} is {tensor.dtype}, which holds no plain numbers; convert it first.")
    for what in ("shape", "dtype", "device"):
        of_a, of_b = getattr(a, what), getattr(b, what)
        if of_a != of_b:
            shown = [tuple(one) if what == "shape" else one for one in (of_a, of_b)]
            raise KernelError(f"compare: a has {what} {shown[0]} and b {shown[1]}; both have to have the same.")


# `compare` in plain torch, for CPU and virtual-device tensors; the reference implementation of the kernel.

#: Elements at a time, so that intermediate results need little memory compared with large tensors.
_CHUNK: Final = 1 << 22

_SIGN: Final = -(1 << 63)
_UNSIGNED: Final = (1 << 64) - 1
_NONE: Final = (1 << 63) - 1


def begin_reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compare both tensors; the inputs have been checked and are not empty.

    Returns:
        A row for each piece of the tensors, for `finish_reference`: int64, shape (pieces, 5), on their device. Column 1
        holds the number of the first element that differs, or a larger number than any element has.
    """
    look = _integers if reading_of(a.dtype) is Reading.INTEGER else _floats
    x, y = a.reshape(-1), b.reshape(-1)
    starts = range(0, x.numel(), _CHUNK)
    return torch.stack([look(x[start : start + _CHUNK], y[start : start + _CHUNK], start) for start in starts])


def finish_reference(out: torch.Tensor, dtype: torch.dtype) -> Found:
    """Combine the rows of all pieces; waits for the device."""
    rows = out.cpu()
    is_integer = reading_of(dtype) is Reading.INTEGER
    first = int(rows[:, 1].min())
    largest = rows[:, 3].contiguous()
    return Found(
        int(rows[:, 0].sum()),
        None if first == _NONE else first,
        (int(largest.max()) ^ _SIGN) & _UNSIGNED if is_integer else float(largest.view(torch.float64).max()),
        float(rows[:, 4].contiguous().view(torch.float64).max()),
        int(rows[:, 2].sum()),
    )


def _row(
    differs: torch.Tensor, nan: torch.Tensor, largest: torch.Tensor, relative: torch.Tensor, start: int
) -> torch.Tensor:
    """Count, first, NaN mismatches, largest absolute and relative difference (bits) of a piece: int64, shape (5,)."""
    count = differs.sum()
    first = torch.where(count > 0, differs.to(torch.uint8).argmax() + start, _NONE)
    ratio = relative.max().to(torch.float64).view(torch.int64)
    return torch.stack([count, first, nan.sum(), largest, ratio])


def _floats(a: torch.Tensor, b: torch.Tensor, start: int) -> torch.Tensor:
    x, y = _wide(a), _wide(b)
    nan_x, nan_y = x.isnan(), y.isnan()
    differs = (x != y) & ~(nan_x & nan_y)
    equal = ~differs | nan_x | nan_y
    diff = _distance(x, y)
    zero = torch.zeros_like(diff)
    diff = torch.where(equal, zero, diff)
    scale = torch.maximum(x.abs(), y.abs())
    relative = torch.where(scale.isinf(), zero + 1, (diff / scale).clamp(max=2.0))
    largest = diff.max().to(torch.float64).view(torch.int64)
    return _row(differs, nan_x ^ nan_y, largest, torch.where(equal, zero, relative), start)


def _distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """|x - y|; the difference of equal parts of complex numbers is 0, also if they are infinite."""
    if not x.dtype.is_complex:
        return (x - y).abs()
    parts = ((x.real, y.real), (x.imag, y.imag))
    return torch.hypot(*(torch.where(p == q, torch.zeros_like(p), p - q) for p, q in parts))


def _wide(values: torch.Tensor) -> torch.Tensor:
    if values.dtype.is_complex or values.dtype is torch.float64:
        return values
    return values.to(torch.float32)


def _integers(a: torch.Tensor, b: torch.Tensor, start: int) -> torch.Tensor:
    x, y = _ordered(a), _ordered(b)
    differs = x != y
    low, high = torch.minimum(x, y), torch.maximum(x, y)
    diff = high - low  # wraps around into the unsigned 64-bit difference
    scale = torch.maximum(_float(x, a.dtype).abs(), _float(y, a.dtype).abs())
    unsigned = diff.to(torch.float64) + (diff < 0) * float(1 << 64)
    relative = torch.where(differs, unsigned / scale, torch.zeros_like(scale))
    # With the highest bit flipped, unsigned numbers have the order of signed ones.
    return _row(differs, torch.zeros_like(differs), (diff ^ _SIGN).max(), relative, start)


def _ordered(values: torch.Tensor) -> torch.Tensor:
    """As int64, in the same order and with the same differences."""
    return values.view(torch.int64) ^ _SIGN if values.dtype is torch.uint64 else values.to(torch.int64)


def _float(ordered: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    wide = ordered.to(torch.float64)
    return wide + float(1 << 63) if dtype is torch.uint64 else wide
