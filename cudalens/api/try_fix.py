"""`try_fix` and `try_all`: run a cell with and without the fix of a finding, and compare times, results and memory."""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from cudalens import analysis
from cudalens.api import history
from cudalens.errors import FixError
from cudalens.frames import Trace

if TYPE_CHECKING:
    from cudalens.fixes.trying.attempt import Attempt
    from cudalens.fixes.trying.choosing import Tries, Trying


def try_fix(
    trace: Trace,
    finding: analysis.Finding | str | int = 1,
    *,
    code: str | Callable[[], Any] | None = None,
    namespace: MutableMapping[str, Any] | None = None,
    runs: int | None = None,
    tolerance: float | None = None,
    consent: bool = False,
) -> Attempt:
    """Run the profiled cell with and without the fix of a finding in turns, and say what the fix gives.

    The code runs again, for real: twice as often as `runs`, three times to compare results, and up to twice to check
    for races where a fix removes waits. Before each run and at the end the state is restored: variables, containers,
    objects, tensors, gradients, optimizers, random generators, settings of torch. What cannot be restored makes it
    refuse, with the expression for the object. No file is changed.

    ::

        import torch

        import cudalens

        with cudalens.virtual.device("h100"):
            weights = [torch.ones(1000, device="cuda", requires_grad=True) for _ in range(60)]
            for weight in weights:
                weight.grad = torch.ones_like(weight)
            sgd = torch.optim.SGD(weights, 0.1, momentum=0.9, foreach=False)
            sgd.step()


            def train():
                for _ in range(3):
                    sgd.step()


            with cudalens.profile() as p:
                train()
            found = cudalens.try_fix(p.trace, "optimizer_loop", code=train)
        assert found.helps

    Args:
        trace: The Trace of the cell.
        finding: The finding: one of ``cudalens.analysis.findings(trace)``, its number there, from 1, or its rule.
        code: The code that was profiled: text, or a function without parameters. By default the cell of the Trace.
        namespace: The variables of the code. By default those of the notebook, the function's globals, or the caller's.
        runs: Timed runs of each version; by default 5, and 3 on a virtual device, whose times repeat exactly.
        tolerance: By how much results may differ, relative to the root mean square of a tensor. By default they must be
            equal bit for bit where the fix claims so, and differ by less than 0.1 where it changes the precision.
        consent: Run the code again although by the names of its calls it writes files, sends requests or starts
            programs. What it prints is discarded.

    Returns:
        The attempt. It prints as one line with the answer, notes, and the diff.

    Raises:
        FixError: There is no such finding, or no code to run.
    """
    names = namespace if namespace is not None else _callers_names(code)
    trying = trying_of(trace, code, names, runs=runs, tolerance=tolerance, consent=consent)
    attempt = trying.attempt(chosen_finding(trace, finding))
    keep(attempt, trace)
    return attempt


def try_all(
    trace: Trace,
    *,
    code: str | Callable[[], Any] | None = None,
    namespace: MutableMapping[str, Any] | None = None,
    runs: int | None = None,
    tolerance: float | None = None,
    consent: bool = False,
    repeats: int = 1,
) -> Tries:
    """Try the fixes of all findings one after the other, and keep what helps.

    A fix is kept if it is faster, nothing else changes, and results differ by no more than rounding, or `tolerance`.
    The next one is tried on top of it. At the end all kept fixes are compared with the code as it is.

    Args:
        trace: The Trace of the cell.
        code: As for `try_fix`.
        namespace: As for `try_fix`.
        runs: As for `try_fix`.
        tolerance: As for `try_fix`.
        consent: As for `try_fix`.
        repeats: How often the code will run from now on. A fix with lines that run once (compiling, recording a graph)
            is kept only if so many runs save at least what these lines cost.

    Returns:
        The attempts. They print as one line with the answer, a table, and one diff.

    Raises:
        FixError: There is no finding, or no code to run.
    """
    names = namespace if namespace is not None else _callers_names(code)
    trying = trying_of(trace, code, names, runs=runs, tolerance=tolerance, consent=consent, repeats=repeats)
    tries = trying.all(all_findings(trace))
    for attempt in tries.attempts:
        keep(attempt, trace)
    return tries


def trying_of(
    trace: Trace,
    code: str | Callable[[], Any] | None,
    namespace: MutableMapping[str, Any],
    *,
    runs: int | None = None,
    tolerance: float | None = None,
    consent: bool = False,
    quiet: Callable[[], AbstractContextManager[Any]] | None = None,
    name: str | None = None,
    progress: Callable[[str], object] | None = None,
    repeats: int = 1,
    first_line: int = 1,
) -> Trying:
    """Return what tries the findings of a Trace; the arguments are those of `try_fix` and `Trying`.

    Raises:
        FixError: There is no code, an argument is invalid, or the code cannot be parsed.
    """
    from cudalens.fixes.trying.choosing import Trying

    if runs is not None and (isinstance(runs, bool) or not isinstance(runs, int) or not 2 <= runs <= 1_000):
        raise FixError(f"runs={runs!r}: expected None or a whole number from 2 to 1,000.")
    if tolerance is not None and (isinstance(tolerance, bool) or not tolerance > 0):
        raise FixError(f"tolerance={tolerance!r}: expected None or a number above 0.")
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise FixError(f"repeats={repeats!r}: expected a whole number from 1.")
    text = trace.info.code if code is None else code
    if isinstance(text, types.FunctionType):
        label = text.__name__
        if namespace.get(label) is not text:
            namespace = {**namespace, label: text}
        text = f"{label}()"
    if not isinstance(text, str) or not text.strip():
        raise FixError(
            f"the run {trace.info.name!r} has no code that can run again; pass code=, the text of the cell or a "
            "function without parameters."
        )
    label = name or trace.info.name or "cell"
    return Trying(
        label,
        text,
        namespace,
        runs=runs,
        tolerance=tolerance,
        consent=consent,
        quiet=quiet,
        progress=progress,
        repeats=repeats,
        first_line=first_line,
    )


def all_findings(trace: Trace) -> list[analysis.Finding]:
    """Return the findings of a Trace.

    Raises:
        FixError: There is none.
    """
    found = analysis.findings(trace)
    if not found:
        raise FixError(f"the run {trace.info.name!r} has no finding to try.")
    return found


def chosen_finding(trace: Trace, finding: analysis.Finding | str | int) -> analysis.Finding:
    """Return a finding by its number, from 1, or its rule.

    Raises:
        FixError: There is no such finding.
    """
    if isinstance(finding, analysis.Finding):
        return finding
    found = all_findings(trace)
    if isinstance(finding, int) and 1 <= finding <= len(found):
        return found[finding - 1]
    for one in analysis.findings(trace, most=None):
        if one.rule == finding:
            return one
    listed = ", ".join(f"{number} ({one.rule})" for number, one in enumerate(found, 1))
    raise FixError(f"the run {trace.info.name!r} has no finding {finding!r}; there are: {listed}.")


def keep(attempt: Attempt, trace: Trace) -> None:
    """Keep an attempt in the history, with the gain that the finding predicted."""
    device = ", ".join(dict.fromkeys(one.name for one in trace.info.devices)) or trace.info.host or ""
    gain, predicted = attempt.gain_pct, attempt.predicted_pct
    past = history.PastAttempt(
        recorded_ns=time.time_ns(),
        name=trace.info.name,
        device=device,
        rule=attempt.rule,
        fix=attempt.title,
        predicted_pct=None if predicted is None else round(predicted, 3),
        gain_pct=None if gain is None else round(gain, 3),
        helps=attempt.helps,
        is_modelled=attempt.is_modelled,
        answer=attempt.headline(),
    )
    history.add_attempt(past)


def _callers_names(code: Any) -> MutableMapping[str, Any]:
    """The variables of the function, of the notebook, or of the module that called `try_fix`."""
    if isinstance(code, types.FunctionType):
        return code.__globals__
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is not None:
        return shell.user_ns
    return sys._getframe(2).f_globals
