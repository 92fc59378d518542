"""``%%cudasan`` around one cell, and ``%cudasan on`` around all following cells."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from cudalens.device.interrupts import defers_interrupts
from cudalens.errors import CudalensError
from cudalens.magics.cells import (
    CellRun,
    display,
    execution_count,
    num_races_shown,
    print_error,
    written,
)
from cudalens.magics.confirm import WatchedCell, bare, ended_cell, remember

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.frames import Trace
    from cudalens.magics.sanitize import CellWatchOptions, ExploreOptions, OnOptions, WatchOptions
    from cudalens.sanitizer import Sanitizer

_LINE: Final = "%cudasan on"


class SanitizedCell(CellRun):
    """Checks the block that it is entered for, then shows the races."""

    def __init__(
        self, shell: InteractiveShell, magic: str, options: CellWatchOptions, source: str | None, variable: str
    ) -> None:
        super().__init__(shell, magic, options, source, variable)
        self._options = options
        self._sanitizer: Sanitizer | None = None
        self._filename, self._line = "", 0

    @property
    def is_silent(self) -> bool:
        """Whether nothing is shown: with `-q`, where there is no race."""
        return self._options.quiet and self.trace is not None and self.trace.races.empty

    def __enter__(self) -> SanitizedCell:
        code = sys._getframe(1)
        self._filename, self._line = code.f_code.co_filename, code.f_lineno
        super().__enter__()
        return self

    @defers_interrupts("sanitizer")
    def start(self) -> None:
        """Begin to check."""
        self._sanitizer = started(self._options)

    def stop(self, error: BaseException | None) -> None:
        """End, and try other orders where that was asked for."""
        assert self._sanitizer is not None
        self._sanitizer.stop()
        if self._source is not None:
            remember(self._shell, self._cell(self._sanitizer, self._source))
        if self._options.explore is not None and error is None:
            self._explore(self._sanitizer, self._options.explore)

    def collect(self, error: BaseException | None) -> Trace:
        """Return the races."""
        assert self._sanitizer is not None
        if error is None:
            print_unused(self._magic, self._sanitizer)
        return _trace(self._sanitizer, self._shell, code=self._source, error=error)

    def _cell(self, sanitizer: Sanitizer, source: str) -> WatchedCell:
        text, first_line = bare(source, before=self._line)
        count = execution_count(self._shell)
        return WatchedCell(sanitizer, tuple(sanitizer.races), text, first_line, self._filename, count)

    def _explore(self, sanitizer: Sanitizer, budget: int) -> None:
        """Try other orders of the cell, and show the result; the cards of the races have the details."""
        try:
            found = sanitizer.explore(budget)
        except Exception as error:  # an error of cudalens does not fail the cell
            what = str(error) if isinstance(error, CudalensError) else f"{type(error).__name__}: {error}"
            print_error(f"{self._magic}: {what}")
            return
        if found.others:
            display(self._shell, found)
        elif found.differs or not self._options.quiet:
            print(found.verdict)  # noqa: T201


class NotebookWatch:
    """A sanitizer that stays on from cell to cell, and shows the races of each cell after it.

    Attributes:
        sanitizer: The sanitizer.
    """

    def __init__(self, shell: InteractiveShell, options: OnOptions) -> None:
        self._shell, self._options = shell, options
        self._num_shown = 0
        self._num_launches = 0
        self._seen: Counter[tuple[object, ...]] = Counter()
        self._num_others = num_races_shown(shell)
        self.sanitizer = started(options)
        shell.events.register("post_run_cell", self._after_cell)

    def end(self) -> None:
        """Stop checking, and write the report that was asked for; the races are kept."""
        with suppress(ValueError):
            self._shell.events.unregister("post_run_cell", self._after_cell)
        was_on = self.sanitizer.is_on
        self.sanitizer.stop()
        if not was_on:
            return
        print_unused(_LINE, self.sanitizer)
        if self._options.outputs:
            for line in written(_LINE, self.trace(), self._options.outputs):
                print(line)  # noqa: T201

    def clear(self) -> None:
        """Discard the races found so far."""
        self.sanitizer.clear()
        self._num_shown = 0

    def trace(self, *, since: int = 0) -> Trace:
        """Return the races as a Trace."""
        return _trace(self.sanitizer, self._shell, since=since)

    def explore(self, options: ExploreOptions) -> None:
        """Try other orders of what the last cell did on the virtual device, or run one again; show what differs.

        Raises:
            ExploreError: It cannot be done.
        """
        if options.replay is not None:
            print(self.sanitizer.replay_schedule(options.replay))  # noqa: T201
            return
        found = self.sanitizer.explore(options.budget or self._options.explore, seed=options.seed)
        display(self._shell, found)

    def _after_cell(self, result: Any = None) -> None:
        """Show the races of the cell that has ended, once each; an error of cudalens is one line."""
        self.sanitizer.end_block(self._shell.user_ns)
        self._remember(result)
        found = len(self.sanitizer.races)
        since, self._num_shown = self._num_shown, found
        others, self._num_others = self._num_others, num_races_shown(self._shell)
        if found - since <= self._num_others - others:  # the cell's own view has shown them
            return
        try:
            display(self._shell, self.trace(since=since))
        except Exception as error:
            print_error(f"{_LINE}: the races cannot be shown: {type(error).__name__}: {error}")

    def mark(self) -> None:
        """Mark what was seen so far as a part of cells that have ended."""
        self._num_launches = self.sanitizer.status().num_launches
        self._seen = Counter({race.key: race.count for race in self.sanitizer.races})

    def _remember(self, result: Any) -> None:
        """Make the cell that has ended the last checked one, if it used a device."""
        seen, launches = self._seen, self._num_launches
        self.mark()
        if self._num_launches != launches and result is not None:
            races = tuple(race for race in self.sanitizer.races if race.count > seen[race.key])
            remember(self._shell, ended_cell(self._shell, self.sanitizer, races, result))


@defers_interrupts("sanitizer")  # until the caller has a reference to it
def started(options: WatchOptions) -> Sanitizer:
    """Return a sanitizer that is on.

    Raises:
        CudalensError: An option has a wrong value.
    """
    from cudalens.sanitizer import sanitize

    sanitizer = sanitize(**options.arguments)
    sanitizer.start()
    return sanitizer


def print_unused(magic: str, sanitizer: Sanitizer) -> None:
    """Print the suppressions that matched no race: they may be misspelled."""
    if unused := sanitizer.unused_suppressions():
        print_error(f"{magic}: these suppressions match no race: {', '.join(map(repr, unused))}")


def _trace(
    sanitizer: Sanitizer,
    shell: InteractiveShell,
    *,
    since: int = 0,
    code: str | None = None,
    error: BaseException | None = None,
) -> Trace:
    from cudalens.api.run_info import races_trace
    from cudalens.api.session import Outcome

    name = f"cell-{execution_count(shell)}"
    return races_trace(sanitizer, name, since=since, code=code, outcome=Outcome.of(error))
