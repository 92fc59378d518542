"""What an operator returns, as a recipe: which arguments, and which new tensors of which size, strides and dtype.

`choose_format` corrects the memory format first, where the meta device gives a result other strides than the CPU.
`Recorder` then describes a result by leaves: an `Argument`, a `View` of one, or a `New` tensor; `Recipe` makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.shapes.storage import storage_without_values, tensor_in

#: Gives a result of the meta device the strides that the CPU would give; takes the result and the call's arguments.
FormatResult: TypeAlias = Callable[[torch.Tensor, tuple[Any, ...]], torch.Tensor]

#: Overloads whose number becomes a tensor: ``x ** 2`` (``pow.Tensor_Scalar``) is not one, ``fmod.Scalar`` is. So does
#: the number in the place of a tensor argument, as in ``x + 2`` (``add.Tensor``).
_OVERLOADS_WITH_NUMBER: Final = ("Scalar", "Scalar_mode")


def choose_format(func: Any, args: tuple[Any, ...]) -> FormatResult | None:
    """Return what gives the meta result of a call the strides of the CPU, or None if nothing needs to change."""
    if _combines_tensor_with_number(func, args):
        return _format_with_number
    if func._schema.name.partition("::")[2] == "convolution":
        return _format_convolution
    return None


def _combines_tensor_with_number(func: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a call combines each element of one tensor with a number, into one new tensor."""
    schema = func._schema
    if torch.Tag.pointwise not in func.tags or schema.is_mutable:
        return False
    if len(schema.returns) != 1 or schema.returns[0].alias_info is not None:
        return False
    if sum(isinstance(arg, torch.Tensor) for arg in args) != 1:
        return False
    for value, parameter in zip(args, schema.arguments, strict=False):
        if isinstance(value, int | float | complex):
            return "Tensor" in str(parameter.type) or func._overloadname in _OVERLOADS_WITH_NUMBER
    return False


def _format_with_number(out: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    """Return the result of a tensor and a number, with the strides that torch's iterator gives dimensions of size 1.

    The meta device gives them others, except where the number is a tensor of the meta device. Sizes (2, 1, 3) with
    strides (3, 7, 1) plus 2 give strides (3, 6, 1) on the CPU, and (3, 3, 1) on the meta device.
    """
    (tensor,) = (arg for arg in args if isinstance(arg, torch.Tensor))
    if 1 not in out.shape or out.shape != tensor.shape:
        return out
    like = torch.empty_strided(tensor.shape, tensor.stride(), device="meta") + torch.empty((), device="meta")
    return out.as_strided(out.shape, like.stride())


def _format_convolution(out: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    """Return a convolution's result in the memory format that the CPU's backend chooses."""
    source, weight, bias = args[:3]
    if weight.dim() < 4:
        return out
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    backend = torch._C._select_conv_backend(source, weight, bias=bias, **dict(zip(names, args[3:9], strict=True)))
    return out.to(memory_format=torch._C._conv_determine_backend_memory_format(source, weight, backend))


_META: Final = torch.device("meta")


@dataclass(frozen=True, slots=True)
class Argument:
    """A result that is an argument.

    Attributes:
        index: The position of the argument among the tensors of the call: 1 for x in ``where(mask, 2, x)``.
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
        sizes: New sizes of arguments that it resizes (``out=``), by index.
    """

    results: Any
    storages: list[int]
    sizes: dict[int, tuple[int, ...]]

    def make(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Create the result for the tensors of a call."""
        for index, shape in self.sizes.items():
            tensors[index].resize_(shape)
        storages = [storage_without_values(num_bytes) if num_bytes else None for num_bytes in self.storages]
        return _make_results(self.results, tensors, storages)


def _make_results(leaf: Any, tensors: Sequence[torch.Tensor], storages: Sequence[torch.UntypedStorage | None]) -> Any:
    """Create what a leaf, or a list or tuple of leaves, describes.

    Args:
        leaf: `Argument`, `View` or `New`; or any other value, which is returned as it is.
        tensors: The tensors of the call.
        storages: The new storages; None for one without bytes.
    """
    # `type(...) is` and not `isinstance`: this runs for every operator.
    kind = type(leaf)
    if kind is New:
        storage = storages[leaf.storage]
        if storage is None:
            return torch.empty_strided(leaf.shape, leaf.stride, dtype=leaf.dtype)
        made = tensor_in(storage, leaf.dtype, leaf.offset, leaf.shape, leaf.stride)
        is_conj, is_neg = leaf.flags
        if is_conj or is_neg:
            torch._C._set_conj(made, is_conj)
            torch._C._set_neg(made, is_neg)
        return made
    if kind is Argument:
        return tensors[leaf.index]
    if kind is View:
        base = tensors[leaf.index]
        return base.as_strided(leaf.shape, leaf.stride, int(base.storage_offset()) + leaf.offset)
    if kind is list or kind is tuple:
        return kind(_make_results(item, tensors, storages) for item in leaf)
    return leaf


class Recorder:
    """Makes recipes from results on stand-in tensors: meta tensors, or tensors of zeros.

    Args:
        tensors: The tensors of the call.
        stand_ins: The tensor in place of each of them.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], stand_ins: Sequence[torch.Tensor]) -> None:
        self._tensors, self._stand_ins = tensors, stand_ins
        #: The stand-in that has each storage, by the address of the storage.
        self._owners = {stand_in.untyped_storage()._cdata: i for i, stand_in in enumerate(stand_ins)}
        #: The number of each new storage, by its address, and the bytes of each.
        self._new: dict[int, int] = {}
        self._bytes: list[int] = []

    def describe(self, out: Any) -> Recipe:
        """Return the recipe of the result `out` of a call on the stand-ins."""
        results = self._describe_leaf(out)
        sizes = {
            i: tuple(stand_in.shape)
            for i, (tensor, stand_in) in enumerate(zip(self._tensors, self._stand_ins, strict=True))
            if stand_in.shape != tensor.shape
        }
        return Recipe(results, self._bytes, sizes)

    def _describe_leaf(self, value: Any) -> Any:
        """Return the leaf that describes `value`; for a list or tuple, one of leaves."""
        if type(value) is list:
            return [self._describe_leaf(item) for item in value]
        if isinstance(value, list | tuple):  # a named tuple becomes a tuple, as the dispatcher returns it
            return tuple(self._describe_leaf(item) for item in value)
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
