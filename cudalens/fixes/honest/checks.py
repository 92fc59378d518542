"""The checks of a benchmark, and its `Certificate`: what was measured, how, and what was refused."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import torch
from torch.utils._pytree import tree_leaves

from cudalens.analysis import units
from cudalens.errors import BenchmarkError
from cudalens.fixes.honest.observe import Inputs, Observed, copy_set, full_precision, observe, tensors_in, write_set
from cudalens.fixes.settings import Clock
from cudalens.fixes.values import Difference, compare_values, is_equal, values_in

Function = Callable[..., Any]

#: A result with more wrong rows than this share is wrong as a whole.
_MOST_ROWS: Final = 0.95
#: Differences up to this, relative to the root mean square, are those of a lower precision.
_ROUNDING: Final = 0.05
#: Calls after which a function that counts them is believed to go on as it began.
_NUM_LATER: Final = 3
_NUM_POISON: Final = 8
#: By how much the reference may be slower after `b` has run: the allocator may have memory to give back.
_MOST_SLOWDOWN: Final = 1.5
#: Results of fewer elements can be equal by chance.
_MIN_ELEMENTS: Final = 16
#: Gradients go through more operators than results: up to so many times the tolerance is rounding.
_MOST_GRADIENT_EXCESS: Final = 10


@dataclass(frozen=True)
class _Baseline:
    """What the reference does with the same arguments before and after `b` has run.

    Attributes:
        arguments: The arguments.
        values: Its result.
        is_repeatable: Whether a second call returned the same.
        has_gradient: Whether something in its result has a gradient.
        num_ops: Number of its operators.
        ns: Time of its second call, ns.
    """

    arguments: tuple[Any, ...]
    values: dict[str, Any]
    is_repeatable: bool
    has_gradient: bool
    num_ops: int
    ns: int


class Checks:
    """Calls both functions on fresh inputs and compares what they do.

    Args:
        a: The reference.
        b: The function that is checked.
        inputs: Makes inputs.
        clock: The clock of the device.
        tolerance: By how much values may differ, relative to the root mean square; None for that of the dtypes.
    """

    def __init__(self, a: Function, b: Function, inputs: Inputs, clock: Clock, tolerance: float | None) -> None:
        self._a, self._b, self._inputs, self._clock, self._tolerance = a, b, inputs, clock, tolerance
        self.difference = Difference(is_known=clock.has_values)
        self.seen_a = Observed()
        self.seen_b = Observed()
        self.first_a_ns = self.first_b_ns = 0
        self._before_b: _Baseline | None = None
        self._early_of_b: tuple[Any, dict[str, Any]] | None = None

    def run(self) -> list[Cheat]:
        """Return what was found, most telling first."""
        one, two = self._inputs.fresh(), self._inputs.fresh()
        kept_one, kept_two = copy_set(one), copy_set(two)
        if self._clock.has_values:
            self._before_b = self._baseline(kept_one)
        self._poison(self._b, copy_set(two))
        self.first_b_ns, _ = self._clock.time(lambda: self._call("b", self._b, copy_set(kept_two)))
        self.seen_b = self._observed("b", self._b, one)
        found = list(self._of_call(self.seen_b, one, kept_one))
        result_one = self.seen_b.result
        lazy = list(_lazy(result_one))
        if lazy or not self._clock.has_values:
            self._reference(kept_one, kept_two)
            return [*lazy, *found]
        values_one = freeze(result_one)
        result_two = self._call("b", self._b, two)
        values_two = freeze(result_two)
        found += _overwritten(result_one, values_one)
        self._early_of_b = (result_two, values_two)  # `one` is written into later, and results may be views of it
        wanted_one, wanted_two = self._reference(kept_one, kept_two)
        found += _unfinished(self.seen_a, self.seen_b)
        found += self._of_values((kept_one, kept_two), (values_one, values_two), (wanted_one, wanted_two))
        if not any(cheat.name in _VALUE_CHEATS for cheat in found):
            found += self._of_repeats(one, kept_one, kept_two, wanted_two)
            found += self._of_gradients(kept_one)
        found += self._of_precision(kept_one)
        return sorted(found, key=lambda cheat: _ORDER.get(cheat.name, 9))

    def run_at_end(self) -> list[Cheat]:
        """Return what was found after the timed runs: what `b` changed, and what a late call leaves behind."""
        if not self._clock.has_values:
            return []
        given = self._inputs.fresh()
        kept = copy_set(given)
        seen = self._observed("b", self._b, given)
        found = list(self._of_call(seen, given, kept))
        if self._early_of_b is not None:
            found += _overwritten(*self._early_of_b)
        if self._before_b is not None:
            found += self._of_reference(self._before_b)
        return found

    def _of_reference(self, before: _Baseline) -> Iterator[Cheat]:
        """Whether `b` changed what `a` returns, or what it does: a hook on a module of both makes `a` slower."""
        now = self._baseline(before.arguments)
        difference = compare_values(before.values, now.values)
        if before.is_repeatable and not difference.is_within(self._tolerance):
            yield Cheat("changed reference", f"a returns other values after b has run: {difference}.")
        elif before.has_gradient and not now.has_gradient:
            yield Cheat("changed reference", "the result of a has no gradient after b has run, and it had one before.")
        elif before.num_ops and now.num_ops > before.num_ops:
            what = f"a runs {now.num_ops} operators after b has run, {before.num_ops} before."
            yield Cheat("changed reference", what)
        # Measured times are no evidence: other programs lengthen all calls of one moment.
        elif self._clock.kind == "modelled" and now.ns > _MOST_SLOWDOWN * before.ns:
            yield Cheat("changed reference", f"a takes {_ms(now.ns)} after b has run, {_ms(before.ns)} before.")

    def _baseline(self, arguments: tuple[Any, ...]) -> _Baseline:
        """Return what `a` does with arguments."""
        first = freeze(self._call("a", self._a, copy_set(arguments)))
        given = copy_set(arguments)
        ns, again = self._clock.time(lambda: self._call("a", self._a, given))
        is_repeatable = compare_values(first, freeze(again)).is_within(self._tolerance)
        has_gradient = any(one.requires_grad for one in tensors_in((again,)))
        num_ops = self._observed("a", self._a, copy_set(arguments)).num_ops
        return _Baseline(arguments, first, is_repeatable, has_gradient, num_ops, ns)

    def _call(self, which: str, function: Function, arguments: tuple[Any, ...]) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise BenchmarkError(f"{which} raised {type(error).__name__}: {error}") from error

    def _observed(self, which: str, function: Function, arguments: tuple[Any, ...]) -> Observed:
        return self._call(which, lambda *given: observe(function, given, self._clock), arguments)

    def _poison(self, function: Function, arguments: tuple[Any, ...]) -> None:
        """Fill memory of the sizes of the result with NaN, and free it: uninitialized results then show it."""
        result = self._call("b", function, arguments)
        like = [one for one in tree_leaves(result) if type(one) is torch.Tensor and one.is_floating_point()]
        shapes = [(one.shape, one.dtype, one.device) for one in like]
        del result, like
        kept = [
            torch.full(shape, float("nan"), dtype=dtype, device=device) for shape, dtype, device in shapes * _NUM_POISON
        ]
        del kept

    def _reference(self, one: tuple[Any, ...], two: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
        self.first_a_ns, first = self._clock.time(lambda: self._call("a", self._a, copy_set(one)))
        self.seen_a = self._observed("a", self._a, copy_set(one))
        second = self._call("a", self._a, copy_set(two))
        return freeze(first), freeze(second)

    def _of_call(self, seen: Observed, inputs: tuple[Any, ...], before: tuple[Any, ...]) -> Iterator[Cheat]:
        """What a single call left behind."""
        if seen.left_streams:
            yield Cheat(
                "wrong stream", f"work on {', '.join(seen.left_streams)} goes on when the current stream is done."
            )
        if seen.left_threads:
            yield Cheat("unfinished thread", f"threads still run after the call: {', '.join(seen.left_threads)}.")
        if self._clock.has_values and not all(map(_same, inputs, before)):
            after = copy_set(before)
            self._call("a", self._a, after)
            if all(map(_same, after, before)):
                number = next(n for n, (x, y) in enumerate(zip(inputs, before, strict=True)) if not _same(x, y))
                yield Cheat(
                    "mutated inputs", f"argument {number} has other contents after the call, with a it has not."
                )

    def _of_values(
        self, inputs: Any, results: tuple[dict[str, Any], dict[str, Any]], wanted: tuple[dict[str, Any], dict[str, Any]]
    ) -> Iterator[Cheat]:
        """Whether the results of two calls are those of the reference; the kind of a difference has a name."""
        differences = [compare_values(want, got) for want, got in zip(wanted, results, strict=True)]
        self.difference = max(differences, key=lambda one: (bool(one.mismatch), one.excess))
        if set(results[0]) != set(wanted[0]):
            yield Cheat("different shape", f"the result has {len(results[0])} values instead of {len(wanted[0])}.")
            return
        yield from _gradients(self.seen_a.result, self.seen_b.result)
        places = list(_places(self.seen_a.result, self.seen_b.result))
        yield from places
        if all(one.is_within(self._tolerance) for one in differences):
            if self._tolerance is None and _repeats_result(results, wanted):
                yield Cheat("constant output", "two calls return the same values, and those of a differ.")
            if self.seen_b.views - self.seen_a.views and not places:
                yield Cheat("lazy output", "the result is a view of an argument, and a returns a copy.")
            return
        if self.difference.mismatch:
            name = "smaller dtype" if "dtype" in self.difference.mismatch else "different shape"
            yield Cheat(name, f"{self.difference.mismatch}.")
            return
        if self._before_b is not None and not self._before_b.is_repeatable:
            raise BenchmarkError(
                "a returns other values when it is called again with the same arguments, so the results of b cannot be "
                "compared with it; let inputs return what a draws or keeps, for example the mask of a dropout."
            )
        yield self._kind_of_difference(inputs, results, wanted)

    def _kind_of_difference(self, inputs: Any, results: Any, wanted: Any) -> Cheat:
        what = f"{self.difference}."
        first, second = (list(one.values()) for one in results)
        has_nan = [any(bool(torch.isnan(one).any()) for one in _floats(values)) for values in (first, second)]
        wants_nan = any(bool(torch.isnan(one).any()) for values in wanted for one in _floats(values.values()))
        if any(has_nan) and not wants_nan:
            return Cheat("leftover memory", "the result has NaN, with which free memory was filled before the call.")
        if all(map(is_equal, first, second)):
            return Cheat("constant output", "two calls with different inputs return the same values.")
        if any(is_equal(result, one) for result in first for one in tensors_in(inputs[0])):
            return Cheat("returns its input", "the result has the values of an argument.")
        if self.difference.largest <= _ROUNDING and full_precision(inputs[0]):
            return Cheat("reduced precision", what)
        share = max((_wrong_rows(want, got) for want, got in zip(wanted[0].values(), first, strict=True)), default=1.0)
        if share < _MOST_ROWS:
            return Cheat(
                "skipped part", f"{100 * share:.0f} % of the rows of the result are wrong, the others are right."
            )
        return Cheat("wrong result", what)

    def _of_repeats(self, inputs: Any, one: Any, two: Any, wanted_two: Mapping[str, Any]) -> Iterator[Cheat]:
        """Whether calls with tensors or contents of earlier calls do the work again."""
        write_set(inputs, two)
        again = values_of(self._call("b", self._b, inputs))
        if not compare_values(wanted_two, again).is_within(self._tolerance):
            yield Cheat(
                "cached output", "with other contents in the same tensors it returns the result of the old ones."
            )
            return
        fresh = self._observed("b", self._b, self._inputs.fresh()).num_ops
        repeated = min(self._observed("b", self._b, copy_set(one)).num_ops for _ in range(2))
        if fresh and repeated < fresh / 2:
            yield Cheat("memoized", f"{repeated} operators run for contents that it has seen, {fresh} for others.")
        for _ in range(_NUM_LATER):
            later = self._inputs.fresh()
            got = values_of(self._call("b", self._b, copy_set(later)))
            want = values_of(self._call("a", self._a, later))
            if not compare_values(want, got).is_within(self._tolerance):
                yield Cheat("correct only at first", f"a later call differs: {compare_values(want, got)}.")
                return
        yield from self._of_other_contents()

    def _of_other_contents(self) -> Iterator[Cheat]:
        """Whether the result is right for contents of another distribution, where the examples are the user's."""
        if not self._inputs.has_examples:
            return
        other = self._inputs.spread()
        try:
            want = freeze(self._a(*copy_set(other)))
        except Exception:  # outside of the domain of the reference
            return
        if any(not bool(torch.isfinite(one).all()) for one in _floats(want.values())):
            return
        got = values_of(self._call("b", self._b, other))
        if not compare_values(want, got).is_within(self._tolerance):
            yield Cheat("special inputs", f"with contents of another distribution, {compare_values(want, got)}.")

    def _of_gradients(self, inputs: tuple[Any, ...]) -> Iterator[Cheat]:
        """Whether gradients of the inputs, and of parameters that both functions use, are those of the reference."""
        given_a, given_b = copy_set(inputs), copy_set(inputs)
        results_a, results_b = (
            {name: one for name, one in values_of(result).items() if getattr(one, "requires_grad", False)}
            for result in (self._call("a", self._a, given_a), self._call("b", self._b, given_b))
        )
        if not results_a or set(results_a) != set(results_b):
            return
        weights = [torch.randn_like(one) for one in results_a.values()]
        shared = sorted(find_leaves(results_a.values()) & find_leaves(results_b.values()), key=id)
        leaves_a, leaves_b = ([*_differentiable(given), *shared] for given in (given_a, given_b))
        if not leaves_a:
            return
        try:
            wanted = torch.autograd.grad(list(results_a.values()), leaves_a, weights, allow_unused=True)
        except RuntimeError:  # the reference has no backward
            return
        try:
            got = torch.autograd.grad(list(results_b.values()), leaves_b, weights, allow_unused=True)
        except RuntimeError as error:
            yield Cheat("wrong gradient", f"the backward of b raises: {error}.")
            return
        named = {f"the gradient of leaf {number}": one for number, one in enumerate(wanted) if one is not None}
        others = {
            f"the gradient of leaf {number}": torch.zeros_like(leaf) if one is None else one
            for number, (leaf, one) in enumerate(zip(leaves_b, got, strict=True))
        }
        difference = compare_values(named, others)
        is_rounding = not difference.mismatch and difference.excess <= _MOST_GRADIENT_EXCESS
        if not is_rounding and not difference.is_within(self._tolerance):
            yield Cheat("wrong gradient", f"the forward is right, and in the backward {difference}.")

    def _of_precision(self, inputs: tuple[Any, ...]) -> Iterator[Cheat]:
        """Whether it computes in a dtype that neither the reference nor the inputs have."""
        lower = self.seen_b.low_dtypes - self.seen_a.low_dtypes
        if lower and full_precision(inputs) and self._tolerance is None:
            names = ", ".join(sorted(map(str, lower)))
            yield Cheat("reduced precision", f"products run in {names}, and the inputs are in full precision.")
        own = {name: one for name, one in self.seen_b.own_precision.items() if name not in self.seen_a.own_precision}
        if own and full_precision(inputs) and self._tolerance is None:
            changed = ", ".join(f"{name} {one}" for name, one in own.items())
            yield Cheat("reduced precision", f"products run with another setting than those of a: {changed}.")


#: Checks of repeated calls say nothing more where one of these was found.
_VALUE_CHEATS: Final = frozenset(
    {
        "leftover memory",
        "constant output",
        "detached output",
        "returns its input",
        "reduced precision",
        "skipped part",
        "wrong result",
    }
    | {"smaller dtype", "different shape", "mutated inputs", "shared output"}
)
#: The cause comes before what follows from it: an unfinished thread also makes results wrong.
_ORDER: Final = {"unfinished thread": 0, "wrong stream": 1, "mutated inputs": 2, "shared output": 3}


def _lazy(result: Any) -> Iterator[Cheat]:
    """Whether a result is something other than plain tensors and numbers, and may compute when it is read."""
    for one in tree_leaves(result):
        is_plain = type(one) in (torch.Tensor, torch.nn.Parameter) or isinstance(
            one, bool | int | float | complex | str
        )
        is_array = type(one).__module__ == "numpy"
        if not (is_plain or is_array or one is None):
            yield Cheat(
                "lazy output", f"the result has a {type(one).__module__}.{type(one).__qualname__}, not a tensor."
            )
            return


def _unfinished(a: Observed, b: Observed) -> Iterator[Cheat]:
    """Whether a result is on the host before the device has written it: what reads it then reads other values."""
    if b.is_copying and not a.is_copying:
        yield Cheat("unfinished copy", "the result is in pinned memory, and the stream is not done when b returns.")


def _gradients(a: Any, b: Any) -> Iterator[Cheat]:
    pairs = zip(tree_leaves(a), tree_leaves(b), strict=False)
    if any(getattr(x, "requires_grad", False) and not getattr(y, "requires_grad", False) for x, y in pairs):
        yield Cheat("detached output", "the result of a has a gradient and the result of b has none.")


def _overwritten(result: Any, values: Mapping[str, Any]) -> Iterator[Cheat]:
    """Whether later calls wrote into the result of an earlier one."""
    if any(not is_equal(value, values[name]) for name, value in values_of(result).items()):
        yield Cheat("shared output", "a later call changes the tensors that an earlier call returned.")


def _repeats_result(results: Sequence[dict[str, Any]], wanted: Sequence[dict[str, Any]]) -> bool:
    """Whether two calls return an equal tensor where those of the reference differ, if only by little."""
    first, second = results
    large = [name for name, one in first.items() if isinstance(one, torch.Tensor) and one.numel() >= _MIN_ELEMENTS]
    is_varied = [not is_equal(wanted[0][name], wanted[1][name]) for name in large]
    return any(
        is_other and is_equal(first[name], second[name]) for name, is_other in zip(large, is_varied, strict=True)
    )


def _places(a: Any, b: Any) -> Iterator[Cheat]:
    """Whether tensors of a result are on another device, or have less memory than elements."""
    for x, y in zip(tree_leaves(a), tree_leaves(b), strict=False):
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            continue
        if x.device != y.device:
            yield Cheat("different device", f"the result is on {y.device} instead of {x.device}.")
            return
        if _repeats_memory(y) and not _repeats_memory(x):
            yield Cheat("lazy output", "elements of the result share memory, as after expand(), and those of a do not.")
            return


def _repeats_memory(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided:
        return False
    return any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True))


def find_leaves(results: Iterable[torch.Tensor]) -> set[torch.Tensor]:
    """Return the leaves with gradients that autograd reaches from results."""
    waiting = [one.grad_fn for one in results]
    seen, found = set[Any](), set[torch.Tensor]()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(node.variable)
        waiting += [following for following, _ in node.next_functions]
    return found


def _differentiable(given: Sequence[Any]) -> list[torch.Tensor]:
    return [one for one in tensors_in(given) if one.requires_grad]


def values_of(result: Any) -> dict[str, Any]:
    """Return the tensors and numbers of a result by name."""
    return dict(values_in("result", result))


def freeze(result: Any) -> dict[str, Any]:
    """Return the values of a result, copied, so that later calls cannot change them."""
    return {
        name: value.detach().clone() if isinstance(value, torch.Tensor) else value
        for name, value in values_in("result", result)
    }


def _same(one: Any, other: Any) -> bool:
    """Whether all tensors of an argument have the contents of another one."""
    return all(map(is_equal, tensors_in((one,)), tensors_in((other,))))


def _floats(values: Any) -> list[torch.Tensor]:
    return [one for one in values if isinstance(one, torch.Tensor) and one.is_floating_point()]


def _wrong_rows(want: Any, got: Any) -> float:
    """Share of the rows (of the elements, with one dimension) that differ by more than rounding."""
    if not isinstance(want, torch.Tensor) or want.numel() < 2 or want.shape != got.shape:
        return 1.0
    wide, other = want.double().reshape(len(want), -1), got.double().reshape(len(want), -1)
    scale = wide.square().mean().sqrt()
    wrong = (~((wide - other).abs() <= _ROUNDING * scale)).any(dim=1)
    return float(wrong.double().mean())


def check_claim(
    claimed_ns: float, cold: list[float], warm: list[float], host: list[float], seen: Observed, clock: Clock
) -> Iterator[Cheat]:
    """Whether a claimed time is one that was measured, and if not, by which mistake it comes about.

    Args:
        claimed_ns: The claimed time of a call.
        cold: Times with fresh inputs that are not in a cache, ns.
        warm: Times with the same inputs again, ns.
        host: Times until the calls return, without a wait for the device, ns.
        seen: What a call does.
        clock: The clock.
    """
    if claimed_ns >= 0.8 * min(cold):
        return
    ratio = f"the claim is {_ms(claimed_ns)}, measured are {_ms(statistics.median(cold))}"
    until_return = statistics.median(host)
    spec = clock.spec
    from_memory_ns = 0.0 if spec is None else seen.num_bytes / spec.memory_bandwidth_gbps
    if until_return < 0.5 * statistics.median(cold) and claimed_ns <= 1.5 * until_return:
        yield Cheat("no synchronization", f"{ratio}; until the call returns, without waiting, {_ms(until_return)}.")
    elif spec is not None and from_memory_ns > claimed_ns and seen.num_bytes <= spec.l2_cache_bytes:
        size = f"{seen.num_bytes / 1e6:.3g} MB fit the L2 cache"
        yield Cheat("inputs in L2", f"{ratio}; {size}, and memory needs {_ms(from_memory_ns)} for them.")
    elif claimed_ns >= 0.8 * min(warm):
        yield Cheat("reused inputs", f"{ratio}; with the same inputs again {_ms(statistics.median(warm))}.")
    else:
        yield Cheat("unfounded claim", f"{ratio}.")


def check_bounds(ns: float, seen: Observed, clock: Clock, what: str) -> Iterator[Cheat]:
    """Whether a time is shorter than the device needs for the bytes or the operations.

    Args:
        ns: The time of a call.
        seen: What a call reads, writes and computes.
        clock: The clock, with the published peaks of the device.
        what: What has the time: ``b`` or ``the claim``.
    """
    bandwidth, tflops = _peaks(seen, clock)
    # What fits the cache may come from it; `check_claim` reports a claim that needs this.
    cache = clock.spec.l2_cache_bytes if clock.spec is not None else _CPU_CACHE
    num_bytes = max(0, seen.num_bytes - cache)
    bytes_ns, flops_ns = num_bytes / bandwidth, seen.flops / tflops / 1e3
    if bytes_ns > ns:
        need = f"{num_bytes / 1e6:.3g} MB need {_ms(bytes_ns)} at {bandwidth:.0f} GB/s"
        yield Cheat("too few bytes", f"{what} takes {_ms(ns)}; {need}.")
    if flops_ns > ns:
        need = f"{seen.flops / 1e9:.3g} GFLOP need {_ms(flops_ns)} at {tflops:.0f} TFLOP/s"
        yield Cheat("too few operations", f"{what} takes {_ms(ns)}; {need}.")


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3g} ms"


#: More than a CPU of two sockets reaches: its caches, its memory bandwidth (GB/s), its rate per core (TFLOP/s).
_CPU_CACHE: Final = 1 << 30
_CPU_GBPS: Final = 2_000.0
_CPU_TFLOPS_PER_CORE: Final = 0.5


def _peaks(seen: Observed, clock: Clock) -> tuple[float, float]:
    """Memory bandwidth, GB/s, and the highest rate of matrix products, TFLOP/s."""
    if clock.spec is None:
        return _CPU_GBPS, _CPU_TFLOPS_PER_CORE * max(1, torch.get_num_threads())
    peaks = clock.spec.peak_tflops
    names = ("tf32", "float32") if not seen.low_dtypes else ("float16", "bfloat16", "float8")
    return clock.spec.memory_bandwidth_gbps, max(peaks.get(name, 0.0) for name in names) or max(peaks.values())


# `Certificate`: what a benchmark of two functions measured, under which conditions, and what was refused.

#: Smaller differences of times, as a share, are those of repeats.
MIN_CHANGE: Final = 0.02

#: What each name of a cheat means.
CHEATS: Final[dict[str, str]] = {
    "cached output": "returns the result of an earlier call",
    "memoized": "looks up results of inputs that it has seen",
    "constant output": "its result does not depend on the inputs",
    "returns its input": "returns an input unchanged",
    "leftover memory": "its result is what other work left in memory",
    "correct only at first": "its result is right when it is checked and wrong when it is timed",
    "wrong result": "its result differs",
    "skipped part": "a part of the result is right and the rest is not computed",
    "special inputs": "its result is right for the given inputs and wrong for others of the same shapes",
    "different shape": "its result has another shape or structure",
    "different device": "its result is on another device",
    "smaller dtype": "its result has another dtype",
    "reduced precision": "it computes in a precision that is lower than that of its inputs",
    "detached output": "its result has no gradient",
    "wrong gradient": "its backward computes other gradients",
    "changed reference": "changes what the reference returns, or makes it slower",
    "mutated inputs": "writes into its inputs",
    "shared output": "overwrites the result of the call before",
    "wrong stream": "leaves work on a stream that the current stream does not wait for",
    "unfinished copy": "returns memory of the host that the device still writes",
    "unfinished thread": "leaves a thread that still works",
    "lazy output": "returns an object that computes when it is read, or a view where the reference returns a copy",
    "patched timer": "replaces a clock or a function that waits",
    "patched torch": "replaces functions of torch",
    "changed settings": "changes settings of torch",
    "too few bytes": "is faster than its bytes can be moved",
    "too few operations": "is faster than its operations can be done",
    "no synchronization": "the claimed time is that of the launches",
    "inputs in L2": "the claimed time needs inputs that are in the L2 cache",
    "reused inputs": "the claimed time is that of the same inputs again",
    "unfounded claim": "the claimed time is below what was measured",
}


def is_noise(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether the times of two functions do not show which one is faster.

    In at least nine of ten pairs of runs the same one must be faster, and the shortest runs must differ by 2 % as well:
    other programs only lengthen runs.
    """
    if not a or not b:
        return True
    wins = sum(one > other for one in a for other in b) / (len(a) * len(b))
    middle, least = statistics.median(a) - statistics.median(b), min(a) - min(b)
    return 0.1 < wins < 0.9 or middle * least <= 0 or abs(least) < MIN_CHANGE * min(a)


@dataclass(frozen=True)
class Cheat:
    """A reason to refuse a benchmark.

    Attributes:
        name: One of the keys of `CHEATS`.
        what: What was observed, in one sentence with its numbers.
    """

    name: str
    what: str

    def __str__(self) -> str:
        """Name and observation."""
        return f"{self.name}: {self.what}"


@dataclass(frozen=True)
class Timing:
    """The timed runs of one function.

    Attributes:
        runs_ns: Time of a call in each run, ns.
        first_ns: Time of the very first call, ns, which is not one of the runs.
        peak_bytes: Peak of allocated device memory above the start, bytes; None on the CPU.
    """

    runs_ns: tuple[float, ...]
    first_ns: int
    peak_bytes: int | None

    @property
    def median_ns(self) -> float:
        """Median time of a call, ns."""
        return statistics.median(self.runs_ns) if self.runs_ns else 0.0

    @property
    def spread_pct(self) -> float:
        """Median absolute deviation of the runs, in per cent of the median."""
        middle = self.median_ns
        if not middle:
            return 0.0
        return 100 * statistics.median(abs(one - middle) for one in self.runs_ns) / middle


@dataclass(frozen=True)
class Certificate:
    """What a benchmark of two functions measured.

    Attributes:
        a: The timed runs of the first function; None if it was refused before.
        b: The timed runs of the second function; None if it was refused before.
        difference: How the results of `b` differ from those of `a`.
        cheats: Why the benchmark is refused; empty if it is accepted.
        conditions: Under which conditions it was measured, by name.
        is_modelled: Whether the times are modelled.
    """

    a: Timing | None
    b: Timing | None
    difference: Difference
    cheats: tuple[Cheat, ...]
    conditions: dict[str, str]
    is_modelled: bool

    @property
    def is_accepted(self) -> bool:
        """Whether nothing was found that makes the comparison of times meaningless."""
        return not self.cheats

    @property
    def speedup(self) -> float | None:
        """Time of `a` divided by the time of `b`; None if the benchmark is refused."""
        if self.cheats or self.a is None or self.b is None or not self.b.median_ns:
            return None
        return self.a.median_ns / self.b.median_ns

    @property
    def is_noise(self) -> bool:
        """Whether the runs do not show which function is faster: medians and minima must both differ."""
        return self.a is not None and self.b is not None and is_noise(self.a.runs_ns, self.b.runs_ns)

    def headline(self) -> str:
        """Return the answer: the times and how results differ, or why the benchmark is refused."""
        if self.cheats:
            return f"refused: {self.cheats[0]}"
        assert self.a is not None
        assert self.b is not None
        modelled = " (modelled)" if self.is_modelled else ""
        times = f"{units.duration(self.a.median_ns)} -> {units.duration(self.b.median_ns)}{modelled}"
        runs = f"{len(self.b.runs_ns)} runs each"
        if self.is_noise:
            return f"no difference beyond noise: {times}, {runs}, {self.difference}"
        change = self.b.median_ns / self.a.median_ns - 1
        word = "less" if change < 0 else "more"
        return f"{times} ({abs(100 * change):.0f} % {word}, {runs}), {self.difference}"

    def __str__(self) -> str:
        """The answer, further reasons, and the conditions."""
        lines = [self.headline(), *(f"refused: {cheat}" for cheat in self.cheats[1:])]
        width = max((len(name) for name in self.conditions), default=0)
        return "\n".join([*lines, *(f"  {name:{width}}  {value}" for name, value in self.conditions.items())])

    def __repr__(self) -> str:
        """The text, so that a notebook shows it."""
        return str(self)

    def _repr_html_(self) -> str:
        """The text, with the first line in bold."""
        first, _, rest = str(self).partition("\n")
        return f"<p><b>{escape(first)}</b></p><pre style='white-space:pre-wrap'>{escape(rest)}</pre>"
