"""Arguments and output that several verbs share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import cudalens

if TYPE_CHECKING:
    from cudalens.frames import Trace

#: What ``ArgumentParser.add_subparsers`` returns; argparse has no public name for it.
Verbs: TypeAlias = Any
#: Runs a verb; returns its exit code, None for 0.
Run: TypeAlias = Callable[[argparse.Namespace], int | None]


def trace_verb(verbs: Verbs, name: str, run: Run, help_text: str) -> argparse.ArgumentParser:
    """Add a verb that reads one trace, with the argument ``trace``."""
    description = f"{help_text[0].upper()}{help_text[1:]}."
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help_text, description=description)
    parser.add_argument(
        "trace", type=Path, help=".cudalens, or Chrome trace (.json, .json.gz); the format is detected from the content"
    )
    parser.set_defaults(run=run)
    return parser


def add_page(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``-o FILE``: also write `what` as a page."""
    parser.add_argument("-o", "--output", metavar="FILE", help=f"also write {what} as one offline HTML file")


def load(path: Path) -> Trace:
    """The trace of a file."""
    trace: Trace = cudalens.load(path)
    return trace


def target(path: str) -> Path:
    """The file to write, refused before anything is read if it cannot be written."""
    from cudalens.frames.files import check_target

    return check_target(path)


def report_written(path: Path) -> None:
    """Print which file or folder was written, and its size."""
    from cudalens.analysis import units

    files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
    of = f"{units.plural(len(files), 'file')}, " if path.is_dir() else ""
    print(f"Wrote {path} ({of}{units.size(sum(file.stat().st_size for file in files))}).")


@contextmanager
def stages(*names: str) -> Iterator[Callable[[], None]]:
    """A progress bar over the stages `names`, only on a terminal's stderr; call what it yields after each stage."""
    from tqdm import tqdm

    remaining = iter(names[1:])
    # disable=None: tqdm draws nothing where stderr is not a terminal.
    with tqdm(total=len(names), desc=names[0], disable=None, leave=False, bar_format="{desc} {bar} {elapsed}") as bar:

        def advance() -> None:
            bar.set_description(next(remaining, ""))
            bar.update()

        yield advance
