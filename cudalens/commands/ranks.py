"""``cudalens ranks``: which rank makes a distributed job slow."""

from __future__ import annotations

import argparse
from pathlib import Path

import cudalens
from cudalens.commands import arguments


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = verbs.add_parser("ranks", help="show which rank makes a distributed job slow, from a folder of traces")
    parser.add_argument("source", help="a folder with a trace of each rank, a pattern in quotes, or a store")
    arguments.add_page(parser, "the view")
    parser.add_argument("--store", metavar="FOLDER", help="write the frames of every rank there, as Parquet")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the summary of the job."""
    output = None if options.output is None else arguments.target(options.output)
    if (Path(options.source) / "job.json").exists():
        from cudalens.frames import Ranks

        found = Ranks.open(options.source)
    else:
        found = cudalens.load_ranks(options.source, store=options.store)
    arguments.show(found.summary())
    if output is not None:
        arguments.write(output, found.to_html)
