"""``cudalens diff-memory``: what memory two snapshots hold in common, and what only one of them holds."""

from __future__ import annotations

import argparse
from pathlib import Path

from cudalens.commands import arguments
from cudalens.errors import TraceError


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = verbs.add_parser("diff-memory", help="show which memory grew between two snapshots")
    for side in ("before", "after"):
        parser.add_argument(
            side, metavar=side.upper(), type=Path, help=f"the memory snapshot {side}, or a trace with one"
        )
    parser.add_argument(
        "--by", default="stack", help="compare by this: stack, holder, category, stream (default: stack)"
    )
    arguments.add_page(parser, "the difference")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the difference."""
    from cudalens.views.sections.html_page import write_page

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
