"""Functions of CUDA's libdevice for Triton's interpreter, which has none, on numpy arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from cudalens.virtual.dispatch.dispatch_utils import below_modes


def _by_torch(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """A function of numpy arrays by a torch function that numpy lacks."""

    def compute(*arrays: Any) -> Any:
        with below_modes():
            return function(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)).numpy()

    return compute


def _fused_multiply_add(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` with one rounding for float32 (the product of two is exact in float64)."""
    if a.dtype == np.float32:
        return (a.astype(np.float64) * b + c).astype(np.float32)
    return a * b + c


_special: Final = torch.special

#: By name of libdevice: the function of arrays, whose result has the dtype of the first argument.
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "add_rn": np.add,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "cospi": lambda a: np.cos(np.pi * a),
    "cyl_bessel_i0": _by_torch(_special.i0),
    "cyl_bessel_i1": _by_torch(_special.i1),
    "div_rn": np.divide,
    "erf": _by_torch(_special.erf),
    "erfc": _by_torch(_special.erfc),
    "erfcx": _by_torch(_special.erfcx),
    "erfinv": _by_torch(_special.erfinv),
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda a: np.power(10, a),
    "expm1": np.expm1,
    "fast_cosf": np.cos,
    "fast_expf": np.exp,
    "fast_dividef": np.divide,
    "fast_log2f": np.log2,
    "fast_logf": np.log,
    "fast_powf": np.power,
    "fast_sinf": np.sin,
    "fast_tanhf": np.tanh,
    "fdim": lambda a, b: np.maximum(a - b, 0),
    "floor": np.floor,
    "fma": _fused_multiply_add,
    "fma_rn": _fused_multiply_add,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "j0": _by_torch(_special.bessel_j0),
    "j1": _by_torch(_special.bessel_j1),
    "ldexp": lambda a, b: np.ldexp(a, b.astype(np.int32)),
    "lgamma": _by_torch(torch.lgamma),
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "mul_rn": np.multiply,
    "nearbyint": np.rint,
    "nextafter": np.nextafter,
    "normcdf": _by_torch(_special.ndtr),
    "normcdfinv": _by_torch(_special.ndtri),
    "pow": np.power,
    "rcbrt": lambda a: 1 / np.cbrt(a),
    "rcp_rn": lambda a: 1 / a,
    "remainder": lambda a, b: a - b * np.rint(a / b),
    "rhypot": lambda a, b: 1 / np.hypot(a, b),
    "rint": np.rint,
    "round": lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a),
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "sinh": np.sinh,
    "sinpi": lambda a: np.sin(np.pi * a),
    "sqrt": np.sqrt,
    "sqrt_rn": np.sqrt,
    "sub_rn": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "y0": _by_torch(_special.bessel_y0),
    "y1": _by_torch(_special.bessel_y1),
}

#: The same, with results of another type.
_TO_INT32: Final[dict[str, Callable[..., Any]]] = {
    "finitef": np.isfinite,
    "isfinited": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "signbit": np.signbit,
    "ilogb": lambda a: np.frexp(a)[1] - 1,
}
_TO_INT64: Final[dict[str, Callable[..., Any]]] = {
    "llrint": np.rint,
    "llround": lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a),
}


@functools.cache
def interpreted_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions that replace those of Triton's module, which are empty, by name."""
    from triton.language.extra import libdevice

    module: Any = libdevice
    names = [name for name in dir(module) if not name.startswith("_")]
    functions = [
        name for name in names if callable(getattr(module, name)) and not isinstance(getattr(module, name), type)
    ]
    return {name: _interpreted(name) for name in functions}


def _interpreted(name: str) -> Callable[..., Any]:
    for functions, dtype in ((_FUNCTIONS, None), (_TO_INT32, "int32"), (_TO_INT64, "int64")):
        if name in functions:
            return functools.partial(_apply, functions[name], dtype)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"libdevice.{name} has no implementation for the CPU")

    return refuse


def _apply(function: Callable[..., Any], dtype: str | None, *args: Any, **kwargs: Any) -> Any:
    """Apply a function of arrays to Triton's tensors and to numbers."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    tensor = next(arg for arg in args if isinstance(arg, tl.core.tensor))
    like = tensor.handle.data.dtype
    arrays = [
        arg.handle.data.astype(like) if isinstance(arg, tl.core.tensor) else np.asarray(_number(arg), like)
        for arg in args
    ]
    with np.errstate(all="ignore"):
        result = np.asarray(function(*np.broadcast_arrays(*arrays)))
    scalar = tensor.dtype if dtype is None else getattr(tl, dtype)
    result = result.astype(like if dtype is None else dtype)
    kind = tl.block_type(scalar, list(result.shape)) if tensor.type.is_block() or _has_block(args) else scalar
    return tl.core.tensor(TensorHandle(result, scalar), kind)


def _number(value: Any) -> Any:
    return getattr(value, "value", value)


def _has_block(args: tuple[Any, ...]) -> bool:
    return any(hasattr(arg, "type") and hasattr(arg.type, "is_block") and arg.type.is_block() for arg in args)
