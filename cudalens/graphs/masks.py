"""Masks whose number of elements a recording has read: a later index by one, or its backward, needs no read.

``loss = outputs[mask].sum()`` reads the number of the mask's elements once. Its backward writes to the same elements.
In the graph, the mask becomes indices of that known number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cudalens.graphs.liveness import storage_id

#: Offset, sizes, strides and dtype of a mask.
_Form: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype]


class KnownMasks:
    """The masks by which a function has indexed, with the numbers of their elements, until something writes them."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, _Form], tuple[StorageWeakRef, int]] = {}

    def note(self, args: Sequence[Any], out: torch.Tensor) -> None:
        """Note the mask of ``aten::index``, if it has no other index.

        Args:
            args: A tensor and its indices.
            out: The result, whose size has the number of elements.
        """
        mask = _single_mask(args[1])
        if mask is not None:
            dimension = next(n for n, index in enumerate(args[1]) if index is not None)
            storage = StorageWeakRef(mask.untyped_storage())  # type: ignore[no-untyped-call]
            self._known[storage_id(mask), _form_of(mask)] = storage, out.shape[dimension]

    def count(self, args: Sequence[Any]) -> int | None:
        """Return the number of elements of the mask of an index operator; None if it is not known."""
        mask = _single_mask(args[1])
        known = None if mask is None else self._known.get((storage_id(mask), _form_of(mask)))
        if known is None or known[0].expired():  # type: ignore[no-untyped-call]
            return None
        return known[1]

    def forget(self, written: Iterable[torch.Tensor]) -> None:
        """Forget masks that an operator writes."""
        if self._known:
            gone = {storage_id(tensor) for tensor in written}
            self._known = {key: known for key, known in self._known.items() if key[0] not in gone}


def indices_of(indices: Sequence[torch.Tensor | None], number: int) -> list[torch.Tensor | None]:
    """Return indices with those of the elements of their mask in its place, without a read of their number.

    Args:
        indices: A mask, behind dimensions without an index.
        number: How many elements the mask has.
    """
    found: list[torch.Tensor | None] = []
    for index in indices:
        found += [index] if index is None else torch.nonzero_static(index, size=number).unbind(1)
    return found


def _single_mask(indices: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    given = [index for index in indices if index is not None]
    is_single = len(given) == 1 and given[0].dtype == torch.bool and given[0].is_cuda and given[0].dim() > 0
    return given[0] if is_single else None


def _form_of(mask: torch.Tensor) -> _Form:
    return int(mask.storage_offset()), tuple(mask.shape), mask.stride(), mask.dtype
