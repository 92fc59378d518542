"""The calling thread's current stream and device, by torch's fastest functions."""

from __future__ import annotations

from typing import Any

from torch import _C

_module: Any = _C


def current_stream(device: int) -> int:
    """Pointer of the current stream of a device; 0 for the legacy default stream, and if there are no streams.

    Args:
        device: Index of the GPU.
    """
    try:
        pointer: int = _module._cuda_getCurrentRawStream(device)
    except (AttributeError, RuntimeError):  # an older torch, or a CUDA build on a machine without CUDA
        return _current_stream(device)
    return pointer


def _current_stream(device: int) -> int:
    """The same by torch's public API, which creates an object."""
    import torch

    return int(torch.cuda.current_stream(device).cuda_stream) if torch.cuda.is_available() else 0


def current_device() -> int:
    """Index of the calling thread's GPU; 0 if there is none."""
    get_device = getattr(_module, "_cuda_getDevice", None)
    try:
        return int(get_device()) if get_device is not None else 0
    except RuntimeError:  # a CUDA build on a machine without CUDA
        return 0


def pointer_of(stream: Any) -> int:
    """Pointer of a stream object: a ``torch.cuda.Stream``, or the generic ``torch.Stream`` that operators receive."""
    pointer = getattr(stream, "cuda_stream", None)
    if pointer is None:
        import torch

        make: Any = torch.cuda.Stream
        pointer = make(
            stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
        ).cuda_stream
    return int(pointer)
