"""Replace the C functions of ``torch.cuda.comm``, which nn.DataParallel uses to copy tensors between devices.

They use copies between devices, as PyTorch does without NCCL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.cuda.nccl

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches

_HOST: Final = -1


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace the functions."""
    functions: dict[str, Callable[..., Any]] = {
        "_broadcast": _broadcast,
        "_broadcast_out": _broadcast_out,
        "_broadcast_coalesced": _broadcast_coalesced,
        "_scatter": _scatter,
        "_scatter_out": _scatter_out,
        "_gather": _gather,
        "_gather_out": _gather_out,
    }
    for name, function in functions.items():
        patches.set(torch._C, name, function)
    patches.set(torch.cuda.nccl, "is_available", lambda tensors: False)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    """A copy on each device; the tensor itself on its own device."""
    return [tensor.to(_place(device), non_blocking=True) for device in devices]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    for index, target in enumerate(out):
        if not target.is_cuda:
            raise RuntimeError(
                f"Expected all output tensors to be CUDA tensors, but output tensor at index {index} is on "
                f"{target.device}"
            )
        if target.shape != tensor.shape:
            raise RuntimeError(
                f"Expected all output tensors to have same shape as the source tensor {list(tensor.shape)}, but output "
                f"tensor at index {index} has shape {list(target.shape)}"
            )
        target.copy_(tensor, non_blocking=True)
    return list(out)


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    """One list of copies for each device."""
    return [[tensor.to(_place(device), non_blocking=True) for tensor in tensors] for device in devices]


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Any] | None = None,
) -> list[torch.Tensor]:
    """A chunk on each device, copied on its stream if one is given."""
    pieces = (
        tensor.chunk(len(devices), dim)
        if chunk_sizes is None
        else torch.split_with_sizes(tensor, list(chunk_sizes), dim)
    )
    made = []
    for index, (piece, device) in enumerate(zip(pieces, devices, strict=False)):
        with torch.cuda.stream(streams[index] if streams is not None else None):
            made.append(piece.to(_place(device), non_blocking=True))
    return made


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int = 0, streams: Sequence[Any] | None = None
) -> list[torch.Tensor]:
    pieces = torch.split_with_sizes(tensor, [target.shape[dim] for target in out], dim)
    for index, (piece, target) in enumerate(zip(pieces, out, strict=True)):
        with torch.cuda.stream(streams[index] if streams is not None else None):
            target.copy_(piece, non_blocking=True)
    return list(out)


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None = None) -> torch.Tensor:
    """Concatenate tensors on the destination: a device, -1 for the host, None for the current device."""
    shape = list(tensors[0].shape)
    shape[dim] = sum(tensor.shape[dim] for tensor in tensors)
    place = _place(torch.cuda.current_device() if destination is None else destination)
    return _gather_out(tensors, torch.empty(shape, dtype=tensors[0].dtype, device=place), dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    pieces = torch.split_with_sizes(out, [tensor.shape[dim] for tensor in tensors], dim)
    for piece, tensor in zip(pieces, tensors, strict=True):
        piece.copy_(tensor, non_blocking=True)
    return out


def _place(device: int) -> torch.device:
    return torch.device("cpu") if device == _HOST else torch.device("cuda", device)
