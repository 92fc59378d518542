"""Verbs about distributed jobs: ``ranks``, ``hang`` and ``job``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cudalens
from cudalens.commands import arguments
from cudalens.errors import VirtualDeviceError


def add_ranks(verbs: arguments.Verbs) -> None:
    """Add the parser of ``ranks``."""
    parser = verbs.add_parser("ranks", help="show which rank makes a distributed job slow, from a folder of traces")
    parser.add_argument("source", help="a folder with a trace of each rank, a pattern in quotes, or a store")
    arguments.add_page(parser, "the view")
    parser.add_argument("--store", metavar="FOLDER", help="write the frames of every rank there, as Parquet")
    parser.set_defaults(run=show_ranks)


def show_ranks(options: argparse.Namespace) -> None:
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


def add_hang(verbs: arguments.Verbs) -> None:
    """Add the parser of ``hang``."""
    parser = verbs.add_parser("hang", help="name the rank that holds up a job, from FlightRecorder dumps")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the folder with the dumps")
    arguments.add_page(parser, "the result")
    parser.set_defaults(run=find_hang)


def find_hang(options: argparse.Namespace) -> None:
    """Print which rank holds up the job."""
    output = None if options.output is None else arguments.target(options.output)
    record = cudalens.load_flight_recorder(options.folder)
    arguments.show(record)
    if output is not None:
        arguments.write(output, record.to_html)


def add_job(verbs: arguments.Verbs) -> None:
    """Add the parser of ``job``."""
    parser = verbs.add_parser("job", help="run a torch.distributed script on many virtual GPUs, without a GPU")
    parser.add_argument("script", help="a Python script that each rank runs, as under torchrun")
    parser.add_argument("arguments", nargs="*", help="arguments of the script; after -- if they begin with a hyphen")
    parser.add_argument("--gpus", default="h100x8", help="the GPU and the number of all of them (h100x8)")
    parser.add_argument("--nodes", type=int, help="the number of nodes; by default one for each 8 GPUs")
    parser.add_argument("--network", help="the links between nodes: ndr400, hdr200, edr50, ethernet")
    parser.add_argument("--default", type=float, help="the number that the script reads for unknown values")
    parser.add_argument("--values", action="store_true", help="compute values, on at most 8 ranks, each in a process")
    arguments.add_page(parser, "the view")
    parser.set_defaults(run=run_job)


def run_job(options: argparse.Namespace) -> None:
    """Print the summary of the simulated job."""
    from cudalens.api.job import job
    from cudalens.virtual.jobs.followed_code import run_script

    output = None if options.output is None else arguments.target(options.output)
    script = Path(options.script)
    if not script.is_file():
        raise VirtualDeviceError(f"There is no script '{script}'. Pass a Python file that each rank runs.")

    def run() -> None:
        before, sys.argv = sys.argv, [str(script), *options.arguments]
        sys.path.insert(0, str(script.parent))
        try:
            run_script(script)
        finally:
            sys.argv = before
            sys.path.remove(str(script.parent))

    found = job(
        run,
        options.gpus,
        options.nodes,
        values=options.values,
        network=options.network,
        default=options.default,
        name=script.stem,
    )
    arguments.show(found.summary())
    if output is not None:
        arguments.write(output, found.to_html)
