"""Try the fixes for the step of a third-party program, and compare what it computes with runs without a try.

The cell is a loop over the calls of the program. The fixes of its findings are tried as `cudalens.try_all` does, and
then those of the rules without a finding, because a small program has few findings. Afterwards the cell runs again: its
results and the random generators have to be those of the same run without a try. Each diff whose results the try
accepted is written into a copy of the program, which is built anew: its results have to be as claimed.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from graphed_programs import Values

#: The cell whose findings are tried.
CELL: Final = "results = []\nfor args in calls:\n    results.append(step(*args))"
#: How often the cell is said to run: a fix whose first lines cost time is kept too.
_REPEATS: Final = 1_000_000
#: Seconds for all tries of a program, and for a run with a diff.
_TRIES_LIMIT_S: Final = 900
_RUN_LIMIT_S: Final = 300
#: The largest difference of a result, relative to the root mean square, of a fix that changes rounding.
_MOST_CHANGE: Final = 0.1

#: Builds a program on the device ``cuda`` with the seeds of all modes; returns its step and its calls.
Build: TypeAlias = Callable[[Any], tuple[Callable[..., Any], Any]]
#: Returns the values of what a program returned.
ValuesOf: TypeAlias = Callable[[Any], Values]


@dataclass(frozen=True)
class Run:
    """What two runs of the cell of a program computed.

    Attributes:
        first: The values of the first run.
        second: The values of the second run; after the tries, if there were any.
        generators: The random generators after the second run.
        attempts: The attempts.
        kept: Which of them were kept.
    """

    first: Values
    second: Values
    generators: Any
    attempts: Sequence[Any] = ()
    kept: Sequence[bool] = ()


def run_tried(program: Any, build: Build, values_of: ValuesOf, *, compiling: bool) -> tuple[str, str, Values]:
    """Try all fixes for a program on its virtual device.

    Args:
        program: The program.
        build: Builds it.
        values_of: Returns the values of what it returned.
        compiling: Whether fixes with torch.compile are tried too, which takes most of the time.

    Returns:
        The result: "equal", "failed" (an error), "late", "not restored" or "wrong diff"; a line for each attempt, and
        the total as the last line; the values of the first run of the cell.
    """
    tries = _try_all if compiling else _try_without_compiling
    plain = _forked(lambda: _run_twice(program, build, values_of), _RUN_LIMIT_S)
    tried = _forked(lambda: _run_twice(program, build, values_of, tries), _TRIES_LIMIT_S)
    for run in (plain, tried):
        if not isinstance(run, Run):
            return "failed", run, []
    written = [attempt for attempt in tried.attempts if attempt.title]
    accepted = [number for number, attempt in enumerate(tried.attempts) if attempt.diff and not attempt.refusal]
    lines = [f"{attempt.rule}: {attempt.title}: {attempt.headline()}" for attempt in written]
    total = f"{len(written)} fixes written, {len(accepted)} with results as claimed, {sum(tried.kept)} kept"
    if (plain.second, plain.generators) != (tried.second, tried.generators):
        return "not restored", "\n".join([*lines, f"{total}; the next run is not that without a try"]), tried.first
    for number in accepted:
        changes = _changes_of(tried, number)
        attempt = tried.attempts[number]
        if not all(one.difference.is_exact for one in _kept_before(tried, number)):
            attempt = replace(attempt, changes_numbers=True)  # it claims equality with the program with these fixes
        if problem := _check_diff(program, attempt, changes, build, values_of, tried.first):
            result = "late" if problem.startswith("no result") else "wrong diff"
            return result, "\n".join([*lines, attempt.diff, f"{total}; {attempt.title}: {problem}"]), tried.first
    return "equal", "\n".join([*lines, total]), tried.first


def _run_twice(
    program: Any, build: Build, values_of: ValuesOf, between: Callable[[Any, Any], Any] = lambda trace, names: ((), ())
) -> Run:
    """Run the cell of a program twice, with the tries in between."""
    import cudalens

    with cudalens.virtual.device(program.specs):
        step, calls = build(program)
        names: dict[str, Any] = {"__name__": "__main__", "step": step, "calls": calls}
        code = compile(CELL, "<cell>", "exec")
        with cudalens.profile(program.name) as profiled:
            exec(code, names)  # noqa: S102 - the cell
        first = values_of(names["results"])
        attempts, kept = between(profiled.trace, names)
        exec(code, names)  # noqa: S102 - the cell
        generators = (
            random.getstate(),
            [part.tolist() if isinstance(part, np.ndarray) else part for part in np.random.get_state()],
            torch.get_rng_state().tolist(),
            torch.cuda.get_rng_state().tolist(),
        )
        return Run(first, values_of(names["results"]), generators, attempts, kept)


def _try_all(trace: Any, names: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[bool, ...]]:
    """Try the fixes for all findings and for all other rules; returns the attempts, and which of them were kept."""
    from support.every_rule import with_every_rule

    from cudalens.analysis import findings
    from cudalens.api.try_fix import trying_of

    tries = trying_of(trace, CELL, names, repeats=_REPEATS).all(with_every_rule(findings(trace)))
    return tries.attempts, tries.kept


def _try_without_compiling(trace: Any, names: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[bool, ...]]:
    """The same without torch.compile; this process runs nothing else."""
    from support.every_rule import leave_out_compiling

    leave_out_compiling()
    return _try_all(trace, names)


def _changes_of(tried: Run, number: int) -> list[Any]:
    """The changes of files that an attempt stands on, and its own."""
    return [
        change for attempt in (*_kept_before(tried, number), tried.attempts[number]) for change in attempt.file_changes
    ]


def _kept_before(tried: Run, number: int) -> list[Any]:
    """The attempts that an attempt stands on."""
    return [attempt for attempt, is_kept in zip(tried.attempts[:number], tried.kept, strict=False) if is_kept]


def _check_diff(
    program: Any, attempt: Any, changes: Sequence[Any], build: Build, values_of: ValuesOf, expected: Values
) -> str:
    """Return why a copy of the program with the changes does not compute what the attempt claims; "" if it does."""
    source = Path(sys.modules[program.build.__module__].__file__ or "").parent
    if any(change.path.parent != source for change in changes):
        return ""  # a function of a library: there is no copy to write into
    with tempfile.TemporaryDirectory(prefix="programs-") as folder:
        for path in source.glob("*.py"):
            shutil.copy(path, folder)

        def run() -> Values:
            import cudalens

            for change in changes:
                replace(change, path=Path(folder) / change.path.name).write()
            with cudalens.virtual.device(program.specs):
                step, calls = build(_program_in(folder, program))
                names = {"__name__": "__main__", "step": step, "calls": calls}
                exec(compile(attempt.fixed_text, "<fixed cell>", "exec"), names)  # noqa: S102 - the fixed cell
                return values_of(names["results"])

        found = _forked(run, _RUN_LIMIT_S)
    if isinstance(found, str):
        return found
    return "" if _is_as_claimed(attempt, expected, found) else "results of the written program are not as claimed"


def _program_in(folder: str, program: Any) -> Any:
    """The program of the same name in a copy of the folder with the programs."""
    for path in Path(folder).glob("*.py"):
        sys.modules.pop(path.stem, None)
    sys.path.insert(0, folder)
    programs = importlib.import_module(program.build.__module__).PROGRAMS
    return next(one for one in programs if one.name == program.name)


def _is_as_claimed(attempt: Any, expected: Values, found: Values) -> bool:
    """Return whether values are equal bit for bit, or close where the attempt says that rounding changes."""
    if found == expected:
        return True
    is_rounding = attempt.changes_numbers or attempt.changes_behaviour or not attempt.own_difference.is_exact
    pairs = list(_tensors(expected, found))
    if attempt.changes_random:
        return len(pairs) == len(expected) == len(found)
    if not is_rounding or len(pairs) != len(expected) or len(found) != len(expected):
        return False
    return all(_distance(left, right) <= _MOST_CHANGE for left, right in pairs)


def _tensors(expected: Values, found: Values) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for (dtype, shape, data), (other_dtype, other_shape, other) in zip(expected, found, strict=False):
        if dtype.startswith("torch.") and shape == other_shape:
            kinds = [getattr(torch, one.removeprefix("torch.")) for one in (dtype, other_dtype)]
            yield torch.frombuffer(bytearray(data), dtype=kinds[0]), torch.frombuffer(bytearray(other), dtype=kinds[1])


def _distance(left: torch.Tensor, right: torch.Tensor) -> float:
    """The largest difference, relative to the root mean square."""
    left, right = left.to(torch.float64), right.to(torch.float64)
    return float((left - right).abs().max() / left.square().mean().sqrt().clamp_min(1e-30))


def _forked(run: Callable[[], Any], limit_s: int) -> Any:
    """The result of a function in a forked process, or the error as text."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_send, args=(run, send))
    process.start()
    send.close()
    answer = f"no result within {limit_s} s"
    try:
        if receive.poll(limit_s):
            answer = receive.recv()
    except EOFError:
        answer = "the process ended"
    process.kill()
    process.join()
    return answer


def _send(run: Callable[[], Any], send: Connection) -> None:
    warnings.simplefilter("ignore")
    with open(os.devnull, "w") as sink:
        for stream in (1, 2):
            os.dup2(sink.fileno(), stream)
    try:
        send.send(run())
    except BaseException:
        send.send(traceback.format_exc())
    os._exit(0)
