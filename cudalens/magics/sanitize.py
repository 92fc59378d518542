"""``%%cudasan`` checks one cell for stream races; ``%cudasan on`` checks all following cells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cudalens.device.interrupts import defers_interrupts
from cudalens.magics.base import Magic, verb
from cudalens.magics.cells import check_outputs, display, written
from cudalens.magics.options import CellOptions, NoOptions, file, flag, number, option, texts

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.magics.sanitize_cell import NotebookWatch, SanitizedCell

#: Orders that `--explore` tries besides the program's own, unless the line has a number.
DEFAULT_BUDGET: Final = 50

_OPTIONAL: Final[dict[str, Any]] = {"nargs": "?", "const": DEFAULT_BUDGET}

_OFF: Final = "The sanitizer is off: `%cudasan on` checks the following cells, `%%cudasan` one cell."


@dataclass(frozen=True, kw_only=True)
class WatchOptions(NoOptions):
    """How to look for races."""

    on_race: str = option(
        "--on-race", metavar="WHAT", default="collect", help="collect (the default), warn, or raise at a race."
    )
    detect: list[str] | None = texts("--detect", "KIND", "Only races of this kind; several times, or with commas.")
    stack_depth: int | None = number("--stack-depth", "Stack frames of each access in a report.")
    suppress: list[str] | None = texts(
        *("--suppress", "PATTERN"),
        "Hide races that match a glob: an operator (aten::add*), a place (In[3]:4, */loader.py:12), a tensor "
        "(float32*) or a kind (use_after_free). op:, at:, tensor: or kind: before the glob compares only that. "
        "In[3] means that cell. Several times.",
    )
    suppress_file: Path | None = file("--suppress-file", "Hide races that match a pattern in this file, one per line.")
    explore: int | None = number(
        "--explore", "Virtual device: try N (50) other orders of what ran, and compare values.", **_OPTIONAL
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as arguments of `cudalens.sanitize`, without those that are not given."""
        kinds = [kind for text in self.detect or () for kind in text.split(",") if kind]
        asked = {
            "on_race": self.on_race,
            "detect": kinds or None,
            "stack_depth": self.stack_depth,
            "suppress": self.suppress,
            "suppress_file": self.suppress_file,
            "explore": None if self.explore is None else True,
        }
        return {name: value for name, value in asked.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class CellWatchOptions(WatchOptions, CellOptions):
    """Options of ``%%cudasan``."""

    quiet: bool = flag("-q", "--quiet", help="Show nothing where there is no race.")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(NoOptions):
    """Options of ``%cudasan report``."""

    html: Path | None = file("--html", "Also write the report as one offline HTML file.", "to_html")

    @property
    def outputs(self) -> dict[str, Path]:
        """The files to write, by the method of Trace that writes them."""
        return {"to_html": self.html} if self.html else {}


@dataclass(frozen=True, kw_only=True)
class OnOptions(WatchOptions, ReportOptions):
    """Options of ``%cudasan on``."""

    html: Path | None = file("--html", "At `off`, write the report as one offline HTML file.")
    explore: int | None = number(
        "--explore", "Virtual device: record what `%cudasan explore` needs to try N (50) other orders.", **_OPTIONAL
    )


@dataclass(frozen=True, kw_only=True)
class ExploreOptions(NoOptions):
    """Options of ``%cudasan explore``."""

    budget: int | None = number("--budget", "Orders to try besides the program's own (50).")
    seed: int = number("--seed", "The first seed of random orders.", least=0, default=0)
    replay: str | None = option("--replay", metavar="SEED", help="Run one order again, by the seed in a report.")


@dataclass(frozen=True, kw_only=True)
class ConfirmOptions(NoOptions):
    """Options of ``%cudasan confirm``."""

    runs: int | None = number("--runs", "Delayed runs for each race (20).")
    limit_s: int | None = number("--limit", "Begin no further run after this time (600).", metavar="SECONDS")
    yes: bool = flag("-y", "--yes", help="Run the cell again; without it, only what that would do is printed.")
    on_virtual: bool = flag("--on-virtual", help="Also on a virtual device, as a test; no value differs there.")


class Cudasan(Magic):
    """``%cudasan`` and ``%%cudasan``."""

    name = "cudasan"
    about = """Find stream races: accesses to the same memory that no synchronisation orders.

``%%cudasan`` on top of a cell checks that cell. ``%cudasan on`` checks every following cell, and shows after each cell
the races in it. After ``%cudasan on --explore``, on a virtual device, ``explore`` computes the operations of the last
cell in other orders that its synchronisations allow, and shows which values differ; no Python code of the cell runs
again. On a real GPU, ``confirm`` prints what running the last checked cell again would do. ``confirm --yes`` runs it
with delays that provoke the orders in which its races show, and compares the values."""
    default = "status"
    cell_options = CellWatchOptions
    cell_about = "Check the cell for stream races."

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._watch: NotebookWatch | None = None

    @classmethod
    def cell_run(
        cls, shell: InteractiveShell, options: CellWatchOptions, source: str | None, variable: str
    ) -> SanitizedCell:
        """Return the checked run of one cell."""
        from cudalens.magics.sanitize_cell import SanitizedCell

        return SanitizedCell(shell, "%%cudasan", options, source, variable)

    def end(self) -> None:
        """Stop checking, when the extension is unloaded."""
        from cudalens.magics.confirm import forget

        if self._watch is not None:
            self._watch.end()
        forget(self.shell)

    @verb("on", OnOptions)
    @defers_interrupts("sanitizer")
    def _on(self, options: OnOptions) -> None:
        """Check every cell from the next one on."""
        from cudalens.magics.sanitize_cell import NotebookWatch

        check_outputs("%cudasan on", options.outputs)
        if self._watch is not None:
            self._watch.end()
        self._watch = NotebookWatch(self.shell, options)
        self._watch.sanitizer.deliver_interrupt()
        print("Checking the following cells for stream races. `%cudasan off` ends it.")  # noqa: T201

    @verb("off")
    def _off(self, options: NoOptions) -> None:
        """Stop checking cells, and write the report that `on` was asked for."""
        if self._watch is None or not self._watch.sanitizer.is_on:
            print("The sanitizer was not on.")  # noqa: T201
        else:
            self._watch.end()
            print(self._watch.sanitizer.status())  # noqa: T201

    @verb("status")
    def _status(self, options: NoOptions) -> None:
        """Print whether the sanitizer is on, and what it has checked and found."""
        print(_OFF if self._watch is None else self._watch.sanitizer.status())  # noqa: T201

    @verb("report", ReportOptions)
    def _report(self, options: ReportOptions) -> None:
        """Show all races again."""
        if self._watch is None:
            print(_OFF)  # noqa: T201
            return
        check_outputs("%cudasan report", options.outputs)
        trace = self._watch.trace()
        display(self.shell, trace)
        for line in written("%cudasan report", trace, options.outputs):
            print(line)  # noqa: T201

    @verb("clear")
    def _clear(self, options: NoOptions) -> None:
        """Discard the races found so far."""
        if self._watch is not None:
            self._watch.clear()
        print("The races found so far are discarded.")  # noqa: T201

    @verb("explore", ExploreOptions)
    def _explore(self, options: ExploreOptions) -> None:
        """Virtual device: try other orders of what the last cell did, and show which values differ."""
        if self._watch is None:
            print(_OFF)  # noqa: T201
        else:
            self._watch.explore(options)

    @verb("confirm", ConfirmOptions)
    def _confirm(self, options: ConfirmOptions) -> None:
        """Real GPU: run the last checked cell again with delays, and compare values."""
        from cudalens.magics.confirm import confirm

        confirm(self.shell, options)
        if self._watch is not None:
            self._watch.mark()
