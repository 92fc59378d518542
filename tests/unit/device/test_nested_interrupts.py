"""An interrupt that a block defers is raised when its critical section ends, also inside of another block."""

import pytest
import torch
from interrupts import executed_places, interrupt_at

import cudalens
from cudalens import virtual

PROFILE = "api/profile.py"


def places_of(program, function):
    places = executed_places(program)
    return [place for place in places if place.path == PROFILE and place.function.startswith(function)]


def lines_after(program, place):
    """The names that a program notes before an interrupt at `place` reaches it."""
    noted = []
    result = interrupt_at(place, lambda: program(noted.append))
    assert isinstance(result.error, KeyboardInterrupt), place
    return noted


def profile_on_a_device(note):
    with virtual.device("h100"):
        with cudalens.profile("inner", keep=False):
            torch.ones(3, device="cuda")
            note("inside")
        note("after")


def profile_in_a_watch(note):
    with cudalens.watch():
        with cudalens.profile("inner", cpu_only=True, keep=False):
            note("inside")
        note("after")


@pytest.mark.parametrize("program", [profile_on_a_device, profile_in_a_watch])
@pytest.mark.parametrize(("function", "expected"), [("profile.__enter__", []), ("profile.__exit__", ["inside"])])
def test_the_block_around_does_not_delay_the_interrupt(program, function, expected):
    places = places_of(lambda: program(lambda name: None), function)
    assert places
    for place in [*places[:: max(1, len(places) // 4)], places[-1]]:
        assert lines_after(program, place) == expected


def scheduled(note):
    schedule = cudalens.schedule(wait=1, warmup=1, active=1, repeat=1)
    with cudalens.profile("steps", cpu_only=True, keep=False, schedule=schedule) as run:
        for number in range(4):
            torch.ones(3) + 1
            note(number)
            run.step()


def test_an_interrupt_at_any_line_of_a_scheduled_profile_leaves_no_profile_on():
    places = places_of(lambda: scheduled(lambda number: None), "profile._e")
    assert {place.function for place in places} >= {"profile._enter_cycles", "profile._exit_cycles"}
    for place in places:
        lines_after(scheduled, place)
        with cudalens.profile("after", cpu_only=True, keep=False) as run:
            torch.ones(3) + 1
        assert not run.is_nested, place
        assert "aten::add" in set(run.trace.events["name"])


def test_an_interrupt_while_a_cycle_is_stopped_ends_the_loop_at_that_step():
    places = places_of(lambda: scheduled(lambda number: None), "profile._stop_recording")
    assert places
    for place in places:
        assert lines_after(scheduled, place) == [0, 1, 2]
