"""The ``cudalens`` command: report, summary, check, convert and doctor, from a shell.

Exit codes: 0 success; 1 error (with a message on stderr) or, for ``check``, a partial trace; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cudalens
from cudalens.errors import AssertionFailed, AssertionSyntaxError, CudalensError, OutputError
from cudalens.frames import formats as _formats

if TYPE_CHECKING:
    from cudalens.device import Check
    from cudalens.device.inventory.devices import Devices
    from cudalens.frames import Ranks, Trace

_INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of `argv` (without the program's name; default: the arguments of the process).

    Returns:
        The exit code.
    """
    _write_any_text()
    arguments = _parser().parse_args(argv)
    try:
        code = arguments.run(arguments) or 0
        sys.stdout.flush()
        return code
    except (AssertionFailed, AssertionSyntaxError) as error:
        return _refuse(str(error), keeps_lines=True)
    except CudalensError as error:
        return _refuse(str(error))
    except BrokenPipeError:  # `cudalens summary … | head` closed the pipe
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python's exit writes the rest again
        return _refuse("cannot write the output: no space is left on its device.")
    except KeyboardInterrupt:
        print("cudalens: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _write_any_text() -> None:
    """Let a terminal of ASCII or Latin-1 show "?" for what it cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _refuse(message: str, *, keeps_lines: bool = False) -> int:
    print(f"cudalens: {message if keeps_lines else ' '.join(message.split())}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("cudalens", description="See what your GPU did, from recorded traces.")
    parser.add_argument("--version", action="version", version=f"cudalens {cudalens.__version__}")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    report = _verb(verbs, "report", _report, "write one offline HTML file that shows a trace")
    report.add_argument("-o", "--output", metavar="FILE", required=True, help="the HTML file to write")
    report.add_argument("--title", help="title of the page (default: the name of the run)")
    summary = _verb(verbs, "summary", _summary, "print the verdict and the largest costs")
    summary.add_argument(
        "--assert",
        dest="assertions",
        metavar="TEXT",
        action="append",
        default=[],
        help='exit with 1 if this does not hold, as in "idle < 20%%"; may be given several times',
    )
    brief = _verb(verbs, "brief", _brief, "print what matters in a trace, for language models and CI")
    brief.add_argument("--tokens", metavar="N", type=int, default=1500, help="the most tokens (default: 1500)")
    brief.add_argument("--json", action="store_true", help="print JSON")
    check = _verb(verbs, "check", _check, "check how far a trace can be trusted; exit code 1 if it is partial")
    check.add_argument("--no-repair", action="store_true", help="check the rows as they are, without repairs")
    check.add_argument("--json", action="store_true", help="print JSON")
    convert = _verb(verbs, "convert", _convert, "write a trace in another format")
    convert.add_argument("-o", "--output", metavar="PATH", required=True, help="the file or folder to write")
    convert.add_argument("--format", choices=tuple(_formats.FORMATS), help=_formats.help_text())
    convert.add_argument(
        "--weight", choices=("host", "device", "self"), help="weight of collapsed stacks (default: host)"
    )
    convert.add_argument("--by", choices=("tree", "stack", "module"), help="frames of collapsed stacks")
    ranks = verbs.add_parser("ranks", help="show which rank makes a distributed job slow, from a folder of traces")
    ranks.add_argument("source", help="a folder with a trace of each rank, a pattern in quotes, or a store")
    ranks.add_argument("-o", "--output", metavar="FILE", help="also write one offline HTML file")
    ranks.add_argument("--store", metavar="FOLDER", help="write the frames of every rank there, as Parquet")
    ranks.set_defaults(run=_ranks)
    compare = verbs.add_parser("compare", help="show what became faster or slower between two traces")
    for side, which in (("before", "the trace"), ("after", "the other trace")):
        text = f"{which} {side}; several repeats, separated by commas"
        compare.add_argument(side, metavar=side.upper(), help=text)
    compare.add_argument("-o", "--output", metavar="FILE", help="also write the comparison as one offline HTML file")
    compare.set_defaults(run=_compare)
    hang = verbs.add_parser("hang", help="name the rank that holds up a job, from FlightRecorder dumps")
    hang.add_argument("folder", metavar="FOLDER", type=Path, help="the folder with the dumps")
    hang.add_argument("-o", "--output", metavar="FILE", help="also write the result as one offline HTML file")
    hang.set_defaults(run=_hang)
    mcp = verbs.add_parser("mcp", help="serve the traces of a folder to language models, over stdin and stdout")
    mcp.add_argument("folder", metavar="FOLDER", type=Path, help="the folder with the traces; nothing else is read")
    mcp.set_defaults(run=_mcp)
    doctor = verbs.add_parser("doctor", help="show what works on this machine, what does not, and why")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run=_doctor)
    return parser


def _verb(verbs: Any, name: str, run: Callable[[argparse.Namespace], int | None], help: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
    parser.add_argument(
        "trace", type=Path, help=".cudalens, or Chrome trace (.json, .json.gz); the format is detected from the content"
    )
    parser.set_defaults(run=run)
    return parser


def _report(arguments: argparse.Namespace) -> None:
    output = _checked(arguments.output)
    options = {} if arguments.title is None else {"title": arguments.title}
    with _stage("reading", "writing") as advance:
        trace = _load(arguments.trace)
        advance()
        _wrote(trace.to_html(output, **options))


def _summary(arguments: argparse.Namespace) -> None:
    from cudalens.analysis.assertions.check import parse_assertion

    assertions = [parse_assertion(text) for text in arguments.assertions]  # refused before a large file is read
    trace = _load(arguments.trace)
    print(trace.summary())
    if assertions:
        cudalens.check(trace, *assertions)


def _brief(arguments: argparse.Namespace) -> None:
    found = _load(arguments.trace).brief(arguments.tokens)
    print(found.to_json() if arguments.json else found)


def _check(arguments: argparse.Namespace) -> int:
    import msgspec

    trace = cudalens.load(arguments.trace, repair=not arguments.no_repair)
    found = trace.trust()
    print(json.dumps(msgspec.to_builtins(found.trust), indent=2) if arguments.json else found)
    return int(found.trust.verdict == "partial")


def _convert(arguments: argparse.Namespace) -> None:
    output = Path(arguments.output)
    chosen = _formats.format_of(output, arguments.format)
    if not _formats.is_folder(chosen, output):
        _checked(arguments.output)
    options = {name: value for name in ("weight", "by") if (value := getattr(arguments, name)) is not None}
    if options and chosen is not _formats.FORMATS["collapsed"]:
        raise OutputError(f"--{next(iter(options))} is only for collapsed stacks; add --format collapsed.")
    with _stage("reading", "writing") as advance:
        trace = _load(arguments.trace)
        advance()
        if chosen is _formats.FORMATS["collapsed"] and not trace.events["dur"].gt(0).any():
            raise OutputError(f"{arguments.trace} has no event with a duration, so collapsed stacks would be empty.")
        _wrote(chosen.write(trace, output, **options))


def _ranks(arguments: argparse.Namespace) -> None:
    output = None if arguments.output is None else _checked(arguments.output)
    if (Path(arguments.source) / "job.json").exists():
        from cudalens.frames import Ranks

        found = Ranks.open(arguments.source)
    else:
        found = cudalens.load_ranks(arguments.source, store=arguments.store)
    print(found.summary())
    if output is not None:
        _wrote(found.to_html(output))


def _compare(arguments: argparse.Namespace) -> None:
    from cudalens.views.compare.comparison import compare

    output = None if arguments.output is None else _checked(arguments.output)
    with _stage("reading", "comparing") as advance:
        before, after = (_repeats(text) for text in (arguments.before, arguments.after))
        advance()
        found = compare(before, after)
    print(found)
    if output is not None:
        _wrote(found.to_html(output))


def _hang(arguments: argparse.Namespace) -> None:
    output = None if arguments.output is None else _checked(arguments.output)
    record = cudalens.load_flight_recorder(arguments.folder)
    print(record)
    if output is not None:
        _wrote(record.to_html(output))


def _mcp(arguments: argparse.Namespace) -> None:
    from cudalens.api.mcp_server.server import serve

    serve(arguments.folder)


def _repeats(text: str) -> list[Trace] | Ranks:
    """The traces of the files in `text`, separated by commas, or the ranks of a job if it is one folder."""
    whole = Path(text)  # its name may have commas
    if whole.is_dir():
        return cudalens.load_ranks(whole)
    return [_load(path) for path in ([whole] if whole.exists() else map(Path, text.split(",")))]


def _load(path: Path) -> Trace:
    trace: Trace = cudalens.load(path)
    return trace


def _checked(path: str) -> Path:
    from cudalens.frames.files import check_target

    return check_target(path)


def _wrote(path: Path) -> None:
    from cudalens.analysis import units

    files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
    of = f"{units.plural(len(files), 'file')}, " if path.is_dir() else ""
    print(f"Wrote {path} ({of}{units.size(sum(file.stat().st_size for file in files))}).")


@contextmanager
def _stage(*names: str) -> Iterator[Callable[[], None]]:
    """A progress bar over the stages `names`, only on a terminal's stderr; call what it yields after each stage."""
    from tqdm import tqdm

    remaining = iter(names[1:])
    # disable=None: tqdm draws nothing where stderr is not a terminal.
    with tqdm(total=len(names), desc=names[0], disable=None, leave=False, bar_format="{desc} {bar} {elapsed}") as bar:

        def advance() -> None:
            bar.set_description(next(remaining, ""))
            bar.update()

        yield advance


def _doctor(arguments: argparse.Namespace) -> None:
    from cudalens import device

    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else torch's profiler prints a line on stderr
    devices = cudalens.devices()
    facts = {
        "cudalens": cudalens.__version__,
        "versions": device.versions(),
        "checks": (*device.run_checks(), _reader_check()),
    }
    print(_as_json(facts, devices) if arguments.json else _as_text(facts, devices))


def _reader_check() -> Check:
    from cudalens.device import Check
    from cudalens.traces.chrome.scanned import SWITCH, is_scanner_built, is_scanner_in_use

    if is_scanner_in_use():
        detail = "the compiled scanner reads Chrome traces"
    elif is_scanner_built():
        detail = f"{SWITCH}=0 switches it off; Python code reads Chrome traces, with the same result"
    else:
        detail = "it was built without a C compiler; Python code reads Chrome traces, with the same result"
    return Check("compiled scanner", is_scanner_in_use(), detail)


def _as_json(facts: dict[str, Any], devices: Devices) -> str:
    import msgspec

    known = devices.to_dict()
    parts = {"torch_build": known.pop("runtime"), "devices": known.pop("devices"), **known}
    return json.dumps(msgspec.to_builtins({**facts, **parts}), indent=2)


def _as_text(facts: dict[str, Any], devices: Devices) -> str:
    lines = [f"cudalens {facts['cudalens']}", "", "Versions"]
    lines += [f"  {name:<12} {version}" for name, version in facts["versions"].items()]
    lines += ["", "Devices", *(f"  {line}".rstrip() for line in str(devices).splitlines())]
    lines += ["", "What works here"]
    for check in facts["checks"]:
        lines += _check_lines(check.name, check.works, check.detail)
    return "\n".join(lines)


def _check_lines(name: str, works: bool, detail: str) -> list[str]:
    import textwrap

    head = f"  {'yes' if works else 'NO':<4} {name:<30}"
    return textwrap.wrap(detail, 112, initial_indent=head, subsequent_indent=" " * len(head)) or [head]


if __name__ == "__main__":
    sys.exit(main())
