"""Verbs that compare two traces: ``compare`` with its conditions, and ``diff-memory``."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import cudalens
from cudalens.commands import arguments
from cudalens.errors import AssertionFailed, AssertionSyntaxError, TraceError

if TYPE_CHECKING:
    from cudalens.analysis.compare.runs import Differences
    from cudalens.frames import Ranks, Trace


def add_compare(verbs: arguments.Verbs) -> None:
    """Add the parser of ``compare``."""
    parser = verbs.add_parser("compare", help="show what became faster or slower between two traces")
    for side, which in (("before", "the trace"), ("after", "the other trace")):
        text = f"{which} {side}; several repeats, separated by commas"
        parser.add_argument(side, metavar=side.upper(), help=text)
    arguments.add_page(parser, "the comparison")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--fail-if",
        metavar="TEXT",
        action="append",
        default=[],
        help='exit with 1 if this holds, as in "slower > 5%%" (or faster, memory); may be given several times',
    )
    parser.set_defaults(run=compare_traces)


def compare_traces(options: argparse.Namespace) -> None:
    """Print the comparison, and check the conditions."""
    from cudalens.views.compare.comparison import compare

    conditions = [parse_condition(text) for text in options.fail_if]  # refused before large files are read
    output = None if options.output is None else arguments.target(options.output)
    with arguments.stages("reading", "comparing") as advance:
        before, after = (_load_repeats(text) for text in (options.before, options.after))
        advance()
        found = compare(before, after)
    if options.json:
        print(arguments.json_text(arguments.comparison_as_json(found)))
    else:
        arguments.show(found)
    if output is not None:
        arguments.write(output, found.to_html)
    held = [text for one in conditions if (text := one.found(found.differences)) is not None]
    if held:
        raise AssertionFailed("\n  ".join(["the comparison fails:", *held]), [(text, text) for text in held])


def _load_repeats(text: str) -> list[Trace] | Ranks:
    """Return the traces of the files in `text`, separated by commas, or the ranks of a job if it is one folder."""
    whole = Path(text)  # its name may have commas
    if whole.is_dir():
        return cudalens.load_ranks(whole)
    return [arguments.load(path) for path in ([whole] if whole.exists() else map(Path, text.split(",")))]


_CONDITION: Final = re.compile(r"\s*(\w+)\s*(>=|>)\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*")
#: What can be compared: words, and their meaning for ``--help``.
FIGURES: Final = {
    "slower": "the step (or run) takes longer",
    "faster": "it takes less long",
    "memory": "the largest peak of allocated memory is higher",
}
_PEAK: Final = "peak allocated"


@dataclass(frozen=True)
class Condition:
    """A figure of a comparison and its limit.

    Attributes:
        figure: One of `FIGURES`.
        is_reached: Whether the limit itself counts.
        limit_pct: The limit, in per cent of before.
        text: The condition as given.
    """

    figure: str
    is_reached: bool
    limit_pct: float
    text: str

    def found(self, differences: Differences) -> str | None:
        """Return what was found, in words, if the condition holds; else None.

        A change within the noise of the repeats does not count. With one repeat, noise is not known, and it counts.
        """
        change = _change_pct(self.figure, differences)
        if change is None:
            return None
        from cudalens.analysis import units

        holds = change >= self.limit_pct if self.is_reached else change > self.limit_pct
        return f"{self.text}: it is {units.number(change)}%" if holds and change > 0 else None


def parse_condition(text: str) -> Condition:
    """Return the condition in `text`.

    Raises:
        AssertionSyntaxError: It is none; the message says what was expected.
    """
    match = _CONDITION.fullmatch(text)
    known = ", ".join(FIGURES)
    if match is None:
        raise AssertionSyntaxError(text, 0, f"expected a figure ({known}), > or >=, and per cent, as in slower > 5%")
    if match[1] not in FIGURES:
        raise AssertionSyntaxError(text, match.start(1), f"there is no figure {match[1]!r}; expected one of {known}")
    return Condition(match[1], match[2] == ">=", float(match[3]), text.strip())


def _change_pct(figure: str, differences: Differences) -> float | None:
    """Return the change in the direction of `figure`, in per cent of before; None if nothing changed."""
    if figure == "memory":
        frame = differences.memory
        peaks = frame[(frame["name"] == _PEAK) & (frame["status"] != "same")]
        changes = [
            math.inf if before == 0 else 100 * (after - before) / before
            for before, after in zip(peaks["a_bytes"].tolist(), peaks["b_bytes"].tolist(), strict=True)
            if after != before
        ]
        return max(changes, default=None)
    whole = differences.whole
    if whole.ratio is None or whole.status == "same":
        return None
    return 100 * (whole.ratio if figure == "slower" else -whole.ratio)


def add_diff_memory(verbs: arguments.Verbs) -> None:
    """Add the parser of ``diff-memory``."""
    parser = verbs.add_parser("diff-memory", help="show which memory grew between two snapshots")
    for side in ("before", "after"):
        parser.add_argument(
            side, metavar=side.upper(), type=Path, help=f"the memory snapshot {side}, or a trace with one"
        )
    parser.add_argument(
        "--by", default="stack", help="compare by this: stack, holder, category, stream (default: stack)"
    )
    arguments.add_page(parser, "the difference")
    parser.set_defaults(run=compare_memory)


def compare_memory(options: argparse.Namespace) -> None:
    """Print the difference."""
    from cudalens.views.sections.shown import write_page

    output = None if options.output is None else arguments.target(options.output)
    before, after = (arguments.load(path) for path in (options.before, options.after))
    for path, trace in ((options.before, before), (options.after, after)):
        if not len(trace.blocks):
            raise TraceError(f"{path} has no memory blocks; expected a memory snapshot, or a trace with one.")
    try:
        found = before.memory_diff(after, by=options.by)
    except (KeyError, ValueError) as error:
        raise TraceError(f"invalid value for --by: {options.by}; {error.args[0]}") from error
    arguments.show(found)
    if output is not None:
        title = f"memory of {after.info.name} against {before.info.name}"
        arguments.write(output, lambda path: write_page(path, title, found._repr_html_()))
