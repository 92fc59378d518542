"""Values that a program reads where none was computed: defaults, `assume`, and the error that names the line."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.shapes import uniform
from cudalens.virtual.torch_cuda.stacks import is_library

if TYPE_CHECKING:
    from types import FrameType

_VALUE: Final = (
    "{what} is needed{where}, and this virtual device computes no values (values=False). Assume a value before that "
    "line: cudalens.virtual.assume(tensor, value); or read one default everywhere: "
    "cudalens.virtual.device(..., values=False, default=0.0); or compute values (values=True) with a smaller program."
)
_COUNT: Final = (
    "The number of results of {what} is needed{where}, and this virtual device computes no values (values=False). "
    "Assume how many elements of the mask are true, before that line: cudalens.virtual.assume(mask, count=100); or "
    "give one bound for all: cudalens.virtual.device(..., values=False, default_count=100); or compute values "
    "(values=True) with a smaller program."
)


def value_error(what: str) -> VirtualDeviceError:
    """The error where the program needs a value: the user's line and the ways out."""
    return VirtualDeviceError(_VALUE.format(what=what[:1].upper() + what[1:], where=_where()))


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a program reads where the value is unknown.

    Attributes:
        value: A number; None raises an error.
        num_rows: The number of results of an operator whose size depends on values; None raises an error.
    """

    value: float | None = None
    num_rows: int | None = None

    def number(self, what: str) -> float:
        """The default number.

        Raises:
            VirtualDeviceError: There is none.
        """
        if self.value is None:
            raise value_error(what)
        return self.value

    def count(self, what: str) -> int:
        """The default number of results.

        Raises:
            VirtualDeviceError: There is none.
        """
        if self.num_rows is None:
            raise VirtualDeviceError(_COUNT.format(what=what, where=_where()))
        return self.num_rows

    def host_copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor with values for one without, which the host reads: of its one value, or the default number.

        Raises:
            VirtualDeviceError: There is neither.
        """
        known = uniform.value_of(tensor)
        if known is not None:
            return known.expand(tensor.shape).clone()
        value = self.number("the contents of a tensor")
        return torch.full(tensor.shape, value, dtype=torch.float64).to(tensor.dtype)


def describe(tensor: torch.Tensor) -> str:
    """The text of a tensor without values, as torch prints meta tensors."""
    dtype = "" if tensor.dtype is torch.get_default_dtype() else f", dtype={tensor.dtype}"
    grad = f", grad_fn=<{type(tensor.grad_fn).__name__}>" if tensor.grad_fn is not None else ""
    grad = ", requires_grad=True" if not grad and tensor.requires_grad else grad
    text = f"tensor(..., device='{tensor.device}', size={tuple(tensor.shape)}{dtype}{grad})"
    return f"Parameter containing:\n{text}" if isinstance(tensor, torch.nn.Parameter) else text


def _where() -> str:
    """The user's line: `` at train.py, line 12 (print(loss.item()))``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return ""
    path, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(path, line, frame.f_globals).strip()
    return f" at {path}, line {line}" + (f" ({text})" if text else "")
