"""The options of ``%%cudagraph`` and ``%cudagraph``, as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cudalens.magics.arguments import Table, count, flag, identifier, path, value

MAGIC: Final = "%%cudagraph"
LINE_MAGIC: Final = "%cudagraph"
ACTIONS: Final = ("tree", "explain", "list", "reset")
MUTATIONS: Final = ("skip", "copy")


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """What a magic line asks for.

    Attributes:
        name: Name of the cell among the functions, or of the function in it that is meant; None for the usual one.
        repeat: How often the cell runs; None for as often as it needs to replay, if running it again changes nothing.
        check: Whether replays are compared with eager runs.
        mutations: What happens where the cell overwrites a tensor that it reads: skip or copy.
        html: Where the offline report goes, or None.
        var: Variable that receives the Trace, or None.
        output: Whether the Trace becomes the value of the cell.
        quiet: Whether nothing of ours is shown.
    """

    name: str | None = None
    repeat: int | None = None
    check: bool = False
    mutations: str = "skip"
    html: Path | None = None
    var: str | None = None
    output: bool = False
    quiet: bool = False

    @property
    def is_looped(self) -> bool:
        """Never: the cell becomes a function, which is called as often as need be."""
        return False


_CELL: Final = (
    value("name", nargs="?", help="Name of the cell in the tree; or of the function that the cell defines."),
    value("--repeat", metavar="N", type=count(1), help="Run the cell N times: the 1st warms up, the 2nd records."),
    flag("--check", help="Compare the first replay of each recording with an eager run."),
    value("--mutations", metavar="WHAT", default="skip", help="Overwritten inputs: skip (the default) or copy back."),
    value("--html", metavar="FILE", type=path, help="Also write the view as one offline HTML file."),
    value("-v", "--var", metavar="NAME", type=identifier, help="Put the Trace into the variable NAME."),
    flag("-o", "--output", help="Return the Trace: it becomes the value of the cell, Out[n]."),
    flag("-q", "--quiet", help="Show nothing of what the manager did."),
)
_LINE: Final = (
    value("action", nargs="?", default="tree", help="tree (the default), explain, list or reset."),
    value("--html", metavar="FILE", type=path, help="For tree: also write it as one offline HTML file."),
    value("-v", "--var", metavar="NAME", type=identifier, help="For tree: put the Trace into the variable NAME."),
)

TABLE: Final = Table(MAGIC, _CELL)
LINE_TABLE: Final = Table(LINE_MAGIC, _LINE)


def parse(line: str) -> GraphOptions:
    """The options that `line` (what stands behind ``%%cudagraph``) asks for.

    Raises:
        UsageError: An option is unknown, lacks its value, or has a wrong one; the message ends with the usage.
    """
    options = GraphOptions(**TABLE.parse(line))
    if options.mutations not in MUTATIONS:
        raise TABLE.refusal(f"--mutations {options.mutations!r}: expected skip or copy")
    return options


def parse_line(line: str) -> tuple[str, GraphOptions]:
    """The action and the options that `line` (what stands behind ``%cudagraph``) asks for.

    Raises:
        UsageError: An action or option is unknown, or has a wrong value; the message ends with the usage.
    """
    action, asked = LINE_TABLE.parse_action(line, ACTIONS)
    return action, GraphOptions(**asked)
