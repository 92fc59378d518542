"""`benchmark`: check two functions, time them in turns on fresh inputs, and certify or refuse the comparison."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from secrets import randbelow
from typing import Any, Final

import torch
from torch.utils._pytree import tree_map

from cudalens._version import __version__
from cudalens.errors import BenchmarkError
from cudalens.fixes.honest.checks import (
    Certificate,
    Cheat,
    Checks,
    Function,
    Timing,
    check_bounds,
    check_claim,
    values_of,
)
from cudalens.fixes.honest.observe import (
    MAX_BYTES,
    Inputs,
    Integrity,
    Observed,
    num_bytes,
    write_set,
)
from cudalens.fixes.settings import Clock, find_clock, read_gpu_clocks, read_settings
from cudalens.fixes.values import compare_values

#: A run on a real clock has as many calls as this takes, ns: shorter ones are noise.
_MIN_RUN_NS: Final = 2_000_000
_MAX_CALLS: Final = 64
#: The results of so many calls of a run are all compared; of more calls, that of one.
_FEW_CALLS: Final = 2
_MAX_RUNS: Final = 1_000


def benchmark(
    a: Callable[..., Any],
    b: Callable[..., Any],
    inputs: Callable[[], Sequence[Any]] | Sequence[Any],
    *,
    runs: int = 7,
    tolerance: float | None = None,
    claimed_ms: float | None = None,
) -> Certificate:
    """Time `b` against `a`, and certify the comparison or refuse it by name.

    Both functions run in turns on inputs whose contents are new each time. All work of the device is waited for, and
    every timed result of `b` is compared with `a`. Refused are, among others, cached and constant results, results that
    are right only when they are checked, work left on another stream or thread, inputs that are changed, a lower
    precision, replaced clocks, and times that the bytes or the operations do not allow;
    ``cudalens.fixes.honest.checks.CHEATS`` lists all. On a virtual device times are modelled.

    ::

        import torch

        import cudalens

        x = torch.randn(64, 64)
        found = cudalens.benchmark(lambda x: x * x, torch.square, inputs=(x,), runs=3)
        assert found.is_accepted

    Args:
        a: The reference.
        b: The function to compare with it.
        inputs: A function without parameters that returns the arguments of one call, with other contents each time; or
            example arguments, whose elements are permuted for each call.
        runs: Timed runs of each, at least 3.
        tolerance: By how much results may differ, relative to the root mean square of a tensor. None for the rounding
            of the dtype, and then a lower precision within `b` is refused.
        claimed_ms: A time of `b` that was measured elsewhere, ms. It is refused if it is below what is measured here.

    Returns:
        The certificate. It prints as one line with the answer, and the conditions.

    Raises:
        BenchmarkError: An argument is invalid, the inputs do not vary, or a function raises.
    """
    for name, function in (("a", a), ("b", b)):
        if not callable(function):
            raise BenchmarkError(f"{name} is {type(function).__name__}, expected a function that takes the inputs.")
    if isinstance(runs, bool) or not isinstance(runs, int) or not 3 <= runs <= _MAX_RUNS:
        raise BenchmarkError(f"runs={runs!r}: expected a whole number from 3 to {_MAX_RUNS:,}.")
    for name, value in (("tolerance", tolerance), ("claimed_ms", claimed_ms)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
            raise BenchmarkError(f"{name}={value!r}: expected None or a number above 0.")
    made, clock, integrity = Inputs(inputs), find_clock(), Integrity()
    if clock.has_values:
        made.check()
    before = read_gpu_clocks() if clock.kind == "cuda" else {}
    checks = Checks(a, b, made, clock, tolerance)
    cheats = [*_replaced(integrity), *checks.run()]
    timing_a = timing_b = None
    if not any(cheat.name in _STOPS for cheat in cheats):
        turns = _Turns(a, b, made, clock, runs, checks)
        timing_a, timing_b = turns.timings()
        known = {cheat.name for cheat in cheats}
        cheats += [cheat for cheat in checks.run_at_end() if cheat.name not in known]  # causes before wrong results
        cheats += turns.wrong_runs(tolerance)
        cheats += [cheat for cheat in _replaced(integrity) if cheat not in cheats]
        cheats += check_bounds(min(timing_b.runs_ns), checks.seen_b, clock, "b")
        if claimed_ms is not None:
            warm, host = turns.warm_and_host()
            cheats += check_claim(claimed_ms * 1e6, list(timing_b.runs_ns), warm, host, checks.seen_b, clock)
            cheats += check_bounds(claimed_ms * 1e6, _most(checks.seen_a, checks.seen_b), clock, "the claim")
    conditions = _conditions(clock, made, timing_b, before)
    return Certificate(timing_a, timing_b, checks.difference, tuple(cheats), conditions, clock.kind == "modelled")


#: With these, a function is not timed: its time has no meaning, or other work would be disturbed.
_STOPS: Final = frozenset({"patched timer", "patched torch", "unfinished thread", "lazy output", "different shape"})


def _replaced(integrity: Integrity) -> list[Cheat]:
    found = []
    if timers := integrity.patched_timers():
        found.append(Cheat("patched timer", f"replaced: {', '.join(timers)}."))
    timers = [name for name in timers if name]
    if functions := [name for name in integrity.patched_functions() if name not in timers]:
        found.append(Cheat("patched torch", f"replaced: {', '.join(functions[:5])}."))
    if settings := integrity.changed_settings():
        found.append(Cheat("changed settings", f"changed: {', '.join(settings)}."))
    return found


def _most(a: Observed, b: Observed) -> Observed:
    """What a claim must at least do: what the cheaper of the two functions does."""
    return Observed(num_bytes=min(a.num_bytes, b.num_bytes), flops=min(a.flops, b.flops), low_dtypes=b.low_dtypes)


class _Turns:
    """Timed runs of both functions in turns, each on sets of inputs with fresh contents."""

    def __init__(self, a: Function, b: Function, inputs: Inputs, clock: Clock, runs: int, checks: Checks) -> None:
        self._functions = (a, b)
        self._inputs, self._clock, self._runs, self._checks = inputs, clock, runs, checks
        self._sets = [inputs.fresh() for _ in range(self._num_calls())]
        self._wrong: list[str] = []
        self._results: list[tuple[tuple[Any, ...], Any]] = []

    def _num_calls(self) -> int:
        """Calls of a run: each has a set of inputs of its own."""
        if self._clock.kind == "modelled":
            return 2
        example = self._inputs.fresh()
        shortest, _ = self._clock.time(lambda: self._functions[1](*example))
        fit = max(1, MAX_BYTES // max(num_bytes(example), 1))
        return int(max(1, min(_MAX_CALLS, fit, -(-_MIN_RUN_NS // max(shortest, 1)))))

    def timings(self) -> tuple[Timing, Timing]:
        """Time both; the order changes from run to run."""
        times: tuple[list[float], list[float]] = ([], [])
        peaks: list[list[int | None]] = [[], []]
        for number in range(self._runs + 1):
            self._refresh()
            compared = self._choose_calls()
            kept = {at: _on_host(self._sets[at]) for at in compared}
            for which in (0, 1) if number % 2 else (1, 0):
                before = self._clock.begin_peak()
                ns, results = self._time(self._functions[which], self._sets, compared)
                peaks[which].append(self._clock.peak_bytes(before))
                if number:  # the first runs are warm-up
                    times[which].append(ns / len(self._sets))
                if which == 1:
                    self._results += [(kept[at], _on_host(result)) for at, result in results.items()]
                del results
        checks = self._checks
        return (
            Timing(tuple(times[0]), checks.first_a_ns, _largest(peaks[0])),
            Timing(tuple(times[1]), checks.first_b_ns, _largest(peaks[1])),
        )

    def _refresh(self) -> None:
        with self._inputs.own_random():
            for one in self._sets:
                write_set(one, self._inputs.make())

    def _choose_calls(self) -> set[int]:
        """Choose the calls of a run whose results are compared: not with a generator that `b` can seed."""
        num_calls = len(self._sets)
        return set(range(num_calls)) if num_calls <= _FEW_CALLS else {randbelow(num_calls)}

    def _time(
        self, function: Function, sets: Sequence[tuple[Any, ...]], compared: set[int]
    ) -> tuple[int, dict[int, Any]]:
        """The time of all calls, and the results of those that are compared."""
        self._clock.flush_cache()

        def calls() -> dict[int, Any]:
            results = {}
            for number, one in enumerate(sets):
                if number in compared:
                    results[number] = function(*one)
                else:
                    function(*one)  # its result is freed before the next call, as by a program that goes on
            return results

        return self._clock.time(calls)

    def wrong_runs(self, tolerance: float | None) -> list[Cheat]:
        """Return whether a timed run had another result than the reference."""
        if not self._clock.has_values or not self._checks.difference.is_within(tolerance):
            return []
        for number, (given, result) in enumerate(self._results):
            write_set(self._sets[0], given)
            want = values_of(self._functions[0](*self._sets[0]))
            difference = compare_values(want, values_of(result))
            if not difference.is_within(tolerance):
                return [Cheat("correct only at first", f"timed call {number + 1}: {difference}.")]
        return []

    def warm_and_host(self) -> tuple[list[float], list[float]]:
        """Times of `b` with the same inputs again, and until its calls return."""
        warm, host = [], []
        one = self._sets[0]
        for _ in range(self._runs):
            ns, _ = self._clock.time(lambda: [self._functions[1](*one) for _ in self._sets])
            warm.append(ns / len(self._sets))
            self._clock.wait()
            start = self._clock.now()
            for given in self._sets:
                self._functions[1](*given)
            host.append((self._clock.now() - start) / len(self._sets))
            self._clock.wait()
        return warm, host


def _on_host(values: Any) -> Any:
    """Return values with their tensors copied to the host: copies on the device would change what runs allocate."""
    return tree_map(lambda one: one.detach().cpu().clone() if isinstance(one, torch.Tensor) else one, values)


def _largest(peaks: list[int | None]) -> int | None:
    known = [one for one in peaks if one is not None]
    return max(known) if known else None


def _conditions(clock: Clock, inputs: Inputs, timing: Timing | None, before: dict[str, str]) -> dict[str, str]:
    settings = read_settings()
    how, caches = "host clock, from idle until all work is done", "as the other function left them"
    if clock.kind == "modelled":
        how, caches = "modelled time of the device", "not modelled"
    elif clock.kind == "cuda":
        caches = "L2 overwritten before each run"
    found = {
        "device": clock.device,
        "clock": how,
        "inputs": inputs.how,
        "order": "in turns, the first alternates; one run of each before is not counted",
        "caches": caches,
        "versions": f"cudalens {__version__}, torch {torch.__version__}, Python {platform.python_version()}",
        "settings": ", ".join(f"{name} {value}" for name, value in settings.items()),
    }
    if timing is not None:
        found["spread"] = f"{timing.spread_pct:.1f} % (median absolute deviation of b)"
        found["first call"] = f"{timing.first_ns / 1e6:.3g} ms"
    for name, value in (read_gpu_clocks() if clock.kind == "cuda" else {}).items():
        found[name] = f"{before.get(name, '?')} before, {value} after"
    return found
