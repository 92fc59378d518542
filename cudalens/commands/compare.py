"""``cudalens compare``: what became faster or slower between two traces."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import cudalens
from cudalens.commands import arguments, as_json
from cudalens.commands.fail_if import parse_condition
from cudalens.errors import AssertionFailed

if TYPE_CHECKING:
    from cudalens.frames import Ranks, Trace


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
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
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the comparison, and check the conditions."""
    from cudalens.views.compare.comparison import compare

    conditions = [parse_condition(text) for text in options.fail_if]  # refused before large files are read
    output = None if options.output is None else arguments.target(options.output)
    with arguments.stages("reading", "comparing") as advance:
        before, after = (_repeats(text) for text in (options.before, options.after))
        advance()
        found = compare(before, after)
    if options.json:
        print(as_json.dumps(as_json.comparison(found)))
    else:
        arguments.show(found)
    if output is not None:
        arguments.write(output, found.to_html)
    held = [text for one in conditions if (text := one.found(found.differences)) is not None]
    if held:
        raise AssertionFailed("\n  ".join(["the comparison fails:", *held]), [(text, text) for text in held])


def _repeats(text: str) -> list[Trace] | Ranks:
    """Return the traces of the files in `text`, separated by commas, or the ranks of a job if it is one folder."""
    whole = Path(text)  # its name may have commas
    if whole.is_dir():
        return cudalens.load_ranks(whole)
    return [arguments.load(path) for path in ([whole] if whole.exists() else map(Path, text.split(",")))]
