"""Fire the callbacks of torch.cuda._gpu_trace as a real device does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.cuda import _gpu_trace


def _fires(registry: str) -> Callable[..., None]:
    """Return a method that calls the callbacks of a registry; without callbacks it costs one check of a list."""

    def fire(self: Any, *pointers: int) -> None:
        callbacks = getattr(_gpu_trace, registry)
        if callbacks.callback_list:
            callbacks.fire_callbacks(*pointers)

    return fire


class GpuTraceSignals:
    """Fires torch's ten callback registries, so that their subscribers observe the virtual device.

    Implements `cudalens.virtual.timing.interfaces.Signals`.
    """

    event_created = _fires("EventCreationCallbacks")
    event_deleted = _fires("EventDeletionCallbacks")
    event_recorded = _fires("EventRecordCallbacks")
    event_waited = _fires("EventWaitCallbacks")
    memory_allocated = _fires("MemoryAllocationCallbacks")
    memory_freed = _fires("MemoryDeallocationCallbacks")
    stream_created = _fires("StreamCreationCallbacks")
    device_synchronized = _fires("DeviceSynchronizationCallbacks")
    stream_synchronized = _fires("StreamSynchronizationCallbacks")
    event_synchronized = _fires("EventSynchronizationCallbacks")
