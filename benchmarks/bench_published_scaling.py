"""Simulated jobs against published scaling tables of DistributedDataParallel and FullyShardedDataParallel.

The programs are written anew from those of the tables: torchvision's ResNets with PyTorch's benchmark of
DistributedDataParallel (float32, SGD, gradients that are not zeroed), and MosaicML's MPT with its training options
(bfloat16 in parameters, gradients and buffers, one FullyShardedDataParallel for each layer, clipping, AdamW).

Usage: ``python benchmarks/bench_published_scaling.py [WORD ...]`` runs the tables whose name has each word, prints a
row for each number of GPUs, and without words writes ``benchmarks/results/published_scaling.json``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision
from torch.nn.functional import cross_entropy, gelu, linear, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel

import cudalens

RESULTS: Final = Path(__file__).parent / "results" / "published_scaling.json"
STEPS: Final = 3


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        num_gpus: The number of GPUs.
        rate: Images, or tokens, per second and GPU, as published.
        batch: Images, or sequences, of a GPU in one forward pass.
        num_batches: Forward passes in a step.
        has_ddp: Whether the model is in DistributedDataParallel.
    """

    num_gpus: int
    rate: float
    batch: int
    num_batches: int = 1
    has_ddp: bool = True


@dataclass(frozen=True)
class Table:
    """A published table; the first row is the one that the others are compared with."""

    source: str
    name: str
    gpu: str
    train: Callable[[Row], None]
    items: int
    rows: tuple[Row, ...]


class Bottleneck(nn.Module):
    """Three convolutions around a shortcut."""

    def __init__(self, inputs: int, inner: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, inner, 1, bias=False)
        self.second = nn.Conv2d(inner, inner, 3, stride, 1, groups=groups, bias=False)
        self.third = nn.Conv2d(inner, outputs, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in (inner, inner, outputs))
        self.relu, self.shortcut = nn.ReLU(inplace=True), nn.Sequential()
        if stride > 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output."""
        out = self.relu(self.norms[0](self.first(x)))
        out = self.relu(self.norms[1](self.second(out)))
        out = self.norms[2](self.third(out))
        out += self.shortcut(x)
        return self.relu(out)


def resnet(depths: tuple[int, ...], groups: int = 1, group_width: int = 64) -> nn.Module:
    """Return torchvision's ResNet or ResNeXt of bottlenecks."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for number in range(depth):
            stride = 2 if stage and not number else 1
            layers.append(Bottleneck(inputs, width * group_width // 64 * groups, 4 * width, stride, groups))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def train_images(depths: tuple[int, ...], groups: int, group_width: int, row: Row) -> None:
    """The program of a rank of PyTorch's benchmark."""
    torch.backends.cudnn.allow_tf32 = False  # the V100 has none
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = resnet(depths, groups, group_width).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.001, momentum=0.9, weight_decay=1e-4, foreach=False)
    if row.has_ddp:
        model = DistributedDataParallel(model, [torch.cuda.current_device()], broadcast_buffers=False)
    images = torch.rand(row.batch, 3, 224, 224, device="cuda")
    labels = torch.ones(row.batch, dtype=torch.long, device="cuda")
    for _ in range(STEPS):
        cross_entropy(model(images), labels).backward()
        optimizer.step()
        torch.cuda.synchronize()


class Layer(nn.Module):
    """A layer of MPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for tokens of shape (batch, length, width)."""
        parts = self.inputs(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(*parts.unbind(), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.second_norm(x))))


class Mpt(nn.Module):
    """MosaicML's GPT, whose output has the weight of the embedding."""

    def __init__(self, width: int, heads: int, layers: int, *, words: int = 50_368, length: int = 2048) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits."""
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return linear(self.norm(x), self.words.weight)


def train_tokens(width: int, heads: int, layers: int, is_checkpointed: bool, row: Row) -> None:
    """The program of a rank of MosaicML's benchmark."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    with torch.device("meta"):
        model = Mpt(width, heads, layers)
    shard = partial(
        FullyShardedDataParallel,
        mixed_precision=MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16),
        backward_prefetch=BackwardPrefetch.BACKWARD_POST,
        param_init_fn=lambda module: module.to_empty(device="cuda", recurse=False),
        device_id=torch.cuda.current_device(),
    )
    for number, layer in enumerate(model.layers):
        model.layers[number] = shard(checkpoint_wrapper(layer) if is_checkpointed else layer)
    sharded = shard(model)
    optimizer = torch.optim.AdamW(sharded.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.0, foreach=False)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(row.num_batches):
            tokens = torch.zeros(row.batch, 2048, dtype=torch.long, device="cuda")
            logits = sharded(tokens)
            (cross_entropy(logits.flatten(0, 1), tokens.flatten()) / row.num_batches).backward()
        sharded.clip_grad_norm_(1.0)
        optimizer.step()


_DDP: Final = "PyTorch, benchmarks/distributed/ddp/README.md (torch 1.4, DGX-1 with V100, 4 x 100 Gb/s InfiniBand)"
_MPT: Final = "MosaicML, llm-foundry scripts/train/benchmarking/README.md (A100 40 GB, 1600 Gb/s per node, bf16 PURE)"


def _images(name: str, depths: tuple[int, ...], groups: int, group_width: int, *seconds: float) -> Table:
    """Return a table of PyTorch's benchmark: the seconds of a step without DistributedDataParallel, and on 1 to 16."""
    rates = [32 / one for one in seconds]
    rows = [Row(1, rates[0], 32, has_ddp=False)]
    rows += [Row(num_gpus, rate, 32) for num_gpus, rate in zip((1, 2, 4, 8, 16), rates[1:], strict=True)]
    return Table(_DDP, name, "v100", partial(train_images, depths, groups, group_width), 1, tuple(rows))


def _tokens(name: str, width: int, heads: int, layers: int, is_checkpointed: bool, *rows: Row) -> Table:
    return Table(_MPT, name, "a100", partial(train_tokens, width, heads, layers, is_checkpointed), 2048, rows)


#: All rows of a model at 2048 tokens.
TABLES: Final = (
    _images("ResNet-50", (3, 4, 6, 3), 1, 64, 0.097, 0.100, 0.103, 0.103, 0.104, 0.104),
    _images("ResNet-101", (3, 4, 23, 3), 1, 64, 0.162, 0.171, 0.176, 0.176, 0.179, 0.179),
    _images("ResNeXt-50 32x4d", (3, 4, 6, 3), 32, 4, 0.145, 0.147, 0.153, 0.153, 0.157, 0.157),
    _images("ResNeXt-101 32x8d", (3, 4, 23, 3), 32, 8, 0.415, 0.425, 0.438, 0.439, 0.447, 0.450),
    _tokens(
        "MPT 350M", 1024, 16, 24, False,
        Row(8, 55_995, 16, 4), Row(16, 55_413, 18), Row(32, 53_811, 18), Row(64, 52_689, 18), Row(128, 51_934, 18),
    ),
    _tokens(
        "MPT 3B", 2560, 20, 32, False,
        Row(8, 10_065, 5, 8), Row(16, 9_750, 5), Row(32, 9_914, 6), Row(64, 9_736, 6), Row(128, 9_538, 6),
    ),
    _tokens(
        "MPT 7B", 4096, 32, 32, True,
        Row(8, 3_679, 12, 4), Row(16, 3_645, 16), Row(32, 3_725, 18), Row(64, 3_665, 18), Row(128, 3_623, 18),
    ),
)  # fmt: skip


def measure(table: Table) -> list[dict[str, Any]]:
    """Return the published and the predicted rates of a table, and those of each row over the first."""
    found: list[dict[str, Any]] = []
    for row in table.rows:
        made = cudalens.virtual.job(partial(table.train, row), f"{table.gpu}x{row.num_gpus}", name=table.name)
        rate = row.batch * row.num_batches * table.items / (made.step_ns / 1e9)
        found.append(
            {
                "source": table.source,
                "name": table.name,
                "num_gpus": row.num_gpus,
                "has_ddp": row.has_ddp,
                "batch": row.batch,
                "rate": round(row.rate, 1),
                "predicted_rate": round(rate, 1),
                "ratio": round(rate / row.rate, 3),
                "scaling": round(row.rate / table.rows[0].rate, 3),
                "fits": made.fits,
            }
        )
        found[-1]["predicted_scaling"] = round(rate / found[0]["predicted_rate"], 3)
        print(json.dumps(found[-1]), flush=True)
    return found


def main() -> int:
    """Run the tables that are asked for."""
    found = []
    for table in TABLES:
        if all(word in f"{table.source} {table.name}" for word in sys.argv[1:]):
            found += measure(table)
    if len(sys.argv) == 1:
        RESULTS.write_text(json.dumps({"torch": torch.__version__, "results": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
