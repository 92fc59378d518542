"""Loops on a virtual device with a change planted at a step, and the cause that has to be named first."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

import cudalens
from cudalens.frames.watched import WatchedChange
from cudalens.virtual import active

WIDTH = 256
BEFORE, AFTER = 50, 45


class Batches(IterableDataset):
    """Batches of a length each, for which the host of the virtual device works for a time."""

    def __init__(self) -> None:
        self.length, self.us = 512, 20

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(BEFORE + AFTER):
            work(self.us)
            yield torch.ones(self.length, WIDTH)


class Loop:
    """A small inference loop; the attributes are what a change can be planted in."""

    def __init__(self) -> None:
        self.batches = Batches()
        self.model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(3))).cuda()
        self.num_syncs = self.num_kernels = self.num_copies = self.host_us = 0
        self.leaked: list[torch.Tensor] = []
        self.leaks = False

    def step(self, x: torch.Tensor) -> None:
        """One step."""
        y = self.model(x.cuda(non_blocking=True))
        for _ in range(self.num_kernels):
            y = y.exp()
        for _ in range(self.num_syncs):
            y[0, 0].item()
        for _ in range(self.num_copies):
            y = y.cpu().cuda()
        work(self.host_us)


def work(us: int) -> None:
    """Let the host of the virtual device work for `us`."""
    device = active()
    assert device is not None
    assert device.gpus is not None
    device.gpus.machine.now_ns += 1000 * us


#: What is planted: an attribute and its value from the change on, and kinds of the first cause that are right.
PLANTED = {
    "slower loading": ("batches.us", 220, {"data loading"}),
    "much slower loading": ("batches.us", 1020, {"data loading"}),
    "slightly slower loading": ("batches.us", 100, {"data loading"}),
    "one sync": ("num_syncs", 6, {"sync"}),
    "many syncs": ("num_syncs", 20, {"sync"}),
    "some syncs": ("num_syncs", 10, {"sync"}),
    "longer batches": ("batches.length", 4096, {"larger batch"}),
    "much longer batches": ("batches.length", 16384, {"larger batch"}),
    "twice as long batches": ("batches.length", 8192, {"larger batch"}),
    "more kernels": ("num_kernels", 40, {"GPU work", "idle"}),
    "many more kernels": ("num_kernels", 80, {"GPU work", "idle"}),
    "copies": ("num_copies", 3, {"sync", "host", "idle"}),
    "slower host": ("host_us", 300, {"idle"}),
    "much slower host": ("host_us", 2000, {"idle"}),
}


def run(what: str) -> WatchedChange | None:
    """The change that a watch of the loop with the planted change `what` reports; None if it reports none."""
    path, value, _ = PLANTED[what]
    with cudalens.virtual.device("h100", values=False, default=1.0), torch.no_grad():
        loop = Loop()
        with cudalens.watch(budget=0.5) as w:
            for number, x in enumerate(DataLoader(loop.batches, batch_size=None)):
                if number == BEFORE:
                    owner, _, name = path.rpartition(".")
                    setattr(loop.batches if owner else loop, name, value)
                loop.step(x)
                while w.is_building:  # a real loop takes longer than this one, and would wait for nothing
                    time.sleep(0.001)
        changes = [change for change in w.run.changes if change.step >= BEFORE - 15]
    return changes[0] if changes else None
