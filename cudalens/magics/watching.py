"""``%%cudasan`` around one cell, and ``%cudasan on`` around all that follow."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cudalens.errors import CudalensError
from cudalens.magics.blocks import (
    CellBlock,
    brief,
    complain,
    display,
    execution_count,
    num_races_shown,
)
from cudalens.magics.confirm_cell import WatchedCell, bare
from cudalens.magics.confirming import ended_cell, remember
from cudalens.magics.watch_options import LINE_MAGIC, MAGIC, WatchOptions, parse

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.frames import Trace
    from cudalens.sanitizer import Sanitizer


def watched(shell: InteractiveShell, arguments: str, source: str | None, variable: str) -> CellWatch:
    """The context manager for one watched cell.

    Args:
        shell: The shell that runs the cell.
        arguments: What stands behind the magic's name.
        source: The cell without the magic line, or None where it is not known.
        variable: Name under which the block stands in the user's namespace until the cell has ended.

    Raises:
        UsageError: The options are wrong.
    """
    return CellWatch(shell, parse(arguments), source, variable)


class CellWatch(CellBlock):
    """Watches the block that it is entered for, then shows the races."""

    def __init__(self, shell: InteractiveShell, options: WatchOptions, source: str | None, variable: str) -> None:
        outputs = {"to_html": options.html} if options.html else {}
        super().__init__(shell, MAGIC, source, variable, var=options.var, outputs=outputs)
        self._options = options
        self._sanitizer: Sanitizer | None = None
        self._filename, self._line = "", 0

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to show that was not asked to be quiet about."""
        return self._options.quiet and self.trace is not None and self.trace.races.empty

    def __enter__(self) -> CellWatch:
        self._sanitizer = started(self._options)
        code = sys._getframe(1)
        self._filename, self._line = code.f_code.co_filename, code.f_lineno
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        assert self._sanitizer is not None
        self._sanitizer.stop()
        if self._source is not None:
            remember(self._shell, self._cell(self._sanitizer, self._source))
        if self._options.explore is not None and error is None:
            explored(self._shell, self._sanitizer, self._options.explore, quiet=self._options.quiet)
        try:
            self.trace = _trace(self._sanitizer, self._shell, code=self._source, error=error)
            self._deliver(self.trace)
        except Exception as failure:  # nothing of ours hides the user's exception, nor ends a cell that went well
            complain(f"{MAGIC}: the races cannot be shown: {type(failure).__name__}: {failure}")
        if error is not None:
            self._show()

    def _cell(self, sanitizer: Sanitizer, source: str) -> WatchedCell:
        text, first_line = bare(source, before=self._line)
        count = execution_count(self._shell)
        return WatchedCell(sanitizer, tuple(sanitizer.races), text, first_line, self._filename, count)


class NotebookWatch:
    """A sanitizer that stays on from cell to cell, and shows after each what it found in it.

    Attributes:
        sanitizer: The sanitizer.
    """

    def __init__(self, shell: InteractiveShell, options: WatchOptions) -> None:
        self._shell, self._options = shell, options
        self._num_shown = 0
        self._num_launches = 0
        self._seen: Counter[tuple[object, ...]] = Counter()
        self._num_others = num_races_shown(shell)
        self.sanitizer = started(options)
        shell.events.register("post_run_cell", self._after_cell)

    def end(self) -> None:
        """Stop watching, and write the report that was asked for; what was found is kept."""
        with suppress(ValueError):
            self._shell.events.unregister("post_run_cell", self._after_cell)
        was_on = self.sanitizer.is_on
        self.sanitizer.stop()
        if was_on and self._options.html is not None:
            self._write(self._options.html)

    def _write(self, path: Path) -> None:
        try:
            print(f"Wrote {self.trace().to_html(path)}.")  # noqa: T201
        except Exception as error:  # nothing that was found is lost: %cudasan report shows it
            complain(f"{LINE_MAGIC}: {path} was not written: {type(error).__name__}: {error}")

    def clear(self) -> None:
        """Forget what was found."""
        self.sanitizer.clear()
        self._num_shown = 0

    def trace(self, *, since: int = 0) -> Trace:
        """The races as a Trace."""
        return _trace(self.sanitizer, self._shell, since=since)

    def explore(self, options: WatchOptions) -> None:
        """Try other orders of what the last cell did on the virtual device, or do one again, and show what differs.

        Raises:
            ExploreError: It cannot be done; shown without a traceback.
        """
        try:
            if options.replay is not None:
                print(self.sanitizer.replay_schedule(options.replay))  # noqa: T201
                return
            found = self.sanitizer.explore(options.budget or self._options.explore, seed=options.seed)
        except CudalensError as error:
            raise brief(error) from None
        display(self._shell, found)

    def _after_cell(self, result: Any = None) -> None:
        """Show the races of the cell that has ended, once each; a failure of ours is told in one line."""
        self.sanitizer.end_block(self._shell.user_ns)
        self._remember(result)
        found = len(self.sanitizer.races)
        since, self._num_shown = self._num_shown, found
        others, self._num_others = self._num_others, num_races_shown(self._shell)
        if found - since <= self._num_others - others:  # the cell's own profile has shown them
            return
        try:
            display(self._shell, self.trace(since=since))
        except Exception as error:
            complain(f"{LINE_MAGIC}: the races cannot be shown: {type(error).__name__}: {error}")

    def mark(self) -> None:
        """What was seen until now is of cells that have ended."""
        self._num_launches = self.sanitizer.status().num_launches
        self._seen = Counter({race.key: race.count for race in self.sanitizer.races})

    def _remember(self, result: Any) -> None:
        """The cell that has ended is the last watched one, if it did anything on a device."""
        seen, launches = self._seen, self._num_launches
        self.mark()
        if self._num_launches != launches and result is not None:
            races = tuple(race for race in self.sanitizer.races if race.count > seen[race.key])
            remember(self._shell, ended_cell(self._shell, self.sanitizer, races, result))


def explored(shell: InteractiveShell, sanitizer: Sanitizer, budget: int, *, quiet: bool) -> None:
    """Try other orders of a cell that has run, and say what came of it: of its races, their cards say more."""
    try:
        found = sanitizer.explore(budget)
    except Exception as error:  # nothing of ours ends a cell that went well
        complain(f"{MAGIC}: {error if isinstance(error, CudalensError) else f'{type(error).__name__}: {error}'}")
        return
    if found.others:
        display(shell, found)
    elif found.differs or not quiet:
        print(found.verdict)  # noqa: T201


def started(options: WatchOptions) -> Sanitizer:
    """A sanitizer that watches.

    Raises:
        CudalensError: An option is not what it should be; shown without a traceback.
    """
    from cudalens.sanitizer import sanitize

    try:
        sanitizer = sanitize(**options.watches)
        sanitizer.start()
    except CudalensError as error:
        raise brief(error) from None
    return sanitizer


def _trace(
    sanitizer: Sanitizer,
    shell: InteractiveShell,
    *,
    since: int = 0,
    code: str | None = None,
    error: BaseException | None = None,
) -> Trace:
    from cudalens.api.outcome import Outcome
    from cudalens.api.race_trace import races_trace

    name = f"cell-{execution_count(shell)}"
    return races_trace(sanitizer, name, since=since, code=code, outcome=Outcome.of(error))
