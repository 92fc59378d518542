"""The operations and least bytes of an operator, by its recorded shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final, NamedTuple

import msgspec

from cudalens.analysis.time.roofline import convolutions
from cudalens.analysis.time.roofline.operators import Count, count

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
    """The facts of an operator from its name and the JSON of its inputs' shapes, dtypes and values."""
    dims, types = _lists(shapes), _lists(dtypes)
    if dims is None or types is None or len(dims) != len(types):
        return Facts(None, None, None)
    inputs = [(shape, _dtype(kind)) for shape, kind in zip(dims, types, strict=True) if kind not in _SCALARS]
    dtype = next((kind[0] for _, kind in inputs if kind and kind[0] in _FLOATS), None)
    shapes_of = [shape for shape, _ in inputs]
    if convolutions.NAMES.fullmatch(name):
        convolution = convolutions.convolution(name, dims, values)
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
    """The shapes of the tensors among an operator's inputs, from their JSON; None if it is not known."""
    found = _lists(shapes) if isinstance(shapes, str) else None
    return None if found is None else [shape for shape in found if _is_shape(shape) and shape]


def all_shapes(shapes: str | None) -> list[list[int]]:
    """The shape of each of an operator's inputs; empty where it is not the shape of a tensor."""
    return [shape if _is_shape(shape) and prod(shape) < _MAX_ELEMENTS else [] for shape in values_in(shapes)]


def values_in(text: str | None) -> list[Any]:
    """The JSON list in a text; empty if there is none."""
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
    """The field of each, -1 if unknown."""
    return (-1 if (value := getattr(one, field)) is None or value >= 1 << 62 else value for one in values)
