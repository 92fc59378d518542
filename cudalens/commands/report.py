"""``cudalens report``: write one offline HTML file that shows a trace."""

from __future__ import annotations

import argparse

from cudalens.commands import arguments


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.trace_verb(verbs, "report", run, "write one offline HTML file that shows a trace")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the HTML file to write")
    parser.add_argument("--title", help="title of the page (default: the name of the run)")


def run(options: argparse.Namespace) -> None:
    """Write the report."""
    output = arguments.target(options.output)
    named = {} if options.title is None else {"title": options.title}
    with arguments.stages("reading", "writing") as advance:
        trace = arguments.load(options.trace)
        advance()
        arguments.report_written(trace.to_html(output, **named))
