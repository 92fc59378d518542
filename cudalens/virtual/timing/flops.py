"""Count the floating-point operations of an operator with torch's formulas, and determine the compute unit.

The formulas are those of ``torch.utils.flop_counter``, which count a multiply-add as two and ignore causal masks. They
are registered for the operators that a GPU runs; torch's CPU variants use the same. An operator without a formula
counts one operation per element of its largest tensor, on the float32 (or float64) units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from cudalens.virtual.timing.traffic import stored_elements

_aten = torch.ops.aten

#: Computes the operations of a call from its arguments and its result.
Formula = Callable[[Sequence[Any], dict[str, Any], Any], int]

_MATRIX_KEYS: Final = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int8: "int8",
    torch.uint8: "int8",
    torch.complex64: "float32",
    torch.complex128: "float64",
}
_DOUBLE: Final = frozenset({torch.float64, torch.complex128})


def unit_of(dtype: torch.dtype | None, product: str | None = None) -> str:
    """Return the compute unit, one of `cudalens.gpus.registry.PEAK_KEYS`.

    Matrix products and convolutions of half precision, and of float32 if TF32 is allowed, run on tensor cores;
    everything else runs on the float32 or float64 units.

    Args:
        dtype: The computation type.
        product: "conv" or "matmul" for an operator with a formula (all of those are products); None for others.
    """
    if product is None:
        return "float64" if dtype in _DOUBLE else "float32"
    key = _MATRIX_KEYS.get(dtype) if dtype is not None else "float32"
    if key is None:
        return "float8" if "float8" in str(dtype) else "float32"
    return "tf32" if key == "float32" and allows_tf32(product) else key


def allows_tf32(what: str) -> bool:
    """Return whether torch's settings allow float32 products to round their inputs to TF32.

    The settings are ``fp32_precision`` or the older ``allow_tf32`` of ``torch.backends.cuda.matmul`` and
    ``torch.backends.cudnn.conv``; ``torch.set_float32_matmul_precision`` sets the former.

    Args:
        what: "matmul" or "conv".
    """
    if _precision is not None:
        return bool(_precision("cuda", what) == "tf32")
    return bool(torch._C._get_cublas_allow_tf32() if what == "matmul" else torch._C._get_cudnn_allow_tf32())


#: Newer versions of torch have one setting per backend and operator.
_precision: Callable[[str, str], str] | None = getattr(torch._C, "_get_fp32_precision_getter", None)


def formula_of(func: torch._ops.OpOverload) -> Formula | None:
    """Return the formula for an operator's operations, or None if it counts elements."""
    namespace, _, name = func._schema.name.partition("::")
    if namespace == "aten" and name.endswith("_"):  # in-place variants have no formula
        name = name.rstrip("_")
    if (own := _OWN.get(name)) is not None:
        return own
    packet = getattr(_aten, _SAME_AS.get(name, name), None) if namespace == "aten" else func._overloadpacket
    registered = flop_registry.get(packet)
    return None if registered is None else _from_registry(registered)


def _from_registry(registered: Callable[..., int]) -> Formula:
    """Return a registered formula, called with shapes instead of tensors; faster than its own wrapper."""
    bare = getattr(registered, "__wrapped__", None)
    if bare is None:  # takes tensors as they are
        return lambda args, kwargs, out: registered(*args, **kwargs, out_val=out)

    def count(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
        shapes = [value.shape if isinstance(value, Tensor) else value for value in args]
        named = {name: value.shape if isinstance(value, Tensor) else value for name, value in kwargs.items()}
        named.pop("out_shape", None)
        out_shape: Any
        if isinstance(out, Tensor):
            out_shape = out.shape
        else:
            out_shape = [item.shape if isinstance(item, Tensor) else item for item in out]
        return int(bare(*shapes, **named, out_shape=out_shape))

    return count


#: CPU operators that compute the same as another operator with the same first arguments.
_SAME_AS: Final = {"mkldnn_convolution": "convolution"}


def _mm(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """For ``mm`` and ``bmm``."""
    return 2 * stored_elements(args[0]) * int(args[1].shape[-1])


def _addmm(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    return 2 * stored_elements(args[1]) * int(args[2].shape[-1])


def _mv(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    return 2 * int(args[0].numel())


def _addmv(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    return 2 * int(args[1].numel())


def _linear(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    return 2 * int(args[0].numel()) * (int(args[1].shape[0]) if args[1].dim() == 2 else 1)


def _matmul(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    return 2 * int(out.numel()) * int(args[0].shape[-1])


def _attention(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """For ``(query, key, value, …)``: queries times keys, and scores times values."""
    query, key, value = args[:3]
    return 2 * _scores(query, key) * int(query.shape[-1] + value.shape[-1])


def _attention_backward(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """For ``(grad, query, key, value, …)``: the scores again, and one product per gradient, including the scores'."""
    query, key, value = args[1:4]
    return 2 * _scores(query, key) * int(3 * query.shape[-1] + 2 * value.shape[-1])


def _scores(query: Tensor, key: Tensor) -> int:
    """Return every query with every key, for every query head; keys may have fewer heads."""
    return query.numel() // max(int(query.shape[-1]), 1) * int(key.shape[-2])


def _rnn_layer(args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """For ``mkldnn_rnn_layer(input, w_ih, w_hh, …)``: both products for every step and batch element."""
    steps_and_batch = args[0].shape[0] * args[0].shape[1]
    return 2 * int(steps_and_batch) * int(args[1].numel() + args[2].numel())


_ATTENTION: Final = ("flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable")
#: Products for which torch has no formula, a slow one (they call each other through a wrapper that walks trees), or one
#: that covers fewer cases in older versions (fewer heads for keys); multiply-adds count as two here too.
_OWN: Final[dict[str, Formula]] = {
    **{f"_scaled_dot_product_{name}": _attention for name in _ATTENTION},
    **{f"_scaled_dot_product_{name}_backward": _attention_backward for name in _ATTENTION},
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "mm": _mm,
    "bmm": _mm,
    "addmm": _addmm,
    "baddbmm": _addmm,
    "_addmm_activation": _addmm,
    "_int_mm": _mm,
    "mv": _mv,
    "dot": _mv,
    "vdot": _mv,
    "addmv": _addmv,
    "addbmm": _addmm,
    "linear": _linear,
    "matmul": _matmul,
    "mkldnn_rnn_layer": _rnn_layer,
}
