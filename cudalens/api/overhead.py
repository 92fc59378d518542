"""What profiling itself costs: the same code, run with the profiler and without it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from cudalens.analysis.compare.bootstrap import difference_interval
from cudalens.analysis.compare.measure import numbered_steps
from cudalens.analysis.time.work import device_work
from cudalens.api.outcome import Outcome
from cudalens.api.profile import is_profiling, profile
from cudalens.api.runs import runs
from cudalens.errors import ProfilerError
from cudalens.frames import Trace
from cudalens.frames.info import Overhead

Ints = NDArray[np.int64]


#: Of the interval of a slowdown.
LEVEL: Final = 0.95

#: Of each kind, for medians and an interval: two have no spread to speak of.
MIN_RUNS: Final = 3


class PlainRuns:
    """Times runs of some code without a profiler, as one stretch that ends when the GPU has done what they launched."""

    def __init__(self) -> None:
        self._began_ns = time.perf_counter_ns()
        self._ended_ns: list[int] = []

    def ended_one(self) -> None:
        """One more run has ended well."""
        self._ended_ns.append(time.perf_counter_ns())

    def overhead(self, run: profile, num_profiled: int, *, is_warm: bool, error: BaseException | None) -> Overhead:
        """What the profile `run` of `num_profiled` runs cost against these; to be called when the last one has ended.

        Args:
            run: The profile; it has ended.
            num_profiled: Runs of the code in it.
            is_warm: Whether the code had run before it was profiled.
            error: What ended the runs without a profiler, or None.
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
    """Times of the profiled runs, where the host's are what they took: not beside a GPU, nor in a model's time."""
    if trace.info.is_simulated or len(device_work(trace).rows):
        return np.empty(0, np.int64)
    times: Ints = trace.events["dur"].to_numpy()[numbered_steps(trace)]
    return times


def _by_runs(cost: Overhead, profiled: Ints, plain: Ints) -> Overhead:
    """`cost` by medians of single runs, with their interval: one stall of the machine then makes no slowdown."""
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
    function: Callable[[], Any], *, repeat: int = 5, warmup: int = 1, name: str | None = None, **options: Any
) -> Overhead:
    """What profiling `function` costs: it is called `warmup` times, then `repeat` times profiled, `repeat` times not.

    Each of the two stretches ends with a wait for the GPU and is divided by the number of its runs, so that work that
    the GPU does after the host has gone on is counted in both. Without a GPU at work, medians of single runs are told
    from three on, and the interval in which the slowdown lies. What `function` raises passes on.

    Args:
        function: What is measured, without arguments. It is called ``warmup + 2 * repeat`` times.
        repeat: Calls of each kind, at least 1.
        warmup: Calls before; without any, what a first call costs counts as profiling's cost.
        name: Name of the run; by default the function's.
        **options: Options of `cudalens.profile`.

    Returns:
        The cost. The Trace of the profiled calls, each of them a step, is ``cudalens.runs[name]``; its info holds the
        cost, too, and its verdict tells it.

    Raises:
        ValueError: `repeat` is less than 1, or `warmup` less than 0.
        ProfilerError: It is called inside a profile: nothing would run without a profiler.
    """
    if repeat < 1 or warmup < 0:
        raise ValueError(f"repeat is {repeat} and warmup is {warmup}, expected at least 1 and at least 0.")
    if is_profiling():
        raise ProfilerError("overhead() was called inside a profiled block; call it outside of it.")
    for _ in range(warmup):
        function()
    wait_for_device()
    keep = options.pop("keep", True)
    with profile(name or getattr(function, "__qualname__", None), keep=False, **options) as run:
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
    """Wait until the GPU has done what was launched; nothing where the program has not used one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
