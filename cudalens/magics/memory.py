"""``%%cudamem`` records the allocator's history of a cell; ``%cudamem`` shows which variables hold the GPU's memory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError

from cudalens.magics.base import Magic, verb
from cudalens.magics.cells import CellRun, check_outputs, display, execution_count, print_error, written
from cudalens.magics.options import (
    CellOptions,
    NoOptions,
    Outputs,
    file,
    flag,
    identifier,
    number,
    one_of,
    option,
    place,
)

if TYPE_CHECKING:
    from types import TracebackType

    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.api.memory import memory_history
    from cudalens.frames import Trace
    from cudalens.memory.leaks import CellTracker

_NO_LEAKS: Final = "Cells were not followed: `%cudamem leaks on` follows the next ones. What variables hold now:"
_IS_SHOWN: Final = "_cudalens_memory_is_shown"
_BY: Final = ("stack", "category", "stream", "segment_type", "cell", "holder")


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(CellOptions):
    """Options of ``%%cudamem``."""

    name: str | None = place("NAME", "Name of the run in cudalens.runs. The default is cell-<execution count>.")
    quiet: bool = flag("-q", "--quiet", help="Show nothing, unless the cell runs out of memory.")
    save: Path | None = file("--save", "Also save the Trace (.cudalens), for cudalens.load.", "save")
    max_entries: int | None = number("--max-entries", "Keep the last N actions of the allocator (1000000).")
    no_stacks: bool = flag("--no-stacks", help="Keep no call stacks, which reduces the overhead.")


@dataclass(frozen=True, kw_only=True)
class SnapshotOptions(Outputs):
    """Options of ``%cudamem snapshot``."""

    name: str | None = place("NAME", "Name of the snapshot in cudalens.runs.")
    save: Path | None = file("--save", "Also save the Trace (.cudalens), for cudalens.load.", "save")
    quiet: bool = flag("-q", "--quiet", help="Do not show the snapshot.")


@dataclass(frozen=True, kw_only=True)
class DiffOptions(NoOptions):
    """Options of ``%cudamem diff``."""

    snapshots: list[str] | None = place(
        "A B", "Names of runs, variables or files; without B, A is compared with now.", nargs="*", is_run=True
    )
    by: str = option(
        "--by",
        metavar="WHAT",
        default="stack",
        type=one_of(*_BY),
        help=f"Compare by {', '.join(_BY[:-1])} or {_BY[-1]} (default: stack).",
    )

    def __post_init__(self) -> None:
        """Refuse another number of snapshots, by ValueError."""
        if len(self.snapshots or ()) not in (1, 2):
            raise ValueError("diff takes one or two snapshots: names of runs, variables or files.")


@dataclass(frozen=True, kw_only=True)
class LeakOptions(NoOptions):
    """Options of ``%cudamem leaks on``."""

    quiet: bool = flag("-q", "--quiet", help="Print no line after a cell; `leaks` lists all cells.")


@dataclass(frozen=True, kw_only=True)
class LeakReportOptions(NoOptions):
    """Options of ``%cudamem leaks``."""

    var: str | None = option("-v", "--var", metavar="NAME", type=identifier, help="Put the Trace into the variable.")


class Cudamem(Magic):
    """``%cudamem`` and ``%%cudamem``."""

    name = "cudamem"
    about = """See what holds the GPU's memory: by variable, by purpose, by the line that allocated it.

``%%cudamem`` on top of a cell records what the cell allocates and frees, and shows its peak and what it left allocated.
``%cudamem snapshot`` shows what is allocated now. A cell that runs out of memory shows what holds the memory, with
``%%cudamem`` on top and after ``%cudamem leaks on``."""
    default = "snapshot"
    cell_options = MemoryOptions
    cell_about = "Record what the cell allocates and frees."

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._watch: LeakWatch | None = None

    @classmethod
    def cell_run(cls, shell: InteractiveShell, options: MemoryOptions, source: str | None, variable: str) -> MemoryCell:
        """Return the recorded run of one cell."""
        return MemoryCell(shell, "%%cudamem", options, source, variable)

    def end(self) -> None:
        """Stop following cells, when the extension is unloaded."""
        if self._watch is not None:
            self._watch.end()
            self._watch = None

    @verb("snapshot", SnapshotOptions)
    def _snapshot(self, options: SnapshotOptions) -> None:
        """Show what is allocated now, and keep it in cudalens.runs."""
        from cudalens.api.memory import memory_snapshot

        check_outputs("%cudamem snapshot", options.outputs)
        trace = memory_snapshot(options.name, shell=self.shell)
        if options.var is not None:
            self.shell.user_ns[options.var] = trace
        if not options.quiet:
            display(self.shell, trace)
        for line in written("%cudamem snapshot", trace, options.outputs):
            print(line)  # noqa: T201

    @verb("diff", DiffOptions)
    def _diff(self, options: DiffOptions) -> None:
        """Show what snapshot B has that A does not have, and the reverse."""
        from cudalens.api.memory import memory_snapshot

        before, *others = (self._trace_of(word) for word in options.snapshots or ())
        after = others[0] if others else memory_snapshot("now", keep=False, shell=self.shell)
        display(self.shell, before.memory_diff(after, by=options.by))

    def _trace_of(self, word: str) -> Trace:
        """Return the snapshot that a word of the line means: a run, a variable, or a file.

        Raises:
            UsageError: It is none of these, or it has no blocks.
        """
        from cudalens.api.session import runs
        from cudalens.frames import Trace
        from cudalens.traces import load
        from cudalens.views.memory.words import has_memory

        found = runs[word] if word in runs else self.shell.user_ns.get(word)
        if not isinstance(found, Trace):
            if not Path(word).expanduser().exists():
                known = ", ".join(runs) or "none"
                raise UsageError(
                    f"%cudamem diff: {word!r} is not a run, a variable with a Trace, or a file. Runs: {known}"
                )
            found = load(Path(word).expanduser())
        if not has_memory(found):
            raise UsageError(
                f"%cudamem diff: {word!r} has no data of the allocator; `%cudamem snapshot NAME` and `%%cudamem NAME` "
                "record them."
            )
        return found

    @verb("leaks", LeakReportOptions)
    def _leaks(self, options: LeakReportOptions) -> None:
        """List what the followed cells left allocated, and the variables that hold it."""
        from cudalens.api.memory import memory_snapshot
        from cudalens.views.memory.section import holders
        from cudalens.views.memory.words import leaks_text

        trace = memory_snapshot(keep=False, shell=self.shell)
        text = leaks_text(trace)
        if self._watch is None:
            text = "\n\n".join(part for part in (text, _NO_LEAKS, str(holders(trace))) if part)
        print(text or "No cell left anything allocated.")  # noqa: T201
        if options.var is not None:
            self.shell.user_ns[options.var] = trace

    @verb("leaks on", LeakOptions)
    def _leaks_on(self, options: LeakOptions) -> None:
        """Print after each cell what it left allocated, and the variables that hold it."""
        self.end()
        self._watch = LeakWatch(self.shell, is_quiet=options.quiet)
        print("Following what the next cells leave allocated. `%cudamem leaks off` ends it.")  # noqa: T201

    @verb("leaks off")
    def _leaks_off(self, options: NoOptions) -> None:
        """Stop following cells."""
        text = "Cells were not followed." if self._watch is None else "Cells are no longer followed."
        self.end()
        print(text)  # noqa: T201

    @verb("leaks report", LeakReportOptions)
    def _leaks_report(self, options: LeakReportOptions) -> None:
        """The same as ``%cudamem leaks``."""
        self._leaks(options)

    @verb("leaks clear")
    def _leaks_clear(self, options: NoOptions) -> None:
        """Attribute what is allocated now to no cell."""
        if self._watch is not None:
            self._watch.clear()
        print("Memory that is allocated now is no longer attributed to cells.")  # noqa: T201


class MemoryCell(CellRun):
    """Records the allocator's history of the block that it is entered for, then shows it and what is left allocated."""

    def __init__(
        self, shell: InteractiveShell, magic: str, options: MemoryOptions, source: str | None, variable: str
    ) -> None:
        super().__init__(shell, magic, options, source, variable)
        self._options = options
        self._history: memory_history | None = None

    @property
    def is_silent(self) -> bool:
        """Whether nothing is shown: with `-q`, unless the cell ran out of memory."""
        is_out = self.trace is not None and bool((self.trace.memory["action"] == "oom").any())
        return self._options.quiet and not is_out

    def start(self) -> None:
        """Begin to record."""
        from cudalens.api.memory import memory_history

        options = self._options
        given: dict[str, Any] = {"max_entries": options.max_entries} if options.max_entries else {}
        name = options.name or f"cell-{execution_count(self._shell)}"
        history = memory_history(name, stacks=not options.no_stacks, code=self._source, shell=self._shell, **given)
        self._history = history.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> bool | None:
        super().__exit__(kind, error, trail)
        if error is not None:
            with suppress(AttributeError):  # so that a `LeakWatch` does not show it again
                setattr(error, _IS_SHOWN, True)
        return None

    def collect(self, error: BaseException | None) -> Trace:
        """Return what was recorded."""
        assert self._history is not None
        if self.value is not None and not self._options.output:
            self._history.will_show(execution_count(self._shell), self.value)
        self._history.__exit__(None if error is None else type(error), error, None)
        return self._history.trace


class LeakWatch:
    """Follows the next cells, and prints after each what it left allocated.

    Args:
        shell: The shell.
        is_quiet: Whether no line is printed after a cell.

    Raises:
        CudalensError: There is no device.
    """

    def __init__(self, shell: InteractiveShell, *, is_quiet: bool) -> None:
        from cudalens.memory.leaks import CellTracker
        from cudalens.memory.snapshot import require_device

        require_device()
        self._shell, self._is_quiet = shell, is_quiet
        self.tracker: CellTracker = CellTracker(shell=shell)
        self.tracker.on()
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)

    def end(self) -> None:
        """Unregister from the shell, and discard what was recorded."""
        for event, callback in (("pre_run_cell", self._before_cell), ("post_run_cell", self._after_cell)):
            with suppress(ValueError):
                self._shell.events.unregister(event, callback)
        self.tracker.off()

    def clear(self) -> None:
        """Attribute what is allocated now to no cell."""
        self.tracker.off()
        self.tracker.on()

    def _before_cell(self, info: Any = None) -> None:
        self._guarded(lambda: self.tracker.begin(lambda: f"In[{execution_count(self._shell)}]"))

    def _after_cell(self, result: Any = None) -> None:
        number = getattr(result, "execution_count", None) or execution_count(self._shell)
        self._guarded(lambda: self._report(number, getattr(result, "error_in_exec", None)))

    def _report(self, number: int, error: BaseException | None) -> None:
        left = self.tracker.end(f"In[{number}]", error)
        if is_out_of_memory(error) and not hasattr(error, _IS_SHOWN):
            from cudalens.api.memory import memory_snapshot

            display(self._shell, memory_snapshot(f"out-of-memory-{number}", error=error, shell=self._shell))
        elif left is not None and (left.sizes or left.freed_bytes) and not self._is_quiet:
            from cudalens.views.memory.words import left_text

            print(left_text(left.cell, left.sizes, left.names, left.kinds, left.freed_bytes))  # noqa: T201

    def _guarded(self, act: Any) -> None:
        """Print an error of cudalens in one line and stop following, because each cell would repeat the error."""
        try:
            act()
        except Exception as error:
            self.end()
            print_error(f"%cudamem leaks: switched off: {type(error).__name__}: {error}")


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether a cell failed because the device has too little memory."""
    if error is None:
        return False
    import torch

    return isinstance(error, torch.OutOfMemoryError)
