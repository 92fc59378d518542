"""``cudalens summary``: print the verdict and the largest costs."""

from __future__ import annotations

import argparse

import cudalens
from cudalens.commands import arguments, as_json
from cudalens.errors import AssertionFailed


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.traces_verb(verbs, "summary", run, "print the verdict and the largest costs")
    parser.add_argument(
        "--assert",
        dest="assertions",
        metavar="TEXT",
        action="append",
        default=[],
        help='exit with 1 if this does not hold, as in "idle < 20%%"; may be given several times',
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Print the summaries, and check the assertions on each trace."""
    from cudalens.analysis.assertions.check import parse_assertion

    assertions = [parse_assertion(text) for text in options.assertions]  # refused before a large file is read
    results, failed = [], []
    for path in options.traces:
        if not (options.json or assertions):
            arguments.print_result(arguments.load_shown(path).summary(), path, options.traces)
            continue
        trace = arguments.load(path)
        if options.json:
            results.append(as_json.summary(trace, str(path)))
        else:
            arguments.print_result(trace.summary(), path, options.traces)
        try:
            cudalens.check(trace, *assertions) if assertions else None
        except AssertionFailed as error:
            failed.append(error)
    if options.json:
        print(as_json.dumps(results if len(options.traces) > 1 else results[0]))
    if failed:
        raise AssertionFailed("\n".join(map(str, failed)), [one for error in failed for one in error.failures])
