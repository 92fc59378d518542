"""Functions of CUDA's libdevice for Triton's interpreter, which has none, on numpy arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.patching import Patches


def _by_torch(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """A function of numpy arrays by a torch function that numpy lacks."""

    def compute(*arrays: Any) -> Any:
        with below_modes():
            return function(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)).numpy()

    return compute


_special: Final = torch.special

#: By name of libdevice: the function of arrays, whose result has the dtype of the first argument.
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
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
    "cyl_bessel_i0": _by_torch(_special.i0),
    "cyl_bessel_i1": _by_torch(_special.i1),
    "div_rn": np.divide,
    "erf": _by_torch(_special.erf),
    "erfc": _by_torch(_special.erfc),
    "erfcx": _by_torch(_special.erfcx),
    "erfinv": _by_torch(_special.erfinv),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fast_expf": np.exp,
    "floor": np.floor,
    "fma": lambda a, b, c: a * b + c,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "j0": _by_torch(_special.bessel_j0),
    "j1": _by_torch(_special.bessel_j1),
    "lgamma": _by_torch(torch.lgamma),
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "nextafter": np.nextafter,
    "normcdfinv": _by_torch(_special.ndtri),
    "pow": np.power,
    "rint": np.rint,
    "round": lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a),
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
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


def install(patches: Patches) -> None:
    """Replace the functions of Triton's module, which are empty: the compiler replaces their calls."""
    from triton.language.extra import libdevice

    module: Any = libdevice
    for name in dir(module):
        if name.startswith("_") or not callable(getattr(module, name)) or isinstance(getattr(module, name), type):
            continue
        patches.set(module, name, _interpreted(name))


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
