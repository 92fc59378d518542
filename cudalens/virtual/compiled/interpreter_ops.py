"""Operations of Triton's interpreter that compute other values than a GPU, as the GPU computes them.

Triton's interpreter holds bfloat16 and float8 numbers as integers, because numpy has no such dtypes. It computes with
those integers, and rounds towards zero where a GPU rounds to the nearest number. Here such numbers become float32 for
each operation, and its result is rounded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import torch

from cudalens.virtual.dispatch.dispatch_utils import below_modes

#: torch's dtypes of Triton's 8-bit floating-point types on NVIDIA GPUs, by name.
_FLOAT8: Final = {"fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}


def is_encoded(dtype: Any) -> bool:
    """Whether the interpreter holds numbers of a Triton type as integers."""
    scalar = dtype.scalar
    return bool(scalar.is_bf16() or scalar.is_fp8())


def decode(data: Any, dtype: Any) -> Any:
    """Return the numbers of an array as numpy's floats; other arrays as they are.

    Raises:
        NotImplementedError: The type is not one of NVIDIA's.
    """
    scalar = dtype.scalar
    if scalar.is_bf16():
        return (data.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if scalar.is_fp8():
        return _by_torch(data.view(np.uint8), lambda array: array.view(_float8(scalar)).float())
    return data


def encode(numbers: Any, dtype: Any, *, towards_zero: bool = False) -> Any:
    """Round floats to a Triton type as PTX's ``cvt.rn`` does, and return them as the interpreter holds them.

    Numbers that are too large for float8 become the largest finite one (``satfinite``).

    Raises:
        NotImplementedError: The type is not one of NVIDIA's, or the rounding mode is not available for it.
    """
    scalar = dtype.scalar
    numbers = np.ascontiguousarray(numbers, np.float32)
    if scalar.is_bf16():
        bits = numbers.view(np.uint32)
        half = np.uint32(0) if towards_zero else np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        rounded = ((bits + half) >> np.uint32(16)).astype(np.uint16)
        return np.where(np.isnan(numbers), np.uint16(0x7FFF), rounded)
    if towards_zero:
        raise NotImplementedError(f"rounding towards zero to {scalar}")
    float8 = _float8(scalar)
    largest = torch.finfo(float8).max
    return _by_torch(np.clip(numbers, -largest, largest), lambda array: array.to(float8).view(torch.uint8))


def _float8(scalar: Any) -> torch.dtype:
    if scalar.name not in _FLOAT8:
        raise NotImplementedError(f"{scalar} is not a type of NVIDIA GPUs")
    return _FLOAT8[scalar.name]


def _by_torch(array: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    with below_modes():
        return function(torch.from_numpy(np.ascontiguousarray(array))).numpy()


def _handle(data: Any, dtype: Any) -> Any:
    from triton.runtime.interpreter import TensorHandle

    return TensorHandle(data, dtype.scalar)


def _with_numbers(original: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of one or more tensors on the numbers of encoded ones; a condition remains one."""
    import triton.language as tl

    def compute(self: Any, *args: Any) -> Any:
        dtype = args[0].dtype.scalar
        if not is_encoded(dtype):
            return original(self, *args)
        numbers = [_handle(decode(arg.data, arg.dtype), tl.float32) if hasattr(arg, "data") else arg for arg in args]
        result = original(self, *numbers).data
        return _handle(result, tl.int1) if result.dtype == bool else _handle(encode(result, dtype), dtype)

    return compute


def _cast(self: Any, source: Any, dtype: Any, *, towards_zero: bool = False) -> Any:
    from triton.runtime.interpreter import _get_np_dtype

    numbers = decode(source.data, source.dtype)
    if is_encoded(dtype):
        return _handle(encode(numbers, dtype, towards_zero=towards_zero), dtype)
    converted = numbers.astype(_get_np_dtype(dtype))
    if towards_zero:
        too_large = np.abs(converted.astype(np.float64)) > np.abs(numbers)
        converted = np.where(too_large, np.nextafter(converted, converted.dtype.type(0)), converted)
    return _handle(converted, dtype)


def _cast_rounding(self: Any, source: Any, dtype: Any, rounding_mode: Any) -> Any:
    from triton._C.libtriton import ir

    return _cast(self, source, dtype, towards_zero=rounding_mode == ir.ROUNDING_MODE.RTZ)


def _dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
    dtype = d.dtype.scalar
    kind = np.float32 if is_encoded(dtype) else d.data.dtype
    product = np.matmul(decode(a.data, a.dtype), decode(b.data, b.dtype), dtype=kind)
    total = product + decode(d.data, dtype)
    return _handle(encode(total, dtype) if is_encoded(dtype) else total, dtype)


def _fused_multiply_add(self: Any, x: Any, y: Any, z: Any) -> Any:
    """``x * y + z`` with one rounding for float32 (the product of two is exact in float64)."""
    dtype = z.dtype.scalar
    x, y, z = (decode(value.data, value.dtype) for value in (x, y, z))
    total = x.astype(np.float64) * y + z if np.issubdtype(z.dtype, np.floating) else x * y + z
    return _handle(encode(total, dtype) if is_encoded(dtype) else total.astype(z.dtype), dtype)


def _clamp(self: Any, value: Any, low: Any, high: Any, propagate_nans: Any) -> Any:
    from triton._C.libtriton import ir

    numbers, least, most = (decode(each.data, value.dtype) for each in (value, low, high))
    clamped = np.fmin(np.fmax(numbers, least), most)
    if propagate_nans == ir.PROPAGATE_NAN.ALL:
        clamped = np.where(np.isnan(numbers), numbers, clamped)
    return _handle(encode(clamped, value.dtype) if is_encoded(value.dtype) else clamped, value.dtype)


def _constant(self: Any, value: Any) -> Any:
    import triton.language as tl

    return _handle(encode(np.array([value], np.float32), tl.bfloat16), tl.bfloat16)


def _all_ones(self: Any, dtype: Any) -> Any:
    """The number with all bits set; numpy does not convert -1 to unsigned integers."""
    from triton.runtime.interpreter import _get_np_dtype

    return _handle(~np.zeros(1, _get_np_dtype(dtype)), dtype)


#: PTX of Inductor's generated code: the function of its arguments.
_ASSEMBLY: Final[dict[str, Callable[..., Any]]] = {
    "fma.rn.f32 $0, $1, $2, $3;": lambda a, b, c: (a.astype(np.float64) * b + c).astype(np.float32),
    "rcp.approx.ftz.f32 $0, $1;": lambda a: np.float32(1) / a,
}


def _run_assembly(self: Any, text: str, constraints: str, values: Any, kinds: Any, is_pure: bool, pack: int) -> Any:
    if text.strip() not in _ASSEMBLY:
        raise NotImplementedError(f"it cannot run the inline assembly {text.strip()!r}")
    result = _handle(_ASSEMBLY[text.strip()](*(value.data for value in values)), kinds[0])
    return SimpleNamespace(get_result=lambda index: result)


def _atomic(original: Callable[..., Any]) -> Callable[..., Any]:
    def update(self: Any, operation: Any, pointer: Any, value: Any, mask: Any, sem: Any, scope: Any) -> Any:
        """Exchange floats by their bits; add bfloat16 numbers one after the other: several may have one address."""
        from triton._C.libtriton import ir
        from triton.runtime.interpreter import _interpreter as memory

        if not is_encoded(value.dtype):
            pointer, value, mask = (_contiguous(handle) for handle in (pointer, value, mask))
            if operation == ir.ATOMIC_OP.XCHG and value.dtype.is_floating():
                bits = _handle(value.data.view(f"i{value.data.itemsize}"), value.dtype)  # C++ exchanges integers only
                before = original(self, operation, pointer, bits, mask, sem, scope)
                return _handle(before.data.view(value.data.dtype), value.dtype)
            return original(self, operation, pointer, value, mask, sem, scope)
        if operation != ir.ATOMIC_OP.FADD:
            raise NotImplementedError(f"an atomic operation on {value.dtype.scalar} other than an addition")
        numbers, before = decode(value.data, value.dtype), np.zeros_like(value.data)
        yes = np.ones(1, bool)
        for index in zip(*np.nonzero(np.broadcast_to(mask.data, value.data.shape)), strict=True):
            address = pointer.data[index].reshape(1)
            old = memory.load(address, yes, np.zeros(1, before.dtype), before.dtype)
            before[index] = old[0]
            memory.store(address, encode(decode(old, value.dtype) + numbers[index], value.dtype), yes)
        return _handle(before, value.dtype)

    return update


def _compare_and_swap(original: Callable[..., Any]) -> Callable[..., Any]:
    def swap(self: Any, pointer: Any, compared: Any, value: Any, sem: Any, scope: Any) -> Any:
        pointer, compared, value = (_contiguous(handle) for handle in (pointer, compared, value))
        return original(self, pointer, compared, value, sem, scope)

    return swap


def _contiguous(handle: Any) -> Any:
    """The interpreter's C++ for atomic operations reads an array as if it were contiguous; a broadcast one is not."""
    from triton.runtime.interpreter import TensorHandle

    return TensorHandle(np.ascontiguousarray(handle.data), handle.dtype)


def _binary(operation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, left, right: self.binary_op(left, right, operation)


@functools.cache
def builder_methods() -> dict[str, Callable[..., Any]]:
    """Return the methods of Triton's ``InterpreterBuilder`` that are replaced, by name."""
    from triton.runtime.interpreter import InterpreterBuilder

    kind: Any = InterpreterBuilder
    return {
        "cast_impl": _cast,
        "create_fp_to_fp": _cast_rounding,
        "binary_op": _with_numbers(kind.binary_op),
        "unary_op": _with_numbers(kind.unary_op),
        "create_rsqrt": _with_numbers(kind.create_rsqrt),
        "create_dot": _dot,
        "create_fma": _fused_multiply_add,
        "create_clampf": _clamp,
        "create_minnumf": _binary(np.fmin),
        "create_maxnumf": _binary(np.fmax),
        "create_inline_asm": _run_assembly,
        "create_atomic_cas": _compare_and_swap(kind.create_atomic_cas),
        "create_atomic_rmw": _atomic(kind.create_atomic_rmw),
        "get_all_ones_value": _all_ones,
        "get_bf16": _constant,
    }
