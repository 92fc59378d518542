"""Values of arguments that compare equal and are not the same, and what identifies an argument: equal to eager."""

from __future__ import annotations

import datetime
import enum
import warnings
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

import torch

from graph_scenarios.observed_state import NUM_CALLS, Expected, like_eager
from graph_scenarios.stage import values

Wrap = Callable[[Any], Any]

IDENTIFIED = "UNGUARDED"


def _in_turn(wrap: Wrap, function: Callable[[torch.Tensor, Any], torch.Tensor], given: Iterable[Any]) -> list[Any]:
    """Results for each of some values, called several times in a row: each is recorded."""
    graphed = wrap(function)
    return [graphed(values() + n, value).tolist() for value in given for n in range(4)]


class Scaled(int):
    """A number with an attribute."""

    scale: float

    @classmethod
    def of(cls, number: int, scale: float) -> Scaled:
        made = cls(number)
        made.scale = scale
        return made


@like_eager(Expected(replays=True))
def equal_numbers_with_attributes(wrap: Wrap) -> Any:
    numbers = [Scaled.of(3, 1.0), Scaled.of(3, 2.0)]
    return _in_turn(wrap, lambda x, n: x * n * n.scale, numbers)


@like_eager(Expected(replays=True))
def an_attribute_of_a_number_that_changes(wrap: Wrap) -> Any:
    number, found = Scaled.of(3, 1.0), []
    graphed = wrap(lambda x, n: x * n * n.scale)
    for n in range(NUM_CALLS):
        number.scale = 1.0 if n < 5 else 2.0
        found.append(graphed(values(), number).tolist())
    return found


class Shade(enum.IntEnum):
    """Numbers with names."""

    LIGHT = 1
    DARK = 2


@like_eager(Expected(replays=True))
def a_number_and_a_member_of_an_enum(wrap: Wrap) -> Any:
    given = [Shade.LIGHT, 1, True, Shade.DARK]
    return _in_turn(wrap, lambda x, n: x * (5 if isinstance(n, Shade) else 3) + n, given)


@like_eager(Expected(replays=True))
def equal_decimals_with_other_digits(wrap: Wrap) -> Any:
    given = [Decimal("1.0"), Decimal("1.000")]
    return _in_turn(wrap, lambda x, d: x * -int(d.as_tuple().exponent), given)


@like_eager(Expected(replays=True))
def one_time_in_two_zones(wrap: Wrap) -> Any:
    at = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    given = [at, at.astimezone(datetime.timezone(datetime.timedelta(hours=3)))]
    return _in_turn(wrap, lambda x, t: x * t.hour, given)


@like_eager(Expected(replays=True))
def complex_numbers_with_zeros_of_both_signs(wrap: Wrap) -> Any:
    given = [complex(1.0, 0.0), complex(1.0, -0.0)]
    return _in_turn(wrap, lambda x, c: x * torch.full((), c.imag, device="cuda").signbit(), given)


@like_eager(Expected(replays=True))
def equal_frozensets_of_other_types(wrap: Wrap) -> Any:
    given = [frozenset([1]), frozenset([True]), frozenset([1.0])]
    return _in_turn(wrap, lambda x, s: x * len(type(next(iter(s))).__name__), given)


@like_eager(Expected(replays=True))
def equal_ranges_of_no_numbers(wrap: Wrap) -> Any:
    return _in_turn(wrap, lambda x, r: x * r.start, [range(2, 2), range(5, 5)])


@like_eager(Expected(replays=True))
def keys_that_are_equal(wrap: Wrap) -> Any:
    given = [{1: 2.0}, {True: 2.0}, {1.0: 2.0}]
    return _in_turn(wrap, lambda x, d: x * len(type(next(iter(d))).__name__), given)


class Batch(NamedTuple):
    """An argument of several parts."""

    x: torch.Tensor
    options: dict[Any, float]


@like_eager(Expected(replays=True))
def keys_in_a_named_tuple_that_are_equal(wrap: Wrap) -> Any:
    graphed = wrap(lambda batch: batch.x * len(type(next(iter(batch.options))).__name__))
    return [graphed(Batch(values(), {key: 2.0})).tolist() for key in (1, True) for _ in range(4)]


class ScaledBatch(NamedTuple("ScaledBatch", [("x", torch.Tensor)])):
    """A named tuple whose class has an attribute."""

    scale = 1.0


@like_eager(Expected(replays=True))
def an_attribute_of_the_class_of_a_named_tuple(wrap: Wrap) -> Any:
    graphed, found = wrap(lambda batch: batch.x * batch.scale), []
    for n in range(NUM_CALLS):
        ScaledBatch.scale = 1.0 if n < 4 else 2.0
        found.append(graphed(ScaledBatch(values())).tolist())
    return found


@like_eager(Expected(replays=True, reason=IDENTIFIED, words="'x', which is 'other'"))
def an_argument_that_is_a_tensor_from_outside(wrap: Wrap) -> Any:
    other = values()
    graphed = wrap(lambda x: x * 2 if x is other else x * 3)
    return [graphed(other if n >= 5 else values() + n).tolist() for n in range(NUM_CALLS)]


@like_eager(Expected(replays=True, reason=IDENTIFIED))
def an_argument_that_is_a_key(wrap: Wrap) -> Any:
    other = values()
    scales = {other: 2.0}
    graphed = wrap(lambda x: x * scales.get(x, 3.0))
    return [graphed(other if n >= 5 else values() + n).tolist() for n in range(NUM_CALLS)]


@like_eager(Expected(replays=False, reason=IDENTIFIED, words="id() with 'x'"))
def the_identity_of_an_argument_as_a_number(wrap: Wrap) -> Any:
    other = values()
    scales = {id(other): 2.0}
    graphed = wrap(lambda x: x * scales.get(id(x), 3.0))
    return [graphed(other if n >= 5 else values() + n).tolist() for n in range(NUM_CALLS)]


@like_eager(Expected(replays=False, reason=IDENTIFIED, words="data_ptr() of 'x'"))
def the_address_of_an_argument(wrap: Wrap) -> Any:
    buffer = torch.arange(16.0, device="cuda")
    graphed = wrap(lambda x: x * (2 if x.data_ptr() % 16 else 3))
    return [graphed(buffer[n : n + 4]).tolist() for n in range(NUM_CALLS)]


@like_eager(Expected(replays=False, reason=IDENTIFIED, words="storage() of 'x'"))
def the_typed_storage_of_an_argument(wrap: Wrap) -> Any:
    buffer = torch.arange(16.0, device="cuda")
    with warnings.catch_warnings(action="ignore"):  # of torch, in the first call of a process
        buffer.storage()
    graphed = wrap(lambda x: x * x.storage().nbytes())
    return [graphed(buffer[: n + 4][:4]).tolist() for n in range(NUM_CALLS)]


@like_eager(Expected(replays=True, reason="ODD_TENSOR", words="made in inference mode"))
def an_argument_that_was_made_in_inference_mode(wrap: Wrap) -> Any:
    """Autograd refuses to save it for the backward."""
    weight, found = values().requires_grad_(), []
    graphed = wrap(lambda x: weight * x)
    for n in range(NUM_CALLS):
        with torch.inference_mode(n >= 4):
            x = values()
        try:
            found.append(graphed(x).tolist())
        except RuntimeError as error:
            found.append(str(error))
    return found


@like_eager(Expected(replays=False, reason=IDENTIFIED, words="is_inference() of 'x'"))
def whether_an_argument_was_made_in_inference_mode(wrap: Wrap) -> Any:
    graphed, found = wrap(lambda x: x * (2 if x.is_inference() else 3)), []
    for n in range(NUM_CALLS):
        x = values()
        with torch.inference_mode():
            found.append(graphed(x if n % 2 else values()).tolist())
    return found
