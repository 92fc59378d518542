"""What a virtual device is made of: every part installs itself, the modes are entered last.

A part is a function of the patches that will be undone at the end, and of the GPUs. It replaces attributes through the
patches alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from cudalens.virtual import (
    amp,
    autograd,
    collectives,
    dropout,
    foreach,
    generators,
    gradients,
    graph_backend,
    graph_handles,
    legacy_types,
    pool_handles,
    refusals,
    runtime,
    storages,
    tensors,
    threads,
    torch_profilers,
    triton_kernels,
    workspaces,
)
from cudalens.virtual.dispatch import DispatchMode
from cudalens.virtual.functions import FunctionMode
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches

Part: TypeAlias = Callable[[Patches, Gpus], None]

INSTALL: Final[Sequence[Part]] = (
    runtime.install,
    workspaces.install,
    graph_handles.install,
    graph_backend.install,
    pool_handles.install,
    tensors.install,
    storages.install,
    dropout.install,
    legacy_types.install,
    autograd.install,
    generators.install,
    threads.install,
    collectives.install,
    amp.install,
    foreach.install,
    gradients.install,
    torch_profilers.install,
    triton_kernels.install,
    refusals.install,
)
"""In this order; undone in reverse."""

MODES: Final[Sequence[Callable[[Gpus], Any]]] = (DispatchMode, FunctionMode, amp.AutocastKey)
"""torch modes of the thread that entered the device, outermost first."""
