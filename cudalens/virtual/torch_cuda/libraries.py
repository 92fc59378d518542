"""Settings of CUDA libraries on a virtual device: the preferred libraries and cuFFT's plan cache (torch.backends.cuda).

No such library runs. A setting is stored and returned, and has no effect on values or times.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches

#: The maximum number of plans from CUDA 10 on (ATen/native/cuda/CuFFTPlanCache.h).
_MAX_PLANS: Final = 4096

_PLANS: Final = (
    "cufft_plan_cache.size: the plans of cuFFT are not modelled by a virtual device. max_size can be read and set."
)
_NO_LIBRARY: Final = "the preferred library {name} is for AMD GPUs; the virtual device is a GPU of NVIDIA."


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace the C functions behind ``torch.backends.cuda``'s libraries."""
    for library in ("linalg", "blas"):
        _install_preference(patches, library)
    caches = PlanCaches(gpus)
    module: Any = torch.backends.cuda
    kind = module.cuFFTPlanCache  # it has kept torch's functions
    setting = module.cuFFTPlanCacheAttrContextProp
    patches.set(kind, "max_size", setting(caches.get_max_size, caches.set_max_size))
    patches.set(kind, "size", setting(caches.get_size, kind.__dict__["size"].setter))
    patches.set(torch, "_cufft_get_plan_cache_max_size", caches.get_max_size)
    patches.set(torch, "_cufft_set_plan_cache_max_size", caches.set_max_size)
    patches.set(torch, "_cufft_get_plan_cache_size", caches.get_size)
    patches.set(torch, "_cufft_clear_plan_cache", caches.clear)


def _install_preference(patches: Patches, library: str) -> None:
    """Store the preferred library; this build of torch may refuse those of CUDA."""
    get = getattr(torch._C, f"_get_{library}_preferred_backend", None)
    if get is None:
        return
    stored = [get()]

    def set_preferred(backend: Any) -> None:
        if backend.name == "Ck":
            raise VirtualDeviceError(f"torch.backends.cuda: {_NO_LIBRARY.format(name='CK')}")
        stored[0] = backend

    patches.set(torch._C, f"_get_{library}_preferred_backend", lambda: stored[0])
    patches.set(torch._C, f"_set_{library}_preferred_backend", set_preferred)


class PlanCaches:
    """The cuFFT plan caches of the devices: their maximum sizes."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus, self._max_sizes = gpus, [_MAX_PLANS] * len(gpus.devices)

    def get_max_size(self, index: int) -> int:
        """Return the largest number of plans."""
        return self._max_sizes[self._checked(index)]

    def set_max_size(self, index: int, max_size: int) -> None:
        """Set the largest number of plans.

        Raises:
            RuntimeError: It is negative; torch's message.
        """
        if max_size < 0:
            raise RuntimeError(f"cuFFT plan cache size must be non-negative, but got {max_size}")
        self._max_sizes[self._checked(index)] = max_size

    def get_size(self, index: int) -> int:
        """Refuse to return the number of plans.

        Raises:
            VirtualDeviceError: Always.
        """
        raise VirtualDeviceError(_PLANS)

    def clear(self, index: int) -> None:
        """Remove the plans: there are none."""
        self._checked(index)

    def _checked(self, index: int) -> int:
        """Return the index of a device.

        Raises:
            RuntimeError: There is no such device; torch's message.
        """
        count = len(self._gpus.devices)
        if not 0 <= index < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}], but got device with index {index}"
            )
        return index
