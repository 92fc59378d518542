"""`cudalens.runs`: what it keeps, and what an interrupt in the middle of a change leaves."""

import sys

import pytest

from cudalens.api.session import Runs
from cudalens.frames import RunInfo, Trace


def trace(name):
    return Trace(RunInfo(name=name, source="cpu"))


def interrupted_at(number, function, call):
    """Run `call` and raise KeyboardInterrupt at line `number` that `function` executes; whether it has so many."""
    num_lines = 0

    def lines(frame, event, _):
        nonlocal num_lines
        if event == "line":
            num_lines += 1
            if num_lines == number:
                raise KeyboardInterrupt
        return lines

    sys.settrace(lambda frame, event, _: lines if frame.f_code is function.__code__ else None)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("max_bytes", [None, 0])
def test_an_interrupt_at_any_line_of_add_leaves_runs_that_can_be_used(max_bytes):
    number = 0
    is_inside = True
    while is_inside:
        number += 1
        runs = Runs(max_bytes)
        runs.add(trace("first"))
        is_inside = interrupted_at(number, Runs.add, lambda runs=runs: runs.add(trace("second")))
        assert runs.keys() in (["first"], ["second"], ["first", "second"])
        runs.max_bytes = None
        runs.add(trace("third"))
        assert runs.last.info.name == "third"
        del runs["third"]
        runs.clear()
        assert len(runs) == 0
    assert number > 5


def test_a_name_used_again_moves_to_the_end():
    runs = Runs()
    for name in ("a", "b", "a"):
        last = runs.add(trace(name))
    assert runs.keys() == ["b", "a"]
    assert runs["a"] is runs.last is last


def test_a_deleted_run_does_not_count_for_the_limit():
    runs = Runs()
    runs.add(trace("a"))
    runs.add(trace("b"))
    del runs["a"]
    with pytest.raises(KeyError):
        del runs["a"]
    assert runs.keys() == ["b"]
