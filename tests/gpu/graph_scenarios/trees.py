"""States, chains, branches and what makes a recording fit."""

from __future__ import annotations

import gc

import torch

from cudalens.graphs import GraphManager, State
from graph_scenarios.stage import counts, fails, hidden_count, reason_row, reasons, recordings, same, scenario, values


@scenario
def a_first_call_warms_up_a_second_records_later_ones_replay(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * 2 + 1)
    assert m.state is State.NONE
    seen = []
    for n in range(5):
        x = values() + n
        same(step(x), x * 2 + 1)
        seen.append(m.state)
    assert seen == [State.WARMUP, State.RECORDING, State.EXECUTION, State.EXECUTION, State.EXECUTION]
    assert counts(step) == (1, 1, 3, 0)


@scenario
def a_replay_runs_no_python(m: GraphManager) -> None:
    calls = hidden_count()

    def function(x):
        calls.value += 1
        return x + 1

    step = m.wrap(function)
    for _ in range(6):
        step(values())
    assert calls.value == 2


@scenario
def a_chain_is_replayed_in_order(m: GraphManager) -> None:
    a, b, c = m.wrap(lambda x: x + 1), m.wrap(lambda x: x * 3), m.wrap(lambda x, y: x - y)
    for n in range(5):
        x = values() + n
        p = a(x)
        q = b(p)
        same(c(q, p), (x + 1) * 3 - (x + 1))
        del p, q
    assert [counts(step) for step in (a, b, c)] == [(1, 1, 3, 0)] * 3
    rows = recordings(m)
    assert list(rows["depth"]) == [0, 1, 2]
    assert rows["num_copied_inputs"].tolist() == [1, 0, 0]


@scenario
def a_branch_has_a_recording_of_its_own(m: GraphManager) -> None:
    a, b, c = m.wrap(lambda x: x + 1), m.wrap(lambda x: x * 3), m.wrap(lambda x: x * 5)
    for n in range(12):
        x = values() + n
        p = a(x)
        same((b if n % 2 else c)(p), (x + 1) * (3 if n % 2 else 5))
        del p
    assert counts(a)[1] == 1
    assert (counts(b)[3], counts(c)[3]) == (0, 0)
    assert len(recordings(m)) == 3
    assert counts(b)[2] >= 3
    assert counts(c)[2] >= 3
    assert not reasons(m)


@scenario
def a_b_a_and_another_b(m: GraphManager) -> None:
    """After replays of A, a B that was never recorded there: the allocator's books are brought back first."""
    a, b = m.wrap(lambda x: x.cumsum(0)), m.wrap(lambda p, n: p * n + 1)
    for n in (2, 2, 2, 2, 7, 7, 7, 2, 7, 9, 9, 9, 2):
        x = values() + n
        p = a(x)
        r = b(p, n)
        same((p, r), (x.cumsum(0), x.cumsum(0) * n + 1))
        del p, r
    assert counts(a)[1] == 1
    assert len(recordings(m)) == 4
    assert reasons(m) == {"NEW_VALUE": 2}


@scenario
def functions_in_another_order_are_other_paths(m: GraphManager) -> None:
    steps = [m.wrap(lambda x, k=k: x * k + k) for k in (2.0, 3.0, 4.0)]
    for n, order in enumerate([(0, 1, 2), (2, 1, 0), (1, 0, 2)] * 5):
        x, y = values() + n, values() + n
        held = []
        for k in order:
            x, y = steps[k](x), y * (k + 2.0) + (k + 2.0)
            held.append((x, y))
        for pair in held:
            same(*pair)
        del held, x, y
    assert sum(counts(step)[2] for step in steps) >= 18
    assert all(counts(step)[3] == 0 for step in steps)


@scenario
def a_hundred_alternating_paths(m: GraphManager) -> None:
    a = m.wrap(lambda x: x + 1)
    b, c = m.wrap(lambda x: (x * 2, x.sum())), m.wrap(lambda x: x.sin())
    for n in range(100):
        x = values() + n
        p = a(x)
        first, second = (b, c) if n % 2 else (c, b)
        q = first(p)
        r = second(p)
        same((q, r), expected(n, x + 1))
        del p, q, r
    assert len(recordings(m)) == 5
    assert sum(counts(step)[2] for step in (a, b, c)) >= 285


def expected(n, p):
    two, sine = (p * 2, p.sum()), p.sin()
    return (two, sine) if n % 2 else (sine, two)


@scenario
def an_output_that_is_held_this_time_makes_a_sibling(m: GraphManager) -> None:
    """B was recorded where A's first output was dead: it may lie in that memory."""
    a, b = m.wrap(lambda x: (x + 1, x + 2)), m.wrap(lambda y: y * 2)
    for _ in range(3):
        y = a(values())[1]
        b(y)
        del y
    assert len(recordings(m)) == 2
    for n in range(3):
        x = values() + n
        first, y = a(x)
        r = b(y)
        same((first, y, r), (x + 1, x + 2, (x + 2) * 2))
        del first, y, r
    assert len(recordings(m)) == 3
    row = reason_row(m, "OUTPUT_ALIVE")
    assert row["count"] == 1
    assert "output 0 of" in row["detail"]


@scenario
def an_output_that_is_dead_this_time_replays_the_same(m: GraphManager) -> None:
    """Memory that was in use at the recording may be free at the replay: nothing of it is touched."""
    a, b = m.wrap(lambda x: (x + 1, x + 2)), m.wrap(lambda y: y * 2)
    for n in range(6):
        x = values() + n
        first, y = a(x)
        if n > 2:
            del first
        same(b(y), (x + 2) * 2)
        del y
        if n <= 2:
            del first
    assert len(recordings(m)) == 2
    assert not reasons(m)


@scenario
def dead_in_a_reference_cycle_is_alive_until_collected(m: GraphManager) -> None:
    a, b = m.wrap(lambda x: x + 1), m.wrap(lambda x: x * 2)
    gc.disable()
    try:
        for n in range(6):
            x = values() + n
            cycle = [a(x)]
            cycle.append(cycle)
            del cycle
            r = b(x)
            same(r, x * 2)
            del r
    finally:
        gc.enable()
    assert counts(b)[3] == 0


@scenario
def new_shapes_are_recorded_beside(m: GraphManager) -> None:
    step = m.wrap(lambda x: x.repeat(2) - 1)
    for n in (3, 5, 3, 5, 3, 5, 3, 5, 0, 0, 0):
        x = torch.arange(n, device="cuda", dtype=torch.float32)
        same(step(x), x.repeat(2) - 1)
    row = reason_row(m, "NEW_SHAPE")
    assert row["count"] == 2
    assert "float32[5] → float32[0]" in row["detail"]
    assert row["advice"].startswith("pad")


@scenario
def strides_dtypes_and_gradients_are_part_of_the_key(m: GraphManager) -> None:
    step = m.wrap(lambda x: (x * 2).sum(0))
    x = torch.arange(12, device="cuda").reshape(3, 4)
    for given in (x, x.t().contiguous().t(), x.double(), x.half()) * 4:
        same(step(given), (given * 2).sum(0))
    assert len(recordings(m)) == 4
    assert counts(step) == (4, 4, 8, 0)


@scenario
def numbers_and_text_key_their_own_recordings(m: GraphManager) -> None:
    def function(x, n, how="add", flag=True, more=None):
        return x + n if how == "add" else x * n if flag else x - n

    step = m.wrap(function)
    calls = [((2,), {}), ((3,), {}), ((2.0,), {}), ((2,), {"how": "mul"}), ((2,), {"how": "mul", "flag": False})]
    for args, kwargs in calls * 4:
        same(step(values(), *args, **kwargs), function(values(), *args, **kwargs))
    assert counts(step) == (5, 5, 10, 0)
    assert reasons(m)["NEW_VALUE"] == 4


@scenario
def one_and_true_and_one_point_zero_are_different_values(m: GraphManager) -> None:
    step = m.wrap(lambda x, n: x * 2 if n is True else x * 3 if isinstance(n, int) else x * 5)
    for _ in range(3):
        same([step(values(), n).clone() for n in (True, 1, 1.0)], [values() * k for k in (2, 3, 5)])


@scenario(rerecord_limit=2)
def after_the_limit_a_function_runs_eager_and_says_so(m: GraphManager) -> None:
    step = m.wrap(lambda x, n: x * n)
    for n in range(6):
        for _ in range(3):
            same(step(values(), n), values() * n)
    assert counts(step)[3] == 9
    row = reason_row(m, "TOO_MANY_RECORDINGS")
    assert row["count"] == 9
    assert "2 times" in row["detail"]
    assert "rerecord_limit" in row["advice"]
    before = counts(step)[2]
    same(step(values(), 0), values() * 0)  # what was recorded replays still
    assert counts(step)[2] == before + 1


@scenario(rerecord_limit=2)
def the_limit_counts_moved_statics_too(m: GraphManager) -> None:
    step = m.wrap(lambda x, w: x * w, static="w")
    kept = []
    for n in range(8):
        kept.append(values() + n)
        same(step(values(), kept[-1]), values() * kept[-1])
    assert counts(step)[3] > 0
    assert reasons(m)["STATIC_MOVED"] == 2
    assert reasons(m)["TOO_MANY_RECORDINGS"] == counts(step)[3]


@scenario
def modes_have_their_own_recordings(m: GraphManager) -> None:
    weight = values().requires_grad_()
    step = m.wrap(lambda x: x * weight)
    for _ in range(4):
        assert step(values()).requires_grad
        with torch.no_grad():
            assert not step(values()).requires_grad
        with torch.inference_mode():
            out = step(values())
            same(out, values() * weight.detach())
    assert counts(step)[3] == 0
    assert len(recordings(m)) == 3
    row = reason_row(m, "NEW_MODE")
    assert row["count"] == 2


@scenario
def the_current_path_is_what_is_still_held(m: GraphManager) -> None:
    a, b = m.wrap(lambda x: x + 1), m.wrap(lambda x: x * 2)
    for _ in range(4):
        p = a(values())
        q = b(p)
        del p, q
    frame = m.frame()
    paths = frame[frame["kind"] == "path"]
    assert paths["path"].tolist() == ["[0, 1]"]
    assert paths["count"].sum() == 3
    assert recordings(m)["state"].tolist() == ["on the path", "current"]
    assert recordings(m)["num_live_outputs"].tolist() == [0, 0]


@scenario
def a_function_without_arguments(m: GraphManager) -> None:
    state = values()
    step = m.wrap(lambda: state * 2)
    for _ in range(4):
        same(step(), state * 2)
        state.add_(1)
    assert counts(step) == (1, 1, 2, 0)


@scenario
def reset_begins_with_a_warmup_again(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1)
    for _ in range(3):
        held = step(values())
    m.reset()
    assert m.state is State.NONE
    assert m.pool_bytes() == (0, 0)
    assert len(recordings(m)) == 0
    fails(lambda: held + 1, RuntimeError, "lone it")
    same(step(values()), values() + 1)
    assert m.state is State.WARMUP
    assert counts(step) == (2, 1, 1, 0)
