"""The peak of `fit` against recorded memory snapshots of real GPUs, for programs that are known.

The programs are a language model of 423 million parameters (24 layers, width 1024) with attention, normalisation and
softmax written in single operators, in inference and in training with its own AdamW.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import cudalens

_REFERENCE = Path(__file__).parents[3] / "shared" / "recorded" / "reference_snapshots.csv"


class _Linear(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outer, inner))

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class _Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * x


def _softmax(x):
    raised = torch.exp(x - torch.max(x, dim=-1, keepdim=True)[0])
    return raised / torch.sum(raised, dim=-1, keepdim=True)


class _Rotation(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.register_buffer("factors", torch.empty(2, length, width // 2), persistent=False)

    def forward(self, x):
        first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = self.factors[0], self.factors[1]
        return torch.stack((cos * first - sin * second, sin * first + cos * second), -1).flatten(-2).contiguous()


class _Attention(nn.Module):
    def __init__(self, width, heads, rotation):
        super().__init__()
        self.heads, self.rotation = heads, rotation
        self.query, self.key, self.value, self.out = (_Linear(width, width) for _ in range(4))

    def forward(self, x):
        batch, length, width = x.shape
        parts = [
            part(x).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        ]
        query, key, value = self.rotation(parts[0]), self.rotation(parts[1]), parts[2]
        order = torch.arange(length, device=x.device)
        mask = (order[:, None] >= order[None, :])[None, None]
        scores = torch.einsum("...qd,...kd->...qk", query, key) / math.sqrt(width // self.heads)
        weights = _softmax(torch.where(mask, scores, float("-inf")))
        found = torch.einsum("...qk,...kd->...qd", weights, value)
        return self.out(found.transpose(1, 2).contiguous().view(batch, length, width))


class _Layer(nn.Module):
    def __init__(self, width, heads, inner, rotation):
        super().__init__()
        self.attention, self.first, self.second = _Attention(width, heads, rotation), _Norm(width), _Norm(width)
        self.gate, self.up, self.down = _Linear(width, inner), _Linear(width, inner), _Linear(inner, width)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        y = self.second(x)
        gate = self.gate(y)
        return x + self.down(gate * torch.sigmoid(gate) * self.up(y))


class _Model(nn.Module):
    def __init__(self, length, words=10_000, width=1024, layers=24, heads=16, inner=4096):
        super().__init__()
        rotation = _Rotation(length, width // heads)
        self.embedding, self.norm, self.head = nn.Embedding(words, width), _Norm(width), _Linear(width, words)
        self.layers = nn.ModuleList(_Layer(width, heads, inner, rotation) for _ in range(layers))

    def forward(self, words):
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class _AdamW(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            if not state:
                state["first"], state["second"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
            first, second, grad = state["first"], state["second"], parameter.grad
            first.mul_(0.9).add_(grad, alpha=0.1)
            second.mul_(0.99).addcmul_(grad, grad, value=0.01)
            parameter.mul_(0.9).addcdiv_(first, second.sqrt().add_(1e-8), value=-1e-3)


def inference():
    model, words = _Model(128).cuda(), torch.randint(0, 9, (4, 128), device="cuda")

    def run():
        with torch.no_grad():
            model(words)

    return run


def training():
    model, words = _Model(256).cuda(), torch.randint(0, 9, (4, 256), device="cuda")
    optimizer = _AdamW(model.parameters(), {})

    def run():
        optimizer.zero_grad()
        functional.cross_entropy(model(words).flatten(0, 1), words.flatten()).backward()
        optimizer.step()

    return run


@pytest.mark.parametrize(
    ("program", "name"),
    [(inference, "medium_128_inference_memory_snapshot"), (training, "medium_256_training_memory_snapshot")],
)
def test_the_peak_is_that_of_the_recorded_snapshot(program, name):
    if not _REFERENCE.exists():
        pytest.skip(f"no recorded snapshots: {_REFERENCE} is absent")
    rows = csv.DictReader(_REFERENCE.read_text().splitlines())
    recorded = next(int(row["hist_peak_requested_dev0"]) for row in rows if name in row["file"])
    row = cudalens.fit(program, devices=["a100-80gb"]).devices.iloc[0]
    found = row["total_bytes"] - row["cache_bytes"] - row["context_bytes"]
    assert found == pytest.approx(recorded, rel=0.02)
