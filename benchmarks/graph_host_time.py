"""What the graph manager's Python costs a replay on a machine without a GPU: the calls of CUDA are left out.

A recording is made on the virtual device. Then the device ends, so torch's methods are torch's own again, and the
recording gets a backend that launches nothing. The manager runs the code that it runs on a GPU: keys, guards, copies of
arguments (between tensors on the CPU), results. Two things differ: addresses are compared in Python instead of by
torch's function in C++, which CPU builds lack, and the calls that return the current stream and device take no time.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

import cudalens
from cudalens.device import graph_backend
from cudalens.graphs import GraphManager, arguments
from cudalens.graphs.graphed import Graphed
from cudalens.graphs.guards.guard_set import GuardSet
from cudalens.graphs.guards.reads import find_reads
from cudalens.graphs.python_code import python_roots

_address = torch._C.TensorBase.data_ptr


@dataclass
class Ways:
    """The ways to call a function.

    Attributes:
        inputs: Its arguments.
        bare: A bare replay; without a GPU, the copies of the arguments alone.
        managed: Under the manager.
        by_torch: By torch.cuda.make_graphed_callables.
        trees: By the trees of torch.compile; None without a GPU.
    """

    inputs: list[torch.Tensor]
    bare: Callable[..., Any]
    managed: Graphed
    by_torch: Callable[..., Any]
    trees: Callable[..., Any] | None = None


class HostBackend:
    """The backend of recordings whose device has ended: memory on the CPU, and no launch."""

    name = "cuda"

    def __init__(self) -> None:
        self._memory: list[Any] = []

    def replay(self, graph: Any) -> None:
        """Launch nothing."""

    def destroy(self, graph: Any) -> None:
        """Do nothing: the virtual device has released its graphs."""

    def pool_segments(self, pool: Any, device: int) -> list[tuple[int, int]]:
        """Return none: its memory is in no pool."""
        return []

    def num_captured(self) -> None:
        """Return None: nothing is captured."""

    def work_of(self, graph: Any) -> None:
        """Return None: its graphs have no nodes."""

    def now_ns(self, device: int) -> int:
        """The host's clock."""
        return time.perf_counter_ns()

    def launch_times(self, device: int) -> None:
        """Return None: nothing is modelled."""

    def release(self, pool: Any, device: int) -> None:
        """Do nothing: the same of its pools."""

    def new_address(self, num_bytes: int) -> int:
        """The address of memory that lives as long as this."""
        self._memory.append(ctypes.create_string_buffer(max(num_bytes, 1)))
        return ctypes.addressof(self._memory[-1])

    def tensor_at(self, place: Any, storage: Any = None) -> torch.Tensor:
        """A tensor at a place."""
        memory = (ctypes.c_char * place.num_bytes).from_address(place.address)
        flat = torch.frombuffer(memory, dtype=place.dtype)
        return flat.as_strided(place.size, place.stride, place.storage_offset)

    def same_addresses(self, tensors: list[torch.Tensor], addresses: list[int]) -> bool:
        """Whether every tensor is at its address."""
        return list(map(_address, tensors)) == addresses


#: Makes a function or a module, and makes arguments for it; both on torch's default device.
Case = tuple[Callable[[], Callable[..., Any]], Callable[[], list[torch.Tensor]]]


@contextmanager
def without_device(cases: Sequence[Case]) -> Iterator[list[Ways]]:
    """Record functions on the virtual device, and end the device.

    Args:
        cases: The functions.

    Yields:
        The ways to call each.
    """
    found = []
    with cudalens.virtual.device("h100"):
        for make_function, make_inputs in cases:
            with torch.device("cuda"):
                function, inputs = make_function(), make_inputs()
            graphed = GraphManager(eager_if_slower=False).wrap(function)
            for _ in range(30):
                graphed(*inputs)
            found.append((graphed, make_inputs, torch.cuda.make_graphed_callables(function, tuple(inputs))))
    ended_graph = type(found[0][0].manager.nodes()[0].graph)  # the class that refuses to replay
    backend = HostBackend()
    stop = graph_backend.provide(lambda device: backend)  # type: ignore[arg-type,return-value]
    answers = {
        (torch._C, "_cuda_getCurrentRawStream"): lambda device: 0,
        (torch._C, "_cuda_getDevice"): lambda: 0,
        (torch.cuda, "is_current_stream_capturing"): lambda: False,
        (ended_graph, "replay"): lambda graph: None,
    }
    with _replaced(answers):
        try:
            yield [
                Ways(inputs := _moved(graphed, backend, make_inputs()), _copies(inputs), graphed, by_torch)
                for graphed, make_inputs, by_torch in found
            ]
        finally:
            stop()


@contextmanager
def _replaced(functions: dict[tuple[Any, str], Callable[..., Any]]) -> Iterator[None]:
    """Replace functions by plain ones: calls of a mock would be part of the measured time."""
    before = {at: getattr(*at, None) for at in functions}
    for (owner, name), function in functions.items():
        setattr(owner, name, function)
    try:
        yield
    finally:
        for (owner, name), function in before.items():
            if function is None:
                delattr(owner, name)
            else:
                setattr(owner, name, function)


def _copies(inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    targets = [torch.empty_like(one) for one in inputs]
    return lambda *sources: torch._foreach_copy_(targets, list(sources))


def _moved(graphed: Graphed, backend: HostBackend, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Let a function replay on `inputs`, which are on the CPU; returns them."""
    function, tree = graphed._function, graphed.manager.tree
    tree.backend = backend  # type: ignore[assignment]
    (variant,) = function.variants.values()
    given = arguments.flatten(tuple(inputs), {})
    variant.key = (function.training(), given.key)
    variant.plain = arguments.PlainArguments.of(given)
    variant.guards = GuardSet(find_reads(python_roots(variant)))
    function.variants = {variant.key: variant}
    function.latest = None
    (node,) = tree.nodes()
    node._backend = backend  # type: ignore[assignment]
    node.outputs = [
        replace(one, place=replace(one.place, address=backend.new_address(one.place.num_bytes))) for one in node.outputs
    ]
    for guard in node.guards:
        guard.address = guard.tensor.data_ptr()
    for ref in node.refs:
        ref.let_go()
    node.settle()
    before = function.counts.replays
    for _ in range(3):
        graphed(*inputs)
    assert function.counts.replays == before + 3, "it does not replay without the device"
    return inputs
