"""Dispatch modes that come and go in any order."""

from itertools import permutations

import pytest
import torch
from torch.utils import _python_dispatch as dispatch
from torch.utils._python_dispatch import TorchDispatchMode

import cudalens
from cudalens.device import modes
from cudalens.virtual import device


class Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Observer(Mode):
    cudalens_observes = True


def stack():
    return [torch._C._get_dispatch_stack_at(n) for n in range(torch._C._len_torch_dispatch_stack())]


def flags():
    names = [name for name in vars(dispatch) if name.startswith("_is_in")]
    return {name: getattr(dispatch, name) for name in names}


def test_observers_stay_at_the_top():
    first, second, one, two = Observer(), Observer(), Mode(), Mode()
    for mode in (first, one, second, two):
        modes.enter(mode)
    assert stack() == [one, two, first, second]
    for mode in (first, one, second, two):
        assert modes.leave(mode)
    assert stack() == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_whoever_leaves_first_torch_is_as_it_was(order):
    before = flags()
    entered = [Mode(), Observer(), Mode()]
    for mode in entered:
        modes.enter(mode)
    assert all(flags().values())
    for n in order:
        assert modes.leave(entered[n])
        assert not modes.is_entered(entered[n])
    assert (stack(), flags()) == ([], before)


def test_modes_of_others_stay_where_they_are():
    ours, theirs = Mode(), Mode()
    modes.enter(ours)
    with theirs:
        modes.leave(ours)
        assert stack() == [theirs]
    assert stack() == []


def test_leaving_what_is_not_there_reports_it():
    assert not modes.leave(Mode())


#: Functions of complex matrices whose kernels multiply by conjugated views.
CONJUGATING = {
    "pinv": torch.linalg.pinv,
    "pinverse": torch.pinverse,
    "lstsq": lambda x: torch.linalg.lstsq(x, x[:, :2] ** 2, driver="gels").residuals,
}


def _graphed(function, x):
    graphed = cudalens.cudagraph(function)
    return [graphed(x) for _ in range(4)][-1]


def _checked(function, x):
    with cudalens.sanitize():
        return function(x)


RUNS = {"alone": lambda function, x: function(x), "sanitizer": _checked, "graph": _graphed}


@pytest.mark.parametrize("name", CONJUGATING)
@pytest.mark.parametrize("run", RUNS)
def test_conjugated_views_inside_of_kernels(name, run):
    """Below torch's own modes these kernels compute with the values that are not conjugated."""
    x = torch.randn(5, 3, dtype=torch.complex64)
    expected = CONJUGATING[name](x)
    with device("h100"):
        found = RUNS[run](CONJUGATING[name], x.cuda()).cpu()
        on_host = CONJUGATING[name](x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(on_host, expected)
