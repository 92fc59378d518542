"""CPU tensors whose values a function uses on the device: constants of its code, small tensors from outside, arguments.

A copy from pageable memory cannot be captured. Its source is one of three:

- A CPU tensor that the function makes. Its values depend on nothing but Python values and other CPU tensors, which are
  compared before each replay. So the recording holds a copy on the device.
- A small CPU tensor from outside: its bytes are compared before each replay.
- A CPU argument, a view of one, or a copy of it in pinned memory: each replay copies it to the device first, as the
  function does.

In the capture, the operator gets the copy on the device in place of the CPU tensor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch

from cudalens.errors import GraphError
from cudalens.graphs.guards.named_tensors import form_of
from cudalens.graphs.liveness import storage_id

#: Bytes of a CPU tensor from outside beyond which it is not compared.
MOST_COMPARED_BYTES: Final = 4_096

#: Bytes of a constant beyond which it is not held on the device.
MOST_CONSTANT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Upload:
    """A CPU tensor that an operator copies to the device.

    Attributes:
        dtype: Of the copy; the conversion is done on the CPU, as torch does.
        value: A copy of a constant, on the CPU; None for an argument.
        argument: Position of the argument among the tensors of the call; -1 for a constant.
        size: Of an argument, or of a view of it.
        stride: Its strides.
        offset: Where it begins, in elements from the first element of the argument.
        is_asynchronous: Whether the function copies it with ``non_blocking=True``.
        buffer: The copy on the device; None before there is a recording.
    """

    dtype: torch.dtype
    value: torch.Tensor | None = None
    argument: int = -1
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    offset: int = 0
    is_asynchronous: bool = False
    buffer: torch.Tensor | None = field(default=None, compare=False)

    def is_same(self, other: Upload) -> bool:
        """Whether another call copies the same: an argument of the same form, or a constant with equal bytes."""
        if self.value is None or other.value is None:
            return replace(self, buffer=None) == replace(other, buffer=None)
        a, b = self.value, other.value
        if self.dtype != other.dtype or a.dtype != b.dtype or a.shape != b.shape or a.stride() != b.stride():
            return False
        return a.numel() == 0 or _bytes_of(a) == _bytes_of(b)

    def on_device(self, tensors: Sequence[torch.Tensor], device: int) -> Upload:
        """The same with its copy on the device.

        Args:
            tensors: The tensors among the arguments of the call.
            device: Index of the device.
        """
        source = self._source(tensors).to(self.dtype)
        buffer = torch.empty_like(source, device=torch.device("cuda", device), memory_format=torch.preserve_format)
        return replace(self, buffer=buffer.copy_(source))

    def renew(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copy an argument of another call to the device; a constant stays."""
        if self.value is None and self.buffer is not None:
            self.buffer.copy_(self._source(tensors), non_blocking=self.is_asynchronous)

    def _source(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        if self.value is not None:
            return self.value
        given = tensors[self.argument]
        return given.as_strided(self.size, self.stride, int(given.storage_offset()) + self.offset)


def _bytes_of(tensor: torch.Tensor) -> bytes:
    return ctypes.string_at(tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes())


class HostValue(tuple[Any, ...]):
    """Form and bytes of a CPU tensor; its text is the list of its elements."""

    __slots__ = ()

    def __repr__(self) -> str:
        data, dtype = self[-1], self[4]
        return repr(torch.frombuffer(bytearray(data), dtype=dtype).tolist()) if data else "[]"


class HostContents:
    """Form and bytes of a small CPU tensor in a place where the program keeps it."""

    __slots__ = ("_container", "_key")

    def __init__(self, container: Any, key: Any) -> None:
        self._container, self._key = container, key

    def __getitem__(self, key: str) -> HostValue:
        tensor = self._container[self._key]
        if tensor.is_cuda or tensor.untyped_storage().nbytes() > MOST_COMPARED_BYTES:
            raise ValueError("not a small CPU tensor")
        return HostValue((*form_of(tensor)[:-1], tensor.requires_grad, _bytes_of(tensor)))


def is_small(tensor: torch.Tensor) -> bool:
    """Whether the bytes of a CPU tensor can be compared before each replay."""
    return tensor.untyped_storage().nbytes() <= MOST_COMPARED_BYTES and not tensor.requires_grad


class Uploads:
    """The copies of CPU tensors to the device in one run of a function.

    Args:
        tensors: The tensors among its arguments.
        known: What a warm-up copied, with the copies on the device; None in a warm-up.

    Attributes:
        found: What this run copied so far.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], known: Sequence[Upload] | None) -> None:
        on_host = [(n, tensor) for n, tensor in enumerate(tensors) if tensor.device.type == "cpu"]
        self._arguments = {storage_id(tensor): (n, int(tensor.storage_offset())) for n, tensor in reversed(on_host)}
        self._copies: dict[int, torch.Tensor] = {}
        self._known = known
        self.found: list[Upload] = []

    @property
    def is_capture(self) -> bool:
        """Whether the run is a capture; it has to copy what the warm-up copied."""
        return self._known is not None

    def is_argument(self, tensor: torch.Tensor) -> bool:
        """Whether a CPU tensor is an argument or a view of one."""
        return bool(self._arguments) and storage_id(tensor) in self._arguments

    def note_copy(self, source: torch.Tensor, copy: torch.Tensor) -> bool:
        """Note a CPU tensor with the values of an argument or of a view of one, such as its copy in pinned memory.

        Returns:
            Whether the elements of both are in the same order; otherwise nothing is noted.
        """
        if source.shape != copy.shape or source.stride() != copy.stride() or copy.storage_offset():
            return False
        position, start = self._arguments[storage_id(source)]
        self._copies[storage_id(copy)] = copy  # as long as it lives, no other storage has its identity
        self._arguments[storage_id(copy)] = position, start - int(source.storage_offset())
        return True

    def position(self, tensor: torch.Tensor) -> int:
        """Position of the argument that a CPU tensor is a view of, among the tensors of the call."""
        return self._arguments[storage_id(tensor)][0]

    def add(self, source: torch.Tensor, dtype: torch.dtype, *, is_asynchronous: bool) -> torch.Tensor:
        """Note a copy to the device.

        Args:
            source: The CPU tensor.
            dtype: Of the copy.
            is_asynchronous: Whether the copy has ``non_blocking=True``.

        Returns:
            What the operator is called with: the CPU tensor in a warm-up, its copy on the device in a capture.

        Raises:
            GraphError: In a capture, the warm-up copied something else.
        """
        made = self._upload(source, dtype, is_asynchronous=is_asynchronous)
        number = len(self.found)
        self.found.append(made)
        if self._known is None:
            return source
        if number >= len(self._known) or not self._known[number].is_same(made):
            raise GraphError("copies other values to the device than in its warm-up")
        buffer = self._known[number].buffer
        assert buffer is not None
        return buffer

    def _upload(self, source: torch.Tensor, dtype: torch.dtype, *, is_asynchronous: bool) -> Upload:
        if not self.is_argument(source):
            return Upload(dtype, source.detach().to(dtype, copy=True))
        position, start = self._arguments[storage_id(source)]
        offset = int(source.storage_offset()) - start
        form = tuple(source.shape), tuple(source.stride()), offset
        # A replay copies from the argument itself, which the program may change while a copy in its place is read.
        return Upload(dtype, None, position, *form, is_asynchronous and storage_id(source) not in self._copies)


def can_be_constant(tensor: torch.Tensor) -> bool:
    """Whether a recording may hold the values of a CPU tensor."""
    is_plain = not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg())
    return is_plain and tensor.numel() * tensor.element_size() <= MOST_CONSTANT_BYTES


def replaced(value: Any, stand_ins: dict[int, torch.Tensor]) -> Any:
    """Arguments of an operator with other tensors in place of some.

    Args:
        value: Positional or keyword arguments.
        stand_ins: The other tensors, by the identity of those that they replace.
    """
    if isinstance(value, torch.Tensor):
        return stand_ins.get(id(value), value)
    if isinstance(value, list | tuple):
        return type(value)(replaced(item, stand_ins) for item in value)
    if isinstance(value, dict):
        return {key: replaced(item, stand_ins) for key, item in value.items()}
    return value
