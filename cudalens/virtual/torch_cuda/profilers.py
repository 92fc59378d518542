"""torch's own profilers on a virtual device see the host, quietly; the device's work is for `cudalens.profile`."""

from __future__ import annotations

from typing import Any

from torch import _C
from torch.autograd import profiler

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches


def install(patches: Patches, gpus: Gpus) -> None:
    """Let torch.autograd.profiler.profile, and torch.profiler on top of it, leave the device out.

    Asked for a device that Kineto cannot watch, torch falls back to timing every operator by CUDA events in C++, which
    fails there with a page of warnings an operator.
    """
    original = profiler.profile.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if self.use_device == "cuda":
            self.use_device = None
            self.profiler_kind = _C._profiler.ProfilerState.KINETO

    patches.set(profiler.profile, "__init__", made)
