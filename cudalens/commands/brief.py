"""``cudalens brief``: what matters in a trace, for language models and CI."""

from __future__ import annotations

import argparse

from cudalens.commands import arguments


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.trace_verb(verbs, "brief", run, "print what matters in a trace, for language models and CI")
    parser.add_argument("--tokens", metavar="N", type=int, default=1500, help="the most tokens (default: 1500)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Print the brief."""
    found = arguments.load(options.trace).brief(options.tokens)
    if options.json:
        print(found.to_json())
    else:
        arguments.show(found)
