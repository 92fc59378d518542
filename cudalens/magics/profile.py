"""``%%cudaprofile`` profiles a cell; ``%cudaprofile`` lists, shows and compares the runs of the session."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError

from cudalens.errors import AssertionSyntaxError
from cudalens.magics.base import Magic, verb
from cudalens.magics.cells import display, run_as_cell
from cudalens.magics.options import CellOptions, NoOptions, file, flag, number, option, place, positive, rate, texts

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.analysis.assertions import Assertion
    from cudalens.magics.profile_cell import ProfiledCell


#: Options before the statement of ``%cudaprofile``: flags, and options with a number.
_OPTIONS: Final = re.compile(r"(?:--?[a-z][\w-]*\s+(?:\d+\s+)?)*")


@dataclass(frozen=True, kw_only=True)
class ProfileOptions(CellOptions):
    """Options of ``%%cudaprofile``."""

    name: str | None = place("NAME", "Name of the run in cudalens.runs. The default is cell-<execution count>.")
    quiet: bool = flag("-q", "--quiet", help="Show nothing; the run is still kept in cudalens.runs.")
    memory: bool = flag(
        "--memory", "--profile-memory", help="Record every allocation and release, for the memory curve."
    )
    shapes: bool = flag("--shapes", "--record-shapes", help="Record the shapes and dtypes of operator inputs.")
    stacks: bool = flag(
        "--stacks", "--with-stack", help="Record Python call stacks (the option with the highest overhead)."
    )
    modules: bool = flag("--modules", "--with-modules", help="Record which nn.Modules were running.")
    flops: bool = flag(
        "--flops", "--with-flops", help="Estimate floating-point operations of matrix products and convolutions."
    )
    cpu_only: bool = flag("--cpu-only", help="Do not profile the GPU.")
    metrics: bool | float = number(
        "--metrics",
        "Also read utilization, memory, temperature, power and clocks of the GPUs, RATE times a second (20).",
        default=False,
        metavar="RATE",
        type=rate,
        nargs="?",
        const=True,
    )
    syncs: bool = flag("--syncs", help="Also record the line of every wait of the host for the GPU.")
    warmup: int = number("--warmup", "Run the cell N times before profiling starts.", least=0, default=0)
    repeat: int | None = number("--repeat", "Profile N runs of the cell, each of them one step.")
    overhead: bool = flag("--overhead", help="Also measure the overhead: run the cell as often without the profiler.")
    save: Path | None = file("--save", "Also save the Trace (.cudalens), for cudalens.load.", "save")
    chrome: Path | None = file("--chrome", "Also write a Chrome trace (.json or .json.gz), for Perfetto.", "to_chrome")
    asserts: list[str] | None = texts(
        "--assert", "TEXT", 'Fail the cell where this does not hold, as in "idle < 20%"; may be given several times.'
    )
    history: Path | None = file("--history", "Compare with the past runs in FILE, and add this one.")
    no_raise_error: bool = flag("--no-raise-error", help="Show an exception of the cell, and continue after it.")

    @property
    def is_looped(self) -> bool:
        """Whether the cell's statements run in a loop: more than once, or as a profiler step."""
        return self.warmup > 0 or self.repeat is not None or self.overhead

    @property
    def collects(self) -> dict[str, Any]:
        """The options that say what to record, as arguments of `cudalens.profile`."""
        names = ("memory", "shapes", "stacks", "modules", "flops", "cpu_only", "metrics", "syncs")
        return {name: getattr(self, name) for name in names}

    def assertions(self) -> tuple[Assertion, ...]:
        """Return the assertions.

        Raises:
            UsageError: One cannot be parsed.
        """
        if not self.asserts:
            return ()
        from cudalens.analysis.assertions import parse_assertion

        try:
            return tuple(map(parse_assertion, self.asserts))
        except AssertionSyntaxError as error:
            raise UsageError(f"%%cudaprofile: {error}\nThe cell has not run.") from None


@dataclass(frozen=True, kw_only=True)
class RunName(NoOptions):
    """Options of ``%cudaprofile show``."""

    name: list[str] | None = place(
        "NAME", "A name in cudalens.runs; the default is the last run.", nargs="*", is_run=True
    )


@dataclass(frozen=True, kw_only=True)
class TwoRuns(NoOptions):
    """Options of ``%cudaprofile diff``."""

    runs: list[str] | None = place(
        "A B", "Runs, variables or files; the default is the last two runs.", nargs="*", is_run=True
    )


@dataclass(frozen=True, kw_only=True)
class HistoryFile(NoOptions):
    """Options of ``%cudaprofile history on``."""

    path: list[str] | None = place("FILE", "The file; the default is one in the working folder.", nargs="*")


@dataclass(frozen=True, kw_only=True)
class TryOptions(NoOptions):
    """Options of ``%cudaprofile try``."""

    finding: list[str] | None = place("N", "Number or rule of the finding; the default is the first one.", nargs="*")
    run: str | None = option("--run", metavar="NAME", help="The run whose findings are tried; the default: the last.")
    runs: int | None = number("--runs", "Timed runs of each version (5, and 3 on a virtual device).", least=2)
    tolerance: float | None = number(
        "--tolerance",
        "By how much results may differ, relative to the root mean square of a tensor.",
        default=None,
        metavar="X",
        type=positive,
    )
    repeats: int = number(
        "--repeats",
        "How often the cell will run: try all weighs what lines that run once cost against the gain of so many runs.",
        default=1,
    )
    yes: bool = flag("--yes", help="Run the cell again although it writes files, sends requests or starts programs.")
    write: bool = flag("--write", help="Put the fixed cell into the next cell, and fixed functions into their files.")


class Cudaprofile(Magic):
    """``%%cudaprofile`` and ``%cudaprofile``."""

    name = "cudaprofile"
    about = """Profile a cell and show its timeline, its costs and its memory.

The cell behaves as without the magic: its output, the value of its last expression, its exceptions, ``await``, and
other magics in it. The view is shown below the output, and the run is kept in ``cudalens.runs``. Runs stay in memory
until ``del cudalens.runs[NAME]`` or ``cudalens.runs.clear()``.

``%cudaprofile f(x)`` profiles one line and returns its value. Flags and options with a number may precede the line, as
in ``%cudaprofile --stacks f(x)``."""
    cell_options = ProfileOptions
    cell_about = "Profile the cell."

    @classmethod
    def cell_run(
        cls, shell: InteractiveShell, options: ProfileOptions, source: str | None, variable: str
    ) -> ProfiledCell:
        """Return the profiled run of one cell."""
        from cudalens.magics.profile_cell import ProfiledCell

        return ProfiledCell(shell, "%%cudaprofile", options, source, variable)

    def run_line(self, line: str) -> Any:
        """Run a verb; or profile the statement of the line, as ``%time`` times one, and return its value.

        Options of the cell form that are flags or have a number may precede the statement.
        """
        __tracebackhide__ = True
        found = _OPTIONS.match(line)
        assert found is not None
        statement = line[found.end() :]
        if self._is_statement(statement):
            return run_as_cell(self.shell, "%%cudaprofile", found[0], statement)
        return super().run_line(line)

    def _is_statement(self, text: str) -> bool:
        """Whether `text` is a line of Python, and neither a verb nor a lone name, which may be a misspelt verb."""
        if text.startswith("-") or text.partition(" ")[0] in self.forms:
            return False
        try:
            body = ast.parse(self.shell.transform_cell(text)).body  # type: ignore[no-untyped-call]
        except (SyntaxError, ValueError):
            return False
        return bool(body) and not (isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Name))

    @verb("list")
    def _list(self, options: NoOptions) -> None:
        """List the runs of this session."""
        print(_runs())  # noqa: T201

    @verb("show", RunName)
    def _show(self, options: RunName) -> None:
        """Show a run again."""
        runs, name = _runs(), " ".join(options.name or ())
        if not runs:
            raise UsageError("%cudaprofile: there is no run to show yet; put %%cudaprofile on top of a cell")
        if name and name not in runs:
            raise UsageError(f"%cudaprofile: there is no run {name!r}; there are: {', '.join(runs)}")
        display(self.shell, runs[name] if name else runs.last)

    @verb("diff", TwoRuns)
    def _diff(self, options: TwoRuns) -> None:
        """Show what became faster or slower from A to B."""
        from cudalens.api.compare import compare

        words = options.runs or list(_runs())[-2:]
        if len(words) != 2:
            raise UsageError(
                f"%cudaprofile diff: expected two runs, variables or files, found {len(words)}: {' '.join(words)!r}"
            )
        display(self.shell, compare(*(self._run_of(word) for word in words)))

    @verb("try", TryOptions)
    def _try(self, options: TryOptions) -> None:
        """Run the cell with and without the fix of a finding, and show what it gives."""
        from cudalens.magics.try_fix import try_finding

        try_finding(self.shell, self._tried_run(options), options)

    @verb("try all", TryOptions)
    def _try_all(self, options: TryOptions) -> None:
        """Try the fixes of all findings, and keep what helps."""
        from cudalens.magics.try_fix import try_every_finding

        try_every_finding(self.shell, self._tried_run(options), options)

    def _tried_run(self, options: TryOptions) -> Any:
        runs = _runs()
        if not runs:
            raise UsageError("%cudaprofile try: there is no run yet; put %%cudaprofile on top of a cell")
        if options.run is not None and options.run not in runs:
            raise UsageError(f"%cudaprofile try: there is no run {options.run!r}; there are: {', '.join(runs)}")
        return runs[options.run] if options.run is not None else runs.last

    @verb("history")
    def _history(self, options: NoOptions) -> None:
        """List the past runs, with the file in which they are kept."""
        from cudalens.api import history
        from cudalens.views.sections.history import History

        display(self.shell, History(history.table(), history.where()))

    @verb("history on", HistoryFile)
    def _history_on(self, options: HistoryFile) -> None:
        """Keep summaries of profiled cells in a file."""
        from cudalens.api import history

        path = history.on(" ".join(options.path) if options.path else None)
        print(f"Summaries of profiled cells are kept in {path}.")  # noqa: T201

    @verb("history off")
    def _history_off(self, options: NoOptions) -> None:
        """Keep summaries for this session only."""
        from cudalens.api import history

        history.off()

    def _run_of(self, word: str) -> Any:
        """Return the value of a variable that holds runs; else the word, which names a run or a file."""
        from cudalens.frames import Ranks, Trace

        value = self.shell.user_ns.get(word)
        is_runs = isinstance(value, Trace | Ranks) or (
            isinstance(value, list | tuple) and bool(value) and all(isinstance(one, Trace | str) for one in value)
        )
        return value if is_runs and word not in _runs() else word


def _runs() -> Any:
    from cudalens.api.session import runs

    return runs
