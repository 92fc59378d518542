"""Relations of outputs, compared with a call without a graph."""

from __future__ import annotations

import torch

from cudalens.graphs.relations import first_difference, relations_of


def test_equal_relations_have_no_difference() -> None:
    x = torch.ones(3, requires_grad=True)
    first, second = ([x, x[1:], x.detach(), 3] for _ in range(2))
    assert first_difference(relations_of(first, [x]), relations_of(second, [x])) is None


def test_a_gradient_that_only_the_replay_has_is_named() -> None:
    x = torch.ones(3, requires_grad=True)
    found = first_difference(relations_of([x * 2, x[:]], [x]), relations_of([x * 2, x.detach()], [x]))
    assert found is not None
    assert found.startswith("output 1: requires a gradient")
    assert "requires no gradient, has no history" in found


def test_memory_of_its_own_differs_from_an_alias() -> None:
    x = torch.ones(3)
    found = first_difference(relations_of([x.clone()], [x]), relations_of([x[:]], [x]))
    assert found == (
        "output 0: requires no gradient, has no history, has its own memory replayed, "
        "requires no gradient, has no history, shares memory without a graph"
    )


def test_the_same_object_twice_differs_from_two_views() -> None:
    y = torch.ones(3)
    found = first_difference(relations_of([y, y[:]], []), relations_of([y, y], []))
    assert found is not None
    assert "is another tensor itself without a graph" in found
