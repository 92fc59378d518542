"""Complete magic lines with Tab in IPython and JupyterLab, and print the overview of ``%cudalens``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from cudalens.magics.base import Magic, loaded

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.magics.options import Form


_LINE: Final = re.compile(r"(%%?)(cuda\w+)[ \t]+(.*)")


class LineCompleter:
    """The matcher of one shell.

    Args:
        shell: The shell.
        magics: The magics.
    """

    def __init__(self, shell: InteractiveShell, magics: Iterable[type[Magic]]) -> None:
        self._shell = shell
        self._magics = {magic.name: magic for magic in magics}

        @context_matcher()  # type: ignore[untyped-decorator]
        def match_magic_line(context: CompletionContext) -> SimpleMatcherResult:
            return self.complete(context.line_with_cursor, context.token)

        match_magic_line.cudalens_completer = self
        self._matcher: Any = match_magic_line

    def add(self) -> None:
        """Add the matcher to the shell."""
        assert self._shell.Completer is not None
        self._shell.Completer.custom_matchers.append(self._matcher)

    def complete(self, line: str, word: str) -> SimpleMatcherResult:
        """Return what may follow on the magic line `line`, whose last word begins with `word`."""
        found = _LINE.match(line)
        if found is None or found[2] not in self._magics:
            return SimpleMatcherResult(completions=[])
        magic = self._magics[found[2]]
        before = found[3].split()
        if word and before:
            before.pop()
        form = magic.cell_form if found[1] == "%%" else _form_of(magic, before)
        names: list[str] = []
        if form is not None and form.takes_runs():
            from cudalens.api.session import runs

            names = [name for name in runs if " " not in name]
        candidates = [*_options(form), *names]
        if found[1] == "%" and not before:
            candidates += [name for name in magic.forms if " " not in name]
        fitting = [text for text in candidates if text.startswith(word) and text not in before]
        return SimpleMatcherResult(
            completions=[SimpleCompletion(text, type="magic") for text in fitting], suppress=True
        )


def remove_completers(shell: InteractiveShell) -> None:
    """Take the matchers of `LineCompleter` out of `shell`."""
    if shell.Completer is not None:
        matchers = shell.Completer.custom_matchers
        matchers[:] = [one for one in matchers if not hasattr(one, "cudalens_completer")]


def _form_of(magic: type[Magic], words: list[str]) -> Form[Any] | None:
    """Return the form whose verb `words` begin with; that of the magic's default verb where they are options."""
    names = (" ".join(words[:2]), *words[:1], magic.default)
    return next((magic.forms[name][0] for name in names if name in magic.forms), None)


def _options(form: Form[Any] | None) -> list[str]:
    return [] if form is None else [name for name in form.option_names() if name.startswith("--")]


# ``%cudalens``: the magics with one line each, and the last runs of the session.

_MAX_RUNS: Final = 5


class Cudalens(Magic):
    """``%cudalens``."""

    name = "cudalens"
    about = """List the magics of cudalens and the last runs."""

    def run_line(self, line: str) -> Any:
        """Print the magics and the runs."""
        listed = [type(magic) for magic in loaded(self.shell) if magic is not self]
        names = [f"%%{magic.name}" if magic.cell_form else f"%{magic.name}" for magic in listed]
        width = max(map(len, names))
        rows = [f"{name:<{width}}  {_first_line(magic)}" for name, magic in zip(names, listed, strict=True)]
        print("\n".join([*rows, "", *_runs(), "Options of one: %cudaprofile --help"]))  # noqa: T201


def _first_line(magic: type[Magic]) -> str:
    return magic.about.partition("\n")[0]


def _runs() -> list[str]:
    """Return the last runs, newest first."""
    module = sys.modules.get("cudalens.api.session")  # before a first run, nothing imports pandas
    kept = [] if module is None else list(reversed(module.runs.items()))
    if not kept:
        return ["No run yet: put %%cudaprofile on top of a cell."]
    rows = [f"  {name}: {len(trace):,} events" for name, trace in kept[:_MAX_RUNS]]
    more = [f"  and {len(kept) - _MAX_RUNS} more in cudalens.runs"] if len(kept) > _MAX_RUNS else []
    return ["Last runs (%cudaprofile show NAME):", *rows, *more]
