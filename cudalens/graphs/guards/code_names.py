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


@dataclass(frozen=True, slots=True)
class CodeNames:
    """Names in one code object and in those that it contains.

    Attributes:
        globals: Of global variables.
        attributes: Of attributes, whatever the object is.
    """

    globals: frozenset[str]
    attributes: frozenset[str]


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> CodeNames:
    """The names in a code object; functions and comprehensions inside it are included."""
    globals_found: set[str] = set()
    attributes: set[str] = set()
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
    return CodeNames(frozenset(globals_found), frozenset(attributes))
