"""What cells leave alive, as the tracker reports it."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import cudalens.virtual as virtual
from cudalens import memory_snapshot
from cudalens.memory.leaks import CellTracker, watched_cells
from cudalens.memory.objects import can_look

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture
def space():
    return {}


@pytest.fixture
def run(space):
    """Runs a cell of a notebook that has `space` for its variables, and hands over what it left."""
    tracker = CellTracker(namespace=space)
    tracker.on()
    number = iter(range(1, 100))

    def run(source):
        cell = f"In[{next(number)}]"
        tracker.begin(lambda: cell)
        error = None
        try:
            exec(compile(source, "<cell>", "exec"), space)
        except Exception as raised:
            error = raised
        return tracker.end(cell, error)

    run.tracker = tracker
    space["torch"] = torch
    yield run
    tracker.off()
    assert watched_cells() == {}


def held(left):
    return sorted(zip(left.sizes, (names[0] for names in left.names), strict=True))


def test_a_cell_leaves_what_its_variables_hold(run):
    left = run("x = torch.zeros(1 << 20, device='cuda'); torch.ones(1 << 20, device='cuda')")
    assert (left.cell, left.delta_bytes, left.freed_bytes) == ("In[1]", 4 * MIB, 0)
    assert held(left) == [(4 * MIB, "x")]


def test_a_cell_without_memory_leaves_nothing(run):
    assert run("y = 1") is None
    assert run("torch.zeros(1 << 20, device='cuda') + 1; None") is None


def test_a_list_that_grows_is_found_cell_by_cell(run):
    run("history = []")
    for count in (1, 2):
        left = run("for _ in range(3): history.append(torch.zeros(1 << 20, device='cuda'))")
        assert left.delta_bytes == 12 * MIB
        assert held(left) == [(4 * MIB, f"history[{3 * (count - 1) + i}]") for i in range(3)]


def test_what_a_cell_frees_of_others_is_reported(run):
    run("x = torch.zeros(1 << 20, device='cuda')")
    left = run("del x")
    assert (left.sizes, left.freed_bytes, left.delta_bytes) == ((), 4 * MIB, -4 * MIB)


def test_the_same_place_is_not_the_same_tensor(run):
    run("x = torch.zeros(1 << 20, device='cuda')")
    address = run.tracker.cells()
    left = run("del x\nx = torch.ones(1 << 20, device='cuda')")
    assert run.tracker.cells().keys() == address.keys()
    assert set(run.tracker.cells().values()) == {"In[2]"}
    assert held(left) == [(4 * MIB, "x")]
    assert left.freed_bytes == 4 * MIB


def test_a_view_keeps_its_whole_storage(run):
    left = run("x = torch.zeros(1 << 20, device='cuda')[:3]")
    assert held(left) == [(4 * MIB, "x")]


@pytest.mark.skipif(not can_look(), reason="this torch does not hand out what autograd saved")
def test_what_autograd_keeps_is_held_by_the_loss(run):
    run("w = torch.ones(1 << 18, device='cuda', requires_grad=True); losses = []")
    left = run("losses.append((w * 2).exp().sum())")
    assert {names[0] for names in left.names} >= {"losses[0]", "losses[0].grad_fn"}
    assert sum(left.sizes) == left.delta_bytes


def test_a_cell_that_raised_leaves_variables_of_its_functions(run):
    left = run("def f():\n    kept = torch.zeros(1 << 20, device='cuda')\n    raise KeyError\nf()")
    assert held(left) == [(4 * MIB, "<exception>.f.kept")]


def test_cells_within_cells_have_what_happens_in_them(run):
    tracker, space = run.tracker, {}
    tracker.begin(lambda: "In[8]")
    space["outer"] = torch.zeros(1 << 20, device="cuda")
    tracker.begin(lambda: "In[9]")
    space["inner"] = torch.zeros(2 << 20, device="cuda")
    assert tracker.end("In[9]").sizes == (8 * MIB,)
    assert tracker.end("In[8]").sizes == (4 * MIB,)
    assert sorted(watched_cells().values()) == ["In[8]", "In[9]"]


def test_memory_from_before_belongs_to_no_cell(space):
    space["old"] = torch.zeros(1 << 20, device="cuda")
    tracker = CellTracker(namespace=space)
    tracker.on()
    tracker.begin(lambda: "In[1]")
    assert tracker.end("In[1]") is None
    assert watched_cells() == {}
    tracker.off()


def test_the_tracker_keeps_nothing_alive(run, space):
    run("x = torch.zeros(1 << 20, device='cuda')")
    alive = weakref.ref(space["x"])
    del space["x"]
    assert alive() is None
    assert torch.cuda.memory_allocated() == 0
    assert watched_cells() == {}


def test_graphs_of_autograd_go_when_the_program_lets_go_of_them(run, space):
    run("w = torch.ones(1 << 20, device='cuda', requires_grad=True)")
    before = torch.cuda.memory_allocated()
    gc.disable()
    try:
        run("losses = [(w * 2).exp().sum() for _ in range(3)]")
        memory_snapshot(keep=False, namespace=space)
        assert torch.cuda.memory_allocated() > before
        space["losses"].clear()
        assert torch.cuda.memory_allocated() == before
    finally:
        gc.enable()


def test_what_it_stores_is_bounded_by_what_is_alive(run):
    for _ in range(5):
        run("x = [torch.zeros(128, device='cuda') for _ in range(20)]")
    assert len(run.tracker._blocks) == 20


def test_switched_on_twice_it_counts_once(run):
    run.tracker.on()
    run("x = torch.zeros(1 << 20, device='cuda')")
    assert len(watched_cells()) == 1


def test_what_ends_with_its_device_was_not_freed_by_the_cell(run, space, device):
    run("kept = torch.zeros(1 << 20, device='cuda')")
    space["device"] = device
    left = run("device.disable()")
    assert (left.sizes, left.freed_bytes) == ((), 0)
    assert watched_cells() == {}
    with virtual.device("a100"):
        left = run("other = torch.zeros(1 << 18, device='cuda')")
        assert held(left) == [(MIB, "other")]
        assert left.freed_bytes == 0


def test_a_device_in_place_of_another_begins_anew(run, space, device):
    run("kept = torch.zeros(1 << 20, device='cuda')")
    other = virtual.device("a100")
    space.update(device=device, other=other)
    try:
        left = run("device.disable(); other.__enter__(); new = torch.zeros(1 << 18, device='cuda')")
        assert held(left) == [(MIB, "new")]
        assert left.freed_bytes == 0
    finally:
        other.disable()
