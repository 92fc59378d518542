"""Many tensors that are compared at once: every way to read them otherwise is noticed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from cudalens.graphs import arguments  # noqa: E402
from cudalens.graphs.guards.tensor_forms import TensorForms  # noqa: E402
from cudalens.graphs.training_flags import TrainingFlags  # noqa: E402


def made():
    return torch.zeros(4, 4, dtype=torch.complex64)


OTHERS = {
    "sizes": lambda: torch.zeros(4, 5, dtype=torch.complex64),
    "number of dimensions": lambda: torch.zeros(4, 4, 1, dtype=torch.complex64),
    "strides": lambda: made().t(),
    "dtype": lambda: torch.zeros(4, 4, dtype=torch.complex128),
    "requires_grad": lambda: made().requires_grad_(),
    "class": lambda: torch.nn.Parameter(made(), requires_grad=False),
    "conjugation": lambda: made().conj(),
    "negation": lambda: torch._neg_view(made()),
    "layout": lambda: made().to_sparse(),
    "device": lambda: made().to("meta"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_form_is_noticed_among_equal_ones(what):
    forms = TensorForms([made(), made()])
    assert forms.are_as_before([made(), made()])
    assert not forms.are_as_before([made(), OTHERS[what]()])


def test_a_parameter_whose_data_is_replaced_by_its_transpose_is_noticed():
    parameter = torch.nn.Parameter(torch.zeros(4, 4))
    forms = TensorForms([parameter])
    assert forms.are_as_before([parameter])
    parameter.data = parameter.data.t()
    assert not forms.are_as_before([parameter])


def test_one_tensor_in_two_places_is_not_known():
    tensor = made()
    assert not TensorForms([tensor, tensor]).are_as_before([tensor, tensor])
    assert not TensorForms([made(), made()]).are_as_before([tensor, tensor])


def test_tensors_of_other_classes_are_not_known():
    class Other(torch.Tensor):
        pass

    other = made().as_subclass(Other)
    assert not TensorForms([other]).are_as_before([other])


def _changed(change):
    """Whether the arguments of an earlier call match those of a call after `change`."""
    x = torch.zeros(3, requires_grad=True)
    known = arguments.PlainArguments.of(arguments.flatten((x,), {}))
    assert known.match((x,), {})
    key = arguments.flatten((x,), {}).key
    with change(x):
        return known.match((x,), {}), arguments.flatten((x,), {}).key == key


class _Undone:
    def __init__(self, begin, end=lambda: None):
        self._begin, self._end = begin, end

    def __enter__(self):
        self._begin()

    def __exit__(self, *exception):
        self._end()


CHANGES = {
    "grad mode": lambda x: torch.no_grad(),
    "inference mode": lambda x: torch.inference_mode(),
    "autocast": lambda x: torch.autocast("cpu"),
    "default dtype": lambda x: _Undone(
        lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)
    ),
    "default device": lambda x: torch.device("meta"),
    "hook": lambda x: _Undone(lambda: x.register_hook(lambda grad: grad)),
    "hook of its gradient": lambda x: _Undone(lambda: x.register_post_accumulate_grad_hook(lambda tensor: None)),
    "attribute": lambda x: _Undone(lambda: setattr(x, "label", "x")),
    "requires_grad": lambda x: _Undone(lambda: x.requires_grad_(False)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_call_matches_the_one_before_only_if_its_key_is_equal(what):
    assert _changed(CHANGES[what]) == (False, False)


def test_other_arguments_do_not_match():
    x, y = torch.zeros(3), torch.zeros(3)
    known = arguments.PlainArguments.of(arguments.flatten((x, y), {}))
    assert known.match((y, x), {})
    assert not known.match((x,), {})
    assert not known.match((x, y), {"scale": 2})
    assert not known.match((x, 1.0), {})
    assert not known.match((x, x), {})  # one tensor twice: another key


def test_the_training_flag_of_each_module_counts():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    flags = TrainingFlags(list(model.modules()))
    assert flags.now() == (True, True, True)
    model[1].eval()
    assert flags.now() == (True, True, False)
    model.train()
    assert flags.now() == (True, True, True)
