"""The calling thread's current stream and device, by torch's fastest functions, and the meaning of stream handles."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Final

from torch import _C

#: Handle of the legacy default stream of the current device (``cudaStreamLegacy``), as for another library's functions.
LEGACY: Final = 1

#: Handle of the calling thread's own default stream (``cudaStreamPerThread``).
PER_THREAD: Final = 2

_NON_BLOCKING: Final = 1

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
    """Return the same by torch's public API, which creates an object."""
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


def is_blocking(pointer: int, device: int) -> bool:
    """Return whether a stream and the legacy default stream of its device wait for each other's work.

    That holds for the per-thread default stream, and for streams that another library created without
    ``cudaStreamNonBlocking``. torch creates none of them. False if the driver cannot be asked.

    Args:
        pointer: Handle of the stream.
        device: Index of its GPU.
    """
    if pointer == PER_THREAD:
        return True
    driver = _driver()
    if driver is None:
        return False
    flags = ctypes.c_uint(_NON_BLOCKING)
    failed = driver.cuStreamGetFlags(ctypes.c_void_p(pointer), ctypes.byref(flags))
    return not failed and not flags.value & _NON_BLOCKING


@functools.cache
def _driver() -> Any:
    """Return the CUDA driver, if this process has loaded it; None for AMD's."""
    import torch

    is_initialized: Any = torch.cuda.is_initialized
    if torch.version.hip is not None or not is_initialized():
        return None
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return driver if hasattr(driver, "cuStreamGetFlags") else None
