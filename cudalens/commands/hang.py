"""``cudalens hang``: name the rank that holds up a job."""

from __future__ import annotations

import argparse
from pathlib import Path

import cudalens
from cudalens.commands import arguments


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = verbs.add_parser("hang", help="name the rank that holds up a job, from FlightRecorder dumps")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the folder with the dumps")
    arguments.add_page(parser, "the result")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print which rank holds up the job."""
    output = None if options.output is None else arguments.target(options.output)
    record = cudalens.load_flight_recorder(options.folder)
    arguments.show(record)
    if output is not None:
        arguments.write(output, record.to_html)
