"""The options of ``%%cudamem`` and ``%cudamem``, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cudalens.magics.arguments import Table, count, flag, identifier, path, value

MAGIC: Final = "%%cudamem"
LINE_MAGIC: Final = "%cudamem"
ACTIONS: Final = ("snapshot", "diff", "leaks")
SWITCHES: Final = ("on", "off", "report", "clear")
_BY: Final = ("stack", "category", "stream", "segment_type", "cell", "holder")


@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """What a magic line asks for.

    Attributes:
        name: Name of the run in `cudalens.runs`; None for ``cell-<execution count>``.
        words: What stands behind the action of a line.
        by: What a diff tells apart.
        max_entries: Actions that the history keeps at most; None for the usual number.
        no_stacks: Keep no call stacks.
        html: Where the offline report goes, or None.
        save: Where the Trace goes, or None.
        var: Variable that receives the Trace, or None.
        output: Whether the Trace becomes the value of the cell.
        quiet: Whether nothing of ours is shown.
    """

    name: str | None = None
    words: list[str] = field(default_factory=list)
    by: str = "stack"
    max_entries: int | None = None
    no_stacks: bool = False
    html: Path | None = None
    save: Path | None = None
    var: str | None = None
    output: bool = False
    quiet: bool = False

    @property
    def is_looped(self) -> bool:
        """Never: the cell runs once."""
        return False

    @property
    def outputs(self) -> dict[str, Path]:
        """The files to write, by the method of Trace that writes them."""
        asked = {"to_html": self.html, "save": self.save}
        return {method: file for method, file in asked.items() if file is not None}


_FILES: Final = (
    value("-v", "--var", metavar="NAME", type=identifier, help="Put the Trace into the variable NAME."),
    value("--html", metavar="FILE", type=path, help="Also write the view as one offline HTML file."),
    value("--save", metavar="FILE", type=path, help="Also save the Trace (.cudalens), for cudalens.load."),
    flag("-q", "--quiet", help="Show nothing, unless the cell runs out of memory (of leaks: no line per cell)."),
)
_CELL: Final = (
    value("name", nargs="?", help="Name of the run in cudalens.runs. The default is cell-<execution count>."),
    flag("-o", "--output", help="Return the Trace: it becomes the value of the cell, Out[n]."),
    value("--max-entries", metavar="N", type=count(1), help="Keep the last N actions of the allocator (1000000)."),
    flag("--no-stacks", help="Keep no call stacks: the history costs less."),
    *_FILES,
)
_LINE: Final = (
    value("action", nargs="?", default="snapshot", help="snapshot (the default), diff or leaks."),
    value(
        "words",
        nargs="*",
        help="Of snapshot: the NAME to keep it under. Of diff: A and B (now, where it is left out), names of runs, "
        "variables or files. "
        "Of leaks: on, off, report (the default) or clear.",
    ),
    value("--by", metavar="WHAT", default="stack", help=f"Of diff: {', '.join(_BY[:-1])} or {_BY[-1]}."),
    *_FILES,
)

TABLE: Final = Table(MAGIC, _CELL)
LINE_TABLE: Final = Table(LINE_MAGIC, _LINE)


def parse(line: str) -> MemoryOptions:
    """The options that `line` (what stands behind ``%%cudamem``) asks for.

    Raises:
        UsageError: An option is unknown, lacks its value, or has a wrong one; the message ends with the usage.
    """
    return MemoryOptions(**TABLE.parse(line))


def parse_line(line: str) -> tuple[str, MemoryOptions]:
    """The action and the options that `line` (what stands behind ``%cudamem``) asks for.

    Raises:
        UsageError: An action or option is unknown, or has a wrong value; the message ends with the usage.
    """
    action, asked = LINE_TABLE.parse_action(line, ACTIONS)
    options = MemoryOptions(**asked)
    _check_words(action, options.words)
    if options.by not in _BY:
        raise LINE_TABLE.refusal(f"--by {options.by!r}: expected one of {', '.join(_BY)}.")
    return action, options


def _check_words(action: str, words: list[str]) -> None:
    if action == "snapshot" and len(words) > 1:
        raise LINE_TABLE.refusal(f"snapshot takes one NAME, not {len(words)} words.")
    if action == "diff" and len(words) not in (1, 2):
        raise LINE_TABLE.refusal("diff takes one or two snapshots: names of runs, variables or files.")
    if action == "leaks" and (len(words) > 1 or (words and words[0] not in SWITCHES)):
        raise LINE_TABLE.refusal(f"leaks {' '.join(words)}: expected one of {', '.join(SWITCHES)}.")
