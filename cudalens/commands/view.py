"""``cudalens view``: show a trace in the browser, from a server on this machine."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from cudalens.commands import arguments
from cudalens.errors import OutputError


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.trace_verb(verbs, "view", run, "show a trace in the browser, until Ctrl-C")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any free port)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")


def run(options: argparse.Namespace) -> None:
    """Serve the report of the trace until Ctrl-C."""
    from cudalens.report.serve import PageServer

    page = _page(options.trace)
    try:
        server = PageServer(page, options.port)
    except (OSError, OverflowError) as error:
        raise OutputError(f"cannot listen on port {options.port} of 127.0.0.1: {error}. Omit --port.") from error
    with server:
        arguments.show(f"{options.trace} is shown at {server.url} until Ctrl-C.")
        if not options.no_browser:
            _open_browser(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def _page(path: Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder, arguments.stages("reading", "drawing") as advance:
        trace = arguments.load(path)
        advance()
        return trace.to_html(Path(folder, "report.html")).read_bytes()


def _open_browser(url: str) -> None:
    import webbrowser

    webbrowser.open(url)
