"""Questions that were answered "done"."""

import torch

from cudalens.device import gpu_trace, launches
from cudalens.device.gpu_trace import EventFoundDone, StreamFoundDone
from cudalens.device.streams import current_device, current_stream, pointer_of
from cudalens.virtual import device


def test_queries_that_return_true_become_records_while_a_listener_is_subscribed():
    records = []
    with device("h100"), gpu_trace.subscribe(records.append):
        event, stream = torch.cuda.Event(), torch.cuda.Stream()
        launches.watch_queries()
        try:
            x = torch.ones(1 << 22, device="cuda")
            event.record()
            assert not event.query()
            torch.cuda.synchronize()
            assert event.query()
            assert stream.query()
        finally:
            launches.unwatch_queries()
        assert event.query()
        found = [record for record in records if isinstance(record, EventFoundDone | StreamFoundDone)]
        assert found == [EventFoundDone(event.cuda_event), StreamFoundDone(stream.cuda_stream)]
        assert x.numel()


def test_an_event_without_a_record_states_nothing():
    records = []
    with device("h100"), gpu_trace.subscribe(records.append):
        launches.watch_queries()
        torch.cuda.Event().query()
        launches.unwatch_queries()
    assert records == []


def test_the_current_stream_and_device():
    with device("h100x2"):
        stream = torch.cuda.Stream(device=1)
        with torch.cuda.stream(stream):
            assert (current_device(), current_stream(1), current_stream(0)) == (1, stream.cuda_stream, 0)
        assert pointer_of(stream) == stream.cuda_stream
        generic = torch.Stream(
            stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
        )
        assert pointer_of(generic) == stream.cuda_stream
    if not torch.cuda.is_available():
        assert (current_device(), current_stream(0)) == (0, 0)
