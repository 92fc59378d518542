"""What the option tables of the magics share: kinds of values, and how a table becomes a parser, help and usage.

A magic has one table of arguments. It makes the parser, the help that ``%%magic?`` shows, and the usage in errors.
"""

from __future__ import annotations

import argparse
import keyword
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from IPython.core import magic_arguments
from IPython.core.error import UsageError

_F = TypeVar("_F", bound=Callable[..., Any])

Argument: TypeAlias = tuple[tuple[str, ...], dict[str, Any]]
"""Names and keywords of ``ArgumentParser.add_argument``."""


def flag(*names: str, help: str, **more: Any) -> Argument:
    """An option that is on or off."""
    return names, {"action": "store_true", "help": help, **more}


def value(*names: str, help: str, **more: Any) -> Argument:
    """An option or a place with a value."""
    return names, {"help": help, **more}


def identifier(text: str) -> str:
    """The name of a variable."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid variable name")
    return text


def count(least: int) -> Callable[[str], int]:
    """A whole number of at least `least`."""

    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return count


def rate(text: str) -> float:
    """How often in a second; between what `device.sampler` knows to be of use."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of readings per second (the name of a run stands before the option)"
        ) from None
    if not 0.01 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text} readings per second; expected 0.01 to 1000")
    return value


def path(text: str) -> Path:
    """A file to write or to read."""
    if not text:
        raise argparse.ArgumentTypeError("a file name is empty")
    if text.endswith(os.sep):  # a Path forgets it
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; give a file name in it")
    return Path(text).expanduser()


class Table:
    """The arguments of one magic.

    Args:
        magic: Its name, with its percent signs.
        arguments: In the order in which help and usage list them.
    """

    def __init__(self, magic: str, arguments: Sequence[Argument]) -> None:
        self._magic, self._arguments = magic, arguments

        def carrier(line: str) -> None:
            """Only carries the parser."""

        self._parser: magic_arguments.MagicArgumentParser = self.documented(carrier).parser

    def documented(self, function: _F) -> Any:
        """Give the magic `function` the parser and the help text that the table describes."""
        for names, keywords in self._arguments:
            function = magic_arguments.argument(*names, **keywords)(function)  # type: ignore[no-untyped-call]
        # Arguments are collected last first, as decorators run from the bottom up.
        function.decorators.reverse()  # type: ignore[attr-defined]
        function = magic_arguments.magic_arguments(self._magic.removeprefix("%"))(function)  # type: ignore[no-untyped-call]
        function.parser.allow_abbrev = False  # type: ignore[attr-defined]
        return function

    def usage(self) -> str:
        """The usage of the magic, on a few lines."""
        words = self._parser.format_usage().partition(self._magic)[2].split("\n")
        indent = len("usage: ") + len(self._magic) + 1
        rest = (f"{'':{indent}}{line.strip()}" for line in words[1:] if line.strip())
        return "\n".join([f"usage: {self._magic}{words[0]}", *rest])

    def parse(self, line: str) -> dict[str, Any]:
        """The values that `line` (what stands behind the magic's name) asks for. Nothing in it is expanded.

        Raises:
            UsageError: An option is unknown, lacks its value, or has a wrong one; the message ends with the usage.
        """
        try:
            return vars(self._parser.parse_args(_split(line)))
        except (UsageError, ValueError) as error:
            raise self.refusal(error) from None

    def parse_action(self, line: str, actions: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """The value of the argument ``action``, which is one of `actions`, and the values of the others.

        Raises:
            UsageError: As `parse`; or the action is unknown.
        """
        asked = self.parse(line)
        action = asked.pop("action")
        if action not in actions:
            raise self.refusal(f"what is {action!r}? Expected one of {', '.join(actions)}.")
        return action, asked

    def refusal(self, reason: object) -> UsageError:
        """The error that says what is wrong with a line, and how to write it."""
        return UsageError(f"{self._magic}: {reason}\n{self.usage()}")


def _split(line: str) -> list[str]:
    """Words of `line`; quotes hold words together, a backslash is only a backslash (as in Windows paths)."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        raise UsageError(f"a quote is not closed in: {line}") from None
