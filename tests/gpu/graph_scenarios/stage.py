"""How a scenario is played: a manager of its own, and everything as before when it is over."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from cudalens.graphs import GraphManager


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        run: What happens; gets the manager, which is shut down afterwards.
        options: Of that manager.
        num_devices: How many devices it needs.
    """

    run: Callable[[GraphManager], None]
    options: dict[str, Any] = field(default_factory=dict)
    num_devices: int = 1


def scenario(run: Callable[[GraphManager], None] | None = None, *, num_devices: int = 1, **options: Any) -> Any:
    """Make a function a scenario."""
    if run is None:
        return lambda function: Scenario(function, options, num_devices)
    return Scenario(run)


def play(entry: Scenario) -> None:
    """Run a scenario; whatever it does, memory, streams and random numbers work afterwards and nothing is kept."""
    torch.manual_seed(0)
    settle()
    before = memory()
    manager = GraphManager(**{"debug": True, "eager_if_slower": False, **entry.options})
    entry.run(manager)
    manager.shutdown()
    alive = weakref.ref(manager)
    del manager
    settle()
    assert alive() is None, "the manager outlives its last reference"
    assert memory() == before, "memory is not given back"
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert not torch.cuda.is_current_stream_capturing()
    assert torch.ones(3, device="cuda").add(1).tolist() == [2.0] * 3


@contextmanager
def undisturbed() -> Iterator[None]:
    """Limits garbage collection to objects made inside the block: scenarios collect often."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def settle() -> None:
    """Collect garbage, and let libraries drop their scratch memory."""
    gc.collect()
    torch.cuda.synchronize()
    if hasattr(torch._C, "_cuda_clearCublasWorkspaces"):
        torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


def memory() -> list[tuple[int, int]]:
    """Bytes that are allocated and reserved, by device."""
    return [(torch.cuda.memory_allocated(n), torch.cuda.memory_reserved(n)) for n in range(torch.cuda.device_count())]


def hidden_count() -> Any:
    """A number, ``.value``, in memory of C: guards do not see that a function changes it."""
    return ctypes.c_long()


def is_captured() -> bool:
    """Whether a graph is captured, asked as code outside of the program asks."""
    return bool(torch.cuda.graphs._cuda_isCurrentStreamCapturing())


def values(*numbers: float, **options: Any) -> torch.Tensor:
    """A tensor on the device; 1 to 6 without arguments."""
    return torch.tensor([float(n) for n in numbers or range(1, 7)], device="cuda", **options)


def counts(step: Any) -> tuple[int, int, int, int]:
    """Warmups, recordings, replays and calls without a graph, so far."""
    counted = step._function.counts
    return counted.warmups, counted.recordings, counted.replays, counted.eager


def reasons(manager: GraphManager) -> Counter[str]:
    """How often each reason came."""
    frame = manager.frame()
    rows = frame[frame["kind"].isin(["skip", "rerecord", "warning"])]
    return Counter(dict(zip(rows["reason"].astype(str), rows["count"].astype(int), strict=True)))


def reason_row(manager: GraphManager, reason: str) -> dict[str, Any]:
    """What the frame says of a reason that came at one place."""
    frame = manager.frame()
    rows = frame[frame["kind"].isin(["skip", "rerecord", "warning"]) & (frame["reason"] == reason)]
    assert len(rows) == 1, f"{reason}: {len(rows)} rows in {sorted(frame['reason'].dropna().unique())}"
    row: dict[str, Any] = rows.iloc[0].to_dict()
    return row


def recordings(manager: GraphManager) -> Any:
    """The recordings' rows of the frame."""
    frame = manager.frame()
    return frame[frame["kind"] == "recording"]


def same(found: Any, expected: Any) -> None:
    """Whether two trees of results have equal structure and values."""
    found_leaves, expected_leaves = tree_leaves(found), tree_leaves(expected)
    assert len(found_leaves) == len(expected_leaves)
    for a, b in zip(found_leaves, expected_leaves, strict=True):
        if isinstance(b, torch.Tensor):
            assert isinstance(a, torch.Tensor)
            torch.testing.assert_close(a.detach().cpu(), b.detach().cpu(), equal_nan=True)
            assert a.requires_grad == b.requires_grad
            assert a.dtype == b.dtype
            assert a.shape == b.shape
        else:
            assert type(a) is type(b)
            assert a == b


def fails(act: Callable[[], Any], kind: type[BaseException], *words: str) -> BaseException:
    """That something raises, with these words in the message."""
    caught: BaseException | None = None
    try:
        act()
    except kind as error:
        caught = error.with_traceback(None)
    assert caught is not None, f"{kind.__name__} was expected"
    missing = [word for word in words if word not in str(caught)]
    assert not missing, f"{missing} not in: {caught}"
    return caught
