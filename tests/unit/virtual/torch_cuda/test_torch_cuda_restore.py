"""A virtual device restores torch."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest
import torch
import torch.backends.cudnn
import torch.backends.cudnn.rnn

from cudalens.virtual import device
from cudalens.virtual.patching import is_dummy
from cudalens.virtual.torch_cuda import handles

OWNERS = {
    "torch": torch,
    "torch._C": torch._C,
    "torch.version": torch.version,
    "torch.backends.cuda": torch.backends.cuda,
    "torch.backends.cudnn": torch.backends.cudnn.m,
    "torch.cuda.Stream": torch.cuda.Stream,
    "torch.cuda.Event": torch.cuda.Event,
    "_CudaStreamBase": torch._C._CudaStreamBase,
    "_CudaEventBase": torch._C._CudaEventBase,
    "_lazy_seed_tracker": torch.cuda._lazy_seed_tracker,
}


def state():
    """Every attribute of torch that a device might touch, by identity."""
    owners = OWNERS | {
        name: module
        for name, module in sys.modules.items()
        if name.split(".")[:2] in (["torch", "cuda"], ["torch", "accelerator"]) and module is not None
    }
    held = {(name, key): value for name, owner in owners.items() for key, value in vars(owner).items()}
    return held | {("queued calls", i): call[0] for i, call in enumerate(torch.cuda._queued_calls)}


def changes(before, after):
    """The differences by name."""
    missing = object()
    return sorted(
        f"{owner}.{name}"
        for owner, name in before.keys() | after.keys()
        if before.get((owner, name), missing) is not after.get((owner, name), missing)
    )


def use():
    """Use every part of torch.cuda that has state."""
    torch.cuda.manual_seed(3)
    torch.manual_seed(4)
    torch.cuda.set_device(1)
    torch.cuda.set_stream(torch.cuda.Stream())
    torch.cuda.Event().record()
    torch.cuda.memory._record_memory_history()
    torch.cuda.is_bf16_supported()
    torch.accelerator.current_stream()
    torch.Stream()
    torch.Event()
    torch.cuda._lazy_call(lambda: None)
    torch.cuda._set_stream_by_id(0, 0, 1)
    torch.ones(3, device="cuda").sum().item()
    torch.cuda.synchronize()
    torch.cuda.utilization()


def fail():
    """Use torch.cuda, then fail."""
    use()
    raise ZeroDivisionError


WAYS = ["in place", "new classes"] if is_dummy(torch._C._CudaStreamBase) else ["new classes"]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    install = handles.install
    monkeypatch.setattr(handles, "install", lambda p, g: install(p, g, in_place=request.param == "in place"))


def test_every_attribute_is_restored(way):
    torch.manual_seed(1)
    before = state()
    with device("h100x2"):
        assert changes(before, state())
        use()
    assert changes(before, state()) == []


def test_also_after_an_error(way):
    before = state()
    with pytest.raises(ZeroDivisionError), device("h100x2"):
        fail()
    assert changes(before, state()) == []


def test_also_after_an_interrupt_within_a_stream(way):
    before = state()
    with pytest.raises(KeyboardInterrupt), device("h100x2"), torch.cuda.stream(torch.cuda.Stream()):
        raise KeyboardInterrupt
    assert changes(before, state()) == []


def test_each_device_starts_with_a_new_state():
    for _ in range(2):
        with device("h100x2") as virtual:
            assert torch.cuda.current_device() == 0
            assert torch.cuda.current_stream() == torch.cuda.default_stream()
            assert torch.cuda.memory_reserved() == 0
            assert virtual.gpus.machine.now_ns == 0
            use()


def test_nothing_keeps_an_ended_device(way):
    with device("h100x2") as virtual:
        use()
        gpus, machine = weakref.ref(virtual.gpus), weakref.ref(virtual.gpus.machine)
    del virtual
    gc.collect()
    assert gpus() is None
    assert machine() is None


def test_streams_and_events_leave_nothing_behind(way):
    with device("h100"):
        stream = torch.cuda.Stream()

        def step():
            with torch.cuda.stream(stream):
                torch.cuda.Event().record()
            torch.cuda.current_stream().wait_stream(stream)
            torch.cuda.synchronize()

        for _ in range(200):
            step()
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(2000):
            step()
        gc.collect()
        assert len(gc.get_objects()) - before < 100


def test_without_a_device_cuda_states_what_it_reported_before():
    with device("h100"):
        pass
    with pytest.raises((RuntimeError, AssertionError)):
        torch.cuda.current_device()
    with pytest.raises(RuntimeError):
        torch.cuda.Stream()
