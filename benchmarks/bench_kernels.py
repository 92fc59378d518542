"""`compare` and `fingerprint` against the bandwidth of a copy, and against torch expressions with the same results.

On a GPU it must hold, with 1 GiB per tensor: both reach 85 % of the measured bandwidth of a copy, and `compare` is at
least 3 times faster than torch operators that find the same four numbers. All are measured in one process, in turn, by
the device's events: medians of 15 runs after 3. Without a GPU there is nothing to measure, and it says so.

Usage: ``python benchmarks/bench_kernels.py [bytes]``. Results go to ``benchmarks/results/kernels.json``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

HERE = Path(__file__).parent
WANTED_SHARE, WANTED_SPEEDUP = 0.85, 3.0
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int8)


def by_torch(a, b):
    """How many elements differ, the largest absolute and relative difference, the first index; NaNs as in `compare`."""
    nan_a, nan_b = a.isnan(), b.isnan()
    differs = (a != b) & ~(nan_a & nan_b)
    counts = differs & ~(nan_a | nan_b)
    x, y = a.float(), b.float()
    diff = torch.where(counts, (x - y).abs(), 0.0)
    relative = torch.where(counts, diff / torch.maximum(x.abs(), y.abs()), 0.0)
    return differs.sum(), diff.max(), relative.max(), differs.flatten().to(torch.uint8).argmax()


def measured(num_bytes):
    from cudalens.kernels import ceilings

    limits = ceilings()
    return limits, [row_of(dtype, num_bytes, limits.copy_bytes_per_s) for dtype in DTYPES]


def row_of(dtype, num_bytes, copy_bytes_per_s):
    from cudalens.kernels import triton_kernels
    from cudalens.kernels.ceilings import median_s
    from cudalens.kernels.fingerprint import plain_bytes, split_words

    a = torch.randint(-100, 100, (num_bytes // dtype.itemsize,), device="cuda").to(dtype)
    b = a.clone()
    b[-1] += 1
    words = split_words(plain_bytes(a))
    compare_s = median_s(lambda: triton_kernels.begin(a, b))
    fingerprint_s = median_s(lambda: triton_kernels.run_fingerprint(*words))
    torch_s = median_s(lambda: by_torch(a, b))
    return {
        "dtype": str(dtype),
        "compare_s": compare_s,
        "fingerprint_s": fingerprint_s,
        "torch_s": torch_s,
        "compare_share_of_copy": 2 * a.nbytes / compare_s / copy_bytes_per_s,
        "fingerprint_share_of_copy": a.nbytes / fingerprint_s / copy_bytes_per_s,
        "speedup": torch_s / compare_s,
    }


def result(num_bytes):
    """The result on the current device, as it is written."""
    limits, rows = measured(num_bytes)
    return {
        "what": "compare and fingerprint against a copy and against torch operators",
        "device": limits.device,
        "driver": limits.driver,
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "bytes_per_tensor": num_bytes,
        "copy_bytes_per_s": limits.copy_bytes_per_s,
        "read_bytes_per_s": limits.read_bytes_per_s,
        "wanted": {"share_of_copy": WANTED_SHARE, "speedup": WANTED_SPEEDUP},
        "rows": rows,
    }


def main():
    if not torch.cuda.is_available():
        print("no GPU: nothing was measured")
        return 0
    found = result(int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 30)
    rows = found["rows"]
    (HERE / "results" / "kernels.json").write_text(json.dumps(found, indent=2) + "\n")
    for row in rows:
        print(
            f"{row['dtype']:16} compare {row['compare_share_of_copy']:.0%} of a copy, {row['speedup']:.1f} x torch; "
            f"fingerprint {row['fingerprint_share_of_copy']:.0%}"
        )
    holds = all(
        row["compare_share_of_copy"] >= WANTED_SHARE
        and row["fingerprint_share_of_copy"] >= WANTED_SHARE
        and row["speedup"] >= WANTED_SPEEDUP
        for row in rows
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
