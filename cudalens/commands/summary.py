"""``cudalens summary``: print the verdict and the largest costs."""

from __future__ import annotations

import argparse

import cudalens
from cudalens.commands import arguments


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.trace_verb(verbs, "summary", run, "print the verdict and the largest costs")
    parser.add_argument(
        "--assert",
        dest="assertions",
        metavar="TEXT",
        action="append",
        default=[],
        help='exit with 1 if this does not hold, as in "idle < 20%%"; may be given several times',
    )


def run(options: argparse.Namespace) -> None:
    """Print the summary, then check the assertions."""
    from cudalens.analysis.assertions.check import parse_assertion

    assertions = [parse_assertion(text) for text in options.assertions]  # refused before a large file is read
    trace = arguments.load(options.trace)
    print(trace.summary())
    if assertions:
        cudalens.check(trace, *assertions)
