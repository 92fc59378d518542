"""`calibrate`: time operators on a GPU and write the constants of its kernels to a file."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import torch
from torch.nn import functional

from cudalens.errors import VirtualDeviceError
from cudalens.gpus import time_formulas
from cudalens.gpus.constants import fit_of, rates_of
from cudalens.gpus.predict import PROGRAM_NS
from cudalens.gpus.registry import SPECS, DeviceSpec
from cudalens.virtual.calibration.spec_file import write_calibration

#: Computes times in ns from constants, the rates of a GPU, and sizes as attributes.
Predict = Callable[[time_formulas.Constants, time_formulas.Rates, Any], Any]

#: The formulas of the families that users calibrate, on the sizes of `cudalens.virtual.calibration.measure`.
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
    """Return the constants that minimise the relative errors.

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


class Operator(NamedTuple):
    """An operator on tensors of one size.

    Attributes:
        family: The family of its constants.
        sizes: The sizes by their names in the formula of the family.
        num_bytes: Bytes of its operands and its result.
        prepare: Makes the operands on the current CUDA device and returns the call.
    """

    family: str
    sizes: dict[str, int]
    num_bytes: int
    prepare: Callable[[], Callable[[], Any]]


def operators(half: torch.dtype) -> Iterator[Operator]:
    """About 200 operators; `half` is the dtype of products on tensor cores."""
    yield from _products(half)
    yield from _attention(half)
    yield from _rows()
    for power in range(8, 29):
        yield _pointwise(2**power, functional.relu)
    for power in range(12, 28, 3):
        yield _pointwise(2**power, torch.tanh)


_WEIGHTS: Final = ((256, 256), (1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096), (8192, 8192), (16384, 4096))


def _products(half: torch.dtype) -> Iterator[Operator]:
    for n, k in _WEIGHTS:
        for m in (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
            yield _product("matrix_half", half, 1, m, n, k)
    for n, k in _WEIGHTS[:6]:
        for m in (16, 128, 512, 2048, 4096):
            yield _product("matrix_single", torch.float32, 1, m, n, k)
    for batch, m, n, k in ((16, 128, 128, 64), (16, 1024, 1024, 64), (256, 512, 512, 64), (256, 512, 64, 512)):
        yield _product("matrix_single", torch.float32, batch, m, n, k)


def _product(family: str, dtype: torch.dtype, batch: int, m: int, n: int, k: int) -> Operator:
    def prepare() -> Callable[[], Any]:
        a = torch.ones(batch, m, k, dtype=dtype, device="cuda")
        b = torch.ones(batch, k, n, dtype=dtype, device="cuda")
        return (lambda: torch.mm(a[0], b[0])) if batch == 1 else (lambda: torch.bmm(a, b))

    num_bytes = batch * (m * k + k * n + m * n) * dtype.itemsize
    sizes = {"batch": batch, "m": m, "n": n, "k": k, "element_bytes": dtype.itemsize}
    return Operator(family, sizes, num_bytes, prepare)


def _attention(half: torch.dtype) -> Iterator[Operator]:
    for batch in (1, 8):
        for length in (128, 512, 1024, 2048, 4096):
            for head_dim in (64, 128):
                yield _attend("attention", half, batch, length, length, head_dim)
    for batch in (1, 16, 64):
        for keys in (128, 1024, 4096, 16384):
            yield _attend("decode", half, batch, 1, keys, 128)


def _attend(family: str, dtype: torch.dtype, batch: int, queries: int, keys: int, head_dim: int) -> Operator:
    heads = 16

    def prepare() -> Callable[[], Any]:
        query = torch.ones(batch, heads, queries, head_dim, dtype=dtype, device="cuda")
        key = torch.ones(batch, heads, keys, head_dim, dtype=dtype, device="cuda")
        return lambda: functional.scaled_dot_product_attention(query, key, key, is_causal=queries > 1)

    num_bytes = 2 * batch * heads * head_dim * (queries + keys) * dtype.itemsize
    sizes = {"batch": batch, "queries": queries, "keys": keys, "heads": heads, "kv_heads": heads, "head_dim": head_dim}
    return Operator(family, sizes, num_bytes, prepare)


def _rows() -> Iterator[Operator]:
    for length in (64, 256, 1000, 1024, 2048, 5001, 16384):
        for rows in (32, 1024, 8192):
            yield _row("softmax", rows, length, lambda x: torch.softmax(x, -1))
            yield _row("layer_norm", rows, length, lambda x: functional.layer_norm(x, x.shape[-1:]))


def _row(family: str, rows: int, length: int, call: Callable[[torch.Tensor], Any]) -> Operator:
    def prepare() -> Callable[[], Any]:
        x = torch.ones(rows, length, device="cuda")
        return lambda: call(x)

    return Operator(family, {"rows": rows, "length": length}, 8 * rows * length, prepare)


def _pointwise(num_elements: int, call: Callable[[torch.Tensor], Any]) -> Operator:
    def prepare() -> Callable[[], Any]:
        x = torch.ones(num_elements, device="cuda")
        return lambda: call(x)

    return Operator("pointwise", {"num_bytes": 8 * num_elements}, 8 * num_elements, prepare)


#: Launches in a graph, and replays of which the shortest counts.
LAUNCHES: Final = 8
REPLAYS: Final = 3
#: The part of the time that measurements may take; the rest is for the fit.
MEASURING: Final = 0.7
#: Steps of the fit, which starts from the constants of the most similar GPU.
STEPS: Final = 120
#: Families with fewer measurements than this keep the constants of the most similar GPU.
FEWEST: Final = 6


def calibrate(path: str | PathLike[str], *, max_bytes: int = 2 << 30, seconds: float = 110.0) -> dict[str, float]:
    """Time about 200 operators on the current CUDA device and write its constants to a file.

    ``cudalens.virtual.device("my-gpu", calibration=path)`` is a virtual device with these times.

    Args:
        path: The file to write, JSON.
        max_bytes: Operators with more bytes of operands and results are left out.
        seconds: Limit of the whole time, measurements and fit. What does not fit in is left out: operators that would
            take longer than the rest of the time, and steps of the fit.

    Returns:
        The mean absolute error of the fitted formulas in percent, by family of kernels.

    Raises:
        VirtualDeviceError: There is no CUDA device, or no operator could be timed.
    """
    if not torch.cuda.is_available():
        raise VirtualDeviceError("calibrate times operators on a GPU, and torch.cuda.is_available() is False here.")
    spec = measured_spec()
    began = time.monotonic()
    timed = _timed_operators(spec, max_bytes, began + seconds * MEASURING)
    enough = {name: rows for name, rows in timed.items() if len(rows) >= FEWEST}
    found = {}
    for number, (name, rows) in enumerate(enough.items()):
        now = time.monotonic()
        found[name] = _fit(spec, name, rows, now + (began + seconds - now) / (len(enough) - number))
    if not found:
        raise VirtualDeviceError("calibrate could not time enough operators; give it more bytes or more seconds.")
    families = {name: constants for name, (constants, _) in found.items()}
    write_calibration(Path(path), spec, families, {name: error for name, (_, error) in found.items()})
    return {name: error for name, (_, error) in found.items()}


def measured_spec() -> DeviceSpec:
    """Return the specification of the current CUDA device: of its name, else of the most similar GPU at its size."""
    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    by_name = [spec for spec in SPECS.values() if spec.name == facts.name]
    similar = min(SPECS.values(), key=lambda spec: _difference(spec, facts))
    base = by_name[0] if by_name else similar
    scale = facts.multi_processor_count / base.num_sms
    return base.replace(
        name=facts.name,
        total_memory_bytes=facts.total_memory,
        num_sms=facts.multi_processor_count,
        peak_tflops={name: rate * scale for name, rate in base.peak_tflops.items()},
        sources=("cudalens.virtual.calibrate",),
    )


def _difference(spec: DeviceSpec, facts: Any) -> tuple[int, int, int]:
    major, minor = spec.compute_capability
    sizes = abs(spec.num_sms - facts.multi_processor_count)
    return abs(major - facts.major), abs(minor - facts.minor), sizes


def _timed_operators(spec: DeviceSpec, max_bytes: int, deadline: float) -> dict[str, list[dict[str, float]]]:
    """Sizes and times by family. All families are sampled evenly if time runs out."""
    half = torch.bfloat16 if spec.compute_capability >= (8, 0) else torch.float16
    by_family: dict[str, list[Operator]] = defaultdict(list)
    for operator in operators(half):
        if operator.num_bytes <= max_bytes:
            by_family[operator.family].append(operator)
    order = sorted(
        (index / len(group), name, index) for name, group in by_family.items() for index in range(len(group))
    )
    timed: dict[str, list[dict[str, float]]] = defaultdict(list)
    for _, name, index in order:
        if time.monotonic() > deadline:
            break
        operator = by_family[name][index]
        program_ns = PROGRAM_NS if name.startswith("matrix") else 0
        if (time_ns := _kernel_ns(operator, spec.graph_node_ns, deadline)) is not None:
            timed[name].append({**operator.sizes, "time_ns": max(time_ns - program_ns, 500.0)})
    return timed


def _kernel_ns(operator: Operator, node_ns: int, deadline: float) -> float | None:
    """Time of the operator's kernels in a replayed graph, ns; None if it does not fit, cannot run or takes too long."""
    try:
        call = operator.prepare()
        call()
        once_s = _elapsed_ns(call) / 1e9
        if once_s * LAUNCHES * (REPLAYS + 1) > deadline - time.monotonic():
            return None
        run = _graph(call)
        times = [_elapsed_ns(run) / LAUNCHES for _ in range(REPLAYS)]
    except (torch.OutOfMemoryError, NotImplementedError):
        return None
    return min(times) - node_ns


def _graph(call: Callable[[], Any]) -> Callable[[], None]:
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            call()
    graph.replay()
    return graph.replay


def _elapsed_ns(run: Callable[[], Any]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e6


def _fit(spec: DeviceSpec, name: str, rows: list[dict[str, float]], deadline: float) -> tuple[dict[str, float], float]:
    """Constants of a family, and their mean absolute error in percent; no step of the fit starts after the deadline."""
    peak = "float32"
    if name in ("matrix_half", "attention", "decode"):
        peak = "bfloat16" if spec.compute_capability >= (8, 0) else "float16"
    gpu = rates_of(spec, peak)
    columns = {key: torch.tensor([row[key] for row in rows], dtype=torch.float64) for key in rows[0]}
    sizes = SimpleNamespace(**columns)
    start = fit_of(spec, name).constants
    frozen = frozenset(("cache_steepness",)) & set(start)
    limits: Any = {"steps": STEPS, "deadline": deadline}
    constants = fit_constants(PREDICT[name], start, gpu, sizes, frozen=frozen, ridge=0.0005, rate=0.03, **limits)
    ratios = PREDICT[name](constants, gpu, sizes) / sizes.time_ns
    return constants, round(float((ratios - 1).abs().mean()) * 100, 1)
