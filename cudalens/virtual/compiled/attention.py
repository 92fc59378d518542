"""Trace attention as CUDA's fused operators: torch decomposes it for the device that its C++ then sees."""

from __future__ import annotations

from typing import Final

from cudalens.virtual.dispatch.cuda_attention import attend
from cudalens.virtual.dispatch.dispatch_utils import register_kernels
from cudalens.virtual.patching import Patches

#: The dispatch keys of the device that torch's C++ sees (`tracing.hidden_device`).
_KEYS: Final = ("AutogradLazy", "Lazy")


def install(patches: Patches) -> None:
    """Replace the composite operator for that device."""
    for key in _KEYS:
        register_kernels(patches, key, {"scaled_dot_product_attention": attend})
