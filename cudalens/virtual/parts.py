"""The list of patches (parts) and torch modes that make up a virtual device.

A part is a function of `Patches`, which are undone at the end, and of the GPUs. It replaces attributes only through the
patches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from cudalens.virtual.capture import graph_backend
from cudalens.virtual.compiled import fake_tensors, user_kernels
from cudalens.virtual.compiled import session as compiled
from cudalens.virtual.dispatch import (
    amp,
    attention,
    autograd,
    fused_layers,
    modes,
    refusals,
    traced_graphs,
    triton_kernels,
    workspaces,
)
from cudalens.virtual.dispatch.mode import DispatchMode
from cudalens.virtual.dispatch.modes import ThreadModes
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.shapes import host as shapes_on_host
from cudalens.virtual.shapes import saving
from cudalens.virtual.tensors import attributes, device_arguments, storages
from cudalens.virtual.tensors.device_arguments import FunctionMode
from cudalens.virtual.torch_cuda import (
    checkpoints,
    collectives,
    graph_handles,
    pool_handles,
    rng,
    runtime,
)

Part: TypeAlias = Callable[[Patches, Gpus], None]

#: torch modes that a thread enters, outermost first.
MODES: Final[Sequence[Callable[[Gpus], Any]]] = (DispatchMode, FunctionMode, amp.AutocastKey)


def _install_threads(patches: Patches, gpus: Gpus) -> None:
    modes.install(patches, gpus, lambda: ThreadModes(MODES, gpus))


def _install_workspaces(patches: Patches, gpus: Gpus) -> None:
    workspaces.install(patches, gpus.workspaces)


#: Installed in this order, undone in reverse.
INSTALL: Final[Sequence[Part]] = (
    runtime.install,
    _install_workspaces,
    graph_handles.install,
    graph_backend.install,
    pool_handles.install,
    checkpoints.install,
    attributes.install,
    device_arguments.install,
    device_arguments.install_spellings,
    storages.install,
    shapes_on_host.install,
    saving.install,
    fused_layers.install,
    attention.install,
    fused_layers.install_rms_norm,
    fused_layers.install_softmax,
    storages.install_legacy_types,
    autograd.install,
    traced_graphs.install,
    rng.install,
    _install_threads,
    collectives.install,
    amp.install,
    attributes.install_foreach_grouping,
    attributes.install_gradient_checks,
    runtime.install_profilers,
    triton_kernels.install,
    user_kernels.install,
    refusals.install,
    compiled.install,
    fake_tensors.install_methods,
)
