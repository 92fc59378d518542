"""``%%cudawatch`` around one cell, ``%cudawatch on`` around all following cells, and the panel that both show."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from cudalens.errors import CudalensError
from cudalens.magics.cells import CellRun, display, execution_count, without_traceback, written

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.api.watch import Watch
    from cudalens.frames import Trace
    from cudalens.magics.watch import AttachOptions, CellRunOptions, RunOptions
    from cudalens.watching.panel import WatchPanel

_last: WeakKeyDictionary[InteractiveShell, Watch] = WeakKeyDictionary()


def last_watch(shell: InteractiveShell) -> Watch | None:
    """Return the last run that a cell of `shell` watched."""
    return _last.get(shell)


class WatchedLoop(CellRun):
    """Watches the block that it is entered for, with a live panel where a kernel runs."""

    def __init__(
        self, shell: InteractiveShell, magic: str, options: CellRunOptions, source: str | None, variable: str
    ) -> None:
        super().__init__(shell, magic, options, source, variable)
        self._options = options
        self._watch: Watch | None = None
        self._panel: WatchPanel | None = None

    def start(self) -> None:
        """Show the panel and begin to watch."""
        from cudalens.api.watch import watch

        try:
            run = watch(self._options.name or f"cell-{execution_count(self._shell)}", **self._options.arguments)
        except ValueError as error:
            raise CudalensError(str(error)) from None
        if not self._options.quiet:
            self._panel = shown_panel(self._shell, run)
        self._watch = _last[self._shell] = run.start()

    def stop(self, error: BaseException | None) -> None:
        """Stop watching; the panel keeps the last state."""
        if self._watch is not None:
            self._watch.stop(error)

    def collect(self, error: BaseException | None) -> Trace | None:
        """Return the record of the run, which has the methods of a Trace that a cell uses."""
        record: Any = None if self._watch is None else self._watch.summary()
        return cast("Trace | None", record)

    def _deliver(self, trace: Trace) -> None:
        """Assign the record to the variable and write the page that the magic line asks for."""
        if self._asked.var:
            self._shell.user_ns[self._asked.var] = trace
        self._notes += written(self._magic, trace, self._asked.outputs)

    def _show(self) -> None:
        """Without a panel, show the record; once."""
        record, self._is_shown, was_shown = self.trace, True, self._is_shown
        if record is None or was_shown or self.is_silent:
            return
        if self._panel is None:
            display(self._shell, record)
        self._print_notes()


class NotebookWatch:
    """A watch that stays on from cell to cell, with one panel; the time between cells is left out.

    Attributes:
        watch: The watch.
    """

    def __init__(self, shell: InteractiveShell, options: RunOptions) -> None:
        from cudalens.api.watch import watch

        self._shell = shell
        self.watch: Watch = watch(**options.arguments)
        try:
            self.watch.start()
        except CudalensError as error:
            raise without_traceback(error) from None
        _last[shell] = self.watch
        self._panel = shown_panel(shell, self.watch)
        shell.events.register("pre_run_cell", self._cell_begins)
        shell.events.register("post_run_cell", self._cell_ended)

    @property
    def is_on(self) -> bool:
        """Whether it watches."""
        return self.watch.is_on

    def end(self) -> None:
        """Stop watching. No effect if it has ended."""
        for event, callback in (("pre_run_cell", self._cell_begins), ("post_run_cell", self._cell_ended)):
            with suppress(ValueError):
                self._shell.events.unregister(event, callback)
        self.watch.stop()

    def _cell_begins(self, info: Any = None) -> None:
        if self.watch.is_on:
            self.watch.resume()

    def _cell_ended(self, result: Any = None) -> None:
        if not self.watch.is_on:
            self.end()
            return
        self.watch.pause()
        if self._panel is not None:
            with suppress(Exception):  # a picture that is out of date is better than an error in the user's cell
                self._panel.keep()


def shown_panel(shell: InteractiveShell, run: Watch) -> WatchPanel | None:
    """Return the live panel of `run`, shown below the cell; None without a kernel."""
    from cudalens.views import notebook

    if not notebook.is_live():
        return None
    from cudalens.watching.panel import HINT, WatchPanel

    panel = WatchPanel(on_stop=run.request_stop, on_record=run.record, hint=HINT)
    display(shell, panel)
    run.on_tick(lambda one: panel.update(lambda: one.run, is_last=not one.is_on))
    return panel


def attach(shell: InteractiveShell, options: AttachOptions) -> None:
    """Show the panel of another process until it ends, an interrupt, or the time is over."""
    from cudalens.api.attach import AttachedRun
    from cudalens.views import notebook
    from cudalens.watching.record import WatchRecord

    other = AttachedRun(None if options.pid is None else int(options.pid))
    if not notebook.is_live():
        display(shell, WatchRecord(other.read()))
        return
    from cudalens.watching.panel import HINT, WatchPanel

    panel = WatchPanel(on_stop=other.stop, on_record=other.record, hint=HINT)
    panel.update(other.read)
    display(shell, panel)
    try:
        other.follow(lambda run: panel.update(lambda: run), seconds=options.seconds)
    except KeyboardInterrupt:
        print(f"No longer attached to process {other.pid}, which goes on.")  # noqa: T201
    finally:
        panel.close_with("No longer attached.")
