"""The programs: small, decisive, and the same to the last operator on both devices.

They keep to operators whose memory is PyTorch's own business: no cuDNN (whose workspaces depend on the algorithm that
it picks), no fused attention (whose CPU and CUDA forms keep different tensors). Where the course of a program depends
on who is faster, host or device, a long sleep on the device decides it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from fidelity.probe import Probe

MIB: Final = 1 << 20
LONG_CYCLES: Final = 50_000_000
"""Tens of milliseconds on any GPU: longer than the host work of a program in that time."""


@dataclass(frozen=True)
class Program:
    """A program to be observed.

    Attributes:
        name: Of its recordings, too.
        run: The program.
        alloc_conf: PYTORCH_ALLOC_CONF of its process.
    """

    name: str
    run: Callable[[Probe], None]
    alloc_conf: str = ""


PROGRAMS: Final[dict[str, Program]] = {}


def _program(
    alloc_conf: str = "", name: str | None = None
) -> Callable[[Callable[[Probe], None]], Callable[[Probe], None]]:
    def register(run: Callable[[Probe], None]) -> Callable[[Probe], None]:
        program = Program(name or run.__name__, run, alloc_conf)
        PROGRAMS[program.name] = program
        return run

    return register


def _train(
    probe: Probe, model: nn.Module, batches: list[tuple[Tensor, Tensor]], loss_of: Callable[..., Tensor]
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False, fused=False)
    for number, (x, y) in enumerate(batches):
        probe.mark(f"step {number} begins")
        optimizer.zero_grad()
        loss = loss_of(model(x.to("cuda")), y.to("cuda"))
        loss.backward()
        optimizer.step()
        probe.mark(f"step {number} ends")
        probe.memory(f"after step {number}")
        probe.fact(f"loss {number} is finite", bool(torch.isfinite(loss)))


@_program()
def mlp_training(probe: Probe) -> None:
    """Linear layers, AdamW, batches from pageable memory, a loss that the host reads."""
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10)).cuda()
    batches = [(torch.randn(128, 256), torch.randn(128, 10)) for _ in range(3)]
    _train(probe, model, batches, functional.mse_loss)


class _Block(nn.Module):
    """A transformer's block, with attention written out."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.num_heads, -1).transpose(1, 2)
            for part in self.qkv(self.before_attention(x)).chunk(3, dim=-1)
        )
        weights = torch.softmax(q @ k.transpose(-2, -1) / (width // self.num_heads) ** 0.5, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + functional.dropout(self.mlp(self.before_mlp(x)), 0.1)


@_program()
def transformer_training(probe: Probe) -> None:
    """Embedding, two blocks, cross entropy."""
    width, vocabulary = 64, 100
    model = nn.Sequential(
        nn.Embedding(vocabulary, width),
        _Block(width, 4),
        _Block(width, 4),
        nn.LayerNorm(width),
        nn.Linear(width, vocabulary),
    ).cuda()
    tokens = [torch.randint(vocabulary, (4, 33)) for _ in range(3)]
    batches = [(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in tokens]
    _train(probe, model, batches, lambda logits, y: functional.cross_entropy(logits.flatten(0, 1), y.flatten()))


@_program()
def two_stream_prefetch(probe: Probe) -> None:
    """The next batch is copied from pinned memory on a stream of its own while this one is computed."""
    copies, compute = torch.cuda.Stream(), torch.cuda.current_stream()
    weight = torch.full((1024, 1024), 1 / 1024, device="cuda")
    host = [torch.full((1024, 1024), float(i + 1)).pin_memory() for i in range(6)]

    def fetch(number: int) -> tuple[Tensor, torch.cuda.Event]:
        with torch.cuda.stream(copies):
            batch = host[number].to("cuda", non_blocking=True)
            probe.mark(f"copy {number} ends")
            return batch, copies.record_event()

    total = (weight @ weight)[0, 0] * 0  # cuBLAS comes into being here, not in the loop
    torch.cuda.synchronize()
    torch.cuda._sleep(LONG_CYCLES)  # no batch is done, and no block comes back, while the host issues the rest
    following = fetch(0)
    for number in range(len(host)):
        batch, here = following
        if number + 1 < len(host):
            following = fetch(number + 1)
        compute.wait_event(here)
        batch.record_stream(compute)
        for _ in range(4):
            batch = batch @ weight
        total += batch[0, 0]
        probe.mark(f"batch {number} ends")
    probe.memory("all issued")
    probe.fact("total", round(total.item(), 3))
    probe.fact("copy stream is done", copies.query())


@_program()
def record_stream(probe: Probe) -> None:
    """A block that was recorded on a busy stream is not reused; one that was not recorded is."""
    side = torch.cuda.Stream()
    for name, speaks in (("spoken for", True), ("not spoken for", False)):
        x = torch.ones(4 * MIB // 4, device="cuda")
        address = x.data_ptr()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(LONG_CYCLES)
            if speaks:
                x.record_stream(side)
        del x
        probe.memory(f"{name}: freed while in use")
        y = torch.zeros(4 * MIB // 4, device="cuda")
        probe.fact(f"{name}: came back at once", y.data_ptr() == address)
        torch.cuda.synchronize()
        z = torch.zeros(4 * MIB // 4, device="cuda")
        probe.fact(f"{name}: came back after synchronising", address in (y.data_ptr(), z.data_ptr()))
        del y, z
        probe.memory(f"{name}: at the end")


@_program()
def cuda_events(probe: Probe) -> None:
    """Recording, waiting, querying, over streams and priorities."""
    first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    never, late = torch.cuda.Event(), torch.cuda.Event(enable_timing=True)
    probe.fact("an event without a record is done", never.query())
    probe.mark("begin", first)
    with torch.cuda.stream(first):
        torch.cuda._sleep(LONG_CYCLES)
        late.record()
    probe.mark("first ends", first)
    probe.fact("busy stream is done", first.query())
    probe.fact("late event is done", late.query())
    second.wait_event(late)
    with torch.cuda.stream(second):
        torch.cuda._sleep(LONG_CYCLES // 10)
    probe.mark("second ends", second)
    torch.cuda.current_stream().wait_stream(second)
    late.synchronize()
    probe.fact("late event is done after its synchronisation", late.query())
    second.synchronize()
    probe.mark("end")
    torch.cuda.synchronize()
    probe.fact("all streams are done", first.query() and second.query() and torch.cuda.current_stream().query())
    del late


@_program()
def graph_capture(probe: Probe) -> None:
    """Warm-up on a side stream, capture into a private pool, three replays."""
    weight = torch.full((256, 256), 1 / 256, device="cuda")
    x = torch.ones(256, 256, device="cuda")

    def work() -> Tensor:
        return torch.relu(x @ weight) @ weight + 1

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = work()
    probe.memory("captured")
    for number in range(3):
        x.fill_(number)
        probe.mark(f"replay {number} begins")
        graph.replay()
        probe.mark(f"replay {number} ends")
        probe.fact(f"result {number}", round(out[0, 0].item(), 3))
    probe.memory("replayed")
    del out
    graph.reset()
    torch.cuda.empty_cache()
    probe.memory("reset")


@_program()
def out_of_memory(probe: Probe) -> None:
    """A process that may have 1 GiB asks for more, gives some back, and asks again."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(1024 * MIB / total)
    held = []
    try:
        while len(held) < 100:
            held.append(torch.empty(192 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        probe.error("too much", error)
    probe.fact("blocks that fit", len(held))
    probe.memory("full")
    del held[1:3]
    held.append(torch.empty(192 * MIB, dtype=torch.uint8, device="cuda"))
    probe.memory("a block came back")
    held.append(torch.empty(200 * MIB, dtype=torch.uint8, device="cuda"))
    probe.memory("after cached blocks were given up")
    try:
        torch.empty(4096 * MIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        probe.error("more than may ever be had", error)
    del held
    torch.cuda.empty_cache()
    probe.memory("empty")


def _fragment(probe: Probe) -> None:
    """Blocks of mixed sizes, every other one freed, a larger one that fits in no gap, then all sizes once more."""
    sizes = [512, 2048, 300 * 1024, MIB - 512, MIB, 3 * MIB, 7 * MIB, 12 * MIB, 24 * MIB]
    held = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(3) for size in sizes]
    probe.memory("allocated")
    del held[::2]
    probe.memory("every other one freed")
    large = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    probe.memory("a large one")
    held += [torch.empty(size, dtype=torch.uint8, device="cuda") for size in reversed(sizes)]
    probe.memory("filled again")
    del held[1::3], large
    probe.memory("thinned out")
    torch.cuda.empty_cache()
    probe.memory("cache emptied")
    probe.fact("blocks left", len(held))


@_program()
def fragmentation(probe: Probe) -> None:
    """The pattern with the allocator's defaults."""
    _fragment(probe)


@_program(alloc_conf="max_split_size_mb:20,roundup_power2_divisions:4")
def fragmentation_split(probe: Probe) -> None:
    """The pattern where large blocks stay whole and sizes are rounded."""
    _fragment(probe)


@_program(alloc_conf="expandable_segments:True")
def fragmentation_expandable(probe: Probe) -> None:
    """The pattern in segments that grow."""
    _fragment(probe)
