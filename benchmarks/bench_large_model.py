"""A training step of a model of 7 billion parameters on a virtual device without values.

The step: a decoder-only transformer in bfloat16 (32,000 tokens, width 4,096, 32 heads, 26 layers), batch 1 of 2,048
tokens, every layer checkpointed; loss, backward, AdamW. Time from the construction of the model on; memory of the
whole process. What must hold: less than 60 s and 4 GB of host memory.

Usage: ``python benchmarks/bench_large_model.py``. Results go to ``benchmarks/results/large_model.json``.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import torch
from conditions import conditions

import cudalens.virtual

HERE = Path(__file__).parent
DEVICE = "h100"
NUM_TOKENS = 2048
WANTED_S, WANTED_GB = 60, 4


def main() -> int:
    """Run the step, print and write its figures; 1 if it takes too long or too much memory."""
    sys.path.insert(0, str(HERE.parent / "tests" / "support"))
    from training_programs import LanguageModel

    began = time.perf_counter()
    with cudalens.virtual.device(DEVICE, values=False):
        model = LanguageModel(32_000, 4096, 32, 26, checkpoints=True).to("cuda", torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters())
        words = torch.randint(0, 9, (1, NUM_TOKENS), device="cuda")
        model.loss(words).backward()
        optimizer.step()
        torch.cuda.synchronize()
        result = {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "device_peak_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2),
        }
    result |= {
        "seconds": round(time.perf_counter() - began, 2),
        "host_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
        "wanted": {"seconds": WANTED_S, "host_gb": WANTED_GB},
        "conditions": {
            "virtual_device": DEVICE,
            **conditions(),
        },
    }
    print(json.dumps(result, indent=1))
    (HERE / "results" / "large_model.json").write_text(json.dumps(result, indent=1) + "\n")
    return int(result["seconds"] > WANTED_S or result["host_gb"] > WANTED_GB)


if __name__ == "__main__":
    sys.exit(main())
