"""Loops on a virtual device with a change planted at a step, and the cause that has to be named first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

import cudalens
from cudalens.virtual import active
from cudalens.watching.run import WatchedChange

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
        self.num_syncs = self.num_kernels = self.num_copies = self.num_products = self.host_us = 0
        self.wide = torch.ones(2048, 2048, device="cuda")
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        self.scratch_gib, self.leaked_gib, self.clock_share = 0, 0, 1.0
        self.leaked: list[torch.Tensor] = []

    def step(self, x: torch.Tensor) -> None:
        """One step."""
        set_clock(self.clock_share)
        y = self.model(x.cuda(non_blocking=True))
        for _ in range(self.num_kernels):
            y = y.exp()
        for _ in range(self.num_products):
            self.wide @ self.wide
        for _ in range(self.num_syncs):
            y[0, 0].item()
        for _ in range(self.num_copies):
            y = y.cpu().cuda()
        self.allocate()
        work(self.host_us)

    def allocate(self) -> None:
        """Use scratch memory on two streams, which have caches of their own; and keep some memory for ever."""
        if self.leaked_gib > len(self.leaked):
            self.leaked += [gibibytes(1) for _ in range(self.leaked_gib)]
        for stream in self.streams if self.scratch_gib else ():
            with torch.cuda.stream(stream):
                gibibytes(self.scratch_gib)


def gibibytes(num: int) -> torch.Tensor:
    """A tensor of that size."""
    return torch.empty(num << 30, dtype=torch.int8, device="cuda")


def set_clock(share: float) -> None:
    """Let the GPU run at a share of its clock."""
    device = active()
    assert device is not None
    assert device.gpus is not None
    full = device.spec
    clock = round(full.clock_mhz * share)
    if device.gpus.spec.clock_mhz != clock:
        peaks = {name: value * share for name, value in full.peak_tflops.items()}
        device.gpus.spec = replace(full, clock_mhz=clock, peak_tflops=peaks)


def work(us: int) -> None:
    """Let the host of the virtual device work for `us`."""
    device = active()
    assert device is not None
    assert device.gpus is not None
    device.gpus.machine.now_ns += 1000 * us


class Planted(NamedTuple):
    """An attribute and its value from the change on, kinds of the first cause that are right, and values before."""

    path: str
    value: float
    kinds: set[str]
    before: Mapping[str, int] = MappingProxyType({})


PLANTED = {
    "slower loading": Planted("batches.us", 220, {"data loading"}),
    "much slower loading": Planted("batches.us", 1020, {"data loading"}),
    "slightly slower loading": Planted("batches.us", 100, {"data loading"}),
    "faster loading": Planted("batches.us", 20, {"data loading"}, {"batches.us": 220}),
    "one sync": Planted("num_syncs", 1, {"sync"}),
    "a few syncs": Planted("num_syncs", 6, {"sync"}),
    "some syncs": Planted("num_syncs", 10, {"sync"}),
    "many syncs": Planted("num_syncs", 20, {"sync"}),
    "longer batches": Planted("batches.length", 4096, {"larger batch"}),
    "twice as long batches": Planted("batches.length", 8192, {"larger batch"}, {"batches.length": 4096}),
    "much longer batches": Planted("batches.length", 16384, {"larger batch"}),
    "shorter batches": Planted("batches.length", 4096, {"smaller batch"}, {"batches.length": 8192}),
    "more kernels": Planted("num_kernels", 40, {"GPU work", "idle"}),
    "many more kernels": Planted("num_kernels", 80, {"GPU work", "idle"}),
    "longer kernels": Planted("num_products", 12, {"GPU work"}, {"num_products": 6}),
    "copies": Planted("num_copies", 3, {"sync"}),
    "slower host": Planted("host_us", 300, {"idle"}),
    "much slower host": Planted("host_us", 2000, {"idle"}),
    "a leak": Planted("leaked_gib", 74, {"allocator retries"}, {"scratch_gib": 3}),
    "a lower clock": Planted("clock_share", 0.5, {"clock"}, {"num_products": 6}),
    "a slightly lower clock": Planted("clock_share", 0.8, {"clock"}, {"num_products": 6}),
}


def assign(loop: Loop, path: str, value: float) -> None:
    """Set the attribute of a loop or of its batches."""
    owner, _, name = path.rpartition(".")
    setattr(loop.batches if owner else loop, name, value)


def run(what: str) -> WatchedChange | None:
    """The change that a watch of the loop with the planted change `what` reports; None if it reports none."""
    planted = PLANTED[what]
    with cudalens.virtual.device("h100", values=False, default=1.0), torch.no_grad():
        loop = Loop()
        for path, value in planted.before.items():
            assign(loop, path, value)
        with cudalens.watch(budget=0.5) as w:
            for number, x in enumerate(DataLoader(loop.batches, batch_size=None)):
                if number == BEFORE:
                    assign(loop, planted.path, planted.value)
                loop.step(x)
                while w.is_building:  # a real loop takes longer than this one, and would wait for nothing
                    time.sleep(0.001)
        changes = [change for change in w.run.changes if change.step >= BEFORE - 15]
    return changes[0] if changes else None
