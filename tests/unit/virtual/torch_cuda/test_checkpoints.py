"""The state of a graph's memory pool, saved and restored by the functions that torch's own graph trees use."""

from __future__ import annotations

import importlib

import pytest
import torch

from cudalens.virtual import device


@pytest.fixture(autouse=True)
def _gpu():
    with device("h100"):
        yield


def graphed(function):
    """A graph of the function, and its outputs."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = function()
    graph.replay()
    return graph, outputs


def num_live(graph):
    segments = torch.cuda.memory_snapshot()
    blocks = [block for s in segments if s["segment_pool_id"] == graph.pool() for block in s["blocks"]]
    return sum(block["state"] == "active_allocated" for block in blocks)


def restore(state, stale=(), owning=()):
    pointers = [[tensor.untyped_storage()._cdata for tensor in tensors] for tensors in (stale, owning)]
    torch._C._cuda_setCheckpointPoolState(0, state, *pointers)


def three():
    return [torch.full((1 << 20,), float(value), device="cuda") for value in range(3)]


def test_blocks_outlive_their_tensors():
    graph, outputs = graphed(three)
    state = torch._C._cuda_getCheckpointState(0, graph.pool())
    addresses = [output.data_ptr() for output in outputs]
    del outputs
    assert num_live(graph) == 0
    restore(state)
    for num_left in (2, 1, 0):
        torch._C._cuda_cudaCachingAllocator_raw_delete(addresses.pop())
        assert num_live(graph) == num_left
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        torch._C._cuda_cudaCachingAllocator_raw_delete(state.segments[0][0].address)


def test_a_storage_at_an_address_reads_the_graphs_memory_and_owns_its_block():
    graph, outputs = graphed(three)
    state = torch._C._cuda_getCheckpointState(0, graph.pool())
    addresses = [output.data_ptr() for output in outputs]
    num_bytes = outputs[0].nbytes
    del outputs
    again = []
    for address in addresses:
        storage = torch._C._construct_storage_from_data_pointer(address, torch.device("cuda"), num_bytes)
        again.append(torch.empty(0, device="cuda").set_(storage, 0, (1 << 20,), (1,)))
    assert [tensor[-1].item() for tensor in again] == [0.0, 1.0, 2.0]
    assert num_live(graph) == 0
    restore(state, owning=again[:2])
    assert num_live(graph) == 3
    again.clear()
    assert num_live(graph) == 1


def test_blocks_of_a_later_graph_are_freed():
    graph, outputs = graphed(three)
    state = torch._C._cuda_getCheckpointState(0, graph.pool())
    later = torch.cuda.CUDAGraph()
    with torch.cuda.graph(later, pool=graph.pool()):
        others = three()
    assert num_live(graph) == 6
    restore(state, stale=others)
    assert num_live(graph) == 3
    del others, outputs
    assert num_live(graph) == 0


def test_torchs_own_graph_trees_can_be_imported():
    importlib.import_module("torch._inductor.cudagraph_trees")
    torch.compiler.cudagraph_mark_step_begin()
