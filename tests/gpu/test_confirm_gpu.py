"""Races by value on a real device: streams are held, accesses overtake each other, values differ or do not."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudalens  # noqa: E402
from cudalens.errors import ExploreError  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

RUNS = 50
SIZE = 1 << 20
LONG_NS = 10_000_000_000
LONG_MS = LONG_NS / 1e6


@pytest.fixture
def side():
    return torch.cuda.Stream()


def full(value):
    return torch.full((SIZE,), float(value), device="cuda")


def read_after_write(side):
    y = full(0)

    def program():
        y.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            y.add_(2)
        return y + 1

    return program


def write_after_read(side):
    x = full(1)

    def program():
        x.fill_(1)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            z = x + 1
        x.fill_(0)
        torch.cuda.synchronize()
        return z

    return program


def write_after_write(side):
    y = full(0)

    def program():
        with torch.cuda.stream(side):
            y.fill_(1)
        y.fill_(2)
        torch.cuda.synchronize()
        return y.clone()

    return program


def use_after_free(side):
    def program():
        x = full(1)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            z = x * 2
        del x
        y = full(5)
        torch.cuda.synchronize()
        return z, y

    return program


def host_read(side):
    x, host = full(1), torch.zeros(SIZE, pin_memory=True)

    def program():
        host.zero_()
        with torch.cuda.stream(side):
            host.copy_(x, non_blocking=True)
        seen = float(host.numpy()[SIZE - 1])
        torch.cuda.synchronize()
        return seen

    return program


def matrix_product(side):
    """As users write it: a product on a side stream, whose result is used too early."""
    batch, weights = torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda")
    hidden = torch.zeros(512, 512, device="cuda")

    def program():
        hidden.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.mm(batch, weights, out=hidden)
        return hidden.square().mean().item()

    return program


def replayed(side):
    x, y, graph = full(1), full(0), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y.copy_(x * 2)

    def program():
        y.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            graph.replay()  # reads x, which has to live as long
        return y + x

    return program


def backward(side):
    w = torch.ones(SIZE, device="cuda", requires_grad=True)

    def program():
        w.grad = torch.zeros_like(w)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            w.grad.add_(3)
        return w.grad * 2

    return program


RACY = [read_after_write, write_after_read, write_after_write, use_after_free, host_read, matrix_product, backward]


def watched(program):
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        program()
        torch.cuda.synchronize()
    return san


@pytest.mark.parametrize("make", RACY, ids=lambda make: make.__name__)
def test_a_race_is_confirmed(side, make):
    program = make(side)
    san = watched(program)
    assert san.races
    found = san.confirm(program, runs=RUNS)
    assert found.confirmed, str(found)
    assert found.num_schedules <= RUNS * len(found.races)
    (shown, *_) = [race.shown for race in found.confirmed]
    (second, first), *_ = shown.turned
    assert shown.order.index(second) < shown.order.index(first)
    assert set(san.trace().races["value_verdict"]) >= {"confirmed"}


def test_a_replay_is_confirmed(side):
    """A graph is captured while the sanitizer is on, so that what the replay writes is recorded."""
    with cudalens.sanitize() as san:
        program = replayed(side)
        torch.cuda.synchronize()
        program()
        torch.cuda.synchronize()
    assert san.races
    found = san.confirm(program, runs=RUNS)
    assert found.confirmed, str(found)


def test_what_differs_is_what_was_computed(side):
    program = read_after_write(side)
    (race,) = watched(program).confirm(program, runs=RUNS).confirmed
    (difference,) = (one for one in race.shown.differences if one.name == "result")
    assert (difference.num_differing, difference.num_elements) == (SIZE, SIZE)
    assert (difference.expected, difference.found, difference.max_abs) == (3.0, 1.0, 2.0)
    assert {share for row in difference.heat for share in row} == {1.0}


def test_a_race_that_writes_the_same_is_benign(side):
    y = full(0)

    def program():
        with torch.cuda.stream(side):
            y.fill_(1)
        y.fill_(1)
        torch.cuda.synchronize()
        return y.clone()

    found = watched(program).confirm(program, runs=RUNS)
    assert [(race.verdict, race.num_schedules) for race in found.races] == [("benign", RUNS)], str(found)
    assert not found.others


def test_a_clean_program_is_the_same_in_every_run(side):
    """Its racy twin's race is looked for in it: what is ordered cannot be turned around, and no bit changes."""
    y, is_clean = full(0), [False]
    flags = itertools.chain([False], itertools.repeat(True))

    def program():
        is_clean[0] = next(flags)
        with torch.cuda.stream(side):
            y.add_(2)
        if is_clean[0]:
            torch.cuda.current_stream().wait_stream(side)
        return y + 1

    san = watched(program)
    y.zero_()
    found = san.confirm(program, runs=RUNS)
    assert [race.verdict for race in found.races] == ["unknown"], str(found)
    assert "waits for it" in found.races[0].why
    assert not found.differs
    assert not watched(program).races


def test_without_a_race_nothing_runs():
    runs = itertools.count()
    san = watched(lambda: full(1) + 1)
    with pytest.raises(ExploreError, match="no race to confirm: the sanitizer has not found any"):
        san.confirm(lambda: next(runs))
    assert next(runs) == 0


def test_everything_is_as_before(side):
    y = full(0)

    def program():
        with torch.cuda.stream(side):
            y.add_(2)
        return y + 1, torch.rand(3, device="cuda")

    san = watched(program)
    before, state, stream = y.clone(), torch.cuda.get_rng_state(), torch.cuda.current_stream()
    san.confirm(program, runs=3)
    assert torch.equal(y, before)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert torch.cuda.current_stream() == stream
    assert side.query()


@pytest.mark.parametrize("waits", ["stream", "event", "device", "item"])
def test_the_host_never_waits_for_a_held_stream(side, waits):
    """It would otherwise wait for as long as the hold may last, in each of three runs."""
    y, numbers = full(0), itertools.count()

    def program():
        with torch.cuda.stream(side):
            y.add_(2)
            done = side.record_event()
            if waits == "item" and next(numbers):
                y[0].item()
        if waits != "item" and next(numbers):
            {"stream": side, "event": done, "device": torch.cuda}[waits].synchronize()
        return y + 1

    san = watched(program)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    found = san.confirm(program, runs=RUNS, hold_ns=LONG_NS)
    end.record()
    end.synchronize()
    assert not found.confirmed
    assert begin.elapsed_time(end) < LONG_MS


def test_an_interrupt_lets_the_stream_go(side):
    y, numbers = full(0), itertools.count(1)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def program():
        with torch.cuda.stream(side):
            y.add_(2)
        if next(numbers) == 4:  # the first delayed run: the side stream is held
            begin.record()
            raise KeyboardInterrupt
        return y + 1

    san = watched(program)
    y.zero_()
    with pytest.raises(KeyboardInterrupt):
        san.confirm(program, hold_ns=LONG_NS)
    end.record(side)
    end.synchronize()
    assert begin.elapsed_time(end) < LONG_MS
    assert y.sum().item() == 0


def test_a_released_hold_stays_released(side):
    """Released before its kernel has begun; its flag's memory is not reused, which would reset the flag."""
    from cudalens.kernels import hold

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record(side)
    with hold(side, 200_000_000):  # what comes next in the stream waits behind this one
        held = hold(side, LONG_NS)
        held.release()
        del held
        others = [torch.zeros(1, dtype=torch.int32, pin_memory=True) for _ in range(64)]
    end.record(side)
    end.synchronize()
    assert begin.elapsed_time(end) < LONG_MS
    assert len(others) == 64
