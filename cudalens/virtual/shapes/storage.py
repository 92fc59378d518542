"""Tensors without values: CPU tensors whose storage has a size and no memory.

torch's C++ takes them for CPU tensors, so that it makes the same decisions as with values: dispatch keys, autograd,
composite operators. Their data pointer is null, and torch raises an error where a program asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import torch

from cudalens.virtual.tensors.residency import KEY

#: Attribute of a storage without values.
NO_VALUES_KEY: Final = "_cudalens_no_values"

#: Attribute of a storage without values: the value of all its elements, if they have one (`shapes.uniform`).
UNIFORM_KEY: Final = "_cudalens_uniform"

#: Attribute of a storage that a CUDA graph writes: each replay may write other values, so that they remain unknown.
CAPTURED_KEY: Final = "_cudalens_captured"

_CPU: Final = torch.device("cpu")
_storage_at: Final[Any] = torch._C._construct_storage_from_data_pointer
_refuse_pointer: Final[Any] = torch._C._set_throw_on_mutable_data_ptr


def storage_without_values(num_bytes: int) -> torch.UntypedStorage:
    """Return a storage of that size without memory."""
    storage: Any = _storage_at(0, _CPU, num_bytes)
    storage.__dict__[NO_VALUES_KEY] = True
    return storage


def tensor_in(storage: torch.UntypedStorage, dtype: torch.dtype, offset: int, shape: Any, stride: Any) -> torch.Tensor:
    """Return a tensor in a storage without values."""
    made = torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)
    _refuse_pointer(made)
    return made


def without_values(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor without values, with the size, strides and dtype of `tensor`, in a storage of its own."""
    storage = storage_without_values(tensor.untyped_storage().nbytes())
    return tensor_in(storage, tensor.dtype, int(tensor.storage_offset()), tensor.shape, tensor.stride())


def lacks_values(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has no values."""
    try:
        return NO_VALUES_KEY in tensor.untyped_storage().__dict__
    except (RuntimeError, NotImplementedError):  # no storage
        return False


def forget(tensor: torch.Tensor) -> None:
    """Mark the values of a tensor as unknown, because an operator without values has written it.

    Those of host memory, which a program may read by other means, become NaN, or the least integer.
    """
    attributes = tensor.untyped_storage().__dict__
    attributes.pop(UNIFORM_KEY, None)
    if NO_VALUES_KEY in attributes or not tensor.untyped_storage().nbytes():
        return
    attributes[NO_VALUES_KEY] = True
    if KEY not in attributes and tensor.dtype is not torch.bool:
        is_real = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        tensor.detach().fill_(float("nan") if is_real else torch.iinfo(tensor.dtype).min)


def tensors_among(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among `values` and in nested lists."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_among(value)


# Large tensors of one value: a mask of ones stays known on a device without values, however large it is.
#
# Libraries read such tensors to choose their code (``attention_mask.all()``). The value is kept with the storage; views
# share it. It follows elementwise operators, copies and reductions whose operands are all of this kind.

#: A host tensor with more elements is not searched for its one value when it is copied.
_MAX_SEARCHED: Final = 1 << 26

#: Factories of one value, and the position of the value among their arguments.
_FACTORIES: Final = {"full": 1, "full_like": 1, "new_full": 2}
_CONSTANTS: Final = {
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), 0),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), 1),
}

#: Operators, elementwise ones apart, whose result has the value that the same call on one element has.
_LIKE_ONE_ELEMENT: Final = frozenset(
    {"_to_copy", "clone", "all", "any", "amax", "amin", "_unsafe_view", "_reshape_copy"}
)

#: Operators that write all elements of their first argument, whatever it has.
_OVERWRITING: Final = frozenset({"copy_", "fill_", "zero_"})


def value_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the value of all elements of a tensor, as a tensor without dimensions; None if that is not known."""
    if lacks_values(tensor):
        value = tensor.untyped_storage().__dict__.get(UNIFORM_KEY)
        is_same_kind = (
            value is not None and value.dtype is tensor.dtype and not tensor.is_conj() and not tensor.is_neg()
        )
        return value if is_same_kind else None
    if tensor.layout is not torch.strided or not 0 < tensor.numel() <= _MAX_SEARCHED:
        return None
    flat = tensor.detach().reshape(-1)
    if not bool(flat[0] == flat[-1]) or not bool((flat == flat[0]).all()):
        return None
    return flat[0].clone()


def keep(tensor: Any, value: torch.Tensor | None) -> None:
    """Keep the one value of a tensor without values, if the tensor is all of its storage."""
    if value is None or not isinstance(tensor, torch.Tensor) or value.dtype is not tensor.dtype:
        return
    storage = tensor.untyped_storage()
    if CAPTURED_KEY in storage.__dict__:
        return
    if lacks_values(tensor) and storage.nbytes() == tensor.numel() * tensor.element_size():
        storage.__dict__[UNIFORM_KEY] = value


def made_by(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], like: torch.Tensor) -> torch.Tensor | None:
    """Return the value that a factory writes to all elements of its result `like`, or None."""
    if name in _CONSTANTS:
        return torch.tensor(_CONSTANTS[name], dtype=like.dtype)
    if name not in _FACTORIES:
        return None
    at = _FACTORIES[name]
    value = args[at] if at < len(args) else kwargs.get("fill_value")
    return None if value is None else torch.tensor(value).to(like.dtype)


def result_of(
    func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor]
) -> torch.Tensor | None:
    """Return the value of all elements of an operator's result, or None where it has several or is unknown.

    Args:
        func: The operator, which is not random.
        name: Its name without namespace and overload.
        args: Its arguments.
        kwargs: Its keyword arguments.
        tensors: The tensors among both.
    """
    if name not in _LIKE_ONE_ELEMENT and name not in _OVERWRITING and torch.Tag.pointwise not in func.tags:
        return None
    stand_ins: dict[int, torch.Tensor] = {}
    if name in _OVERWRITING:
        stand_ins[id(args[0])] = torch.empty((1,) * args[0].dim(), dtype=args[0].dtype)
    others = [tensor for tensor in tensors if id(tensor) not in stand_ins]
    for tensor in sorted(others, key=lacks_values, reverse=True):  # those with values are compared, which takes longer
        value = value_of(tensor)
        if value is None:
            return None
        stand_ins[id(tensor)] = value.reshape((1,) * tensor.dim()).clone()
    if not stand_ins:
        return None

    def replaced(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return stand_ins[id(item)]
        return type(item)(replaced(each) for each in item) if isinstance(item, list | tuple) else item

    try:
        out = func(*(replaced(arg) for arg in args), **{key: replaced(item) for key, item in kwargs.items()})
    except (RuntimeError, ValueError, IndexError, TypeError):  # sizes in its arguments
        return None
    results = list(tensors_among([out]))
    return results[0].reshape(-1)[0].clone() if len(results) == 1 and results[0].numel() == 1 else None


def result_if_finite(name: str, args: tuple[Any, ...]) -> torch.Tensor | None:
    """Return what an operator that looks for infinite values or NaN finds where there are none; None of others.

    ``torch.isfinite(x)`` is ``(x == x) * (abs(x) != inf)``.

    Args:
        name: The operator's name without namespace and overload.
        args: Its arguments.
    """
    if name in ("isnan", "isinf", "isposinf", "isneginf"):
        return torch.tensor(False)
    if name not in ("eq", "ne") or len(args) < 2:
        return None
    if args[0] is args[1]:
        return torch.tensor(name == "eq")
    is_infinity = isinstance(args[1], float) and math.isinf(args[1])
    return torch.tensor(name == "ne") if is_infinity else None
