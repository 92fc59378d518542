"""What CUDA forbids while a stream is captured, and its errors."""

from __future__ import annotations

import threading

import pytest
import torch
from graph_helpers import UNSUPPORTED, Capturing, assert_cuda_error, capture

ACTS = {
    "device": lambda x, s, e: torch.cuda.synchronize(),
    "stream": lambda x, s, e: s.synchronize(),
    "query": lambda x, s, e: s.query(),
    "other stream": lambda x, s, e: torch.cuda.default_stream().synchronize(),
    "other query": lambda x, s, e: torch.cuda.default_stream().query(),
    "old event": lambda x, s, e: e.synchronize(),
    "old event query": lambda x, s, e: e.query(),
    "item": lambda x, s, e: x.sum().item(),
    "bool": lambda x, s, e: bool((x > 0).all()),
    "nonzero": lambda x, s, e: x.nonzero(),
    "mask": lambda x, s, e: x[x > 0],
    "pinned": lambda x, s, e: x.copy_(torch.ones(3).pin_memory()),
}


@pytest.mark.parametrize("act", list(ACTS))
def test_waiting_is_forbidden_and_invalidates_the_capture(graph_gpus, act):
    x, event = torch.ones(3, device="cuda"), torch.cuda.Event()
    event.record()
    with Capturing() as running:
        with pytest.raises(RuntimeError) as info:
            ACTS[act](x, running.stream, event)
        assert_cuda_error(info, 900, UNSUPPORTED)
        assert torch.cuda.is_current_stream_capturing()
        with pytest.raises(RuntimeError) as info:
            x.add_(1)
        assert_cuda_error(info, 901, "operation failed due to a previous error during capture")
        with pytest.raises(RuntimeError) as info:
            running.end()
        assert_cuda_error(info, 901, "operation failed due to a previous error during capture")
        assert not torch.cuda.is_current_stream_capturing()
        x.mul_(2)
        assert x.tolist() == [2, 2, 2]


def test_events_of_a_capture_cannot_be_queried_or_waited_for(graph_gpus):
    event = torch.cuda.Event()
    for query in (event.query, event.synchronize):
        with Capturing() as running:
            event.record()
            with pytest.raises(RuntimeError) as info:
                query()
            assert_cuda_error(info, 907, "operation not permitted on an event last recorded in a capturing stream")
            with pytest.raises(RuntimeError, match="previous error during capture"):
                running.end()
    event.record()
    event.synchronize()


def test_the_context_manager_ends_an_invalidated_capture_with_its_own_error(graph_gpus):
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="previous error during capture") as info:
        capture(lambda: x.sum().item())
    assert UNSUPPORTED in str(info.value.__context__)


def test_side_streams_must_be_joined(graph_gpus):
    x, side = torch.ones(3, device="cuda"), torch.cuda.Stream()
    with Capturing() as running:
        side.wait_stream(running.stream)
        with torch.cuda.stream(side):
            x.add_(1)
            assert torch.cuda.is_current_stream_capturing()
        with pytest.raises(RuntimeError) as info:
            running.end()
        assert_cuda_error(info, 904, "capturing stream has unjoined work")
    assert not side.is_capturing()
    assert x.tolist() == [1, 1, 1]


def test_a_side_stream_without_work_of_its_own_needs_no_join(h100):
    x, side = torch.ones(3, device="cuda"), torch.cuda.Stream()
    with Capturing() as running:
        x.add_(1)
        side.wait_stream(running.stream)
        running.end()
        running.graph.replay()
    assert x.tolist() == [2, 2, 2]


def test_edges_from_outside_of_the_capture_are_refused(graph_gpus):
    x = torch.ones(3, device="cuda")
    with Capturing() as running:
        with pytest.raises(RuntimeError) as info:
            running.stream.wait_stream(torch.cuda.default_stream())
        assert_cuda_error(info, 905, "dependency created on uncaptured work in another stream")
        with pytest.raises(RuntimeError, match="previous error during capture"):
            x.add_(1)


def test_the_legacy_stream_cannot_join_a_capture(graph_gpus):
    x = torch.ones(3, device="cuda")
    with Capturing() as running:
        x.add_(1)
        with pytest.raises(RuntimeError) as info:
            torch.cuda.default_stream().wait_stream(running.stream)
        assert_cuda_error(info, 906, "operation would make the legacy stream depend on a capturing blocking stream")


def test_captures_cannot_be_merged(h100):
    with Capturing(mode="relaxed") as first, Capturing(mode="relaxed") as second:
        event = torch.cuda.Event()
        event.record(first.stream)
        with pytest.raises(RuntimeError) as info:
            second.stream.wait_event(event)
        assert_cuda_error(info, 902, "operation would result in a merge of separate capture sequences")
        for running in (second, first):
            with pytest.raises(RuntimeError, match="previous error during capture"):
                running.end()


def test_work_on_other_streams_goes_on_beside_a_capture(h100):
    x, y = torch.ones(3, device="cuda"), torch.ones(3, device="cuda")
    other = torch.cuda.Stream()
    with Capturing() as running:
        x.add_(1)
        with torch.cuda.stream(other):
            assert not torch.cuda.is_current_stream_capturing()
            y.add_(1)
        running.end()
    assert x.tolist() == [1, 1, 1]
    assert y.tolist() == [2, 2, 2]


def test_a_captured_blocking_stream_forbids_the_legacy_stream(h100):
    x = torch.ones(3, device="cuda")
    blocking = torch.cuda.ExternalStream(0x1234500)
    with Capturing(stream=blocking), torch.cuda.stream(torch.cuda.default_stream()):
        with pytest.raises(RuntimeError) as info:
            x.add_(1)
        assert_cuda_error(info, 906, "operation would make the legacy stream depend on a capturing blocking stream")


def in_thread(act):
    """Run in another thread; returns the error, or None."""
    errors = []

    def run():
        try:
            act()
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return errors[0] if errors else None


@pytest.mark.parametrize(("mode", "invalidates"), [("global", True), ("thread_local", False), ("relaxed", False)])
def test_the_mode_decides_what_other_threads_may_do(h100, mode, invalidates):
    x, event = torch.ones(3, device="cuda"), torch.cuda.Event()
    event.record()
    with Capturing(mode=mode) as running:
        x.add_(1)
        error = in_thread(event.synchronize)
        assert (error is not None and UNSUPPORTED in str(error)) == invalidates
        if invalidates:
            with pytest.raises(RuntimeError, match="previous error during capture"):
                running.end()
        else:
            running.end()


@pytest.mark.parametrize(("mode", "may"), [("global", False), ("thread_local", False), ("relaxed", True)])
def test_the_mode_decides_what_the_thread_itself_may_do(h100, mode, may):
    event = torch.cuda.Event()
    event.record()
    with Capturing(mode=mode):
        if may:
            event.synchronize()
        else:
            with pytest.raises(RuntimeError, match=UNSUPPORTED):
                event.synchronize()
        with pytest.raises(RuntimeError, match=UNSUPPORTED):
            torch.cuda.synchronize()  # the device has a captured stream: no mode allows it


def test_another_device_is_only_as_forbidden_as_the_mode_states(h100):
    x = torch.ones(3, device="cuda")
    with Capturing(mode="relaxed") as running:
        x.add_(1)
        torch.cuda.synchronize(1)
        running.end()
    with Capturing(mode="global"):
        x.add_(1)
        with pytest.raises(RuntimeError, match=UNSUPPORTED):
            torch.cuda.synchronize(1)


def test_a_capture_ends_in_the_thread_that_began_it(h100):
    x = torch.ones(3, device="cuda")

    with Capturing() as running:
        x.add_(1)
        error = in_thread(running.end)
        assert "attempt to terminate a thread-local capture sequence from another thread" in str(error)
        running.end()
    with Capturing(mode="relaxed") as running:
        x.add_(1)
        assert in_thread(running.end) is None
