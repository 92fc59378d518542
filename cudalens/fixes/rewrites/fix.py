"""`Fix`: a rewrite of the user's source for one finding, and `Program`: the source that can be rewritten."""

from __future__ import annotations

import ast
import inspect
import pathlib
import textwrap
import types
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cudalens.analysis import Finding
from cudalens.errors import FixError
from cudalens.fixes.source import Edit, Names, Source
from cudalens.fixes.trying.state import names_in

_PYTHON: Final = str(pathlib.Path(inspect.__file__).parent) + "/"


@dataclass(frozen=True, eq=False)
class Unit:
    """A piece of source: the cell, or a function that it calls.

    Attributes:
        source: The text.
        function: The function; None for the cell.
        place: The file or cell that the text is in, as places of findings name it.
        is_edited: Whether the text is not the one that the function was made from.
    """

    source: Source
    function: types.FunctionType | None = None
    place: str = ""
    is_edited: bool = False

    def has_line(self, place: str | None) -> int | None:
        """Return the line of the text that a place (``In[3]:7``, ``file.py:7``) names; None for another place."""
        where, _, line = (place or "").rpartition(":")
        if not where or not line.isdigit() or not (where == self.place or where.endswith(f"/{self.place}")):
            return None
        number = int(line) - self.source.first_line + 1
        return number if 1 <= number <= len(self.source.lines) else None


@dataclass(frozen=True)
class Program:
    """A cell and the user's functions that it reaches.

    Attributes:
        cell: The cell.
        functions: The functions.
        names: What its expressions mean.
        namespace: The variables.
        setup: Lines of fixes that run once before the cell.
    """

    cell: Unit
    functions: tuple[Unit, ...]
    names: Names
    namespace: Mapping[str, Any]
    setup: tuple[str, ...] = ()

    @property
    def units(self) -> tuple[Unit, ...]:
        """The cell, then the functions."""
        return (self.cell, *self.functions)

    def with_fix(self, fix: Fix) -> Program:
        """Return the program with a fix in its source.

        Raises:
            FixError: An edit cannot be made.
        """
        changed = {unit: unit.source.edited(edits) for unit, edits in fix.edits}

        def edited(unit: Unit) -> Unit:
            if unit not in changed:
                return unit
            return replace(unit, source=Source(unit.source.name, changed[unit], unit.source.first_line), is_edited=True)

        return replace(
            self,
            cell=edited(self.cell),
            functions=tuple(map(edited, self.functions)),
            setup=(*self.setup, *fix.setup),
        )

    def cell_text(self) -> str:
        """Return the text of the cell with the setup at its top."""
        source = self.cell.source
        return source.edited([source.at_top(*self.setup)]) if self.setup else source.text

    def diff(self, original: Program) -> str:
        """Return the diff from another version of the program."""
        parts = [original.cell.source.diff(self.cell_text())] if self.cell_text() != original.cell.source.text else []
        for before, after in zip(original.functions, self.functions, strict=True):
            if before.source.text != after.source.text:
                parts.append(before.source.diff(after.source.text))
        return "\n".join(parts)


@dataclass(frozen=True)
class Fix:
    """A rewrite of the source.

    Attributes:
        rule: The rule of the findings that it is for.
        title: What it does, as an imperative.
        edits: The edits of each piece of source.
        setup: Lines that run once before the cell; they are at the top of the fixed cell, and not timed with it.
        changes_numbers: Whether results differ by rounding; False if they are claimed to be equal bit for bit.
        changes_behaviour: What is no longer the same apart from the time, as a sentence; "" if nothing is.
        dropped: Variables that the fixed cell does not assign any more.
        needs: A word on what must hold, for the reader; "" without one.
        hides_rounding: Whether a virtual device does not show by how much results differ.
    """

    rule: str
    title: str
    edits: tuple[tuple[Unit, tuple[Edit, ...]], ...] = ()
    setup: tuple[str, ...] = ()
    changes_numbers: bool = False
    changes_behaviour: str = ""
    dropped: frozenset[str] = field(default_factory=frozenset)
    needs: str = ""
    hides_rounding: bool = False


def edits_by_unit(edits: Mapping[Unit, Sequence[Edit]]) -> tuple[tuple[Unit, tuple[Edit, ...]], ...]:
    """Return collected edits in the form of `Fix.edits`."""
    return tuple((unit, tuple(found)) for unit, found in edits.items())


def program_of(name: str, text: str, namespace: MutableMapping[str, Any], *, first_line: int = 1) -> Program:
    """Return the cell `text` with the functions of the user that it reaches.

    Args:
        name: Name of the cell, as ``In[3]``.
        text: Its text, without the magics of cudalens.
        namespace: The variables.
        first_line: Number of the text's first line in the cell.

    Raises:
        FixError: The text cannot be parsed.
    """
    cell = Unit(Source(name, text, first_line), None, name)
    names = {node.id for node in cell.source.nodes(ast.Name)} | {node.attr for node in cell.source.nodes(ast.Attribute)}
    functions = tuple(_functions(names, namespace))
    return Program(cell, functions, Names(namespace), namespace)


def _functions(names: set[str], namespace: Mapping[str, Any]) -> Iterator[Unit]:
    """Yield the user's functions and methods that are reached by name, each with its source."""
    seen: set[int] = set()
    waiting = sorted(names)
    visited = set(waiting)
    while waiting:
        name = waiting.pop(0)
        for function in _callables(namespace.get(name)):
            if id(function) in seen:
                continue
            seen.add(id(function))
            unit = _unit(function)
            if unit is None:
                continue
            yield unit
            inner = [one for one in names_in(function.__code__) if one not in visited]
            visited.update(inner)
            waiting += inner


def _callables(value: Any) -> list[types.FunctionType]:
    """The functions of the user in a value: itself, or the methods of its class and of the modules in it."""
    value = inspect.unwrap(value) if callable(value) and not isinstance(value, type) else value
    if isinstance(value, types.MethodType):
        return _callables(value.__func__)
    if isinstance(value, types.FunctionType):
        return [value] if _is_users(value) else []
    kinds = {value} if isinstance(value, type) else {type(value)}
    if hasattr(type(value), "named_modules"):
        kinds |= {type(module) for module in value.modules()}
    found = []
    for kind in sorted(kinds, key=lambda one: one.__qualname__):
        for item in vars(kind).values():
            function = getattr(item, "__func__", item)
            if isinstance(function, types.FunctionType) and _is_users(function):
                found.append(function)
    return found


def _is_users(function: types.FunctionType) -> bool:
    file = function.__code__.co_filename
    return "site-packages" not in file and not file.startswith("<frozen") and not file.startswith(_PYTHON)


def _unit(function: types.FunctionType) -> Unit | None:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    text = textwrap.dedent("".join(lines)).rstrip("\n")
    try:
        source = Source(function.__qualname__, text, max(first, 1))
    except FixError:
        return None
    if not source.tree.body or not isinstance(source.tree.body[0], ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    return Unit(source, function, _place_of(function))


def _place_of(function: types.FunctionType) -> str:
    from cudalens.sanitizer.fixes.source import cell_number

    number = cell_number(function.__code__.co_filename)
    return f"In[{number}]" if number is not None else function.__code__.co_filename


def sites_at(finding: Finding | None, sites: list[tuple[Unit, Any]]) -> list[tuple[Unit, Any]]:
    """Return the sites at the line of a finding; all if none is there, or if the finding has no line."""
    place = finding.place if finding is not None else None
    at_line = [
        (unit, node)
        for unit, node in sites
        if (line := unit.has_line(place)) is not None and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return at_line or sites
