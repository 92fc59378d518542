"""An unreferenced decorated function is freed with its recordings and what they kept alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch

import cudalens
from cudalens import virtual


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    with virtual.device("h100"):
        yield
        cudalens.graphs.reset()


def four_calls(*functions):
    for _ in range(4):
        x = torch.ones(64, 64, device="cuda")
        for function in functions:
            x = function(x)
    return x


def test_the_last_function_takes_the_pool_with_it() -> None:
    weights = [torch.ones(64, 64, device="cuda")]
    gone = weakref.ref(weights[0])
    function = cudalens.cudagraph(lambda x: x @ weights[0])
    reserved = torch.cuda.memory_reserved()
    four_calls(function)
    manager = cudalens.graphs.manager()
    assert len(manager.nodes()) == 1
    assert torch.cuda.memory_reserved() > reserved
    del function
    weights.clear()
    gc.collect()
    assert manager.nodes() == []
    assert manager.pool is None
    assert gone() is None
    assert torch.cuda.memory_reserved() == reserved


def test_its_recordings_stay_while_an_output_is_held_and_go_with_the_next_step() -> None:
    first, second = cudalens.cudagraph(lambda x: x * 2), cudalens.cudagraph(lambda x: x + 1)
    held = four_calls(first, second)
    manager = cudalens.graphs.manager()
    del first
    gc.collect()
    assert len(manager.nodes()) == 2
    assert held.tolist() == torch.full((64, 64), 3.0).tolist()
    del held
    assert second(torch.ones(64, 64, device="cuda")).sum().item() == 2 * 64 * 64
    assert {node.variant.function for node in manager.nodes()} == {manager.functions[1]}
    assert manager.functions[0].is_gone


def test_another_functions_recordings_go_on_replaying() -> None:
    kept = cudalens.cudagraph(lambda x: x + 1)
    four_calls(kept)
    four_calls(cudalens.cudagraph(lambda x: x * 3))
    gc.collect()
    manager = cudalens.graphs.manager()
    replays = manager.functions[0].counts.replays
    four_calls(kept)
    assert manager.functions[0].counts.replays > replays
    assert len(manager.nodes()) == 1


def test_functions_in_another_order_keep_their_outputs_after_a_function_is_lost() -> None:
    double, sine = cudalens.cudagraph(lambda x: x * 2), cudalens.cudagraph(lambda x: x.sin())
    lost = cudalens.cudagraph(lambda x: x + 1)
    four_calls(lost)
    for number in range(6):
        x = torch.full((4,), float(number), device="cuda")
        if number == 4:
            del lost
            gc.collect()
        first, second = (double, sine) if number % 2 else (sine, double)
        p, q = first(x), second(x)
        found = (p, q) if number % 2 else (q, p)
        assert torch.equal(found[0], x * 2)
        assert torch.equal(found[1], x.sin())
        del p, q, found


def test_a_storage_that_is_held_alone_keeps_the_output_alive() -> None:
    manager = cudalens.graphs.GraphManager()
    function = manager.wrap(lambda x: x * 2)
    for _ in range(3):
        function(torch.ones(8, device="cuda"))
    storage = function(torch.ones(8, device="cuda")).untyped_storage()
    assert manager.current is not None
    assert not manager.current.is_over()
    function(torch.zeros(8, device="cuda"))
    with pytest.raises(RuntimeError, match="a later step has overwritten it"):
        storage.cpu()
    del storage
    function(torch.zeros(8, device="cuda"))
    assert manager.current.is_over()


def test_nothing_is_kept_alive_by_the_hook_that_torch_compile_puts_around_calls() -> None:
    """Dynamo puts it in when something is to be compiled; a call then holds its arguments once more than before."""
    compiled = torch.compile(lambda x: x * 2, backend="eager")
    assert compiled(torch.ones(2, device="cuda")).tolist() == [2, 2]
    manager = cudalens.graphs.GraphManager()
    function = manager.wrap(lambda x: x * 2)
    for _ in range(4):
        function(torch.ones(8, device="cuda"))
    assert len(manager.nodes()) == 1
    assert manager.current is not None
    assert manager.current.is_over()
