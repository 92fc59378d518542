"""The timing model: streams, events, the legacy default stream, and synchronisation."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens.gpus.registry import SPECS
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.machine import QUEUE_DEPTH, Machine
from cudalens.virtual.timing.streams import CudaEvent

SPEC = SPECS["h100"]


class Callbacks:
    """Records which callbacks fired."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *handles: self.calls.append((name, *handles))


class Log:
    """A recorder that stores the work of streams."""

    def __init__(self):
        self.work, self.calls, self.waits = [], [], []

    def called(self, name, start_ns, end_ns, correlation_id):
        self.calls.append((name, start_ns, end_ns, correlation_id))

    def worked(self, stream, work, placed):
        self.work.append((stream, work, placed))

    def synchronized(self, name, stream, device, start_ns, end_ns, correlation_id, awaited=None):
        self.waits.append((name, stream, start_ns, end_ns))


@pytest.fixture
def machine():
    return Machine(SPEC, 2, Callbacks())


def kernel(duration_ns=10_000, room=1.0):
    return Work("kernel", "k", duration_ns, room=room)


def copy(direction, duration_ns=10_000):
    return Work("gpu_memcpy", direction, duration_ns, direction=direction)


def test_a_launch_costs_the_host_its_call_and_the_stream_its_duration(machine):
    stream = machine.current_stream()
    placed = stream.launch(kernel(10_000))
    assert machine.now_ns == SPEC.launch_ns
    assert placed.start_ns == SPEC.launch_ns + SPEC.kernel_latency_ns
    assert placed.end_ns - placed.start_ns == 10_000


def test_work_of_one_stream_runs_in_order(machine):
    stream = machine.devices[0].pool_stream()
    placed = [stream.launch(kernel(50_000, room=0.1)) for _ in range(4)]
    assert all(before.end_ns <= after.start_ns for before, after in pairwise(placed))


def test_small_kernels_of_two_streams_overlap_and_large_ones_do_not(machine):
    a, b = machine.devices[0].pool_stream(), machine.devices[0].pool_stream()
    small = a.launch(kernel(90_000, room=0.2)), b.launch(kernel(90_000, room=0.2))
    assert small[1].start_ns < small[0].end_ns
    large = a.launch(kernel(90_000)), b.launch(kernel(90_000))
    assert large[1].start_ns >= large[0].end_ns


def test_copies_run_beside_kernels_and_beside_copies_the_other_way(machine):
    device = machine.devices[0]
    compute, up, down = (device.pool_stream() for _ in range(3))
    k = compute.launch(kernel(90_000))
    h2d, d2h = up.launch(copy("HtoD", 90_000)), down.launch(copy("DtoH", 90_000))
    assert max(k.start_ns, h2d.start_ns, d2h.start_ns) < min(k.end_ns, h2d.end_ns, d2h.end_ns)
    second_up = device.pool_stream().launch(copy("HtoD"))
    assert second_up.start_ns >= h2d.end_ns


def test_an_event_holds_up_the_stream_that_waits_and_no_other(machine):
    a, b, c = (machine.devices[0].pool_stream() for _ in range(3))
    first = a.launch(kernel(500_000, room=0.1))
    done = CudaEvent(machine)
    a.record(done)
    b.wait(done)
    assert b.launch(kernel(1_000, room=0.1)).start_ns >= first.end_ns
    assert c.launch(kernel(1_000, room=0.1)).start_ns < first.end_ns


def test_waiting_for_an_event_without_a_record_holds_up_nothing(machine):
    a, b = machine.devices[0].pool_stream(), machine.devices[0].pool_stream()
    never = CudaEvent(machine)
    first = a.launch(kernel(500_000, room=0.1))
    b.wait(never)
    assert b.launch(kernel(1_000, room=0.1)).start_ns < first.end_ns
    assert never.is_done()


def test_an_event_marks_the_work_before_it_not_the_work_after(machine):
    stream = machine.devices[0].pool_stream()
    first = stream.launch(kernel(100_000))
    mark = CudaEvent(machine)
    stream.record(mark)
    stream.launch(kernel(900_000))
    mark.synchronize()
    assert first.end_ns <= machine.now_ns < stream.tail_ns
    assert mark.is_done()
    assert not stream.is_done()


def test_pool_streams_and_the_default_stream_do_not_wait_for_each_other(machine):
    device = machine.devices[0]
    side = device.pool_stream()
    first = side.launch(kernel(500_000, room=0.1))
    assert device.default_stream.launch(kernel(1_000, room=0.1)).start_ns < first.end_ns


def test_blocking_streams_and_the_legacy_default_stream_wait_for_each_other(machine):
    device = machine.devices[0]
    foreign = device.external_stream(0xABC0)
    first = foreign.launch(kernel(500_000, room=0.1))
    then = device.default_stream.launch(kernel(500_000, room=0.1))
    last = foreign.launch(kernel(500_000, room=0.1))
    assert first.end_ns <= then.start_ns
    assert then.end_ns <= last.start_ns


def test_synchronisation_moves_the_host_to_the_end_of_what_it_waits_for(machine):
    device = machine.devices[0]
    quick, slow = device.pool_stream(), device.pool_stream()
    quick.launch(kernel(10_000, room=0.1))
    end = slow.launch(kernel(900_000, room=0.1)).end_ns
    quick.synchronize()
    assert machine.now_ns < end
    device.synchronize()
    assert machine.now_ns >= end
    assert machine.signals.calls[-2:] == [("stream_synchronized", quick.handle), ("device_synchronized",)]


def test_events_come_into_being_at_their_first_record(machine):
    signals, stream = machine.signals, machine.current_stream()
    event = CudaEvent(machine)
    stream.wait(event)
    event.synchronize()
    assert signals.calls == []
    stream.record(event)
    stream.record(event)
    event.delete()
    handle = signals.calls[0][1]
    assert [call[0] for call in signals.calls] == ["event_created", "event_recorded", "event_recorded", "event_deleted"]
    assert all(call[1] == handle for call in signals.calls)


def test_streams_are_handed_out_in_turn_with_torchs_numbers(machine):
    device = machine.devices[0]
    streams = [device.pool_stream() for _ in range(33)]
    assert streams[32] is streams[0]
    assert len({stream.handle for stream in streams[:32]}) == 32
    assert [stream.id for stream in streams[:3]] == [3, 35, 67]
    assert device.pool_stream(-1).id == 5
    assert device.stream(35) is streams[1]


def test_the_host_cannot_run_further_ahead_than_the_queue_is_deep(machine):
    stream = machine.current_stream()
    ends = [stream.launch(kernel(1_000_000)).end_ns for _ in range(QUEUE_DEPTH + 10)]
    assert machine.now_ns >= ends[9]


def test_a_recorder_sees_calls_and_work_tied_by_correlation(machine):
    log = machine.recorder = Log()
    stream = machine.current_stream()
    stream.launch(kernel())
    stream.launch(copy("HtoD"), "cudaMemcpyAsync")
    stream.synchronize()
    assert [call[0] for call in log.calls] == ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize"]
    assert [placed.correlation_id for _, _, placed in log.work] == [call[3] for call in log.calls[:2]]
    assert all(start < end for _, start, end, _ in log.calls)
    assert log.waits[0][0] == "Stream Synchronize"


acts = st.lists(
    st.one_of(
        st.tuples(st.just("launch"), st.integers(0, 3), st.integers(1, 200_000), st.sampled_from([0.1, 0.5, 1.0])),
        st.tuples(st.just("record"), st.integers(0, 3), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.integers(0, 3), st.integers(0, 2)),
        st.tuples(st.just("stream_sync"), st.integers(0, 3)),
        st.tuples(st.just("device_sync")),
    ),
    max_size=40,
)


def run(program):
    """Runs `program`; checks order against the happens-before edges, kept apart from the machine; returns all times."""
    machine = Machine(SPEC, 1, Callbacks())
    device = machine.devices[0]
    streams = [device.default_stream, device.pool_stream(), device.pool_stream(), device.pool_stream(-1)]
    events = [CudaEvent(machine) for _ in range(3)]
    last_end = [0] * 4
    marked: list[int | None] = [None] * 3
    times = []
    for act, *rest in program:
        if act == "launch":
            which, duration, room = rest
            placed = streams[which].launch(kernel(duration, room))
            assert placed.start_ns >= last_end[which]
            assert placed.start_ns > machine.now_ns - SPEC.launch_ns
            last_end[which] = placed.end_ns
            times.append(placed)
        elif act == "record":
            streams[rest[0]].record(events[rest[1]])
            marked[rest[1]] = last_end[rest[0]]
        elif act == "wait":
            streams[rest[0]].wait(events[rest[1]])
            last_end[rest[0]] = max(last_end[rest[0]], marked[rest[1]] or 0)
        elif act == "stream_sync":
            streams[rest[0]].synchronize()
            assert machine.now_ns >= last_end[rest[0]]
        else:
            device.synchronize()
            assert machine.now_ns >= max(last_end)
            assert all(stream.is_done() for stream in streams)
        times.append(machine.now_ns)
    return times


@given(acts)
def test_no_work_starts_before_what_it_depends_on_and_times_repeat(program):
    assert run(program) == run(program)
