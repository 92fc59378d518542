"""Names that a code object reads or writes: globals, variables of closures, attributes."""

from __future__ import annotations

import contextlib
import dis
import functools
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})
_ATTRIBUTES: Final = frozenset(
    {"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM"}
)

#: Functions that take the name of an attribute as text, and the attribute that holds all of them.
_BY_TEXT: Final = frozenset({"getattr", "setattr", "delattr", "hasattr", "attrgetter", "vars", "__dict__"})

#: Functions and methods that give or compare the identity, the hash or the address of an object.
_IDENTITIES: Final = frozenset({"id", "hash", "__hash__", "is_", "is_not", "data_ptr", "untyped_storage", "storage"})

#: Instructions behind the name of such a function among which its arguments are.
_NEAR: Final = 12


@dataclass(frozen=True, slots=True)
class CodeNames:
    """Names in one code object and in those that it contains.

    Attributes:
        globals: Of global variables.
        attributes: Of attributes, whatever the object is; with text that may be the name of one.
        texts: Text that may be the name of an attribute which does not exist (``getattr(x, "name", default)``).
        imports: Of modules that it imports while it runs, relative ones with their dots.
        is_dynamic: Whether it computes names of attributes.
        has_identities: Whether its results can depend on the identity of an object: it compares with ``is``, constants
            aside, tests membership with ``in``, or uses a name of `_IDENTITIES`.
    """

    globals: frozenset[str]
    attributes: frozenset[str]
    texts: frozenset[str]
    imports: frozenset[str]
    is_dynamic: bool
    has_identities: bool


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> CodeNames:
    """The names in a code object; functions and comprehensions inside it are included."""
    globals_found: set[str] = set()
    attributes: set[str] = set()
    texts: set[str] = set()
    instructions = list(dis.get_instructions(code))
    imports = set(_imports(instructions))
    is_dynamic, has_identities = False, _has_identities(instructions)
    for instruction in instructions:
        if instruction.opname in _GLOBALS:
            globals_found.add(str(instruction.argval))
        elif instruction.opname in _ATTRIBUTES:
            attributes.add(str(instruction.argval))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = names_of(constant)
            globals_found |= inner.globals
            attributes |= inner.attributes
            texts |= inner.texts
            imports |= inner.imports
            is_dynamic = is_dynamic or inner.is_dynamic
            has_identities = has_identities or inner.has_identities
    if _BY_TEXT & (globals_found | attributes):
        texts |= {text for text in code.co_consts if isinstance(text, str) and text.isidentifier()}
        attributes |= texts
        is_dynamic = is_dynamic or _computes_names(code, instructions)
    return CodeNames(
        globals=frozenset(globals_found),
        attributes=frozenset(attributes),
        texts=frozenset(texts),
        imports=frozenset(imports),
        is_dynamic=is_dynamic,
        has_identities=has_identities,
    )


#: Modules with a function that is called ``grad``.
_WITH_GRAD: Final = frozenset({"autograd", "func", "functorch", "torch"})


@functools.lru_cache(maxsize=4096)
def attributes_of_tensors(code: CodeType) -> frozenset[str]:
    """The attributes of tensors that a code object names and that a copy of a tensor does not share."""
    instructions = list(dis.get_instructions(code))
    found = {str(at.argval) for at in instructions if at.opname in _ATTRIBUTES} & {"_base", "_version"}
    gradients = (
        n
        for n, at in enumerate(instructions)
        if at.opname in _ATTRIBUTES and at.argval == "grad" and instructions[n - 1].argval not in _WITH_GRAD
    )
    found |= {"grad" for _ in gradients}
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return frozenset(found).union(*map(attributes_of_tensors, inner))


@functools.lru_cache(maxsize=4096)
def takes_identity(code: CodeType) -> bool:
    """Whether a code object calls ``id()``."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return any(at.opname in _GLOBALS and at.argval == "id" for at in dis.get_instructions(code)) or any(
        map(takes_identity, inner)
    )


@functools.lru_cache(maxsize=256)
def stored_by(kind: Any) -> frozenset[str]:
    """The names of the attributes that the constructor of a class stores."""
    code = getattr(kind.__init__, "__code__", None)
    stored = () if code is None else (at.argval for at in dis.get_instructions(code) if at.opname == "STORE_ATTR")
    return frozenset(map(str, stored))


def _has_identities(instructions: list[dis.Instruction]) -> bool:
    compared = (n for n, at in enumerate(instructions) if at.opname == "IS_OP")
    if any(instructions[n - 1].opname != "LOAD_CONST" for n in compared):
        return True
    names = (at.argval for at in instructions if at.opname.startswith("LOAD_") and at.opname != "LOAD_CONST")
    return any(at.opname == "CONTAINS_OP" for at in instructions) or not _IDENTITIES.isdisjoint(names)


def _imports(instructions: Iterable[dis.Instruction]) -> Iterator[str]:
    constants: list[Any] = []
    for instruction in instructions:
        if instruction.opname == "LOAD_CONST":
            constants.append(instruction.argval)
        elif instruction.opname == "IMPORT_NAME":  # behind its level and the names that come from it
            yield f"{'.' * constants[-2]}{instruction.argval}"


def _computes_names(code: CodeType, instructions: list[dis.Instruction]) -> bool:
    """Whether the name of an attribute may be text that is no constant of the code."""
    names = {*code.co_names}
    if names & {"vars", "__dict__"}:
        return True
    calls = [n for n, at in enumerate(instructions) if at.opname in _GLOBALS and at.argval in _BY_TEXT]
    return any(not _has_constant_name(instructions[n + 1 : n + _NEAR]) for n in calls)


def _has_constant_name(following: list[dis.Instruction]) -> bool:
    """Whether the name in a call is a constant."""
    has_text = False
    for instruction in following:
        if instruction.opname.startswith(("BINARY", "FORMAT", "BUILD", "CONVERT")):
            return False
        if instruction.opname.startswith(("CALL", "PRECALL")):
            break
        has_text = has_text or (instruction.opname == "LOAD_CONST" and isinstance(instruction.argval, str))
    return has_text


def imported(names: Iterable[str], namespace: Mapping[str, Any]) -> set[str]:
    """Modules by their names in ``sys.modules``, with the packages that they are in."""
    found: set[str] = set()
    for name in names:
        with contextlib.suppress(ImportError):
            absolute = importlib.util.resolve_name(name, str(namespace.get("__package__") or "")).split(".")
            found |= {".".join(absolute[:number]) for number in range(1, len(absolute) + 1)}
    return found
