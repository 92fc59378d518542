"""One profiled run of a cell: what `CellSyntax` puts around the user's statements."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from IPython.core.displayhook import DisplayHook

from cudalens.errors import CudalensError
from cudalens.magics.options import MAGIC, Options, check_outputs, parse

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.frames import Trace
    from cudalens.session import profile


RUN_PREFIX: Final = "__cudalens_run_"
"""How the names begin under which runs stand in the user's namespace."""


def profiled(shell: InteractiveShell, arguments: str, source: str | None, variable: str) -> CellRun:
    """The context manager for one run of a cell.

    Args:
        shell: The shell that runs the cell.
        arguments: What stands behind the magic's name.
        source: The cell without the magic line, or None where it is not known.
        variable: Name under which the run stands in the user's namespace until the cell has ended.

    Raises:
        UsageError: The options are wrong.
    """
    return CellRun(shell, parse(arguments), source, variable)


class CellRun:
    """Profiles the block that it is entered for, then shows and exports what was recorded.

    Attributes:
        value: The value of the cell's last expression.
        step: Number of the current run of the cell, when it runs several times.
        trace: What was recorded; None until the block has ended, and for the inner one of two nested runs.
    """

    def __init__(self, shell: InteractiveShell, options: Options, source: str | None, variable: str) -> None:
        self.value: Any = None
        self.step = 0
        self.trace: Trace | None = None
        self._shell = shell
        self._options = options
        self._source = source
        self._profile: profile | None = None
        self._progress: Any = None
        self._notes: list[str] = []
        self._variable = variable
        self._is_shown = False
        shell.events.register("post_execute", self.end)

    def __enter__(self) -> CellRun:
        check_outputs(self._options)
        if self._options.is_looped:
            self._progress = _progress_bar(self._options)
        else:
            self._start()
        return self

    def steps(self) -> Iterator[int]:
        """Yields once for each run of the cell: first the warmup, then the profiled steps."""
        for number in range(self._options.warmup):
            yield number
            self._progress.update()
        self._start()
        for number in range(self._options.repeat or 1):
            self._mark_step()
            yield number
            self._progress.update()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> bool:
        try:
            self._stop(kind, error, trail)
        finally:
            if self._progress is not None:
                self._progress.close()
        if error is None:
            return False
        goes_on = self._options.no_raise_error and isinstance(error, Exception)
        if not (goes_on and self._options.output):  # then it is the value of the cell, and shown as such
            self._show()  # what was recorded until then stands above the traceback
        if not goes_on:
            return False
        self._shell.showtraceback((type(error), error, trail), tb_offset=0)
        return True

    def output(self) -> Trace | None:
        """With ``-o``: show the value of the last expression, and return the Trace as the value of the cell."""
        if self.value is not None and not _ends_in_semicolon(self._source or ""):
            display(self._shell, self.value)
        self._is_shown = self.trace is not None
        return self.trace

    def _start(self) -> None:
        from cudalens.session import profile

        name = self._options.name or f"cell-{execution_count(self._shell)}"
        run = profile(name, **self._options.collects, code=self._source)
        try:
            run.__enter__()
        except CudalensError as error:
            raise _brief(error) from None
        self._profile = run

    def _mark_step(self) -> None:
        assert self._profile is not None
        self._profile.step()

    def _stop(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> None:
        """Stop the profiler and take its Trace. A failure of its own never hides the user's exception."""
        if self._profile is None:
            return
        try:
            self._profile.__exit__(kind, error, trail)
        except CudalensError as failure:
            # The cell itself went well, so it ends well, unless somebody goes on with the Trace that is not there.
            if error is None and self._is_trace_wanted:
                raise _brief(failure) from None
            _complain(f"{MAGIC}: {failure}")
        except KeyboardInterrupt:  # it came while the profiler was being turned off
            self._take()
            self._show()
            raise
        else:
            self._take()

    @property
    def _is_trace_wanted(self) -> bool:
        """Whether the user asked for the Trace by name or as a file, and not only to look at."""
        return bool(self._options.output or self._options.var or self._options.outputs)

    def _take(self) -> None:
        assert self._profile is not None
        if not self._profile.is_nested:
            self.trace = self._profile.trace
            self._deliver(self.trace)
        elif self._is_trace_wanted:
            _complain(
                f"{MAGIC}: this run is a range of the run around it and has no Trace of its own; "
                f"-o, -v, --html, --save and --chrome belong on the outer one."
            )

    def _deliver(self, trace: Trace) -> None:
        if self._options.var:
            self._shell.user_ns[self._options.var] = trace
        for method, path in self._options.outputs.items():
            try:
                self._notes.append(f"Wrote {_described(getattr(trace, method)(path))}.")
            except Exception as error:  # an export that fails loses neither the trace nor what is shown
                _complain(
                    f"{MAGIC}: {path} was not written: {type(error).__name__}: {error} "
                    f"The run is kept as cudalens.runs[{trace.info.name!r}]."
                )

    def end(self) -> None:
        """The cell has ended, and IPython has shown its value: show the Trace."""
        with suppress(ValueError):
            self._shell.events.unregister("post_execute", self.end)
        self._shell.user_ns.pop(self._variable, None)
        self._show()

    def _show(self) -> None:
        """Show the Trace and what was written, once."""
        trace, self._is_shown, was_shown = self.trace, True, self._is_shown
        if trace is None or self._options.quiet:
            return
        if not was_shown:
            display(self._shell, trace)
        while self._notes:
            print(self._notes.pop(0))  # noqa: T201


def end_runs(shell: InteractiveShell, *, spare: Collection[str]) -> None:
    """End the runs that stand in the user's namespace, but for those named in `spare`."""
    for name in [name for name in shell.user_ns if name.startswith(RUN_PREFIX) and name not in spare]:
        shell.user_ns[name].end()


def execution_count(shell: InteractiveShell) -> int:
    """The n of In[n] of the cell that is running; also where %%capture runs the rest of it as an unstored cell."""
    running = getattr(shell.displayhook, "exec_result", None)
    count = getattr(running, "execution_count", None) or shell.execution_count
    stored = len(shell.history_manager.input_hist_raw) - 1 if shell.history_manager else 0
    return stored if stored and count == stored + 1 else count


def _progress_bar(options: Options) -> Any:
    from tqdm.auto import tqdm

    total = options.warmup + (options.repeat or 1)
    # Drawn only for long work, and rarely: drawing falls into the steps that are measured.
    return tqdm(total=total, desc=MAGIC, unit="run", leave=False, delay=1.0, mininterval=0.5, disable=options.quiet)


def display(shell: InteractiveShell, thing: Any) -> None:
    """Show `thing` below the cell as IPython does, also in a shell that is not the only one of its process."""
    assert shell.display_formatter is not None
    data, metadata = shell.display_formatter.format(thing)  # type: ignore[no-untyped-call]
    if data:
        shell.display_pub.publish(data, metadata)


def _described(path: Path) -> str:
    from cudalens.views import units

    return f"{path} ({units.size(path.stat().st_size)})"


def _ends_in_semicolon(source: str) -> bool:
    return bool(DisplayHook.semicolon_at_end_of_expression(source))  # type: ignore[no-untyped-call]


def _complain(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201


def _brief(error: CudalensError) -> CudalensError:
    """`error`, shown by IPython without a traceback: the message says it all, and the cell is not to blame."""
    error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # type: ignore[attr-defined]
    return error
