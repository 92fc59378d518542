"""The allocator's hazards and the host's, watched live on the virtual device."""

import copy
import gc
import io
import pickle

import pytest
import torch

import cudalens
from cudalens.sanitizer import RaceKind

UAF, HOST = RaceKind.USE_AFTER_FREE, RaceKind.HOST
N = 1024


def kinds(san):
    assert san.error is None
    return [race.kind for race in san.races]


def read_on(stream, tensor):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        return tensor.sum()


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda x, side: None, [UAF]),
        (lambda x, side: x.record_stream(side), []),
        (lambda x, side: x[3:].record_stream(side), []),
        (lambda x, side: x.record_stream(torch.cuda.Stream()), [UAF]),
        (lambda x, side: torch.cuda.current_stream().wait_stream(side), []),
        (lambda x, side: side.synchronize(), []),
    ],
    ids=["nothing", "record_stream", "of a view", "of another stream", "waited back", "synchronised"],
)
def test_a_block_that_is_handed_out_again_while_a_side_stream_reads_it(side, act, expected):
    with cudalens.sanitize() as san:
        x = torch.ones(N, device="cuda")
        address, kept = x.data_ptr(), read_on(side, x)
        act(x, side)
        del x
        y = torch.empty(N, device="cuda")
        if expected:
            assert y.data_ptr() == address
        y.fill_(-1)
    assert kinds(san) == expected
    assert kept is not None


def test_use_after_free_states_where_the_block_was_made_and_freed(side):
    with cudalens.sanitize() as san:
        x = torch.ones(N, device="cuda")
        kept = read_on(side, x)
        del x
        torch.zeros(N, device="cuda")
    (race,) = san.races
    first, second = race.first.memory, race.second.memory
    assert first.place.source == 'x = torch.ones(N, device="cuda")'
    assert first.freed_place.source == "del x"
    assert second.place.source == 'torch.zeros(N, device="cuda")'
    assert race.first.generation != race.second.generation
    assert kept is not None


def test_a_part_of_a_freed_block_is_handed_out(side):
    with cudalens.sanitize() as san:
        x = torch.ones(4 * N, device="cuda")
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.default_stream())
            x[2 * N :].fill_(1)
        address = x.data_ptr()
        del x
        small = [torch.zeros(N, device="cuda") for _ in range(4)]
        assert address in [t.data_ptr() for t in small]
    (race,) = san.races  # one place, so one finding
    assert (race.kind, race.count) == (UAF, sum(t.data_ptr() >= address + 2 * N * 4 for t in small))
    assert race.count > 0


def test_memory_from_before_the_sanitizer_is_known_from_its_first_use(side):
    x = torch.ones(N, device="cuda")
    with cudalens.sanitize() as san:
        x.fill_(2)
        with torch.cuda.stream(side):
            x.sum()
    (race,) = san.races
    assert (race.kind, race.first.memory.place) == (RaceKind.READ_AFTER_WRITE, None)


def test_two_storages_over_one_memory_are_one_memory(side):
    x = torch.ones(N, device="cuda")
    with cudalens.sanitize() as san:
        x.fill_(2)
        with torch.cuda.stream(side):
            torch.empty(0, device="cuda").set_(x.untyped_storage(), 4, (8,)).sum()
    assert kinds(san) == [RaceKind.READ_AFTER_WRITE]


# Copies between devices: torch orders the current streams of both around the copy.

BETWEEN = {
    "copy_": lambda a, b: b.copy_(a),
    "copy_ without waiting": lambda a, b: b.copy_(a, non_blocking=True),
    "copy_ of a view": lambda a, b: b[::2].copy_(a[::2]),
    "copy_ of another type": lambda a, b: b.copy_(a.half()),
    "to": lambda a, b: b.add_(a.to(b.device)),
    "to another type": lambda a, b: b.add_(a.to(b.device, torch.float64)),
    "cat of copies": lambda a, b: b.copy_(torch.cat([a, a])[:N]),
}


@pytest.mark.parametrize("act", BETWEEN.values(), ids=BETWEEN)
@pytest.mark.parametrize("current", [0, 1])
def test_a_copy_between_devices_is_ordered_with_the_current_streams_of_both(gpu, act, current):
    with torch.cuda.device(current), cudalens.sanitize() as san:
        a, b = torch.ones(N, device="cuda:0"), torch.ones(N, device="cuda:1")
        for _ in range(2):
            a.add_(1)
            act(a, b)
            b.mul_(2)
            act(b, a)
            a.add_(1)
    assert kinds(san) == []


@pytest.mark.parametrize("act", BETWEEN.values(), ids=BETWEEN)
def test_a_copy_between_devices_is_not_ordered_with_other_streams(gpu, act):
    other = torch.cuda.Stream(1)
    a, b = torch.ones(N, device="cuda:0"), torch.ones(N, device="cuda:1")
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    with cudalens.sanitize() as san:
        act(a, b)
        with torch.cuda.stream(other):
            b.sum()
    assert kinds(san) == [RaceKind.READ_AFTER_WRITE]


def test_a_copy_between_devices_orders_side_streams_that_are_current(gpu):
    sides = torch.cuda.Stream(0), torch.cuda.Stream(1)
    a, b = torch.ones(N, device="cuda:0"), torch.ones(N, device="cuda:1")
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    with cudalens.sanitize() as san, torch.cuda.stream(sides[1]), torch.cuda.stream(sides[0]):
        a.add_(1)
        b.copy_(a)
        b.add_(1)
        a.copy_(b)
        a.add_(1)
    assert kinds(san) == []


@pytest.mark.parametrize("current", [0, 1])
def test_a_replay_runs_on_the_current_stream_of_the_graphs_device(gpu, current):
    a = torch.ones(N, device="cuda:0")
    with cudalens.sanitize() as san:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            a.add_(1)
        with torch.cuda.device(current):
            a.mul_(2)
            graph.replay()
            a.mul_(2)
    assert kinds(san) == []


def test_data_parallel_has_no_race(gpu):
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)).cuda()
    parallel = torch.nn.DataParallel(net, device_ids=[0, 1])
    optimizer = torch.optim.Adam(net.parameters())
    with cudalens.sanitize() as san:
        for _ in range(3):
            optimizer.zero_grad()
            parallel(torch.ones(8, 8, device="cuda")).sum().backward()
            optimizer.step()
    assert kinds(san) == []


# The text of a tensor


@pytest.mark.parametrize("text", [str, repr, "{}".format, lambda x: str([x]), lambda x: str(x[3])])
def test_the_text_of_a_tensor_reads_it_on_the_current_stream(side, text):
    x = torch.zeros(8, device="cuda")
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        with torch.cuda.stream(side):
            x.add_(1)
        text(x)
        assert kinds(san) == [RaceKind.READ_AFTER_WRITE]
        san.clear()
        torch.cuda.current_stream().wait_stream(side)
        assert "1." in text(x)
    assert kinds(san) == []


def test_the_text_of_a_large_tensor_has_its_first_and_last_rows(side):
    x = torch.zeros(N, 4, device="cuda")
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        with torch.cuda.stream(side):
            x[10:-10].add_(1)
        str(x)
        assert kinds(san) == []
        with torch.cuda.stream(side):
            x[-1].add_(1)
        str(x)
    assert kinds(san) == [RaceKind.READ_AFTER_WRITE]


# Pageable memory: CUDA returns from a copy into it when it is done, whatever non_blocking says.


@pytest.mark.parametrize("is_pinned", [False, True])
def test_the_host_reads_pageable_memory_after_a_copy_into_it_without_waiting(gpu, is_pinned):
    x = torch.ones(N, device="cuda")
    host = torch.empty(N, pin_memory=is_pinned)
    with cudalens.sanitize() as san:
        host.copy_(x, non_blocking=True)
        assert host.sum() == N
    assert kinds(san) == ([HOST] if is_pinned else [])


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_copy_into_pageable_memory_orders_what_comes_later_after_its_stream(side, is_pinned):
    x = torch.ones(N, device="cuda")
    host = torch.empty(N, pin_memory=is_pinned)
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        with torch.cuda.stream(side):
            x.add_(1)
            host.copy_(x, non_blocking=True)
        x.mul_(2)
    expected = {RaceKind.WRITE_AFTER_WRITE, RaceKind.WRITE_AFTER_READ} if is_pinned else set()
    assert set(kinds(san)) == expected


def test_a_copy_from_pageable_memory_orders_nothing_on_its_stream(side):
    x, host = torch.ones(N, device="cuda"), torch.ones(N)
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        with torch.cuda.stream(side):
            x.copy_(host, non_blocking=True)
        host.add_(1)
        x.mul_(2)
    assert kinds(san) == [RaceKind.WRITE_AFTER_WRITE]


def test_the_clock_is_past_a_copy_into_pageable_memory(gpu):
    x, begin, end = torch.ones(1 << 20, device="cuda"), *(torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(50):
        x = x.cos()
    torch.empty(1 << 20).copy_(x, non_blocking=True)
    assert torch.cuda.current_stream().query()
    end.record()
    assert begin.elapsed_time(end) > 0


# Pinned memory that numpy sees


@pytest.mark.parametrize("export", ["numpy", "__array__", "__dlpack__"])
def test_the_status_names_exports_of_pinned_memory(gpu, export):
    x, host = torch.ones(N, device="cuda"), torch.ones(N).pin_memory()
    with cudalens.sanitize() as san:
        getattr(host, export)()
        x.copy_(host, non_blocking=True)
    (place,) = san.status().exported
    assert "test_memory_live.py" in place
    assert f"  pinned memory that numpy or another library can write, which is not seen: {place}" in str(san.status())


@pytest.mark.parametrize(
    "act", [lambda: torch.ones(N).numpy(), lambda: torch.ones(N).pin_memory().tolist(), lambda: torch.ones(N).sum()]
)
def test_the_status_names_no_export_of_other_memory_and_no_copy(gpu, act):
    with cudalens.sanitize() as san:
        act()
    assert san.status().exported == ()
    assert "numpy" not in str(san.status())


def test_a_training_loop_stores_no_more_as_it_goes_on(gpu):
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sizes = []
    with cudalens.sanitize() as san:
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.rand(8, 16, device="cuda")).sum().backward()
            optimizer.step()
            sizes.append((san.status().num_ranges, san.status().num_accesses))
    assert kinds(san) == []
    assert sizes[-1] == sizes[4]


def test_a_tensor_read_often_is_remembered_once(side):
    x = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        for _ in range(200):
            x.sum()
        assert not san.races  # what waits is judged first
        before = san.status().num_accesses
        for _ in range(200):
            x.sum()
        assert not san.races
        assert san.status().num_accesses == before > 0


# Bytes for pickle


READS_OF_ALL = {
    "pickle": pickle.dumps,
    "parameter": lambda x: pickle.dumps(torch.nn.Parameter(x)),
    "torch.save": lambda x: torch.save({"x": x}, io.BytesIO()),
    "deepcopy": copy.deepcopy,
    "list": lambda x: x.tolist(),
}


@pytest.mark.parametrize("act", READS_OF_ALL.values(), ids=READS_OF_ALL)
def test_a_copy_of_all_values_reads_them_on_the_current_stream(side, act):
    x = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        with torch.cuda.stream(side):
            x.add_(1)
        act(x)
        assert kinds(san) == [RaceKind.READ_AFTER_WRITE]
        san.clear()
        torch.cuda.current_stream().wait_stream(side)
        act(x)
    assert kinds(san) == []


def test_a_shallow_copy_reads_nothing(side):
    x = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        with torch.cuda.stream(side):
            x.add_(1)
        copy.copy(x)
    assert kinds(san) == []


# The host


def pinned():
    return torch.zeros(N).pin_memory()


HOST_READS = {
    "operator": lambda h: h.sum(),
    "item": lambda h: h[0].item(),
    "numpy": lambda h: h.numpy(),
    "tolist": lambda h: h.tolist(),
    "text": lambda h: repr(h),
    "pickle": pickle.dumps,
    "save": lambda h: torch.save(h, io.BytesIO()),
    "deepcopy": copy.deepcopy,
    "array": lambda h: memoryview(h.numpy()),
    "view": lambda h: h[5:9] + 1,
    "scalar of a kernel": lambda h: torch.ones(3, device="cuda") * h[0],
}


@pytest.mark.parametrize("act", HOST_READS.values(), ids=HOST_READS)
def test_reading_a_pinned_buffer_before_the_copy_is_done(gpu, act):
    x, h = torch.ones(N, device="cuda"), pinned()
    with cudalens.sanitize() as san:
        h.copy_(x, non_blocking=True)
        act(h)
        assert kinds(san) == [HOST]
        san.clear()
        h.copy_(x, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        act(h)
    assert kinds(san) == []


def test_other_bytes_of_the_buffer_may_be_read(gpu):
    x, h = torch.ones(N, device="cuda"), pinned()
    with cudalens.sanitize() as san:
        h[: N // 2].copy_(x[: N // 2], non_blocking=True)
        h[N // 2 :].sum()
    assert kinds(san) == []


def test_a_copy_to_the_host_that_is_not_waited_for(gpu):
    x = torch.ones(N, device="cuda")
    with cudalens.sanitize() as san:
        h = x.to("cpu", non_blocking=True)
        h.sum()
    assert kinds(san) == [HOST]
    (race,) = san.races
    assert (race.first.op, race.second.op) == ("aten::_to_copy", "aten::sum")


@pytest.mark.parametrize(
    "wait",
    [
        lambda e: e.synchronize(),
        lambda e: torch.cuda.synchronize(),
        lambda e: torch.cuda.current_stream().synchronize(),
        lambda e: until(e.query),
        lambda e: until(torch.cuda.current_stream().query),
        lambda e: torch.ones(1, device="cuda").item(),
    ],
    ids=["event", "device", "stream", "event query", "stream query", "item"],
)
def test_whatever_the_host_waits_by_is_enough(gpu, wait):
    x, h, e = torch.ones(N, device="cuda"), pinned(), torch.cuda.Event()
    with cudalens.sanitize() as san:
        h.copy_(x, non_blocking=True)
        e.record()
        wait(e)
        h.sum()
    assert kinds(san) == []


def until(question):
    while not question():
        torch.zeros(1)  # the virtual clock moves with what the host does


def test_blocking_copies_are_done_when_they_return(gpu):
    x, h = torch.ones(N, device="cuda"), pinned()
    with cudalens.sanitize() as san:
        h.copy_(x)
        h.add_(1)
        x.copy_(h)
        h.zero_()
        x.cpu().sum()
    assert kinds(san) == []


def test_refilling_a_pinned_buffer_while_it_is_sent(gpu):
    x, h = torch.ones(N, device="cuda"), pinned()
    with cudalens.sanitize() as san:
        x.copy_(h, non_blocking=True)
        h.fill_(3)
    assert kinds(san) == [HOST]


def test_pageable_memory_is_staged_before_the_call_returns(gpu):
    x, h = torch.ones(N, device="cuda"), torch.zeros(N)
    with cudalens.sanitize() as san:
        x.copy_(h, non_blocking=True)
        h.fill_(3)
    assert kinds(san) == []


def test_the_pinned_allocator_waits_for_the_copies_of_a_freed_buffer(gpu):
    x = torch.ones(N, device="cuda")
    with cudalens.sanitize() as san:
        for _ in range(3):
            h = pinned()
            x.copy_(h, non_blocking=True)
            del h
            gc.collect()
    assert kinds(san) == []


def test_two_streams_fill_one_pinned_buffer(side):
    x, h = torch.ones(N, device="cuda"), pinned()
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        h.copy_(x, non_blocking=True)
        with torch.cuda.stream(side):
            h.copy_(x, non_blocking=True)
    assert kinds(san) == [RaceKind.WRITE_AFTER_WRITE]


# CUDA graphs


@pytest.fixture
def captured(gpu):
    """A graph that doubles `given` into `made`, captured while a sanitizer is on."""

    def capture():
        given, made = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made.copy_(given * 2)
        return graph, given, made

    return capture


def test_a_capture_runs_nothing(captured):
    with cudalens.sanitize() as san:
        _, given, made = captured()
        made.fill_(1)
        given.fill_(1)
    assert kinds(san) == []


def test_a_replay_touches_all_that_was_captured_on_its_own_stream(captured, side):
    with cudalens.sanitize() as san:
        graph, given, made = captured()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            graph.replay()
        made.sum()
        assert kinds(san) == [RaceKind.READ_AFTER_WRITE]
        given.fill_(3)
        assert kinds(san) == [RaceKind.READ_AFTER_WRITE, RaceKind.WRITE_AFTER_READ]
        torch.cuda.synchronize()
        san.clear()
        with torch.cuda.stream(side):
            graph.replay()
        torch.cuda.current_stream().wait_stream(side)
        made.sum()
        given.fill_(1)
    assert kinds(san) == []


def test_forked_streams_are_judged_within_the_capture(side):
    x = torch.ones(N, device="cuda")
    for waits, expected in ((True, []), (False, [RaceKind.WRITE_AFTER_WRITE])):
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with cudalens.sanitize() as san, torch.cuda.graph(graph):
            origin = torch.cuda.current_stream()
            side.wait_stream(origin)
            with torch.cuda.stream(side):
                x.add_(1)
            if waits:
                origin.wait_stream(side)
            x.mul_(2)
            origin.wait_stream(side)
        assert kinds(san) == expected


def test_a_replay_on_two_streams_at_once(captured, side):
    with cudalens.sanitize() as san:
        graph, *kept = captured()
        graph.replay()
        with torch.cuda.stream(side):
            graph.replay()
    assert RaceKind.WRITE_AFTER_WRITE in kinds(san)
    assert kept
