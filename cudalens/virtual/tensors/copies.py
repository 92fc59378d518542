"""Copy tensors between the host and virtual devices: which engine copies, and whether the host waits."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from cudalens.device.modes import is_recording_graph, without_graph_recording, without_modes_above
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import torch_version
from cudalens.virtual.tensors.residency import is_pinned, is_sparse, parts_of, residence_of, use_pinned
from cudalens.virtual.timing import cost
from cudalens.virtual.timing.interfaces import Direction, Work
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.timing.streams import CudaEvent

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec

#: The runtime call for a copy.
COPY_CALL: Final = "cudaMemcpyAsync"

#: From torch 2.10, torch itself refuses pageable copies in a graph capture before it calls CUDA.
_CHECKS_CAPTURES: Final = torch_version() >= (2, 10)


def to_device(
    gpus: Gpus,
    tensor: torch.Tensor,
    target: Device | None,
    *,
    dtype: torch.dtype | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """Return a differentiable copy of `tensor` on another device (None: the host).

    The gradient is copied back to the source device.
    """
    where = torch.device("cpu") if target is None else gpus.torch_devices[target.index]
    if tensor.requires_grad and torch.is_grad_enabled():
        return ToCopy.apply(gpus, tensor, where, dtype, non_blocking, memory_format)  # type: ignore[no-untyped-call]
    return _to_copy(gpus, tensor, where, dtype, non_blocking, memory_format)


def from_data(gpus: Gpus, make: Callable[[], torch.Tensor], target: Device) -> torch.Tensor:
    """Return a tensor of Python data on a device.

    As with a GPU, dispatch modes of the program see neither the CPU tensor nor its copy: torch disables them in
    ``internal_new_from_data`` (torch/csrc/utils/tensor_new.cpp), and calls ``aten::lift_fresh`` with the result.

    Args:
        gpus: The virtual devices.
        make: Makes the CPU tensor.
        target: Where its copy goes.
    """
    if not is_recording_graph():
        with without_modes_above():
            made = to_device(gpus, make(), target)
        return torch.ops.aten.lift_fresh.default(made)
    with without_modes_above(), without_graph_recording():
        made = to_device(gpus, make(), target)
    # torch records and calls this operator instead of the other, whose result would be a view of `made`.
    return torch.ops.aten.lift_fresh_copy.default(made)


def is_python_data(value: Any) -> bool:
    """Whether torch makes a tensor of `value` from Python numbers, not from memory of another tensor or array."""
    return isinstance(value, numbers.Number | Sequence | np.generic)


def _to_copy(
    gpus: Gpus,
    tensor: torch.Tensor,
    where: torch.device,
    dtype: torch.dtype | None,
    non_blocking: bool,
    memory_format: torch.memory_format,
) -> torch.Tensor:
    with gpus.target.named():
        copied: torch.Tensor = torch.ops.aten._to_copy.default(
            tensor, dtype=dtype, device=where, non_blocking=non_blocking, memory_format=memory_format
        )
    return copied


class ToCopy(torch.autograd.Function):
    """A differentiable copy across devices; torch's own node would copy the gradient to the CPU."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        gpus: Gpus,
        tensor: torch.Tensor,
        where: torch.device,
        dtype: torch.dtype | None,
        non_blocking: bool,
        memory_format: torch.memory_format,
    ) -> torch.Tensor:
        """Copy `tensor` to `where`."""
        return _to_copy(gpus, tensor, where, dtype, non_blocking, memory_format)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Save the source device; separate from `forward`, as torch.func requires."""
        gpus, tensor = inputs[:2]
        residence = residence_of(tensor)
        ctx.source = residence.device if residence is not None else None
        ctx.gpus, ctx.dtype = gpus, tensor.dtype

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        """Copy the gradient back."""
        (grad,) = grads
        return None, to_device(ctx.gpus, grad, ctx.source, dtype=ctx.dtype), None, None, None, None


def direction(source: Device | None, target: Device | None) -> Direction | None:
    """Return the direction of a copy; None within the host."""
    if source is None:
        return None if target is None else "HtoD"
    if target is None:
        return "DtoH"
    return "DtoD" if source is target else "PtoP"


def check_capture(gpus: Gpus, host_side: torch.Tensor, places: tuple[Device | None, Device | None]) -> None:
    """Check that a copy in a graph capture uses page-locked host memory.

    Args:
        gpus: The virtual GPUs.
        host_side: The tensor on the host, if any; without one the copy is to pageable memory.
        places: The devices of source and target; None for the host.

    Raises:
        RuntimeError: The copy is not allowed in a capture; the message of this torch version
            (ATen/native/cuda/Copy.cu).
    """
    device = places[0] or places[1]
    if device is None or (places[0] is not None and places[1] is not None):
        return
    if not host_side.numel():  # torch returns before it looks at the stream
        return
    stream = gpus.machine.current_stream(device)
    if stream.capture is None or (residence_of(host_side) is None and is_pinned(host_side)):
        return
    if _CHECKS_CAPTURES:
        raise RuntimeError(
            "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
            "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True."
        )
    stream.synchronize()  # raises CUDA's error, and invalidates the capture


def run_copy(
    gpus: Gpus,
    target: torch.Tensor,
    source: torch.Tensor,
    places: tuple[Device | None, Device | None],
    *,
    non_blocking: bool,
    op: str,
) -> None:
    """Model a copy whose values are already copied.

    The copy runs on the current stream of the source's device, or of the target's if the source is on the host. A
    blocking copy to or from the host makes the host wait; one that uses pageable memory blocks the host while the
    driver stages it (CUDA Runtime API, "API synchronization behavior").

    Args:
        gpus: The virtual GPUs.
        target: The written tensor.
        source: The read tensor.
        places: The devices of source and target; None for the host.
        non_blocking: The caller's argument.
        op: The aten operator.
    """
    pairs = zip(parts_of(target), parts_of(source), strict=True) if is_sparse(target) else ((target, source),)
    for pair in pairs:
        _run_copy(gpus, pair, places, non_blocking, op)


def _run_copy(
    gpus: Gpus,
    pair: tuple[torch.Tensor, torch.Tensor],
    places: tuple[Device | None, Device | None],
    non_blocking: bool,
    op: str,
) -> None:
    target, source = pair
    way = direction(*places)
    if way is None or not target.numel():  # nothing is launched for an empty copy
        return
    device = places[0] or places[1]
    assert device is not None
    crosses_host = way in ("HtoD", "DtoH")
    host_side = source if way == "HtoD" else target
    pinned = not crosses_host or is_pinned(host_side)
    work = copy_work(gpus.spec, target.numel() * target.element_size(), way, is_pinned=pinned, op=op)
    stream = gpus.machine.current_stream(device)
    if way == "PtoP":
        _order(gpus, places[1], device)
    if crosses_host and not non_blocking:
        gpus.check_sync()
        stream.launch(work, COPY_CALL)
        stream.synchronize()
    else:
        stream.launch(work, COPY_CALL)
        if crosses_host and pinned and stream.capture is None:
            use_pinned(host_side, stream)
    if non_blocking and not pinned and stream.capture is None:
        gpus.machine.now_ns = max(gpus.machine.now_ns, stream.tail_ns)
        if gpus.machine.op_log is not None and way == "DtoH":
            gpus.machine.op_log.host_waits(stream)
    if way == "PtoP":
        _order(gpus, device, places[1])


def _order(gpus: Gpus, before: Device | None, after: Device | None) -> None:
    """Order two streams by an event, as torch does around peer copies (ATen/native/cuda/Copy.cu)."""
    if before is None or after is None or before is after:
        return
    cuda_event = CudaEvent(gpus.machine)
    gpus.machine.current_stream(before).record(cuda_event)
    gpus.machine.current_stream(after).wait(cuda_event)
    cuda_event.delete()


#: Kineto's names of copies: with pageable and with pinned host memory.
_NAMES: Final[dict[Direction, tuple[str, str]]] = {
    "HtoD": ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"),
    "DtoH": ("Memcpy DtoH (Device -> Pageable)", "Memcpy DtoH (Device -> Pinned)"),
    "DtoD": ("Memcpy DtoD (Device -> Device)",) * 2,
    "PtoP": ("Memcpy PtoP (Device -> Device)",) * 2,
}


def copy_work(spec: DeviceSpec, num_bytes: int, way: Direction, *, is_pinned: bool, op: str) -> Work:
    """Return the work of a copy.

    Args:
        spec: The GPU.
        num_bytes: The bytes to copy.
        way: The direction.
        is_pinned: Whether the host memory is page-locked; True for copies without the host.
        op: The aten operator.
    """
    return Work(
        "gpu_memcpy",
        _NAMES[way][is_pinned],
        cost.copy_ns(spec, num_bytes, way, is_pinned),
        num_bytes=num_bytes,
        direction=way,
        op=op,
    )
