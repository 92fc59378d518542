"""Verbs on this machine, its processes and jobs: ``attach``, ``mcp``, ``doctor``, ``ranks``, ``hang``, ``job``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cudalens
from cudalens.commands import arguments
from cudalens.errors import VirtualDeviceError

if TYPE_CHECKING:
    from cudalens.device import Check
    from cudalens.device.inventory.devices import Devices
    from cudalens.watching.run import WatchedRun


def add_attach(verbs: arguments.Verbs) -> None:
    """Add the parser of ``attach``."""
    parser = verbs.add_parser("attach", help="show a running process that is watched by cudalens.watch")
    parser.add_argument("pid", metavar="PID", nargs="?", type=int, help="the process (default: the only one)")
    parser.add_argument("--once", action="store_true", help="print the state once, and end")
    parser.add_argument("--record", action="store_true", help="record the next steps, and end")
    parser.add_argument("--stop", action="store_true", help="stop watching, not the process, and end")
    arguments.add_page(parser, "the state")
    parser.set_defaults(run=follow_process)


def follow_process(options: argparse.Namespace) -> None:
    """Print the verdict whenever it changes, until the run ends or an interrupt; then the last state."""
    from cudalens.watching.record import WatchRecord, verdict

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

        def show(run: WatchedRun) -> None:
            last[0] = run
            arguments.show(verdict(run))

        try:
            other.follow(show)
        except KeyboardInterrupt:
            arguments.show(f"No longer attached to process {other.pid}, which goes on.")
    arguments.show(WatchRecord(last[0]))
    if output is not None:
        arguments.report_written(WatchRecord(last[0]).to_html(output))


def add_mcp(verbs: arguments.Verbs) -> None:
    """Add the parser of ``mcp``."""
    parser = verbs.add_parser("mcp", help="serve the traces of a folder to language models, over stdin and stdout")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the folder with the traces; nothing else is read")
    parser.set_defaults(run=serve_folder)


def serve_folder(options: argparse.Namespace) -> None:
    """Serve until the client ends."""
    from cudalens.api.mcp_server import serve

    serve(options.folder)


def add_doctor(verbs: arguments.Verbs) -> None:
    """Add the parser of ``doctor``."""
    parser = verbs.add_parser("doctor", help="show what works on this machine, what does not, and why")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=check_machine)


def check_machine(options: argparse.Namespace) -> None:
    """Print the versions, the devices and what works here."""
    from cudalens import device
    from cudalens.traces.source import IS_ZLIB_NG

    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else torch's profiler prints a line on stderr
    devices = cudalens.devices()
    if IS_ZLIB_NG:
        gzip_detail = "it decompresses gzip files"
    else:
        gzip_detail = (
            "it is not installed; Python's zlib decompresses gzip files, in more than twice the time: "
            'pip install "cudalens[gzip]"'
        )
    gzip_check = device.Check("zlib-ng", IS_ZLIB_NG, gzip_detail)
    facts = {
        "cudalens": cudalens.__version__,
        "versions": device.versions(),
        "checks": (*device.run_checks(), _reader_check(), gzip_check, *_comparison_checks()),
    }
    if options.json:
        import msgspec

        known = devices.to_dict()
        parts = {"torch_build": known.pop("runtime"), "devices": known.pop("devices"), **known}
        print(json.dumps(msgspec.to_builtins({**facts, **parts}), indent=2))
    else:
        arguments.show(_as_text(facts, devices))


def _reader_check() -> Check:
    from cudalens.device import Check
    from cudalens.traces.chrome.scanned import SWITCH, is_scanner_built, is_scanner_in_use

    if is_scanner_in_use():
        detail = "the compiled scanner reads Chrome traces"
    elif is_scanner_built():
        detail = f"{SWITCH}=0 switches it off; Python code reads Chrome traces, with the same result"
    else:
        detail = "it was not compiled; Python code reads Chrome traces, with the same result"
    return Check("compiled scanner", is_scanner_in_use(), detail)


def _comparison_checks() -> tuple[Check, ...]:
    from cudalens.device import Check

    try:
        from cudalens.graphs.guards.comparing import SWITCH, is_comparing_built, is_comparing_in_use
    except Exception:  # a broken torch raises anything
        return ()
    if is_comparing_in_use():
        detail = "compiled code compares what graphed functions read"
    elif is_comparing_built():
        detail = f"{SWITCH}=0 switches it off; Python code compares what graphed functions read, with the same result"
    else:
        detail = "it was not compiled; Python code compares what graphed functions read, more slowly"
    return (Check("compiled guards", is_comparing_in_use(), detail),)


def _as_text(facts: dict[str, Any], devices: Devices) -> str:
    lines = [f"cudalens {facts['cudalens']}", "", "Versions"]
    lines += [f"  {name:<12} {version}" for name, version in facts["versions"].items()]
    lines += ["", "Devices", *(f"  {line}".rstrip() for line in str(devices).splitlines())]
    lines += ["", "What works here"]
    for check in facts["checks"]:
        head = f"  {'yes' if check.works else 'NO':<4} {check.name:<30}"
        lines += textwrap.wrap(check.detail, 112, initial_indent=head, subsequent_indent=" " * len(head)) or [head]
    return "\n".join(lines)


# Verbs about distributed jobs: ``ranks``, ``hang`` and ``job``.


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
    parser.add_argument("--default", type=float, help="the number that the script reads for unknown values (0)")
    parser.add_argument("--values", action="store_true", help="compute values, on at most 8 ranks, each in a process")
    arguments.add_page(parser, "the view")
    parser.set_defaults(run=run_job)


def run_job(options: argparse.Namespace) -> None:
    """Print the summary of the simulated job."""
    from cudalens.api.job import job, make_cluster
    from cudalens.views.sections.unknown_values import DEFAULT
    from cudalens.virtual.jobs.followed_code import run_script

    output = None if options.output is None else arguments.target(options.output)
    script = Path(options.script)
    if not script.is_file():
        raise VirtualDeviceError(f"There is no script '{script}'. Pass a Python file that each rank runs.")

    try:
        make_cluster(options.gpus, options.nodes, options.network, {})
    except ValueError as error:
        raise VirtualDeviceError(str(error)) from error

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
        default=DEFAULT if options.default is None else options.default,
        name=script.stem,
    )
    arguments.show(found.summary())
    if output is not None:
        arguments.write(output, found.to_html)
