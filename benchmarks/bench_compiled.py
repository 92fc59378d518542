"""A compiled training step of a decoder of 6.7 billion parameters on a virtual device without values.

The step: a decoder-only transformer in bfloat16 (32,000 tokens, width 4,096, 32 heads, 32 layers of LLaMA-7B's sizes),
batch 1 of 2,048 tokens; loss and backward by ``torch.compile``, SGD. The first step compiles. Memory of the whole
process. What must hold: less than 600 s and 4 GB of host memory.

Usage: ``python benchmarks/bench_compiled.py [--layers 32]``. Results go to ``benchmarks/results/compiled.json``.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import torch
from conditions import conditions
from torch import nn
from torch.nn import functional

import cudalens.virtual

HERE = Path(__file__).parent
DEVICE = "h100"
NUM_TOKENS, NUM_WORDS, WIDTH, NUM_HEADS, INNER = 2048, 32_000, 4096, 32, 11_008
WANTED_S, WANTED_GB = 600, 4


class Layer(nn.Module):
    """A decoder layer: attention, and a gated feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.network_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.projections, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 2 * INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input plus both networks."""
        heads = self.projections(self.attention_norm(x)).unflatten(-1, (3, NUM_HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(*heads.unbind(), is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        gate, value = self.up(self.network_norm(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * value)


class Decoder(nn.Module):
    """The model, which returns its loss."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NUM_WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(num_layers))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, NUM_WORDS, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the loss of predicting the words themselves."""
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), words.flatten())


def main() -> int:
    """Run two steps, print and write their figures; 1 if they take too long or too much memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=32)
    num_layers = parser.parse_args().layers
    began = time.perf_counter()
    with cudalens.virtual.device(DEVICE, values=False):
        with torch.device("cuda"):
            model = Decoder(num_layers).bfloat16()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        words = torch.zeros(1, NUM_TOKENS, dtype=torch.long, device="cuda")
        compiled = torch.compile(model)

        def step() -> None:
            compiled(words).backward()
            optimizer.step()
            optimizer.zero_grad()

        built = time.perf_counter()
        step()
        first_step = time.perf_counter()
        with cudalens.profile() as profiled:
            step()
        ended = time.perf_counter()
        events = profiled.trace.events
        kernels = events[events["cat"] == "kernel"]
        graphs = events["name"].astype(str).str.startswith("## Call CompiledFxGraph")
        result = {
            "calls_of_graphs": int(graphs.sum()),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "device_peak_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2),
            "kernels": len(kernels),
            "generated_kernels": int(kernels["name"].astype(str).str.startswith("triton_").sum()),
            "modelled_kernel_ms": round(int(kernels["dur"].sum()) / 1e6, 1),
        }
    result |= {
        "compile_and_first_step_s": round(first_step - built, 1),
        "second_step_s": round(ended - first_step, 1),
        "seconds": round(ended - began, 1),
        "host_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
        "wanted": {"seconds": WANTED_S, "host_gb": WANTED_GB},
        "conditions": {
            "virtual_device": DEVICE,
            **conditions(),
        },
    }
    print(json.dumps(result, indent=1))
    if num_layers == parser.get_default("layers"):
        (HERE / "results" / "compiled.json").write_text(json.dumps(result, indent=1) + "\n")
    return int(result["seconds"] > WANTED_S or result["host_gb"] > WANTED_GB)


if __name__ == "__main__":
    sys.exit(main())
