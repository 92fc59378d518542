"""One profiled run of a cell: what `CellSyntax` puts around the user's statements."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cudalens.errors import CudalensError
from cudalens.magics.blocks import CellBlock, brief, complain, execution_count
from cudalens.magics.options import MAGIC, Options, check_outputs, parse

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.api.overhead import PlainRuns
    from cudalens.api.profile import profile
    from cudalens.frames import Trace


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


class CellRun(CellBlock):
    """Profiles the block that it is entered for, then shows and exports what was recorded.

    The inner one of two nested runs has no Trace.

    Attributes:
        step: Number of the current run of the cell, when it runs several times.
    """

    def __init__(self, shell: InteractiveShell, options: Options, source: str | None, variable: str) -> None:
        super().__init__(shell, MAGIC, source, variable, var=options.var, outputs=options.outputs)
        self.step = 0
        self._options = options
        self._profile: profile | None = None
        self._has_stopped = self._is_measuring = False
        self._plain: PlainRuns | None = None
        self._profiled_value: Any = None
        self._progress: Any = None

    @property
    def is_silent(self) -> bool:
        """Whether nothing of ours is shown."""
        return self._options.quiet

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
        if self._options.overhead:
            yield from self._plain_steps()

    def _plain_steps(self) -> Iterator[int]:
        """The cell once more, as often, without the profiler; its value stays that of the profiled runs."""
        from cudalens.api.overhead import PlainRuns

        self._is_measuring = True  # what is delivered shall say what profiling cost
        self._stop(None, None, None)
        if self.trace is None:
            return
        self._profiled_value, self._plain = self.value, PlainRuns()
        for number in range(self._options.repeat or 1):
            yield number
            self._plain.ended_one()
            self._progress.update()
        self._note_overhead(None)

    def _note_overhead(self, error: BaseException | None) -> None:
        """Keep in the Trace what profiling cost, or what kept us from measuring it."""
        from cudalens.api.runs import runs

        plain, self._plain, self.value = self._plain, None, self._profiled_value
        assert plain is not None
        assert self._profile is not None
        assert self.trace is not None
        is_warm, number = self._options.warmup > 0, self._options.repeat or 1
        cost = plain.overhead(self._profile, number, is_warm=is_warm, error=error)
        self.trace = runs.add(self.trace.replace(info=self.trace.info.replace(overhead=cost)))
        self._deliver(self.trace)

    def _end_plain(self, error: BaseException | None) -> bool:
        """The runs without the profiler were cut short: the profile stands, and an exception of theirs is told."""
        self._note_overhead(error)
        if isinstance(error, Exception):
            from cudalens.api.outcome import Outcome

            complain(f"{MAGIC}: the run without the profiler raised {Outcome.of(error).error}. The profile stands.")
            return True
        self._show()
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> bool:
        try:
            if self._plain is not None:
                return self._end_plain(error)
            self._stop(kind, error, trail)
        finally:
            if self._progress is not None:
                self._progress.close()
        if error is None:
            return self._check()
        goes_on = self._options.no_raise_error and isinstance(error, Exception)
        if not (goes_on and self._options.output):  # then it is the value of the cell, and shown as such
            self._show()  # what was recorded until then stands above the traceback
        if not goes_on:
            return False
        self._shell.showtraceback((type(error), error, trail), tb_offset=0)
        return True

    def _deliver(self, trace: Trace) -> None:
        """Compare the Trace with past runs, and put it where it was asked for."""
        from cudalens.api import history
        from cudalens.api.runs import runs

        compared, problem = history.kept(trace, self._options.history)
        if problem is not None:
            complain(f"{MAGIC}: the run is not in the history: {problem}")
        self.trace = runs.add(compared) if compared is not trace else trace
        super()._deliver(self.trace)

    def _check(self) -> bool:
        """Fail the cell where an assertion does not hold, with what it shows above the failure."""
        if not self._options.assertions or self.trace is None:
            return False
        from cudalens.analysis.assertions.check import check
        from cudalens.errors import AssertionFailed

        try:
            check(self.trace, *self._options.assertions)
        except AssertionFailed as failure:
            if self._options.no_raise_error:
                complain(str(failure))
                return False
            if not self._options.quiet:
                self.output()
                self._is_shown = False
            self._show()
            raise brief(failure) from None
        return False

    def _start(self) -> None:
        from cudalens.api.profile import profile

        name = self._options.name or f"cell-{execution_count(self._shell)}"
        run = profile(name, **self._options.collects, code=self._source)
        try:
            run.__enter__()
        except CudalensError as error:
            raise brief(error) from None
        self._profile = run

    def _mark_step(self) -> None:
        assert self._profile is not None
        self._profile.step()

    def _stop(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> None:
        """Stop the profiler and take its Trace. A failure of its own never hides the user's exception."""
        if self._profile is None or self._has_stopped:
            return
        self._has_stopped = True
        try:
            self._profile.__exit__(kind, error, trail)
        except CudalensError as failure:
            # The cell itself went well, so it ends well, unless somebody goes on with the Trace that is not there.
            if error is None and self._is_trace_wanted:
                raise brief(failure) from None
            complain(f"{MAGIC}: {failure}")
        except KeyboardInterrupt:  # it came while the profiler was being turned off
            self._is_measuring = False
            self._take()
            self._show()
            raise
        else:
            self._take()

    @property
    def _is_trace_wanted(self) -> bool:
        """Whether the user asked for the Trace by name or as a file, and not only to look at."""
        options = self._options
        return bool(options.output or options.var or options.outputs or options.assertions or options.history)

    def _take(self) -> None:
        assert self._profile is not None
        if not self._profile.is_nested:
            self.trace = self._profile.trace
            if not self._is_measuring:
                self._deliver(self.trace)
        elif self._is_trace_wanted:
            complain(
                f"{MAGIC}: this run is a range of the run around it and has no Trace of its own; "
                f"-o, -v, --html, --save, --chrome, --assert and --history belong on the outer one."
            )


def _progress_bar(options: Options) -> Any:
    from tqdm.auto import tqdm

    total = options.warmup + (options.repeat or 1) * (2 if options.overhead else 1)
    # Drawn only for long work, and rarely: drawing falls into the steps that are measured.
    return tqdm(total=total, desc=MAGIC, unit="run", leave=False, delay=1.0, mininterval=0.5, disable=options.quiet)
