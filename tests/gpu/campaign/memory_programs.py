"""Six programs whose allocations the campaign records. They read no value and draw no size from the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import nn
from torch.nn import functional

#: Allocator settings by program; the others use the defaults.
SETTINGS: Final = {
    "sequence_lengths_split": "max_split_size_mb:64",
    "sequence_lengths_expandable": "expandable_segments:True",
}


class Block(nn.Module):
    """A layer of a decoder with fused attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same shape."""
        batch, length, width = x.shape
        split = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(*split, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Decoder(nn.Module):
    """A small language model."""

    def __init__(self, words: int = 8192, width: int = 512, layers: int = 6) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(words, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, 8) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """(batch, length) to (batch, length, words)."""
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def transformer_training() -> None:
    """Three steps in bfloat16 autocast with AdamW, as it is by default."""
    model = Decoder().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    words = torch.zeros(4, 512, dtype=torch.int64, device="cuda")
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
        loss.backward()
        optimizer.step()


def mlp_training() -> None:
    """Three steps in float32 with AdamW without foreach."""
    model = nn.Sequential(
        nn.Linear(2048, 8192), nn.ReLU(), nn.Linear(8192, 8192), nn.ReLU(), nn.Linear(8192, 10)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x, y = torch.zeros(512, 2048, device="cuda"), torch.zeros(512, dtype=torch.int64, device="cuda")
    for _ in range(3):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def convolutions() -> None:
    """Two steps of a small convolutional network with SGD and momentum."""
    layers: list[nn.Module] = []
    for inner, outer in ((3, 64), (64, 128), (128, 256), (256, 256)):
        layers += [nn.Conv2d(inner, outer, 3, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.zeros(16, 3, 128, 128, device="cuda"), torch.zeros(16, dtype=torch.int64, device="cuda")
    for _ in range(2):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def _sequence_lengths() -> None:
    """Inference with a cache of keys that grows, and with sequences of other lengths in between."""
    cache: list[torch.Tensor] = []
    for step in range(200):
        length = 64 + (step * 7919) % 4096
        x = torch.zeros(2, length, 1024, device="cuda")
        scores = torch.softmax(x @ x.transpose(1, 2), -1)
        kept = (scores @ x).mean(1, keepdim=True)
        cache = [*cache[-40:], kept.expand(2, 1 + length // 8, 1024).contiguous()]
        del x, scores, kept


def two_streams() -> None:
    """Batches that a side stream copies, with ``record_stream``, and work on both streams."""
    side = torch.cuda.Stream()
    weight = torch.zeros(2048, 2048, device="cuda")
    for _ in range(20):
        with torch.cuda.stream(side):
            batch = torch.zeros(1024, 2048, device="cuda") * 2
        torch.cuda.current_stream().wait_stream(side)
        batch.record_stream(torch.cuda.current_stream())
        y = batch @ weight
        del batch
        torch.relu(y).sum()
        torch.cuda.synchronize()


#: The programs by name.
PROGRAMS: Final[dict[str, Callable[[], None]]] = {
    "transformer_training": transformer_training,
    "mlp_training": mlp_training,
    "convolutions": convolutions,
    "sequence_lengths_split": _sequence_lengths,
    "sequence_lengths_expandable": _sequence_lengths,
    "two_streams": two_streams,
}
