"""``cudalens attach``: show a process of this user that is watched."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import cudalens
from cudalens.commands import arguments

if TYPE_CHECKING:
    from cudalens.api.attach import AttachedRun
    from cudalens.watching.run import WatchedRun


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = verbs.add_parser("attach", help="show a running process that is watched by cudalens.watch")
    parser.add_argument("pid", metavar="PID", nargs="?", type=int, help="the process (default: the only one)")
    parser.add_argument("--once", action="store_true", help="print the state once, and end")
    parser.add_argument("--record", action="store_true", help="record the next steps, and end")
    parser.add_argument("--stop", action="store_true", help="stop watching, not the process, and end")
    arguments.add_page(parser, "the state")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the verdict whenever it changes, until the run ends or an interrupt; then the last state."""
    from cudalens.watching.record import WatchRecord

    output = None if options.output is None else arguments.target(options.output)
    other = cudalens.attach(options.pid)
    if options.record or options.stop:
        (other.stop if options.stop else other.record)()
        arguments.show(
            f"Process {other.pid}: {'watching stops' if options.stop else 'the next steps will be recorded'}."
        )
        return
    last = [other.read()]
    if not options.once:
        _follow(other, last)
    arguments.show(WatchRecord(last[0]))
    if output is not None:
        arguments.report_written(WatchRecord(last[0]).to_html(output))


def _follow(other: AttachedRun, last: list[WatchedRun]) -> None:
    from cudalens.watching.sentences import verdict

    def show(run: WatchedRun) -> None:
        last[0] = run
        arguments.show(verdict(run))

    try:
        other.follow(show)
    except KeyboardInterrupt:
        arguments.show(f"No longer attached to process {other.pid}, which goes on.")
