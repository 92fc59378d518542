"""Results and operations of convolutions, by shapes and the recorded values of stride, padding and dilation.

The formulas are those of ``torch.utils.flop_counter``: two operations for each element of the result (transposed: of
the input), channel of the input and element of the filter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple

import msgspec

NAMES: Final = re.compile(r"aten::(?:_convolution|convolution(?:_overrideable)?|convolution_backward)")

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


def convolution(name: str, shapes: list[Any], values: str | None) -> Convolution | None:
    """The results and operations of a convolution or its backward pass; None if they are not known.

    Args:
        name: Its name, which `NAMES` matches.
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
    """The settings from the position `first` of the values on; None if they are not as expected."""
    found = [_value(text) for text in (_texts(values) or [])[first : first + 6]]
    if len(found) < 6:
        return None
    lists, flag, groups = [found[k] for k in (0, 1, 2, 4)], found[3], found[5]
    if not all(isinstance(one, list) for one in lists) or not isinstance(flag, bool) or type(groups) is not int:
        return None
    return _Settings(lists[0], lists[1], lists[2], flag, lists[3], groups)


def _mask(values: str | None) -> list[bool]:
    """Which gradients are asked for; both where that is not recorded."""
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
    """The size of the result in each dimension; None if the settings do not fit."""
    dims = len(source) - 2
    lists = [one * dims if len(one) == 1 else one for one in settings[:3]]
    extra = settings.output_padding * dims if len(settings.output_padding) == 1 else settings.output_padding
    if len(weight) != dims + 2 or any(len(one) != dims for one in (*lists, extra)) or min(lists[0], default=0) < 1:
        return None
    each = zip(source[2:], weight[2:], *lists, extra, strict=True)
    if settings.is_transposed:
        return [max((n - 1) * s - 2 * p + d * (k - 1) + more + 1, 0) for n, k, s, p, d, more in each]
    return [max((n + 2 * p - d * (k - 1) - 1) // s + 1, 0) for n, k, s, p, d, _ in each]
