"""The gain of torch.compile that transformers published for image models on an A100, against a virtual A100.

Published: milliseconds per inference in float32, torch 2.0.1, mode "default", mean of 300
(https://huggingface.co/docs/transformers/perf_torch_compile, tables "A100 (batch size: N)"). Here: the same
architectures with random weights, other versions of torch and transformers, ``values=False``; modelled time per
inference. Needs the package ``transformers``.

Usage: ``python benchmarks/bench_published_compile.py``. Results go to ``benchmarks/results/published_compile.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from conditions import conditions

import cudalens.virtual

HERE = Path(__file__).parent
NUM_CALLS = 3
#: Model and batch size: published milliseconds with and without torch.compile.
PUBLISHED = {
    ("resnet", 1): (4.124, 6.531),
    ("resnet", 4): (4.268, 6.657),
    ("resnet", 16): (5.024, 7.018),
    ("vit", 1): (7.584, 9.325),
    ("vit", 4): (14.499, 14.832),
    ("vit", 16): (40.01, 40.944),
}


def make_models() -> dict[str, torch.nn.Module]:
    """Return the architectures of microsoft/resnet-50 and google/vit-base-patch16-224."""
    models: dict[str, Any] = {
        "resnet": transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000)),
        "vit": transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)),
    }
    return {name: model.eval() for name, model in models.items()}


def modelled_ms(run: Callable[[], Any]) -> float:
    """Return the modelled milliseconds per call on the device, after two calls that compile and warm up."""
    run()
    run()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(NUM_CALLS):
        run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / NUM_CALLS


def main() -> None:
    """Print and write a row for each published one."""
    models, rows = make_models(), []
    with cudalens.virtual.device("a100", values=False), torch.no_grad():
        for (name, batch_size), (published_compiled, published_eager) in PUBLISHED.items():
            torch._dynamo.reset()
            model = models[name].cuda()
            compiled = torch.compile(model, dynamic=False)
            images = torch.empty(batch_size, 3, 224, 224, device="cuda")
            eager_ms = modelled_ms(lambda model=model, images=images: model(images))
            compiled_ms = modelled_ms(lambda model=compiled, images=images: model(images))
            row = {
                "model": name,
                "batch_size": batch_size,
                "published_ms": {"eager": published_eager, "compiled": published_compiled},
                "modelled_ms": {"eager": round(eager_ms, 3), "compiled": round(compiled_ms, 3)},
                "published_gain": round(published_eager / published_compiled, 2),
                "modelled_gain": round(eager_ms / compiled_ms, 2),
            }
            print(json.dumps(row), flush=True)
            rows.append(row)
    result = {"rows": rows, "conditions": {"virtual_device": "a100", **conditions()}}
    (HERE / "results" / "published_compile.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
