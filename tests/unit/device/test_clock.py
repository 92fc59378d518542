import time

import torch

from cudalens import sanitize, virtual
from cudalens.device import clock


def test_the_clock_is_the_epochs_but_for_a_virtual_device():
    before = time.time_ns()
    assert before <= clock.now_ns() <= time.time_ns()
    with virtual.device("h100") as device:
        torch.ones(8, device="cuda")
        assert clock.now_ns() == device.gpus.machine.now_ns < 10**12
    assert clock.now_ns() >= before


def test_a_race_is_seen_between_the_events_around_it():
    with virtual.device("h100") as device, sanitize() as san:
        side, x = torch.cuda.Stream(), torch.ones(8, device="cuda")
        torch.cuda.synchronize()
        x.fill_(1)
        begin = device.gpus.machine.now_ns
        with torch.cuda.stream(side):
            x.fill_(2)
        end = device.gpus.machine.now_ns
        torch.cuda.synchronize()
        (race,) = san.races
        assert begin < race.seen_ns <= end
