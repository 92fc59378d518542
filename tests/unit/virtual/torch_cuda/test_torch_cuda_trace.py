"""The callbacks of torch.cuda._gpu_trace on a virtual device: which fire, when, and with what.

The questions are those of PyTorch's own test_cuda_trace.py; the answers are the same ones.
"""

from __future__ import annotations

import gc

import pytest
import torch
from torch.cuda import _gpu_trace, _sanitizer

from cudalens.virtual import device

REGISTRIES = {
    "event_created": _gpu_trace.EventCreationCallbacks,
    "event_deleted": _gpu_trace.EventDeletionCallbacks,
    "event_recorded": _gpu_trace.EventRecordCallbacks,
    "event_waited": _gpu_trace.EventWaitCallbacks,
    "memory_allocated": _gpu_trace.MemoryAllocationCallbacks,
    "memory_freed": _gpu_trace.MemoryDeallocationCallbacks,
    "stream_created": _gpu_trace.StreamCreationCallbacks,
    "device_synchronized": _gpu_trace.DeviceSynchronizationCallbacks,
    "stream_synchronized": _gpu_trace.StreamSynchronizationCallbacks,
    "event_synchronized": _gpu_trace.EventSynchronizationCallbacks,
}


class Callbacks(list):
    """Every callback that fired, in order, as (what, *arguments)."""

    def of(self, name):
        """The arguments of one kind of callback."""
        return [call[1:] for call in self if call[0] == name]


@pytest.fixture
def fired(monkeypatch):
    calls = Callbacks()
    for name, registry in REGISTRIES.items():
        monkeypatch.setattr(registry, "callback_list", [])
        registry.add_callback(lambda *arguments, name=name: calls.append((name, *arguments)))
    return calls


@pytest.fixture(autouse=True)
def h100():
    with device("h100x2"):
        torch._C._activate_gpu_trace()
        yield


def recorded_event():
    event = torch.cuda.Event()
    event.record()
    return event


def test_an_event_is_created_at_its_first_record_and_not_before(fired):
    event = torch.cuda.Event()
    assert fired == []
    assert repr(event) == "<torch.cuda.Event uninitialized>"
    event.record()
    assert fired.of("event_created") == [(event._as_parameter_.value,)]
    event.record()
    assert len(fired.of("event_created")) == 1


def test_a_record_passes_the_event_and_the_stream(fired):
    event = recorded_event()
    assert fired.of("event_recorded") == [(event.cuda_event, torch.cuda.default_stream().cuda_stream)]


def test_a_record_on_a_side_stream_passes_that_stream(fired):
    stream = torch.cuda.Stream()
    event = stream.record_event()
    assert fired.of("event_recorded") == [(event.cuda_event, stream.cuda_stream)]
    assert stream.cuda_stream != 0


def test_a_record_uses_the_stream_of_the_context(fired):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        event = recorded_event()
    assert fired.of("event_recorded") == [(event.cuda_event, stream.cuda_stream)]


def test_creation_comes_before_the_record(fired):
    recorded_event()
    assert [call[0] for call in fired][:2] == ["event_created", "event_recorded"]


def test_a_wait_passes_the_event_and_the_waiting_stream(fired):
    event, stream = recorded_event(), torch.cuda.Stream()
    event.wait()
    stream.wait_event(event)
    assert fired.of("event_waited") == [(event.cuda_event, 0), (event.cuda_event, stream.cuda_stream)]


def test_waiting_for_an_event_that_was_never_recorded_does_nothing(fired):
    torch.cuda.Event().wait()
    torch.cuda.current_stream().wait_event(torch.cuda.Event())
    assert fired == []


def test_wait_stream_is_a_record_and_a_wait(fired):
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    fired.clear()
    second.wait_stream(first)
    gc.collect()
    assert [call[0] for call in fired] == ["event_created", "event_recorded", "event_waited", "event_deleted"]
    handle = fired[0][1]
    assert fired[1] == ("event_recorded", handle, first.cuda_stream)
    assert fired[2] == ("event_waited", handle, second.cuda_stream)


def test_deleting_the_object_deletes_the_event(fired):
    event = recorded_event()
    handle = event.cuda_event
    assert fired.of("event_deleted") == []
    del event
    gc.collect()
    assert fired.of("event_deleted") == [(handle,)]


def test_deleting_an_event_that_was_never_recorded_fires_no_callback(fired):
    event = torch.cuda.Event()
    del event
    gc.collect()
    assert fired == []


def test_deleting_an_event_after_its_device_fires_no_callback(fired):
    with_device = recorded_event()
    active = device_in_place()
    active.disable()
    fired.clear()
    try:
        del with_device
        gc.collect()
        assert fired == []
    finally:
        active.enable()


def device_in_place():
    from cudalens.virtual.context import active

    return active()


def test_event_handles_differ(fired):
    events = [recorded_event() for _ in range(10)]
    assert len({event.cuda_event for event in events}) == 10


def test_the_first_stream_creates_the_pools(fired):
    torch.cuda.Stream()
    created = fired.of("stream_created")
    assert len(set(created)) == len(created) == 128
    torch.cuda.Stream(priority=-1)
    assert len(fired.of("stream_created")) == 128
    torch.cuda.Stream(device="cuda:1")
    assert len(fired.of("stream_created")) == 256


def test_synchronising_a_device(fired):
    torch.cuda.synchronize()
    assert fired == [("device_synchronized",)]


def test_synchronising_a_stream_passes_the_stream(fired):
    stream = torch.cuda.Stream()
    stream.synchronize()
    torch.cuda.default_stream().synchronize()
    assert fired.of("stream_synchronized") == [(stream.cuda_stream,), (0,)]


def test_synchronising_an_event_passes_the_event(fired):
    event = recorded_event()
    event.synchronize()
    assert fired.of("event_synchronized") == [(event.cuda_event,)]


def test_synchronising_an_event_that_was_never_recorded_does_nothing(fired):
    torch.cuda.Event().synchronize()
    assert fired == []


def test_queries_fire_no_callback(fired):
    event, stream = recorded_event(), torch.cuda.Stream()
    fired.clear()
    event.query()
    stream.query()
    assert fired == []


def test_memory_of_a_tensor_is_identified_by_its_address(fired):
    tensor = torch.empty(10, 4, device="cuda")
    address = tensor.data_ptr()
    assert fired.of("memory_allocated") == [(address,)]
    assert fired.of("memory_freed") == []
    del tensor
    gc.collect()
    assert fired.of("memory_freed") == [(address,)]


def test_memory_without_a_tensor_fires_callbacks_too(fired):
    address = torch.cuda.caching_allocator_alloc(1000)
    torch.cuda.caching_allocator_delete(address)
    assert fired == [("memory_allocated", address), ("memory_freed", address)]


@pytest.mark.parametrize(
    "read", [torch.nonzero, torch.Tensor.cpu, lambda x: x[0].item(), lambda x: bool(x[0] > 0)], ids="nic?"
)
def test_reading_results_synchronises_the_stream(fired, read):
    tensor = torch.rand(5, device="cuda")
    fired.clear()
    read(tensor)
    assert fired.of("stream_synchronized") == [(0,)]


def test_every_callback_of_a_kind_is_called(fired):
    others = []
    _gpu_trace.register_callback_for_event_creation(others.append)
    event = recorded_event()
    assert fired.of("event_created") == [(event.cuda_event,)]
    assert others == [event.cuda_event]


@pytest.fixture
def csan(fired):
    """PyTorch's CUDA sanitizer, enabled for a test."""
    sanitizer = _sanitizer.CUDASanitizer()
    sanitizer.enable()
    yield sanitizer
    sanitizer.dispatch.__exit__(None, None, None)
    sanitizer.enabled = False


def test_torchs_own_sanitizer_finds_a_race(csan):
    tensor = torch.rand(4, 2, device="cuda")
    with pytest.raises(_sanitizer.CUDASanitizerErrors) as raised, torch.cuda.stream(torch.cuda.Stream()):
        torch.mul(tensor, 5, out=tensor)
    assert raised.value.errors[0].data_ptr == tensor.data_ptr()
    assert "possible data race" in str(raised.value.errors[0])


def test_torchs_sanitizer_accepts_an_event_between(csan):
    tensor = torch.rand(4, 2, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.mul(tensor, 5, out=tensor)
    torch.cuda.synchronize()
    tensor.add_(1)
