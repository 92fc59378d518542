"""`benchmark`: compare the times of two functions, and refuse what does not measure the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudalens.fixes.honest.checks import Certificate


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
    from cudalens.fixes.honest.run import run_benchmark

    return run_benchmark(a, b, inputs, runs=runs, tolerance=tolerance, claimed_ms=claimed_ms)
