"""The base class of the magics: verbs of the line form, the cell form, help, loading and unloading."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand

from cudalens.errors import CudalensError
from cudalens.magics.cells import run_as_cell, without_traceback
from cudalens.magics.options import CellOptions, Form, NoOptions, UnclosedQuoteError, is_help, nearest, split

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.magics.cells import CellRun

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
