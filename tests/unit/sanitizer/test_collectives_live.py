"""Collectives as NCCL runs them, and as a virtual device does: where they race, and what is said to do about it."""

import linecache

import pytest
import torch

import cudalens
from cudalens.sanitizer import RaceKind
from cudalens.sanitizer.fixes.candidates import FixKind

dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

N = 64


@pytest.fixture
def group(gpu, tmp_path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        yield dist.group.WORLD
    finally:
        dist.destroy_process_group()


class Done(dist.Work):
    """NCCL's: the stream that waits is the current one."""

    def __init__(self, end):
        super().__init__()
        self.end = end

    def wait(self, timeout=None):
        torch.cuda.current_stream().wait_event(self.end)
        return True


@pytest.fixture
def as_nccl(group):
    """An all-reduce that puts itself on a stream between two events, from within the operator, as ProcessGroupNCCL."""
    stream, works = torch.cuda.Stream(), []

    def allreduce(tensors, group, op, sparse=None, async_op=True, timeout=-1):
        begin, end = torch.cuda.Event(), torch.cuda.Event()
        begin.record()
        stream.wait_event(begin)
        end.record(stream)
        works.append(Done(end))
        return list(tensors), works[-1].boxed()

    library = torch.library.Library("c10d", "IMPL")
    library.impl("allreduce_", allreduce, "CPU", allow_override=True)
    try:
        yield group
    finally:
        library._destroy()


def test_a_collective_is_on_the_stream_that_it_made_wait(as_nccl):
    x, y = torch.ones(N, device="cuda"), torch.ones(N, device="cuda")
    with cudalens.sanitize() as san:
        x.add_(1)
        work = as_nccl.allreduce([x])
        y.add_(1)
        assert san.races == []
        x.sum()
        work.wait()
        x.add_(1)
    (found,) = san.races
    assert (found.kind, found.first.op, found.first.argument) == (
        RaceKind.READ_AFTER_WRITE,
        "c10d::allreduce_",
        "tensors",
    )
    assert found.first.stream != found.second.stream


def program(source, **values):
    """Runs a source as a file of its own, so that its lines are found; what races in it."""
    name = "<collectives program>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space = {"torch": torch, "dist": dist, "N": N, **values}
    try:
        with cudalens.sanitize() as san:
            exec(compile(source, name, "exec"), space)
            return san.findings()
    finally:
        del linecache.cache[name]


SETUP = "x = torch.ones(N, device='cuda')\nside = torch.cuda.Stream()\ntorch.cuda.synchronize()\n"


def test_the_work_has_to_be_waited_for(group):
    (finding,) = program(SETUP + "work = dist.all_reduce(x, async_op=True)\nx.add_(1)\nwork.wait()\n")
    assert finding.fix.kind is FixKind.WAIT_WORK
    assert "+work.wait()\n x.add_(1)\n work.wait()" in finding.fix.diff


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("gather", ["all_gather_into_tensor", "_all_gather_base"])
def test_a_gather_that_torch_wraps_is_at_the_line_of_the_program(group, gather):
    (finding,) = program(
        f"{SETUP}out = torch.empty(N, device='cuda')\nwork = dist.{gather}(out, x, async_op=True)\nout.add_(1)\n"
    )
    place = finding.race.first.place
    assert (place.filename, place.line) == ("<collectives program>", 5)


@pytest.mark.parametrize(
    "start",
    [
        "works = [dist.all_reduce(x, async_op=True)]",
        "dist.all_reduce(x, async_op=True)",
        "work = dist.all_reduce(x, async_op=True); work = dist.barrier() or work",
        "work = dist.all_reduce(x, **{'async_op': True})",
        "with torch.cuda.stream(side):\n    works = [dist.all_reduce(x, async_op=True)]",
    ],
)
def test_a_work_without_a_name_of_its_own_is_spoken_of(group, start):
    (finding,) = program(f"{SETUP}{start}\nx.add_(1)\n")
    assert finding.fix.kind is FixKind.WAIT_WORK
    if "**" not in start:
        assert finding.fix.diff == ""
    assert "wait()" in finding.fix.words
    assert "wait_stream" not in finding.fix.words


def test_one_that_starts_too_early_needs_its_current_stream_to_wait(group):
    (finding, *_) = program(
        f"{SETUP}with torch.cuda.stream(side):\n    x.mul_(2)\nwork = dist.all_reduce(x, async_op=True)\nwork.wait()\n"
    )
    assert finding.race.second.op == "c10d::allreduce_"
    assert "+torch.cuda.current_stream().wait_stream(side)\n work = dist" in finding.fix.diff


def test_a_blocking_one_is_work_of_its_stream(group):
    (finding,) = program(f"{SETUP}with torch.cuda.stream(side):\n    dist.all_reduce(x)\nx.add_(1)\n")
    assert finding.fix.kind is FixKind.WAIT_STREAM
    assert "+torch.cuda.current_stream().wait_stream(side)\n x.add_(1)" in finding.fix.diff
