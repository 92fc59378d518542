"""The allocator's hazards and the host's, watched live on the virtual device."""

import gc

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


def test_use_after_free_says_where_the_block_was_made_and_freed(side):
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


def test_a_training_loop_remembers_no_more_as_it_goes_on(gpu):
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sizes = []
    with cudalens.sanitize() as san:
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.rand(8, 16, device="cuda")).sum().backward()
            optimizer.step()
            sizes.append((san.status().num_ranges, san._watch.detector.num_touches))
    assert kinds(san) == []
    assert sizes[-1] == sizes[4]


def test_a_tensor_read_often_is_remembered_once(side):
    x = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        for _ in range(200):
            x.sum()
        assert not san.races  # what waits is judged first
        before = san._watch.detector.num_touches
        for _ in range(200):
            x.sum()
        assert not san.races
        assert san._watch.detector.num_touches == before > 0


# The host


def pinned():
    return torch.zeros(N).pin_memory()


HOST_READS = {
    "operator": lambda h: h.sum(),
    "item": lambda h: h[0].item(),
    "numpy": lambda h: h.numpy(),
    "tolist": lambda h: h.tolist(),
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


def test_a_copy_to_the_host_that_nobody_waits_for(gpu):
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
