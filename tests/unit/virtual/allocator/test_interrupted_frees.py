"""An interrupt while memory is allocated or freed does not keep the allocators' lock."""

import threading

import pytest
import torch
from interrupts import executed_places, interrupt_at

from cudalens import virtual


def allocate_and_free() -> None:
    for _ in range(2):
        torch.ones(3, device="cuda")


def allocates_on_another_thread() -> bool:
    """Whether another thread gets the lock."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: (torch.ones(3, device="cuda"), done.set()), daemon=True)
    thread.start()
    return done.wait(60)


@pytest.mark.parametrize("function", ["Gpus._free_released", "Gpus.reserve", "Gpus.release", "Gpus._alone"])
def test_after_an_interrupt_at_any_line_other_threads_allocate(function):
    with virtual.device("h100"):
        places = [place for place in executed_places(allocate_and_free) if place.function == function]
        num_reached = 0
        for place in places:
            num_reached += interrupt_at(place, allocate_and_free).is_reached
            assert allocates_on_another_thread(), place
            allocate_and_free()
        assert num_reached >= 2  # not a line of the first use of the device
        assert torch.cuda.memory_allocated() <= 512 * 2 * len(places)  # a free that an interrupt ends is lost
