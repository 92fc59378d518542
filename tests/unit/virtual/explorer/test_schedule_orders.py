"""The orders that a program allows, compared with a simulation of host and device, and the chosen schedules."""

import itertools

import pytest
from budget import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cudalens.errors import ExploreError
from cudalens.virtual.explorer.orders import (
    HOST,
    Builder,
    all_orders,
    at_random,
    delayed,
    in_program_order,
    rushed,
    schedule_of,
    stalled,
    with_delays,
)

STREAMS = ["legacy", "a", "b", "blocking"]
streams, events = st.sampled_from(STREAMS), st.sampled_from([7, 8])
acts = st.one_of(
    st.tuples(st.just("add"), streams),
    st.tuples(st.just("add"), streams),
    st.tuples(st.just("host"), st.none()),
    st.tuples(st.just("record"), events, streams),
    st.tuples(st.just("wait"), events, streams),
    st.tuples(st.just("sync"), streams),
    st.tuples(st.just("sync_event"), events),
    st.tuples(st.just("sync_device"), st.none()),
)
programs = st.lists(acts, max_size=9)


def built(acts):
    builder = Builder()
    lanes = {name: builder.lane(0, is_legacy=name == "legacy", is_blocking=name == "blocking") for name in STREAMS}
    for act, *arguments in acts:
        if act == "add":
            builder.add(lanes[arguments[0]])
        elif act == "host":
            builder.add(HOST)
        elif act in ("record", "wait"):
            getattr(builder, act)(arguments[0], lanes[arguments[1]])
        elif act == "sync":
            builder.synchronize(lanes[arguments[0]])
        elif act == "sync_event":
            builder.synchronize_event(arguments[0])
        else:
            builder.synchronize_device(0)
    return builder.program


def simulated(acts):
    """Every order in which a host that goes through `acts` and streams of any speed can do the tasks.

    A stream's queue holds tasks, marks and waits; the host stops at what it waits for. States are searched one by one.
    """
    found = set()
    queues = {name: [] for name in STREAMS}
    marks = {}  # event -> id of its last record
    stack = [(0, (), frozenset(), {n: tuple(q) for n, q in queues.items()}, marks, 0)]
    seen = set()
    while stack:
        state = stack.pop()
        position, order, passed, queues, marks, num_tasks = state
        key = (position, order, passed, tuple(queues.items()), tuple(sorted(marks.items())))
        if key in seen:
            continue
        seen.add(key)
        if position == len(acts) and not any(queues.values()):
            found.add(order)
        for name, queue in queues.items():
            if not queue:
                continue
            kind, what, *behind = queue[0]
            if kind == "wait" and what is not None and what not in passed:
                continue
            if behind and not all(b in passed for b in behind[0]):
                continue
            rest = {**queues, name: queue[1:]}
            done = passed if kind == "wait" else passed | {what}
            stack.append((position, (*order, what) if kind == "task" else order, done, rest, marks, num_tasks))
        if position < len(acts):
            follow(stack, acts[position], state)
    return found


def follow(stack, act, state):
    """The host runs its next act if it waits for nothing."""
    position, order, passed, queues, marks, num_tasks = state
    kind, *arguments = act

    def behind(name):  # the legacy stream and blocking streams wait for each other
        peers = {"legacy": ["blocking"], "blocking": ["legacy"]}.get(name, [])
        return frozenset(item[1] for peer in peers for item in queues[peer] if item[0] != "wait")

    def pending(name):
        return queues[name] or any(b not in passed for b in behind(name))

    following = position + 1
    if kind == "add":
        name = arguments[0]
        queue = (*queues[name], ("task", num_tasks, behind(name)))
        stack.append((following, order, passed, {**queues, name: queue}, marks, num_tasks + 1))
    elif kind == "host":
        stack.append((following, (*order, num_tasks), passed | {num_tasks}, queues, marks, num_tasks + 1))
    elif kind == "record":
        event, name = arguments
        mark = ("mark", position)
        queue = (*queues[name], ("mark", mark, behind(name)))
        stack.append((following, order, passed, {**queues, name: queue}, {**marks, event: mark}, num_tasks))
    elif kind == "wait":
        event, name = arguments
        queue = (*queues[name], ("wait", marks.get(event)))
        stack.append((following, order, passed, {**queues, name: queue}, marks, num_tasks))
    elif (
        (kind == "sync" and not pending(arguments[0]))
        or (kind == "sync_event" and (arguments[0] not in marks or marks[arguments[0]] in passed))
        or (kind == "sync_device" and not any(queues.values()))
    ):
        stack.append((following, order, passed, queues, marks, num_tasks))


@settings(deadline=None, max_examples=examples(120))
@given(programs)
def test_schedules_are_the_orders_that_a_device_of_any_speed_can_do(acts):
    program = built(acts)
    assume(len(program) <= 6)
    assert set(all_orders(program)) == simulated(acts)


@settings(deadline=None, max_examples=examples(60))
@given(programs)
def test_every_order_that_is_legal_is_listed_once_and_no_other(acts):
    program = built(acts)
    assume(len(program) <= 6)
    listed = list(all_orders(program))
    assert len(set(listed)) == len(listed)
    assert listed[0] == tuple(range(len(program)))
    legal = {order for order in itertools.permutations(range(len(program))) if program.is_legal(order)}
    assert set(listed) == legal


long_programs = st.lists(acts, max_size=40)


@settings(deadline=None, max_examples=examples(80))
@given(long_programs, st.integers(0, 1000), st.data())
def test_chosen_schedules_are_legal_and_come_again_from_their_seeds(acts, seed, data):
    program = built(acts)
    steps = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=3, unique=True))
    chosen = [in_program_order(program), at_random(program, seed), delayed(program, tuple(steps))]
    chosen += itertools.islice(with_delays(program, 2), 5)
    pairs = [pair for pair in itertools.combinations(range(len(program)), 2) if program.is_unordered(*pair)]
    if pairs:
        first, second = data.draw(st.sampled_from(pairs))
        chosen += [rushed(program, second, first), stalled(program, first, second)]
        for schedule in chosen[-2:]:
            assert schedule.order.index(second) < schedule.order.index(first)
    for schedule in chosen:
        assert program.is_legal(schedule.order)
        assert schedule_of(program, schedule.seed) == schedule


@settings(deadline=None, max_examples=examples(60))
@given(long_programs, st.data())
def test_rushing_and_stalling_move_nothing_that_need_not_move(acts, data):
    program = built([("add", "a"), ("add", "b"), *acts])  # these two are unordered
    pairs = [pair for pair in itertools.combinations(range(len(program)), 2) if program.is_unordered(*pair)]
    first, second = data.draw(st.sampled_from(pairs))
    needed = [n for n in range(len(program)) if n == second or program.comes_before(n, second)]
    held = [n for n in range(len(program)) if n == first or program.comes_before(first, n)]
    for schedule, moved in ((rushed(program, second, first), needed), (stalled(program, first, second), held)):
        still = [n for n in schedule.order if n not in moved]
        assert still == sorted(still)
        assert [n for n in schedule.order if n in moved] == sorted(moved)


def test_a_delay_lets_every_other_stream_go_first():
    program = built([("add", "a"), ("add", "a"), ("add", "b"), ("add", "b")])
    assert delayed(program, (1,)).order == (0, 2, 3, 1)
    assert next(with_delays(program, 1)).order == (2, 3, 0, 1)


WRONG = ["", "race", "rush:1", "rush:9<1", "stall:0>1", "delay:", "random:x", "legal:99", "legal:0"]


@pytest.mark.parametrize("seed", WRONG)
def test_an_invalid_seed_is_refused(seed):
    program = built([("add", "a"), ("add", "a")])
    with pytest.raises(ExploreError, match=r"seed|report"):
        schedule_of(program, seed)


def test_a_number_is_the_seed_of_a_random_schedule():
    program = built([("add", "a"), ("add", "b")] * 3)
    assert schedule_of(program, 5) == at_random(program, 5)
    assert len({at_random(program, seed).order for seed in range(40)}) > 5
