"""Verbs that read traces: ``report``, ``view``, ``summary``, ``brief``, ``check``, ``convert`` and ``query``."""

from __future__ import annotations

import argparse
import hmac
import json
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cudalens
from cudalens.commands import arguments
from cudalens.errors import AssertionFailed, OutputError, QueryError, invalid_choice

if TYPE_CHECKING:
    from cudalens.frames import Trace


def add_report(verbs: arguments.Verbs) -> None:
    """Add the parser of ``report``."""
    parser = arguments.traces_verb(verbs, "report", write_reports, "write one offline HTML file that shows a trace")
    text = "the HTML file to write; for several traces, a folder"
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help=text)
    parser.add_argument("--title", help="title of the page (default: the name of the run)")


def write_reports(options: argparse.Namespace) -> None:
    """Write the reports."""
    outputs = arguments.targets(options.traces, options.output, ".html")
    named = {} if options.title is None else {"title": options.title}
    for path, output in zip(options.traces, outputs, strict=True):
        with arguments.stages("reading", "writing") as advance:
            shown = arguments.load_shown(path)
            advance()
            arguments.write(output, partial(shown.to_html, **named), ".html")


def add_view(verbs: arguments.Verbs) -> None:
    """Add the parser of ``view``."""
    parser = arguments.trace_verb(verbs, "view", show_in_browser, "show a trace in the browser, until Ctrl-C")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any free port)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")


def show_in_browser(options: argparse.Namespace) -> None:
    """Serve the report of the trace until Ctrl-C."""
    import webbrowser

    page = _page(options.trace)
    try:
        server = PageServer(page, options.port)
    except (OSError, OverflowError) as error:
        raise OutputError(f"cannot listen on port {options.port} of 127.0.0.1: {error}. Omit --port.") from error
    with server:
        arguments.show(f"{options.trace} is shown at {server.url} until Ctrl-C.")
        if not options.no_browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def _page(path: Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder, arguments.stages("reading", "drawing") as advance:
        trace = arguments.load(path)
        advance()
        return trace.to_html(Path(folder, "report.html")).read_bytes()


def add_summary(verbs: arguments.Verbs) -> None:
    """Add the parser of ``summary``."""
    parser = arguments.traces_verb(verbs, "summary", print_summaries, "print the verdict and the largest costs")
    parser.add_argument(
        "--assert",
        dest="assertions",
        metavar="TEXT",
        action="append",
        default=[],
        help='exit with 1 if this does not hold, as in "idle < 20%%"; may be given several times',
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def print_summaries(options: argparse.Namespace) -> None:
    """Print the summaries, and check the assertions on each trace."""
    from cudalens.analysis.assertions import parse_assertion

    assertions = [parse_assertion(text) for text in options.assertions]  # refused before a large file is read
    results, failed = [], []
    for path in options.traces:
        if not (options.json or assertions):
            arguments.print_result(arguments.load_shown(path).summary(), path, options.traces)
            continue
        trace = arguments.load(path)
        if options.json:
            results.append(arguments.summary_as_json(trace, str(path)))
        else:
            arguments.print_result(trace.summary(), path, options.traces)
        try:
            cudalens.check(trace, *assertions) if assertions else None
        except AssertionFailed as error:
            failed.append(error)
    if options.json:
        print(arguments.json_text(results if len(options.traces) > 1 else results[0]))
    if failed:
        raise AssertionFailed("\n".join(map(str, failed)), [one for error in failed for one in error.failures])


def add_brief(verbs: arguments.Verbs) -> None:
    """Add the parser of ``brief``."""
    parser = arguments.trace_verb(
        verbs, "brief", print_brief, "print what matters in a trace, for language models and CI"
    )
    parser.add_argument("--tokens", metavar="N", type=int, default=1500, help="the most tokens (default: 1500)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def print_brief(options: argparse.Namespace) -> None:
    """Print the brief."""
    found = arguments.load(options.trace).brief(options.tokens)
    if options.json:
        print(found.to_json())
    else:
        arguments.show(found)


def add_check(verbs: arguments.Verbs) -> None:
    """Add the parser of ``check``."""
    parser = arguments.traces_verb(
        verbs, "check", check_traces, "check how far a trace can be trusted; exit code 1 if it is partial"
    )
    parser.add_argument("--no-repair", action="store_true", help="check the rows as they are, without repairs")
    parser.add_argument("--json", action="store_true", help="print JSON")


def check_traces(options: argparse.Namespace) -> int:
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


_WEIGHTS: Final = ("host", "device", "self")


def add_convert(verbs: arguments.Verbs) -> None:
    """Add the parser of ``convert``."""
    parser = arguments.traces_verb(verbs, "convert", convert_traces, "write a trace in another format")
    text = "the file or folder to write; - for standard output"
    parser.add_argument("-o", "--output", metavar="PATH", required=True, help=text)
    parser.add_argument("--format", choices=tuple(FORMATS), help=help_text())
    parser.add_argument("--weight", choices=_WEIGHTS, help="weight of collapsed stacks (default: host)")
    parser.add_argument("--by", choices=("tree", "stack", "module"), help="frames of collapsed stacks")


def convert_traces(options: argparse.Namespace) -> None:
    """Write the traces."""
    chosen, outputs = _format_and_outputs(options)
    given = {name: value for name in ("weight", "by") if (value := getattr(options, name)) is not None}
    is_collapsed = chosen is FORMATS["collapsed"]
    if given and not is_collapsed:
        raise OutputError(f"--{next(iter(given))} is only for collapsed stacks; add --format collapsed.")
    for path, output in zip(options.traces, outputs, strict=True):
        with arguments.stages("reading", "writing") as advance:
            trace = arguments.load(path)
            advance()
            writer = _collapsed(trace, path, **given) if is_collapsed else partial(chosen.write, trace)
            arguments.write(output, writer, next(iter(chosen.suffixes), ""))


def _collapsed(trace: Trace, path: Path, weight: str = "host", by: str = "tree") -> Callable[[Path], Path]:
    """Return what writes the collapsed stacks of `trace`.

    Raises:
        OutputError: There are none; `path` names the trace.
    """
    from cudalens.traces.export.flame import collapsed_lines, write_collapsed

    if lines := collapsed_lines(trace, weight, by):
        return partial(write_collapsed, lines)
    others = " or ".join(f"--weight {other}" for other in _WEIGHTS if other != weight)
    raise OutputError(
        f"{path} has no event with a duration for --weight {weight}, so collapsed stacks would be empty; try {others}."
    )


def _format_and_outputs(options: argparse.Namespace) -> tuple[Format, list[Path]]:
    """Return the format, and what to write for each trace."""
    output = Path(options.output)
    if options.format is None and (len(options.traces) > 1 or options.output == arguments.STANDARD):
        raise OutputError(f"-o {options.output} has no suffix that selects a format; add --format.")
    chosen = format_of(output, options.format)
    if len(options.traces) == 1 and is_folder(chosen, output) and options.output != arguments.STANDARD:
        return chosen, [output]
    return chosen, arguments.targets(options.traces, options.output, next(iter(chosen.suffixes), ""))


_MAX_ROWS = 100
_MAX_WIDTH = 60


def add_query(verbs: arguments.Verbs) -> None:
    """Add the parser of ``query``."""
    parser = arguments.trace_verb(verbs, "query", print_query, "show the result of an SQL query over a trace (DuckDB)")
    parser.add_argument("sql", metavar="SQL", help="a SELECT; each frame is a table: events, memory, syncs and others")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print all rows as CSV")
    form.add_argument("--json", action="store_true", help="print all rows as JSON, an object for each")


def print_query(options: argparse.Namespace) -> int | None:
    """Print the result of the query."""
    try:
        from cudalens.frames import Ranks

        tables: Trace | Ranks
        if not options.trace.is_dir():
            tables = arguments.load(options.trace)
        elif (options.trace / "job.json").exists():  # a store of ranks
            tables = Ranks.open(options.trace)
        else:
            tables = cudalens.load_ranks(options.trace)
        found = tables.sql(options.sql)
    except ImportError as error:
        raise QueryError(str(error)) from error
    if options.csv:
        arguments.show(found.to_csv(index=False).rstrip("\n"))
    elif options.json:
        arguments.show(found.to_json(orient="records"))
    else:
        arguments.show(found.head(_MAX_ROWS).to_string(index=False, max_colwidth=_MAX_WIDTH))
        if len(found) > _MAX_ROWS:
            arguments.show(f"... {len(found) - _MAX_ROWS:,} more rows; --csv prints all.")
    return None


# Serve one page on 127.0.0.1, at an address with a random token. Standard library only.

_TOKEN_BYTES: Final = 16


class PageServer(ThreadingHTTPServer):
    """An HTTP server with one page, for browsers on this machine.

    The token keeps other users of the machine out; the check of the ``Host`` header refuses pages of other sites whose
    name was made to point to this machine.

    Attributes:
        url: The address of the page.
    """

    daemon_threads = True

    def __init__(self, page: bytes, port: int = 0) -> None:
        """Listen, without answering yet.

        Args:
            page: The page, HTML in UTF-8.
            port: The port; 0 for any that is free.

        Raises:
            OSError: The port is not free.
        """
        self.page = page
        super().__init__(("127.0.0.1", port), _Handler)
        self.path = f"/{secrets.token_urlsafe(_TOKEN_BYTES)}/"
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}
        self.url = f"http://127.0.0.1:{self.server_port}{self.path}"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 30  # seconds that a connection may take to send its request

    def do_GET(self) -> None:
        """Answer with the page, or with 404."""
        if self._answers(len(self.server.page)):
            self.wfile.write(self.server.page)

    def do_HEAD(self) -> None:
        """Answer with the headers of the page, or with 404."""
        self._answers(len(self.server.page))

    def _answers(self, num_bytes: int) -> bool:
        asked = self.path.partition("?")[0].encode("utf-8", errors="replace")
        if self.headers.get("Host") not in self.server.hosts or not hmac.compare_digest(
            asked, self.server.path.encode()
        ):
            self.send_error(404)
            return False
        self.send_response(200)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(num_bytes)),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        return True

    def log_message(self, *arguments: Any) -> None:
        """Print nothing for each request."""


# The formats that a Trace can be written in, by name and by file suffix. Imports no pandas.


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        suffixes: File suffixes that select it; none for a format that is only selected by name.
        is_folder: Whether it is a folder of files; None if the suffix decides.
        what: Short description.
        write: Writes a Trace to a path.
    """

    suffixes: tuple[str, ...]
    is_folder: bool | None
    what: str
    write: Callable[..., Path]


def _by(method: str) -> Callable[..., Path]:
    def write(trace: Trace, path: Path, **options: Any) -> Path:
        return getattr(trace, method)(path, **options)

    return write


# The longest matching suffix decides, so that .speedscope.json is not a Chrome trace.
FORMATS: Final[dict[str, Format]] = {
    "cudalens": Format((".cudalens",), False, "a saved Trace, exactly as it is", _by("save")),
    "chrome": Format((".json", ".json.gz"), False, "Chrome trace JSON, for Perfetto", _by("to_chrome")),
    "speedscope": Format((".speedscope.json", ".speedscope"), False, "for speedscope.app", _by("to_speedscope")),
    "collapsed": Format((".collapsed", ".folded"), False, "stacks for flamegraph.pl, inferno", _by("to_collapsed")),
    "parquet": Format((".parquet",), None, "the events, or a folder with every frame", _by("to_parquet")),
    "csv": Format((), True, "a folder with every frame", _by("to_csv")),
    "hta": Format((), True, "a folder for HolisticTraceAnalysis", _by("to_hta")),
}


def format_of(path: Path, name: str | None) -> Format:
    """Return the format `name`, or by default that of the suffix of `path`.

    Raises:
        OutputError: There is no such format; the message lists them.
    """
    if name is not None:
        if name not in FORMATS:
            raise invalid_choice("--format", name, FORMATS, OutputError)
        return FORMATS[name]
    fitting = [
        (len(suffix), known) for known in FORMATS.values() for suffix in known.suffixes if _ends(path.name, suffix)
    ]
    if not fitting:
        suffixes = ", ".join(suffix for known in FORMATS.values() for suffix in known.suffixes)
        raise OutputError(
            f"{path}: no format for this suffix; expected {suffixes}, or --format with one of {', '.join(FORMATS)}."
        )
    return max(fitting, key=lambda pair: pair[0])[1]


def _ends(name: str, suffix: str) -> bool:
    return name.lower().endswith(suffix)


def is_folder(format: Format, path: Path) -> bool:
    """Return whether what `format` writes to `path` is a folder."""
    if format.is_folder is not None:
        return format.is_folder
    return not any(_ends(path.name, suffix) for suffix in format.suffixes)


def help_text() -> str:
    """Return the formats, for a command's help."""
    listed = {name: f" ({', '.join(known.suffixes)})" if known.suffixes else "" for name, known in FORMATS.items()}
    return "; ".join(f"{name}{listed[name]}: {known.what}" for name, known in FORMATS.items())
