"""Call-stack marks are stored in `f_trace`, which debuggers use too: no debugger may be affected by them."""

import asyncio
import bdb
import gc
import io
import linecache
import pdb
import sys
import threading
import traceback

import pytest

from cudalens.sanitizer.live import calls

SOURCE = """\
def inner(meet):
    meet()
    stop()
    return 1

def middle(meet):
    found = inner(meet)
    found += 1
    return found

def outer(meet):
    meet()
    found = middle(meet)
    found += 1
    return found
"""


@pytest.fixture(autouse=True)
def nothing_left():
    if type(sys.gettrace()).__module__.startswith("coverage"):
        pytest.skip("coverage traces this thread")
    assert sys.gettrace() is None, "these tests need a thread without a trace function"
    yield
    sys.settrace(None)
    calls.forget()


def program(stop, name="<watched cell>"):
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)
    names = {"stop": stop}
    exec(compile(SOURCE, name, "exec"), names)
    return names["outer"]


@pytest.fixture(autouse=True)
def no_source_left():
    yield
    linecache.cache.pop("<watched cell>", None)


def unmarked():
    """Replaces the search of the call stack, and does none."""


def marked(stack_frame):
    return type(stack_frame.f_trace) is calls._Mark


class Stepper(bdb.Bdb):
    """Records the lines at which it stops, and continues with the next of its commands."""

    def __init__(self, commands):
        super().__init__()
        self.commands, self.stops = list(commands), []

    def user_line(self, frame):
        self.take(frame, "line")

    def user_return(self, frame, value):
        self.take(frame, f"return {value}")

    def take(self, frame, event):
        if frame.f_code.co_filename != "<watched cell>":
            self.set_continue()
            return
        self.stops.append((event, frame.f_code.co_name, frame.f_lineno))
        command = self.commands.pop(0) if self.commands else "continue"
        if command == "step":
            self.set_step()
        elif command == "next":
            self.set_next(frame)
        elif command == "return":
            self.set_return(frame)
        else:
            self.set_continue()


def stepped(commands, meet):
    stepper = Stepper(commands)
    outer = program(lambda: stepper.set_trace(sys._getframe().f_back))
    assert outer(meet) == 3
    return stepper.stops


@pytest.mark.parametrize(
    "commands", [["step"] * 20, ["next"] * 20, ["return"] * 6, ["return", "step", "next", "step", "return"], []]
)
def test_a_debugger_that_is_entered_later_stops_where_it_does_without_marks(commands):
    expected = stepped(commands, unmarked)
    assert stepped(commands, calls.call) == expected
    assert not commands or expected


def tracing_from_the_inside(meet):
    """A breakpoint in the innermost function alone, without a word to its callers: what `settrace` by itself does."""
    stepper = Stepper(["step"] * 20)

    def stop():
        caller = sys._getframe().f_back
        stepper.reset()
        stepper.botframe = caller.f_back.f_back
        stepper.set_next(caller)
        caller.f_trace = stepper.trace_dispatch
        sys.settrace(stepper.trace_dispatch)

    try:
        assert program(stop)(meet) == 3
    finally:
        sys.settrace(None)
    return stepper.stops


def test_stepping_out_of_a_function_goes_on_in_its_caller():
    stops = tracing_from_the_inside(calls.call)
    assert ("line", "middle", 8) in stops
    assert stops == tracing_from_the_inside(unmarked)


def test_pdb_in_a_watched_cell():
    def session(meet):
        output = io.StringIO()
        commands = "where\nup\np 'here'\ndown\nnext\nreturn\nnext\nnext\ncontinue\n"
        debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=output, nosigint=True)
        debugger.use_rawinput = False
        debugger.prompt = ""
        assert program(lambda: debugger.set_trace(sys._getframe().f_back))(meet) == 3
        return output.getvalue().splitlines()

    expected, found = (session(meet) for meet in (unmarked, calls.call))
    assert found == expected
    assert any("<watched cell>(8)middle()" in line for line in expected)


def test_a_trace_function_that_comes_later_sees_what_it_sees_without_marks():
    def traced(meet):
        events = []

        def trace(frame, event, argument):
            if frame.f_code.co_filename == "<watched cell>":
                events.append((event, frame.f_code.co_name, frame.f_lineno))
                return trace
            return None

        assert program(lambda: sys.settrace(trace))(meet) == 3
        sys.settrace(None)
        return events

    assert traced(calls.call) == traced(unmarked) == []

    def traced_on_calls(meet):
        events = []

        def trace(frame, event, argument):
            events.append((event, frame.f_code.co_name, frame.f_lineno))
            return trace

        outer = program(lambda: None)
        meet()
        sys.settrace(trace)
        try:
            outer(meet)
        finally:
            sys.settrace(None)
        return [event for event in events if event[1] in ("outer", "middle", "inner")]

    expected = traced_on_calls(unmarked)
    assert traced_on_calls(calls.call) == expected
    assert ("line", "middle", 8) in expected


def test_a_mark_goes_when_python_first_calls_it():
    here = sys._getframe()
    calls.call()
    assert marked(here)
    assert not here.f_trace
    sys.settrace(lambda *event: None)
    marks = [here.f_trace]
    sys.settrace(None)
    assert marks == [None]


def test_nothing_is_marked_while_a_trace_function_is_set():
    def met():
        calls.call()
        return sys._getframe().f_trace

    sys.settrace(lambda frame, event, argument: None)
    try:
        assert met() is None
    finally:
        sys.settrace(None)


def test_a_profile_function_sees_the_same_calls():
    def profiled(meet):
        events = []
        outer = program(lambda: None)
        sys.setprofile(lambda frame, event, argument: events.append((event, frame.f_code.co_name)))
        try:
            outer(meet)
        finally:
            sys.setprofile(None)
        return [event for event in events if event[1] in ("outer", "middle", "inner")]

    assert profiled(calls.call) == profiled(unmarked)


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring is of Python 3.12")
def test_monitoring_sees_the_same_lines():
    def monitored(meet):
        lines, tool = [], sys.monitoring.PROFILER_ID
        outer = program(lambda: None)
        codes = [code for code in outer.__globals__.values() if hasattr(code, "__code__")]
        sys.monitoring.use_tool_id(tool, "test")
        sys.monitoring.register_callback(tool, sys.monitoring.events.LINE, lambda code, line: lines.append(line))
        try:
            for function in codes:
                sys.monitoring.set_local_events(tool, function.__code__, sys.monitoring.events.LINE)
            outer(meet)
        finally:
            sys.monitoring.register_callback(tool, sys.monitoring.events.LINE, None)
            sys.monitoring.free_tool_id(tool)
        return lines

    assert monitored(calls.call) == monitored(unmarked) != []


def lines_of(call):
    found = []
    while call.code is not None:
        found.append((call.code.co_name, call.instruction))
        call = call.outer
    return found


def walked():
    found, stack_frame = [], sys._getframe(1)
    while stack_frame is not None:
        found.append((stack_frame.f_code.co_name, stack_frame.f_lasti))
        stack_frame = stack_frame.f_back
    return found


def is_right():
    return lines_of(calls.call())[1:] == walked()[1:]


def test_coroutines_are_found_from_whichever_task_resumes_them():
    async def leaf():
        right = [is_right()]
        await asyncio.sleep(0)
        right.append(is_right())
        return right

    async def first():
        return await leaf()

    async def second(coroutine):
        await asyncio.sleep(0)
        return await coroutine

    async def both():
        pending = leaf()
        return [*(await asyncio.gather(first(), second(pending), first()))]

    assert all(right for found in asyncio.run(both()) for right in found)

    def resumed_elsewhere():
        coroutine = leaf()
        coroutine.send(None)
        return lambda: coroutine.send(None)

    with pytest.raises(StopIteration) as ended:
        resumed_elsewhere()()
    assert all(ended.value.value)


def test_each_thread_and_each_depth_of_a_recursion_has_its_own_stack():
    right = []

    def down(depth):
        right.append(is_right())
        if depth:
            down(depth - 1)
            right.append(is_right())

    threads = [threading.Thread(target=down, args=(30,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 4 * 61
    assert all(right)


def test_an_exception_unwinds_through_marks_and_its_traceback_keeps_nothing_more_alive():
    class Held:
        pass

    left = []

    def fails(held):
        calls.call()
        raise ValueError("as expected")

    def calling():
        held = Held()
        left.append(held)
        calls.call()
        fails(held)

    try:
        calling()
    except ValueError as error:
        kept = error
    assert is_right()
    names = [entry.name for entry in traceback.extract_tb(kept.__traceback__)]
    assert names[-2:] == ["calling", "fails"]
    inside = kept.__traceback__.tb_next.tb_frame
    assert marked(inside)
    referents = gc.get_referents(inside.f_trace)
    assert not any(isinstance(each, type(inside)) for each in referents)
    traceback.clear_frames(kept.__traceback__)
    assert inside.f_trace is None


def test_a_mark_holds_no_stack_frame_and_none_of_its_variables():
    class Held:
        def __del__(self):
            gone.append(True)

    gone = []

    def met():
        held = Held()
        calls.call()
        return held is not None

    gc.disable()
    try:
        assert met()
        assert gone == [True]
    finally:
        gc.enable()
