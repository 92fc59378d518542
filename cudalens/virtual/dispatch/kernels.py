"""Model the kernel launch of an operator, and the copy by which the host reads a result."""

from __future__ import annotations

from typing import Any

import torch

from cudalens.virtual.dispatch import plans
from cudalens.virtual.dispatch.cuda_dtypes import cast_operand
from cudalens.virtual.dispatch.plans import Plan
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.tensors.copies import COPY_CALL, copy_work
from cudalens.virtual.tensors.residency import is_sparse
from cudalens.virtual.timing import cost
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.machine import Device

_SCALAR_BYTES = 8
_TO_COPY = torch.ops.aten._to_copy.default

#: The first compute capability with tensor cores for float8, and torch's error on other GPUs.
_FIRST_FLOAT8 = (8, 9)
_NO_FLOAT8 = (
    "torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or ROCm MI300+; "
    "{name} has no tensor cores for float8"
)


def launch(
    gpus: Gpus, device: Device, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> None:
    """Issue the kernel of an operator to the device's current stream; operators without elements launch nothing."""
    if plan.communicates and gpus.communicator is not None and gpus.communicator.launch(device, func, args, out):
        return
    if not _num_elements(out, args):
        return
    if plan.name == "aten::_scaled_mm" and gpus.spec.compute_capability < _FIRST_FLOAT8:
        raise RuntimeError(_NO_FLOAT8.format(name=gpus.spec.name))
    if plan.calls_blas and not any(isinstance(arg, torch.Tensor) and is_sparse(arg) for arg in args):
        gpus.workspaces.use(device, plan.name, args, out)
    extra_blocks = [] if plan.side is None else plans.compute(gpus, device, plan.side, args)
    if plan.casts and (cast := cast_operand(plan.name, args[0], out)) is not None:
        extra_blocks.append(gpus.reserve(device, cast.numel() * cast.element_size()))
        gpus.launch(device, cost.kernel_work(gpus.spec, _TO_COPY, args[:1], {"dtype": cast.dtype}, cast))
        args = (cast, *args[1:])
    if plan.zeros:
        num_bytes = cost.kernel_work(gpus.spec, func, args, kwargs, out).num_bytes
        work = Work(
            "gpu_memset", "Memset (Device)", cost.memset_ns(gpus.spec, num_bytes), num_bytes=num_bytes, op=plan.name
        )
        gpus.launch(device, work, "cudaMemsetAsync")
    elif plan.copies and (copied := _memcpy_bytes(plan, args, out)):
        gpus.launch(device, copy_work(gpus.spec, copied, "DtoD", is_pinned=True, op=plan.name), COPY_CALL)
    else:
        for work in cost.kernel_works(gpus.spec, func, args, kwargs, out):
            gpus.launch(device, work)
    for block in extra_blocks:
        gpus.release(device, block)


def _memcpy_bytes(plan: Plan, args: tuple[Any, ...], out: Any) -> int:
    """Bytes of a copy for which torch uses the driver's copy: equal dtype and dense equal layout; otherwise 0."""
    target, source = (args[0], args[1]) if plan.name == "aten::copy_" else (out, args[0])
    if is_sparse(target) or is_sparse(source):
        return 0
    if target.dtype != source.dtype or target.shape != source.shape or target.stride() != source.stride():
        return 0
    if not torch.ops.aten.is_non_overlapping_and_dense.default(source):
        return 0
    return int(target.numel()) * int(target.element_size())


def fetch(gpus: Gpus, device: Device, op: str) -> None:
    """Model the host reading a scalar: a small copy to pageable memory, and a wait for the stream."""
    stream = gpus.machine.current_stream(device)
    stream.launch(copy_work(gpus.spec, _SCALAR_BYTES, "DtoH", is_pinned=False, op=op), COPY_CALL)
    stream.synchronize()


def _num_elements(out: Any, args: tuple[Any, ...]) -> int:
    """Elements of the result; of the first tensor argument if the result is not a tensor."""
    if isinstance(out, torch.Tensor):
        return out.numel()
    for group in (out, args):
        if isinstance(group, list | tuple):
            for item in group:
                if isinstance(item, torch.Tensor):
                    return item.numel()
                if isinstance(item, list | tuple) and item:
                    return _num_elements(None, tuple(item))
    return 0
