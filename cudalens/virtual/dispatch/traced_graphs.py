"""Give the nodes of graphs that ``make_fx`` and ``torch.func.linearize`` trace the devices that the program meant.

A tensor of a virtual device has the host's type below the dispatch mode, so the calls that arrive there name the CPU:
those of the program, whose device `Target` has, and those of derivative formulas of forward mode, in C++, which make
zeros and copies for a tensor. Called directly, both give tensors of the device; a traced graph runs them later by their
arguments.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.overrides import TorchFunctionMode

from cudalens.device.modes import is_faking
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.residency import residence_of

_HOST: Final = torch.device("cpu")


def install(patches: Patches, gpus: Gpus) -> None:
    """Change what the tracing mode records, and what ``linearize`` traces with."""
    _record_devices(patches, gpus)
    _trace_linear_maps(patches)


def _record_devices(patches: Patches, gpus: Gpus) -> None:
    original: Any = ProxyTorchDispatchMode.__torch_dispatch__

    @functools.wraps(original)
    def dispatch(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        meant = gpus.target.device
        if meant is None or is_faking() or (kwargs or {}).get("device") != _HOST:
            return original(mode, func, types, args, kwargs or {})
        nodes = mode.tracer.graph.nodes
        last = next(reversed(nodes), None)
        result = original(mode, func, types, args, kwargs)
        for node in itertools.takewhile(lambda node: node is not last, reversed(nodes)):
            _name_device(node, gpus.torch_devices[meant.index])
        return result

    patches.set(ProxyTorchDispatchMode, "__torch_dispatch__", dispatch)


def _trace_linear_maps(patches: Patches) -> None:
    """Torch wraps ``make_fx`` for its compiler before ``linearize`` uses it."""
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
        _name_device(node, device)
    graph_module.recompile()


def _name_device(node: Any, device: torch.device) -> None:
    if node.kwargs.get("device") == _HOST:
        node.kwargs = {**node.kwargs, "device": device}
