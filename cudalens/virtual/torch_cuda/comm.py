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
    """Return a copy on each device; the tensor itself on its own device."""
    return [tensor.to(_place(device), non_blocking=True) for device in devices]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    for index, target in enumerate(out):
        _check(
            target.is_cuda,
            "Expected all output tensors to be CUDA tensors, but output tensor at index "
            f"{index} has device '{target.device}'",
        )
        _check(
            target.shape == tensor.shape,
            f"Expected all output tensors to have same shape as the source tensor {list(tensor.shape)}, but output "
            f"tensor at index {index} has shape {list(target.shape)}",
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
    """Return a chunk on each device, copied on its stream if one is given; a view of the tensor on its own device."""
    _check(devices, "Expected at least one device to scatter to")
    if chunk_sizes is None:
        pieces = tensor.chunk(len(devices), dim)
    else:
        _check(
            len(chunk_sizes) == len(devices),
            "Expected devices and chunk_sizes to be of same length, but got "
            f"len(devices) = {len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}",
        )
        pieces = tensor.split_with_sizes(list(chunk_sizes), dim)
    made = []
    for index, (piece, device) in enumerate(zip(pieces, devices, strict=False)):  # a short tensor has fewer chunks
        _check(device >= 0, f"Expected non-negative device index, but got {device}")
        with torch.cuda.stream(_stream_for(streams, index, device)):
            made.append(piece.to(_place(device), non_blocking=True))
    return made


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int = 0, streams: Sequence[Any] | None = None
) -> list[torch.Tensor]:
    _check(out, "Expected at least one output tensor to scatter to")
    dim = _wrapped(dim, tensor)
    for index, target in enumerate(out):
        _check(
            target.is_cuda,
            f"Expected all output tensors to be CUDA tensors, but output tensor at index {index} has device "
            f"'{target.device}'",
        )
        _check(
            _without(target, dim) == _without(tensor, dim),
            f"Output tensor at index {index} has incorrect shape: {list(target.shape)}. Expected same shape except for "
            f"scatter dim {dim} as the source tensor: {list(tensor.shape)}",
        )
    sizes = [target.shape[dim] for target in out]
    _check(
        sum(sizes) == tensor.shape[dim],
        f"Total size for output tensors along scatter dim {dim} does not match the source tensor size at dim {dim}. "
        f"Expected {tensor.shape[dim]}, but got total size {sum(sizes)}",
    )
    for index, (piece, target) in enumerate(zip(tensor.split_with_sizes(sizes, dim), out, strict=True)):
        with torch.cuda.stream(_stream_for(streams, index, target.get_device())):
            target.copy_(piece, non_blocking=True)
    return list(out)


def _stream_for(streams: Sequence[Any] | None, index: int, device: int) -> Any:
    stream = streams[index] if streams is not None and index < len(streams) else None
    _check(
        stream is None or stream.device_index == device,
        f"Expected the device associated with the stream at index {index} (was "
        f"{None if stream is None else stream.device_index}) to match the device supplied at that index (expected "
        f"{device})",
    )
    return stream


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None = None) -> torch.Tensor:
    """Concatenate tensors on the destination: a device, -1 for the host, None for the current device."""
    shape = _gathered_shape(tensors, dim)
    formats = {suggested_format(tensor) for tensor in tensors}
    place = _place(torch.cuda.current_device() if destination is None else destination)
    out = torch.empty(
        shape,
        dtype=tensors[0].dtype,
        device=place,
        memory_format=formats.pop() if len(formats) == 1 else torch.contiguous_format,
    )
    return _copy_pieces(tensors, out, dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    shape = _gathered_shape(tensors, dim)
    _check(list(out.shape) == shape, f"Expected out tensor to have shape {shape}, but got {list(out.shape)}")
    return _copy_pieces(tensors, out, dim)


def _copy_pieces(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    pieces = out.split_with_sizes([tensor.shape[dim] for tensor in tensors], dim)
    for piece, tensor in zip(pieces, tensors, strict=True):
        piece.copy_(tensor, non_blocking=out.is_cuda)
    return out


def _gathered_shape(tensors: Sequence[torch.Tensor], dim: int) -> list[int]:
    """Return the shape of the concatenated tensors.

    Raises:
        RuntimeError: A tensor is on the host or has another shape; torch's messages.
    """
    _check(tensors, "Expected at least one tensor to gather from")
    first = tensors[0]
    dim = _wrapped(dim, first)
    for index, tensor in enumerate(tensors):
        _check(
            tensor.is_cuda,
            f"Expected all input tensors to be CUDA tensors, but tensor at index {index} has device '{tensor.device}'",
        )
        _check(
            tensor.dim() == first.dim(),
            "Expected all input tensors to have the same number of dimensions, but tensor at index "
            f"{index} has {tensor.dim()} dimensions, (expected {first.dim()})",
        )
        expected = [*first.shape[:dim], tensor.shape[dim], *first.shape[dim + 1 :]]
        _check(
            list(tensor.shape) == expected,
            f"Input tensor at index {index} has invalid shape {list(tensor.shape)}, but expected {expected}",
        )
    return [*first.shape[:dim], sum(tensor.shape[dim] for tensor in tensors), *first.shape[dim + 1 :]]


def suggested_format(tensor: torch.Tensor) -> torch.memory_format:
    """Return the format that torch suggests for a tensor, from its strides."""
    for num_dims, order in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if tensor.dim() == num_dims and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=order):
            return order
    return torch.contiguous_format


def _without(tensor: torch.Tensor, dim: int) -> tuple[int, list[int]]:
    return tensor.dim(), [*tensor.shape[:dim], *tensor.shape[dim + 1 :]]


def _wrapped(dim: int, tensor: torch.Tensor) -> int:
    if not -tensor.dim() <= dim < tensor.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-tensor.dim()}, {tensor.dim() - 1}], but got {dim})"
        )
    return dim % tensor.dim()


def _check(condition: object, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def _place(device: int) -> torch.device:
    return torch.device("cpu") if device == _HOST else torch.device("cuda", device)
