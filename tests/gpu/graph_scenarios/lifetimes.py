"""Steps, memory, and what is left when all is over."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import torch

import cudalens
from cudalens.errors import GraphError
from cudalens.graphs import GraphManager, mark_step_begin
from graph_scenarios.stage import counts, fails, memory, reasons, recordings, same, scenario, settle, values

MIB = 1 << 20


def block(mib: int) -> torch.Tensor:
    return torch.ones(mib * MIB // 4, device="cuda")


@scenario
def a_step_begins_where_a_function_is_called_again(m: GraphManager) -> None:
    a, b = m.wrap(lambda x: x + 1), m.wrap(lambda x: x * 2)
    generations = []
    for _ in range(4):
        a(values())
        b(values())
        generations.append(m.generation)
    assert generations == [generations[0] + n for n in range(4)]


@scenario
def marked_steps_begin_where_they_are_marked(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1)
    for n in range(5):
        m.mark_step_begin()
        x = values() + n
        first, second = step(x), step(x * 2)
        same((first, second), (x + 1, x * 2 + 1))
    assert counts(step)[1] == 2
    assert counts(step)[2] >= 4


@scenario
def a_mark_of_the_process_is_for_every_manager(m: GraphManager) -> None:
    other = GraphManager()
    steps = [m.wrap(lambda x: x + 1), other.wrap(lambda x: x * 2)]
    for _ in range(4):
        mark_step_begin()
        held = [step(values()) for step in steps] + [step(values() * 3) for step in steps]
        same(held, [values() + 1, values() * 2, values() * 3 + 1, values() * 6])
    other.shutdown()


@scenario
def an_output_of_the_last_step_says_who_made_it(m: GraphManager) -> None:
    """In warmup, recording and replay alike; through views, too."""
    step = m.wrap(lambda x: (x + 1, (x * 2).view(2, 3)), name="decode")
    for _ in range(5):
        old, shaped = step(values())
        view, part = old.view(2, 3), shaped[0]
        step(values() * 3)
        for touched in (old, shaped, view, part):
            fails(lambda t=touched: t + 1, RuntimeError, "decode", "lifetimes.py", "lone it", "mark_step_begin")
            fails(touched.tolist, RuntimeError, "decode")


@scenario
def clones_stay(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1)
    kept = [step(values() + n).clone() for n in range(6)]
    same(kept, [values() + n + 1 for n in range(6)])


@scenario
def a_list_of_outputs_never_lies(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1)
    held = [step(values() + n) for n in range(6)]
    for n, out in enumerate(held[:-1]):
        try:
            same(out, values() + n + 1)
        except RuntimeError as error:
            assert "overwritten" in str(error)  # noqa: PT017
    same(held[-1], values() + 6)


@scenario
def branches_share_memory(m: GraphManager) -> None:
    """max(mem(A, B), mem(A, B')), by the allocator's statistics, and not the sum."""
    a = m.wrap(lambda x: x + 1)
    b = m.wrap(lambda p: (p.repeat(4) * 2).sum() + 0)
    c = m.wrap(lambda p: (p.repeat(3) * 3).sum() + 0)
    x = block(4)
    sizes = {}
    for n in range(9):
        p = a(x)
        q = b(p) if n < 3 or n == 6 else c(p)
        assert float(q) == float(p.sum() * (8 if n < 3 or n == 6 else 9))
        del p, q
        sizes[n] = m.pool_bytes()[0]
    assert sizes[8] <= sizes[2] * 1.1
    assert len(recordings(m)) == 3


@scenario
def a_chain_reuses_what_is_dead(m: GraphManager) -> None:
    steps = [m.wrap(lambda x, k=k: x * k + 1) for k in range(2, 8)]
    x = block(4)
    for _ in range(4):
        held = x
        for step in steps:
            held = step(held)
        del held
    assert m.pool_bytes()[0] <= 5 * 4 * MIB
    assert all(counts(step)[2] == 2 for step in steps)


@scenario
def what_is_held_keeps_its_memory_from_others(m: GraphManager) -> None:
    a, b, c = m.wrap(lambda x: x + 1), m.wrap(lambda x: x * 2), m.wrap(lambda x: x - 5)
    for n in range(6):
        x = values() + n
        held = [f(x) for f in ((a, b, c) if n % 2 else (c, a, b))]
        same(held, [x + 1, x * 2, x - 5] if n % 2 else [x - 5, x + 1, x * 2])
        del held


@scenario
def replays_cost_no_memory(m: GraphManager) -> None:
    step = m.wrap(lambda x: (x + 1) * 2)
    x = block(2)
    for _ in range(3):
        step(x)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.max_memory_allocated()
    for _ in range(5):
        step(x)
    assert torch.cuda.max_memory_allocated() == before


@scenario
def the_frame_says_how_large_the_pool_is(m: GraphManager) -> None:
    step = m.wrap(lambda x: x.repeat(2))
    x = block(4)
    for _ in range(3):
        step(x)
    (row,) = recordings(m).to_dict("records")
    assert row["pool_bytes"] >= 8 * MIB
    assert row["reserved_bytes"] == m.pool_bytes()[0]
    assert row["copied_bytes"] == 4 * MIB


@scenario
def reset_gives_memory_back_while_functions_stay(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * 2)
    settle()
    before = memory()
    for _ in range(3):
        for _ in range(4):
            step(block(8))
        assert memory() != before
        m.reset()
        settle()
        assert memory() == before


@scenario
def a_manager_without_shutdown_leaves_nothing(m: GraphManager) -> None:
    settle()
    before = memory()
    other = GraphManager()
    step = other.wrap(lambda x: (x * 2, x.sum()))
    for _ in range(4):
        step(block(4))
    token, kept = weakref.ref(other), weakref.ref(step)
    del other, step
    settle()
    assert token() is None
    assert kept() is None
    assert memory() == before


@scenario
def a_manager_with_backward_and_no_shutdown_leaves_nothing(m: GraphManager) -> None:
    settle()
    before = memory()
    layer = torch.nn.Linear(64, 64, device="cuda")
    other = GraphManager()
    step = other.wrap(layer)
    for _ in range(4):
        step(torch.ones(3, 64, device="cuda")).sum().backward()
    tokens = [weakref.ref(other), weakref.ref(layer), *map(weakref.ref, layer.parameters())]
    del other, step, layer
    settle()
    assert [token() for token in tokens] == [None] * 4
    assert memory() == before


@scenario
def decorated_functions_leave_nothing(m: GraphManager) -> None:
    cudalens.graphs.reset()
    settle()
    before = memory()

    def run():
        weight = values()

        @cudalens.cudagraph
        def step(x):
            return x * weight

        for n in range(4):
            same(step(values() + n), (values() + n) * weight)
        assert step.on(0)._function.counts.replays == 2
        return weakref.ref(weight)

    token = run()
    cudalens.graphs.reset()
    settle()
    assert token() is None
    assert memory() == before


@scenario
def a_decorated_function_that_is_gone_is_freed_by_reset(m: GraphManager) -> None:
    cudalens.graphs.reset()

    def run():
        weight = block(8)
        step = cudalens.cudagraph(lambda x: x * weight)
        for _ in range(4):
            step(weight)
        return weakref.ref(weight)

    token = run()
    cudalens.graphs.reset()
    settle()
    assert token() is None


@scenario
def a_shut_down_manager_refuses_in_words(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1, name="gone")
    step(values())
    m.shutdown()
    m.shutdown()
    fails(lambda: step(values()), GraphError, "gone", "shut down", "wrap")
    same(step.fn(values()), values() + 1)


@scenario
def decorated_functions_are_found_again_after_reset(m: GraphManager) -> None:
    step = cudalens.cudagraph(lambda x: x + 1)
    for n in range(6):
        same(step(values() + n), values() + n + 1)
        if n == 3:
            cudalens.graphs.reset()
    cudalens.graphs.reset()


class Net(torch.nn.Module):
    """A module that can be pickled."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 2)

    def forward(self, x):
        return self.layer(x)


class Decorated(torch.nn.Module):
    """A module whose method runs by graphs."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 2)

    @cudalens.cudagraph
    def forward(self, x):
        return self.layer(x)


@scenario
def a_method_that_is_decorated_in_its_class(m: GraphManager) -> None:
    one, two = Decorated().cuda(), Decorated().cuda()
    with torch.no_grad():
        for n in range(4):
            for net in (one, two):
                x = values() + n
                same(net(x), net.layer(x))
    cudalens.graphs.reset()


@scenario
def modules_with_a_decorated_method_are_copied_and_pickled(m: GraphManager) -> None:
    net = Decorated().cuda()
    with torch.no_grad():
        for _ in range(3):
            net(values())
        for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net.cpu())).cuda()):
            net.cuda()
            other.layer.weight.mul_(2)
            for n in range(4):
                same(other(values() + n), other.layer(values() + n))
        same(net(values()), net.layer(values()))
    cudalens.graphs.reset()


@scenario
def wrapped_modules_are_copied_and_pickled(m: GraphManager) -> None:
    step = cudalens.cudagraph(Net().cuda())
    with torch.no_grad():
        for _ in range(3):
            same(step(values()), step.fn(values()))
        for other in (copy.deepcopy(step), pickle.loads(pickle.dumps(step))):
            assert other.layer.weight is not step.layer.weight
            other.layer.weight.mul_(2)
            for n in range(4):
                same(other(values() + n), other.fn(values() + n))
    cudalens.graphs.reset()


@scenario
def wrappers_look_like_what_they_wrap(m: GraphManager) -> None:
    def function(x):
        """Adds one."""
        return x + 1

    net = Net().cuda()
    for step in (m.wrap(function), cudalens.cudagraph(function)):
        assert (step.__name__, step.__doc__) == ("function", "Adds one.")
    for step in (m.wrap(net), cudalens.cudagraph(net)):
        assert step.layer is net.layer
        assert list(step.parameters()) == list(net.parameters())
        assert set(step.state_dict()) == {"layer.weight", "layer.bias"}
        fails(lambda step=step: step.nothing, AttributeError, "nothing")
        step.eval()
        assert not net.training
        step.train()


@scenario
def check_memory_pool_finds_unaccounted_blocks(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * 2)
    for _ in range(2):
        held = step(values())
    m.check_memory_pool()
    torch.cuda.memory._record_memory_history()
    try:
        with m.backend.allocate_to(m.pool, 0):
            stray = values() + 1
        error = fails(m.check_memory_pool, GraphError, "in use", "512 bytes", "check_memory_pool_finds")
        assert "lifetimes.py" in str(error)
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    del stray
    m.check_memory_pool()
    assert held is not None


@scenario
def check_memory_pool_without_history_says_what_to_switch_on(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * 2)
    for _ in range(2):
        step(values())
    with m.backend.allocate_to(m.pool, 0):
        stray = values() + 1
    fails(m.check_memory_pool, GraphError, "_record_memory_history")
    del stray


@scenario
def a_tensor_that_a_function_keeps_is_found(m: GraphManager) -> None:
    kept = []

    def function(x):
        y = x * 2
        kept.append(y + 1)
        return y

    step = m.wrap(function)
    for n in range(5):
        same(step(values() + n), (values() + n) * 2)
        same(kept[-1], (values() + n) * 2 + 1)
    assert counts(step)[2] == 0
    assert reasons(m)["ESCAPED_TENSOR"] >= 1


@scenario
def a_cache_that_fills_itself_once_is_graphed_after(m: GraphManager) -> None:
    cache = {}

    def function(x):
        if "table" not in cache:
            cache["table"] = torch.arange(6.0, device="cuda") * 2
        return x + cache["table"]

    step = m.wrap(function)
    for n in range(6):
        same(step(values() + n), values() + n + torch.arange(6.0, device="cuda") * 2)
    assert counts(step)[2] >= 3
    assert reasons(m)["POOL_RENEWED"] == 1


@scenario
def other_outputs_survive_a_pool_that_is_renewed(m: GraphManager) -> None:
    cache = {}

    def keeps(x):
        if "table" not in cache:
            cache["table"] = x * 0 + 5
        return x + cache["table"]

    a, b = m.wrap(lambda x: x + 1), m.wrap(keeps)
    for _ in range(3):
        a(values())
    for n in range(4):
        p = a(values() + n)
        q = b(values())
        try:
            same(p, values() + n + 1)
        except RuntimeError as error:
            assert "overwritten" in str(error)  # noqa: PT017
        same(q, values() + 5)
        del p, q
    gc.collect()
