"""``cudalens mcp``: serve the traces of a folder to language models."""

from __future__ import annotations

import argparse
from pathlib import Path

from cudalens.commands import arguments


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = verbs.add_parser("mcp", help="serve the traces of a folder to language models, over stdin and stdout")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the folder with the traces; nothing else is read")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Serve until the client ends."""
    from cudalens.api.mcp_server.server import serve

    serve(options.folder)
