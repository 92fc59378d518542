"""Fit the constants of a formula to measured times, by gradient descent on the relative errors."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from cudalens.gpus import time_formulas

#: Computes times in ns from constants, the rates of a GPU, and sizes as attributes.
Predict = Callable[[time_formulas.Constants, time_formulas.Rates, Any], Any]

#: The formulas of the families that users calibrate, on the sizes of `cudalens.virtual.calibration.operators`.
PREDICT: Final[Mapping[str, Predict]] = {
    "matrix_half": lambda c, gpu, x: time_formulas.matrix_ns(c, gpu, x.batch, x.m, x.n, x.k, x.element_bytes),
    "matrix_single": lambda c, gpu, x: time_formulas.matrix_ns(c, gpu, x.batch, x.m, x.n, x.k, x.element_bytes),
    "attention": lambda c, gpu, x: time_formulas.attention_ns(
        c, gpu, x.batch, x.queries, x.keys, x.heads, x.kv_heads, x.head_dim, is_causal=True
    ),
    "decode": lambda c, gpu, x: time_formulas.decode_ns(c, gpu, x.batch, x.keys, x.heads, x.kv_heads, x.head_dim),
    "softmax": lambda c, gpu, x: time_formulas.rows_ns(c, gpu, x.rows, x.length, 8 * x.rows * x.length),
    "layer_norm": lambda c, gpu, x: time_formulas.layer_norm_ns(c, gpu, x.rows, x.length, 8 * x.rows * x.length),
    "pointwise": lambda c, gpu, x: time_formulas.pointwise_ns(c, gpu, x.num_bytes),
}


def fit_constants(
    predict: Predict,
    start: Mapping[str, float],
    gpu: time_formulas.Rates,
    sizes: Any,
    *,
    frozen: frozenset[str] = frozenset(),
    ridge: float = 0.0,
    rate: float = 0.05,
    steps: int = 300,
    deadline: float = math.inf,
) -> dict[str, float]:
    """The constants that minimise the relative errors.

    Args:
        predict: The formula.
        start: The constants to start from.
        gpu: The rates of the GPU.
        sizes: The sizes as attributes that are float64 tensors, with the measured ``time_ns``, and optionally the
            ``weight`` of each measurement.
        frozen: Constants that keep their start.
        ridge: Penalty on the squared logarithms of changes, for few measurements.
        rate: Step of the optimizer (Adam), in logarithms.
        steps: Number of steps.
        deadline: No step starts after this time of `time.monotonic`; at least one is made.
    """
    logs = {
        name: torch.tensor(math.log(value), dtype=torch.float64, requires_grad=True) for name, value in start.items()
    }
    weights = getattr(sizes, "weight", torch.ones_like(sizes.time_ns))
    optimizer = torch.optim.Adam([value for name, value in logs.items() if name not in frozen], lr=rate)
    for step in range(steps):
        if step and time.monotonic() > deadline:
            break
        optimizer.zero_grad()
        ratios = predict({name: value.exp() for name, value in logs.items()}, gpu, sizes) / sizes.time_ns
        # Logarithms alone favour predictions that are too long; ratios alone, predictions that are too short.
        errors = (ratios - 1 + ratios.log()) / 2
        losses = torch.nn.functional.huber_loss(errors, torch.zeros_like(errors), delta=0.1, reduction="none")
        changes = sum((value - math.log(start[name])) ** 2 for name, value in logs.items())
        loss: Any = (losses * weights).sum() / weights.sum() + ridge * changes
        loss.backward()
        optimizer.step()
    return {name: float(f"{float(value.detach().exp()):.4g}") for name, value in logs.items()}
