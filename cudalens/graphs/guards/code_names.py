"""Names that a code object reads or writes: globals, variables of closures, attributes."""

from __future__ import annotations

import dis
import functools
from dataclasses import dataclass
from types import CodeType
from typing import Final

_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})
_ATTRIBUTES: Final = frozenset(
    {"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM"}
)

#: Functions that take the name of an attribute as text, and the attribute that holds all of them.
_BY_TEXT: Final = frozenset({"getattr", "setattr", "delattr", "hasattr", "attrgetter", "vars", "__dict__"})

#: Instructions behind the name of such a function among which its arguments are.
_NEAR: Final = 12


@dataclass(frozen=True, slots=True)
class CodeNames:
    """Names in one code object and in those that it contains.

    Attributes:
        globals: Of global variables.
        attributes: Of attributes, whatever the object is; with text that may be the name of one.
        is_dynamic: Whether it computes names of attributes.
    """

    globals: frozenset[str]
    attributes: frozenset[str]
    is_dynamic: bool


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> CodeNames:
    """The names in a code object; functions and comprehensions inside it are included."""
    globals_found: set[str] = set()
    attributes: set[str] = set()
    is_dynamic = False
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBALS:
            globals_found.add(str(instruction.argval))
        elif instruction.opname in _ATTRIBUTES:
            attributes.add(str(instruction.argval))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = names_of(constant)
            globals_found |= inner.globals
            attributes |= inner.attributes
            is_dynamic = is_dynamic or inner.is_dynamic
    if _BY_TEXT & (globals_found | attributes):
        attributes |= {text for text in code.co_consts if isinstance(text, str) and text.isidentifier()}
        is_dynamic = is_dynamic or _computes_names(code)
    return CodeNames(frozenset(globals_found), frozenset(attributes), is_dynamic)


def _computes_names(code: CodeType) -> bool:
    """Whether the name of an attribute may be text that is no constant of the code."""
    names = {*code.co_names}
    if names & {"vars", "__dict__"}:
        return True
    instructions = list(dis.get_instructions(code))
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
