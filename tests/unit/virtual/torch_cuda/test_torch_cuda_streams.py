"""``torch.cuda.Stream`` and ``torch.cuda.Event`` on a virtual device; the classes filled in place, and new ones."""

from __future__ import annotations

import ctypes
import sys
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.cuda import Event, ExternalStream, Stream  # before any virtual device is active

from cudalens.errors import VirtualDeviceError
from cudalens.virtual import SPECS, device, parts
from cudalens.virtual.allocator import parse_conf
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, is_dummy
from cudalens.virtual.torch_cuda import handles, runtime

CYCLES_PER_MS = SPECS["h100"].clock_mhz * 1000


IS_CPU_BUILD = is_dummy(torch._C._CudaStreamBase)
WAYS = ["in place", "new classes"] if IS_CPU_BUILD else ["new classes"]


@pytest.fixture(params=WAYS)
def gpus(request, monkeypatch):
    """Two H100, with the patches for CPU builds of torch and with those for CUDA builds."""
    install = handles.install
    monkeypatch.setattr(handles, "install", lambda p, g: install(p, g, in_place=request.param == "in place"))
    with device("h100x2") as virtual:
        yield virtual.gpus


@pytest.fixture
def h100():
    with device("h100x2") as virtual:
        yield virtual.gpus


def spin(milliseconds):
    """Keep the current stream busy."""
    torch.cuda._sleep(int(milliseconds * CYCLES_PER_MS))


def timed():
    """An event with a time, recorded now."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


# -- streams -----------------------------------------------------------------------------------------------------------


def test_attributes_of_a_stream(gpus):
    stream = torch.cuda.Stream()
    assert stream.device == torch.device("cuda:0")
    assert (stream.device_index, stream.device_type) == (0, 1)
    assert stream.cuda_stream != 0
    assert stream.priority == 0
    assert repr(stream) == f"<torch.cuda.Stream device=cuda:0 cuda_stream={stream.cuda_stream:#x}>"
    assert stream._as_parameter_.value == stream.cuda_stream
    if hasattr(stream, "__cuda_stream__"):
        assert stream.__cuda_stream__() == (0, stream.cuda_stream)
    assert not stream.is_capturing()
    assert isinstance(stream, torch.Stream)
    assert isinstance(stream, torch._C._CudaStreamBase)


def test_classes_imported_before_work(gpus):
    assert torch.cuda.Stream is torch.cuda.streams.Stream is Stream
    stream, event = Stream(), Event()
    event.record(stream)
    assert isinstance(stream, torch.cuda.Stream)
    assert ExternalStream(stream.cuda_stream) == stream


@pytest.mark.skipif(not IS_CPU_BUILD, reason="in a CUDA build the classes are new ones")
def test_in_place_a_class_stays_itself():
    before = Stream
    with device("h100"):
        assert Stream is torch.cuda.Stream is before


def test_priorities(gpus):
    assert torch.cuda.Stream.priority_range() == (0, -3)
    assert torch.cuda.Stream(priority=-1).priority == -1
    assert torch.cuda.Stream(priority=-9).priority == -3
    assert torch.cuda.Stream(priority=5).priority == 0


def test_the_pool_hands_out_32_streams_in_turn(gpus):
    streams = [torch.cuda.Stream() for _ in range(33)]
    assert len({stream.cuda_stream for stream in streams}) == 32
    assert streams[32] == streams[0]
    assert hash(streams[32]) == hash(streams[0])
    assert streams[1] != streams[0]
    assert streams[0] != "no stream"


def test_a_known_stream_is_found_by_its_numbers(gpus):
    stream = torch.cuda.Stream(device=1)
    again = torch.cuda.Stream(
        stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
    )
    assert again == stream
    assert again.cuda_stream == stream.cuda_stream
    with pytest.raises(RuntimeError, match="Unrecognized stream 12345"):
        torch.cuda.Stream(stream_id=12345, device_index=0, device_type=1)


def test_the_streams_of_two_devices_differ(gpus):
    first, second = torch.cuda.Stream(device=0), torch.cuda.Stream(device="cuda:1")
    assert first.device != second.device
    assert first != second
    assert torch.cuda.default_stream(0) != torch.cuda.default_stream(1)
    assert torch.cuda.current_device() == 0


def test_the_default_stream_is_current_at_first(gpus):
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert torch.cuda.default_stream().cuda_stream == 0
    assert torch._C._cuda_getCurrentRawStream(0) == 0


def test_the_pointer_of_the_current_stream_is_each_threads_and_each_devices(gpus):
    raw_stream, stream, elsewhere = torch._C._cuda_getCurrentRawStream, torch.cuda.Stream(device=1), []
    with torch.cuda.stream(stream):
        thread = threading.Thread(target=lambda: elsewhere.extend([raw_stream(0), raw_stream(1)]))
        thread.start()
        thread.join()
        assert [raw_stream(0), raw_stream(1), raw_stream(-1)] == [0, stream.cuda_stream, stream.cuda_stream]
    assert elsewhere == [0, 0]
    assert [raw_stream(0), raw_stream(1), raw_stream(-1)] == [0, 0, 0]
    with pytest.raises(RuntimeError, match="Device index value 2 is out of index range"):
        raw_stream(2)


def test_a_stream_context_sets_and_restores(gpus):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        assert torch._C._cuda_getCurrentRawStream(0) == stream.cuda_stream
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    with torch.cuda.stream(None):
        assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_the_stream_itself_is_a_context(gpus):
    stream = torch.cuda.Stream(device=1)
    with stream as entered:
        assert entered is stream
        assert torch.cuda.current_device() == 1
        assert torch.cuda.current_stream() == stream
        with stream:
            assert torch.cuda.current_stream() == stream
        assert torch.cuda.current_stream() == stream
    assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)


def test_a_stream_of_another_device_takes_the_device_along(gpus):
    stream = torch.cuda.Stream(device=1)
    with torch.cuda.stream(stream):
        assert torch.cuda.current_device() == 1
        assert torch.cuda.current_stream(0) == torch.cuda.default_stream(0)
    assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)


def test_set_stream_stays(gpus):
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    assert torch.cuda.current_stream() == stream
    torch.cuda.set_stream(torch.cuda.default_stream())


def test_an_external_stream_keeps_its_pointer(gpus):
    stream = torch.cuda.ExternalStream(0xABC0, device=1)
    assert stream.cuda_stream == 0xABC0
    assert stream.device == torch.device("cuda:1")
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream().cuda_stream == 0xABC0
    assert torch.cuda.get_stream_from_external(0xABC0, 1) == stream
    with pytest.raises(RuntimeError, match="Priority was explicitly set for a external stream"):
        torch.cuda.ExternalStream(0xABC0, device=1, priority=-1)


def test_a_stream_that_the_runtime_made_is_external(gpus):
    cell = ctypes.c_uint64(0)
    assert torch.cuda.cudart().cudaStreamCreate(ctypes.addressof(cell)) == torch.cuda.cudart().cudaError.success
    stream = torch.cuda.ExternalStream(cell.value)
    with torch.cuda.stream(stream):
        spin(1)
    assert not stream.query()
    assert torch.cuda.cudart().cudaStreamDestroy(cell.value) == 0
    assert torch.cuda.cudart().cudaStreamDestroy(0xDEAD) == 400


def test_threads_have_streams_and_devices_of_their_own(gpus):
    stream = torch.cuda.Stream(device=1)
    seen = {}

    def other():
        seen["before"] = torch.cuda.current_device(), torch.cuda.current_stream(1).cuda_stream
        with torch.cuda.stream(torch.cuda.Stream(device=1)) as _:
            entered.set()
            go_on.wait()
            seen["within"] = torch.cuda.current_device(), torch.cuda.current_stream().cuda_stream

    entered, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=other)
    with torch.cuda.stream(stream):
        thread.start()
        entered.wait()
        assert torch.cuda.current_stream() == stream
        go_on.set()
        thread.join()
    assert seen["before"] == (0, 0)
    assert seen["within"][0] == 1
    assert seen["within"][1] not in (0, stream.cuda_stream)
    assert torch.cuda.current_device() == 0


Choice = st.one_of(
    st.tuples(st.just("stream"), st.integers(0, 5)),
    st.tuples(st.just("with"), st.integers(0, 5)),
    st.tuples(st.just("device"), st.integers(0, 1)),
)


@given(st.lists(Choice, max_size=12))
def test_nested_contexts_restore_the_previous_state(choices):
    with device("h100x2"):
        streams = [torch.cuda.Stream(device=index % 2) for index in range(4)]
        streams += [torch.cuda.default_stream(0), torch.cuda.default_stream(1)]
        enter(choices, streams)


def enter(choices, streams):
    """Enter the contexts nested; each must restore the thread's state."""
    before = state()
    if choices:
        (kind, number), rest = choices[0], choices[1:]
        context = {
            "stream": lambda: torch.cuda.stream(streams[number]),
            "with": lambda: streams[number],
            "device": lambda: torch.cuda.device(number),
        }[kind]()
        with context:
            if kind != "device":
                assert torch.cuda.current_stream() == streams[number]
                assert torch.cuda.current_device() == streams[number].device_index
            else:
                assert torch.cuda.current_device() == number
            enter(rest, streams)
    assert state() == before


def state():
    """The thread's device and its streams."""
    return torch.cuda.current_device(), *(torch.cuda.current_stream(index).cuda_stream for index in range(2))


# -- events ------------------------------------------------------------------------------------------------------------


def test_attributes_of_an_event(gpus):
    event = torch.cuda.Event()
    assert event.cuda_event == 0
    assert event.device is None
    event.record()
    assert event.cuda_event == event.event_id != 0
    assert event.device == torch.device("cuda:0")
    assert repr(event) == f"<torch.cuda.Event {event.cuda_event:#x}>"
    assert isinstance(event, torch.Event)


def test_elapsed_time_is_the_kernels_between(gpus):
    begin = timed()
    spin(3)
    end = timed()
    torch.cuda.synchronize()
    spec = SPECS["h100"]
    latency_ms = (spec.event_ns * 1 + spec.launch_ns + spec.kernel_latency_ns) / 1e6
    assert begin.elapsed_time(end) == pytest.approx(3 + latency_ms, abs=0.005)
    assert end.elapsed_time(begin) == -begin.elapsed_time(end)


def test_the_same_program_takes_the_same_time():
    times = []
    for _ in range(2):
        with device("h100"):
            begin = timed()
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                spin(2)
            spin(1)
            torch.cuda.current_stream().wait_stream(side)
            end = timed()
            end.synchronize()
            times.append(begin.elapsed_time(end))
    assert times[0] == times[1]
    assert 2 < times[0] < 2.1  # the two kernels are small and run side by side


def test_a_kernel_blocks_its_stream_and_no_other(gpus):
    busy, idle = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(busy):
        spin(5)
    assert not busy.query()
    assert idle.query()
    busy.synchronize()
    assert busy.query()


def test_waiting_for_an_event_holds_a_stream_up(gpus):
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(first):
        spin(5)
    second.wait_stream(first)
    end = torch.cuda.Event()
    end.record(second)
    assert not end.query()
    end.synchronize()
    assert first.query()


def test_a_loop_that_polls_comes_to_an_end(gpus):
    spin(0.2)
    event = torch.cuda.Event()
    event.record()
    num_queries = 0
    while not event.query():
        num_queries += 1
    assert 0 < num_queries < 1000
    spin(0.2)
    while not torch.cuda.current_stream().query():
        num_queries += 1
    assert num_queries < 2000


def test_an_event_without_a_record_is_done(gpus):
    assert torch.cuda.Event().query()
    torch.cuda.Event().synchronize()


def test_elapsed_time_wants_times(gpus):
    with pytest.raises(ValueError, match="Both events must be created with argument 'enable_timing=True'"):
        torch.cuda.Event().elapsed_time(timed())
    with pytest.raises(ValueError, match="Both events must be recorded before calculating elapsed time"):
        timed().elapsed_time(torch.cuda.Event(enable_timing=True))
    begin = timed()
    spin(10)
    with pytest.raises(RuntimeError, match="Both events must be completed before calculating elapsed time"):
        begin.elapsed_time(timed())


def test_events_of_two_devices_have_no_time_between_them(gpus):
    begin = timed()
    with torch.cuda.device(1):
        end = timed()
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    with pytest.raises(RuntimeError, match="CUDA error: invalid resource handle"):
        begin.elapsed_time(end)


def test_an_event_belongs_to_the_device_of_its_first_record(gpus):
    event = torch.cuda.Event()
    event.record(torch.cuda.Stream(device=1))
    assert event.device == torch.device("cuda:1")
    with pytest.raises(RuntimeError, match=r"Event device 1 does not match recording stream's device 0\."):
        event.record()
    torch.cuda.current_stream(0).wait_event(event)  # any device may wait for it


def test_events_do_not_leave_the_process(gpus):
    event = torch.cuda.Event(interprocess=True)
    event.record()
    with pytest.raises(VirtualDeviceError, match="one process"):
        event.ipc_handle()
    with pytest.raises(VirtualDeviceError, match="one process"):
        torch.cuda.Event.from_ipc_handle(torch.device("cuda:0"), b"0" * 64)


def test_only_streams_and_events_will_do(gpus):
    event = timed()
    for act in (event.wait, event.record):
        with pytest.raises(TypeError, match=r"expected a torch\.cuda\.Stream"):
            act("stream 0")
    with pytest.raises(TypeError, match=r"expected a torch\.cuda\.Event"):
        event.elapsed_time("later")


def test_objects_of_an_ended_device_can_be_printed_and_raise_when_used():
    with device("h100"):
        stream, event = torch.cuda.Stream(), timed()
        texts = repr(stream), repr(event)
    assert (repr(stream), repr(event)) == texts
    assert stream == stream
    with device("h100"):
        for use in (stream.query, stream.synchronize, event.query, event.synchronize):
            with pytest.raises(VirtualDeviceError, match="virtual CUDA device that has ended"):
                use()


# -- torch.Stream and torch.Event --------------------------------------------------------------------------------------


def test_generic_streams_and_events(gpus):
    stream = torch.Stream(device="cuda:1")
    assert stream.device == torch.device("cuda:1")
    assert repr(stream) == f"torch.Stream device_type=cuda, device_index=1, stream_id={stream.stream_id}"
    begin = torch.Event("cuda", enable_timing=True)
    end = torch.Event("cuda", enable_timing=True)
    with stream:
        begin.record()
        spin(4)
        end.record()
    assert begin.device == torch.device("cuda:1")
    assert not stream.query()
    stream.synchronize()
    assert begin.elapsed_time(end) == pytest.approx(4, abs=0.05)
    assert "device_type=cuda, device_index=1" in repr(end)


def test_generic_and_cuda_streams_work_together(gpus):
    generic, special = torch.Stream("cuda"), torch.cuda.Stream()
    with special:
        spin(5)
    generic.wait_stream(special)
    event = generic.record_event()
    assert isinstance(event, torch.Event)
    assert not event.query()
    special.wait_event(event)
    cuda_event = torch.cuda.Event()
    cuda_event.record(generic)
    cuda_event.wait(generic)
    generic.wait_event(cuda_event)
    assert generic != special
    assert torch.Stream(generic.stream_id, 0, 1) == generic
    assert (generic != torch.Stream(generic.stream_id, 0, 1)) is False
    assert hash(torch.Stream(generic.stream_id, 0, 1)) == hash(generic)


def test_without_a_device_they_are_of_the_current_one(gpus):
    torch.cuda.set_device(1)
    assert torch.Stream().device == torch.device("cuda:1")
    event = torch.Event()
    event.record()
    assert event.device == torch.device("cuda:1")
    torch.cuda.set_device(0)
    with pytest.raises(RuntimeError, match="Event device index 1 does not match recording stream's device index 0"):
        event.record()


def test_other_kinds_of_device_get_torchs_own_objects(gpus):
    stream = torch.Stream(device="cpu")
    assert type(stream) is torch._C.Stream
    assert isinstance(stream, torch.Stream)
    assert isinstance(torch.Stream(stream_id=0, device_index=0, device_type=0), torch._C.Stream)
    assert issubclass(torch.cuda.Stream, torch.Stream)
    assert issubclass(torch.cuda.Event, torch.Event)
    assert not isinstance("s", torch.Stream)
    assert not isinstance("e", torch.Event)


def test_everything_is_installed_by_the_device(h100):
    assert runtime.install in parts.INSTALL


def test_install_alone_needs_no_modes():
    patches, gpus = Patches(), Gpus(SPECS["t4"], 1, parse_conf(""))
    runtime.install(patches, gpus)
    try:
        assert torch.cuda.get_device_name() == "Tesla T4"
        torch.cuda.Stream().synchronize()
    finally:
        gpus.close()
        patches.restore()
    assert hasattr(torch._C, "_cuda_sleep") is not IS_CPU_BUILD


def test_threads_that_create_the_first_stream_at_once_share_the_pools():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            with device("h100") as virtual:
                start = threading.Barrier(4)

                def first(start=start):
                    start.wait()
                    torch.cuda.Stream()

                threads = [threading.Thread(target=first) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert len({stream.handle for stream in virtual.gpus.devices[0].streams}) == 129
                assert virtual.gpus.machine.devices[0].pool_stream().handle >> 8 < (0x5500_0000_0000 >> 8) + 128
    finally:
        sys.setswitchinterval(interval)
