"""Make torch's profilers record only the host on a virtual device; `cudalens.profile` records the device."""

from __future__ import annotations

import functools
from typing import Any, Final

from torch import _C
from torch.autograd import profiler, profiler_util

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches

_NOTE: Final = (
    "These are times of the host, without the virtual {device}: torch's profiler records no work of it. "
    "cudalens.profile() shows its simulated times."
)


def install(patches: Patches, gpus: Gpus) -> None:
    """Make torch.autograd.profiler.profile, and torch.profiler, skip the device.

    For a device that Kineto does not support, torch falls back to timing every operator with CUDA events in C++, which
    fails with many warnings per operator.
    """
    original = profiler.profile.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if self.use_device == "cuda":
            self.use_device = None
            self.profiler_kind = _C._profiler.ProfilerState.KINETO

    patches.set(profiler.profile, "__init__", made)
    table: Any = profiler_util.EventList.table

    @functools.wraps(table)
    def table_with_note(self: Any, *args: Any, **kwargs: Any) -> str:
        return f"{table(self, *args, **kwargs)}{_NOTE.format(device=gpus.spec.key)}\n"

    patches.set(profiler_util.EventList, "table", table_with_note)
