"""Measure the overhead of profiling: run the same code with the profiler and without it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from cudalens.analysis.compare.measure import numbered_steps
from cudalens.analysis.compare.significance import difference_interval
from cudalens.analysis.time.work import device_work
from cudalens.api.profile import active, profile
from cudalens.api.session import Outcome, runs
from cudalens.errors import ProfilerError
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints
from cudalens.frames.info import Overhead

#: Confidence level of the interval of a slowdown.
LEVEL: Final = 0.95

#: Minimum number of runs of each kind for medians and an interval.
MIN_RUNS: Final = 3


class PlainRuns:
    """Times runs of code without a profiler, as one interval that ends when the GPU has finished their work."""

    def __init__(self) -> None:
        self._began_ns = time.perf_counter_ns()
        self._ended_ns: list[int] = []

    def ended_one(self) -> None:
        """Count a run that ended without an exception."""
        self._ended_ns.append(time.perf_counter_ns())

    def overhead(self, run: profile, num_profiled: int, *, is_warm: bool, error: BaseException | None) -> Overhead:
        """Return the overhead of the profile `run` of `num_profiled` runs compared with these runs, after the last one.

        Args:
            run: The finished profile.
            num_profiled: Number of runs of the code in it.
            is_warm: Whether the code had run before it was profiled.
            error: The exception that ended the runs without a profiler, or None.
        """
        if error is None:
            wait_for_device()
        elapsed_ns, num_done = time.perf_counter_ns() - self._began_ns, len(self._ended_ns)
        is_known = error is None and num_done > 0
        cost = Overhead(
            profiled_ns=round(run.wall_ns / num_profiled),
            unprofiled_ns=round(elapsed_ns / num_done) if is_known else None,
            num_profiled=num_profiled,
            num_unprofiled=num_done,
            is_warm=is_warm,
            error=Outcome.of(error).error,
        )
        return _by_runs(cost, _times(run.trace), np.diff([self._began_ns, *self._ended_ns])) if is_known else cost


def _times(trace: Trace) -> Ints:
    """Times of the profiled runs, if host times are valid: not with GPU work, nor with simulated times."""
    if trace.info.is_simulated or len(device_work(trace).rows):
        return np.empty(0, np.int64)
    return trace.events["dur"].to_numpy()[numbered_steps(trace)]


def _by_runs(cost: Overhead, profiled: Ints, plain: Ints) -> Overhead:
    """`cost` from medians of single runs, with their interval, so that one stall of the machine has no effect."""
    if len(profiled) != cost.num_profiled or min(len(profiled), len(plain)) < MIN_RUNS:
        return cost
    sides = np.maximum(plain, 1)[None].astype(np.float64), np.maximum(profiled, 1)[None].astype(np.float64)
    (low,), (high,) = difference_interval(*sides, LEVEL, is_ratio=True)
    return msgspec.structs.replace(
        cost,
        profiled_ns=round(float(np.median(profiled))),
        unprofiled_ns=round(float(np.median(plain))),
        low_pct=100 * float(low),
        high_pct=100 * float(high),
    )


def overhead(
    function: Callable[[], object],
    *,
    repeat: int = 5,
    warmup: int = 1,
    name: str | None = None,
    memory: bool = False,
    shapes: bool = False,
    stacks: bool = False,
    modules: bool = False,
    flops: bool = False,
    cpu_only: bool = False,
    metrics: bool | float = False,
    syncs: bool = False,
    keep: bool = True,
    use_device: str | None = None,
) -> Overhead:
    """Measure the overhead of profiling `function`: `warmup` calls, `repeat` profiled calls, `repeat` plain calls.

    Each of the two measurements ends with a wait for the GPU and is divided by its number of runs, so that asynchronous
    GPU work is included in both. Without GPU work, and with three runs or more, the result has medians of single runs
    and a confidence interval of the slowdown. Exceptions of `function` propagate.

    Args:
        function: The function to measure, without arguments. It is called ``warmup + 2 * repeat`` times.
        repeat: Calls of each kind, at least 1.
        warmup: Calls before; without any, the cost of a first call counts as overhead.
        name: Name of the run; by default the function's.
        memory: As `cudalens.profile` takes it, as are all following options.
        shapes: Record input shapes and dtypes of operators.
        stacks: Record the Python stack of operators.
        modules: Record which nn.Modules were running.
        flops: Count floating-point operations.
        cpu_only: Do not record the GPU.
        metrics: Sample the GPUs; a number is the rate in Hz.
        syncs: Record the source line of every wait of the host for the GPU.
        keep: Keep the Trace in `cudalens.runs`.
        use_device: The kind of device to record.

    Returns:
        The overhead. The Trace of the profiled calls, each of them a step, is ``cudalens.runs[name]``; its info and its
        verdict include the overhead.

    Raises:
        ValueError: `repeat` is less than 1, or `warmup` less than 0.
        ProfilerError: It is called inside a profile, where nothing can run without a profiler.
    """
    if repeat < 1 or warmup < 0:
        raise ValueError(f"repeat is {repeat} and warmup is {warmup}, expected at least 1 and at least 0.")
    if active() is not None:
        raise ProfilerError("overhead() was called inside a profiled block; call it outside of it.")
    for _ in range(warmup):
        function()
    wait_for_device()
    run = profile(
        name or getattr(function, "__qualname__", None),
        memory=memory,
        shapes=shapes,
        stacks=stacks,
        modules=modules,
        flops=flops,
        cpu_only=cpu_only,
        metrics=metrics,
        syncs=syncs,
        keep=False,
        use_device=use_device,
    )
    with run:
        for _ in range(repeat):
            run.step()
            function()
    plain = PlainRuns()
    for _ in range(repeat):
        function()
        plain.ended_one()
    cost = plain.overhead(run, repeat, is_warm=warmup > 0, error=None)
    if keep:
        runs.add(run.trace.replace(info=run.trace.info.replace(overhead=cost)))
    return cost


def wait_for_device() -> None:
    """Wait until the GPU has finished all launched work; no effect if the program has not used a GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
