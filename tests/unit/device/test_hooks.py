"""The one subscription to torch's gpu_trace callbacks: torch's registries fired as torch fires them."""

import gc
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref

import programs
import pytest
import torch
import torch.cuda._gpu_trace as gpu_trace

from cudalens import virtual
from cudalens.device import gpu_trace as hooks
from cudalens.device.gpu_trace import EventCreated, EventRecorded, GraphReplayed, MemoryAllocated, MemoryFreed

ACTS = [
    ("EventCreationCallbacks", (1,), hooks.EventCreated(cuda_event=1)),
    ("EventDeletionCallbacks", (1,), hooks.EventDeleted(cuda_event=1)),
    ("EventRecordCallbacks", (1, 2), hooks.EventRecorded(cuda_event=1, stream=2)),
    ("EventWaitCallbacks", (1, 2), hooks.EventWaited(cuda_event=1, stream=2)),
    ("MemoryAllocationCallbacks", (0x7F00,), hooks.MemoryAllocated(address=0x7F00)),
    ("MemoryDeallocationCallbacks", (0x7F00,), hooks.MemoryFreed(address=0x7F00)),
    ("StreamCreationCallbacks", (3,), hooks.StreamCreated(stream=3)),
    ("DeviceSynchronizationCallbacks", (), hooks.DeviceSynchronized()),
    ("StreamSynchronizationCallbacks", (3,), hooks.StreamSynchronized(stream=3)),
    ("EventSynchronizationCallbacks", (1,), hooks.EventSynchronized(cuda_event=1)),
]


def fire(name, *arguments):
    """As torch's C++ does: by the registry's own method."""
    getattr(gpu_trace, name).fire_callbacks(*arguments)


def allocated(address):
    fire("MemoryAllocationCallbacks", address)


@pytest.mark.parametrize(("registry", "arguments", "expected"), ACTS, ids=[name for name, _, _ in ACTS])
def test_each_of_torchs_ten_callbacks_becomes_its_record(registry, arguments, expected):
    records = []
    with hooks.subscribe(records.append):
        fire(registry, *arguments)
    assert records == [expected]
    assert type(records[0]) is type(expected)


def test_records_of_different_kinds_are_never_equal():
    assert hooks.EventCreated(1) != hooks.EventDeleted(1)
    assert len({record for _, _, record in ACTS}) == len(ACTS)


def test_the_ten_registries_are_all_that_torch_has():
    registries = {n for n in vars(gpu_trace) if isinstance(getattr(gpu_trace, n), gpu_trace.CallbackRegistry)}
    assert registries == set(hooks.REGISTRIES)
    with hooks.subscribe(print):
        assert hooks.missing_kinds() == ()


def test_the_order_is_kept_across_kinds_and_channels():
    records = []
    with hooks.subscribe(records.append):
        allocated(512)
        hooks.emit(GraphReplayed(graph=1, stream=2))
        fire("MemoryDeallocationCallbacks", 512)
    assert records == [MemoryAllocated(512), GraphReplayed(1, 2), MemoryFreed(512)]


def num_callbacks():
    return [len(getattr(gpu_trace, name).callback_list) for name in hooks.REGISTRIES]


def test_many_subscriptions_register_one_callback_and_leave_none_behind():
    before = num_callbacks()
    for _ in range(5):
        with hooks.subscribe(print):
            assert num_callbacks() == [num + 1 for num in before]
            with hooks.subscribe(print):
                assert num_callbacks() == [num + 1 for num in before]
            assert num_callbacks() == [num + 1 for num in before]
        assert num_callbacks() == before


def test_who_leaves_in_the_middle_of_a_callback_keeps_others_from_nothing():
    theirs, ours = [], hooks.subscribe(lambda record: ours.close())
    gpu_trace.EventRecordCallbacks.add_callback(lambda *arguments: theirs.append(arguments))
    try:
        fire("EventRecordCallbacks", 5, 6)
    finally:
        gpu_trace.EventRecordCallbacks.callback_list.pop()
    assert theirs == [(5, 6)]
    assert not hooks.is_on()


def test_listeners_are_called_in_the_order_of_subscription_and_no_more_after_close():
    records = []
    first = hooks.subscribe(lambda record: records.append("first"))
    second = hooks.subscribe(lambda record: records.append("second"))
    allocated(1)
    first.close()
    first.close()
    allocated(2)
    second.close()
    allocated(3)
    assert records == ["first", "second", "second"]
    assert not first.is_open
    assert not hooks.is_on()


def test_one_listener_may_close_another_in_the_middle_of_a_record():
    records = []
    closer = hooks.subscribe(lambda record: victim.close())
    victim = hooks.subscribe(records.append)
    with closer:
        allocated(1)
    assert records == []


def test_a_listener_that_raises_is_named_and_unsubscribed_and_others_are_unaffected():
    records = []

    def picky(record):
        raise LookupError(f"no such block: {record.address}")

    with hooks.subscribe(records.append), hooks.subscribe(picky) as bad, hooks.subscribe(records.append):
        with pytest.warns(RuntimeWarning, match=r"test_hooks.*picky raised LookupError: no such block: 7") as seen:
            allocated(7)
        assert not bad.is_open
        assert isinstance(bad.error, LookupError)
        allocated(8)
    assert len(seen) == 1
    assert records == [MemoryAllocated(7)] * 2 + [MemoryAllocated(8)] * 2


def test_the_program_is_not_broken_where_warnings_are_errors(caplog):
    def bad(record):
        raise ValueError("bad")

    with hooks.subscribe(bad), warnings.catch_warnings():
        warnings.simplefilter("error")
        hooks.emit(GraphReplayed(1, 2))
    assert "bad raised ValueError" in caplog.text


def test_an_interrupt_reaches_the_program_and_no_record_is_lost():
    records = []

    def interrupted(record):
        if record == MemoryAllocated(1):
            allocated(2)  # waits for its turn
            raise KeyboardInterrupt

    with hooks.subscribe(records.append), hooks.subscribe(interrupted) as subscription:
        with pytest.raises(KeyboardInterrupt):
            allocated(1)
        assert subscription.is_open
        allocated(3)
    assert records == [MemoryAllocated(1), MemoryAllocated(2), MemoryAllocated(3)]


@pytest.fixture
def no_automatic_collection():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_automatic_collection")
def test_records_that_a_listener_causes_come_after_the_current_one():
    orders = [[], []]

    class Block:
        pass

    garbage = Block()
    garbage.itself = garbage
    end = weakref.finalize(garbage, fire, "MemoryDeallocationCallbacks", 9)
    del garbage

    def collects(record):
        orders[0].append(record)
        gc.collect()  # as any listener's allocation may

    with hooks.subscribe(collects), hooks.subscribe(orders[1].append):
        allocated(1)
    assert not end.alive
    assert orders == [[MemoryAllocated(1), MemoryFreed(9)]] * 2


def test_threads_keep_their_own_order_and_lose_nothing():
    records = []
    barrier = threading.Barrier(4)

    def act(thread):
        barrier.wait()
        for number in range(300):
            fire("EventRecordCallbacks", thread, number)

    def come_and_go():
        barrier.wait()
        for _ in range(300):
            hooks.subscribe(lambda record: None).close()

    threads = [threading.Thread(target=act, args=(i,)) for i in range(3)] + [threading.Thread(target=come_and_go)]
    with hooks.subscribe(records.append):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not hooks.is_on()
    for i in range(3):
        assert [r.stream for r in records if r.cuda_event == i] == list(range(300))


def test_no_record_is_made_without_a_listener(monkeypatch):
    with hooks.subscribe(print):
        pass
    made = []
    monkeypatch.setattr(hooks, "_deliver", made.append)
    for registry, arguments, _ in ACTS:
        fire(registry, *arguments)
    hooks.emit(EventCreated(1))
    assert made == []


def ended_well(program):
    done = programs.run("-c", textwrap.dedent(program), imported=programs.LIBRARIES)
    return not (done.returncode or done.stderr)


def test_a_torch_without_some_registry_or_switch_still_serves_the_rest():
    program = """
        import torch, torch.cuda._gpu_trace as gpu_trace
        del gpu_trace.EventWaitCallbacks
        if hasattr(torch._C, "_activate_gpu_trace"):
            del torch._C._activate_gpu_trace
        from cudalens.device import gpu_trace as hooks
        records = []
        hooks.subscribe(records.append)
        gpu_trace.EventRecordCallbacks.fire_callbacks(1, 2)
        assert records == [hooks.EventRecorded(1, 2)]
        assert hooks.missing_kinds() == (hooks.EventWaited,)
    """
    assert ended_well(program)


def test_real_devices_are_switched_on_once_and_only_for_a_listener():
    program = """
        import torch
        switched = []
        torch._C._activate_gpu_trace = lambda: switched.append(1)
        from cudalens.device import gpu_trace as hooks
        hooks.emit(hooks.GraphReplayed(1, 2))
        assert switched == []
        hooks.subscribe(print).close()
        hooks.subscribe(print).close()
        assert switched == [1]
    """
    assert ended_well(program)


def test_the_module_itself_needs_no_torch():
    program = "import sys; import cudalens.device.gpu_trace; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_other_peoples_callbacks_are_left_alone():
    records, theirs = [], []
    gpu_trace.EventRecordCallbacks.add_callback(lambda *arguments: theirs.append(arguments))
    try:
        with hooks.subscribe(records.append):
            fire("EventRecordCallbacks", 5, 6)
        fire("EventRecordCallbacks", 7, 8)
    finally:
        gpu_trace.EventRecordCallbacks.callback_list.pop()
    assert records == [EventRecorded(5, 6)]
    assert theirs == [(5, 6), (7, 8)]


def test_graphs_of_a_program_are_recorded_once_and_only_while_something_listens():
    """On a real device torch has no callbacks for graphs: the methods of its class are wrapped."""

    class Graph:
        def __init__(self):
            self.calls = []

        def capture_begin(self, pool=None, capture_error_mode="global"):
            self.calls.append(("begin", pool, capture_error_mode))

        def capture_end(self):
            self.calls.append("end")
            if self.calls[0][2] == "relaxed":
                raise RuntimeError("invalidated")

        def replay(self):
            self.calls.append("replay")

        def reset(self):
            self.calls.append("reset")

    hooks.emit_graph_calls(Graph)
    hooks.emit_graph_calls(Graph)
    graph, failing, seen = Graph(), Graph(), []
    graph.replay()
    with virtual.device("h100"), hooks.subscribe(seen.append):
        side = torch.cuda.Stream()
        seen.clear()
        with torch.cuda.stream(side):
            graph.capture_begin((0, 5), capture_error_mode="thread_local")
            graph.capture_end()
        graph.replay()
        graph.reset()
        failing.capture_begin(capture_error_mode="relaxed")
        with pytest.raises(RuntimeError, match="invalidated"):
            failing.capture_end()
    assert graph.calls == ["replay", ("begin", (0, 5), "thread_local"), "end", "replay", "reset"]
    assert seen == [
        hooks.CaptureBegan(id(graph), side.cuda_stream, (0, 5)),
        hooks.CaptureEnded(id(graph), side.cuda_stream, is_valid=True),
        hooks.GraphReplayed(id(graph), 0),
        hooks.GraphDestroyed(id(graph)),
        hooks.CaptureBegan(id(failing), 0, (0, 0)),
        hooks.CaptureEnded(id(failing), 0, is_valid=False),
    ]
