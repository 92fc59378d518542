"""The memory of CUDA graphs: kept, shared, reused and freed."""

from __future__ import annotations

import gc

import pytest
import torch
from graph_helpers import capture

from cudalens.errors import VirtualDeviceError

#: The random seed and offset of a graph, which torch keeps on the device.
SEED_BYTES = 1024


def test_memory_of_a_capture_is_kept_with_the_graph_and_given_back_after_it(graph_gpus):
    before = torch.cuda.memory_reserved()
    x = torch.ones(1 << 20, device="cuda")
    allocated = torch.cuda.memory_allocated() + SEED_BYTES
    graph, out = capture(lambda: (x + 1) * 2)
    assert torch.cuda.memory_allocated() == allocated + out.nbytes
    assert torch.cuda.memory_reserved() > before + x.nbytes
    reserved = torch.cuda.memory_reserved()
    del out
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == allocated
    assert torch.cuda.memory_reserved() == reserved
    graph.replay()
    assert torch.cuda.memory_allocated() == allocated
    del graph
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved


def test_memory_is_reused_within_a_capture_and_the_values_hold(h100):
    x = torch.ones(1 << 20, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    start = torch.cuda.memory_allocated()

    def program():
        out = x
        for _ in range(10):
            out = out + 1
        return out

    graph, out = capture(program)
    assert torch.cuda.max_memory_allocated() - start == 2 * x.nbytes + SEED_BYTES
    graph.replay()
    assert out[0].item() == 11
    del out
    graph.replay()


def test_tensors_outlive_reset_and_a_reset_graph_captures_again(h100):
    x = torch.ones(4, device="cuda")
    graph, out = capture(lambda: x * 3)
    graph.replay()
    graph.reset()
    assert out.tolist() == [3, 3, 3, 3]
    with pytest.raises(RuntimeError, match=r"replay without a preceding|capture_end\(\) must have been called before"):
        graph.replay()
    with torch.cuda.graph(graph):
        again = x * 4
    graph.replay()
    assert again.tolist() == [4, 4, 4, 4]


def test_graphs_share_a_pool_and_what_the_first_computes_reaches_the_second(graph_gpus):
    x = torch.ones(4, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    first, hidden = capture(lambda: x + 1, pool=pool)
    made = [hidden]
    second, out = capture(lambda: made[0] * 10, pool=first.pool())
    assert first.pool() == second.pool() == pool
    made.clear()
    del hidden  # its memory belongs to the pool, and the second graph reads it there
    for value in (1, 2):
        x.fill_(value)
        first.replay()
        second.replay()
        assert out.tolist() == [10 * (value + 1)] * 4


def test_a_graph_that_reads_what_another_has_not_computed_yet_reads_what_is_there(h100):
    x = torch.ones(4, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    first, hidden = capture(lambda: x + 1, pool=pool)
    made = [hidden]
    second, out = capture(lambda: made[0] * 10, pool=pool)
    made.clear()
    del hidden
    second.replay()
    assert out.isnan().all()
    first.replay()
    second.replay()
    assert out.tolist() == [20] * 4


def test_a_graph_whose_input_was_freed_reports_it(h100):
    inputs = [torch.ones(4, device="cuda")]
    graph, out = capture(lambda: inputs[0] + 1)
    graph.replay()
    before = torch.cuda.memory_allocated()
    inputs.clear()
    assert torch.cuda.memory_allocated() < before, "a graph does not keep its inputs"
    with pytest.raises(VirtualDeviceError, match=r"uses a torch.float32 tensor of size \(4,\).*has been freed since"):
        graph.replay()
    assert out.tolist() == [2] * 4


def test_pool_ids_differ_for_graphs_and_users(graph_gpus):
    x = torch.ones(4, device="cuda")
    own, _ = capture(lambda: x + 1)
    assert own.pool()[0] > 0
    assert own.pool()[1] == 0
    handle = torch.cuda.graph_pool_handle()
    assert handle[0] == 0
    assert handle[1] > 0
    assert torch.cuda.graph_pool_handle() != handle


@pytest.mark.parametrize(("shares", "swapped"), [(False, (5, 7)), (True, (10, 7))])
def test_graphs_of_one_pool_overwrite_each_other_out_of_order_as_on_a_gpu(h100, shares, swapped):
    """As PyTorch's own test of three graphs: the third took the memory of what the second was the last to use."""
    a, made = torch.ones(4, device="cuda"), {}
    pool = torch.cuda.graph_pool_handle()

    def first():
        made["c"], made["d"] = a + 1, a + 2

    g0, _ = capture(first, pool=pool)
    g1, e = capture(lambda: made.pop("c") + 3, pool=pool)
    g2, f = capture(lambda: made.pop("d") + 4, pool=pool if shares else None)

    def replay(*graphs):
        for graph in graphs:
            graph.replay()
        return e[0].item(), f[0].item()

    assert replay(g0, g1, g2) == (5, 7)
    assert replay(g0, g2, g1) == swapped


def test_the_random_seed_and_offset_of_graphs_are_on_the_device(h100):
    x = torch.ones(1 << 20, device="cuda")
    before = torch.cuda.memory_allocated()
    first, _ = capture(lambda: x.add_(1))
    second, _ = capture(lambda: x.add_(1))
    per_capture = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)
    assert torch.cuda.memory_allocated() - before == (2 if per_capture else 1) * SEED_BYTES
    first.reset()
    second.reset()
    assert torch.cuda.memory_allocated() == before


MIB = 1 << 20
BIG = 10 * MIB


@pytest.mark.parametrize(
    ("num_bytes", "pool", "num_segments", "reserved_bytes", "kept_bytes"),
    [
        (512, "small_pool", 1, 2 * MIB, 2 * MIB),
        (MIB, "small_pool", 2, 4 * MIB, 2 * MIB),
        (MIB + 512, "large_pool", 1, 20 * MIB, 20 * MIB),
        (BIG - 512, "large_pool", 2, 40 * MIB, 20 * MIB),
        (BIG + 512, "large_pool", 3, 36 * MIB, 12 * MIB),
    ],
)
def test_a_captures_memory_is_counted_to_the_byte(h100, num_bytes, pool, num_segments, reserved_bytes, kept_bytes):
    """Three tensors are alive at most; the result alone stays, also after the graph. Numbers of PyTorch's own test."""

    def counts():
        gc.collect()
        torch.cuda.empty_cache()
        stats = torch.cuda.memory_stats()
        return [stats[f"{name}.{pool}.current"] for name in ("segment", "reserved_bytes", "active", "active_bytes")]

    def grown(since):
        return [now - then for now, then in zip(counts(), since, strict=True)]

    small = pool == "small_pool"
    seeds = torch.empty(1, device="cuda")  # the default stream has a small segment: seeds go there
    with torch.cuda.stream(torch.cuda.Stream()):
        a = torch.ones(num_bytes // 4, device="cuda")
        before = counts()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        out = a.clone()
        for _ in range(5):
            out = out.clone() + 1
        graph.capture_end()
        held = [2, SEED_BYTES] if small else [0, 0]
        assert grown(before) == [num_segments, reserved_bytes, 1 + held[0], num_bytes + held[1]]
        graph.replay()
        assert grown(before)[:2] == [num_segments, reserved_bytes]
        del graph
        assert grown(before) == [1, kept_bytes, 1, num_bytes]
        assert out[-1].item() == 6
    assert seeds.is_cuda


def test_a_graph_reads_memory_of_its_pool_that_the_capture_frees_and_uses_again(h100):
    x = torch.arange(6.0, device="cuda")
    handle = torch.cuda.graph_pool_handle()
    first, doubled = capture(lambda: [x * 2], pool=handle)
    first.replay()

    def program():
        sums = doubled.pop() + 1
        return sums, sums * 3  # the second has the memory of what was freed

    address = doubled[0].data_ptr()
    second, (sums, tripled) = capture(program, pool=handle)
    assert tripled.data_ptr() == address
    second.replay()
    assert sums.tolist() == [1, 3, 5, 7, 9, 11]
    assert tripled.tolist() == [3, 9, 15, 21, 27, 33]
