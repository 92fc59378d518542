"""`calibrate`: time operators on a GPU and write the constants of its kernels to a file."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.gpus.constants import fit_of, rates_of
from cudalens.gpus.predict import PROGRAM_NS
from cudalens.gpus.registry import SPECS, DeviceSpec
from cudalens.virtual.calibration.fitting import PREDICT, fit_constants
from cudalens.virtual.calibration.operators import Operator, operators
from cudalens.virtual.calibration.spec_file import write_calibration

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
    """The specification of the current CUDA device: of its name, else of the most similar GPU at its size."""
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
