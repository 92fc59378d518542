"""Refuse what a virtual device cannot do, with errors that name the reason and an alternative.

Functions that need a real GPU are replaced by functions that raise (`install`). Errors of torch's C++ about tensors of
the device are translated (`explain`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final

import torch

from cudalens.device.modes import is_faking
from cudalens.errors import UnsupportedOperatorError, VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, refusal, when_imported
from cudalens.virtual.tensors.residency import is_any_resident, residence_of

_NCCL: Final = (
    "torch.distributed cannot use the NCCL backend{how}: NCCL moves data between GPUs, and a virtual CUDA device "
    "has none. Use init_process_group('gloo'), which accepts tensors of a virtual device."
)
_EXTENSION: Final = (
    "{name} cannot build CUDA sources ({what}): a virtual CUDA device cannot run code for a GPU. Build an "
    "extension with a CPU implementation of its operators, which the virtual device calls."
)
_IPC: Final = (
    "a tensor of a virtual CUDA device cannot be shared with another process, because the device exists in one "
    "process. Send tensor.cpu(), and move it to a device there."
)
_GREEN: Final = "torch.cuda.green_contexts are not modelled by a virtual device. Use streams."
_EXPORT: Final = (
    "torch.export.{name} does not accept a module or tensors on a virtual CUDA device: it traces with CUDA tensors "
    "that have no values, which need a build of torch with CUDA. Export a copy on the CPU: copy.deepcopy(module).cpu()."
)
_EMIT: Final = (
    "torch.autograd.profiler.emit_nvtx reports every operator to NVIDIA's tools, which cannot profile a virtual CUDA "
    "device. Use cudalens.profile() or torch.profiler; ranges of torch.cuda.nvtx are recorded."
)
_TRACE: Final = (
    "torch.jit.trace is not supported on a virtual CUDA device, because torch's C++ records CPU operations. Trace "
    "outside of the block, on the CPU; torch.jit.script works here."
)
_STORAGE: Final = "GPUDirect Storage moves data between a file and a real GPU's memory; use torch.save and torch.load."
_POINTER: Final = (
    "a tensor of a virtual CUDA device cannot be passed to another library as GPU memory ({how}): there is no GPU "
    "memory. Pass tensor.cpu()."
)

_LACKS_DTYPE: Final = "{missing} on the CPU, whose operators a virtual CUDA device runs; a GPU may support it. {advice}"
#: torch's message for an operator that lacks a dtype, with the name of the dtype.
_MISSING_DTYPE: Final = re.compile(r"not implemented for '(\w+)'")
#: Beginnings of the names of dtypes that can be converted to float32 without loss.
_NARROW: Final = ("Half", "BFloat16", "Float8")


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace the functions that need a real GPU."""
    _refuse_distributed(patches)
    _refuse_memory(patches)
    patches.set(torch.autograd.profiler.emit_nvtx, "__enter__", refusal(_EMIT))
    for name in ("trace", "trace_module"):
        patches.set(torch.jit, name, refusal(_TRACE))

    def refuse_export(module: ModuleType) -> None:
        for name in ("export", "draft_export", "export_for_training", "export_for_inference"):
            if name in vars(module):
                patches.set(module, name, _checked_export(getattr(module, name), name))

    def refuse_green_contexts(module: ModuleType) -> None:
        for name in ("create", "max_workqueue_concurrency"):
            if name in vars(module.GreenContext):
                patches.set(module.GreenContext, name, staticmethod(refusal(_GREEN)))

    def refuse_extensions(module: ModuleType) -> None:
        for name, key in (("load", "sources"), ("load_inline", "cuda_sources")):
            patches.set(module, name, _without_cuda_sources(getattr(module, name), name, key))

    def refuse_jagged(module: ModuleType) -> None:
        patches.set(module.NestedTensor, "__torch_dispatch__", _without_jagged(module.NestedTensor))

    when_imported(patches, "torch.export", refuse_export)
    when_imported(patches, "torch.nested._internal.nested_tensor", refuse_jagged)
    when_imported(patches, "torch.cuda.green_contexts", refuse_green_contexts)
    when_imported(patches, "torch.utils.cpp_extension", refuse_extensions)


def _without_jagged(kind: Any) -> Any:
    """Return the handler of a class of nested tensors that refuses to make one on the device.

    A dispatch mode above that of the device leaves a call with such a tensor to its class, so the check is there.
    """
    original = kind.__torch_dispatch__.__func__

    def refuse_on_device(cls: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func is _MAKE_JAGGED and not is_faking() and is_any_resident(args):
            raise nested(func._schema.name)
        return original(cls, func, types, args, kwargs)

    return classmethod(refuse_on_device)


_MAKE_JAGGED: Final = torch.ops.aten._nested_view_from_jagged.default


def nested(what: str) -> VirtualDeviceError:
    """Return the error for nested tensors, whose sizes are on the host."""
    return VirtualDeviceError(f"{what}: {_SIGNS[_NO_STORAGE]}")


def explain(error: Exception, what: str, values: Iterable[Any], *, is_below: bool = False) -> VirtualDeviceError | None:
    """Translate an error of torch's C++ about tensors of the device; None if the original message is right.

    Args:
        error: The error of C++.
        what: The operator or the function.
        values: Its arguments.
        is_below: Whether it was raised in the dispatch handler, below the user's call.
    """
    text = str(error)
    if isinstance(error, VirtualDeviceError) or f"{_NO_STORAGE} Sparse" in text:
        return None
    why = _reason(text, values, is_below)
    if why is None:
        return None
    kind = UnsupportedOperatorError if isinstance(error, NotImplementedError) else VirtualDeviceError
    return kind(f"{what}: {_SYMMETRIC if what.startswith('symm_mem::') else why}")


def _reason(text: str, values: Iterable[Any], is_below: bool) -> str | None:
    """Return what a message of torch's C++ means on a virtual device."""
    is_of_device = is_any_resident(values)
    if (missing := _MISSING_DTYPE.search(text)) and is_of_device:
        advice = "Convert with .float() for this operator." if missing[1].startswith(_NARROW) else "Use another dtype."
        return _LACKS_DTYPE.format(missing=missing[0], advice=advice)
    for sign, why in _SIGNS.items():
        if sign in text and (sign in _CERTAIN or (is_below and sign == _NO_STORAGE) or is_of_device):
            return why
    return None


_SYMMETRIC: Final = (
    "it needs symmetric memory or NVSHMEM, which kernels write across GPUs; these are not modelled on a virtual CUDA "
    "device. Use torch.distributed's collectives."
)
_CERTAIN: Final = frozenset({"not linked with support for cuda", "from the 'CUDA' backend"})
_NO_STORAGE: Final = "Cannot access storage of"
#: Parts of C++ messages, with their meaning on a virtual device.
_SIGNS: Final = {
    "from the 'CPU' backend": (
        "a virtual CUDA device runs an operator's CPU implementation, and this operator has none. Register one "
        "(torch.library.impl with 'CPU'), or avoid the operator."
    ),
    _NO_STORAGE: (
        "nested and oneDNN tensors are not modelled on a virtual CUDA device. Keep the tensor dense (to_dense(), "
        "to_padded_tensor()), or on the CPU."
    ),
    "no rule registered for HigherOrderOperator": (
        "higher-order operators (flex_attention, scan, ...) are not modelled on a virtual CUDA device. Call "
        "flex_attention in a function that torch.compile compiles, or use the plain form, such as "
        "torch.nn.functional.scaled_dot_product_attention with a mask."
    ),
    "argument of type: <class 'torch.storage.UntypedStorage'>": (
        "a device without values (values=False) cannot trace operators (torch.func.linearize, make_fx). Use a device "
        "with values."
    ),
    "not linked with support for cuda": (
        "this form of a device argument reached torch's C++, which has no GPU. Create the tensor on the CPU and "
        "move it with .to('cuda')."
    ),
    "from the 'CUDA' backend": (
        "this call requested memory of a real GPU. Create the tensor on the CPU and move it with .to('cuda')."
    ),
}


def _checked_export(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def export(*args: Any, **kwargs: Any) -> Any:
        given = torch.utils._pytree.tree_leaves((args, kwargs))
        modules = [value for value in given if isinstance(value, torch.nn.Module)]
        held = (tensor for module in modules for tensor in (*module.parameters(), *module.buffers()))
        if is_any_resident((*given, *held)):
            raise VirtualDeviceError(_EXPORT.format(name=name))
        return original(*args, **kwargs)

    return export


def _refuse_distributed(patches: Patches) -> None:
    if not hasattr(torch, "distributed") or not hasattr(torch.distributed, "init_process_group"):
        return
    module = torch.distributed.distributed_c10d
    for name in ("init_process_group", "new_group"):
        checked = _without_nccl(getattr(module, name), is_default_nccl=name == "init_process_group")
        for owner in (module, torch.distributed):
            patches.set(owner, name, checked)


def _without_nccl(original: Callable[..., Any], *, is_default_nccl: bool) -> Callable[..., Any]:
    position = 0 if is_default_nccl else 2

    def checked(*args: Any, **kwargs: Any) -> Any:
        backend = args[position] if len(args) > position else kwargs.get("backend")
        if backend is None and is_default_nccl:
            raise VirtualDeviceError(_NCCL.format(how=", which is the default for CUDA tensors"))
        if "nccl" in str(backend).lower():
            raise VirtualDeviceError(_NCCL.format(how=""))
        return original(*args, **kwargs)

    return checked


def _refuse_memory(patches: Patches) -> None:
    """Refuse to share GPU memory with other processes, libraries and files."""
    for name in ("_share_cuda_", "_new_shared_cuda"):
        patches.set(torch.UntypedStorage, name, refusal(_IPC))
    for name in [name for name in vars(torch._C) if name.startswith("_gds_")]:
        patches.set(torch._C, name, refusal(_STORAGE))
    interface: Any = vars(torch.Tensor).get("__cuda_array_interface__")
    if interface is not None:
        checked = property(_on_host(interface.__get__, "__cuda_array_interface__"))
        patches.set(torch.Tensor, "__cuda_array_interface__", checked)
    to_dlpack = _on_host(torch._C._to_dlpack, "DLPack")
    for owner in (torch._C, torch, torch.utils.dlpack):
        patches.set(owner, "to_dlpack" if owner is not torch._C else "_to_dlpack", to_dlpack)
    patches.set(torch.Tensor, "__dlpack__", _on_host(torch.Tensor.__dlpack__, "DLPack"))


def _on_host(original: Callable[..., Any], how: str) -> Callable[..., Any]:
    """Return a function of a tensor that refuses tensors of the device."""

    @functools.wraps(original)
    def on_host(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if residence_of(tensor) is not None:
            raise VirtualDeviceError(_POINTER.format(how=how))
        return original(tensor, *args, **kwargs)

    return on_host


def _without_cuda_sources(original: Callable[..., Any], name: str, key: str) -> Callable[..., Any]:
    position = 1 if key == "sources" else 2

    def build(*args: Any, **kwargs: Any) -> Any:
        given = args[position] if len(args) > position else kwargs.get(key)
        found = [given] if isinstance(given, str) else list(given or ())
        cuda = [str(s) for s in found if str(s).endswith((".cu", ".cuh"))] if key == "sources" else found
        if cuda or kwargs.get("with_cuda"):
            what = ", ".join(cuda) if key == "sources" and cuda else f"{key}, with_cuda"
            raise VirtualDeviceError(_EXTENSION.format(name=f"torch.utils.cpp_extension.{name}", what=what))
        return original(*args, **kwargs)

    return build
