"""Trace the linear map that ``torch.func.linearize`` returns for the device: torch's formulas make tensors by a device.

A tensor of a virtual device has the host's type below the dispatch mode, so the derivative formulas of forward mode, in
C++, ask for zeros and copies on the CPU. Called directly, these become tensors of the device; a traced graph runs them
later by their arguments, which are changed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.residency import residence_of

_HOST: Final = torch.device("cpu")


def install(patches: Patches, gpus: Gpus) -> None:
    """Change what ``linearize`` traces with: torch wraps ``make_fx`` for its compiler before each use."""
    transforms: Any = torch._functorch.eager_transforms
    wrap = getattr(transforms, "lazy_dynamo_disallow", None)
    make_fx = getattr(transforms, "make_fx", None)
    if wrap is None or make_fx is None:  # this version of torch traces in another way
        return

    def wrap_for_device(function: Any) -> Any:
        wrapped = wrap(function)
        return _traced_for_device(wrapped) if function is make_fx else wrapped

    patches.set(transforms, "lazy_dynamo_disallow", wrap_for_device)


def _traced_for_device(make_fx: Callable[..., Any]) -> Callable[..., Any]:
    def make_map(function: Callable[..., Any]) -> Callable[..., Any]:
        def trace(tangents: Any) -> Any:
            devices = {tangent.device for tangent in tangents if residence_of(tangent) is not None}
            if len(devices) != 1:
                return make_fx(function)(tangents)
            with _HostWatch() as watch:
                graph_module = make_fx(function)(tangents)
            if watch.has_host_tensors:
                raise VirtualDeviceError(
                    "torch.func.linearize of a function that also computes with CPU tensors is not modelled on a "
                    "virtual CUDA device. Use torch.func.jvp, or move the tensors to the device before."
                )
            _move_to(graph_module, devices.pop())
            return graph_module

        return trace

    return make_map


class _HostWatch(TorchFunctionMode):
    """Finds out whether a function makes or uses CPU tensors, numbers aside: formulas of torch do not arrive here."""

    has_host_tensors = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        leaves = torch.utils._pytree.tree_leaves((args, kwargs, result))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.has_host_tensors |= any(tensor.dim() > 0 and tensor.device == _HOST for tensor in tensors)
        return result


def _move_to(graph_module: Any, device: torch.device) -> None:
    """Run the factories and copies of a traced graph on the device instead of the host, with its constants there."""
    for name, constant in list(graph_module.named_buffers(recurse=False)):
        if constant.dim() > 0 and constant.device == _HOST:
            setattr(graph_module, name, constant.to(device))
    for node in graph_module.graph.nodes:
        if node.kwargs.get("device") == _HOST:
            node.kwargs = {**node.kwargs, "device": device}
    graph_module.recompile()
