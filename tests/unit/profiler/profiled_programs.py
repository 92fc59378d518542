"""Small programs to profile, and torch's own averages of a run to compare with."""

from __future__ import annotations

import threading
from collections import defaultdict
from inspect import signature

import torch
from torch import nn
from torch.autograd.profiler import profile
from torch.profiler import record_function
from torch.utils.data import DataLoader, TensorDataset

from cudalens.profiler import ProfilerCollector


def mlp_training() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(3):
        with record_function(f"ProfilerStep#{step}"):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()


def transformer_step() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    with record_function("forward"):
        out = layer(torch.randn(2, 5, 16))
    with record_function("backward"):
        out.sum().backward()


def nested_same_name() -> None:
    with record_function("range"), record_function("range"), record_function("range"):
        torch.ones(4).sum()
        torch.ones(4).sum()
    with record_function("range"):
        with record_function("range"):
            torch.ones(2)
        with record_function("range"), record_function("range"):
            pass
    torch.eye(3).clone().contiguous().to(torch.float64)


class _Threads(torch.autograd.Function):
    """Its backward runs autograd again on other threads of ours."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def threaded_autograd() -> None:
    def work() -> None:
        x = torch.randn(8, requires_grad=True)
        with torch.autograd.profiler.record_function("work"):
            _Threads.apply(x.exp()).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()


def asynchronous() -> None:
    """TorchScript forks run on the inter-op threads, which inherit the profiler."""
    futures = [torch.jit.fork(torch.mm, torch.ones(4, 4), torch.ones(4, 4)) for _ in range(3)]
    for future in futures:
        torch.jit.wait(future)
    _forking(torch.ones(4, 4))


@torch.jit.script
def _forking(x: torch.Tensor) -> torch.Tensor:
    first = torch.jit.fork(torch.mm, x, x)
    second = torch.jit.fork(torch.mm, x, x)
    return torch.jit.wait(first) + torch.jit.wait(second)


def data_loader() -> None:
    loader = DataLoader(TensorDataset(torch.randn(12, 3)), batch_size=4)
    for (batch,) in loader:
        batch.mean()


PROGRAMS = [mlp_training, transformer_step, nested_same_name, threaded_autograd, asynchronous, data_loader]


def recorded(program, options):
    """Frames of a run of `program`, and torch's profile object of that same run."""
    collector = ProfilerCollector(options)
    collector.start()
    peer = collector.session.torch_profile
    try:
        program()
    finally:
        collector.stop()
    return collector.frames(), peer


#: torch 2.15 leaves out Python functions where this is not given.
WITH_PYTHON = (
    {"include_python_functions": True}
    if "include_python_functions" in signature(profile.key_averages).parameters
    else {}
)


def averages_of_torch(peer) -> dict[str, tuple[int, int, int]]:
    """Count, CPU total and CPU self total, ns, by name; torch keeps float microseconds."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in peer.key_averages(**WITH_PYTHON):
        if row.key in ("[memory]", "[OutOfMemory]"):
            continue  # torch lists what no operator allocated; our memory frame has it
        here = sums[row.key]
        here[0] += row.count
        here[1] += round(row.cpu_time_total * 1000)
        here[2] += round(row.self_cpu_time_total * 1000)
    return {name: tuple(values) for name, values in sums.items()}


def averages_of_ours(averages) -> dict[str, tuple[int, int, int]]:
    rows = averages[["name", "count", "total_ns", "self_ns"]].astype({"name": str})
    grouped = rows.groupby("name")[["count", "total_ns", "self_ns"]].sum()
    return {
        name: tuple(int(value) for value in values)
        for name, values in zip(grouped.index, grouped.to_numpy(), strict=True)
    }
