"""Time of a step of Stable Diffusion 1.5's UNet against the published table of diffusers, on five GPUs.

The table: huggingface/diffusers, Apache-2.0, docs/source/en/optimization/torch2.0.md at commit 2c529b75, pipeline
"SD - txt2img" without torch.compile, columns torch 2.0 and torch nightly (2.1); iterations per second, converted to ms.
An iteration runs the UNet once for all images with and without the prompt. Channels last, float16. Nothing was fitted
to the table. An iteration of batch 1 on an A100 or V100 waits for the host, which the prediction leaves out.

Usage: ``python benchmarks/bench_published_diffusion.py`` in an environment that has `diffusers`; prints a row for each
result and writes ``benchmarks/results/published_diffusion.json``.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, Final

import torch

import cudalens

RESULTS: Final = Path(__file__).parent / "results" / "published_diffusion.json"

#: Iterations per second by GPU and images of a batch: torch 2.0, and the nightly build before 2.1.
TABLE: Final[dict[tuple[str, int], tuple[float, float]]] = {
    ("a100", 1): (21.66, 23.13),
    ("a100", 4): (11.6, 13.12),
    ("a100", 16): (3.04, 3.6),
    ("v100", 1): (18.99, 19.14),
    ("v100", 4): (5.96, 5.89),
    ("v100", 16): (1.66, 1.66),
    ("t4", 1): (6.9, 6.95),
    ("t4", 4): (1.79, 1.79),
    ("t4", 16): (1 / 2.34, 1 / 2.30),
    ("rtx3090", 1): (22.56, 22.84),
    ("rtx3090", 4): (6.46, 6.35),
    ("rtx3090", 16): (1.7, 1.69),
    ("rtx4090", 1): (40.5, 41.89),
    ("rtx4090", 4): (12.62, 12.84),
    ("rtx4090", 16): (3.17, 3.2),
}


def step_ms(gpu: str, images: int) -> float:
    """Run the UNet once without values, after a first run; return the time from the first to the last kernel."""
    from diffusers import UNet2DConditionModel

    with cudalens.virtual.device(gpu, values=False), torch.no_grad():
        unet: Any = UNet2DConditionModel(
            sample_size=64,
            cross_attention_dim=768,
            attention_head_dim=8,
            block_out_channels=(320, 640, 1280, 1280),
            down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
            up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
        )
        unet = unet.half().to("cuda", memory_format=torch.channels_last)
        half = {"device": "cuda", "dtype": torch.float16}
        latents, prompt = torch.randn(2 * images, 4, 64, 64, **half), torch.randn(2 * images, 77, 768, **half)
        timestep = torch.tensor([10], device="cuda")
        unet(latents, timestep, encoder_hidden_states=prompt)
        with cudalens.profile() as run:
            unet(latents, timestep, encoder_hidden_states=prompt)
            torch.cuda.synchronize()
        events = run.trace.events
        kernels = events[events["cat"] == "kernel"]
        return float((kernels["ts"] + kernels["dur"]).max() - kernels["ts"].min()) / 1e6


def main() -> int:
    """Run all rows; returns 1 if one that the GPU bounds is off by more than 30 % of both columns."""
    if importlib.util.find_spec("diffusers") is None:
        print("skipped: diffusers is not installed")
        return 0
    rows = []
    for (gpu, images), speeds in TABLE.items():
        ours, published = step_ms(gpu, images), [1000 / speed for speed in speeds]
        ratios = [round(ours / one, 2) for one in published]
        is_host_bound = images == 1 and gpu in ("a100", "v100")
        rows.append({"gpu": gpu, "images": images, "ms": round(ours, 1), "ratios": ratios, "host": is_host_bound})
        print(f"{gpu:8}{images:3}{published[0]:8.1f}{published[1]:8.1f}{ours:8.1f}  {ratios}")
    RESULTS.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    bound = [row for row in rows if not row["host"]]
    within = sum(any(0.7 <= ratio <= 1.3 for ratio in row["ratios"]) for row in bound)
    print(f"{within} of {len(bound)} within 30 % of one of the columns")
    return int(within < len(bound))


if __name__ == "__main__":
    sys.exit(main())
