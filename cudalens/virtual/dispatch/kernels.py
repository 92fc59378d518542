"""What an operator launches: the size and time of its kernel, and the copy by which the host learns of a result."""

from __future__ import annotations

from typing import Any

import torch

from cudalens.virtual.dispatch import scratch
from cudalens.virtual.dispatch.plans import Plan
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.tensors.copies import COPY_CALL, copy_work
from cudalens.virtual.timing import cost
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.timing.work import Work

_SCALAR_BYTES = 8


def launch(
    gpus: Gpus, device: Device, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> None:
    """Put one operator's kernel on the device's current stream. Operators on nothing launch nothing."""
    if not _num_elements(out, args):
        return
    if plan.calls_blas:
        gpus.workspaces.use(device, plan.name, args, out)
    aside = None if plan.side is None else scratch.compute(gpus, device, plan.side, args)
    work = cost.kernel_work(gpus.spec, func, args, kwargs, out)
    if plan.zeros:
        num_bytes = work.num_bytes
        work = Work(
            "gpu_memset", "Memset (Device)", cost.memset_ns(gpus.spec, num_bytes), num_bytes=num_bytes, op=plan.name
        )
        gpus.launch(device, work, "cudaMemsetAsync")
    elif plan.copies and (copied := _plainly_copied(plan, args, out)):
        gpus.launch(device, copy_work(gpus.spec, copied, "DtoD", is_pinned=True, op=plan.name), COPY_CALL)
    else:
        gpus.launch(device, work)
    if aside is not None:
        gpus.release(device, aside)


def _plainly_copied(plan: Plan, args: tuple[Any, ...], out: Any) -> int:
    """Bytes of a copy that torch leaves to the driver: one dtype, both without gaps and in one order; otherwise 0."""
    target, source = (args[0], args[1]) if plan.name == "aten::copy_" else (out, args[0])
    if target.dtype != source.dtype or target.shape != source.shape or target.stride() != source.stride():
        return 0
    if not torch.ops.aten.is_non_overlapping_and_dense.default(source):
        return 0
    return int(target.numel()) * int(target.element_size())


def fetch(gpus: Gpus, device: Device, op: str) -> None:
    """The host reads a scalar: a small copy to pageable memory, and a wait for the stream."""
    stream = gpus.machine.current_stream(device)
    stream.launch(copy_work(gpus.spec, _SCALAR_BYTES, "DtoH", is_pinned=False, op=op), COPY_CALL)
    stream.synchronize()


def _num_elements(out: Any, args: tuple[Any, ...]) -> int:
    """Elements of the result; of the first argument, where the result is no tensor."""
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
