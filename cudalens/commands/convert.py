"""``cudalens convert``: write a trace in another format."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cudalens.commands import arguments
from cudalens.errors import OutputError
from cudalens.frames import formats as _formats

if TYPE_CHECKING:
    from cudalens.frames import Trace

_WEIGHTS: Final = ("host", "device", "self")


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.traces_verb(verbs, "convert", run, "write a trace in another format")
    text = "the file or folder to write; - for standard output"
    parser.add_argument("-o", "--output", metavar="PATH", required=True, help=text)
    parser.add_argument("--format", choices=tuple(_formats.FORMATS), help=_formats.help_text())
    parser.add_argument("--weight", choices=_WEIGHTS, help="weight of collapsed stacks (default: host)")
    parser.add_argument("--by", choices=("tree", "stack", "module"), help="frames of collapsed stacks")


def run(options: argparse.Namespace) -> None:
    """Write the traces."""
    chosen, outputs = _outputs(options)
    given = {name: value for name in ("weight", "by") if (value := getattr(options, name)) is not None}
    is_collapsed = chosen is _formats.FORMATS["collapsed"]
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


def _outputs(options: argparse.Namespace) -> tuple[_formats.Format, list[Path]]:
    """Return the format, and what to write for each trace."""
    output = Path(options.output)
    if options.format is None and (len(options.traces) > 1 or options.output == arguments.STANDARD):
        raise OutputError(f"-o {options.output} has no suffix that selects a format; add --format.")
    chosen = _formats.format_of(output, options.format)
    if len(options.traces) == 1 and _formats.is_folder(chosen, output) and options.output != arguments.STANDARD:
        return chosen, [output]
    return chosen, arguments.targets(options.traces, options.output, next(iter(chosen.suffixes), ""))
