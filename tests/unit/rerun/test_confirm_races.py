"""Runs that are delayed: which order they come in, what is compared, what is put back, and what is refused.

On the virtual device values are computed in the program's order, but time is modelled: a program that reads times
(`Event.elapsed_time`) sees the order of its tasks, so its own values differ by it.
"""

import itertools
import random
import signal
from types import SimpleNamespace

import pytest
import torch

import cudalens
from cudalens.errors import ExploreError, KernelError
from cudalens.frames.exploration import Shown
from cudalens.virtual import device


@pytest.fixture
def h100():
    with device("h100"):
        yield


class Racy:
    """A program with one race: `side` writes what the default stream reads."""

    def __init__(self, *, is_ordered=False):
        self.side = torch.cuda.Stream()
        self.x = torch.ones(64, 64, device="cuda")
        self.events, self.num_runs, self.is_ordered = [], 0, is_ordered
        torch.cuda.synchronize()

    def __call__(self):
        self.num_runs += 1
        begin, wrote, read = self.events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        begin.record()
        with torch.cuda.stream(self.side):
            self.x.mul_(2)
            wrote.record()
        if self.is_ordered:
            torch.cuda.current_stream().wait_event(wrote)
        read.record()
        return self.x + 1

    def times_ms(self):
        """When it had been written, and when it began to be read."""
        begin, wrote, read = self.events
        torch.cuda.synchronize()
        return begin.elapsed_time(wrote), begin.elapsed_time(read)

    @property
    def wrote_first(self):
        wrote, read = self.times_ms()
        return wrote <= read


def watched(program):
    with cudalens.sanitize() as san:
        program()
    return san


def asks_the_time(racy):
    def program():
        z = racy()
        number = 1 if racy.wrote_first else 2
        return z, torch.full((4,), number, device="cuda"), number

    return program


def test_the_second_access_overtakes_the_first(h100):
    racy = Racy()
    san = watched(racy)
    found = san.confirm(racy, runs=3, on_virtual=True)
    wrote, read = racy.times_ms()
    assert read < wrote
    assert wrote - read > 15  # held for 20 ms; a virtual device cannot let go early
    (race,) = found.races
    assert (race.verdict, race.num_schedules, race.pairs) == ("benign", 3, ((0, 1),))
    assert found.verdict == "0 of 1 race confirmed by value, 1 benign so far, in 3 delayed runs."
    assert racy.num_runs == 1 + 2 + 3
    assert found.source == "virtual:h100"


def test_a_race_that_shows_is_confirmed_with_its_schedule(h100):
    racy = Racy()
    program = asks_the_time(racy)
    san = watched(program)
    found = san.confirm(program, runs=5, on_virtual=True)
    (race,) = found.confirmed
    assert isinstance(race.shown, Shown)
    assert racy.num_runs == 1 + 2 + 1 + 1  # once confirmed it is enough; the last run is in the program's order again
    assert [(d.name, d.expected, d.found, d.num_differing) for d in race.shown.differences] == [
        ("result[1]", 1, 2, 4),
        ("result[2]", 1, 2, 1),
    ]
    assert race.shown.seed == "hold:1<0"
    assert race.shown.order[:2] == (1, 0)
    assert race.shown.turned == ((1, 0),)
    assert found.steps[0].name == "aten::mul_"
    assert found.steps[0].lane != found.steps[1].lane
    assert found.steps[1].source == "return self.x + 1"
    assert "result[0]" in found.outputs
    row = san.trace().races.iloc[0]
    assert (row["value_verdict"], row["num_schedules"]) == ("confirmed", 1)


def test_everything_is_as_it_was_for_each_run_and_afterwards(h100):
    side = torch.cuda.Stream()
    x, w = torch.ones(8, device="cuda"), torch.ones(4, device="cuda", requires_grad=True)
    host = torch.zeros(3)
    seen = SimpleNamespace(by_run=[])  # a list would be put back, too

    def program():
        seen.by_run.append((x.sum().item(), host.sum().item(), random.random(), torch.rand(()).item(), w.grad))
        torch.cuda.synchronize()
        host.add_(1)
        with torch.cuda.stream(side):
            x.add_(1)
        y = x * 2
        torch.cuda.synchronize()
        (w * 3).sum().backward()
        return y, torch.rand(2, device="cuda")

    san = watched(program)
    assert san.races
    before, state = (x.tolist(), host.tolist(), w.grad.tolist()), torch.cuda.get_rng_state()
    found = san.confirm(program, runs=2, on_virtual=True)
    assert [race.verdict for race in found.races] == ["benign"]
    assert [note.partition(",")[0] for note in found.notes] == [
        "a virtual device computes values in the program's order"
    ]
    assert len(set(map(str, seen.by_run[1:]))) == 1
    assert (x.tolist(), host.tolist(), w.grad.tolist()) == before
    assert torch.equal(torch.cuda.get_rng_state(), state)


def test_what_differs_without_delays_is_not_compared(h100):
    racy, numbers = Racy(), itertools.count(1)

    def program():
        number = next(numbers)
        return racy(), torch.full((3,), number, device="cuda"), float(number)

    found = watched(program).confirm(program, runs=2, on_virtual=True)
    assert [race.verdict for race in found.races] == ["benign"]
    assert found.outputs == ("result[0]",)
    assert "`result[1]`, `result[2]`" in found.notes[0]


def test_a_program_that_raises_in_another_order(h100):
    racy = Racy()

    def program():
        z = racy()
        if not racy.wrote_first:
            raise ValueError("x is not there yet")
        return z

    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        z = racy()  # noqa: F841
    found = san.confirm(lambda: (torch.cuda.synchronize(), program())[1], runs=2, on_virtual=True)
    (race,) = found.confirmed
    assert str(race.shown.differences[0]) == "`the program` raises ValueError: x is not there yet"
    assert racy.x.sum().item() == 2 * 64 * 64


def test_a_program_that_cannot_run_again(h100):
    racy, left = Racy(), [1]

    def program():
        left.pop()
        return racy()

    san = watched(program)
    with pytest.raises(ExploreError, match="run again, in its own order, the program raises IndexError"):
        san.confirm(program, on_virtual=True)


def test_an_interrupt_lets_go_and_puts_everything_back(h100):
    racy = Racy()
    san = watched(racy)
    numbers = itertools.count(1)

    def program():
        z = racy()
        if next(numbers) == 3:
            raise KeyboardInterrupt
        return z

    before = racy.x.tolist()
    with san, pytest.raises(KeyboardInterrupt):
        san.confirm(program, on_virtual=True)
    assert racy.x.tolist() == before
    assert len(torch.utils._python_dispatch._get_current_dispatch_mode_stack()) == 1  # the virtual device's own


def test_the_fix_is_known_after_it_too(h100):
    racy = Racy()
    with cudalens.sanitize() as san:
        racy()
        for _ in range(2):
            san.confirm(racy, runs=1, on_virtual=True)
        (finding,) = san.findings()
    assert finding.fix is not None


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_waits_of_ours_are_not_the_programs(h100):
    """Torch raises where the host waits, as far as it is the program that does."""
    racy = Racy()
    san = watched(racy)
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = san.confirm(racy, runs=1, on_virtual=True)
        assert torch.cuda.get_sync_debug_mode() == 2
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [race.verdict for race in found.races] == ["benign"]


def test_what_was_confirmed_stays_so(h100):
    racy = Racy()
    san = watched(asks_the_time(racy))
    assert san.confirm(asks_the_time(racy), runs=1, on_virtual=True).confirmed
    assert not san.confirm(racy, runs=1, on_virtual=True).confirmed
    assert san.trace().races["value_verdict"].tolist() == ["confirmed"]


def test_a_sanitizer_that_is_on_judges_none_of_it(h100):
    racy = Racy()
    with cudalens.sanitize() as san:
        racy()
        torch.cuda.synchronize()
        seen = san.num_seen
        san.confirm(racy, runs=2, on_virtual=True)
        assert san.is_on
        assert san.num_seen == seen


def test_a_race_with_the_host(h100):
    side, x = torch.cuda.Stream(), torch.ones(1 << 16, device="cuda")
    host = torch.zeros(1 << 16, pin_memory=True)
    torch.cuda.synchronize()

    def program():
        with torch.cuda.stream(side):
            host.copy_(x, non_blocking=True)
        return host.numpy()[0]

    san = watched(program)
    assert san.races[0].kind.value == "host access"
    found = san.confirm(program, runs=2, on_virtual=True)
    assert [(race.verdict, race.num_schedules) for race in found.races] == [("benign", 2)]
    assert found.steps[-1].lane == "host"


def test_the_host_looks_until_it_does_something_else(h100):
    """Its look at the numpy array comes after the call that gave it: the copy is late until the host waits for it."""
    side, x = torch.cuda.Stream(), torch.ones(1 << 16, device="cuda")
    host = torch.zeros(1 << 16, pin_memory=True)
    torch.cuda.synchronize()
    copied = torch.cuda.Event()

    def program():
        with torch.cuda.stream(side):
            host.copy_(x, non_blocking=True)
            copied.record()
        array = host.numpy()
        is_there = copied.query()
        torch.cuda.synchronize()
        return is_there, array[0]

    found = watched(program).confirm(program, runs=2, on_virtual=True)
    (race,) = found.confirmed
    assert str(race.shown.differences[0]) == "`result[0]` differs: False instead of True"
    assert "result[1]" in found.outputs


def test_replays_of_graphs(h100):
    x, y, side = torch.ones(16, device="cuda"), torch.zeros(16, device="cuda"), torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()

    def program():
        y.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            graph.replay()
        return y + 1

    with cudalens.sanitize() as san:
        with torch.cuda.graph(graph):
            y.copy_(x * 2)
        program()
    assert san.races
    found = san.confirm(program, runs=2, on_virtual=True)
    assert [(race.verdict, race.num_schedules) for race in found.races] == [("benign", 2)]
    assert any(step.name == "graph replay" for step in found.steps)


def test_accesses_that_a_wait_orders_are_not_turned(h100):
    """The race was reported of another program: what is ordered stays so, however long its stream is held."""
    racy = Racy()
    san = watched(racy)
    racy.is_ordered = True
    found = san.confirm(racy, runs=2, hold_ns=1_000_000, on_virtual=True)
    (race,) = found.races
    assert (race.verdict, race.num_schedules) == ("unknown", 0)
    assert "still came first" in race.why


def test_an_access_that_does_not_come_again(h100):
    racy = Racy()
    found = watched(racy).confirm(lambda: racy.x + 1, on_virtual=True)
    (race,) = found.races
    assert race.verdict == "unknown"
    assert "were not seen" in race.why
    assert found.num_schedules == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "a virtual device computes values in the program's order"),
        ({"on_virtual": True, "runs": 0}, "runs=0: expected a whole number from 1 to 10,000"),
        ({"on_virtual": True, "runs": True}, "runs=True: expected"),
        ({"on_virtual": True, "hold_ns": 1 << 60}, "hold_ns=.* expected a whole number from 1 to 10,000,000,000"),
    ],
)
def test_wrong_wishes_run_nothing(h100, options, words):
    racy = Racy()
    san = watched(racy)
    with pytest.raises(ExploreError, match=words):
        san.confirm(racy, **options)
    assert racy.num_runs == 1


def test_without_races_or_without_a_program_or_a_gpu(h100):
    racy = Racy()
    with pytest.raises(ExploreError, match="no race to confirm"):
        cudalens.sanitize().confirm(racy, on_virtual=True)
    with pytest.raises(ExploreError, match="put it into a function"):
        watched(racy).confirm(None, on_virtual=True)


def test_one_of_several_ranks_is_refused(h100, tmp_path):
    """A group of one process is accepted; the group of two uses torch's fake backend, which sends nothing."""
    distributed, racy = torch.distributed, Racy()
    san = watched(racy)
    distributed.init_process_group("gloo", store=distributed.FileStore(str(tmp_path / "one"), 1), rank=0, world_size=1)
    try:
        assert san.confirm(racy, runs=1, on_virtual=True).num_schedules == 1
    finally:
        distributed.destroy_process_group()
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    distributed.init_process_group("fake", store=fake.FakeStore(), rank=0, world_size=2)
    num_runs = racy.num_runs
    try:
        with pytest.raises(ExploreError, match="one of 2 ranks, and the program would run again in it alone"):
            san.confirm(racy, on_virtual=True)
    finally:
        distributed.destroy_process_group()
    assert racy.num_runs == num_runs


def test_where_no_kernel_overtakes_another_it_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with pytest.raises(ExploreError, match="with CUDA_LAUNCH_BLOCKING set the host waits for every kernel"):
        cudalens.sanitize().confirm(lambda: None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu():
    with pytest.raises(ExploreError, match="needs a GPU, and torch sees none"):
        cudalens.sanitize().confirm(lambda: None)


def test_who_waits_for_the_first_access_lets_it_go_at_once(h100):
    racy = Racy()
    san = watched(racy)
    racy.is_ordered = True
    found = san.confirm(racy, runs=20, on_virtual=True)
    assert found.num_schedules == 1  # one run says it all
    assert "or the host before it, waits for it" in found.races[0].why


@pytest.mark.parametrize("waits", ["stream", "event", "device", "item"])
def test_a_wait_of_the_hosts_lets_the_stream_go(h100, waits):
    side, x, copy = torch.cuda.Stream(), torch.ones(8, device="cuda"), torch.ones(8, device="cuda")
    torch.cuda.synchronize()
    is_waiting = []

    def program():
        with torch.cuda.stream(side):
            x.mul_(2)
            done = side.record_event()
            if is_waiting and waits == "item":
                copy.sum().item()
        if is_waiting and waits != "item":
            {"stream": side, "event": done, "device": torch.cuda}[waits].synchronize()
        return x + 1

    san = watched(program)
    is_waiting.append(True)
    found = san.confirm(program, runs=20, on_virtual=True)
    assert (found.num_schedules, found.races[0].verdict) == (1, "unknown")
    assert "waits for it" in found.races[0].why


def test_a_wait_for_another_stream_does_not(h100):
    racy, third = Racy(), torch.cuda.Stream()

    def program():
        with torch.cuda.stream(racy.side):
            racy.x.mul_(2)
        with torch.cuda.stream(third):
            (torch.ones(4, device="cuda") + 1).sum().item()
        third.synchronize()
        return racy.x + 1

    found = watched(program).confirm(program, runs=2, on_virtual=True)
    assert [(race.verdict, race.num_schedules) for race in found.races] == [("benign", 2)]


def test_what_differs_by_chance_is_not_confirmed(h100):
    """The fourth run, in the program's order, differs as well: so the third one's difference says nothing."""
    racy, numbers = Racy(), itertools.count(1)

    def program():
        number = next(numbers)
        return racy(), 1.0 if number <= 3 else float(number)

    found = watched(program).confirm(program, runs=1, on_virtual=True)
    assert [race.verdict for race in found.races] == ["benign"]
    assert "`result[1]`" in found.notes[0]


def test_no_run_is_begun_after_the_limit(h100):
    racy = Racy()
    found = watched(racy).confirm(racy, limit_s=1e-9, on_virtual=True)
    assert (found.races[0].verdict, found.num_schedules) == ("unknown", 0)
    assert "s was reached" in found.races[0].why


@pytest.mark.parametrize("at", [0, 1])
def test_what_goes_wrong_in_a_delayed_run_is_not_the_programs(h100, monkeypatch, at):
    racy = Racy()
    san = watched(racy)

    from cudalens.sanitizer.rerun import delayed_run as held

    hold, numbers = held.hold, itertools.count()

    def out_of_order(*given):
        if next(numbers) == at:
            raise KernelError("hold: the compiler is not there.")
        return hold(*given)

    monkeypatch.setattr(held, "hold", out_of_order)
    with pytest.raises(ExploreError, match=r"could not be delayed: KernelError: hold: the compiler") as failure:
        san.confirm(racy, on_virtual=True)
    assert isinstance(failure.value.__cause__, KernelError)
    assert racy.num_runs == 1 + 2 + at
    assert racy.x.sum().item() == 2 * 64 * 64


def test_containers_generators_and_current_streams_are_as_before(h100):
    racy, losses, by_name, own = Racy(), [1.0], {"a": [1]}, torch.Generator().manual_seed(3)
    seen = []

    def program():
        drawn = torch.rand(1, generator=own).item()
        seen.append((list(losses), str(by_name), drawn, torch.cuda.current_stream().cuda_stream))
        losses.append(2.0)
        by_name["a"].append(2)
        by_name["b"] = 1
        z = racy()
        torch.cuda.set_stream(racy.side)
        return z

    names = {"losses": losses, "by_name": by_name, "own": own, "x": racy.x}
    san = watched(racy)
    from cudalens.api.confirm import of_function

    stream, state = torch.cuda.current_stream(), own.get_state()
    found = san.confirm(of_function(program, names), runs=2, on_virtual=True)
    assert [race.verdict for race in found.races] == ["benign"]
    assert len(seen) == 4
    assert len(set(map(str, seen))) == 1
    assert (losses, by_name) == ([1.0], {"a": [1]})
    assert torch.cuda.current_stream() == stream
    assert torch.equal(own.get_state(), state)


def test_tensors_are_for_the_same_memory_as_before(h100):
    racy, w = Racy(), torch.ones(4, device="cuda")
    address = w.data_ptr()

    def program():
        w.data = torch.zeros(2, 2, device="cuda")
        return racy()

    from cudalens.api.confirm import of_function

    watched(racy).confirm(of_function(program, {"w": w}), runs=1, on_virtual=True)
    assert (w.data_ptr(), w.tolist()) == (address, [1.0] * 4)


def test_nothing_is_under_way_when_a_run_begins(h100):
    """What is put back is there before the next run reads it, on whatever stream."""
    from cudalens.sanitizer.rerun.program import Program, State

    x = torch.ones(1 << 24, device="cuda")
    state = State(Program(lambda: None, lambda result: {}, tensors=[x]))
    state.save([x])
    x.zero_()
    torch.cuda.synchronize()
    state.restore()
    assert torch.cuda.current_stream().query()
    assert x[0].item() == 1


def test_a_second_interrupt_waits_until_everything_is_back(h100):
    """It comes while variables are put back; random numbers come after those."""
    from cudalens.sanitizer.rerun.program import Program

    class Names(dict):
        num_runs = 0

        def update(self, *args):
            super().update(*args)
            if self.num_runs == 3:
                signal.raise_signal(signal.SIGINT)

    racy, names = Racy(), Names(kept=1)

    def run():
        names.num_runs += 1
        names["kept"] = names["new"] = random.random()
        racy()
        if names.num_runs == 3:
            raise KeyboardInterrupt

    san, state = watched(racy), random.getstate()
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        san.confirm(Program(run, lambda result: {}, names), on_virtual=True)
    assert names == {"kept": 1}
    assert random.getstate() == state
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_while_a_stream_is_held(h100, monkeypatch):
    from cudalens.sanitizer.rerun import delayed_run as held

    racy, numbers, holds = Racy(), itertools.count(1), SimpleNamespace(made=[])

    def kept(*args):
        holds.made.append(hold(*args))
        return holds.made[-1]

    hold = held.hold
    monkeypatch.setattr(held, "hold", kept)

    def program():
        with torch.cuda.stream(racy.side):
            racy.x.mul_(2)
        if next(numbers) == 4:
            assert [one.is_released for one in holds.made] == [True, False]  # the first was a moment's, to warm up
            raise KeyboardInterrupt
        return racy.x + 1

    san = watched(program)
    before = racy.x.tolist()
    with pytest.raises(KeyboardInterrupt):
        san.confirm(program, on_virtual=True)
    assert [one.is_released for one in holds.made] == [True, True]
    assert racy.x.tolist() == before
