"""Peak memory of simulated training against Lit-GPT's published table of finetuning runs on an A100 of 40 GB.

The table: Lightning-AI/lit-gpt, Apache-2.0, commit 0cc02afa, tutorials/resource-tables.md (torch 2.1). Its
figure is `torch.cuda.max_memory_allocated()` at the end of a run, which is reached in the first micro-batch: it has the
longest sequence of the data set. The programs are those of that commit, unchanged: the models and the loss are imported
from a clone, and a step is that of `finetune/lora.py` and `finetune/adapter.py`. Nothing was fitted to the table. The
table names the commit 8641822, whose norms of Llama are not in float32; the figures are of the later code.

Usage: ``python benchmarks/bench_published_memory.py FOLDER`` with the clone at that commit, in an environment that has
`lightning`; prints a row for each result and writes ``benchmarks/results/published_memory.json``.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

import cudalens

RESULTS: Final = Path(__file__).parent / "results" / "published_memory.json"

#: How `finetune/lora.py` configures a model.
LORA: Final = {
    "r": 8,
    "alpha": 16,
    "dropout": 0.05,
    "to_query": True,
    "to_key": False,
    "to_value": True,
    "to_projection": False,
    "to_mlp": False,
    "to_head": False,
}


@dataclass(frozen=True)
class Published:
    """A row of the table.

    Attributes:
        method: "lora", "adapter" or "adapter_v2": a module of `lit_gpt`.
        model: Lit-GPT's name of the model.
        length: Tokens of the longest sequence.
        batch: Sequences of a micro-batch.
        parameters: Parameters that are trained.
        gigabytes: Peak of the allocated memory, in units of 10^9 bytes.
    """

    method: str
    model: str
    length: int
    batch: int
    parameters: int
    gigabytes: float


TABLE: Final = (
    Published("lora", "phi-1_5", 1044, 1, 1_572_864, 4.82),
    Published("lora", "phi-1_5", 1044, 2, 1_572_864, 6.76),
    Published("lora", "phi-1_5", 1044, 4, 1_572_864, 10.68),
    Published("lora", "stablelm-base-alpha-3b", 1034, 1, 2_097_152, 9.69),
    Published("lora", "stablelm-base-alpha-3b", 1034, 2, 2_097_152, 12.10),
    Published("lora", "stablelm-base-alpha-3b", 1034, 4, 2_097_152, 16.92),
    Published("lora", "Llama-2-7b-hf", 1304, 1, 4_194_304, 21.30),
    Published("lora", "Llama-2-7b-hf", 1304, 2, 4_194_304, 29.07),
    Published("lora", "Llama-2-13b-hf", 1304, 1, 6_553_600, 38.12),
    Published("adapter", "stablelm-base-alpha-3b", 1034, 1, 573_888, 9.10),
    Published("adapter", "Llama-2-7b-hf", 1304, 1, 1_229_760, 19.98),
    Published("adapter_v2", "stablelm-base-alpha-3b", 1034, 1, 2_125_248, 10.71),
    Published("adapter_v2", "Llama-2-7b-hf", 1304, 1, 4_279_744, 25.51),
)


def peak_gigabytes(row: Published) -> float:
    """Run a micro-batch and a step of the optimizer without values; return the peak of the allocated memory."""
    import lightning

    program = importlib.import_module(f"lit_gpt.{row.method}")
    utils = importlib.import_module("lit_gpt.utils")
    config = program.Config.from_name(name=row.model, **(LORA if row.method == "lora" else {}))
    with cudalens.virtual.device("a100-40gb", values=False):
        fabric = lightning.Fabric(devices=1, accelerator="cuda", precision="bf16-true")
        fabric.launch()
        with fabric.init_module(empty_init=False):
            model: Any = program.GPT(config)
        getattr(program, f"mark_only_{row.method}_as_trainable")(model)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if (count := sum(parameter.numel() for parameter in trained)) != row.parameters:
            raise SystemExit(f"{row.model}: {count:,} parameters are trained, {row.parameters:,} in the table")
        model = fabric.setup_module(model)
        optimizer = fabric.setup_optimizers(torch.optim.AdamW(trained, lr=3e-4, weight_decay=0.01))
        model.max_seq_length = row.length

        tokens = torch.zeros(row.batch, row.length, dtype=torch.int64, device="cuda")
        targets = torch.zeros_like(tokens)
        logits = model(tokens, lm_head_chunk_size=128)
        logits[-1] = logits[-1][..., :-1, :]
        fabric.backward(utils.chunked_cross_entropy(logits, targets[..., 1:]))
        optimizer.step()
        return torch.cuda.max_memory_allocated() / 1e9


def main() -> int:
    """Run all rows; returns 1 if one is off by more than 5 %."""
    if len(sys.argv) != 2:
        print("skipped: no folder with a clone of Lit-GPT at commit 0cc02afa")
        return 0
    sys.path.insert(0, sys.argv[1])
    rows = []
    for row in TABLE:
        ours = peak_gigabytes(row)
        rows.append({**vars(row), "predicted": round(ours, 2), "ratio": round(ours / row.gigabytes, 3)})
        print(f"{row.method:11}{row.model:24}{row.batch:2}{row.gigabytes:8.2f}{ours:8.2f}{ours / row.gigabytes:7.3f}")
    RESULTS.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    within = sum(abs(row["ratio"] - 1) <= 0.05 for row in rows)
    print(f"{within} of {len(rows)} within 5 %")
    return int(within < len(rows))


if __name__ == "__main__":
    sys.exit(main())
