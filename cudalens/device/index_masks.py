"""Index operators with a mask: whether the host waits for the number of the mask's elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def waits_for_mask(
    args: Sequence[Any], kwargs: Mapping[str, Any], is_on_host: Callable[[torch.Tensor], bool] = lambda one: one.is_cpu
) -> bool:
    """Return whether an index operator on a CUDA device makes the host wait for the number of elements of a mask.

    Args:
        args: Of ``index``, ``index_put`` or one of its forms: a tensor, indices, values, whether they are added.
        kwargs: The same by name.
        is_on_host: Whether a tensor is on the CPU.
    """
    indices = args[1] if len(args) > 1 else kwargs.get("indices", ())
    if not any(map(_is_mask, indices)):
        return False
    return not fills_by_mask(args, kwargs, is_on_host)


def fills_by_mask(
    args: Sequence[Any], kwargs: Mapping[str, Any], is_on_host: Callable[[torch.Tensor], bool] = lambda one: one.is_cpu
) -> bool:
    """Return whether torch runs an index operator as ``masked_fill_``: one number on the host, and one mask.

    The arguments are those of `waits_for_mask`. torch's condition is in ``canDispatchToMaskedFill``.
    """
    indices = args[1] if len(args) > 1 else kwargs.get("indices", ())
    values = args[2] if len(args) > 2 else kwargs.get("values")
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    if not isinstance(values, torch.Tensor) or values.numel() != 1 or not is_on_host(values) or accumulate:
        return False
    given = [index for index in indices if index is not None]
    return len(given) == 1 and _is_mask(given[0]) and not is_on_host(given[0])


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)
