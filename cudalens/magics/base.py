"""The base class of the magics: verbs of the line form, the cell form, help, loading and unloading."""

from __future__ import annotations

import argparse
import ast
import difflib
import keyword
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand

from cudalens.errors import CudalensError
from cudalens.magics.cells import run_as_cell, without_traceback

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.magics.cells import CellRun


# Options of the magics as data: one dataclass for each form of a magic makes its parser, its help and its usage.

_O = TypeVar("_O")
_WIDTH: Final = 100
_HELP_COLUMN: Final = 28


def option(*names: str, help: str, default: Any = None, writes: str | None = None, **keywords: Any) -> Any:
    """Return a field of a class of options: an option with a value.

    Args:
        *names: As on the line, such as ``-v`` and ``--var``.
        help: What the option means.
        default: Value where the line does not have the option.
        writes: The method of Trace that writes the file that the option names; None for other options.
        **keywords: Of ``ArgumentParser.add_argument``.
    """
    return field(default=default, metadata={"names": names, "help": help, "keywords": keywords, "writes": writes})


def place(metavar: str, help: str, default: Any = None, *, nargs: str = "?", is_run: bool = False) -> Any:
    """Return a field of a class of options: a positional argument; `is_run` says that it names runs of the session."""
    made = option(help=help, default=default, metavar=metavar, nargs=nargs)
    return field(default=default, metadata={**made.metadata, "is_run": is_run})


def flag(*names: str, help: str) -> Any:
    """Return a field of a class of options: an option that is on or off."""
    return option(*names, help=help, default=False, action="store_true")


def number(name: str, help: str, *, least: int = 1, default: int | None = None, **keywords: Any) -> Any:
    """Return a field of a class of options: a whole number of at least `least`."""
    return option(name, help=help, default=default, **{"metavar": "N", "type": count(least), **keywords})


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
            parsed, unknown = self._parser.parse_known_args([self._with_hyphens(word) for word in words])
            if unknown:
                raise ValueError(self._unknown(unknown))
            return self._kind(**vars(parsed))
        except ValueError as error:
            raise self.refusal(error) from None

    def _with_hyphens(self, word: str) -> str:
        """``--record_shapes``, as Python writes it, as ``--record-shapes``, if there is such an option."""
        name, equals, value = word.partition("=")
        with_hyphens = name.replace("_", "-")
        return f"{with_hyphens}{equals}{value}" if with_hyphens in self.option_names() else word

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


_M = TypeVar("_M", bound=Callable[..., Any])


def verb(words: str, options: type[NoOptions] = NoOptions) -> Callable[[_M], _M]:
    """Mark a method of a `Magic` as the form ``%<magic> <words>`` with `options`; its docstring is the help."""

    def mark(method: _M) -> _M:
        method.verb = words, options  # type: ignore[attr-defined]
        return method

    return mark


class Magic:
    """One magic in one shell.

    Args:
        shell: The shell.

    Attributes:
        name: Name without percent signs.
        about: What it is for; the first part of the help.
        default: The verb of a line without one; empty where such a line prints the usage.
        cell_options: Options of the cell form; None where there is no cell form.
        cell_about: What the cell form does, in one line.
        cell_form: The cell form.
        forms: The line forms by verb, with the method that each calls.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    default: ClassVar[str] = ""
    cell_options: ClassVar[type[CellOptions] | None] = None
    cell_about: ClassVar[str] = ""
    cell_form: ClassVar[Form[Any] | None] = None
    forms: ClassVar[dict[str, tuple[Form[Any], Callable[..., Any]]]]

    def __init_subclass__(cls) -> None:
        """Make the forms from the marked methods."""
        if cls.cell_options is not None:
            cls.cell_form = Form(f"%%{cls.name}", cls.cell_options, cls.cell_about)
        marked = [method for method in vars(cls).values() if hasattr(method, "verb")]
        cls.forms = {
            method.verb[0]: (Form(f"%{cls.name} {method.verb[0]}", method.verb[1], method.__doc__ or ""), method)
            for method in marked
        }

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    @classmethod
    def cell_run(cls, shell: InteractiveShell, options: Any, source: str | None, variable: str) -> CellRun:
        """Return the run of one cell with this magic on top; the arguments are those of `CellRun`."""
        raise NotImplementedError

    @classmethod
    def rewrite(cls, body: list[ast.stmt], run: str, shell: InteractiveShell, options: Any) -> list[ast.stmt]:
        """The statements that run in place of the user's statements `body`; `run` is the name of the `CellRun`."""
        return body

    def end(self) -> None:
        """Undo what the magic changed, when the extension is unloaded."""

    def run_line(self, line: str) -> Any:
        """Run the line form.

        Raises:
            UsageError: The verb or an option is wrong.
            CudalensError: It cannot be done; shown without a traceback.
        """
        try:
            words = split(line)
        except UnclosedQuoteError as error:
            raise self._refusal(str(error)) from None
        if not words and not self.default:
            print(self.usage())  # noqa: T201
            return None
        if is_help(words[:1]):
            print(self.help())  # noqa: T201
            return None
        form, method, rest = self._form_of(words)
        if is_help(rest):
            print(form.help())  # noqa: T201
            return None
        try:
            return method(self, form.parse_words(rest))
        except CudalensError as error:
            raise without_traceback(error) from None

    def _form_of(self, words: list[str]) -> tuple[Form[Any], Callable[..., Any], list[str]]:
        """Return the form that `words` begin with, and the words after its verb."""
        if self.default and (not words or words[0].startswith("-")):
            if late := next((word for word in words if word in self.forms), None):
                raise self._refusal(f"write {late!r} before the options.")
            return *self.forms[self.default], words
        two = " ".join(words[:2])
        if two in self.forms:
            return *self.forms[two], words[2:]
        if words[0] not in self.forms:
            raise self._refusal(f"what is {words[0]!r}?{_did_you_mean(words[0], self.forms)}")
        form, method = self.forms[words[0]]
        inner = [name.split()[1] for name in self.forms if name.startswith(f"{words[0]} ")]
        takes_words = form.places() != form.name
        if inner and not takes_words and len(words) > 1 and not words[1].startswith("-"):
            raise form.refusal(f"what is {words[1]!r}?{_did_you_mean(words[1], inner)}")
        return form, method, words[1:]

    def _refusal(self, reason: str) -> UsageError:
        return UsageError(f"%{self.name}: {reason}\n{self.usage()}")

    @classmethod
    def usage(cls) -> str:
        """Return all forms, in two lines."""
        lines = " | ".join(form.places().removeprefix(f"%{cls.name} ") for form, _ in cls.forms.values())
        cell = f"\n   or: %%{cls.name} on top of a cell" if cls.cell_form else ""
        return f"usage: %{cls.name} {lines}{cell}"

    @classmethod
    def help(cls) -> str:
        """Return what ``%<name>?`` shows: what the magic is for, and each form with its options."""
        forms = [*([cls.cell_form] if cls.cell_form else []), *(form for form, _ in cls.forms.values())]
        return "\n\n".join([cls.about.strip(), cls.usage(), *(form.help() for form in forms)])

    def load(self) -> None:
        """Add the magic to the shell."""

        @no_var_expand
        def run(line: str, cell: str | None = None) -> Any:
            __tracebackhide__ = True
            if cell is None:
                return self.run_line(line)
            return run_as_cell(self.shell, f"%%{self.name}", line, cell)

        run.__name__ = run.__qualname__ = self.name
        run.__doc__ = self.help()
        run.cudalens_magic = self  # type: ignore[attr-defined]
        for kind in ("line", "cell") if self.cell_form else ("line",):
            self.shell.magics_manager.magics[kind][self.name] = run


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = nearest(word, known)
    return f"{f' Did you mean {near!r}?' if near else ''} Expected one of {', '.join(known)}."


def loaded(shell: InteractiveShell) -> list[Magic]:
    """Return the magics of cudalens that are loaded in `shell`."""
    found: dict[str, Magic] = {}
    for functions in shell.magics_manager.magics.values():
        found |= {name: f.cudalens_magic for name, f in functions.items() if hasattr(f, "cudalens_magic")}
    return list(found.values())


def remove(shell: InteractiveShell) -> None:
    """Take the magics of cudalens out of `shell`."""
    for functions in shell.magics_manager.magics.values():
        for name in [name for name, function in functions.items() if hasattr(function, "cudalens_magic")]:
            del functions[name]
