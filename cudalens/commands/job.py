"""``cudalens job``: run a script on many virtual GPUs."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from cudalens.commands import arguments
from cudalens.errors import VirtualDeviceError


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = verbs.add_parser("job", help="run a torch.distributed script on many virtual GPUs, without a GPU")
    parser.add_argument("script", help="a Python script that each rank runs, as under torchrun")
    parser.add_argument("arguments", nargs="*", help="arguments of the script; after -- if they begin with a hyphen")
    parser.add_argument("--gpus", default="h100x8", help="the GPU and the number of all of them (h100x8)")
    parser.add_argument("--nodes", type=int, help="the number of nodes; by default one for each 8 GPUs")
    parser.add_argument("--network", help="the links between nodes: ndr400, hdr200, edr50, ethernet")
    parser.add_argument("--default", type=float, help="the number that the script reads for unknown values")
    parser.add_argument("--values", action="store_true", help="compute values, on at most 8 ranks, each in a process")
    arguments.add_page(parser, "the view")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the summary of the simulated job."""
    from cudalens.api.job import job

    output = None if options.output is None else arguments.target(options.output)
    script = Path(options.script)
    if not script.is_file():
        raise VirtualDeviceError(f"There is no script '{script}'. Pass a Python file that each rank runs.")

    def run_script() -> None:
        before, sys.argv = sys.argv, [str(script), *options.arguments]
        sys.path.insert(0, str(script.parent))
        try:
            runpy.run_path(str(script), run_name="__main__")
        finally:
            sys.argv = before
            sys.path.remove(str(script.parent))

    found = job(
        run_script,
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
