"""``cudalens check``: how far a trace can be trusted."""

from __future__ import annotations

import argparse
import json

from cudalens.commands import arguments


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.traces_verb(
        verbs, "check", run, "check how far a trace can be trusted; exit code 1 if it is partial"
    )
    parser.add_argument("--no-repair", action="store_true", help="check the rows as they are, without repairs")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print what the checks found; returns 1 if a trace is partial."""
    import msgspec

    verdicts = {}
    for path in options.traces:
        found = arguments.load(path, repair=not options.no_repair).trust()
        verdicts[str(path)] = found.trust
        if not options.json:
            arguments.print_result(found, path, options.traces)
    if options.json:
        plain = {path: msgspec.to_builtins(trust) for path, trust in verdicts.items()}
        print(json.dumps(plain if len(options.traces) > 1 else next(iter(plain.values())), indent=2))
    return int(any(trust.verdict == "partial" for trust in verdicts.values()))
