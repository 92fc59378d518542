"""Simulated jobs against published results of the same programs on GPUs.

Each program is torchtitan's training loop, written anew: its Llama (rotary embeddings as complex numbers, keys repeated
for grouped queries, RMS norm as several kernels or as one), its selective activation checkpointing, FSDP2 with bfloat16
parameters and float32 gradients, clipping of gradients and AdamW, in eager mode. The sources of each result say which
options it had.

Usage: ``python benchmarks/bench_published_jobs.py [WORD ...]`` runs the results whose name has each word, prints a row
for each, and without words writes ``benchmarks/results/published_jobs.json``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

import cudalens
from cudalens.gpus.registry import SPECS, register

RESULTS: Final = Path(__file__).parent / "results" / "published_jobs.json"
STEPS: Final = 3
GIB: Final = 2**30

#: The GPUs of torchtitan's tables of H100: 96 GB of HBM2e at 2.4 TB/s and 500 W. The peak is a choice between that of
#: the SXM and of the NVL card, made before the comparison.
GRAND_TETON: Final = "h100-96gb-500w"


@dataclass(frozen=True)
class Model:
    """Sizes of a Llama."""

    words: int
    width: int
    heads: int
    key_heads: int
    hidden: int
    layers: int


MODELS: Final = {
    "Llama 2 7B": Model(32_000, 4096, 32, 32, 11_008, 32),
    "Llama 2 13B": Model(32_000, 5120, 40, 40, 13_824, 40),
    "Llama 2 70B": Model(32_000, 8192, 64, 8, 28_672, 80),
    "Llama 3 8B": Model(128_256, 4096, 32, 8, 14_336, 32),
    "Llama 3 70B": Model(128_256, 8192, 64, 8, 28_672, 80),
}


@dataclass(frozen=True)
class Published:
    """A published result.

    Attributes:
        source: Where it was published.
        model: A key of `MODELS`.
        gpus: The GPU and the number of all of them.
        batch: Sequences of each GPU.
        length: Tokens of each sequence.
        checkpointing: "none"; "op" (attention and every second product are kept); "layer" (of every second layer);
            "full".
        has_fused_norm: Whether RMS norm is one kernel.
        tokens_per_s: Tokens per second and GPU, the mean of what was published.
        reserved_gib: Peak of the memory that the allocator reserves.
        active_gib: Peak of the memory in use.
        keeps_logits: Whether the program holds the logits, in float32, until the end of the backward pass.
        alloc_conf: Options of the allocator.
        is_fsdp1: Whether FullyShardedDataParallel shards the parameters, instead of `fully_shard`.
    """

    source: str
    model: str
    gpus: str
    batch: int
    length: int
    checkpointing: str
    has_fused_norm: bool
    tokens_per_s: float
    reserved_gib: float | None = None
    active_gib: float | None = None
    keeps_logits: bool = True
    alloc_conf: str = ""
    is_fsdp1: bool = False

    @property
    def name(self) -> str:
        """What ran."""
        sharding = "FSDP1" if self.is_fsdp1 else "FSDP2"
        sizes = f"batch {self.batch} x {self.length}"
        return f"{self.model}, {self.gpus}, {sizes}, checkpointing {self.checkpointing}, {sharding}"


_TABLE: Final = "torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, table {}"
_A100: Final = "torchtitan, docs/performance.md of April 2024"
_FSDP2: Final = "torchtitan, pull request 165 (March 2024)"
_EXPANDABLE: Final = "expandable_segments:True"
_CARD_GIB: Final = 95.0396

PUBLISHED: Final = (
    Published(
        _TABLE.format(1), "Llama 3 8B", f"{GRAND_TETON}x8", 2, 8192, "op", False, 5762, 82.4,
        keeps_logits=False, alloc_conf=_EXPANDABLE,
    ),
    Published(
        _TABLE.format(3), "Llama 3 8B", f"{GRAND_TETON}x128", 2, 8192, "op", False, 5605, 67.0,
        keeps_logits=False, alloc_conf=_EXPANDABLE,
    ),
    Published(
        _FSDP2, "Llama 2 7B", f"{GRAND_TETON}x8", 8, 2048, "full", False, 6200,
        0.3264 * _CARD_GIB, 0.2392 * _CARD_GIB,
    ),
    Published(
        _FSDP2, "Llama 2 7B", f"{GRAND_TETON}x8", 8, 2048, "op", False, 6700,
        0.6251 * _CARD_GIB, 0.5213 * _CARD_GIB,
    ),
    Published(
        _FSDP2, "Llama 2 7B", f"{GRAND_TETON}x8", 8, 2048, "full", False, 6150,
        0.3382 * _CARD_GIB, 0.2481 * _CARD_GIB, is_fsdp1=True,
    ),
    Published(
        _FSDP2, "Llama 2 7B", f"{GRAND_TETON}x8", 8, 2048, "op", False, 6600,
        0.6723 * _CARD_GIB, 0.5298 * _CARD_GIB, is_fsdp1=True,
    ),
    Published(_A100, "Llama 3 8B", "a100-80gbx64", 1, 8192, "layer", True, 2904),
    Published(_A100, "Llama 3 8B", "a100-80gbx64", 1, 8192, "op", True, 2973),
    Published(_A100, "Llama 3 70B", "a100-80gbx64", 1, 8192, "full", False, 331),
    Published(_A100, "Llama 2 13B", "a100-80gbx64", 2, 4096, "none", True, 2162),
    Published(_A100, "Llama 2 13B", "a100-80gbx64", 2, 4096, "layer", True, 1914),
    Published(_A100, "Llama 2 13B", "a100-80gbx64", 2, 4096, "op", True, 1904),
    Published(_A100, "Llama 2 70B", "a100-80gbx64", 1, 4096, "op", False, 355),
    Published(_A100, "Llama 2 70B", "a100-80gbx64", 2, 4096, "full", False, 353),
)  # fmt: skip


class Norm(nn.Module):
    """RMS norm as the kernels that torch ran before version 2.9."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised tensor."""
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """Return queries or keys with rotary embeddings; shape (batch, length, heads, size)."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[: x.shape[1], None]).flatten(3).type_as(x)


class Attention(nn.Module):
    """Causal attention with grouped queries."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.size = model.width // model.heads
        self.repeats = model.heads // model.key_heads
        self.query = nn.Linear(model.width, model.width, bias=False)
        self.key = nn.Linear(model.width, model.key_heads * self.size, bias=False)
        self.value = nn.Linear(model.width, model.key_heads * self.size, bias=False)
        self.out = nn.Linear(model.width, model.width, bias=False)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        """Return the output for tokens of shape (batch, length, width)."""
        query, key, value = (part(x).unflatten(-1, (-1, self.size)) for part in (self.query, self.key, self.value))
        query, key = rotate(query, turns), rotate(key, turns)
        if self.repeats > 1:
            key, value = (
                part.unsqueeze(3).expand(-1, -1, -1, self.repeats, -1).reshape(*x.shape[:2], -1, self.size)
                for part in (key, value)
            )
        parts = (part.transpose(1, 2) for part in (query, key, value))
        mixed = scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(mixed.transpose(1, 2).contiguous().flatten(2))


class FeedForward(nn.Module):
    """The gated feed-forward network."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.gate = nn.Linear(model.width, model.hidden, bias=False)
        self.down = nn.Linear(model.hidden, model.width, bias=False)
        self.up = nn.Linear(model.width, model.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        return self.down(silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A layer of Llama."""

    def __init__(self, model: Model, norm: type[nn.Module]) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(model), FeedForward(model)
        self.attention_norm, self.feed_forward_norm = norm(model.width), norm(model.width)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        """Return the output for tokens of shape (batch, length, width)."""
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Module):
    """A Llama of some length."""

    def __init__(self, model: Model, length: int, norm: type[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(model.words, model.width)
        size = model.width // model.heads
        self.register_buffer("turns", torch.empty(length, size // 2, dtype=torch.complex64), persistent=False)
        self.blocks = nn.ModuleList(Block(model, norm) for _ in range(model.layers))
        self.norm, self.out = norm(model.width), nn.Linear(model.width, model.words, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        """Return the logits."""
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x, self.turns)
        return self.out(self.norm(x))


#: Results that "op" keeps, of products every second one.
_KEPT: Final = (
    torch.ops.aten.mm.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
)


def selective_contexts() -> Any:
    """Return the contexts of a layer whose attention and every second product are kept."""
    counts: defaultdict[bool, int] = defaultdict(int)

    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if operator is torch.ops.aten.mm.default:
            counts[context.is_recompute] += 1
        is_second = operator is torch.ops.aten.mm.default and counts[context.is_recompute] % 2 == 0
        return CheckpointPolicy.MUST_SAVE if operator in _KEPT and not is_second else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def checkpointed(block: nn.Module, number: int, kind: str) -> nn.Module:
    """Return a layer with activation checkpointing."""
    if kind == "none" or (kind == "layer" and number % 2 == 0):
        return block
    if kind == "op":
        return checkpoint_wrapper(block, context_fn=selective_contexts, preserve_rng_state=False)
    return checkpoint_wrapper(block, preserve_rng_state=False)


def shard(llama: Llama, mesh: DeviceMesh) -> nn.Module:
    """Shard each layer and the rest with FSDP2; the last layer is not gathered again for the backward pass."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for number, block in enumerate(llama.blocks):
        is_last = number == len(llama.blocks) - 1
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=not is_last)
    fully_shard(llama, mesh=mesh, mp_policy=policy)
    llama.to_empty(device="cuda")
    return llama


def shard_with_fsdp1(llama: Llama, mesh: DeviceMesh) -> nn.Module:
    """Shard each layer and the rest with FullyShardedDataParallel."""
    options: dict[str, Any] = {
        "mixed_precision": MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        "use_orig_params": True,
        "device_mesh": mesh,
        "param_init_fn": lambda module: module.to_empty(device="cuda", recurse=False),
    }
    for number, block in enumerate(llama.blocks):
        llama.blocks[number] = FullyShardedDataParallel(block, **options)
    return FullyShardedDataParallel(llama, **options)


def train(one: Published) -> None:
    """The program of a rank."""
    torch.backends.cuda.enable_cudnn_sdp(False)  # the torch of 2024 ran FlashAttention
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    model = MODELS[one.model]
    with torch.device("meta"):
        llama = Llama(model, one.length, nn.RMSNorm if one.has_fused_norm else Norm)
    for number, block in enumerate(llama.blocks):
        llama.blocks[number] = checkpointed(block, number, one.checkpointing)
    llama = shard_with_fsdp1(llama, mesh) if one.is_fsdp1 else shard(llama, mesh)
    optimizer = torch.optim.AdamW(llama.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
    for _ in range(STEPS):
        tokens = torch.randint(0, model.words, (one.batch, one.length + 1)).cuda()
        optimizer.zero_grad()
        logits = llama(tokens[:, :-1].contiguous()).flatten(0, 1)
        if one.keeps_logits:
            logits = logits.float()
        loss = cross_entropy(logits.float(), tokens[:, 1:].flatten())
        if not one.keeps_logits:
            del logits
        loss.backward()
        nn.utils.clip_grad_norm_(llama.parameters(), 1.0, foreach=True)
        optimizer.step()


def measure(one: Published) -> dict[str, Any]:
    """Return the published and the predicted figures."""
    began = time.perf_counter()
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = one.alloc_conf
    made = cudalens.virtual.job(lambda: train(one), one.gpus, name=one.name)
    peak = made.memory.iloc[0]
    tokens_per_s = one.batch * one.length / (made.step_ns / 1e9)
    return {
        "source": one.source,
        "name": one.name,
        "tokens_per_s": one.tokens_per_s,
        "predicted_tokens_per_s": round(tokens_per_s),
        "ratio": round(tokens_per_s / one.tokens_per_s, 3),
        "reserved_gib": one.reserved_gib and round(one.reserved_gib, 1),
        "predicted_reserved_gib": round(int(peak["reserved_bytes"]) / GIB, 1),
        "active_gib": one.active_gib and round(one.active_gib, 1),
        "predicted_active_gib": round(int(peak["allocated_bytes"]) / GIB, 1),
        "fits": made.fits,
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> int:
    """Run the results that are asked for."""
    card = SPECS["h100"]
    register(
        card.replace(
            key=GRAND_TETON,
            name="NVIDIA H100 96GB HBM2e 500W",
            memory_bandwidth_gbps=2400.0,
            total_memory_bytes=int(_CARD_GIB * GIB),
            peak_tflops={**card.peak_tflops, "bfloat16": 900.0},
        )
    )
    found = []
    for one in PUBLISHED:
        if all(word in f"{one.source} {one.name}" for word in sys.argv[1:]):
            found.append(measure(one))
            print(json.dumps(found[-1]), flush=True)
    if len(sys.argv) == 1:
        RESULTS.write_text(json.dumps({"torch": torch.__version__, "results": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
