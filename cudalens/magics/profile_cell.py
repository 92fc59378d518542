"""One profiled run of a cell: the block that ``%%cudaprofile`` puts around the user's statements."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cudalens.device.interrupts import defers_interrupts
from cudalens.errors import CudalensError
from cudalens.magics.cells import CellRun, check_outputs, execution_count, print_error, without_traceback
from cudalens.magics.tracebacks import show_lines

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.api.overhead import PlainRuns
    from cudalens.api.profile import profile
    from cudalens.frames import Trace
    from cudalens.magics.profile import ProfileOptions


class ProfiledCell(CellRun):
    """Profiles the block that it is entered for, then shows and exports what was recorded.

    The inner one of two nested runs has no Trace.

    Attributes:
        step: Number of the current run of the cell, when it runs several times.
    """

    def __init__(
        self, shell: InteractiveShell, magic: str, options: ProfileOptions, source: str | None, variable: str
    ) -> None:
        self._options, self._assertions = options, options.assertions()
        super().__init__(shell, magic, options, source, variable)
        self.step = 0
        self._profile: profile | None = None
        self._has_stopped = self._is_measuring = False
        self._plain: PlainRuns | None = None
        self._profiled_value: Any = None
        self._progress: Any = None

    @defers_interrupts("profile")
    def __enter__(self) -> ProfiledCell:
        check_outputs(self._magic, self._options.outputs)
        if self._options.is_looped:
            from tqdm.auto import tqdm

            options = self._options
            total = options.warmup + (options.repeat or 1) * (2 if options.overhead else 1)
            # Drawn only for long work, and rarely, because the time of drawing is part of the measured steps.
            self._progress = tqdm(
                total=total, desc=self._magic, unit="run", leave=False, delay=1.0, mininterval=0.5,
                disable=options.quiet,
            )  # fmt: skip
        else:
            self._begin()
        self._is_inside = True
        return self

    def steps(self) -> Iterator[int]:
        """Yield once for each run of the cell: first the warmup, then the profiled steps.

        The profiled steps begin when the GPU has finished the warmup: it is not recorded, and its work would look like
        idle time at their beginning.
        """
        from cudalens.api.overhead import wait_for_device

        for number in range(self._options.warmup):
            yield number
            self._progress.update()
        if self._options.warmup:
            wait_for_device()
        self._begin()
        for number in range(self._options.repeat or 1):
            assert self._profile is not None
            self._profile.step()
            yield number
            self._progress.update()
        if self._options.overhead:
            yield from self._plain_steps()

    def _plain_steps(self) -> Iterator[int]:
        """Run the cell as often without the profiler; its value stays that of the profiled runs."""
        from cudalens.api.overhead import PlainRuns

        self._is_measuring = True  # the Trace is delivered with the overhead
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
        """Store the overhead of profiling in the Trace, or the reason why it was not measured."""
        from cudalens.api.session import runs

        plain, self._plain, self.value = self._plain, None, self._profiled_value
        assert plain is not None
        assert self._profile is not None
        assert self.trace is not None
        is_warm, number = self._options.warmup > 0, self._options.repeat or 1
        cost = plain.overhead(self._profile, number, is_warm=is_warm, error=error)
        self.trace = runs.add(self.trace.replace(info=self.trace.info.replace(overhead=cost)))
        self._deliver(self.trace)

    @defers_interrupts("profile")  # the profiler of the cell delivers them when it has stopped
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> bool:
        self._is_inside = False
        show_lines(error)
        try:
            if self._plain is not None:
                # An exception in the runs without the profiler is reported, and the profile is kept.
                self._note_overhead(error)
                if isinstance(error, Exception):
                    from cudalens.api.session import Outcome

                    message = Outcome.of(error).error
                    print_error(f"{self._magic}: the run without the profiler raised {message}. The profile is kept.")
                    return True
                self._show()
                return False
            self._stop(kind, error, trail)
        finally:
            if self._progress is not None:
                self._progress.close()
        if error is None:
            return self._check()
        goes_on = self._options.no_raise_error and isinstance(error, Exception)
        if not (goes_on and self._options.output):  # then it is the value of the cell, and shown as such
            self._show()  # above the traceback
        if not goes_on:
            return False
        self._shell.showtraceback((type(error), error, trail), tb_offset=0)
        return True

    def _deliver(self, trace: Trace) -> None:
        """Compare the Trace with past runs, then deliver it."""
        from cudalens.api import history
        from cudalens.api.session import runs
        from cudalens.magics.try_fix import ButtonTries
        from cudalens.views import notebook

        if trace.info.code is not None:
            notebook.offer_tries(ButtonTries(self._shell))
        compared, problem = history.kept(trace, self._options.history)
        if problem is not None:
            print_error(f"{self._magic}: the run is not in the history: {problem}")
        self.trace = runs.add(compared) if compared is not trace else trace
        super()._deliver(self.trace)

    def _check(self) -> bool:
        """Fail the cell where an assertion does not hold; the view is shown above the failure."""
        if not self._assertions or self.trace is None:
            return False
        from cudalens.analysis.assertions import check
        from cudalens.errors import AssertionFailed

        try:
            check(self.trace, *self._assertions)
        except AssertionFailed as failure:
            if self._options.no_raise_error:
                print_error(str(failure))
                return False
            if not self._options.quiet:
                self.output()
                self._is_shown = False
            self._show()
            raise without_traceback(failure) from None
        return False

    def _begin(self) -> None:
        from cudalens.api.profile import profile

        name = self._options.name or f"cell-{execution_count(self._shell)}"
        run = profile(name, **self._options.collects, code=self._source)
        try:
            run.__enter__()
            self._profile = run
        except BaseException as error:
            run.__exit__(type(error), error, error.__traceback__)  # no effect unless it is running
            if isinstance(error, CudalensError):
                raise without_traceback(error) from None
            raise

    @defers_interrupts("profile")
    def _stop(self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None) -> None:
        """Stop the profiler and take its Trace. An error of the profiler never replaces the user's exception."""
        if self._profile is None or self._has_stopped:
            return
        self._has_stopped = True
        try:
            self._profile.__exit__(kind, error, trail)
        except CudalensError as failure:
            # The cell succeeds without a Trace, unless later code needs the Trace.
            if error is None and self._is_trace_wanted:
                raise without_traceback(failure) from None
            print_error(f"{self._magic}: {failure}")
        except KeyboardInterrupt:  # it arrived while the profiler was stopping
            self._is_measuring = False
            self._take()
            self._show()
            raise
        else:
            self._take()

    @property
    def _is_trace_wanted(self) -> bool:
        """Whether the magic line uses the Trace for more than the display."""
        options = self._options
        return bool(options.output or options.var or options.outputs or options.asserts or options.history)

    def _take(self) -> None:
        assert self._profile is not None
        if not self._profile.is_nested:
            self.trace = self._profile.trace
            if not self._is_measuring:
                self._deliver(self.trace)
        elif self._is_trace_wanted:
            print_error(
                f"{self._magic}: this run is a range of the run around it and has no Trace of its own; "
                f"-o, -v, --html, --save, --chrome, --assert and --history belong on the outer one."
            )
