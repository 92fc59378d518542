"""Threads that start while a virtual device is active use it, as threads use a GPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import cudalens.virtual
from cudalens.errors import VirtualDeviceError


@pytest.fixture(autouse=True)
def device() -> Iterator[cudalens.virtual.device]:
    with cudalens.virtual.device("h100x2") as entered:
        yield entered


def _run(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


def test_a_thread_begins_on_the_first_device_and_its_default_stream() -> None:
    torch.cuda.set_device(1)
    torch.cuda.set_stream(torch.cuda.Stream())
    found: list[object] = []

    def look() -> None:
        found.append((torch.cuda.current_device(), torch.cuda.current_stream(), torch.ones(2, device="cuda").device))
        torch.cuda.set_stream(torch.cuda.Stream())

    mine = torch.cuda.current_stream()
    _run(threading.Thread(target=look))
    assert found == [(0, torch.cuda.default_stream(0), torch.device("cuda", 0))]
    assert (torch.cuda.current_device(), torch.cuda.current_stream()) == (1, mine)


def test_threads_may_override_run() -> None:
    class Worker(threading.Thread):
        place: torch.device | None = None

        def run(self) -> None:
            self.place = torch.tensor([1.0]).cuda().device

    worker = Worker()
    _run(worker)
    assert worker.place == torch.device("cuda", 0)
    assert "run" not in vars(worker)


def test_autocast_works_in_threads() -> None:
    dtypes: list[torch.dtype] = []

    def multiply() -> None:
        with torch.autocast("cuda"):
            dtypes.append(torch.mm(torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda")).dtype)

    _run(threading.Thread(target=multiply))
    assert dtypes == [torch.float16]


def test_a_pool_of_threads_computes() -> None:
    with ThreadPoolExecutor(3) as pool:
        sums = list(pool.map(lambda n: torch.full((4,), n, device="cuda").sum().item(), range(20)))
    assert sums == [4 * n for n in range(20)]


def test_a_thread_that_cannot_start_is_left_as_it_was() -> None:
    thread = threading.Thread(target=lambda: None)
    _run(thread)
    with pytest.raises(RuntimeError, match="threads can only be started once"):
        thread.start()
    assert "run" not in vars(thread)


def test_an_error_in_a_thread_leaves_its_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    depths: list[int] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: depths.append(torch._C._len_torch_dispatch_stack()))

    def fail() -> None:
        depths.append(torch._C._len_torch_dispatch_stack())
        raise ZeroDivisionError

    _run(threading.Thread(target=fail))
    assert depths == [1, 0]


def test_gradients_computed_in_threads_are_the_same() -> None:
    weight = torch.ones(3, device="cuda", requires_grad=True)

    def differentiate(factor: float) -> list[float]:
        (grad,) = torch.autograd.grad((weight * factor).sum(), weight)
        return grad.tolist()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(differentiate, [1.0, 2.0, 3.0])) == [[f] * 3 for f in (1.0, 2.0, 3.0)]


@pytest.fixture
def started_before(device: cudalens.virtual.device) -> Iterator[ThreadPoolExecutor]:
    """A pool whose thread started before the device was enabled."""
    device.disable()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(torch.ones, 1).result()
        device.enable()
        yield pool


def test_a_pool_that_started_before_uses_the_device(started_before: ThreadPoolExecutor) -> None:
    weight = torch.ones(3, device="cuda", requires_grad=True)

    def compute() -> torch.Tensor:
        (weight.type_as(weight) * torch.tensor([2.0], device="cuda")).sum().backward()
        return torch.zeros(2).cuda() + torch.ones(2, device="cuda:1").to("cuda:0")

    assert started_before.submit(compute).result().device == torch.device("cuda", 0)
    assert weight.grad is not None
    assert (weight.grad.device.type, weight.grad.tolist()) == ("cuda", [2.0] * 3)
    assert started_before.submit(torch._C._len_torch_dispatch_stack).result() == 1


def test_the_threads_of_a_pool_keep_no_modes_between_calls(
    device: cudalens.virtual.device, started_before: ThreadPoolExecutor
) -> None:
    started_before.submit(torch.ones, 1, device="cuda").result()
    device.disable()
    assert started_before.submit(torch._C._len_torch_dispatch_stack).result() == 0
    device.enable()


def test_a_thread_that_started_before_is_refused_the_device(device: cudalens.virtual.device) -> None:
    device.disable()
    begin, errors = threading.Event(), []

    def work() -> None:
        begin.wait()
        for call in (lambda: torch.ones(2, device="cuda"), lambda: torch.ones(2).cuda()):
            try:
                call()
            except VirtualDeviceError as error:
                errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    device.enable()
    begin.set()
    thread.join()
    assert len(errors) == 2
    assert all("started before the virtual CUDA device was enabled" in error for error in errors)
