"""The magics class of ``%cudamem``, and of ``%%cudamem`` where it is called as a function."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from cudalens.errors import CudalensError
from cudalens.magics.blocks import brief, complain, display, run_as_cell
from cudalens.magics.memory_options import LINE_MAGIC, LINE_TABLE, MAGIC, MemoryOptions, parse_line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.frames import Trace
    from cudalens.magics.memory_running import LeakWatch

_NO_LEAKS: Final = "Cells were not followed: `%cudamem leaks on` follows those that come. What variables hold now:"


@magics_class
class CudamemMagics(Magics):
    """``%cudamem`` and ``%%cudamem``."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._watch: LeakWatch | None = None

    @LINE_TABLE.documented
    @no_var_expand
    @line_cell_magic
    def cudamem(self, line: str, cell: str | None = None) -> Any:
        """See who holds the GPU's memory: by variable, by what it is there for, by the line that allocated it.

        ``%%cudamem`` on top of a cell follows what the cell allocates and frees, and shows its peak and what it left.
        ``%cudamem snapshot NAME`` looks at what is there now and keeps it in ``cudalens.runs``; ``%cudamem diff A B``
        tells what the second of two snapshots (now, of a single one) holds that the first did not.
        ``%cudamem leaks on`` tells after each cell what it left alive and which variables hold it; ``leaks`` lists all
        cells, ``leaks off`` ends that.

        A cell that runs out of memory shows who holds it, with ``%%cudamem`` on top and after ``leaks on``.
        """
        __tracebackhide__ = True
        if cell is not None:
            return run_as_cell(self._user_shell, MAGIC, line, cell)
        action, options = parse_line(line)
        try:
            return getattr(self, f"_{action}")(options)
        except CudalensError as error:
            raise brief(error) from None

    def end(self) -> None:
        """Stop following cells, when the extension is unloaded."""
        if self._watch is not None:
            self._watch.end()
            self._watch = None

    @property
    def _user_shell(self) -> InteractiveShell:
        assert self.shell is not None
        return self.shell

    def _snapshot(self, options: MemoryOptions) -> None:
        from cudalens.api.memory import memory_snapshot
        from cudalens.magics.memory_running import check_outputs

        check_outputs(LINE_MAGIC, options)
        self._deliver(memory_snapshot(options.words[0] if options.words else None, shell=self._user_shell), options)

    def _deliver(self, trace: Trace, options: MemoryOptions) -> None:
        if options.var is not None:
            self._user_shell.user_ns[options.var] = trace
        if not options.quiet:
            display(self._user_shell, trace)
        for method, file in options.outputs.items():
            try:
                print(f"Wrote {getattr(trace, method)(file)}.")  # noqa: T201
            except Exception as error:  # the snapshot is kept: it can be written elsewhere
                complain(f"{LINE_MAGIC}: {file} was not written: {type(error).__name__}: {error}")

    def _diff(self, options: MemoryOptions) -> None:
        from cudalens.api.memory import memory_snapshot

        before, *others = (self._trace_of(word) for word in options.words)
        after = others[0] if others else memory_snapshot("now", keep=False, shell=self._user_shell)
        display(self._user_shell, before.memory_diff(after, by=options.by))

    def _trace_of(self, word: str) -> Trace:
        """The snapshot that a word of the line means: a run, a variable, or a file.

        Raises:
            UsageError: It is none of these, or it has no blocks.
        """
        from cudalens.api.runs import runs
        from cudalens.frames import Trace
        from cudalens.traces import load
        from cudalens.views.memory.text import has_memory

        found = runs[word] if word in runs else self._user_shell.user_ns.get(word)
        if not isinstance(found, Trace):
            if not Path(word).expanduser().exists():
                known = ", ".join(runs) or "none"
                raise UsageError(
                    f"{LINE_MAGIC}: {word!r} is no run, no variable with a Trace and no file. Runs: {known}"
                )
            found = load(Path(word).expanduser())
        if not has_memory(found):
            raise UsageError(
                f"{LINE_MAGIC}: {word!r} tells nothing of the allocator; "
                f"`{LINE_MAGIC} snapshot NAME` and `{MAGIC} NAME` make what does."
            )
        return found

    def _leaks(self, options: MemoryOptions) -> None:
        getattr(self, f"_leaks_{options.words[0] if options.words else 'report'}")(options)

    def _leaks_on(self, options: MemoryOptions) -> None:
        from cudalens.magics.memory_running import LeakWatch

        self.end()
        self._watch = LeakWatch(self._user_shell, options)
        print("Following what the cells that come leave alive. `%cudamem leaks off` ends it.")  # noqa: T201

    def _leaks_off(self, options: MemoryOptions) -> None:
        told = "Cells were not followed." if self._watch is None else "Cells are no longer followed."
        self.end()
        print(told)  # noqa: T201

    def _leaks_clear(self, options: MemoryOptions) -> None:
        if self._watch is not None:
            self._watch.clear()
        print("What is there now counts as there before.")  # noqa: T201

    def _leaks_report(self, options: MemoryOptions) -> None:
        from cudalens.api.memory import memory_snapshot
        from cudalens.views.memory.text import holders_text, leaks_text

        trace = memory_snapshot(keep=False, shell=self._user_shell)
        told = leaks_text(trace)
        if self._watch is None:
            told = "\n\n".join(part for part in (told, _NO_LEAKS, holders_text(trace)) if part)
        print(told or "No cell left anything alive.")  # noqa: T201
        if options.var is not None:
            self._user_shell.user_ns[options.var] = trace
