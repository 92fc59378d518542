"""Call stacks that are found by marks on stack frames, against Python's own walk."""

import gc
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens.sanitizer.live import calls


@pytest.fixture(autouse=True)
def nothing_marked():
    yield
    calls.forget()


def walked(stack_frame):
    found = []
    while stack_frame is not None:
        found.append((stack_frame.f_code, stack_frame.f_lasti))
        stack_frame = stack_frame.f_back
    return found


def as_walked(call):
    found = []
    while call.code is not None:
        found.append((call.code, call.instruction))
        call = call.outer
    return found


def is_right():
    here = sys._getframe()
    found = calls.call()
    inner, *outer = as_walked(found)
    assert inner[0] is here.f_code
    assert outer == walked(here)[1:]
    assert (found.place.code, found.place.instruction) == inner
    return found


def resumed(acts):
    for act in acts:
        run(act)
        yield is_right()


def run(act):
    """Calls, one in the other and one after the other, by functions and generators that are resumed from two lines."""
    is_right()
    if isinstance(act, list):
        for each in act:
            run(each)
            is_right()
    elif isinstance(act, tuple):
        steps = resumed(act)
        next(steps, None)
        is_right()
        for _ in steps:
            is_right()


@given(st.recursive(st.none(), lambda acts: st.lists(acts, max_size=3) | st.tuples(acts, acts), max_leaves=12))
def test_each_call_is_what_python_states(acts):
    run(acts)


def test_the_same_way_is_the_same_call():
    assert len({id(is_right()) for _ in range(5)}) == 1


@pytest.mark.skipif("coverage" in type(sys.gettrace()).__module__, reason="coverage traces this thread")
def test_marks_are_taken_away_and_a_debuggers_function_is_left_alone():
    def debugger(stack_frame, event, argument):
        return None

    here = sys._getframe()
    here.f_back.f_trace = debugger
    is_right()
    assert type(here.f_trace) is calls._Mark
    assert here.f_back.f_trace is debugger
    calls.forget()
    assert here.f_trace is None
    assert here.f_back.f_trace is debugger
    here.f_back.f_trace = None


def num_calls():
    gc.collect()
    return sum(type(each) is calls.Call for each in gc.get_objects())


def test_beyond_the_limit_earlier_calls_are_dropped(monkeypatch):
    before = num_calls()
    monkeypatch.setattr(calls, "MAX_CALLS", 200)
    for number in range(1000):
        exec(compile("is_right()", f"program{number}.py", "exec"), {"is_right": is_right})
    assert num_calls() < before + 500
