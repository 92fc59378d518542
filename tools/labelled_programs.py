"""Whole programs with measured times (NeuSight's labels): BERT-large and GPT-3 XL, in the operators of Hugging Face.

``python tools/labelled_programs.py FOLDER`` runs each labelled program on the virtual device without values and prints
measured and predicted times. `tools/accuracy.py` writes them into the documentation. The labels are times of a forward
pass (inference), or of a forward and of a backward pass (training), in float32 without TF32, each between two CUDA
events and with an empty cache of the allocator. As in NeuSight's ``neusight/Tracing/trace.py``, inference of BERT is
``AutoModelForSequenceClassification`` and training is ``AutoModelForPreTraining``, gradients of all passes are added,
and the time of the loss is not measured.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

import cudalens
from cudalens.virtual.fit.runs import Kernels

#: Specifications of the GPUs of the labels.
GPUS: Final = {
    "NVIDIA_A100-PCIE-40GB": "a100",
    "NVIDIA_A100_80GB_PCIe": "a100-80gb",
    "NVIDIA_H100_80GB_HBM3": "h100",
    "NVIDIA_L4": "l4",
    "Tesla_P100-PCIE-16GB": "p100",
    "Tesla_P4": "p4",
    "Tesla_T4": "t4",
    "Tesla_V100-PCIE-32GB": "v100",
}
#: A label without options: fused programs and several GPUs are other programs.
_LABEL: Final = re.compile(r"(?P<model>bert_large|gpt3_xl)-(?P<kind>inf|train)-(?P<length>\d+)-(?P<batch>\d+)\.json")


class Label(NamedTuple):
    """A measured program.

    Attributes:
        gpu: The key of the GPU.
        model: "bert_large" or "gpt3_xl".
        kind: "inf" or "train".
        length: Tokens of a sequence.
        batch: Sequences.
        measured_ms: The measured time.
    """

    gpu: str
    model: str
    kind: str
    length: int
    batch: int
    measured_ms: float


class Attention(nn.Module):
    """Self-attention without a fused kernel; GPT-2's has one projection and a causal mask."""

    def __init__(self, width: int, heads: int, is_causal: bool, dropout: float) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.inputs = nn.ModuleList(
            nn.Linear(width, 3 * width if is_causal else width) for _ in range(1 if is_causal else 3)
        )
        self.output = nn.Linear(width, width)
        self.dropout, self.residual_dropout = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) to the same shape."""
        batch, length, width = x.shape
        found = self.inputs[0](x).split(width, dim=2) if self.is_causal else [layer(x) for layer in self.inputs]
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in found)
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(width // self.heads)
        if self.is_causal:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            scores = torch.where(mask, scores, torch.full([], -1e38, device=x.device))
        else:
            scores = scores + torch.zeros(batch, 1, 1, length, device=x.device)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, width)
        return self.residual_dropout(self.output(mixed))


def new_gelu(x: Tensor) -> Tensor:
    """GPT-2's activation, which its Python code writes in eight pointwise operators."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Block(nn.Module):
    """A layer: BERT normalises behind each part, GPT-2 before it."""

    def __init__(self, width: int, heads: int, inner: int, is_causal: bool, dropout: float) -> None:
        super().__init__()
        self.is_causal = is_causal
        self.attention = Attention(width, heads, is_causal, dropout)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) to the same shape."""
        if self.is_causal:
            x = x + self.attention(self.first(x))
            return x + self.dropout(self.down(new_gelu(self.up(self.second(x)))))
        x = self.first(self.attention(x) + x)
        return self.second(self.dropout(self.down(nn.functional.gelu(self.up(x)))) + x)


class LanguageModel(nn.Module):
    """BERT-large or GPT-3 XL from NeuSight's configuration.

    GPT has its language-model head; BERT has a classifier of the sequence, and in training a language-model head too.
    """

    def __init__(self, config: dict[str, Any], is_training: bool) -> None:
        super().__init__()
        self.is_causal = config["model_type"] == "gpt2"
        names = ("n_embd", "n_head", "n_layer", "n_positions", "resid_pdrop") if self.is_causal else (
            "hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings", "hidden_dropout_prob",
        )  # fmt: skip
        width, heads, layers, positions, dropout = (config[name] for name in names)
        inner = config.get("intermediate_size", 4 * width)
        self.words, self.positions = nn.Embedding(config["vocab_size"], width), nn.Embedding(positions, width)
        self.types = None if self.is_causal else nn.Embedding(2, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, inner, self.is_causal, dropout) for _ in range(layers))
        self.pooler = None if self.is_causal else nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))
        self.transform, self.head = nn.Identity(), nn.Linear(width, config["vocab_size"], bias=not self.is_causal)
        if not self.is_causal:
            self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.has_head = self.is_causal or is_training

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) tokens to (batch, length, vocabulary) scores, or (batch, 2) classes."""
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        if self.types is not None:
            x = self.norm(x + self.types(torch.zeros_like(tokens)))
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        if self.pooler is None:
            return self.head(self.norm(x))
        classes = self.pooler(x[:, 0])
        return self.head(self.transform(x)) if self.has_head else classes


def predict(label: Label, config: dict[str, Any]) -> tuple[float, list[tuple[str, int]]]:
    """The time of a program between two CUDA events on the virtual device without values, after a first run, in ms.

    Also the families and durations (ns) of its kernels.
    """
    is_training = label.kind == "train"
    with cudalens.virtual.device(label.gpu, values=False) as on, torch.set_grad_enabled(is_training):
        with torch.device("cuda"):
            model = LanguageModel(config, is_training).train(is_training)
            tokens = torch.zeros(label.batch, label.length, dtype=torch.int64)
        for _ in range(2):
            torch.cuda.empty_cache()
            on.gpus.machine.recorder = recorded = Kernels()
            forward_ms, scores = _timed(lambda: model(tokens))
            backward_ms = 0.0
            if is_training:
                loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())
                del scores
                backward_ms, _ = _timed(loss.backward)
        on.gpus.machine.recorder = None
        return forward_ms + backward_ms, recorded.works


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """The time between two CUDA events in ms, and the result."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    found = call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)), found


def labels(folder: Path) -> Iterator[Label]:
    """The measured programs of one GPU without fusion, in the folder of measured times."""
    for path in sorted((folder / "programs").glob("*/*.json")):
        found = _LABEL.fullmatch(path.name)
        if found and path.parent.name in GPUS:
            measured = json.loads(path.read_text())["e2e_latency"]
            sizes = int(found["length"]), int(found["batch"])
            yield Label(GPUS[path.parent.name], found["model"], found["kind"], *sizes, measured)


def report(folder: Path) -> list[tuple[Label, float]]:
    """Every measured program with its predicted time in ms."""
    return [(label, predicted) for label, predicted, _ in report_kernels(folder)]


def report_kernels(folder: Path) -> list[tuple[Label, float, list[tuple[str, int]]]]:
    """Every measured program with its predicted time in ms, and the families and durations (ns) of its kernels."""
    configs = {
        name: json.loads((folder / "programs" / f"config_{name}.json").read_text())
        for name in ("bert_large", "gpt3_xl")
    }
    return [(label, *predict(label, configs[label.model])) for label in labels(folder)]


def main() -> None:
    """Print measured and predicted times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of measured times")
    found = report(parser.parse_args().folder)
    for label, predicted in found:
        name, ratio = " ".join(map(str, label[:5])), predicted / label.measured_ms
        print(f"{name:40} {label.measured_ms:9.1f} {predicted:9.1f} ms {ratio:6.2f}")
    errors = [abs(predicted / label.measured_ms - 1) for label, predicted in found]
    print(f"mean error {100 * sum(errors) / len(errors):.1f} % of {len(errors)} programs")


if __name__ == "__main__":
    main()
