"""The real allocator: snapshots, histories, names and leaks."""

from __future__ import annotations

import gc
import json
import weakref

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudalens  # noqa: E402
from cudalens.analysis import memory_peak, memory_totals  # noqa: E402
from cudalens.memory.leaks import CellTracker  # noqa: E402
from cudalens.memory.names import NameSearch, Roots  # noqa: E402
from cudalens.memory.objects import can_look  # noqa: E402
from cudalens.memory.snapshot import storage_address  # noqa: E402

MIB = 1 << 20
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(autouse=True)
def clean():
    gc.collect()
    torch.cuda.empty_cache()
    yield
    assert not torch._C._cuda_isHistoryEnabled()


def category_of(trace, tensor):
    device, address = storage_address(tensor)
    blocks = trace.blocks
    (found,) = blocks["category"][((blocks["addr"] == address) & (blocks["device"] == device)).to_numpy(bool)]
    return found


def test_totals_are_torchs():
    kept = [torch.zeros(k * MIB, dtype=torch.uint8, device="cuda") for k in (1, 5, 30)]
    trace = cudalens.memory_snapshot(keep=False, namespace={"kept": kept})
    totals = memory_totals(trace)
    assert totals["allocated"] == torch.cuda.memory_allocated()
    assert totals["reserved"] == torch.cuda.memory_reserved()
    assert {json.loads(text)[0] for text in trace.blocks["names"].dropna()} >= {"kept[0]", "kept[1]", "kept[2]"}
    assert trace.info.source == "cuda"


def test_a_history_has_the_peak_and_the_line():
    before = torch.cuda.memory_allocated()
    with cudalens.memory_history(keep=False) as run:
        kept = torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda")
        torch.zeros(64 * MIB, dtype=torch.uint8, device="cuda")
    peak = memory_peak(run.trace)
    assert peak["num_bytes"] == before + 72 * MIB
    assert "test_memory_gpu.py:" in str(run.trace.summary())
    assert kept.is_cuda


def test_categories_of_a_training_step():
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(256, 512, device="cuda")
    model(x).sum().backward()
    optimizer.step()
    out = model(x)
    held = {"model": model, "optimizer": optimizer, "x": x, "out": out}
    trace = cudalens.memory_snapshot(keep=False, namespace=held)
    weight = model[0].weight
    assert category_of(trace, weight) == "parameter"
    assert category_of(trace, weight.grad) == "gradient"
    assert category_of(trace, optimizer.state[weight]["exp_avg"]) == "optimizer state"
    assert category_of(trace, out) == "activation"
    if can_look():
        assert category_of(trace, x) == "input"
    assert "workspace" in set(trace.blocks["category"].dropna())


def test_graphs_have_their_pools():
    static = torch.zeros(MIB, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = static * 2
    trace = cudalens.memory_snapshot(keep=False, namespace={"mine": graph, "out": out})
    private = trace.blocks[(trace.blocks["graph"] == "mine").to_numpy()]
    assert "out" in {name for text in private["names"].dropna() for name in json.loads(text)}


def test_an_allocation_that_fails_is_reported():
    with pytest.raises(torch.OutOfMemoryError), cudalens.memory_history(keep=False, namespace={}) as run:
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
    assert "out of memory at test_memory_gpu.py:" in str(run.trace.summary())


def test_a_cell_leaves_what_its_variables_hold():
    space = {"torch": torch}
    tracker = CellTracker(namespace=space)
    tracker.on()
    tracker.begin(lambda: "In[1]")
    exec("x = [torch.zeros(1 << 20, device='cuda') for _ in range(3)]", space)
    left = tracker.end("In[1]")
    assert left.delta_bytes == sum(left.sizes) == 12 * MIB
    assert [names[0] for names in left.names] == ["x[0]", "x[1]", "x[2]"]
    alive = weakref.ref(space["x"][0])
    allocated = torch.cuda.memory_allocated()
    del space["x"]
    assert alive() is None
    assert torch.cuda.memory_allocated() == allocated - 12 * MIB
    tracker.off()


def test_sparse_tensors_are_made_of_tensors():
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        sparse = torch.eye(4, device="cuda").to_sparse()
    search = NameSearch()
    search.run(Roots({"s": sparse}, has_calls=False))
    assert search.names[storage_address(sparse._values())] == ["s.values()"]
