"""Small programs of many kinds for a CUDA device: each is a function that makes its model and runs some steps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

PROGRAMS: dict[str, Callable[[], None]] = {}


def program(function: Callable[[], None]) -> Callable[[], None]:
    """Add a program to the table."""
    PROGRAMS[function.__name__] = function
    return function


def train(optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor], steps: int = 2) -> None:
    """Run some training steps."""
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


class Block(nn.Module):
    """A block of a language model with gated feed-forward layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.gate = nn.Linear(width, 4 * width, bias=False), nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class LanguageModel(nn.Module):
    """A decoder; `checkpoints` is None, or the argument ``use_reentrant`` of checkpointing."""

    def __init__(
        self, words: int = 200, width: int = 64, heads: int = 4, layers: int = 2, checkpoints: bool | None = None
    ) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(words, width), nn.RMSNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head, self.checkpoints = nn.Linear(width, words, bias=False), checkpoints

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x) if self.checkpoints is None else checkpoint(block, x, use_reentrant=self.checkpoints)
        return self.head(self.norm(x))

    def loss(self, words: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self(words).flatten(0, 1).float(), words.flatten())


def _words() -> torch.Tensor:
    return torch.randint(0, 200, (2, 32), device="cuda")


def _square(model: nn.Module, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: model(x).square().mean()


@program
def perceptron_with_sgd() -> None:
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
    x, y = torch.randn(64, 256, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    train(optimizer, lambda: functional.cross_entropy(model(x), y))


@program
def adam_of_single_tensors() -> None:
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 10)).cuda()
    train(torch.optim.Adam(model.parameters(), foreach=False), _square(model, torch.randn(64, 256).cuda()))


@program
def adamw_in_one_kernel() -> None:
    model = nn.Linear(300, 300, device="cuda")
    train(torch.optim.AdamW(model.parameters(), fused=True), _square(model, torch.randn(64, 300, device="cuda")))


@program
def convolutions_with_batch_norm() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    ).cuda()
    train(torch.optim.SGD(model.parameters(), 0.1), _square(model, torch.randn(4, 3, 32, 32, device="cuda")))


@program
def convolutions_in_channels_last() -> None:
    model = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2))
    model = model.cuda().to(memory_format=torch.channels_last)
    x = torch.randn(4, 8, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    train(torch.optim.SGD(model.parameters(), 0.1), _square(model, x))


@program
def transformer_with_dropout() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).cuda()
    train(torch.optim.AdamW(model.parameters()), _square(model, torch.randn(4, 32, 64, device="cuda")))


@program
def transformer_in_inference_mode() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2).cuda().eval()
    with torch.inference_mode():
        model(torch.randn(4, 32, 64, device="cuda"))


@program
def autocast_and_clipped_gradients() -> None:
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
    x, optimizer = torch.randn(64, 256, device="cuda"), torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@program
def language_model() -> None:
    model, words = LanguageModel().cuda(), _words()
    train(torch.optim.AdamW(model.parameters()), lambda: model.loss(words))


@program
def language_model_bfloat16_with_checkpoints() -> None:
    model, words = LanguageModel(checkpoints=False).to("cuda", torch.bfloat16), _words()
    train(torch.optim.AdamW(model.parameters()), lambda: model.loss(words))


@program
def language_model_with_reentrant_checkpoints() -> None:
    model, words = LanguageModel(checkpoints=True).cuda(), _words()
    train(torch.optim.AdamW(model.parameters()), lambda: model.loss(words))


@program
def decoding_with_a_cache() -> None:
    model, words = LanguageModel().cuda().half().eval(), _words()
    cache = torch.zeros(2, 4, 64, 16, device="cuda", dtype=torch.half)
    with torch.no_grad():
        for step in range(3):
            following = model(words)[:, -1].argmax(-1)
            cache[:, :, step] = 1
            words = torch.cat([words, following[:, None]], 1)


@program
def long_short_term_memory() -> None:
    model = nn.LSTM(16, 32, 2, batch_first=True).cuda()
    x = torch.randn(4, 10, 16, device="cuda")
    train(torch.optim.SGD(model.parameters(), 0.1), lambda: model(x)[0].square().mean())


@program
def gated_recurrent_units() -> None:
    model, x = nn.GRU(16, 32, 2, batch_first=True, dropout=0.1).cuda(), torch.randn(4, 5, 16, device="cuda")
    train(torch.optim.SGD(model.parameters(), 0.1), lambda: model(x)[0].square().mean(), steps=1)


@program
def streams_and_events() -> None:
    side, x = torch.cuda.Stream(), torch.randn(1000, 1000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x @ x
    x.record_stream(side)
    del x
    torch.cuda.current_stream().wait_stream(side)
    y.sum()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    event.synchronize()


@program
def graph_of_a_training_step() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.Linear(64, 64)).cuda()
    x, side = torch.randn(8, 64, device="cuda"), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).sum().backward()
    for _ in range(3):
        x.copy_(torch.randn(8, 64))
        graph.replay()


@program
def indexing_and_writing_in_place() -> None:
    x = torch.zeros(100, 100, device="cuda")
    x[10:20] = 1
    x[:, 3].add_(2)
    y = x.t()[5:].contiguous()
    x[torch.arange(3, device="cuda")] = y[0, 0]
    x.mul_(torch.stack([x, x]).chunk(2)[0].squeeze(0)).masked_fill_(x > 1, 0.0)
    first, second = x.split([50, 50])
    first.copy_(second)
    product = torch.mm(first, second.t(), out=torch.empty(0, device="cuda"))
    product.to("cpu", non_blocking=True)
    product.half().double().to(torch.bfloat16)
    torch.topk(x, 3)
    x.sort()
    x.cumsum(0).argmax(1)
    x.std()


@program
def many_dtypes() -> None:
    counts = torch.arange(1000, device="cuda")
    halves = (counts * 2.5).int()
    ((counts > 5) & (halves < 7)).sum()
    (counts / 3).softmax(0)
    (torch.ones(2000, 2000, device="cuda", dtype=torch.half) * 2).sum(dtype=torch.float32)
    numbers = torch.randn(64, 64, dtype=torch.complex64, device="cuda")
    (numbers @ numbers.conj().t()).abs()
    torch.fft.fft(numbers)


class _Hourglass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 3, 1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = functional.silu(self.norm(self.first(x)))
        joint = torch.cat([wide, self.up(self.down(wide))], 1)
        return functional.interpolate(self.last(joint), scale_factor=2, mode="bilinear")


@program
def up_and_down_convolutions() -> None:
    model = _Hourglass().cuda()
    train(torch.optim.AdamW(model.parameters()), _square(model, torch.randn(2, 3, 16, 16, device="cuda")))


@program
def recommendation_with_embedding_bags() -> None:
    bags = nn.EmbeddingBag(1000, 16, mode="sum").cuda()
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
    rows, starts = torch.randint(0, 1000, (64,), device="cuda"), torch.arange(0, 64, 4, device="cuda")
    wanted = torch.ones(16, 1, device="cuda")
    optimizer = torch.optim.Adagrad([*bags.parameters(), *model.parameters()])
    train(optimizer, lambda: functional.binary_cross_entropy_with_logits(model(bags(rows, starts)), wanted))


@program
def attention_with_a_mask() -> None:
    model, x = nn.MultiheadAttention(64, 4, batch_first=True).cuda(), torch.randn(2, 16, 64, device="cuda")
    mask = torch.zeros(2, 16, dtype=torch.bool, device="cuda")
    mask[:, 10:] = True
    train(torch.optim.SGD(model.parameters(), 0.1), lambda: model(x, x, x, key_padding_mask=mask)[0].square().mean())


@program
def gradient_of_a_gradient() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1)).cuda()
    x = torch.randn(8, 16, device="cuda", requires_grad=True)
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    slope.norm(2, 1).sub(1).square().mean().backward()
