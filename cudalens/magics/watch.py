"""``%%cudawatch`` follows the loop in a cell while it runs; ``%cudawatch on`` follows those of all following cells."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError

from cudalens.magics.base import Magic, verb
from cudalens.magics.cells import display
from cudalens.magics.options import CellOptions, NoOptions, number, option, place

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.magics.watch_cell import NotebookWatch, WatchedLoop

_OFF: Final = "Nothing is watched: `%cudawatch on` watches the following cells, `%%cudawatch` one cell."


def budget(text: str) -> float:
    """Return a share of the loop's time: ``2%`` or ``0.02``."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0.001 <= value <= 0.5:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of 0.1% to 50%, such as 2%")
    return value


def folder(text: str) -> Path:
    """Return a folder to write."""
    if not text:
        raise argparse.ArgumentTypeError("the name of the folder is empty")
    return Path(text).expanduser()


@dataclass(frozen=True, kw_only=True)
class RunOptions(NoOptions):
    """How to watch."""

    budget: float | None = option(
        "--budget", metavar="SHARE", type=budget, help="Share of the loop's time that watching may cost (2%)."
    )
    folder: Path | None = option(
        "--folder", metavar="FOLDER", type=folder, help="Also write the history and the recordings there."
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as arguments of `cudalens.watch`, without those that are not given."""
        asked = {"budget": self.budget, "folder": self.folder}
        return {name: value for name, value in asked.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class CellRunOptions(RunOptions, CellOptions):
    """Options of ``%%cudawatch``."""

    name: str | None = place("NAME", "Name of the run. The default is cell-<execution count>.")


@dataclass(frozen=True, kw_only=True)
class AttachOptions(NoOptions):
    """Options of ``%cudawatch attach``."""

    pid: str | None = place("PID", "The process; the default is the only one of this user that is watched.")

    def __post_init__(self) -> None:
        """Refuse what is not the number of a process, by ValueError."""
        if self.pid is not None and not self.pid.isdecimal():
            raise ValueError(f"{self.pid!r} is not the number of a process")

    seconds: int | None = number("--seconds", "Show it for so long (until it ends, or an interrupt).", metavar="N")


class Cudawatch(Magic):
    """``%cudawatch`` and ``%%cudawatch``."""

    name = "cudawatch"
    about = """Follow a loop while it runs: step times, what the last recorded step did, and what changed.

``%%cudawatch`` on top of a cell shows a live panel under the cell. ``%cudawatch on`` shows one panel for all following
cells. Steps are found without a change of the code. Some steps are recorded within a budget of the loop's time."""
    default = "status"
    cell_options = CellRunOptions
    cell_about = "Follow the loop in the cell."

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.watch: NotebookWatch | None = None

    @classmethod
    def cell_run(
        cls, shell: InteractiveShell, options: CellRunOptions, source: str | None, variable: str
    ) -> WatchedLoop:
        """Return the watched run of one cell."""
        from cudalens.magics.watch_cell import WatchedLoop

        return WatchedLoop(shell, "%%cudawatch", options, source, variable)

    def end(self) -> None:
        """Stop watching, when the extension is unloaded."""
        if self.watch is not None:
            self.watch.end()

    @verb("on", RunOptions)
    def _on(self, options: RunOptions) -> None:
        """Watch the loops of the following cells, with one panel here."""
        from cudalens.magics.watch_cell import NotebookWatch

        self.end()
        self.watch = NotebookWatch(self.shell, options)
        print("Watching the following cells. `%cudawatch off` ends it.")  # noqa: T201

    @verb("off")
    def _off(self, options: NoOptions) -> None:
        """Stop watching."""
        if self.watch is None or not self.watch.is_on:
            print("Nothing was watched.")  # noqa: T201
            return
        self.watch.end()
        print(self.watch.watch.summary().verdict)  # noqa: T201

    @verb("status")
    def _status(self, options: NoOptions) -> None:
        """Print whether cells are watched, and the verdict so far."""
        print(_OFF if self.watch is None else f"{self.watch.watch!r}: {self.watch.watch.summary().verdict}")  # noqa: T201

    @verb("show")
    def _show(self, options: NoOptions) -> None:
        """Show the last run again."""
        from cudalens.magics.watch_cell import last_watch

        watch = last_watch(self.shell) if self.watch is None else self.watch.watch
        if watch is None:
            raise UsageError(f"%cudawatch show: there is no run to show yet. {_OFF}")
        display(self.shell, watch.summary())

    @verb("record")
    def _record(self, options: NoOptions) -> None:
        """Record the next steps, also beyond the budget."""
        if self.watch is None or not self.watch.is_on:
            print(_OFF)  # noqa: T201
            return
        self.watch.watch.record()
        print("The next steps will be recorded.")  # noqa: T201

    @verb("attach", AttachOptions)
    def _attach(self, options: AttachOptions) -> None:
        """Show the panel of another process of this user that is watched."""
        from cudalens.magics.watch_cell import attach

        attach(self.shell, options)
