"""Large tensors of one value: a mask of ones stays known on a device without values, however large it is.

Libraries read such tensors to choose their code (``attention_mask.all()``). The value is kept with the storage; views
share it. It follows elementwise operators, copies and reductions whose operands are all of this kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from cudalens.virtual.shapes.storage import CAPTURED_KEY, UNIFORM_KEY, lacks_values, tensors_among

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
