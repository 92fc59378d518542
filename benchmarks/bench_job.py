"""What simulated jobs of many ranks cost: CPU time and memory of the host.

1. DistributedDataParallel of a transformer of 12 layers on 1 and on 64 GPUs, one after the other, ``REPEATS`` times
   each in one process. What must hold: the median CPU time for 64 ranks, with their frames and summary, is at most 1.5
   times that for one rank. The same for a program that calls ``get_rank()``, whose ranks 1 and 63 also run, to be
   compared: its ratio is written down, and has no limit. Memory: what a job of 8, 64 and 512 ranks keeps, which must
   not grow with ranks that are copies.
2. FSDP2 of Llama 3 70B on 512 H100 (batch 1 x 8192 tokens, bfloat16, every layer checkpointed, three steps), in a
   process of its own. What must hold: less than ten minutes and 8 GiB.

Usage: ``python benchmarks/bench_job.py``. Results go to ``benchmarks/results/job.json``.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from conditions import conditions
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu
from torch.nn.parallel import DistributedDataParallel

import cudalens

HERE = Path(__file__).parent
REPEATS = 5
WANTED_RATIO, WANTED_S, WANTED_GIB = 1.5, 600, 8
STEPS = 3


class Layer(nn.Module):
    """A layer of Llama 3: attention with fewer key heads, and a gated feed-forward network."""

    def __init__(self, width: int, heads: int, key_heads: int, hidden: int) -> None:
        super().__init__()
        self.size, self.repeats = width // heads, heads // key_heads
        self.norm, self.second_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, key_heads * self.size, bias=False)
        self.value = nn.Linear(width, key_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for tokens of shape (batch, length, width)."""
        normed = self.norm(x)
        query, key, value = (
            one(normed).unflatten(-1, (-1, self.size)).transpose(1, 2) for one in (self.query, self.key, self.value)
        )
        if self.repeats > 1:
            key, value = (one.repeat_interleave(self.repeats, dim=1) for one in (key, value))
        x = x + self.out(scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(2))
        normed = self.second_norm(x)
        return x + self.down(silu(self.gate(normed)) * self.up(normed))


class Transformer(nn.Module):
    """A decoder-only transformer."""

    def __init__(self, words: int, width: int, heads: int, key_heads: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, key_heads, hidden) for _ in range(layers))
        self.norm, self.out = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        """Return the logits."""
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x)
        return self.out(self.norm(x))


def train(model: nn.Module, length: int, words: int) -> None:
    """Train for some steps on random tokens."""
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        tokens = torch.randint(0, words, (1, length), device="cuda")
        cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


def data_parallel() -> None:
    """The program of a rank of the first part."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    train(DistributedDataParallel(Transformer(32_000, 1024, 16, 16, 4096, 12).cuda()), 1024, 32_000)
    dist.destroy_process_group()


def data_parallel_by_rank() -> None:
    """The same, with the number of the GPU from the rank."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    train(DistributedDataParallel(Transformer(32_000, 1024, 16, 16, 4096, 12).cuda()), 1024, 32_000)
    dist.destroy_process_group()


def sharded() -> None:
    """The program of a rank of the second part."""
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    with torch.device("meta"):
        model = Transformer(128_256, 8192, 64, 8, 28_672, 80)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for number, layer in enumerate(model.layers):
        model.layers[number] = checkpoint_wrapper(layer)
        fully_shard(model.layers[number], mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device="cuda")
    train(model, 8192, 128_256)


def cost_of_ranks() -> dict[str, object]:
    """Return the CPU seconds of jobs of 1 and 64 ranks, interleaved, and the memory that jobs keep."""
    kept = {}
    for num_ranks in (8, 64, 512):
        gc.collect()
        tracemalloc.start()
        made = cudalens.virtual.job(data_parallel, f"h100x{num_ranks}")
        gc.collect()
        kept[num_ranks] = round(tracemalloc.get_traced_memory()[0] / 2**20, 1)
        tracemalloc.stop()
        del made
    return {**cpu_of_ranks(data_parallel), "by_rank": cpu_of_ranks(data_parallel_by_rank), "kept_mib": kept}


def cpu_of_ranks(program: Callable[[], None]) -> dict[str, object]:
    """Return the median CPU seconds of jobs of 1 and 64 ranks of a program, interleaved, and their ratio."""
    seconds: dict[int, list[float]] = {1: [], 64: []}
    for repeat in range(REPEATS + 1):
        for num_ranks, found in seconds.items():
            gc.collect()
            began = time.process_time()
            made = cudalens.virtual.job(program, f"h100x{num_ranks}")
            str(made.summary())
            if repeat:  # the first of each imports
                found.append(time.process_time() - began)
            del made
    medians = {num_ranks: round(statistics.median(found), 2) for num_ranks, found in seconds.items()}
    return {"cpu_s": medians, "ratio": round(medians[64] / medians[1], 2)}


def cost_of_a_large_job() -> dict[str, float]:
    """Return the time and the memory of this process for the second part."""
    began, wall = time.process_time(), time.perf_counter()
    made = cudalens.virtual.job(sharded, "h100x512", name="Llama 3 70B")
    text = str(made.summary())
    return {
        "seconds": round(time.perf_counter() - wall, 1),
        "cpu_s": round(time.process_time() - began, 1),
        "host_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "step_s": round(made.step_ns / 1e9, 2),
        "step_low_s": round(made.step_low_ns / 1e9, 2),
        "step_high_s": round(made.step_high_ns / 1e9, 2),
        "device_gib": round(int(made.memory["total_bytes"].max()) / 2**30, 1),
        "summary_lines": text.count("\n"),
    }


def main() -> int:
    """Run both parts, print and write their figures; 1 if one misses what must hold."""
    if "--large" in sys.argv:
        print(json.dumps(cost_of_a_large_job()))
        return 0
    done = subprocess.run([sys.executable, __file__, "--large"], check=True, capture_output=True, text=True)
    large = json.loads(done.stdout.splitlines()[-1])
    result = {"ranks": cost_of_ranks(), "large": large}
    result["conditions"] = conditions()
    print(json.dumps(result, indent=1))
    (HERE / "results" / "job.json").write_text(json.dumps(result, indent=1) + "\n")
    is_slow = large["seconds"] > WANTED_S or large["host_gib"] > WANTED_GIB
    return int(is_slow or result["ranks"]["ratio"] > WANTED_RATIO)


if __name__ == "__main__":
    sys.exit(main())
