"""Declare the options of the magics, and parse the line of a magic into them.

A class of options is a dataclass. Its fields are made by `option`, `flag`, `number` and others; they give the parser,
the help and the usage of one `Form` of a magic.
"""

from __future__ import annotations

import argparse
import difflib
import keyword
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from IPython.core.error import UsageError

_O = TypeVar("_O")
_WIDTH: Final = 100
_HELP_COLUMN: Final = 28


def option(
    *names: str,
    help: str,
    default: Any = None,
    writes: str | None = None,
    metavar: str | None = None,
    nargs: str | None = None,
    type: Callable[[str], object] | None = None,
    action: str | None = None,
    const: object = None,
) -> Any:
    """Return a field of a class of options: an option with a value.

    Args:
        *names: As on the line, such as ``-v`` and ``--var``.
        help: What the option means.
        default: Value where the line does not have the option.
        writes: The method of Trace that writes the file that the option names; None for other options.
        metavar: As of ``ArgumentParser.add_argument``, like the following.
        nargs: How many values it takes.
        type: Reads a value.
        action: What the option does.
        const: Value of an option that is given without one.
    """
    given = {"metavar": metavar, "nargs": nargs, "type": type, "action": action, "const": const}
    keywords = {name: value for name, value in given.items() if value is not None}
    return field(default=default, metadata={"names": names, "help": help, "keywords": keywords, "writes": writes})


def place(metavar: str, help: str, default: Any = None, *, nargs: str = "?", is_run: bool = False) -> Any:
    """Return a field of a class of options: a positional argument; `is_run` says that it names runs of the session."""
    made = option(help=help, default=default, metavar=metavar, nargs=nargs)
    return field(default=default, metadata={**made.metadata, "is_run": is_run})


def flag(*names: str, help: str) -> Any:
    """Return a field of a class of options: an option that is on or off."""
    return option(*names, help=help, default=False, action="store_true")


def number(
    name: str,
    help: str,
    *,
    least: int = 1,
    default: int | None = None,
    metavar: str = "N",
    nargs: str | None = None,
    type: Callable[[str], object] | None = None,
    const: object = None,
) -> Any:
    """Return a field of a class of options: a whole number of at least `least`, or what `type` reads."""
    reads = type or count(least)
    return option(name, help=help, default=default, metavar=metavar, nargs=nargs, type=reads, const=const)


def texts(name: str, metavar: str, help: str) -> Any:
    """Return a field of a class of options: a text that may be given several times."""
    return option(name, help=help, metavar=metavar, action="append")


def file(name: str, help: str, writes: str | None = None) -> Any:
    """Return a field of a class of options: a file, which the method `writes` of Trace writes."""
    return option(name, help=help, writes=writes, metavar="FILE", type=path)


def identifier(text: str) -> str:
    """Return the name of a variable."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid variable name")
    return text


def count(least: int) -> Callable[[str], int]:
    """Return a whole number of at least `least`."""

    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return count


def one_of(*texts: str) -> Callable[[str], str]:
    """One of `texts`."""

    def one_of(text: str) -> str:
        if text not in texts:
            raise argparse.ArgumentTypeError(f"{text!r}: expected one of {', '.join(texts)}")
        return text

    return one_of


def positive(text: str) -> float:
    """Return a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def rate(text: str) -> float:
    """Return a number of readings per second, in the range that `device.sampler` accepts."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of readings per second (write the name of a run before the option)"
        ) from None
    if not 0.01 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text} readings per second; expected 0.01 to 1000")
    return value


def path(text: str) -> Path:
    """Return a file to write or to read."""
    if not text:
        raise argparse.ArgumentTypeError("a file name is empty")
    if text.endswith(os.sep):  # a Path drops the separator
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; give a file name in it")
    return Path(text).expanduser()


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The options of a form that has none."""


@dataclass(frozen=True, kw_only=True)
class Outputs(NoOptions):
    """Where the Trace goes besides the display."""

    var: str | None = option("-v", "--var", metavar="NAME", type=identifier, help="Put the Trace into the variable.")
    html: Path | None = file("--html", "Also write the view as one offline HTML file.", "to_html")

    def __post_init__(self) -> None:
        """Refuse two outputs in one file, by ValueError."""
        paths = list(self.outputs.values())
        if twice := next((file for file in paths if paths.count(file) > 1), None):
            raise ValueError(f"two outputs go to the same file {twice}")

    @property
    def outputs(self) -> dict[str, Path]:
        """The files to write, by the method of Trace that writes them."""
        asked = {one.metadata["writes"]: getattr(self, one.name) for one in fields(self)}
        return {method: file for method, file in asked.items() if method is not None and file is not None}


@dataclass(frozen=True, kw_only=True)
class CellOptions(Outputs):
    """The options that all cell magics have."""

    output: bool = flag("-o", "--output", help="Return the Trace: it becomes the value of the cell, Out[n].")
    quiet: bool = flag("-q", "--quiet", help="Do not show the Trace.")

    @property
    def is_looped(self) -> bool:
        """Whether the cell's statements run in a loop: more than once, or as a profiler step."""
        return False


class Form(Generic[_O]):
    """One form of a magic, such as ``%%cudasan`` or ``%cudasan on``: its parser, its help and its usage.

    Args:
        name: What the line begins with.
        kind: The class of its options; each field is an `option` or a `flag`.
        summary: What it does, in one line.
    """

    def __init__(self, name: str, kind: type[_O], summary: str) -> None:
        self.name, self.summary = name, summary
        self._kind = kind
        self._parser = _parser(name, kind)

    def parse(self, line: str) -> _O:
        """Return the options in `line` (what follows the name). Variables in it are not expanded.

        Raises:
            UsageError: An option is unknown, lacks its value, or has a wrong one; the message ends with the usage.
            HelpRequest: The line asks for help.
        """
        try:
            return self.parse_words(split(line))
        except UnclosedQuoteError as error:
            raise self.refusal(error) from None

    def parse_words(self, words: Sequence[str]) -> _O:
        """As `parse`, of a line that is split into words."""
        if is_help(words):
            raise HelpRequest(self.help())
        try:
            spelled = []  # ``--record-shapes`` for ``--record_shapes``, as Python writes it
            for word in words:
                name, equals, value = word.partition("=")
                with_hyphens = name.replace("_", "-")
                spelled.append(f"{with_hyphens}{equals}{value}" if with_hyphens in self.option_names() else word)
            parsed, unknown = self._parser.parse_known_args(spelled)
            if unknown:
                raise ValueError(self._unknown(unknown))
            return self._kind(**vars(parsed))
        except ValueError as error:
            raise self.refusal(error) from None

    def _unknown(self, words: Sequence[str]) -> str:
        """Return the message about `words` that the form does not have, with the nearest option."""
        message = f"unrecognized arguments: {' '.join(words)}"
        near = nearest(words[0].partition("=")[0], self.option_names())
        return f"{message}. Did you mean {near}?" if near else message

    def option_names(self) -> list[str]:
        """Return the names of its options, such as ``--memory``."""
        return [name for one in fields(self._kind) for name in one.metadata["names"]]  # type: ignore[arg-type]

    def takes_runs(self) -> bool:
        """Return whether it has a positional argument that names runs of the session."""
        return any(one.metadata.get("is_run") for one in fields(self._kind))  # type: ignore[arg-type]

    def usage(self) -> str:
        """Return how to write it, on a few lines."""
        return self._parser.format_usage().strip()

    def help(self) -> str:
        """Return what it does, how to write it, and what its options mean."""
        return f"{self.name}: {self.summary}\n{self._parser.format_help().strip()}"

    def places(self) -> str:
        """Its name and its positional arguments, such as ``diff [A B]``."""
        known = [one.metadata for one in fields(self._kind)]  # type: ignore[arg-type]
        names = [one["keywords"]["metavar"] for one in known if not one["names"]]
        return f"{self.name} [{' '.join(names)}]" if names else self.name

    def refusal(self, reason: object) -> UsageError:
        """Return the error that says what is wrong with a line, and how to write it."""
        return UsageError(f"{self.name}: {reason}\n{self.usage()}")


class HelpRequest(Exception):  # noqa: N818 - it is not an error
    """A line asks for help: IPython shows the help in place of a traceback, and the cell does not run."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def is_help(words: Sequence[str]) -> bool:
    """Return whether a line asks for help."""
    return any(word in ("-h", "--help") for word in words)


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that `word` is a misspelling or a beginning of, with or without hyphens; None for none."""
    by_letters = {name.strip("-"): name for name in names}
    letters = word.strip("-").replace("_", "-")
    begun = [name for name in by_letters if len(letters) > 1 and name.startswith(letters)]
    found = begun or difflib.get_close_matches(letters, by_letters, 1, 0.6)
    return by_letters[found[0]] if found else None


class _Parser(argparse.ArgumentParser):
    """A parser that raises ValueError instead of ending the process."""

    def error(self, message: str) -> Any:
        raise ValueError(message)


def _parser(name: str, kind: Any) -> _Parser:
    def formatter(prog: str) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(prog, width=_WIDTH, max_help_position=_HELP_COLUMN)

    parser = _Parser(name, add_help=False, allow_abbrev=False, formatter_class=formatter)
    parser.color = False  # type: ignore[attr-defined]  # Python 3.14 colors the help of terminals
    for one in fields(kind):
        known = one.metadata
        keywords = {"default": argparse.SUPPRESS, "help": known["help"].replace("%", "%%"), **known["keywords"]}
        if known["names"]:
            parser.add_argument(*known["names"], dest=one.name, **keywords)
        else:
            parser.add_argument(one.name, **keywords)
    return parser


class UnclosedQuoteError(ValueError):
    """A quote on a line is not closed."""


_PART: Final = re.compile(r"""\s*(?:\#.*|(?P<word>(?:"[^"]*"|'[^']*'|[^\s"'])+))""", re.DOTALL)
_QUOTED: Final = re.compile(r"""(["'])(.*?)\1""", re.DOTALL)


def split(line: str) -> list[str]:
    """Return the words of `line`. Quotes join words; a ``#`` at the start of a word begins a comment.

    A backslash is an ordinary character, because Windows paths have it.

    Raises:
        UnclosedQuoteError: A quote is not closed.
    """
    words, at = [], 0
    while at < len(line.rstrip()):
        part = _PART.match(line, at)
        if part is None:
            raise UnclosedQuoteError(f"a quote is not closed in: {line}")
        if part["word"] is not None:
            words.append(_QUOTED.sub(r"\2", part["word"]))
        at = part.end()
    return words
