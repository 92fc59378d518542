"""Simulated jobs against NeuSight's measured training steps of GPT models in Megatron-LM on 4 H100.

The programs are written anew from Megatron-LM's: float32 without TF32, attention of separate kernels, tensor parallel
layers with two sums in each direction, a pipeline of one micro-batch, buckets of DistributedDataParallel, clipping of
gradients and a fused AdamW. Measured times: NeuSight (sitar-lab/NeuSight, MIT, commit 6945927d), scripts/asplos/label.

Usage: ``python benchmarks/bench_published_megatron.py`` prints a row for each result.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn.functional import cross_entropy, dropout, gelu, linear, softmax
from torch.nn.parallel import DistributedDataParallel

import cudalens

STEPS: Final = 3
DROPOUT: Final = 0.1


@dataclass(frozen=True)
class Model:
    """Sizes of a GPT."""

    words: int
    width: int
    heads: int
    layers: int
    length: int


GPT3_XL: Final = Model(50_304, 3072, 24, 24, 2048)
GPT2_LARGE: Final = Model(50_304, 1280, 20, 36, 1024)


class _SumGradients(torch.autograd.Function):
    """Before a layer that is divided by columns."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        """Return the input."""
        return x

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        """Sum the gradients of all parts."""
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class _SumOutputs(torch.autograd.Function):
    """After a layer that is divided by rows."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        """Sum the outputs of all parts."""
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        """Return the gradient."""
        return gradient


class Block(nn.Module):
    """A layer, of which each rank has one of `parts` parts."""

    def __init__(self, model: Model, parts: int) -> None:
        super().__init__()
        width = model.width
        self.parts, self.heads, self.size = parts, model.heads // parts, width // model.heads
        self.norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.out = nn.Linear(width, 3 * width // parts), nn.Linear(width // parts, width)
        self.up, self.down = nn.Linear(width, 4 * width // parts), nn.Linear(4 * width // parts, width)
        self.register_buffer("mask", torch.ones(model.length, model.length, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for tokens of shape (batch, length, width)."""
        x = x + dropout(self._summed(self.out(self._attend(self._shared(self.norm(x))))), DROPOUT)
        hidden = gelu(self.up(self._shared(self.second_norm(x))))
        return x + dropout(self._summed(self.down(hidden)), DROPOUT)

    def _attend(self, x: Tensor) -> Tensor:
        parts = self.inputs(x).unflatten(-1, (self.heads, 3 * self.size)).transpose(1, 2)
        query, key, value = parts.split(self.size, -1)
        scores = (query @ key.transpose(2, 3) / self.size**0.5).masked_fill(self.mask, -10_000.0)
        return (dropout(softmax(scores, -1), DROPOUT) @ value).transpose(1, 2).flatten(2)

    def _shared(self, x: Tensor) -> Tensor:
        return _SumGradients.apply(x) if self.parts > 1 else x

    def _summed(self, x: Tensor) -> Tensor:
        return _SumOutputs.apply(x) if self.parts > 1 else x


class Stage(nn.Module):
    """Layers with the embedding if it is the first stage, and the output if it is the last."""

    def __init__(self, model: Model, layers: int, parts: int, *, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.is_first, self.is_last, self.parts, self.words = is_first, is_last, parts, model.words // parts
        if is_first or is_last:
            self.embedding = nn.Embedding(self.words, model.width)
        if is_first:
            self.positions = nn.Parameter(torch.empty(model.length, model.width))
        self.blocks = nn.ModuleList(Block(model, parts) for _ in range(layers))
        self.norm = nn.LayerNorm(model.width) if is_last else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of the last stage, or what the next stage gets."""
        if self.is_first:
            x = self.embedding(x % self.words)
            x = dropout((_SumOutputs.apply(x) if self.parts > 1 else x) + self.positions, DROPOUT)
        for block in self.blocks:
            x = block(x)
        if not self.is_last:
            return self.norm(x)
        x = self.norm(x)
        return linear(_SumGradients.apply(x) if self.parts > 1 else x, self.embedding.weight)


def loss_of(logits: Tensor, words: Tensor) -> Tensor:
    """Return the loss; of divided logits that of one part, which takes as long."""
    return cross_entropy(logits.flatten(0, 1), words.flatten() % logits.shape[-1])


def begin() -> int:
    """Start a rank; returns its number."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return dist.get_rank()


def finish(parameters: Iterable[Tensor], optimizer: torch.optim.Optimizer) -> None:
    """End a step."""
    nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
    optimizer.step()
    optimizer.zero_grad()


def in_tensors(model: Model, batch: int, parts: int, *, has_replicas: bool = False) -> None:
    """Train a model of which each rank has a part, or with `has_replicas` all of it."""
    begin()
    with torch.device("cuda"):
        stage: nn.Module = Stage(model, model.layers, parts, is_first=True, is_last=True)
    if has_replicas:
        stage = DistributedDataParallel(stage)
    optimizer = torch.optim.AdamW(stage.parameters(), fused=True)
    for _ in range(STEPS):
        words = torch.randint(0, model.words, (batch, model.length), device="cuda")
        loss_of(stage(words), words).backward()
        finish(stage.parameters(), optimizer)


def in_stages(model: Model, batch: int, num_stages: int) -> None:
    """Train in a pipeline of one micro-batch."""
    rank = begin()
    is_first, is_last = rank == 0, rank == num_stages - 1
    with torch.device("cuda"):
        stage = Stage(model, model.layers // num_stages, 1, is_first=is_first, is_last=is_last)
    optimizer = torch.optim.AdamW(stage.parameters(), fused=True)
    words = torch.randint(0, model.words, (batch, model.length), device="cuda")
    given, got = (torch.empty(batch, model.length, model.width, device="cuda", requires_grad=True) for _ in range(2))
    if is_last:
        got = torch.empty(batch, model.length, model.words, device="cuda", requires_grad=True)
    args = {"input_args": (words if is_first else given,), "output_args": (got,)}
    schedule = ScheduleGPipe(PipelineStage(stage, rank, num_stages, torch.device("cuda", rank), **args), 1, loss_of)
    for _ in range(STEPS):
        schedule.step(*((words,) if is_first else ()), **({"target": words} if is_last else {}))
        finish(stage.parameters(), optimizer)


#: What ran, its program, the GPUs and the measured time of a step, ms.
PUBLISHED: Final[tuple[tuple[str, Callable[[], None], str, float], ...]] = (
    ("gpt3_xl, 1 GPU, batch 1", partial(in_tensors, GPT3_XL, 1, 1), "h100x1", 933.44),
    ("gpt3_xl, tp4, batch 4", partial(in_tensors, GPT3_XL, 4, 4), "h100x4", 1010.46),
    ("gpt3_xl, pp4, batch 4", partial(in_stages, GPT3_XL, 4, 4), "h100x4", 3554.40),
    ("gpt2_large, dp4, batch 4", partial(in_tensors, GPT2_LARGE, 1, 1, has_replicas=True), "h100x4", 194.88),
    ("gpt2_large, dp4, batch 16", partial(in_tensors, GPT2_LARGE, 4, 1, has_replicas=True), "h100x4", 642.08),
)


def main() -> int:
    """Print the predicted times; 1 if one differs by more than 25 %."""
    is_far = False
    for name, program, gpus, wanted_ms in PUBLISHED:
        step_ms = cudalens.virtual.job(program, gpus, name=name).step_ns / 1e6
        is_far |= abs(step_ms / wanted_ms - 1) > 0.25
        print(f"{name}: {wanted_ms:,.0f} ms, predicted {step_ms:,.0f} ms, ratio {step_ms / wanted_ms:.2f}", flush=True)
    return int(is_far)


if __name__ == "__main__":
    sys.exit(main())
