"""Run operators without torch's modes, autograd and autocast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

_AUTOCAST: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.AutocastCUDA
)


@contextmanager
def below_modes() -> Iterator[None]:
    """Run operators below autograd and autocast, without any torch mode."""
    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
        torch._C._AutoDispatchBelowAutograd(),
        torch._C._ExcludeDispatchKeyGuard(_AUTOCAST),
    ):
        yield
