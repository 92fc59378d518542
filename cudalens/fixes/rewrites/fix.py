"""`Fix`: a rewrite of the user's source for one finding, and `Program`: the source that can be rewritten."""

from __future__ import annotations

import ast
import collections
import contextlib
import inspect
import pathlib
import types
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cudalens.analysis import Finding
from cudalens.device.stacks import is_users_file
from cudalens.errors import FixError
from cudalens.fixes.source import Edit, Names, Source, own_names
from cudalens.fixes.trying.state import names_in


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

    @property
    def is_of_cell(self) -> bool:
        """Whether the text is of a cell of a notebook, not of a file."""
        return not pathlib.Path(self.place).is_file()

    def has_line(self, place: str | None) -> int | None:
        """Return the line of the text that a place (``In[3]:7``, ``file.py:7``) names; None for another place."""
        where, _, line = (place or "").rpartition(":")
        if not where or not line.isdigit() or not (where == self.place or where.endswith(f"/{self.place}")):
            return None
        number = int(line) - self.source.first_line + 1
        return number if 1 <= number <= len(self.source.lines) else None


@dataclass(frozen=True)
class FileChange:
    """A function of a file with a fix in it.

    Attributes:
        path: The file.
        first_line: The first line of the function, from 1.
        before: Its text, without the indentation of its first line.
        after: The text with the fix.
    """

    path: pathlib.Path
    first_line: int
    before: str
    after: str

    def write(self) -> None:
        """Write the function into its file; everything else of the file stays as it is.

        Raises:
            FixError: The file is not the one that was run, or cannot be written; it is unchanged.
        """
        try:
            text = self.path.read_bytes().decode()
            ending = "\r\n" if "\r\n" in text else "\n"
            lines = text.split(ending)
            start, stop = self.first_line - 1, self.first_line - 1 + len(self.before.split("\n"))
            here = "\n".join(lines[start:stop])
            if _without_indentation(here) != self.before:
                raise FixError(f"{self.path} is not as it was when it was run; nothing was written.")
            indent = here[: len(here) - len(here.lstrip())]
            fixed = [f"{indent}{line}" if line.strip() else line for line in self.after.split("\n")]
            self.path.write_bytes(ending.join([*lines[:start], *fixed, *lines[stop:]]).encode())
        except (OSError, UnicodeDecodeError) as error:
            raise FixError(f"{self.path}: the fix was not written ({error}).") from None


@dataclass(frozen=True)
class Program:
    """A cell and the user's functions that it reaches.

    Attributes:
        cell: The cell.
        functions: The functions.
        namespace: The variables.
        setup: Lines of fixes that run once before the cell.
    """

    cell: Unit
    functions: tuple[Unit, ...]
    namespace: Mapping[str, Any]
    setup: tuple[str, ...] = ()

    @cached_property
    def names(self) -> Names:
        """What the expressions of the cell and of the functions mean."""
        elsewhere: dict[ast.Name, Any] = {}
        for unit in self.functions:
            assert unit.function is not None
            outer = _outer_variables(unit.function)
            elsewhere |= {name: outer.get(name.id) for name in unit.source.nodes(ast.Name)}
        for unit in self.units:
            elsewhere |= dict.fromkeys(own_names(unit.source))
        return Names(self.namespace, elsewhere)

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

    def written_cell(self) -> str:
        """Return the text for the next cell: the functions of other cells that a fix changed, and the cell."""
        functions = [_definition(unit) for unit in self.functions if unit.is_edited and unit.is_of_cell]
        return "\n\n\n".join([*functions, self.cell_text()])

    def file_changes(self, original: Program) -> tuple[FileChange, ...]:
        """Return what writing the functions of files that a fix changed would change."""
        pairs = [pair for pair in zip(original.functions, self.functions, strict=True) if pair[1].is_edited]
        return tuple(
            FileChange(pathlib.Path(before.place), before.source.first_line, before.source.text, after.source.text)
            for before, after in pairs
            if not before.is_of_cell
        )

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
        changes_random: Whether random numbers are others, so that results are not compared.
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
    changes_random: bool = False
    dropped: frozenset[str] = field(default_factory=frozenset)
    needs: str = ""
    hides_rounding: bool = False


def with_torch(program: Program, fix: Fix) -> Fix:
    """Return a fix with ``import torch`` where its text needs the name and the program has another one for torch.

    Raises:
        FixError: A function of another module needs the name.
    """
    imports = any(
        isinstance(one, ast.Import) and any((name.asname or name.name) == "torch" for name in one.names)
        for one in program.cell.source.tree.body
    )
    units = [unit for unit, edits in fix.edits if any("torch." in edit.text for edit in edits)]
    for unit in units:
        if unit.function is not None and "torch" not in _outer_variables(unit.function):
            raise FixError(f"{unit.source.name} does not import torch.")
    is_needed = any(unit.function is None for unit in units) or any("torch." in line for line in fix.setup)
    if not is_needed or imports or "torch" in program.namespace:
        return fix
    return replace(fix, setup=("import torch", *fix.setup))


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
    means = Names(namespace)
    values = [namespace.get(name) for name in sorted({node.id for node in cell.source.nodes(ast.Name)})]
    values += [means.value(node) for node in cell.source.nodes(ast.Attribute)]
    functions = tuple(unit for function in reached_functions(values) if (unit := _unit(function)) is not None)
    return Program(cell, functions, namespace)


def _definition(unit: Unit) -> str:
    """The text that defines a function of another cell anew; a method is assigned to its class."""
    assert unit.function is not None
    scope, _, name = unit.source.name.rpartition(".")
    if not scope:
        return unit.source.text
    if unit.function.__code__.co_freevars or not scope.isidentifier():
        # Outside of its class or function, the text reads other variables: super() needs the class.
        return f"# {unit.source.name} changes too: edit it where it is defined, as the diff shows."
    return f"{unit.source.text}\n\n\n{scope}.{name} = {name}"


def _outer_variables(function: Any) -> Mapping[str, Any]:
    """The variables that a function reads from the functions around it, and those of its module."""
    found = collections.ChainMap[str, Any]({}, function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # not bound yet
            found[name] = cell.cell_contents
    return found


def reached_functions(values: Sequence[Any]) -> Iterator[types.FunctionType]:
    """Yield the user's functions and methods among values, and those that they name."""
    seen: set[int] = set()
    waiting = list(values)
    while waiting:
        for function in _callables(waiting.pop(0)):
            if id(function) in seen:
                continue
            seen.add(id(function))
            outer = _outer_variables(function)
            waiting += [outer[name] for name in names_in(function.__code__) if name in outer]
            waiting += [outer[name] for name in function.__code__.co_freevars if name in outer]
            yield function


def _callables(value: Any) -> list[types.FunctionType]:
    """The functions of the user in a value: itself, or the methods of its class and of the modules in it."""
    value = inspect.unwrap(value) if callable(value) and not isinstance(value, type) else value
    if isinstance(value, types.MethodType):
        return _callables(value.__func__)
    if isinstance(value, types.FunctionType):
        return [value] if is_users_file(value.__code__.co_filename) else []
    kinds = {value} if isinstance(value, type) else {type(value)}
    if hasattr(type(value), "named_modules"):
        kinds |= {type(module) for module in value.modules()}
    found = []
    for kind in sorted(kinds, key=lambda one: one.__qualname__):
        for item in vars(kind).values():
            function = getattr(item, "__func__", item)
            if isinstance(function, types.FunctionType) and is_users_file(function.__code__.co_filename):
                found.append(function)
    return found


def _unit(function: types.FunctionType) -> Unit | None:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    written = "".join(lines).rstrip("\n")
    text = _without_indentation(written)
    try:
        source = Source(function.__qualname__, text, max(first, 1))
    except FixError:
        return None
    definition = source.tree.body[0] if source.tree.body else None
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef) or _has_private_names(definition):
        return None
    if text != written and not _is_same_function(definition, written):
        return None
    try:  # the file may have been changed since it was imported
        is_running = _names_and_constants(function_code(function, source)) == _names_and_constants(function.__code__)
    except (FixError, StopIteration):
        return None
    return Unit(source, function, _place_of(function)) if is_running else None


def function_code(function: Any, source: Source) -> types.CodeType:
    """Return the code of a function with another text, which reads the same variables of the functions around it.

    Raises:
        FixError: The text reads other variables of these.
    """
    old = function.__code__
    tree = ast.parse(source.text)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    definition.decorator_list = []
    if old.co_freevars:
        around = ast.parse("def around(): " + "; ".join(f"{name} = None" for name in old.co_freevars))
        outer = around.body[0]
        assert isinstance(outer, ast.FunctionDef)
        outer.body.append(definition)
        tree = ast.fix_missing_locations(around)
    found = next(_codes_named(compile(tree, f"<{source.name}, fixed>", "exec"), definition.name))
    if found.co_freevars != old.co_freevars:
        raise FixError(f"the fix of {source.name} uses other variables of the functions around it.")
    return found.replace(co_qualname=old.co_qualname)


def _names_and_constants(code: types.CodeType) -> tuple[Any, ...]:
    """What two compilations of a function have in common; the bytes depend on the imports of the module."""
    constants = [one for one in code.co_consts[1:] if not isinstance(one, types.CodeType)]  # without the docstring
    return code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants


def _codes_named(code: types.CodeType, name: str) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == name:
                yield constant
            yield from _codes_named(constant, name)


def _without_indentation(written: str) -> str:
    """The text of a function without the indentation of its first line; lines of white space stay as they are.

    Text with a line that begins further left, in a string or a comment, is returned as it is.
    """
    indent = written[: len(written) - len(written.lstrip())]
    lines = written.split("\n")
    if not all(line.startswith(indent) or not line.strip() for line in lines):
        return written
    return "\n".join(line.removeprefix(indent) if line.strip() else line for line in lines)


def _has_private_names(definition: ast.AST) -> bool:
    """Whether a method has names that the class changes, as ``self.__count``."""
    names = [one.attr for one in ast.walk(definition) if isinstance(one, ast.Attribute)]
    names += [one.id for one in ast.walk(definition) if isinstance(one, ast.Name)]
    return any(name.startswith("__") and not name.endswith("__") for name in names)


def _is_same_function(definition: ast.AST, written: str) -> bool:
    """Whether a function without its indentation is the one that was written: strings over lines are not changed."""
    block = ast.parse(f"if True:\n{written}").body[0]
    assert isinstance(block, ast.If)
    return _without_docstring(definition) == _without_docstring(block.body[0])


def _without_docstring(definition: Any) -> str:
    has_text = ast.get_docstring(definition) is not None
    return ast.dump(ast.Module(definition.body[1:] if has_text else definition.body, []))


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
