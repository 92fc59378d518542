"""Run operators without torch's modes, autograd and autocast, and register kernels for a while."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from cudalens.virtual.patching import Patches

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


def register_kernels(patches: Patches, key: str, kernels: dict[str, Callable[..., Any]]) -> None:
    """Register kernels of a dispatch key until `patches` are restored."""
    library = torch.library.Library("aten", "IMPL", key)  # type: ignore[no-untyped-call]
    patches.on_restore(library._destroy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "Overriding a previously registered kernel" is intended
        for name, kernel in kernels.items():
            library.impl(name, kernel)  # type: ignore[no-untyped-call]
