"""Memory in the pools of graphs is shared by address."""

from __future__ import annotations

import gc

import pytest
import torch
from graph_helpers import capture

from cudalens.device.graph_backend import TensorPlace, provided
from cudalens.errors import VirtualDeviceError
from cudalens.virtual import device

MIB = 1 << 20


@pytest.fixture
def pool(h100):
    """A pool that a capture uses."""
    handle = torch.cuda.graph_pool_handle()
    graph, held = capture(lambda: torch.ones(1, device="cuda"), pool=handle)
    del held
    yield handle
    graph.reset()


def _at(tensor, num_bytes=None, offset=0, dtype=torch.uint8):
    """Another tensor over a tensor's memory, from `offset` bytes on."""
    address = tensor.data_ptr() + offset
    num_bytes = tensor.nbytes - offset if num_bytes is None else num_bytes
    count = num_bytes // dtype.itemsize
    return provided(0).tensor_at(TensorPlace(address, num_bytes, (count,), (1,), 0, dtype, 0))


def test_a_replay_overwrites_what_is_there_at_any_offset(h100):
    """The result of the first graph is at the address of two results of the second, of other sizes and dtypes."""
    x = torch.arange(1000.0, device="cuda")
    first, wide = capture(lambda: x + 1)
    start = wide.data_ptr()
    del wide
    second, (head, tail) = capture(lambda: (x[:200] * 2, x[:500].long()), pool=first.pool())
    assert (head.data_ptr(), tail.data_ptr()) == (start, start + 1024)
    second.replay()
    assert head.tolist() == [2.0 * i for i in range(200)]
    first.replay()
    assert head.tolist() == [1.0 + i for i in range(200)]
    below = torch.arange(1.0, 1001.0)
    assert tail[:372].tolist() == below.view(torch.int64)[128:].tolist()
    second.replay()
    assert tail.tolist() == list(range(500))


def test_views_and_several_results_of_one_operator_stay_together(pool):
    with provided(0).allocate_to(pool, 0):
        x = torch.arange(12.0, device="cuda")
        parts = x.clone().split(4)
        values, indices = x.sort(descending=True)
    storages = {part.untyped_storage().data_ptr() for part in parts}
    assert len(storages) == 1
    _at(parts[1], 16, dtype=torch.float32).fill_(9)
    assert [part.tolist() for part in parts] == [[0, 1, 2, 3], [9, 9, 9, 9], [8, 9, 10, 11]]
    assert values.tolist() == list(range(11, -1, -1))
    assert indices.tolist() == list(range(11, -1, -1))


@pytest.mark.parametrize("inference", [False, True])
def test_a_move_is_invisible_in_results(pool, inference):
    with torch.inference_mode(inference), provided(0).allocate_to(pool, 0):
        made = torch.ones(3, 4, device="cuda").t() * 2
        flipped = torch.ones(4, dtype=torch.complex64, device="cuda").conj() * 1j
    assert made.stride() == (1, 4)
    assert made.is_inference() is inference
    assert made._is_view() is False
    if not inference:
        assert made._version == 0
        made.add_(1)
        assert made._version == 1
    assert flipped.conj().tolist() == [-1j] * 4
    _at(flipped, 8, dtype=torch.complex64).fill_(2j)
    assert flipped.tolist() == [2j, 1j, 1j, 1j]


def test_autograd_computes_the_same_in_a_pool(pool):
    def gradient():
        x = torch.linspace(-1, 1, 64, device="cuda").reshape(8, 8).requires_grad_()
        y = torch.nn.functional.softmax(x @ x, -1).relu()
        y[2:].square().sum().backward()
        return x.grad

    outside = gradient()
    with provided(0).allocate_to(pool, 0):
        inside = gradient()
    assert torch.equal(inside, outside)
    addresses = {allocation.address for allocation in provided(0).live_allocations(pool, 0)}
    assert inside.data_ptr() in addresses
    assert outside.data_ptr() not in addresses


def test_what_a_capture_made_reads_as_never_written_also_where_it_was_freed(h100):
    x = torch.ones(1000, device="cuda")
    graph, (kept, number, address) = capture(lambda: (x + 1, x.long(), (x * 7).data_ptr()))
    assert kept.isnan().all()
    assert number.tolist() == [0] * 1000
    freed = provided(0).tensor_at(TensorPlace(address, 4000, (1000,), (1,), 0, torch.float32, 0))
    assert freed.isnan().all()
    graph.replay()
    assert freed.tolist() == [7.0] * 1000


def test_a_capture_leaves_other_memory_of_its_pool_as_it_was(pool):
    with provided(0).allocate_to(pool, 0):
        buffer = torch.arange(4.0, device="cuda")
    graph, out = capture(lambda: buffer.mul_(10) + 1, pool=pool)
    assert buffer.tolist() == [0, 1, 2, 3]
    graph.replay()
    assert out.tolist() == [1, 11, 21, 31]


def test_a_graph_reads_its_pools_memory_by_address(pool):
    """An input in the pool may be freed: the graph reads its address, as on a GPU."""
    with provided(0).allocate_to(pool, 0):
        inputs = [torch.ones(4, device="cuda")]
    place = TensorPlace.of(inputs[0])
    graph, out = capture(lambda: inputs[0] + 1, pool=pool)
    inputs.clear()
    provided(0).tensor_at(place).fill_(41)
    graph.replay()
    assert out.tolist() == [42] * 4


def test_memory_that_was_freed_to_the_device_cannot_be_used(h100):
    first, out = capture(lambda: torch.ones(4, device="cuda"))
    made = [out]
    second, _ = capture(lambda: made[0] + 1)
    place = TensorPlace.of(out)
    del out
    made.clear()
    first.reset()
    torch.cuda.empty_cache()
    with pytest.raises(VirtualDeviceError, match=r"has not been replayed|has been freed since"):
        second.replay()
    with pytest.raises(VirtualDeviceError, match=f"no memory of a graph's pool at {place.address:#x} on cuda:0"):
        provided(0).tensor_at(place)


def test_tensors_in_a_pool_can_be_resized(h100):
    x = torch.arange(600.0, device="cuda")

    def program():
        fresh, small = torch.empty(0, device="cuda"), torch.empty(10, device="cuda")
        before = small.data_ptr()
        torch.add(x, 1, out=fresh)
        small.resize_(600)
        return fresh, torch.add(x, 2, out=small), before

    graph, (fresh, small, before) = capture(program)
    assert small.data_ptr() != before
    graph.replay()
    assert torch.equal(fresh.cpu(), torch.arange(600.0) + 1)
    assert torch.equal(small.cpu(), torch.arange(600.0) + 2)
    x.zero_()
    graph.replay()
    assert (fresh[0].item(), small[599].item()) == (1, 2)
    place = TensorPlace.of(small)
    assert _at(small, 4, dtype=torch.float32).tolist() == [2.0]
    small.resize_(9000)
    assert small[599].item() == 2
    assert small.data_ptr() != place.address
    assert place.address not in {one.address for one in provided(0).live_allocations(graph.pool(), 0)}
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        provided(0).tensor_at(place).resize_(9000)
    with pytest.raises(VirtualDeviceError, match="cannot be resized on a virtual device"):
        fresh.untyped_storage().resize_(0)


def test_several_outputs_of_which_one_is_resized(pool):
    with provided(0).allocate_to(pool, 0):
        values, indices = torch.empty(6, device="cuda"), torch.empty(1, dtype=torch.int64, device="cuda")
        with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
            torch.sort(torch.tensor([3.0], device="cuda").expand(6), out=(values, indices), stable=True)
    assert values.tolist() == [3.0] * 6
    assert indices.tolist() == list(range(6))
    _at(indices, 8, dtype=torch.int64).fill_(77)
    assert indices[0].item() == 77
    _at(values, 4, dtype=torch.float32).fill_(5)
    assert values[0].item() == 5


@pytest.mark.parametrize("make", [torch.empty, torch.zeros])
def test_large_blank_memory_costs_the_host_nothing(h100, make):
    graph, out = capture(lambda: make(40 << 28, device="cuda"))
    graph.replay()
    assert out.nbytes == 40 << 30
    with provided(0).allocate_to(graph.pool(), 0):
        again = make(20 << 28, device="cuda")
    assert (out[-1].item(), again[-1].item()) == (0, 0)


def test_large_zeros_are_zeros_where_others_were_before(pool):
    with provided(0).allocate_to(pool, 0):
        dirty = torch.ones(80 * MIB, dtype=torch.uint8, device="cuda")
        address = dirty.data_ptr()
        del dirty
        clean = torch.zeros(70 * MIB + 3, dtype=torch.uint8, device="cuda")
    assert clean.data_ptr() == address
    assert clean.count_nonzero().item() == 0
    assert _at(clean, 1, offset=70 * MIB + 3).tolist() == [1], "and nothing beyond"


def test_expandable_segments_are_one_piece(monkeypatch):
    with device("h100", alloc_conf="expandable_segments:True"):
        graph, first = capture(lambda: torch.ones(4 * MIB, dtype=torch.uint8, device="cuda"))
        more, second = capture(lambda: torch.full((30 * MIB,), 2, dtype=torch.uint8, device="cuda"), pool=graph.pool())
        graph.replay()
        more.replay()
        assert second.data_ptr() == first.data_ptr() + 4 * MIB
        seam = _at(first, 8, offset=4 * MIB - 4)
        assert seam.tolist() == [1] * 4 + [2] * 4


def test_tensors_of_a_pool_outlive_the_device():
    with device("h100"):
        graph, out = capture(lambda: torch.ones(4, device="cuda"))
        graph.replay()
    del graph
    gc.collect()
    assert out.device.type == "cpu"
    assert (out + 1).tolist() == [2] * 4
