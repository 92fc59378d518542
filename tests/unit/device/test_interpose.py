"""Standing between a class and its callers."""

import pytest

from cudalens.device.interpose import Interposed, interposed
from cudalens.virtual.patching import Patches


@pytest.fixture
def kind():
    class Base:
        def act(self, number):
            return number + 1

    class Kind(Base):
        pass

    return Kind


def test_listeners_are_called_before_and_after(kind):
    calls, method = [], Interposed(kind, "act")
    method.add(before=lambda self, number: calls.append(("before", number)))
    method.add(after=lambda result, self, number: calls.append(("after", result, number)))
    assert kind().act(3) == 4
    assert calls == [("before", 3), ("after", 4, 3)]


def test_without_listeners_the_class_is_as_it_was(kind):
    def listener(*args):
        pass

    method = Interposed(kind, "act")
    method.add(before=listener)
    method.add(after=listener)
    method.remove(before=listener)
    assert "act" in vars(kind)
    method.remove(after=listener)
    assert "act" not in vars(kind)
    assert not method.is_in_place


def test_whoever_came_later_is_not_taken_away(kind):
    calls = []

    def listener(*args):
        calls.append(args[1:])

    method = Interposed(kind, "act")
    method.add(before=listener)
    inner = kind.act
    kind.act = lambda self, number: inner(self, 10 * number)
    method.remove(before=listener)
    assert kind().act(1) == 11
    assert calls == []
    method.add(before=listener)  # back in its old position, not wrapped a second time
    assert kind().act(1) == 11
    assert calls == [(10,)]
    kind.act = inner
    method.remove(before=listener)
    assert "act" not in vars(kind)


def test_there_is_one_for_each_method(kind):
    assert interposed(kind, "act") is interposed(kind, "act")


def test_a_patch_that_ends_beneath_leaves_it_standing(kind):
    calls = []
    patches = Patches()
    patches.set(kind, "act", lambda self, number: -number)
    method = interposed(kind, "act")
    method.add(before=(listener := lambda *args: calls.append(args[1:])))
    patches.restore()
    assert kind().act(3) == 4
    assert calls == [(3,)]
    method.remove(before=listener)
    assert "act" not in vars(kind)


def test_a_patch_that_ends_above_takes_what_is_left_of_it_along(kind):
    patches = Patches()
    method = interposed(kind, "act")
    method.add(before=(listener := lambda *args: None))
    patches.set(kind, "act", lambda self, number: -number)
    method.remove(before=listener)
    patches.restore()
    assert "act" not in vars(kind)
    assert not method.is_in_place
