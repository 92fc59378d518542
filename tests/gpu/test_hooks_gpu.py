"""The one subscription to torch's gpu_trace callbacks, fired by a real device."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudalens.device import gpu_trace  # noqa: E402
from cudalens.device.gpu_trace import (  # noqa: E402
    DeviceSynchronized,
    EventCreated,
    EventDeleted,
    EventRecorded,
    EventSynchronized,
    EventWaited,
    MemoryAllocated,
    MemoryFreed,
    StreamSynchronized,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture
def records():
    records: list[gpu_trace.Record] = []
    torch.cuda.Stream()  # the pools exist
    with gpu_trace.subscribe(records.append):
        yield records


def test_the_life_of_an_event(records):
    side, event = torch.cuda.Stream(), torch.cuda.Event()
    assert records == []
    event.record()
    side.wait_event(event)
    event.synchronize()
    pointer = event.cuda_event
    del event
    assert records == [
        EventCreated(pointer),
        EventRecorded(pointer, torch.cuda.default_stream().cuda_stream),
        EventWaited(pointer, side.cuda_stream),
        EventSynchronized(pointer),
        EventDeleted(pointer),
    ]


def test_memory_has_the_tensors_pointer(records):
    tensor = torch.empty(10, 4, device="cuda")
    pointer = tensor.data_ptr()
    del tensor
    assert records == [MemoryAllocated(pointer), MemoryFreed(pointer)]


def test_the_host_waits(records):
    side = torch.cuda.Stream()
    x = torch.ones(5, device="cuda")
    records.clear()
    torch.cuda.synchronize()
    side.synchronize()
    x[0].item()
    x.cpu()
    assert records == [
        DeviceSynchronized(),
        StreamSynchronized(side.cuda_stream),
        StreamSynchronized(torch.cuda.default_stream().cuda_stream),
        StreamSynchronized(torch.cuda.default_stream().cuda_stream),
    ]


def test_a_listener_that_raises_does_not_reach_torch(records):
    def broken(record: gpu_trace.Record) -> None:
        raise ValueError("broken")

    with gpu_trace.subscribe(broken) as subscription:
        with pytest.warns(RuntimeWarning, match=r"broken raised ValueError"):
            x = torch.ones(5, device="cuda")
        assert not subscription.is_open
    assert records == [MemoryAllocated(x.data_ptr())]


def test_all_the_streams_of_a_pool_are_reported_with_the_first():
    """In a process of its own, in which no stream exists yet."""
    program = """
        import torch
        from cudalens.device import gpu_trace
        records = []
        with gpu_trace.subscribe(records.append):
            stream = torch.cuda.Stream()
        streams = [r.stream for r in records if isinstance(r, gpu_trace.StreamCreated)]
        assert stream.cuda_stream in streams
        assert len(streams) == len(set(streams)) >= 32
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
