"""The time that a kernel of known shape usually takes on a GPU, and from which time on it is unusually slow.

The times are those of `cudalens.gpus.predict`, whose constants are fitted to measured times of real GPUs. They are
given only for families of kernels of which at least `_WITHIN_2X` per cent of the shapes that were not used for the fit
are within a factor of two, with a mean error of at most `_MAX_ERROR` per cent. So there are none for convolutions,
pointwise kernels (strides are not recorded), decoding attention, TF32 and float64. Softmax and layer norm were measured
in float32 only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from cudalens.analysis.time.roofline.shapes import all_shapes, values_in
from cudalens.gpus import predict
from cudalens.gpus.constants import accuracy
from cudalens.gpus.registry import DeviceSpec

_MAX_ERROR: Final = 15.0
_WITHIN_2X: Final = 97.0

#: A time is unusual from this factor on, plus three times the mean error. Chosen on one half of the measured products,
#: attention, softmax and layer norm of 20 µs or more. Of the other half, 0 to 4 % of each family and GPU are slower,
#: 0.8 % in the mean, and at twice their time 86 to 100 %.
_MARGIN: Final = 1.25
_ERRORS: Final = 3.0

#: Longer times (104 days) are those of no call.
_MAX_NS: Final = 1 << 53

#: Bytes of an element of the dtypes with measured times.
_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2}


class Expected(NamedTuple):
    """What a call usually takes.

    Attributes:
        ns: Time of its kernels, ns.
        limit: Factor of this time from which on a call is slower than the errors of the model explain.
        error_pct: Mean error of such times, in per cent.
        gpu: Key of the GPU.
    """

    ns: int
    limit: float
    error_pct: float
    gpu: str


def expected(
    spec: DeviceSpec | None, name: str, shapes: str | None, dtype: str | None, values: str | None
) -> Expected | None:
    """Return what a call usually takes on a GPU, or None if its kind was not measured on this GPU, or not well enough.

    Args:
        spec: The GPU.
        name: The operator, as ``aten::mm``.
        shapes: The shapes of its inputs, as JSON.
        dtype: dtype of its first floating-point input; "tf32" for float32 on tensor cores.
        values: ``Concrete Inputs``: the values of all inputs, as JSON.
    """
    formula = _FORMULAS.get(name.removeprefix("aten::"))
    if spec is None or formula is None or dtype not in _BYTES:
        return None
    found = formula(spec, dtype, all_shapes(shapes), values_in(values))
    return None if found is None else _judged(spec, *found)


_Found = tuple[str, int] | None


def _judged(spec: DeviceSpec, family: str, ns: int) -> Expected | None:
    fit = accuracy()[family]["gpus"].get(spec.key)
    if fit is None or fit["mean_error_pct"] > _MAX_ERROR or fit["within_2x_pct"] < _WITHIN_2X or ns > _MAX_NS:
        return None
    error = float(fit["mean_error_pct"])
    return Expected(ns, _MARGIN + _ERRORS * error / 100, error, spec.key)


def _product(spec: DeviceSpec, dtype: str, shapes: list[Any], values: list[Any]) -> _Found:
    """None where the time depends on the alignment of rows, which follows from strides that are not recorded."""
    matrices = [shape for shape in shapes if len(shape) in (2, 3)][-2:]
    if len(matrices) < 2 or len(matrices[0]) != len(matrices[1]) or matrices[0][-1] != matrices[1][-2]:
        return None
    *batch, m, k = matrices[0]
    n, size = matrices[1][-1], _BYTES[dtype]
    if not min(*batch, m, n, k):
        return None
    family = "matrix_single" if dtype == "float32" else "matrix_half"
    if dtype != "float32" and min(m, n) > 1 and math.gcd(16, n * size, k * size) < 16:
        return None
    ns = predict.matrix_ns(spec, dtype, math.prod(batch), m, n, k, size)
    return family, predict.PROGRAM_NS + ns


def _attention(spec: DeviceSpec, dtype: str, shapes: list[Any], values: list[Any]) -> _Found:
    """Fused attention over many queries; without the causal mask where it is not recorded, which takes longer."""
    if dtype == "float32" or len(shapes) < 3 or any(len(shape) != 4 for shape in shapes[:3]):
        return None
    (batch, queries, heads, dim), (_, keys, kv_heads, _) = shapes[:2]
    if queries <= predict.DECODE_QUERIES or not min(batch, heads, keys, kv_heads, dim):
        return None
    is_causal = len(values) > 8 and values[8] == "True"
    sizes = (batch, queries, keys, heads, kv_heads, (dim + shapes[2][3]) // 2)
    return "attention", predict.attention_ns(spec, dtype, *sizes, is_causal, _BYTES[dtype])


def _softmax(spec: DeviceSpec, dtype: str, shapes: list[Any], values: list[Any]) -> _Found:
    """Over the last dimension only; None where the dimension is not recorded."""
    shape = shapes[0] if shapes else []
    if not shape or len(values) < 2 or values[1] not in ("-1", str(len(shape) - 1)):
        return None
    return _rows(spec, "softmax", dtype, shape, shape[-1])


def _layer_norm(spec: DeviceSpec, dtype: str, shapes: list[Any], values: list[Any]) -> _Found:
    """Over as many dimensions as the weight has; None without a weight."""
    if len(shapes) < 3 or not shapes[0] or not shapes[2]:
        return None
    return _rows(spec, "layer_norm", dtype, shapes[0], math.prod(shapes[2]))


def _rows(spec: DeviceSpec, kind: str, dtype: str, shape: Sequence[int], length: int) -> _Found:
    total, size = math.prod(shape), _BYTES[dtype]
    if dtype != "float32" or not total or not length or total % length:
        return None
    return kind, predict.rows_ns(spec, kind, total // length, length, 2 * total * size, size)


_FORMULAS: Final[dict[str, Callable[[DeviceSpec, str, list[Any], list[Any]], _Found]]] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm"), _product),
    "_flash_attention_forward": _attention,
    **dict.fromkeys(("_softmax", "_log_softmax"), _softmax),
    "native_layer_norm": _layer_norm,
}
