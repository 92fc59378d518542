"""Fire the callbacks of torch.cuda._gpu_trace as a real device does."""

from __future__ import annotations

from torch.cuda import _gpu_trace


class GpuTraceSignals:
    """Fires torch's ten callback registries, so that their subscribers observe the virtual device.

    A registry without callbacks costs one check of a list.
    """

    def event_created(self, cuda_event: int) -> None:
        """A CUDA event was created, at its first record."""
        if _gpu_trace.EventCreationCallbacks.callback_list:
            _gpu_trace.EventCreationCallbacks.fire_callbacks(cuda_event)

    def event_deleted(self, cuda_event: int) -> None:
        """A CUDA event was deleted."""
        if _gpu_trace.EventDeletionCallbacks.callback_list:
            _gpu_trace.EventDeletionCallbacks.fire_callbacks(cuda_event)

    def event_recorded(self, cuda_event: int, stream: int) -> None:
        """A CUDA event was recorded on a stream."""
        if _gpu_trace.EventRecordCallbacks.callback_list:
            _gpu_trace.EventRecordCallbacks.fire_callbacks(cuda_event, stream)

    def event_waited(self, cuda_event: int, stream: int) -> None:
        """A stream was made to wait for a CUDA event."""
        if _gpu_trace.EventWaitCallbacks.callback_list:
            _gpu_trace.EventWaitCallbacks.fire_callbacks(cuda_event, stream)

    def memory_allocated(self, address: int) -> None:
        """The caching allocator allocated a block."""
        if _gpu_trace.MemoryAllocationCallbacks.callback_list:
            _gpu_trace.MemoryAllocationCallbacks.fire_callbacks(address)

    def memory_freed(self, address: int) -> None:
        """The caching allocator freed a block."""
        if _gpu_trace.MemoryDeallocationCallbacks.callback_list:
            _gpu_trace.MemoryDeallocationCallbacks.fire_callbacks(address)

    def stream_created(self, stream: int) -> None:
        """A stream was created."""
        if _gpu_trace.StreamCreationCallbacks.callback_list:
            _gpu_trace.StreamCreationCallbacks.fire_callbacks(stream)

    def device_synchronized(self) -> None:
        """The host starts to wait for a device."""
        if _gpu_trace.DeviceSynchronizationCallbacks.callback_list:
            _gpu_trace.DeviceSynchronizationCallbacks.fire_callbacks()

    def stream_synchronized(self, stream: int) -> None:
        """The host starts to wait for a stream."""
        if _gpu_trace.StreamSynchronizationCallbacks.callback_list:
            _gpu_trace.StreamSynchronizationCallbacks.fire_callbacks(stream)

    def event_synchronized(self, cuda_event: int) -> None:
        """The host starts to wait for a CUDA event."""
        if _gpu_trace.EventSynchronizationCallbacks.callback_list:
            _gpu_trace.EventSynchronizationCallbacks.fire_callbacks(cuda_event)
