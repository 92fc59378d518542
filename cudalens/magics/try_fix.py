"""``%cudaprofile try``: run the profiled cell with and without the fix of a finding, and show what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from cudalens.errors import FixError
from cudalens.magics.cells import display
from cudalens.magics.confirm import silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.fixes.trying.attempt import Attempt
    from cudalens.fixes.trying.choosing import Trying
    from cudalens.frames import Trace
    from cudalens.magics.profile import TryOptions


def try_finding(shell: InteractiveShell, trace: Trace, options: TryOptions) -> None:
    """Try the fix of one finding, and show what it gives.

    Raises:
        FixError: It cannot be tried.
        UsageError: An option is wrong.
    """
    from cudalens.api.try_fix import chosen_finding, keep

    finding = chosen_finding(trace, _number(options.finding or ["1"]))
    trying = _trying(shell, trace, options)
    attempt = trying.attempt(finding)
    keep(attempt, trace)
    display(shell, attempt)
    if options.write and not attempt.refusal:
        _write(shell, attempt)


def try_every_finding(shell: InteractiveShell, trace: Trace, options: TryOptions) -> None:
    """Try the fixes of all findings, keep what helps, and show the table and one diff.

    Raises:
        FixError: They cannot be tried.
    """
    from cudalens.api.try_fix import all_findings, keep

    if options.finding:
        raise UsageError("%cudaprofile try all: takes no number; it tries all findings.")
    tries = _trying(shell, trace, options).all(all_findings(trace))
    for attempt in tries.attempts:
        keep(attempt, trace)
    display(shell, tries)
    if options.write and tries.together is not None and not tries.together.refusal:
        _write(shell, tries.together)


def _write(shell: InteractiveShell, attempt: Attempt) -> None:
    """Put the fixed cell into the next cell, and write the fixed functions into their files.

    Raises:
        FixError: A file is not as it was when it was run.
    """
    shell.set_next_input(attempt.fixed_text)
    for change in attempt.file_changes:
        change.write()
        print(f"Wrote {change.path}, from line {change.first_line}. Import it again to use it.")  # noqa: T201


class ButtonTries:
    """Tries fixes for the button of the widget.

    Args:
        shell: The shell in which the cell runs again.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def can_try(self, trace: Trace) -> bool:
        """Return whether a Trace is of a cell of this session: others may bring any code."""
        from cudalens.api.session import runs

        return trace.info.code is not None and any(run is trace for run in runs.values())

    def try_findings(
        self, trace: Trace, number: int | None, consent: bool, progress: Callable[[str], object]
    ) -> dict[str, Any]:
        """As `cudalens.views.notebook.Tries.try_findings`.

        Raises:
            FixError: They cannot be tried.
        """
        from cudalens.api.try_fix import all_findings, chosen_finding, keep, trying_of

        found = all_findings(trace) if number is None else [chosen_finding(trace, number)]
        name, first_line = _cell_of(self._shell, trace)
        trying = trying_of(
            trace,
            None,
            self._shell.user_ns,
            consent=consent,
            quiet=lambda: silent(self._shell),
            name=name,
            first_line=first_line,
            progress=progress,
        )
        if trying.needs_consent and any(trying.fixes(trying.program, one) for one in found):
            return {"effects": list(trying.effects)}
        progress("Copying the variables, to restore them before each run.")
        if number is None:
            tries = trying.all(found)
            for attempt in tries.attempts:
                keep(attempt, trace)
            together = tries.together
            has_run = together is not None and bool(together.before_ns)
            return {
                "headline": tries.headline(),
                "rows": [list(row) for row in tries.rows()],
                "notes": tries.notes(),
                "diff": together.diff if together is not None else "",
                "code": together.fixed_text if together is not None and has_run else "",
            }
        attempt = trying.attempt(found[0])
        keep(attempt, trace)
        return {
            "headline": attempt.headline(),
            "title": attempt.title,
            "notes": attempt.notes(),
            "diff": attempt.diff,
            "code": attempt.fixed_text if attempt.before_ns else "",
        }


def _trying(shell: InteractiveShell, trace: Trace, options: TryOptions) -> Trying:
    from cudalens.api.try_fix import trying_of

    if trace.info.code is None:
        raise FixError(f"the run {trace.info.name!r} has no cell that can run again; put %%cudaprofile on top of one.")
    name, first_line = _cell_of(shell, trace)
    trying = trying_of(
        trace,
        None,
        shell.user_ns,
        runs=options.runs,
        tolerance=options.tolerance,
        consent=options.yes,
        repeats=options.repeats,
        quiet=lambda: silent(shell),
        name=name,
        first_line=first_line,
    )
    for effect in trying.effects:
        print(effect)  # noqa: T201
    return trying


def _cell_of(shell: InteractiveShell, trace: Trace) -> tuple[str, int]:
    """The cell of a run as places of findings name it, ``In[3]``, and the line on which its code begins.

    The name of the run and 1 where the cell is not in the history.
    """
    history: Any = getattr(shell.history_manager, "input_hist_raw", None) or []
    code = (trace.info.code or "").strip("\n")
    numbers = [number for number, text in enumerate(history) if code and code in text]
    if not numbers:
        return str(trace.info.name), 1
    return f"In[{numbers[-1]}]", history[numbers[-1]].rpartition(code)[0].count("\n") + 1


def _number(words: list[str]) -> int | str:
    if len(words) != 1:
        raise UsageError(f"%cudaprofile try: expected one number or rule, found {' '.join(words)!r}")
    return int(words[0]) if words[0].isdecimal() else words[0]
