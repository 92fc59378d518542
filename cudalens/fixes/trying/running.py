"""Run a program with and without a fix in turns, each run on the same state, and compare times, results and memory."""

from __future__ import annotations

import ast
import gc
import types
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from os import devnull
from time import perf_counter_ns
from typing import Any, Final

import torch

from cudalens.errors import FixError
from cudalens.fixes.names import names_of
from cudalens.fixes.rewrites.fix import Fix, Program, function_code
from cudalens.fixes.settings import RANDOM, Clock, find_clock
from cudalens.fixes.trying.attempt import Attempt
from cudalens.fixes.trying.state import State, changes_between
from cudalens.fixes.values import Difference, compare_values, values_in
from cudalens.sanitizer import Race, sanitize

#: Runs of each version on a clock that measures, and on one that is modelled and repeats exactly.
MEASURED_RUNS: Final = 5
MODELLED_RUNS: Final = 3

#: Characters of the text of an error that an answer has.
_LONGEST_ERROR: Final = 300

#: Rules whose fixes remove waits or copy without one; "all" has the fixes of several.
_UNORDERED: Final = frozenset({"host_sync", "pageable_copies", "exposed_copies", "all"})

#: A fix is refused for this: the sanitizer does not see what NumPy writes.
_UNSEEN: Final = (
    "the fix removes waits, and pinned memory is shared with NumPy ({}): whether the host writes into it before the "
    "GPU has read it cannot be checked"
)

#: Compiles statements, in the way of the shell that the cell ran in: source, file name, mode.
Compile = Callable[[ast.AST, str, str], types.CodeType]


class Trial:
    """A program whose versions run in turns.

    Args:
        program: The program.
        namespace: Its variables, which it reads and assigns.
        quiet: Makes the block in which nothing that a run prints or shows is visible.
        progress: Called with a text before each run.

    Raises:
        FixError: Its state cannot be copied.
    """

    def __init__(
        self,
        program: Program,
        namespace: MutableMapping[str, Any],
        *,
        quiet: Callable[[], AbstractContextManager[Any]] | None = None,
        progress: Callable[[str], object] | None = None,
    ) -> None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
            raise FixError("the program is one of several ranks, and the others would have to run again with it.")
        self._program, self._namespace = program, namespace
        self._quiet = quiet or _silent
        self._report = progress or (lambda text: None)
        self.clock: Clock = find_clock()
        body = program.cell.source.tree.body
        self._names = names_of(body)
        self._assigned = sorted(self._names.assigned)
        functions = {unit.function.__name__ for unit in program.functions if unit.function is not None}
        self._state = State(namespace, self._names.read | self._names.assigned | self._names.written | functions)
        self._before: tuple[list[int], list[int]] | None = None

    def attempt(self, program: Program, fix: Fix, runs: int | None = None, tolerance: float | None = None) -> Attempt:
        """Run a program with and without `fix` in turns; the state is restored at the end.

        Args:
            program: The program, which may have other fixes already.
            fix: The fix.
            runs: Runs of each; by default `MEASURED_RUNS`, or `MODELLED_RUNS` on a virtual device.
            tolerance: By how much results may differ, relative to the root mean square of a tensor.
        """
        fixed = program.with_fix(fix)
        found = Attempt(
            fix.rule,
            fix.title,
            changes_numbers=fix.changes_numbers,
            changes_behaviour=fix.changes_behaviour,
            changes_random=fix.changes_random,
            needs=fix.needs,
        )
        attempt = self.compare(program, fixed, found, fix.dropped, runs, tolerance)
        if fix.hides_rounding and self.clock.kind == "modelled":
            unknown = replace(attempt.difference, is_known=False, why_unknown=_FULL_PRECISION)
            return replace(attempt, difference=unknown)
        return attempt

    def compare(
        self,
        program: Program,
        fixed: Program,
        claim: Attempt,
        dropped: frozenset[str] = frozenset(),
        runs: int | None = None,
        tolerance: float | None = None,
    ) -> Attempt:
        """Run two versions of a program in turns; the state is restored at the end.

        Args:
            program: The version before.
            fixed: The version after.
            claim: What is claimed about the difference.
            dropped: Variables that the version after does not assign.
            runs: Runs of each.
            tolerance: By how much results may differ.
        """
        runs = runs or (MODELLED_RUNS if self.clock.kind == "modelled" else MEASURED_RUNS)
        found = replace(
            claim,
            diff=fixed.diff(program),
            is_modelled=self.clock.kind == "modelled",
            fixed_text=fixed.written_cell(),
            file_changes=fixed.file_changes(program),
        )
        try:
            return self._run_both(found, _Version(program), _Version(fixed, program), dropped, runs, tolerance)
        except FixError as failure:
            return replace(found, refusal=str(failure))
        finally:
            self._restore()

    def _run_both(
        self,
        found: Attempt,
        plain: _Version,
        fixed: _Version,
        dropped: frozenset[str],
        runs: int,
        tolerance: float | None,
    ) -> Attempt:
        self._report("Running the cell as it is, twice, to compare its results.")
        first = self._outputs_of(plain)
        own = self._compare(first, self._outputs_of(plain), dropped)
        self._report(f"Running it with the fix: {found.title}.")
        setup_ns = self._setup_ns(fixed)
        second = self._outputs_of(fixed)
        if found.changes_behaviour:  # random numbers may be others: the fix says what is no longer the same
            first = {name: one for name, one in first.items() if not name.startswith(RANDOM)}
        difference = self._compare(first, second, dropped)
        if found.changes_random and not difference.is_exact and not difference.mismatch:
            difference = replace(difference, is_known=False, why_unknown="random numbers are others")
        found = replace(found, difference=difference, own_difference=own, setup_ns=setup_ns)
        del first, second
        if why := _wrong_values(found, tolerance) or self._new_race(found, plain, fixed):
            return replace(found, refusal=why)
        times: tuple[list[int], list[int]] = ([], [])
        peaks: tuple[list[int], list[int]] = ([], [])
        for number in range(runs):
            self._report(f"Measuring: {found.title}, pair of runs {number + 1} of {runs}.")
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                ns, peak = self._timed((plain, fixed)[which])
                times[which].append(ns)
                if peak is not None:
                    peaks[which].append(peak)
        change = max(peaks[1]) - max(peaks[0]) if peaks[0] else None
        return replace(found, before_ns=tuple(times[0]), after_ns=tuple(times[1]), peak_change_bytes=change)

    def _new_race(self, found: Attempt, plain: _Version, fixed: _Version) -> str:
        """Why a fix is not safe: it has a race that the program does not have; "" if it has none.

        A wait that reads a value can also order host and GPU: the host writes into pinned memory again after it. The
        values of one run, or of a virtual device, need not show that.
        """
        if self.clock.kind == "cpu" or found.rule not in _UNORDERED:
            return ""
        is_single = found.rule != "all"  # of several fixes, those that remove waits were refused one by one
        if is_single and (arrays := self._state.pinned_arrays()):
            return _UNSEEN.format(", ".join(arrays))
        self._report(f"Checking for races: {found.title}.")
        races, exported = self._sanitized(fixed)
        if is_single and exported:
            return _UNSEEN.format(f"an array made at {', '.join(exported)}")
        known = {_accesses(one) for one in self._sanitized(plain)[0]} if races else set()
        for race in races:
            if _accesses(race) not in known:
                return (
                    f"the fixed cell has a race that the cell does not have: {race.second.op} and {race.first.op} use "
                    f"the same memory, and nothing orders them ({race.kind.value})"
                )
        return ""

    def _sanitized(self, version: _Version) -> tuple[list[Race], tuple[str, ...]]:
        """Return the races of a version, and the places where it makes arrays of pinned memory."""
        self._restore()
        with version.installed(), self._quiet():
            self._execute(version.setup, version.name)
            with sanitize() as sanitizer:
                self._execute(version.body, version.name)
                self.clock.wait()
                exported = sanitizer.status().exported
            return sanitizer.races, exported

    def _timed(self, version: _Version) -> tuple[int, int | None]:
        self._restore()
        with version.installed(), self._quiet():
            self._execute(version.setup, version.name)
            before = self.clock.begin_peak()
            ns, _ = self.clock.time(lambda: self._execute(version.body, version.name))
            return ns, self.clock.peak_bytes(before)

    def _setup_ns(self, version: _Version) -> int | None:
        if not version.own_setup:
            return None
        self._restore()
        with version.installed(), self._quiet():
            self._execute(version.base_setup, version.name)
            self.clock.release_pinned_memory()
            start = perf_counter_ns()
            modelled_ns = self.clock.time(lambda: self._execute(version.own_setup, version.name))[0]
            # A virtual device models no compiler: the time that it took here is the better estimate.
            return max(modelled_ns, perf_counter_ns() - start) if version.compiles else modelled_ns

    def _outputs_of(self, version: _Version) -> dict[str, Any]:
        """Run a version and return copies of what it leaves: assigned variables, its value, and all tensors."""
        self._restore()
        with version.installed(), self._quiet():
            self._execute(version.setup, version.name)
            before = self._state.contents()
            value = self._execute(version.body, version.name)
            self.clock.wait()
            try:
                changed = changes_between(before, self._state.contents())
                found: dict[str, Any] = {}
                for name in self._assigned:
                    if name in self._namespace and not name.startswith("_"):
                        found |= dict(values_in(name, self._namespace[name]))
                for name, one in list(found.items()):
                    if isinstance(one, torch.Tensor):
                        found |= {
                            f"the device of {name}": str(one.device),
                            f"the gradients of {name}": one.requires_grad,
                        }
                found |= {name: one for name, one in changed.items() if name not in found}
                found |= dict(values_in("the value of the cell", value))
                for where, tensor in self._state.tensors.items():
                    if where.endswith(".grad"):  # what the parameter has now counts
                        continue
                    # The variable may now have another tensor: this one is the object that it had before the run.
                    name = where if where not in found else f"{where} from before the cell"
                    found[name] = tensor
                    if tensor.is_leaf and tensor.grad is not None:
                        found[f"{name}.grad"] = tensor.grad
                return {name: _copied(one) for name, one in found.items()}
            except RuntimeError as error:  # as that of a graph's output which a later replay has overwritten
                raise _RunError(f"a result of {version.name} cannot be read: {_in_one_line(error)}") from error

    def _compare(self, first: Mapping[str, Any], second: Mapping[str, Any], dropped: frozenset[str]) -> Difference:
        if not self.clock.has_values:
            return Difference(is_known=False)
        wanted = {name: value for name, value in first.items() if _variable(name) not in dropped}
        # A gradient that is None instead of zeros is the same gradient.
        for name in [name for name in wanted if name.endswith(".grad") and name not in second]:
            if not bool(torch.count_nonzero(wanted[name])):
                del wanted[name]
        changed = [name for name in second if name.startswith("the length of ") and name not in first]
        if changed:
            return Difference(mismatch=f"{changed[0]} changes", num_values=len(wanted))
        return compare_values(wanted, second)

    def _execute(self, codes: Sequence[types.CodeType], which: str) -> Any:
        """Run code in the namespace; returns the value of a last expression."""
        value = None
        try:
            for code in codes:
                value = eval(code, self._namespace)  # type: ignore[arg-type] # noqa: S307 - the user's own code
        except Exception as error:
            raise _RunError(
                f"{which} raised {type(error).__name__} when it ran again: {_in_one_line(error)}"
            ) from error
        return value

    def _restore(self) -> None:
        self.clock.wait()
        self._state.restore()
        if self.clock.kind != "modelled":  # where times are measured, no run collects the garbage of the one before
            gc.collect()

    def close(self) -> None:
        """Restore the state for good."""
        self._restore()


class _RunError(FixError):
    """A run raised."""


class _Version:
    """The code of a version of a program.

    Args:
        program: The version.
        base: The version that it is compared with; None if it is that one.
    """

    def __init__(self, program: Program, base: Program | None = None) -> None:
        self.name = "the cell" if base is None else "the fixed cell"
        file = f"<{program.cell.source.name}>"
        num_base = len((base or program).setup)
        self.base_setup = _codes("\n".join(program.setup[:num_base]), f"{file[:-1]}, setup>")
        self.compiles = any("torch.compile(" in line for line in program.setup[num_base:])
        self.own_setup = _codes("\n".join(program.setup[num_base:]), f"{file[:-1]}, setup>")
        self.setup = [*self.base_setup, *self.own_setup]
        self.body = _codes(program.cell.source.text, file)
        self._functions: dict[Any, types.CodeType] = {
            unit.function: function_code(unit.function, unit.source)
            for unit in program.functions
            if unit.is_edited and unit.function is not None
        }

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Give the functions of the program their fixed code."""
        before = [(function, function.__code__) for function in self._functions]
        try:
            for function, code in self._functions.items():
                function.__code__ = code
            yield
        finally:
            for function, code in before:
                function.__code__ = code


def _codes(text: str, file: str) -> list[types.CodeType]:
    """The code of the statements, and of a last expression so that its value is known; lines can be looked up."""
    from cudalens.fixes.source import Source

    body = Source(file, text).tree.body
    if not body:
        return []
    codes = []
    *rest, last = body
    if rest:
        codes.append(compile(ast.Module(rest, []), file, "exec"))
    if isinstance(last, ast.Expr):
        codes.append(compile(ast.Expression(last.value), file, "eval"))
    else:
        codes.append(compile(ast.Module([last], []), file, "exec"))
    return codes


def _accesses(race: Race) -> tuple[object, ...]:
    """What is the same for a race in two versions of a program, whose lines differ."""
    return race.kind, race.first.op, race.second.op, race.first.argument, race.second.argument


def _in_one_line(error: Exception) -> str:
    """The text of an error for the answer, which is one line: that of a compiler has a traceback."""
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}..."


def _variable(name: str) -> str:
    """The variable of the name of an output."""
    return name.rpartition(" of ")[2].partition("[")[0]


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return value.copy() if hasattr(value, "tobytes") and hasattr(value, "copy") else value


def _wrong_values(found: Attempt, tolerance: float | None) -> str:
    """Why the results with a fix are not as claimed; "" where they are."""
    difference, own = found.difference, found.own_difference
    if not difference.is_known or difference.is_exact:
        return ""
    if difference.mismatch:
        is_announced = bool(found.changes_behaviour) and "dtype" in difference.mismatch
        return "" if is_announced else str(difference)
    if tolerance is not None:
        return "" if difference.is_within(tolerance) else f"{difference}; the tolerance is {tolerance:g}"
    if not own.is_exact and difference.largest <= 2 * own.largest:
        return ""
    if found.changes_numbers or found.changes_behaviour:
        return "" if difference.largest <= MOST_CHANGE else f"{difference}, more than rounding"
    return f"{difference}, and the fix claims that they are equal"


_FULL_PRECISION: Final = "a virtual device computes in full precision"

#: The largest change of a value, relative to the root mean square, that a fix for another precision may make.
MOST_CHANGE: Final = 0.1


@contextmanager
def _silent() -> Iterator[None]:
    with open(devnull, "w", encoding="utf-8") as null, redirect_stdout(null), redirect_stderr(null):
        yield
