"""``cudalens report``: write one offline HTML file that shows a trace."""

from __future__ import annotations

import argparse
from functools import partial

from cudalens.commands import arguments


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.traces_verb(verbs, "report", run, "write one offline HTML file that shows a trace")
    text = "the HTML file to write; for several traces, a folder"
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help=text)
    parser.add_argument("--title", help="title of the page (default: the name of the run)")


def run(options: argparse.Namespace) -> None:
    """Write the reports."""
    outputs = arguments.targets(options.traces, options.output, ".html")
    named = {} if options.title is None else {"title": options.title}
    for path, output in zip(options.traces, outputs, strict=True):
        with arguments.stages("reading", "writing") as advance:
            shown = arguments.load_shown(path)
            advance()
            arguments.write(output, partial(shown.to_html, **named), ".html")
