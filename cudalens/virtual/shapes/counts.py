"""Operators whose result or its size depends on values: counts of rows, numbers read by the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from cudalens.virtual.shapes import storage
from cudalens.virtual.shapes.storage import forget, lacks_values, without_values

if TYPE_CHECKING:
    from cudalens.virtual.shapes.operators import Shapes

_MASKS: Final = (torch.bool, torch.uint8)
_META: Final = torch.device("meta")

#: Computes the result of an operator; NotImplemented if the call does not depend on values.
Handler: TypeAlias = "Callable[[Shapes, tuple[Any, ...], dict[str, Any]], Any]"


def _blank(like: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> torch.Tensor:
    return without_values(torch.empty(shape, dtype=dtype or like.dtype, device=_META))


def _number(shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    known = storage.value_of(args[0])
    if known is not None:
        return known.item()
    value = shapes.defaults.number("the value of a tensor")
    return torch.tensor(value).to(args[0].dtype).item()


def _truth(shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    known = [storage.value_of(arg) for arg in args if isinstance(arg, torch.Tensor)]
    if len(known) == 1 and known[0] is not None:
        return bool(known[0])
    return bool(shapes.defaults.number("whether tensors are equal, or zero"))


def _rows(shapes: Shapes, mask: torch.Tensor, what: str) -> int:
    """Return the number of non-zero elements of a mask."""
    if not lacks_values(mask):
        return int(torch.count_nonzero(mask.detach()))
    known = storage.value_of(mask)
    if known is not None:
        return mask.numel() if known else 0
    return min(shapes.defaults.count(what), mask.numel())


def _nonzero(shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    mask = args[0]
    return _blank(mask, (_rows(shapes, mask, "nonzero"), mask.dim()), torch.int64)


def _masked_select(shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    source, mask = args[:2]
    num_rows = _rows(shapes, mask, "masked_select")
    if mask.shape != source.shape:
        num_all = torch.broadcast_shapes(mask.shape, source.shape).numel()  # type: ignore[no-untyped-call]
        num_rows = num_rows * num_all // max(mask.numel(), 1)
    return _blank(source, (num_rows,))


def _index(shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A mask becomes the indices of its true elements, in each of its dimensions."""
    source, indices = args[:2]
    if not any(isinstance(index, torch.Tensor) and index.dtype in _MASKS for index in indices):
        return NotImplemented
    whole: list[torch.Tensor | None] = []
    for index in indices:
        if isinstance(index, torch.Tensor) and index.dtype in _MASKS:
            num_rows = _rows(shapes, index, "indexing by a mask")
            whole += [_blank(index, (num_rows,), torch.int64) for _ in range(index.dim())]
        else:
            whole.append(index)
    return shapes.infer(torch.ops.aten.index.Tensor, (source, whole), {})


def _index_put(shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The size of the result is that of the target, whatever a mask has."""
    target, indices = args[:2]
    if not any(isinstance(index, torch.Tensor) and index.dtype in _MASKS for index in indices):
        return NotImplemented
    forget(target)
    return target


def _unique(shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    source = args[0]
    num = min(shapes.defaults.count("unique"), source.numel())
    return (
        _blank(source, (num,)),
        _blank(source, tuple(source.shape), torch.int64),
        _blank(source, (num,), torch.int64),
    )


def _bincount(shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    weights = args[1] if len(args) > 1 else kwargs.get("weights")
    least = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    dtype = torch.int64 if weights is None else torch.promote_types(weights.dtype, torch.float32)
    return _blank(args[0], (max(shapes.defaults.count("bincount"), least),), dtype)


def _repeat(shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    repeats, num = args[0], kwargs.get("output_size")
    if num is None:
        num = int(repeats.sum()) if not lacks_values(repeats) else shapes.defaults.count("repeat_interleave")
    return _blank(repeats, (num,), torch.int64)


def _no_error(shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A check for an error of a computation: there is none."""


#: By operator name.
HANDLERS: Final[dict[str, Handler]] = {
    "_local_scalar_dense": _number,
    **dict.fromkeys(("is_nonzero", "equal", "allclose"), _truth),
    "nonzero": _nonzero,
    "masked_select": _masked_select,
    "index": _index,
    "_unsafe_index": _index,
    **dict.fromkeys(("index_put_", "_index_put_impl_"), _index_put),
    **dict.fromkeys(("_unique", "_unique2", "unique_consecutive"), _unique),
    "bincount": _bincount,
    "repeat_interleave": _repeat,
    "_linalg_check_errors": _no_error,
}
