"""``cudalens convert``: write a trace in another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from cudalens.commands import arguments
from cudalens.errors import OutputError
from cudalens.frames import formats as _formats


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.trace_verb(verbs, "convert", run, "write a trace in another format")
    parser.add_argument("-o", "--output", metavar="PATH", required=True, help="the file or folder to write")
    parser.add_argument("--format", choices=tuple(_formats.FORMATS), help=_formats.help_text())
    parser.add_argument(
        "--weight", choices=("host", "device", "self"), help="weight of collapsed stacks (default: host)"
    )
    parser.add_argument("--by", choices=("tree", "stack", "module"), help="frames of collapsed stacks")


def run(options: argparse.Namespace) -> None:
    """Write the trace."""
    output = Path(options.output)
    chosen = _formats.format_of(output, options.format)
    if not _formats.is_folder(chosen, output):
        arguments.target(options.output)
    given = {name: value for name in ("weight", "by") if (value := getattr(options, name)) is not None}
    is_collapsed = chosen is _formats.FORMATS["collapsed"]
    if given and not is_collapsed:
        raise OutputError(f"--{next(iter(given))} is only for collapsed stacks; add --format collapsed.")
    with arguments.stages("reading", "writing") as advance:
        trace = arguments.load(options.trace)
        advance()
        if is_collapsed and not trace.events["dur"].gt(0).any():
            raise OutputError(f"{options.trace} has no event with a duration, so collapsed stacks would be empty.")
        arguments.report_written(chosen.write(trace, output, **given))
