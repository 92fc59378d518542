"""The virtual device's backend for graph managers: state of pools, tensors at addresses, ownership of blocks."""

from __future__ import annotations

import io
import sys
import threading

import pytest
import torch
from graph_helpers import capture
from torch.multiprocessing.reductions import StorageWeakRef

from cudalens.device.graph_backend import GraphBackend, PoolSize, TensorPlace, provided
from cudalens.errors import VirtualDeviceError
from cudalens.virtual import device

KIB = 1 << 10
MIB = 1 << 20


@pytest.fixture
def backend(h100):
    """The backend of the devices."""
    return provided(0)


@pytest.fixture
def pool(backend):
    """A pool that a capture has used, as created by a manager."""
    handle = torch.cuda.graph_pool_handle()
    graph, held = capture(lambda: torch.ones(1, device="cuda"), pool=handle)
    del held
    yield handle
    graph.reset()


def _live(backend, pool):
    return {allocation.address for allocation in backend.live_allocations(pool, 0)}


def _filled(backend, pool, value, num_bytes=1000):
    with backend.allocate_to(pool, 0):
        return torch.full((num_bytes,), value, dtype=torch.uint8, device="cuda")


def _address(tensor):
    return tensor.untyped_storage().data_ptr()


def test_one_backend_for_all_gpus_exists_as_long_as_the_device():
    assert provided(0) is None
    with device("h100x2"):
        backend: GraphBackend = provided(0)
        assert provided(1) is backend
        assert backend.name == "virtual:h100"
    assert provided(0) is None


def test_memory_comes_from_the_pool_on_this_thread_and_this_device_alone(backend, pool):
    made = {}

    def elsewhere():
        made["thread"] = torch.ones(1000, device="cuda")

    with backend.allocate_to(pool, 0):
        made["here"] = torch.ones(1000, device="cuda")
        made["other device"] = torch.ones(1000, device="cuda:1")
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="already recording to mempool_id"), backend.allocate_to(pool, 0):
            pass
    made["after"] = torch.ones(1000, device="cuda")
    assert _live(backend, pool) == {made["here"].data_ptr()}
    assert backend.has_live(pool, 0, {made["here"].data_ptr()})
    assert not backend.has_live(pool, 0, set())
    assert backend.pool_size(pool, 0) == PoolSize(4 * MIB, 4 * KIB), "a segment for each stream"
    assert backend.live_allocations(pool, 0)[0].num_bytes == 4 * KIB


def test_the_pool_is_released_also_after_an_error(backend, h100):
    handle = torch.cuda.graph_pool_handle()
    graph, _ = capture(lambda: torch.ones(1, device="cuda"), pool=handle)
    with pytest.raises(KeyError), backend.allocate_to(handle, 0):
        raise KeyError
    allocator = h100.devices[0].allocator
    assert allocator.pool_use_count(handle) == 1
    graph.reset()
    assert allocator.pool_use_count(handle) == 0
    with pytest.raises(RuntimeError, match="released by all its holders"), backend.allocate_to(handle, 0):
        pass


def test_a_capture_of_the_backend_is_torchs(backend, pool):
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    with backend.capture(graph, pool, stream):
        assert torch.cuda.current_stream() == stream
        assert torch.cuda.is_current_stream_capturing()
        out = x + 1
    graph.replay()
    assert out.tolist() == [2] * 4
    assert graph.pool() == pool


def test_stacks_of_live_allocations_come_from_memory_history(backend, pool):
    kept = _filled(backend, pool, 1)
    assert backend.live_allocations(pool, 0)[0].stack == ()
    torch.cuda.memory._record_memory_history(context="state")
    try:
        made = _filled(backend, pool, 2)
        by_address = {one.address: one.stack for one in backend.live_allocations(pool, 0)}
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    assert by_address[_address(kept)] == ()
    names = [name for file, line, name in by_address[_address(made)] if file == __file__ and line > 0]
    assert names[:2] == ["_filled", "test_stacks_of_live_allocations_come_from_memory_history"]


def test_tensors_at_a_place_are_new_own_nothing_and_answer_as_cuda(backend, pool):
    made = _filled(backend, pool, 7)
    allocated = torch.cuda.memory_allocated()
    place = TensorPlace(_address(made), 1000, (3, 2), (2, 1), 4, torch.int16, 0)
    one, two = backend.tensor_at(place), backend.tensor_at(place)
    assert (one.device, one.is_cuda, one.get_device()) == (torch.device("cuda", 0), True, 0)
    assert one.data_ptr() == _address(made) + 8
    assert TensorPlace.of(one) == place
    assert one.untyped_storage() is not two.untyped_storage()
    one.fill_(0x0303)
    assert two.tolist() == [[0x0303] * 2] * 3
    assert made.tolist() == [7] * 8 + [3] * 12 + [7] * 980
    shared = backend.tensor_at(place, one.untyped_storage())
    assert shared.untyped_storage() is one.untyped_storage()
    assert torch.cuda.memory_allocated() == allocated
    del one, two, shared
    assert torch.cuda.memory_allocated() == allocated
    one = backend.tensor_at(place)
    one.record_stream(torch.cuda.Stream())  # it owns no block that could wait
    del made
    assert _live(backend, pool) == set()
    assert one.tolist() == [[0x0303] * 2] * 3, "the memory belongs to the pool"


def test_an_empty_tensor_has_a_place_too(backend, pool):
    empty = torch.empty(0, 3, device="cuda")
    again = backend.tensor_at(TensorPlace.of(empty))
    assert (again.shape, again.is_cuda, again.untyped_storage().data_ptr()) == ((0, 3), True, 0)


def test_only_memory_of_graphs_has_places(backend):
    outside = torch.ones(4, device="cuda")
    with pytest.raises(VirtualDeviceError, match=f"no memory of a graph's pool at {outside.data_ptr():#x} on cuda:0"):
        backend.tensor_at(TensorPlace.of(outside))
    with pytest.raises(VirtualDeviceError, match="for a tensor of 16 bytes"):
        backend.tensor_at(TensorPlace(16, 16, (4,), (1,), 0, torch.float32, 0))
    with pytest.raises(VirtualDeviceError, match="outside of graphs' memory pools"):
        backend.disown(outside.untyped_storage())


def test_a_disowned_storage_stays_where_it_is_and_others_may_come_there(backend, pool):
    first = _filled(backend, pool, 1)
    address = _address(first)
    backend.disown(first.untyped_storage())
    assert _live(backend, pool) == set()
    assert first.data_ptr() == address
    second = _filled(backend, pool, 2)
    assert _address(second) == address
    assert first.tolist() == [2] * 1000
    with pytest.raises(RuntimeError, match="Expected standard deleter"):
        backend.disown(first.untyped_storage())
    del first
    assert _live(backend, pool) == {address}, "it frees nothing"


def test_a_tree_is_recorded_on_replays(backend, pool):
    """A, then B on A's output; A again by replay, then C beside B, in B's memory: the largest branch counts."""
    x = torch.zeros(250 * KIB, device="cuda")
    first, a = capture(lambda: x + 1, pool=pool)
    after_a, a_place = backend.checkpoint(pool, 0), TensorPlace.of(a)
    second, b = capture(lambda: (a * 10).add_(0), pool=pool)
    b_address, reserved = b.data_ptr(), backend.pool_size(pool, 0).reserved_bytes
    del a, b
    for _ in range(3):
        first.replay()
        a = backend.tensor_at(a_place)
        backend.restore(pool, 0, after_a, [a.untyped_storage()], [])
        assert _live(backend, pool) == {a.data_ptr()}
        third, c = capture(lambda a=a: a * 100, pool=pool)
        assert c.data_ptr() == b_address
        third.replay()
        assert (a[0].item(), c[0].item()) == (1, 100)
        backend.disown(a.untyped_storage())
        backend.disown(c.untyped_storage())
    assert backend.pool_size(pool, 0).reserved_bytes == reserved
    second.replay()
    assert c[0].item() == 10, "the branches lie in each other's place"


def test_branches_take_the_memory_of_the_largest_not_of_all(backend, pool):
    """The reserved bytes of the pool and its peak of allocated bytes, from the allocator's statistics."""
    x = torch.zeros(MIB, device="cuda")
    root, a = capture(lambda: x + 1, pool=pool)
    state, place = backend.checkpoint(pool, 0), TensorPlace.of(a)
    seeds = torch.cuda.memory_allocated() - x.nbytes - a.nbytes
    backend.disown(a.untyped_storage())
    graphs, reserved, peaks = [root], [], []
    for num_steps in (1, 3, 2):
        root.replay()
        a = backend.tensor_at(place)
        backend.restore(pool, 0, state, [a.untyped_storage()], [])
        torch.cuda.reset_peak_memory_stats()
        graph, made = capture(lambda n=num_steps, a=a: [a + i for i in range(n)], pool=pool)
        peaks.append(torch.cuda.max_memory_allocated() - x.nbytes)
        reserved.append(backend.pool_size(pool, 0).reserved_bytes)
        for tensor in (a, *made):
            backend.disown(tensor.untyped_storage())
        graphs.append(graph)
    in_seeds = [peak % MIB for peak in peaks]
    assert [peak - extra for peak, extra in zip(peaks, in_seeds, strict=True)] == [8 * MIB, 16 * MIB, 12 * MIB]
    assert max(in_seeds) <= seeds + len(graphs) * 2 * KIB, "seeds of graphs' random numbers, outside of the pool"
    assert reserved[1] == reserved[2] == max(reserved), "the largest branch; the sum would be six tensors more"
    assert backend.pool_size(pool, 0).allocated_bytes == 0


def test_unused_outputs_are_freed_and_live_ones_by_their_last_holder(backend, pool):
    x = torch.ones(1000, device="cuda")
    graph, outs = capture(lambda: [x + 1, x + 2, x + 3], pool=pool)
    places = [TensorPlace.of(out) for out in outs]
    state, allocated = backend.checkpoint(pool, 0), torch.cuda.memory_allocated()
    outs.clear()
    graph.replay()
    kept = backend.tensor_at(places[1])
    addresses = [place.address for place in places]
    backend.restore(pool, 0, state, [kept.untyped_storage()], [addresses[0], addresses[2], addresses[0]])
    assert _live(backend, pool) == {addresses[1]}
    assert torch.cuda.memory_allocated() == allocated - 2 * 4 * KIB
    view = kept[5:]
    del kept
    assert _live(backend, pool) == {addresses[1]}
    assert view.tolist() == [3] * 995
    del view
    assert _live(backend, pool) == set()


@pytest.mark.parametrize("stray", ["later", "owner", "nowhere", "double"])
def test_an_inconsistent_state_is_refused_before_any_change(backend, pool, stray):
    made = _filled(backend, pool, 1)
    place, state = TensorPlace.of(made), backend.checkpoint(pool, 0)
    live, dead, before = [], [], None
    if stray == "later":
        before = _filled(backend, pool, 2)
        expected = "Any stale tensors which are being manually freed must be passed to set checkpoint"
    elif stray == "owner":
        live, expected = [made.untyped_storage()], " Not expecting deleter function"
    elif stray == "nowhere":
        other = TensorPlace(place.address + 512, 8, (8,), (1,), 0, torch.uint8, 0)
        live, expected = [backend.tensor_at(other).untyped_storage()], "no block is allocated there in the state"
    else:
        dead, expected = [place.address + 512], f"invalid device pointer: {place.address + 512:#x}"
    with pytest.raises(RuntimeError, match=expected):
        backend.restore(pool, 0, state, live, dead)
    assert _live(backend, pool) == {_address(tensor) for tensor in (made, before) if tensor is not None}
    assert made.tolist() == [1] * 1000


def test_pools_without_a_state(backend, pool):
    with pytest.raises(RuntimeError, match="Could not find pool of id"):
        backend.checkpoint(torch.cuda.graph_pool_handle(), 0)
    assert backend.pool_size(torch.cuda.graph_pool_handle(), 0) == PoolSize(0, 0)
    assert backend.has_live(torch.cuda.graph_pool_handle(), 0, set())


MESSAGE = "this output was overwritten: clone it, or mark_step_begin()"

USES = {
    "operator": lambda t, view: t + 1,
    "operator on a view": lambda t, view: view.sum(),
    "new view": lambda t, view: t[3:],
    "in place": lambda t, view: view.add_(1),
    "out": lambda t, view: torch.add(torch.ones(8, device="cuda"), 1, out=t),
    "source of a copy": lambda t, view: torch.empty(8, device="cuda").copy_(t),
    "target of a copy": lambda t, view: t.copy_(torch.ones(8)),
    "in a list": lambda t, view: torch.cat([torch.ones(8, device="cuda"), t]),
    "foreach": lambda t, view: torch._foreach_add_([t], 1),
    "item": lambda t, view: view[0].item(),
    "bool": lambda t, view: bool(t.any()),
    "cpu": lambda t, view: view.cpu(),
    "to": lambda t, view: t.to("cpu", non_blocking=True),
    "other device": lambda t, view: t.to("cuda:1"),
    "print": lambda t, view: str(view),
    "tolist": lambda t, view: t.tolist(),
    "numpy": lambda t, view: t.numpy(),
    "array": lambda t, view: t.__array__(),
    "data_ptr": lambda t, view: view.data_ptr(),
    "storage's data_ptr": lambda t, view: t.untyped_storage().data_ptr(),
    "storage": lambda t, view: view.untyped_storage().cpu(),
    "clone": lambda t, view: t.detach().clone(),
    "gradient": lambda t, view: t.detach().requires_grad_().sum().backward(),
    "index": lambda t, view: torch.ones(8, device="cuda")[t.long()],
    "save": lambda t, view: torch.save(t, io.BytesIO()),
}


def test_using_an_invalidated_tensor_raises_the_message(backend, pool):
    with backend.allocate_to(pool, 0):
        tensor = torch.ones(8, device="cuda")
    view, same = tensor[2:5], tensor.detach()
    backend.invalidate(tensor, tensor.untyped_storage(), MESSAGE)
    for name, use in USES.items():
        for held in (tensor, same):
            with pytest.raises(RuntimeError) as info:
                use(held, view)
            assert (name, str(info.value)) == (name, MESSAGE)


def test_an_invalidated_tensor_has_attributes_and_can_be_deleted(backend, pool):
    tensor = _filled(backend, pool, 1)
    view, address = tensor[1:], _address(tensor)
    backend.invalidate(None, view.untyped_storage(), MESSAGE)
    assert _live(backend, pool) == set(), "what it owned is free"
    assert (tensor.device.type, tensor.is_cuda, tensor.get_device(), tensor.shape) == ("cuda", True, 0, (1000,))
    assert (view.dtype, view.storage_offset(), tensor.untyped_storage().nbytes()) == (torch.uint8, 1, 1000)
    later = _filled(backend, pool, 2)
    assert _address(later) == address
    del tensor, view
    assert later.tolist() == [2] * 1000
    assert _live(backend, pool) == {address}


def test_a_graph_replays_over_invalidated_tensors(backend, pool):
    x = torch.ones(4, device="cuda")
    graph, out = capture(lambda: x + 1, pool=pool)
    place = TensorPlace.of(out)
    backend.invalidate(out, out.untyped_storage(), MESSAGE)
    graph.replay()
    assert backend.tensor_at(place).tolist() == [2] * 4


def test_addresses_are_compared_in_order(backend, pool):
    one, two = _filled(backend, pool, 1), torch.ones(4, device="cuda")
    assert backend.same_addresses([one, two], [one.data_ptr(), two.data_ptr()])
    assert not backend.same_addresses([one, two], [two.data_ptr(), one.data_ptr()])
    assert not backend.same_addresses([one[1:]], [one.data_ptr()])


def test_workspaces_do_not_outlive_a_warmup_in_the_pool(backend, pool):
    x = torch.ones(64, 64, device="cuda")
    with backend.allocate_to(pool, 0), backend.without_benchmark_emptying():
        y = x @ x
        assert backend.pool_size(pool, 0).allocated_bytes > y.nbytes
        backend.clear_workspaces()
    assert backend.has_live(pool, 0, {y.data_ptr()})


def test_a_released_pool_frees_its_memory_without_holders(backend, h100):
    graph, out = capture(lambda: torch.ones(4, device="cuda"))
    handle, reserved = graph.pool(), torch.cuda.memory_reserved()
    backend.release(handle, 0)
    assert backend.pool_size(handle, 0).reserved_bytes == 2 * MIB
    graph.reset()
    del out
    backend.release(handle, 0)
    assert backend.pool_size(handle, 0).reserved_bytes == 0
    assert torch.cuda.memory_reserved() == reserved - 2 * MIB
    other, _ = capture(lambda: torch.ones(4, device="cuda"))
    handle = other.pool()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.ones(4, device="cuda")
        other.reset()
        backend.release(handle, 0)  # not while a graph is captured
    assert backend.pool_size(handle, 0).reserved_bytes == 2 * MIB


def test_what_the_device_had_is_harmless_after_its_end():
    with device("h100"):
        backend = provided(0)
        graph, out = capture(lambda: torch.ones(4, device="cuda"))
        state = backend.checkpoint(graph.pool(), 0)
        graph.replay()
        invalidated = backend.tensor_at(TensorPlace.of(out))
        backend.invalidate(invalidated, invalidated.untyped_storage(), MESSAGE)
        pool = graph.pool()
    assert out.tolist() == [1] * 4
    assert invalidated.device.type == "cpu"
    backend.disown(out.untyped_storage())
    backend.release(pool, 0)
    backend.clear_workspaces()
    assert state.pool_id == pool


def _counts(tensor):
    """References from Python, tensors and storages from C++."""
    storage = tensor.untyped_storage()
    return sys.getrefcount(tensor), tensor._use_count(), torch._C._storage_Use_Count(storage._cdata)


def _programs(where):
    """The reference counts of the tensors of ordinary programs, in order."""
    torch.manual_seed(0)
    weight = torch.ones(4, 4, device=where, requires_grad=True)
    x = torch.ones(4, 4, device=where)
    hidden = (x @ weight).relu()
    yield _counts(hidden)
    loss = hidden.sum()
    loss.backward()
    yield from map(_counts, (loss, hidden, weight, weight.grad, x))
    del loss
    yield _counts(hidden)
    view = x[1:]
    yield from map(_counts, (view, x))
    del view
    yield _counts(torch.add(x, 1, out=torch.empty(0, device=where)))
    values, indices = x.sort()
    yield from map(_counts, (values, indices, torch.nn.functional.dropout(x, 0.5), torch.randn(4, device=where)))
    optimizer = torch.optim.AdamW([weight])
    optimizer.step()
    yield from map(_counts, (weight, weight.grad, optimizer.state[weight]["exp_avg"]))
    with pytest.raises(RuntimeError):
        x @ torch.ones(3, 3, device=where)
    yield _counts(x)
    with torch.inference_mode():
        yield _counts(x * 2)


def test_only_the_program_refers_to_its_tensors(backend, pool):
    plain = list(_programs("cpu"))
    assert list(_programs("cuda")) == plain
    with backend.allocate_to(pool, 0):
        assert list(_programs("cuda")) == plain


def test_nor_do_graphs(backend, pool):
    weight = torch.ones(4, 4, device="cuda", requires_grad=True)

    def program():
        hidden = (weight @ weight).relu()
        return hidden, torch.autograd.grad(hidden.sum(), weight)[0]

    graph, (hidden, grad) = capture(program, pool=pool)
    lonely = torch.ones(4)
    alone = _counts(lonely)
    refs = [StorageWeakRef(tensor.untyped_storage()) for tensor in (hidden, grad)]
    for _ in range(2):
        assert [_of(hidden), _of(grad)] == [_of(lonely)] * 2
        graph.replay()
    place = TensorPlace.of(hidden)
    state = backend.checkpoint(pool, 0)
    del hidden, grad
    assert [torch._C._storage_Use_Count(ref.cdata) for ref in refs] == [0, 0]
    graph.replay()
    again = backend.tensor_at(place)
    assert _counts(again) == alone
    assert place.address not in _live(backend, pool)
    backend.restore(pool, 0, state, [again.untyped_storage()], [])
    assert _counts(again) == alone
    ref = StorageWeakRef(again.untyped_storage())
    assert torch.UntypedStorage._new_with_weak_ptr(ref.cdata) is again.untyped_storage()
    del again
    assert torch._C._storage_Use_Count(ref.cdata) == 0


def _of(tensor):
    return tensor._use_count(), torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
