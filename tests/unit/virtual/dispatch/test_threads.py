"""Threads that start while a virtual device is active use it, as threads use a GPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import cudalens.virtual


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
