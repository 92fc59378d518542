"""Memory formats that torch's shape functions leave out, because they depend on the backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch


def _convolution(out: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    """The memory format of a convolution's result: that of the CPU's backend, as with values."""
    source, weight, bias = args[:3]
    if weight.dim() < 4:
        return out
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    backend = torch._C._select_conv_backend(source, weight, bias=bias, **dict(zip(names, args[3:9], strict=True)))
    return out.to(memory_format=torch._C._conv_determine_backend_memory_format(source, weight, backend))


#: By operator name: the result in its memory format, from the meta result and the tensors of the call.
FORMATS: Final[dict[str, Callable[[Any, tuple[Any, ...]], Any]]] = {"convolution": _convolution}
