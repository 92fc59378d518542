"""Random numbers, streams, threads, devices, check=True."""

from __future__ import annotations

import threading

import torch
from torch import nn

import cudalens
from cudalens.errors import GraphError
from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, fails, hidden_count, reasons, recordings, same, scenario, values


@scenario
def each_replay_draws_what_eager_would(m: GraphManager) -> None:
    def function(x):
        return x + torch.rand_like(x), torch.randn(5, device="cuda"), nn.functional.dropout(x, 0.5)

    step = m.wrap(function)
    torch.manual_seed(5)
    expected = [function(values()) for _ in range(7)]
    torch.manual_seed(5)
    found = [[t.clone() for t in step(values())] for _ in range(7)]
    same(found, expected)
    assert not torch.equal(found[4][0], found[5][0])
    assert counts(step) == (1, 1, 5, 0)


@scenario
def draws_outside_and_inside_go_on_in_one_sequence(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * torch.rand_like(x))

    def run(function):
        torch.manual_seed(9)
        return [(function(values()).clone(), torch.rand(3, device="cuda")) for _ in range(6)]

    same(run(step), run(step.fn))


@scenario
def two_random_functions_in_turn(m: GraphManager) -> None:
    steps = [m.wrap(lambda x: x + torch.rand_like(x)), m.wrap(lambda x: x * torch.randn_like(x))]

    def run(functions):
        torch.manual_seed(3)
        return [functions[n % 3 % 2](values()).clone() for n in range(12)]

    same(run(steps), run([step.fn for step in steps]))


@scenario
def the_state_of_the_generator_is_as_eager_leaves_it(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + torch.rand_like(x))
    torch.manual_seed(1)
    for _ in range(5):
        step(values())
    found = torch.cuda.get_rng_state()
    torch.manual_seed(1)
    for _ in range(5):
        step.fn(values())
    assert torch.equal(found, torch.cuda.get_rng_state())


@scenario
def host_random_numbers_are_not_touched_by_a_recording(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1)
    torch.manual_seed(4)
    for _ in range(4):
        step(values())
    found = torch.rand(3)
    torch.manual_seed(4)
    same(found, torch.rand(3))


@scenario
def generators_of_ones_own(m: GraphManager) -> None:
    generator = torch.Generator(device="cuda")
    step = m.wrap(lambda x: x + torch.rand(6, device="cuda", generator=generator))
    generator.manual_seed(8)
    expected = [step.fn(values()) for _ in range(6)]
    generator.manual_seed(8)
    same([step(values()).clone() for _ in range(6)], expected)
    assert counts(step)[2] == 4


@scenario
def a_generator_as_an_argument(m: GraphManager) -> None:
    generator = torch.Generator(device="cuda")
    step = m.wrap(lambda x, g: x + torch.rand(6, device="cuda", generator=g))
    generator.manual_seed(8)
    expected = [step.fn(values(), generator) for _ in range(6)]
    generator.manual_seed(8)
    same([step(values(), generator).clone() for _ in range(6)], expected)


@scenario
def a_generator_of_the_host_skips(m: GraphManager) -> None:
    generator = torch.Generator()
    step = m.wrap(lambda x: x + torch.rand(6, generator=generator).cuda())
    for _ in range(4):
        generator.manual_seed(2)
        found = step(values()).clone()
        generator.manual_seed(2)
        same(found, step.fn(values()))
    assert counts(step)[2] == 0


@scenario(check=True)
def a_check_compares_with_eager(m: GraphManager) -> None:
    step = m.wrap(lambda x: (x + torch.rand_like(x), x[1:], x.sum()))
    torch.manual_seed(5)
    expected = [step.fn(values()) for _ in range(5)]
    torch.manual_seed(5)
    same([[t.clone() for t in step(values())] for _ in range(5)], expected)
    assert recordings(m)["is_equal"].tolist() == [True]
    assert recordings(m)["max_abs_diff"].tolist() == [0.0]


@scenario(check=True)
def a_check_finds_what_python_counts(m: GraphManager) -> None:
    count = hidden_count()

    def function(x):
        count.value += 1
        return x * 0, x + count.value

    step = m.wrap(function)
    found = [step(values())[1].tolist() for _ in range(3)]
    assert found == [(values() + n).tolist() for n in (1, 2, 3)]  # the third call is a replay that differs
    (row,) = recordings(m).to_dict("records")
    assert row["is_equal"] is False or not row["is_equal"]
    assert row["max_abs_diff"] >= 1
    assert "output 1[0]" in row["first_diff"]


@scenario(check=True)
def a_check_leaves_what_is_overwritten_as_one_call_does(m: GraphManager) -> None:
    total, other = torch.zeros(6, device="cuda"), torch.zeros(6, device="cuda")

    def function(cache, x):
        total.add_(x)
        cache.mul_(2)
        return total + cache

    step = m.wrap(function, mutations="copy")
    cache = values()
    for n in range(5):
        other.add_(values())
        same(step(cache, values()), other + values() * 2 ** (n + 1))
        same(total, other)
    assert recordings(m)["is_equal"].tolist() == [True]


@scenario(check=True)
def a_check_of_forward_and_backward(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: nn.functional.dropout((x * w).sin(), 0.3).sum())
    for n in range(5):
        w.grad = None
        torch.manual_seed(n)
        step(values()).backward()
        found = w.grad.clone()
        w.grad = None
        torch.manual_seed(n)
        step.fn(values()).backward()
        same(found, w.grad)
    assert recordings(m)["is_equal"].tolist() == [True, True]


# Streams.


@scenario
def calls_on_another_stream_are_in_order(m: GraphManager) -> None:
    step = m.wrap(lambda x: (x + 1).cumsum(0))
    side = torch.cuda.Stream()
    for n in range(8):
        x = values() + n
        if n % 2:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                out = step(x)
                assert torch.cuda.current_stream() == side
            torch.cuda.current_stream().wait_stream(side)
        else:
            out = step(x)
        same(out, (x + 1).cumsum(0))
        del out
    assert counts(step) == (1, 1, 6, 0)


@scenario
def work_on_a_stream_of_its_own_that_is_joined(m: GraphManager) -> None:
    side = torch.cuda.Stream()

    def function(x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(side)
        return y + x

    step = m.wrap(function)
    for n in range(5):
        same(step(values() + n), (values() + n) * 3)
    assert counts(step)[3] == 0


# Threads.


def in_thread(act):
    caught = []

    def run():
        try:
            act()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if caught:
        raise caught[0]


@scenario
def threads_with_managers_of_their_own(m: GraphManager) -> None:
    barrier = threading.Barrier(2, timeout=60)
    caught = []

    def work(k):
        try:
            own = GraphManager()
            step = own.wrap(lambda x: x * k + 1)
            for n in range(8):
                barrier.wait()
                same(step(values() + n), (values() + n) * k + 1)
            assert counts(step) == (1, 1, 6, 0)
            own.shutdown()
        except BaseException as error:
            caught.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(k,)) for k in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not caught, caught[0]


@scenario
def threads_that_share_a_manager_take_turns(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * 2 + 1)
    for n in range(3):
        in_thread(lambda n=n: same(step(values() + n), (values() + n) * 2 + 1))
        same(step(values() + n), (values() + n) * 2 + 1)
    assert counts(step) == (1, 1, 4, 0)


@scenario
def a_decorated_function_has_a_manager_per_thread(m: GraphManager) -> None:
    step = cudalens.cudagraph(lambda x: x * 2)
    managers = []

    def work():
        for n in range(4):
            same(step(values() + n), (values() + n) * 2)
        managers.append(cudalens.graphs.manager())
        cudalens.graphs.reset()

    in_thread(work)
    work()
    assert managers[0] is not managers[1]


@scenario
def a_backward_from_another_thread(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: (x * w).sin().sum())
    for n in range(5):
        w.grad = None
        loss = step(values() + n)
        in_thread(loss.backward)
        x = values() + n
        same(w.grad, x * (x * w.detach()).cos())
        del loss


# Devices.


@scenario(num_devices=2)
def each_device_has_a_manager(m: GraphManager) -> None:
    step = cudalens.cudagraph(lambda x: x * 2)
    for n in range(5):
        for device in range(2):
            x = torch.arange(4.0, device=f"cuda:{device}") + n
            out = step(x)
            assert out.device == x.device
            same(out, x * 2)
            assert torch.cuda.current_device() == 0
    assert [cudalens.graphs.manager(k).functions[0].counts.replays for k in range(2)] == [3, 3]
    cudalens.graphs.reset()


@scenario(num_devices=2, device=1)
def a_manager_of_a_device_that_is_not_current(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * 2 + torch.rand(4, device="cuda:1"))
    w = torch.ones(4, device="cuda:1", requires_grad=True)
    trained = m.wrap(lambda x: (x * w).sum())
    for n in range(5):
        x = torch.arange(4.0, device="cuda:1") + n
        torch.manual_seed(n)
        found = step(x).clone()
        torch.manual_seed(n)
        same(found, step.fn(x))
        w.grad = None
        trained(x).backward()
        same(w.grad, x)
        assert torch.cuda.current_device() == 0
    assert counts(step)[3] == 0


@scenario(num_devices=2)
def arguments_on_another_device_skip(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * 2)
    for _ in range(3):
        same(step(torch.ones(3, device="cuda:1")), torch.ones(3) * 2)
    assert reasons(m) == {"SEVERAL_DEVICES": 3}


@scenario(num_devices=2)
def work_on_two_devices_skips(m: GraphManager) -> None:
    step = m.wrap(lambda x: (x * 2).to("cuda:1") + 1)
    for _ in range(3):
        out = step(values())
        assert out.device.index == 1
        same(out, values() * 2 + 1)
    assert counts(step)[1:3] == (0, 0)


@scenario
def devices_that_are_not_there(m: GraphManager) -> None:
    for device in (99, "cuda:99", "cpu", "nonsense", -1, torch.device("cpu")):
        fails(lambda device=device: GraphManager(device), GraphError, "device")
        fails(lambda device=device: cudalens.graphs.manager(device), GraphError, "device")


@scenario
def what_cannot_be_wrapped(m: GraphManager) -> None:
    fails(lambda: m.wrap(3), TypeError, "int")
    fails(lambda: m.wrap(abs, mutations="maybe"), TypeError, "maybe", "copy")
    fails(lambda: cudalens.cudagraph(3), TypeError, "int")
    fails(lambda: cudalens.cudagraph(abs, mutations="maybe"), TypeError, "maybe")
