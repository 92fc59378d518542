"""The options of ``%%cudaprofile``, as data: what they are called, what they mean, and how a magic line becomes them.

The one table `ARGUMENTS` makes the parser, the help that ``%%cudaprofile?`` shows, and the usage in error messages.
"""

from __future__ import annotations

import argparse
import keyword
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from IPython.core import magic_arguments
from IPython.core.error import UsageError

MAGIC: Final = "%%cudaprofile"

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a magic line asks for.

    Attributes:
        name: Name of the run; None for ``cell-<execution count>``.
        var: Variable that receives the Trace, or None.
        output: Whether the Trace becomes the value of the cell.
        quiet: Whether nothing of ours is shown.
        memory: Record allocations.
        shapes: Record input shapes.
        stacks: Record Python call stacks.
        modules: Record the nn.Modules that were running.
        flops: Estimate floating-point operations.
        cpu_only: Leave the GPU out.
        warmup: Runs of the cell before the profiler starts.
        repeat: Profiled runs of the cell, each a step; None for one run without steps.
        html: Where the offline report goes, or None.
        save: Where the Trace goes, or None.
        chrome: Where the Chrome trace goes, or None.
        no_raise_error: Show an exception of the cell without raising it.
    """

    name: str | None = None
    var: str | None = None
    output: bool = False
    quiet: bool = False
    memory: bool = False
    shapes: bool = False
    stacks: bool = False
    modules: bool = False
    flops: bool = False
    cpu_only: bool = False
    warmup: int = 0
    repeat: int | None = None
    html: Path | None = None
    save: Path | None = None
    chrome: Path | None = None
    no_raise_error: bool = False

    @property
    def is_looped(self) -> bool:
        """Whether the cell's statements run more than once, or as a step."""
        return self.warmup > 0 or self.repeat is not None

    @property
    def collects(self) -> dict[str, bool]:
        """The options that say what to record, as arguments of `cudalens.profile`."""
        names = ("memory", "shapes", "stacks", "modules", "flops", "cpu_only")
        return {name: getattr(self, name) for name in names}

    @property
    def outputs(self) -> dict[str, Path]:
        """The files to write, by the method of Trace that writes them."""
        asked = {"to_html": self.html, "save": self.save, "to_chrome": self.chrome}
        return {method: path for method, path in asked.items() if path is not None}


def _identifier(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid variable name")
    return text


def _count(least: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return count


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("a file name is empty")
    if text.endswith(os.sep):  # a Path forgets it
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; give a file name in it")
    return Path(text).expanduser()


def _flag(*names: str, help: str, **more: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return names, {"action": "store_true", "help": help, **more}


def _value(*names: str, help: str, **more: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return names, {"help": help, **more}


ARGUMENTS: Final = (
    _value("name", nargs="?", help="Name of the run in cudalens.runs. The default is cell-<execution count>."),
    _value("-v", "--var", metavar="NAME", type=_identifier, help="Put the Trace into the variable NAME."),
    _flag("-o", "--output", help="Return the Trace: it becomes the value of the cell, Out[n]."),
    _flag("-q", "--quiet", help="Show nothing; the run is still kept in cudalens.runs."),
    _flag("--memory", help="Record every allocation and release, for the memory curve."),
    _flag("--shapes", help="Record the shapes and dtypes of operator inputs."),
    _flag("--stacks", help="Record Python call stacks (costs the most)."),
    _flag("--modules", help="Record which nn.Modules were running."),
    _flag("--flops", help="Estimate floating-point operations of matrix products and convolutions."),
    _flag("--cpu-only", help="Leave the GPU out."),
    _value("--warmup", metavar="N", type=_count(0), default=0, help="Run the cell N times before profiling starts."),
    _value("--repeat", metavar="N", type=_count(1), help="Profile N runs of the cell, each of them one step."),
    _value("--html", metavar="FILE", type=_path, help="Also write the view as one offline HTML file."),
    _value("--save", metavar="FILE", type=_path, help="Also save the Trace (.cudalens), for cudalens.load."),
    _value("--chrome", metavar="FILE", type=_path, help="Also write a Chrome trace (.json or .json.gz), for Perfetto."),
    _flag("--no-raise-error", help="Show an exception of the cell, but carry on as if there were none."),
)


def documented(function: _F) -> _F:
    """Give the magic `function` the parser and the help text that `ARGUMENTS` describe."""
    for names, keywords in ARGUMENTS:
        function = magic_arguments.argument(*names, **keywords)(function)  # type: ignore[no-untyped-call]
    # Arguments are collected last first, as decorators run from the bottom up.
    function.decorators.reverse()  # type: ignore[attr-defined]
    function = magic_arguments.magic_arguments(MAGIC.removeprefix("%"))(function)  # type: ignore[no-untyped-call]
    function.parser.allow_abbrev = False  # type: ignore[attr-defined]
    return function


@documented
def _empty(line: str) -> None:
    """Only carries the parser."""


_PARSER: Final[magic_arguments.MagicArgumentParser] = _empty.parser  # type: ignore[attr-defined]


def usage() -> str:
    """The usage of the magic, on a few lines."""
    words = _PARSER.format_usage().partition(MAGIC)[2].split("\n")
    return "\n".join([f"usage: {MAGIC}{words[0]}", *(f"{'':21}{line.strip()}" for line in words[1:] if line.strip())])


def parse(line: str) -> Options:
    """The options that `line` (what stands behind the magic's name) asks for. Nothing in it is expanded.

    Raises:
        UsageError: An option is unknown, lacks its value, or has a wrong one; the message ends with the usage.
    """
    try:
        options = Options(**vars(_PARSER.parse_args(_split(line))))
        _refuse_same_file(options)
    except (UsageError, ValueError) as error:
        raise UsageError(f"{MAGIC}: {error}\n{usage()}") from None
    return options


def _split(line: str) -> list[str]:
    """Words of `line`; quotes hold words together, a backslash is only a backslash (as in Windows paths)."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        raise UsageError(f"a quote is not closed in: {line}") from None


def _refuse_same_file(options: Options) -> None:
    paths = list(options.outputs.values())
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"two outputs go to the same file {path}")


def check_outputs(options: Options) -> None:
    """Refuse outputs that cannot be written, before anything runs.

    Raises:
        UsageError: A folder is missing or not writable, or the path is a folder.
    """
    from cudalens.errors import OutputError
    from cudalens.frames.files import check_target

    for path in options.outputs.values():
        try:
            check_target(path)
        except OutputError as error:
            raise UsageError(f"{MAGIC}: {error} The cell has not run.") from None
