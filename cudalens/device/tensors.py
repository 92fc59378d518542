"""What torch's classes of tensors store: shared by graphs and virtual devices, which import nothing of each other."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

#: Classes of tensors that handle no function themselves.
PLAIN_TYPES: Final = frozenset({Tensor, torch.nn.Parameter})


def stored_parts(sparse: Tensor) -> tuple[Tensor, ...]:
    """Return the dense tensors that store a sparse tensor, its values first; none for another layout."""
    if sparse.layout is torch.sparse_coo:
        return sparse._values(), sparse._indices()
    if sparse.layout in (torch.sparse_csr, torch.sparse_bsr):
        return sparse.values(), sparse.crow_indices(), sparse.col_indices()
    if sparse.layout in (torch.sparse_csc, torch.sparse_bsc):
        return sparse.values(), sparse.ccol_indices(), sparse.row_indices()
    return ()
