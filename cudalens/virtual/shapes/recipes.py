"""What an operator returns, as a recipe: which arguments, and which new tensors of which size, strides and dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.shapes.storage import storage_without_values, tensor_in


def _convolution(out: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    """Return the memory format of a convolution's result: that of the CPU's backend, as with values."""
    source, weight, bias = args[:3]
    if weight.dim() < 4:
        return out
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    backend = torch._C._select_conv_backend(source, weight, bias=bias, **dict(zip(names, args[3:9], strict=True)))
    return out.to(memory_format=torch._C._conv_determine_backend_memory_format(source, weight, backend))


def _with_number(out: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    """Return the result of a tensor and a number, with the strides that torch's iterator gives dimensions of size 1.

    The meta device gives them others, except where the number is a tensor of the meta device.
    """
    (tensor,) = (arg for arg in args if isinstance(arg, torch.Tensor))
    if 1 not in out.shape or out.shape != tensor.shape:
        return out
    like = torch.empty_strided(tensor.shape, tensor.stride(), device="meta") + torch.empty((), device="meta")
    return out.as_strided(out.shape, like.stride())


def _is_of_one(func: Any, args: tuple[Any, ...]) -> bool:
    """Return whether an operator goes over the elements of one tensor into a new one."""
    schema = func._schema
    is_new = not schema.is_mutable and all(argument.alias_info is None for argument in schema.returns)
    num_tensors = sum(isinstance(arg, torch.Tensor) for arg in args)
    return torch.Tag.pointwise in func.tags and is_new and num_tensors == 1 and len(schema.returns) == 1


def _has_number(func: Any, args: tuple[Any, ...]) -> bool:
    """Return whether an operator makes a tensor of a number, and goes over both."""
    for value, wanted in zip(args, func._schema.arguments, strict=False):
        if isinstance(value, int | float | complex):
            return "Tensor" in str(wanted.type) or func._overloadname in _WRAPPING
    return False


#: Overloads whose number becomes a tensor.
_WRAPPING: Final = ("Scalar", "Scalar_mode")

#: By operator name: the result in its memory format, from the meta result and the arguments of the call.
_FORMATS: Final[dict[str, Callable[[Any, tuple[Any, ...]], Any]]] = {"convolution": _convolution}


def format_of(func: Any, args: tuple[Any, ...]) -> Callable[[Any, tuple[Any, ...]], Any] | None:
    """What gives the result of a call its memory format, from the meta result and the arguments; None for as it is."""
    name = func._schema.name.partition("::")[2]
    if _is_of_one(func, args) and _has_number(func, args):
        return _with_number
    return _FORMATS.get(name)


_META: Final = torch.device("meta")


@dataclass(frozen=True, slots=True)
class Argument:
    """A result that is an argument.

    Attributes:
        index: The position among the tensors of the call.
    """

    index: int


@dataclass(frozen=True, slots=True)
class View:
    """A result in the memory of an argument.

    Attributes:
        index: The position of the argument among the tensors of the call.
        shape: Its sizes.
        stride: Its strides, elements.
        offset: Its offset from the argument's first element.
    """

    index: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class New:
    """A result in new memory.

    Attributes:
        storage: The number of its storage among the new ones.
        dtype: Its dtype.
        shape: Its sizes.
        stride: Its strides, elements.
        offset: Its offset in the storage, elements.
        flags: Whether it is conjugated, and whether it is negated.
    """

    storage: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    flags: tuple[bool, bool]


@dataclass(slots=True)
class Recipe:
    """What an operator returns and resizes.

    Attributes:
        results: Its result: leaves in nested lists; other values as they are.
        storages: Bytes of each new storage.
        sizes: New sizes of arguments that it resizes (``out=``), by position.
    """

    results: Any
    storages: list[int]
    sizes: dict[int, tuple[int, ...]]

    def make(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Create the result for the tensors of a call."""
        for index, shape in self.sizes.items():
            tensors[index].resize_(shape)
        storages = [storage_without_values(num_bytes) if num_bytes else None for num_bytes in self.storages]
        return _made(self.results, tensors, storages)


def _made(leaf: Any, tensors: Sequence[torch.Tensor], storages: Sequence[Any]) -> Any:
    kind = type(leaf)
    if kind is New:
        return _new(leaf, storages[leaf.storage])
    if kind is Argument:
        return tensors[leaf.index]
    if kind is View:
        base = tensors[leaf.index]
        return base.as_strided(leaf.shape, leaf.stride, int(base.storage_offset()) + leaf.offset)
    if kind is list or kind is tuple:
        return kind(_made(item, tensors, storages) for item in leaf)
    return leaf


def _new(leaf: New, storage: Any) -> torch.Tensor:
    if storage is None:
        return torch.empty_strided(leaf.shape, leaf.stride, dtype=leaf.dtype)
    made = tensor_in(storage, leaf.dtype, leaf.offset, leaf.shape, leaf.stride)
    if leaf.flags != (False, False):
        torch._C._set_conj(made, leaf.flags[0])
        torch._C._set_neg(made, leaf.flags[1])
    return made


class Recorder:
    """Makes recipes from results on stand-in tensors: meta tensors, or tensors of zeros.

    Args:
        tensors: The tensors of the call.
        stand_ins: The tensor in place of each of them.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], stand_ins: Sequence[torch.Tensor]) -> None:
        self._tensors, self._stand_ins = tensors, stand_ins
        self._owners = {stand_in.untyped_storage()._cdata: i for i, stand_in in enumerate(stand_ins)}
        self._new: dict[int, int] = {}
        self._bytes: list[int] = []

    def recipe(self, out: Any) -> Recipe:
        """Return the recipe of a result."""
        results = self._leaf(out)
        sizes = {
            i: tuple(stand_in.shape)
            for i, (tensor, stand_in) in enumerate(zip(self._tensors, self._stand_ins, strict=True))
            if stand_in.shape != tensor.shape
        }
        return Recipe(results, self._bytes, sizes)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return (
                type(value)(self._leaf(item) for item in value)
                if type(value) is list
                else tuple(map(self._leaf, value))
            )
        if not isinstance(value, torch.Tensor):
            return value
        for i, stand_in in enumerate(self._stand_ins):
            if stand_in is value:
                return Argument(i)
        if value.layout is not torch.strided:
            raise VirtualDeviceError(
                "a virtual device without values (values=False) supports dense tensors only, and this operator returns "
                f"one of layout {value.layout}. Compute values (values=True), or use a dense tensor."
            )
        shape, stride, offset = tuple(value.shape), value.stride(), int(value.storage_offset())
        storage = value.untyped_storage()
        owner = self._owners.get(storage._cdata)
        if owner is not None:
            return View(owner, shape, stride, offset - int(self._stand_ins[owner].storage_offset()))
        if storage._cdata not in self._new:
            self._new[storage._cdata] = len(self._bytes)
            self._bytes.append(storage.nbytes())
        return New(self._new[storage._cdata], value.dtype, shape, stride, offset, (value.is_conj(), value.is_neg()))


def on_meta(tensor: torch.Tensor) -> torch.Tensor:
    """Return a meta tensor with the size, strides and dtype of `tensor`."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_META)
    if tensor.is_complex() and tensor.is_conj():
        torch._C._set_conj(made, True)
    if tensor.is_neg():
        torch._C._set_neg(made, True)
    return made
