"""The operations and least bytes of an operator, by its recorded shapes and dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Final, NamedTuple

import msgspec

CONVOLUTION_NAMES: Final = re.compile(r"aten::(?:_convolution|convolution(?:_overrideable)?|convolution_backward)")

_BACKWARD: Final = "aten::convolution_backward"


class Convolution(NamedTuple):
    """What a convolution computes.

    Attributes:
        result: Elements of its results.
        flops: Operations.
    """

    result: int
    flops: int


class _Settings(NamedTuple):
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    is_transposed: bool
    output_padding: list[int]
    groups: int


def count_convolution(name: str, shapes: list[Any], values: str | None) -> Convolution | None:
    """Return the results and operations of a convolution or its backward pass, or None if they are not known.

    Args:
        name: Its name, which `CONVOLUTION_NAMES` matches.
        shapes: The shapes of all inputs, ``[]`` for those that are no tensors.
        values: ``Concrete Inputs``: the values of all inputs as a JSON list of texts.
    """
    is_backward = name == _BACKWARD
    first = 1 if is_backward else 0
    tensors = shapes[: first + 2]
    settings = _settings(values, first + 3)
    if settings is None or len(tensors) < first + 2 or not all(map(_is_tensor, tensors)):
        return None
    source, weight = tensors[first:]
    if is_backward:
        return _backward(tensors[0], source, weight, settings, values)
    size = _output(source, weight, settings)
    if size is None:
        return None
    channels = weight[1] * settings.groups if settings.is_transposed else weight[0]
    where = source[2:] if settings.is_transposed else size
    return Convolution(source[0] * channels * prod(size), 2 * source[0] * prod(where) * prod(weight))


def _backward(
    grad: Sequence[int], source: Sequence[int], weight: Sequence[int], settings: _Settings, values: str | None
) -> Convolution:
    """One convolution for each of the gradients of input and weights that is asked for."""
    where = source[2:] if settings.is_transposed else grad[2:]
    once = 2 * source[0] * prod(where) * prod(weight)
    mask = _mask(values)
    asked = [prod(shape) for shape, is_asked in zip((source, weight), mask, strict=False) if is_asked]
    return Convolution(sum(asked), once * len(asked))


def _is_tensor(shape: Any) -> bool:
    return isinstance(shape, list) and len(shape) >= 3 and all(type(n) is int and n >= 0 for n in shape)


def _settings(values: str | None, first: int) -> _Settings | None:
    """Return the settings from the position `first` of the values on, or None if they are not as expected."""
    found = [_value(text) for text in (_texts(values) or [])[first : first + 6]]
    if len(found) < 6:
        return None
    lists, flag, groups = [found[k] for k in (0, 1, 2, 4)], found[3], found[5]
    if not all(isinstance(one, list) for one in lists) or not isinstance(flag, bool) or type(groups) is not int:
        return None
    return _Settings(lists[0], lists[1], lists[2], flag, lists[3], groups)


def _mask(values: str | None) -> list[bool]:
    """Return which gradients are asked for; both where that is not recorded."""
    texts = _texts(values) or []
    found = _value(texts[10]) if len(texts) > 10 else None
    return found if isinstance(found, list) and len(found) >= 2 else [True, True]


def _texts(values: str | None) -> list[str] | None:
    try:
        found = msgspec.json.decode(values) if isinstance(values, str) else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else None


def _value(text: str) -> Any:
    """A value as torch writes it: ``[1, 1]``, ``False``, ``1``."""
    try:
        return msgspec.json.decode(text.replace("True", "true").replace("False", "false"))
    except (msgspec.DecodeError, RecursionError):
        return None


def _output(source: Sequence[int], weight: Sequence[int], settings: _Settings) -> list[int] | None:
    """Return the size of the result in each dimension, or None if the settings do not fit."""
    dims = len(source) - 2
    lists = [one * dims if len(one) == 1 else one for one in settings[:3]]
    extra = settings.output_padding * dims if len(settings.output_padding) == 1 else settings.output_padding
    if len(weight) != dims + 2 or any(len(one) != dims for one in (*lists, extra)) or min(lists[0], default=0) < 1:
        return None
    each = zip(source[2:], weight[2:], *lists, extra, strict=True)
    if settings.is_transposed:
        return [max((n - 1) * s - 2 * p + d * (k - 1) + more + 1, 0) for n, k, s, p, d, more in each]
    return [max((n + 2 * p - d * (k - 1) - 1) // s + 1, 0) for n, k, s, p, d, _ in each]


Shape = Sequence[int]


class Count(NamedTuple):
    """What a call computes.

    Attributes:
        result: Elements of its results, of the dtype of its first input.
        flops: Operations; None if they are not counted.
        read: Elements that it reads of its first input; None for all.
    """

    result: int
    flops: int | None = None
    read: int | None = None


def count(name: str, shapes: list[Shape]) -> Count | None:
    """Return the results and operations of an operator, or None if its name or its shapes are not known.

    Args:
        name: Its name, as ``aten::mm``.
        shapes: The shapes of its tensor inputs; an optional tensor that is not given is ``[]``.
    """
    for pattern, formula in _FORMULAS:
        if pattern.fullmatch(name):
            return formula(name, shapes)
    return None


def _product(name: str, shapes: list[Shape]) -> Count | None:
    """2 m n k: the last two inputs are the factors."""
    rank = 3 if "bmm" in name else 2
    matrices = [shape for shape in shapes if len(shape) == rank][-2:]
    if len(matrices) < 2 or matrices[0][-1] != matrices[1][-2] or matrices[0][:-2] != matrices[1][:-2]:
        return None
    result = prod(matrices[0][:-1]) * matrices[1][-1]
    return Count(result, 2 * result * matrices[0][-1])


def _sizes(name: str, q: Shape, k: Shape, v: Shape) -> tuple[int, int, int, int, int] | None:
    """Batch times heads, queries, keys, and the widths of keys and values of an attention; None if they do not fit.

    ``scaled_dot_product`` operators have heads before positions, the kernels' own operators after them.
    """
    if not len(q) == len(k) == len(v) == 4 or q[3] != k[3] or q[0] != k[0]:
        return None
    heads, at = (1, 2) if "scaled_dot_product" in name else (2, 1)
    return (q[0] * q[heads], q[at], k[at], q[3], v[3]) if k[at] == v[at] else None


def _attention(name: str, shapes: list[Shape]) -> Count | None:
    """2 s t (e + v) for each head: queries times keys, and weights times values."""
    sizes = _sizes(name, *shapes[:3]) if len(shapes) >= 3 else None
    if sizes is None:
        return None
    heads, queries, keys, width, width_v = sizes
    return Count(heads * queries * width_v, 2 * heads * queries * keys * (width + width_v))


def _attention_backward(name: str, shapes: list[Shape]) -> Count | None:
    """2 s t (3 e + 2 v) for each head: the weights again, and the gradients of weights, queries, keys and values."""
    sizes = _sizes(name, *shapes[1:4]) if len(shapes) >= 4 else None
    if sizes is None:
        return None
    heads, queries, keys, width, width_v = sizes
    return Count(sum(map(prod, shapes[1:4])), 2 * heads * queries * keys * (3 * width + 2 * width_v))


def _like_first(name: str, shapes: list[Shape]) -> Count | None:
    """Return a result of the size of the first input."""
    return Count(prod(shapes[0])) if shapes and shapes[0] else None


def _embedding(name: str, shapes: list[Shape]) -> Count | None:
    """Return the rows of a table that the indices select."""
    if len(shapes) < 2 or len(shapes[0]) != 2:
        return None
    rows = prod(shapes[1]) * shapes[0][1]
    return Count(rows, read=rows)


_KERNELS: Final = r"(?:flash|efficient|cudnn|fused)_attention"
_FORMULAS: Final[tuple[tuple[re.Pattern[str], Callable[[str, list[Shape]], Count | None]], ...]] = tuple(
    (re.compile(pattern), formula)
    for pattern, formula in (
        (r"aten::(?:mm|addmm|bmm|baddbmm)", _product),
        (rf"aten::(?:scaled_dot_product_attention|_scaled_dot_product_{_KERNELS}(?:_for_cpu)?)", _attention),
        (rf"aten::_{_KERNELS}_forward", _attention),
        (rf"aten::_(?:scaled_dot_product_)?{_KERNELS}_backward", _attention_backward),
        (r"aten::(?:native_(?:layer|group|batch)_norm|(?:cudnn|miopen)_batch_norm|_fused_rms_norm)", _like_first),
        (r"aten::(?:_softmax|_log_softmax|gelu|silu|relu|sigmoid|tanh|exp|neg|sqrt|rsqrt)", _like_first),
        (r"aten::embedding", _embedding),
    )
)


#: dtype and size in bytes of each C++ type in ``Input type``.
_DTYPES: Final = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "half": ("float16", 2),
    "bfloat16": ("bfloat16", 2),
    "long int": ("int64", 8),
    "long": ("int64", 8),
    "int": ("int32", 4),
    "short": ("int16", 2),
    "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "bool": ("bool", 1),
    "complex<float>": ("complex64", 8),
    "complex<double>": ("complex128", 16),
}

#: No tensor has as many elements.
_MAX_ELEMENTS: Final = 1 << 48

_FLOATS: Final = frozenset({"float64", "float32", "float16", "bfloat16", "float8", "complex64", "complex128"})


class Facts(NamedTuple):
    """Facts from the shapes of one call; None if unknown.

    Attributes:
        dtype: dtype of its first floating-point input.
        num_bytes: Size of its inputs, and of its result where `count` knows it, each once.
        flops: Operations, where `count` knows them.
    """

    dtype: str | None
    num_bytes: int | None
    flops: int | None


def facts(name: str, shapes: str | None, dtypes: str | None, values: str | None = None) -> Facts:
    """Return the facts of an operator from its name and the JSON of its inputs' shapes, dtypes and values."""
    dims, types = _lists(shapes), _lists(dtypes)
    if dims is None or types is None or len(dims) != len(types):
        return Facts(None, None, None)
    inputs = [(shape, _dtype(kind)) for shape, kind in zip(dims, types, strict=True) if kind not in _SCALARS]
    dtype = next((kind[0] for _, kind in inputs if kind and kind[0] in _FLOATS), None)
    shapes_of = [shape for shape, _ in inputs]
    if CONVOLUTION_NAMES.fullmatch(name):
        convolution = count_convolution(name, dims, values)
        found = None if convolution is None else Count(*convolution)
    else:
        found = count(name, shapes_of) if all(map(_is_shape, shapes_of)) else None
    flops = found.flops if found else None
    if not inputs or any(kind is None or not _is_shape(shape) for shape, kind in inputs):
        return Facts(dtype, None, flops)
    num_bytes = sum(prod(shape) * kind[1] for shape, kind in inputs if kind)
    if found:
        unread = prod(shapes_of[0]) - found.read if found.read is not None else 0
        num_bytes += (found.result - unread) * (inputs[0][1] or ("", 0))[1]
    return Facts(dtype, num_bytes, flops)


def input_shapes(shapes: str | None) -> list[list[int]] | None:
    """Return the shapes of the tensors among an operator's inputs, from their JSON, or None if it is not known."""
    found = _lists(shapes) if isinstance(shapes, str) else None
    return None if found is None else [shape for shape in found if _is_shape(shape) and shape]


def all_shapes(shapes: str | None) -> list[list[int]]:
    """Return the shape of each of an operator's inputs; empty where it is not the shape of a tensor."""
    return [shape if _is_shape(shape) and prod(shape) < _MAX_ELEMENTS else [] for shape in values_in(shapes)]


def values_in(text: str | None) -> list[Any]:
    """Return the JSON list in a text; empty if there is none."""
    return (_lists(text) if isinstance(text, str) else None) or []


_SCALARS: Final = ("Scalar", "ScalarList", "Int", "Bool", "Float", "GenericList", "Device", "")


def _lists(text: str | None) -> list[Any] | None:
    try:
        value = msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape)


def _dtype(kind: Any) -> tuple[str, int] | None:
    if not isinstance(kind, str):
        return None
    plain = kind.removeprefix("c10::").lower()
    return ("float8", 1) if plain.startswith("float8") else _DTYPES.get(plain)


def numbers_of(values: list[Facts], field: str) -> Iterator[int]:
    """Return the field of each, -1 if unknown."""
    return (-1 if (value := getattr(one, field)) is None or value >= 1 << 62 else value for one in values)
