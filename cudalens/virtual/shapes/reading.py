"""Values that a program reads or writes to a file where none was computed: defaults, `assume`, and the errors."""

from __future__ import annotations

import linecache
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.device.stacks import file_label
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.shapes import storage as uniform
from cudalens.virtual.shapes.storage import NO_VALUES_KEY, lacks_values
from cudalens.virtual.tensors.arenas import set_storage
from cudalens.virtual.torch_cuda.stacks import is_library

if TYPE_CHECKING:
    from types import FrameType


def assume(tensor: torch.Tensor, value: Any = None, *, count: int | None = None) -> torch.Tensor:
    """Give a tensor the values to use on a virtual device without values (``values=False``).

    The program can then read it (``.item()``, ``.cpu()``, a branch), and use it where a size depends on values. What is
    computed from small tensors with values has values too. The values are kept until an operator without values writes
    the tensor. Without such a device, or for a tensor with values, the call does nothing.

    Args:
        tensor: A tensor without values. Views of it that exist already remain without values.
        value: A number, or numbers in the shape of the tensor.
        count: Instead: the number of true (non-zero) elements, such as the rows that ``x[tensor]`` selects.

    Returns:
        `tensor`.

    Raises:
        ValueError: Not one of `value` and `count` is given; or `count` exceeds the number of elements.
        RuntimeError: `value` does not have the shape of the tensor; torch's message.
    """
    if (value is None) == (count is None):
        raise ValueError("assume() takes a value or a count: assume(loss, 2.5), or assume(mask, count=100).")
    if count is not None and not 0 <= count <= tensor.numel():
        raise ValueError(f"count is {count}; expected a number from 0 to {tensor.numel()}, the elements of the tensor.")
    if not lacks_values(tensor):
        return tensor
    with below_modes():
        before: Any = tensor.untyped_storage()
        storage: Any = torch.zeros(before.nbytes(), dtype=torch.uint8).untyped_storage()
        there = torch.empty(0, dtype=tensor.dtype)
        there.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        if count is None:
            there.copy_(torch.as_tensor(value))
        else:
            there.copy_((torch.arange(tensor.numel()) < count).view(tensor.shape))
        storage.__dict__.update({key: kept for key, kept in before.__dict__.items() if key != NO_VALUES_KEY})
        set_storage(tensor, storage)
    return tensor


_VALUE: Final = (
    "{what} is needed{where}, and this virtual device computes no values (values=False). Assume a value before that "
    "line: cudalens.virtual.assume(tensor, value); or read one default everywhere: default=0.0 of "
    "cudalens.virtual.device(..., values=False), job, plan or fit; or compute values (values=True) with a smaller "
    "program."
)
_CONTENTS: Final = (
    "{what} is needed{where}, and this virtual device computes no values (values=False). A default number does not "
    "replace it: leave that line out; or assume values before it: cudalens.virtual.assume(tensor, value); or compute "
    "values (values=True) with a smaller program."
)
_WAITS: Final = (
    "The program{where} has read {value:g} {count:,} times, and may wait for another value: this virtual device "
    "computes no values (values=False). Assume a value before that line: cudalens.virtual.assume(tensor, value); or "
    "read another default everywhere (default=1.0); or compute values (values=True) with a smaller program."
)
_COUNT: Final = (
    "The number of results of {what} is needed{where}, and this virtual device computes no values (values=False). "
    "Assume how many elements of the mask are true, before that line: cudalens.virtual.assume(mask, count=100); or "
    "give one bound for all: default_count=100 of cudalens.virtual.device(..., values=False), job or fit; or compute "
    "values (values=True) with a smaller program."
)


def value_error(what: str) -> VirtualDeviceError:
    """Return the error where the program needs a value: the user's line and the ways out."""
    return VirtualDeviceError(_VALUE.format(what=what[:1].upper() + what[1:], where=_where()))


def contents_error(what: str) -> VirtualDeviceError:
    """Return the error where the program needs the contents of memory, which a default number does not replace."""
    return VirtualDeviceError(_CONTENTS.format(what=what[:1].upper() + what[1:], where=_where()))


#: A line that reads the default so often waits for another value: ``while not done.item()``.
_MOST_READS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a program reads where the value is unknown, and the files that it cannot write.

    Attributes:
        value: A number; None raises an error.
        num_rows: The number of results of an operator whose size depends on values; None raises an error.
        skips_files: Whether `torch.save` of unknown values writes no file and notes it; otherwise it is an error.
        read_at: The user's lines that read `value`: place (``train.py:12``) and text, in their order, each once.
        num_reads: The number of reads of each, by the device that is enabled.
        unwritten: By path, the place and the text of the line that would have written the file.
    """

    value: float | None = None
    num_rows: int | None = None
    skips_files: bool = False
    read_at: dict[tuple[str, str], None] = field(default_factory=dict)
    num_reads: Counter[tuple[str, str]] = field(default_factory=Counter)
    unwritten: dict[str, tuple[str, str]] = field(default_factory=dict)

    def number(self, what: str) -> float:
        """Return the default number.

        Raises:
            VirtualDeviceError: There is none; or the line has read it so often that it waits for another value.
        """
        if self.value is None:
            raise value_error(what)
        line = users_line()
        self.read_at.setdefault(line)
        self.num_reads[line] += 1
        if self.num_reads[line] >= _MOST_READS:
            raise VirtualDeviceError(_WAITS.format(where=_where(), value=self.value, count=_MOST_READS))
        return self.value

    def count(self, what: str) -> int:
        """Return the default number of results.

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
    """Return the text of a tensor without values, as torch prints meta tensors."""
    dtype = "" if tensor.dtype is torch.get_default_dtype() else f", dtype={tensor.dtype}"
    grad = f", grad_fn=<{type(tensor.grad_fn).__name__}>" if tensor.grad_fn is not None else ""
    grad = ", requires_grad=True" if not grad and tensor.requires_grad else grad
    text = f"tensor(..., device='{tensor.device}', size={tuple(tensor.shape)}{dtype}{grad})"
    return f"Parameter containing:\n{text}" if isinstance(tensor, torch.nn.Parameter) else text


def users_line() -> tuple[str, str]:
    """Return the place (``train.py:12``) and the text of the user's line."""
    path, line, text = _users_line()
    return f"{path}:{line}", text


def _where() -> str:
    """Return the user's line in words: `` at train.py, line 12 (print(loss.item()))``; nothing without one."""
    path, line, text = _users_line()
    if not path:
        return ""
    return f" at {path}, line {line}" + (f" ({text})" if text else "")


def _users_line() -> tuple[str, int, str]:
    """Return the file (``In[3]`` for a cell), number and text of the user's line; an empty file without one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "", 0, ""
    path, line = frame.f_code.co_filename, frame.f_lineno
    return file_label(path), line, linecache.getline(path, line, frame.f_globals).strip()
