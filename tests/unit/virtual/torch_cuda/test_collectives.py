"""Collectives on a virtual device: their streams, their waits, and the restored classes."""

import itertools

import pytest
import torch
from torch.distributed import ProcessGroup, Work

import cudalens
from cudalens.errors import VirtualDeviceError
from cudalens.sanitizer import RaceKind
from cudalens.virtual import device

dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

N = 64
_names = itertools.count()


@pytest.fixture
def group(tmp_path):
    """A device, and a process group of one on gloo."""
    with device("h100"):
        store = dist.FileStore(str(tmp_path / f"store{next(_names)}"), 1)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


@pytest.fixture
def group_without_values(tmp_path):
    """A device without values, and a process group of one on gloo."""
    with device("h100", values=False):
        store = dist.FileStore(str(tmp_path / f"store{next(_names)}"), 1)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


def test_without_values_nothing_is_sent_and_results_are_unknown(group_without_values):
    """Another process may know no value of its tensor: one that sends or receives would wait for it forever."""
    known, gathered = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    assert (known[0].item(), gathered[0].item()) == (1, 0)
    dist.all_gather([gathered], torch.randn(N, device="cuda"))
    dist.all_reduce(known)
    for tensor in (known, gathered):
        with pytest.raises(VirtualDeviceError, match="The value of a tensor is needed"):
            tensor[0].item()
    host = torch.ones(N)
    dist.all_reduce(host)
    assert host[0].item() == 1


def test_without_values_data_parallel_is_refused(group_without_values):
    with pytest.raises(VirtualDeviceError, match="DistributedDataParallel needs values"):
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))


@pytest.fixture
def x(group):
    made = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    return made


def kinds(san):
    return [(race.kind, race.first.op, race.second.op) for race in san.races]


def gather_into(out, x):
    """``all_gather_into_tensor``, which later versions of torch call by another name."""
    return getattr(dist, "all_gather_single", dist.all_gather_into_tensor)(out, x, async_op=True)


COLLECTIVES = {
    "all_reduce": lambda x, y: (dist.all_reduce(x, async_op=True), x),
    "broadcast": lambda x, y: (dist.broadcast(x, 0, async_op=True), x),
    "reduce": lambda x, y: (dist.reduce(x, 0, async_op=True), x),
    "all_gather": lambda x, y: (dist.all_gather([y], x, async_op=True), y),
    "all_gather_into_tensor": lambda x, y: (gather_into(y, x), y),
    "gather": lambda x, y: (dist.gather(x, [y], async_op=True), y),
    "scatter": lambda x, y: (dist.scatter(y, [x], async_op=True), y),
    "all_to_all_single": lambda x, y: (dist.all_to_all_single(y, x, async_op=True), y),
}


@pytest.mark.parametrize("start", COLLECTIVES.values(), ids=COLLECTIVES)
def test_results_must_not_be_used_before_the_wait(x, start):
    y = torch.zeros(N, device="cuda")
    with cudalens.sanitize() as san:
        work, written = start(x, y)
        assert san.races == []
        written.sum()
        work.wait()
        x.add_(1)
        y.add_(1)
    assert [(kind, second) for kind, _, second in kinds(san)] == [(RaceKind.READ_AFTER_WRITE, "aten::sum")]


def test_inputs_may_be_read_but_not_written_before_the_wait(x):
    y = torch.zeros(N, device="cuda")
    with cudalens.sanitize() as san:
        work = gather_into(y, x)
        x.sum()
        x.add_(1)
        work.wait()
    assert [kind for kind, *_ in kinds(san)] == [RaceKind.WRITE_AFTER_READ]


def test_it_waits_for_the_stream_that_starts_it(x):
    side = torch.cuda.Stream()
    with cudalens.sanitize() as san:
        x.mul_(2)
        dist.all_reduce(x, async_op=True).wait()
        with torch.cuda.stream(side):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            x.mul_(2)
        assert san.races == []
        dist.all_reduce(x, async_op=True).wait()
    assert kinds(san)[0] == (RaceKind.WRITE_AFTER_WRITE, "aten::mul_", "c10d::allreduce_")


@pytest.mark.parametrize("wait", ["wait", "synchronize", "get_future"])
def test_the_stream_that_waits_is_the_one_that_may_go_on(x, wait):
    side = torch.cuda.Stream()
    with cudalens.sanitize() as san:
        work = dist.all_reduce(x, async_op=True)
        with torch.cuda.stream(side):
            getattr(work, wait)()
            x.sum()
        x.mean()
    assert kinds(san) == [(RaceKind.READ_AFTER_WRITE, "c10d::allreduce_", "aten::mean")]


def test_a_blocking_one_runs_on_the_current_stream(x):
    with cudalens.sanitize() as san:
        dist.all_reduce(x)
        x.add_(1)
    assert san.races == []
    assert x.tolist() == [2] * N


def test_a_dropped_tensor_is_kept_until_the_wait(group):
    x = torch.ones(N, device="cuda")
    with cudalens.sanitize() as san:
        work = dist.all_reduce(x, async_op=True)
        address = x.data_ptr()
        del x
        other = torch.ones(N, device="cuda")
        assert other.data_ptr() != address
        work.wait()
        del work
        assert torch.ones(N, device="cuda").data_ptr() == address
    assert san.races == []


def test_a_bucket_that_is_refilled_while_it_is_reduced(x):
    def step(bucket, is_right):
        work = dist.all_reduce(bucket, async_op=True)
        gradient = torch.full_like(bucket, 2)
        if is_right:
            work.wait()
        bucket.copy_(gradient)
        work.wait()

    with cudalens.sanitize() as san:
        step(x, is_right=True)
        assert san.races == []
        step(x, is_right=False)
    (finding,) = san.findings()
    assert finding.race.kind is RaceKind.WRITE_AFTER_WRITE
    assert "+        work.wait()\n         bucket.copy_(gradient)" in finding.fix.diff


def test_a_profile_shows_it_on_its_own_stream_and_what_waits_behind_it(group):
    big = torch.ones(1 << 24, device="cuda")
    with cudalens.profile("p") as run:
        work = dist.all_reduce(big, async_op=True)
        work.wait()
        big.mul_(2)
    kernels = run.trace.events[run.trace.events["cat"] == "kernel"]
    reduce, product = (kernels[kernels["name"].str.contains(name)].iloc[0] for name in ("::allreduce_", "::mul_"))
    assert reduce["stream"] != product["stream"]
    assert product["ts"] >= reduce["ts"] + reduce["dur"]


def test_tensors_of_the_host_and_the_classes_afterwards_are_left_alone(tmp_path):
    def methods():
        return {(kind, name): value for kind in (ProcessGroup, Work) for name, value in vars(kind).items()}

    before = methods()
    with device("h100"):
        dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
        try:
            host, x = torch.ones(3), torch.ones(3, device="cuda")
            assert dist.all_reduce(host, async_op=True).wait()
            left = dist.all_reduce(x, async_op=True)
        finally:
            dist.destroy_process_group()
    left.wait()
    assert methods() == before


@pytest.mark.parametrize("start", COLLECTIVES.values(), ids=COLLECTIVES)
def test_a_graph_repeats_a_collective(x, start):
    y, graph = torch.zeros(N, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.mul_(2)
        work, written = start(x, y)
        work.wait()
        result = written + 1
    assert (x.sum(), y.sum()) == (N, 0)  # a capture computes nothing
    for factor in (2, 4, 8):
        graph.replay()
        assert result.sum() == N * (factor + 1)


def test_a_graph_repeats_a_functional_collective(x):
    functional = pytest.importorskip("torch.distributed._functional_collectives")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.mul_(2)
        result = functional.all_gather_tensor(x, 0, dist.group.WORLD) + 1
    for factor in (2, 4, 8):
        graph.replay()
        assert result.sum() == N * (factor + 1)


def test_a_graph_refuses_to_receive(x):
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(cudalens.VirtualDeviceError, match="outside of the graph"), torch.cuda.graph(graph):
        dist.group.WORLD.recv([x], 0, 0)
