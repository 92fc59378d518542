"""The options of ``%%cudasan`` and ``%cudasan``, as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cudalens.magics.arguments import Argument, Table, count, flag, identifier, path, value

MAGIC: Final = "%%cudasan"
LINE_MAGIC: Final = "%cudasan"
ACTIONS: Final = ("on", "off", "status", "report", "clear", "explore", "confirm")
DEFAULT_BUDGET: Final = 50
"""Orders that `--explore` tries beside the program's own, unless it says how many."""


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """What a magic line asks for.

    Attributes:
        on_race: What happens when a race is found: collect, warn or raise.
        detect: Kinds of races to look for, by name; None for all.
        stack_depth: Stack frames that a report shows; None for the usual number.
        suppress: Patterns of races to hide.
        suppress_file: File of such patterns, or None.
        html: Where the offline report goes, or None.
        var: Variable that receives the Trace, or None.
        output: Whether the Trace becomes the value of the cell.
        quiet: Whether nothing is shown where there is no race.
        explore: Orders that are to be tried beside the program's own; None where none is.
        budget: The same for ``%cudasan explore``; None for the usual number.
        seed: The first seed of random orders.
        replay: The seed of the one order that is to be done again, or None.
        runs: Steered runs for each race, for ``%cudasan confirm``; None for the usual number.
        limit_s: After so long it begins no further run, s; None for the usual time.
        yes: The user has read what running the cell again does.
        on_virtual: Also on a virtual device, where no value differs.
    """

    on_race: str = "collect"
    detect: list[str] | None = None
    stack_depth: int | None = None
    suppress: list[str] | None = None
    suppress_file: Path | None = None
    html: Path | None = None
    var: str | None = None
    output: bool = False
    quiet: bool = False
    explore: int | None = None
    budget: int | None = None
    seed: int = 0
    replay: str | None = None
    runs: int | None = None
    limit_s: int | None = None
    yes: bool = False
    on_virtual: bool = False

    @property
    def is_looped(self) -> bool:
        """Never: a watched cell runs once."""
        return False

    @property
    def watches(self) -> dict[str, Any]:
        """The options that say how to watch, as arguments of `cudalens.sanitize`; what is not asked for is left out."""
        kinds = [kind for text in self.detect or () for kind in text.split(",") if kind]
        asked = {
            "on_race": self.on_race,
            "detect": kinds or None,
            "stack_depth": self.stack_depth,
            "suppress": self.suppress,
            "suppress_file": self.suppress_file,
            "explore": None if self.explore is None else True,
        }
        return {name: wish for name, wish in asked.items() if wish is not None}


_WATCHING: Final[tuple[Argument, ...]] = (
    value("--on-race", metavar="WHAT", default="collect", help="collect (the default), warn, or raise at a race."),
    value("--detect", metavar="KIND", action="append", help="Only races of this kind; several times, or by commas."),
    value("--stack-depth", metavar="N", type=count(1), help="Stack frames that a report shows of each access."),
    value("--suppress", metavar="PATTERN", action="append", help="Hide races whose operator, place or tensor fits."),
    value("--suppress-file", metavar="FILE", type=path, help="Hide what a pattern in this file fits, one a line."),
    value(
        "--explore",
        metavar="N",
        nargs="?",
        const=DEFAULT_BUDGET,
        type=count(1),
        help="Virtual device: try N (50) other orders of what ran, compare values (after on: by %%cudasan explore).",
    ),
    value(
        "--html", metavar="FILE", type=path, help="Also write the report as one offline HTML file (after on: at off)."
    ),
)
_CELL: Final[tuple[Argument, ...]] = (
    *_WATCHING,
    value("-v", "--var", metavar="NAME", type=identifier, help="Put the Trace into the variable NAME."),
    flag("-o", "--output", help="Return the Trace: it becomes the value of the cell, Out[n]."),
    flag("-q", "--quiet", help="Show nothing where there is no race."),
)
_LINE: Final[tuple[Argument, ...]] = (
    value(
        "action", nargs="?", default="status", help="on, off, status (the default), report, clear, explore or confirm."
    ),
    *_WATCHING,
    value("--budget", metavar="N", type=count(1), help="With explore: orders to try beside the program's own (50)."),
    value("--seed", metavar="N", type=count(0), default=0, help="With explore: the first seed of random orders."),
    value("--replay", metavar="SEED", help="With explore: do one order again, by the seed that a report names."),
    value("--runs", metavar="N", type=count(1), help="With confirm: steered runs for each race (20)."),
    value(
        "--limit",
        metavar="SECONDS",
        dest="limit_s",
        type=count(1),
        help="With confirm: after so long no further run is begun (600).",
    ),
    flag("-y", "--yes", help="With confirm: do run the cell again; without, it is only said what that would do."),
    flag("--on-virtual", help="With confirm: steer a virtual device too, to try it out; no value differs there."),
)

TABLE: Final = Table(MAGIC, _CELL)
LINE_TABLE: Final = Table(LINE_MAGIC, _LINE)


def parse(line: str) -> WatchOptions:
    """The options that `line` (what stands behind ``%%cudasan``) asks for.

    Raises:
        UsageError: An option is unknown, lacks its value, or has a wrong one; the message ends with the usage.
    """
    return WatchOptions(**TABLE.parse(line))


def parse_line(line: str) -> tuple[str, WatchOptions]:
    """The action and the options that `line` (what stands behind ``%cudasan``) asks for.

    Raises:
        UsageError: An action or option is unknown, or has a wrong value; the message ends with the usage.
    """
    action, asked = LINE_TABLE.parse_action(line, ACTIONS)
    return action, WatchOptions(**asked)
