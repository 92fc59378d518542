"""The memory of recordings: a limit of it, and what freeing one would free."""

from __future__ import annotations

import gc

import pytest
import torch

import cudalens
from cudalens import virtual
from cudalens.graphs import GraphManager

MIB = 2**20


@pytest.fixture(autouse=True)
def _device():
    with virtual.device("h100"):
        yield
        cudalens.graphs.reset()


def _step(x):
    return ((x * 2).cos() + 1).sum()


def _rows(mebibytes: int) -> torch.Tensor:
    return torch.arange(mebibytes * MIB // 4, device="cuda", dtype=torch.float32)


def _counts(step):
    counts = step._function.counts
    return counts.warmups, counts.recordings, counts.replays, counts.eager


def test_the_size_that_exceeds_the_limit_runs_without_a_graph_and_the_others_replay() -> None:
    manager = GraphManager(max_bytes=100 * MIB, debug=True, eager_if_slower=False)
    step = manager.wrap(_step, name="step")
    for mebibytes in (4, 4, 4, 64, 64, 64, 4, 4, 4, 4):
        x = _rows(mebibytes)
        assert torch.equal(step(x), _step(x))
        assert manager.pool_bytes()[0] <= 100 * MIB
    assert {node.variant.text for node in manager.nodes()} == {"x: float32[1048576]"}
    assert _counts(step)[3] >= 2
    frame = manager.frame()
    skip = frame[frame["reason"] == "MEMORY_LIMIT"].iloc[0]
    assert "of 100.0 MiB" in skip["detail"]
    assert "max_bytes=..." in skip["advice"]
    manager.shutdown()


def test_no_other_size_is_recorded_after_the_limit_was_reached() -> None:
    manager = GraphManager(max_bytes=100 * MIB, debug=True, eager_if_slower=False)
    step = manager.wrap(_step, name="step")
    for mebibytes in (64, 64, 64, 4, 4, 4):
        x = _rows(mebibytes)
        assert torch.equal(step(x), _step(x))
    assert manager.nodes() == []
    manager.reset()
    for _ in range(4):
        assert torch.equal(step(_rows(4)), _step(_rows(4)))
    assert len(manager.nodes()) == 1
    manager.shutdown()


def test_a_limit_that_only_the_recording_exceeds() -> None:
    """The warm-up keeps no copy of the argument, so the recording is larger."""
    manager = GraphManager(debug=True, eager_if_slower=False)
    probe = manager.wrap(_step, name="probe")
    probe(_rows(8))
    warm = manager.pool_bytes()[0]
    probe(_rows(8))
    recorded = manager.pool_bytes()[0]
    manager.shutdown()
    assert recorded > warm
    manager = GraphManager(max_bytes=recorded - 1, debug=True, eager_if_slower=False)
    step = manager.wrap(_step, name="step")
    for number in range(6):
        x = _rows(8) + number
        assert torch.equal(step(x), _step(x))
    assert _counts(step) == (1, 1, 0, 4)
    assert manager.nodes() == []
    assert manager.pool_bytes()[0] == 0
    manager.shutdown()


def test_gradients_across_the_limit_are_those_of_eager() -> None:
    weight = torch.nn.Parameter(torch.full((MIB,), 2.0, device="cuda"))
    manager = GraphManager(max_bytes=30 * MIB, debug=True, eager_if_slower=False)
    step = manager.wrap(lambda x: (x * weight).cos(), name="step")
    for number in range(8):
        x = torch.full((MIB,), float(number), device="cuda")
        weight.grad = None
        step(x).sum().backward()
        found = weight.grad.clone()
        weight.grad = None
        (x * weight).cos().sum().backward()
        assert torch.equal(found, weight.grad)
    manager.shutdown()


def test_a_function_with_a_limit_has_a_pool_of_its_own() -> None:
    shared = cudalens.cudagraph(lambda x: x + 1)
    limited = cudalens.cudagraph(_step, max_bytes=100 * MIB)
    for _ in range(4):
        x = _rows(4)
        assert torch.equal(limited(shared(x)), _step(x + 1))
    pools = [manager.pool for manager in cudalens.graphs.managers()]
    assert len(set(pools)) == 2
    assert limited.on(0).manager.pool_bytes()[0] <= 100 * MIB
    del limited
    gc.collect()
    assert len(list(cudalens.graphs.managers())) == 1


def test_a_limit_that_is_not_a_number_of_bytes_is_refused() -> None:
    with pytest.raises(TypeError, match="max_bytes"):
        cudalens.cudagraph(_step, max_bytes="1 GiB")


def test_what_freeing_a_recording_would_free_is_what_no_other_uses() -> None:
    manager = GraphManager(debug=True, eager_if_slower=False)
    step = manager.wrap(_step, name="step")
    for mebibytes in (40, 40, 4, 4):
        step(_rows(mebibytes))
    freed = manager.tree.bytes_freed_with()
    large, small = manager.nodes()
    segments = dict(manager.backend.pool_segments(manager.pool, 0))
    assert sum(segments.values()) == manager.pool_bytes()[0]
    only_large = large.segments - small.segments
    assert freed[large.id] == sum(segments[one] for one in only_large) >= 80 * MIB
    assert freed[small.id] == sum(segments[one] for one in small.segments - large.segments)
    rows = manager.frame().set_index("node")
    assert rows.loc[large.id, "frees_bytes"] == freed[large.id]
    manager.shutdown()
