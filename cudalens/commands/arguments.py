"""Arguments and output that several verbs share."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import cudalens
from cudalens.errors import OutputError, TraceFormatError
from cudalens.views.sections.clean_text import clean_lines

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.frames import Trace
    from cudalens.views.compare.comparison import Comparison
    from cudalens.watching.ranks import WatchedRanks
    from cudalens.watching.record import WatchRecord


_TRACE: Final = "a .cudalens file, Chrome trace, or any other format that cudalens.load reads; - for standard input"
#: Names standard input and standard output.
STANDARD: Final = "-"
#: What ``ArgumentParser.add_subparsers`` returns; argparse has no public name for it.
Verbs: TypeAlias = Any
#: Runs a verb; returns its exit code, None for 0.
Run: TypeAlias = Callable[[argparse.Namespace], int | None]


def trace_verb(verbs: Verbs, name: str, run: Run, help_text: str) -> argparse.ArgumentParser:
    """Add a verb that reads one trace, with the argument ``trace``."""
    description = f"{help_text[0].upper()}{help_text[1:]}."
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help_text, description=description)
    parser.add_argument("trace", type=Path, metavar="TRACE", help=_TRACE)
    parser.set_defaults(run=run)
    return parser


def traces_verb(verbs: Verbs, name: str, run: Run, help_text: str) -> argparse.ArgumentParser:
    """Add a verb that reads one trace or several, with the argument ``traces``."""
    description = f"{help_text[0].upper()}{help_text[1:]}."
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help_text, description=description)
    parser.add_argument("traces", type=Path, metavar="TRACE", help=_TRACE, nargs="+")
    parser.set_defaults(run=run)
    return parser


def add_page(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``-o FILE``: also write `what` as a page."""
    parser.add_argument("-o", "--output", metavar="FILE", help=f"also write {what} as one offline HTML file")


def load(path: Path, *, repair: bool = True) -> Trace:
    """Return the trace of a file; of standard input for ``-``."""
    from cudalens.api.load import load_trace

    if str(path) != STANDARD:
        return load_trace(path, repair=repair)
    if sys.stdin is None:  # a shell closed it with <&-
        raise TraceFormatError(STANDARD, found="a closed standard input", expected="a trace")
    with tempfile.TemporaryDirectory(prefix="cudalens-") as folder:
        copy = Path(folder, "standard input")
        with open(copy, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        return load_trace(copy, repair=repair)


def load_shown(path: Path) -> Trace | WatchRecord | WatchedRanks:
    """As `load`, and the folder of a watched run as well; for verbs that only show what they read."""
    return cudalens.load(path) if os.path.isdir(path) else load(path)  # noqa: PTH112 - is_dir raises for long names


def target(path: str) -> Path:
    """Return the file to write, refused before anything is read if it cannot be written."""
    from cudalens.frames.files import check_target

    return Path(path) if path == STANDARD else check_target(path)


def targets(traces: Sequence[Path], output: str, suffix: str) -> list[Path]:
    """Return the file to write for each of `traces`: `output`, or for several of them a file in the folder `output`.

    Raises:
        OutputError: There are several, and `output` is not a folder.
    """
    if len(traces) == 1:
        return [target(output)]
    if not Path(output).is_dir():
        raise OutputError(f"{output} is no folder; for {len(traces)} traces, -o names a folder that exists.")
    names = [_stem(trace) for trace in traces]
    numbered = [
        f"{name}-{names[: i + 1].count(name)}" if names.count(name) > 1 else name for i, name in enumerate(names)
    ]
    return [target(str(Path(output, f"{name}{suffix}"))) for name in numbered]


def _stem(trace: Path) -> str:
    return "standard input" if str(trace) == STANDARD else trace.name.split(".")[0] or trace.name


def write(output: Path, writer: Callable[[Path], Path], suffix: str = "") -> None:
    """Write `output` with `writer`; for ``-``, write to standard output what `writer` makes of a temporary file."""
    if str(output) != STANDARD:
        report_written(writer(output))
        return
    with tempfile.TemporaryDirectory(prefix="cudalens-") as folder:
        written = writer(Path(folder, f"output{suffix}"))
        if written.is_dir():
            raise OutputError("a folder of files cannot be written to standard output; give -o a folder.")
        sys.stdout.flush()
        with open(written, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()


def show(found: object) -> None:
    """Print `found`; every verb prints through here, because its texts can be from a file of unknown origin."""
    print(clean_lines(str(found)), flush=True)


def print_result(found: object, path: Path, traces: Sequence[Path]) -> None:
    """Print `found`, below the name of its file if there are several."""
    if len(traces) > 1:
        show(f"{'' if path == traces[0] else chr(10)}== {path}")
    show(found)


def report_written(path: Path) -> None:
    """Print which file or folder was written, and its size."""
    from cudalens.analysis import units

    files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
    of = f"{units.plural(len(files), 'file')}, " if path.is_dir() else ""
    show(f"Wrote {path} ({of}{units.size(sum(file.stat().st_size for file in files))}).")


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


_MOST_ROWS = 1000


def json_text(value: Any) -> str:
    """`value` as JSON text."""
    return json.dumps(value, indent=2, allow_nan=False)


def summary_as_json(trace: Trace, path: str) -> dict[str, Any]:
    """Return what ``cudalens summary`` prints: the verdict, facts about the run, and the costs by name."""
    import msgspec

    info = msgspec.to_builtins(trace.info)
    costs = trace.key_averages().reset_index()
    return {
        "file": path,
        "verdict": trace.summary().verdict,
        "num_events": len(trace),
        "info": {key: _plain_value(value) for key, value in info.items()},
        "costs": rows_as_json(costs),
    }


def comparison_as_json(found: Comparison) -> dict[str, Any]:
    """Return what ``cudalens compare`` prints: the verdict, the change of the whole, and a list of rows per table."""
    change = found.change
    percent = {"change_pct": change.ratio, "low_pct": change.low, "high_pct": change.high}
    return {
        "verdict": found.verdict,
        "unit": change.unit,
        "before_ns": change.before_ns,
        "after_ns": change.after_ns,
        "num_before": change.num_before,
        "num_after": change.num_after,
        "status": change.status,
        **{name: None if share is None else _plain_value(100 * share) for name, share in percent.items()},
        **{name: rows_as_json(getattr(found, name)) for name in ("ops", "kernels", "modules", "memory")},
        "notes": list(found.differences.notes),
    }


def rows_as_json(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the first rows of `frame`, None for missing values."""
    part = frame.head(_MOST_ROWS).astype(object)
    part = part.where(part.notna(), None)
    return [{str(name): _plain_value(value) for name, value in row.items()} for row in part.to_dict("records")]


def _plain_value(value: Any) -> Any:
    """`value` for JSON: no numbers that are not finite, no types of numpy."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): _plain_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(one) for one in value]
    return value if value is None or isinstance(value, str | int) else getattr(value, "item", lambda: str(value))()
