"""Whether torch's state around a call (functorch transforms, forward-mode AD) forbids a CUDA graph."""

from __future__ import annotations

from typing import Final

import torch
from torch.autograd import forward_ad

from cudalens.graphs.reasons import Finding, Reason

_TRANSFORM: Final = Finding(Reason.TRANSFORM, "torch.func or torch.vmap")
_FORWARD_AD: Final = Finding(Reason.TRANSFORM, "torch.autograd.forward_ad")


def transform_around() -> Finding | None:
    """Why a call made now cannot run as a graph; None if it can.

    Inside a transform the arguments are wrappers around other tensors, and inside a dual level they have tangents: a
    graph records only the innermost values.
    """
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return _TRANSFORM
    if forward_ad._current_level >= 0:
        return _FORWARD_AD
    return None
