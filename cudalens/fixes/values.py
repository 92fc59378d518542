"""Compare the values of two runs: equal bit for bit, or how far apart."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

#: By how much values may differ, relative to the root mean square of a tensor: other orders of addition stay below.
TOLERANCES: Final[dict[torch.dtype, float]] = {
    torch.float64: 1e-11,
    torch.complex128: 1e-11,
    torch.float32: 5e-5,
    torch.complex64: 5e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 8e-2,
}

_MAX_DEPTH: Final = 6
#: A member of a module in a place: ``._modules['2']``.
_MEMBER: Final = re.compile(r"\._(?:modules|parameters|buffers)\['([\w.]+)'\]")
#: A tensor with more elements is compared by at most this many at a time.
_CHUNK: Final = 1 << 24


@dataclass(frozen=True)
class Difference:
    """How the values of two runs differ.

    Attributes:
        largest: Largest difference of an element, relative to the root mean square of its tensor.
        typical: Median difference of the elements of the tensor with the largest one, in the same unit.
        where: The value with the largest difference; "" where all are equal.
        mismatch: What cannot be compared (another shape, dtype or type; a missing value); "" where all can.
        num_values: Number of tensors and numbers that were compared.
        num_exact: Number of those that are equal bit for bit.
        is_known: Whether values were compared at all: a device without values has none.
        excess: `largest` of the tensors, each divided by the tolerance for its dtype.
        why_unknown: Why values were not compared.
    """

    largest: float = 0.0
    typical: float = 0.0
    where: str = ""
    mismatch: str = ""
    num_values: int = 0
    num_exact: int = 0
    is_known: bool = True
    excess: float = 0.0
    why_unknown: str = "the virtual device has no values"

    @property
    def is_exact(self) -> bool:
        """Whether all values are equal bit for bit."""
        return self.is_known and not self.mismatch and self.num_exact == self.num_values

    def is_within(self, tolerance: float | None = None) -> bool:
        """Whether all values differ by at most `tolerance`, by default the tolerance for their dtypes."""
        if self.mismatch or not self.is_known:
            return False
        return self.excess <= 1 if tolerance is None else self.largest <= tolerance

    def __str__(self) -> str:
        """``results equal bit for bit``; or the largest and the typical difference."""
        if not self.is_known:
            return f"results not compared ({self.why_unknown})"
        if self.mismatch:
            return f"results differ: {_with_paths(self.mismatch)}"
        if not self.num_values:
            return "no results to compare"
        if self.is_exact:
            return "results equal bit for bit"
        return (
            f"results differ by at most {self.largest:.1e} (typically {self.typical:.1e}) of their root mean square, "
            f"most in {_with_paths(self.where)}"
        )


def _with_paths(text: str) -> str:
    """`text` with modules, parameters and buffers named as in a state dict: ``model.blocks.2.weight``."""
    return _MEMBER.sub(r".\1", text)


def values_in(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the tensors, arrays and numbers in a value, each with the expression for it."""
    if isinstance(value, torch.Tensor | bool | int | float | complex | str | bytes) or _is_array(value):
        yield name, value
    elif depth >= _MAX_DEPTH:
        return
    elif isinstance(value, Mapping):
        for key, item in list(value.items()):
            yield from values_in(f"{name}[{key!r}]", item, depth + 1)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from values_in(f"{name}[{number}]", item, depth + 1)


def compare_values(first: Mapping[str, Any], second: Mapping[str, Any]) -> Difference:
    """Compare values by name; those that only `second` has are ignored.

    Args:
        first: The values of the reference.
        second: The values of the other run.
    """
    largest = typical = excess = 0.0
    where, num_exact = "", 0
    for name, value in first.items():
        if name not in second:
            return Difference(mismatch=f"{name} is missing")
        other = second[name]
        if mismatch := _mismatch(name, value, other):
            return Difference(mismatch=mismatch, num_values=len(first))
        if _is_same(value, other):
            num_exact += 1
            continue
        if isinstance(value, str | bytes):
            return Difference(mismatch=f"{name} is {other!r:.40} instead of {value!r:.40}", num_values=len(first))
        most, middle, tolerance = _distance(value, other)
        excess = max(excess, most / tolerance if tolerance else float("inf"))
        if most > largest or not where:
            largest, typical, where = most, middle, name
    return Difference(largest, typical, where, "", len(first), num_exact, True, excess)


def is_equal(value: Any, other: Any) -> bool:
    """Return whether two tensors or numbers are equal bit for bit."""
    return not _mismatch("", value, other) and _is_same(value, other)


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes")


def _mismatch(name: str, value: Any, other: Any) -> str:
    if isinstance(value, torch.Tensor) != isinstance(other, torch.Tensor):
        return f"{name} is {_kind(other)} instead of {_kind(value)}"
    if isinstance(value, torch.Tensor):
        if value.shape != other.shape:
            return f"{name} has shape {tuple(other.shape)} instead of {tuple(value.shape)}"
        if value.dtype != other.dtype:
            return f"{name} has dtype {other.dtype} instead of {value.dtype}"
        if value.is_meta != other.is_meta:
            return f"{name} is on the device {other.device} instead of {value.device}"
        return ""
    if _is_array(value) or _is_array(other):
        if _shape(value) != _shape(other):
            return f"{name} has shape {_shape(other)} instead of {_shape(value)}"
        return ""
    if isinstance(value, str | bytes) != isinstance(other, str | bytes):
        return f"{name} is {_kind(other)} instead of {_kind(value)}"
    return ""


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


def _is_same(value: Any, other: Any) -> bool:
    if isinstance(value, torch.Tensor):
        if value.is_meta:  # both are: they have no values
            return True
        return torch.equal(_bits(value), _bits(other.to(value.device)))
    if _is_array(value) or _is_array(other):
        return bool(getattr(value, "dtype", None) == getattr(other, "dtype", None) and _raw(value) == _raw(other))
    if isinstance(value, float) and isinstance(other, float):
        return struct.pack("d", value) == struct.pack("d", other)
    return bool(value == other)


def _raw(value: Any) -> Any:
    return value.tobytes() if _is_array(value) else value


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor as bytes: NaNs are equal to themselves, and zeros of both signs are not equal."""
    dense = tensor.detach()
    if dense.layout is not torch.strided:
        dense = dense.to_dense()
    if dense.is_quantized:
        dense = dense.int_repr()
    return dense.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def _distance(value: Any, other: Any) -> tuple[float, float, float]:
    """Largest and median difference relative to the root mean square of `value`, and the tolerance for its dtype."""
    if not isinstance(value, torch.Tensor):
        value, other = torch.as_tensor(value), torch.as_tensor(other)
    tolerance = TOLERANCES.get(value.dtype, 0.0)
    wide = torch.complex128 if value.is_complex() else torch.float64
    a, b = (
        one.detach().cpu().to_dense() if one.layout is not torch.strided else one.detach().cpu()
        for one in (value, other)
    )
    a, b = a.reshape(-1), b.reshape(-1)
    stride = max(1, a.numel() // _CHUNK + 1)
    a, b = a[::stride].to(wide), b[::stride].to(wide)
    both = (torch.isnan(a) & torch.isnan(b)) | (a == b)
    difference = torch.where(both, torch.zeros_like(a), a - b).abs()
    finite = a[torch.isfinite(a)].abs()
    scale = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    if not bool(torch.isfinite(difference).all()) or scale == 0:
        return float("inf") if bool((difference != 0).any()) else 0.0, float("inf"), tolerance
    relative = difference / scale
    return float(relative.max()), float(relative.median()), tolerance
