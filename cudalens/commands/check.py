"""``cudalens check``: how far a trace can be trusted."""

from __future__ import annotations

import argparse
import json

import cudalens
from cudalens.commands import arguments


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.trace_verb(
        verbs, "check", run, "check how far a trace can be trusted; exit code 1 if it is partial"
    )
    parser.add_argument("--no-repair", action="store_true", help="check the rows as they are, without repairs")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print what the checks found; returns 1 if the trace is partial."""
    import msgspec

    trace = cudalens.load(options.trace, repair=not options.no_repair)
    found = trace.trust()
    print(json.dumps(msgspec.to_builtins(found.trust), indent=2) if options.json else found)
    return int(found.trust.verdict == "partial")
