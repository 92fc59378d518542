"""The tensors among an operator's arguments and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch.utils._python_dispatch import _disable_current_modes

from cudalens.sanitizer.engine.accesses import Operand
from cudalens.sanitizer.live.schema import Plan


def pairs(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, tuple[Operand, bool]]]:
    """Each argument whose elements are accessed, with its use; lists are flattened."""
    found: list[tuple[Any, tuple[Operand, bool]]] = []
    for value, use in zip(args, plan.inputs, strict=False):  # trailing arguments may be left out
        if use is not None:
            _add(found, value, use)
    if kwargs:
        for name, value in kwargs.items():
            use = plan.by_name.get(name)
            if use is not None:
                _add(found, value, use)
    return found


def _add(found: list[tuple[Any, tuple[Operand, bool]]], value: Any, use: tuple[Operand, bool]) -> None:
    if isinstance(value, list | tuple):
        for item in value:
            _add(found, item, use)
    else:
        found.append((value, use))


def results(out: Any, outputs: tuple[Operand | None, ...]) -> Iterable[tuple[torch.Tensor, Operand]]:
    """Each fresh tensor among the results, with its use."""
    first = outputs[0]
    if isinstance(out, torch.Tensor):
        return () if first is None else ((out, first),)
    if not isinstance(out, list | tuple):
        return ()
    several = zip(out, outputs, strict=False) if len(outputs) > 1 else ((out, first),)
    return [(t, use) for value, use in several if use is not None for t in _flat(value) if isinstance(t, torch.Tensor)]


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
    else:
        yield value


#: The dense tensors of a sparse one, by layout.
_PIECES: Final = (
    (torch.sparse_coo, ("_indices", "_values")),
    (torch.sparse_csr, ("crow_indices", "col_indices", "values")),
    (torch.sparse_bsr, ("crow_indices", "col_indices", "values")),
    (torch.sparse_csc, ("ccol_indices", "row_indices", "values")),
    (torch.sparse_bsc, ("ccol_indices", "row_indices", "values")),
)


def storage_of(tensor: Any) -> Any:
    """The storage of a tensor; None if it has none (sparse, nested, of a functorch level)."""
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return None


def dense(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """The tensor itself, or its `pieces` if it has no storage."""
    return pieces(tensor) if storage_of(tensor) is None else (tensor,)


def pieces(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """The dense tensors of a tensor without a storage of its own; empty if they are unknown."""
    with _disable_current_modes():
        for layout, names in _PIECES:
            if tensor.layout == layout:
                return [getattr(tensor, name)() for name in names]
    return ()


def flag(name: str, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """A boolean argument, given by position or by name; False if it was left out."""
    return bool(args[position] if 0 <= position < len(args) else kwargs.get(name, False))
