"""Let a program's own functions keep numbers that differ between ranks where they call ``int()``.

``int()`` makes an ordinary int of any text or number, of which nothing is known any more, and most programs read
``int(os.environ["RANK"])``. In copies of the code of the program's functions, `to_int` is called in its place.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from cudalens.virtual.jobs.rank_numbers import to_int
from cudalens.virtual.torch_cuda.stacks import is_library

#: Before 3.13, a call has its NULL below the function on the stack, and since then above it.
_IS_NULL_FIRST: Final = sys.version_info < (3, 13)
#: The versions whose bytecode `with_followed_ints` can change: tested with 3.11, 3.12 and 3.13.
_IS_KNOWN: Final = sys.implementation.name == "cpython" and sys.version_info < (3, 14)
#: Numbers of constants up to this one take one byte.
_MOST_CONSTANTS: Final = 255
#: What a program reads that differs between ranks: variables of the environment, functions and attributes.
_READS: Final = frozenset(
    {"RANK", "ROLE_RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK"}
    | {"get_rank", "get_node_local_rank", "get_local_rank", "get_coordinate", "current_device"}
    | {"rank", "local_rank", "node_rank"}
)
#: Those of its GPU.
_GPU_READS: Final = frozenset({"LOCAL_RANK", "get_node_local_rank", "current_device"})
#: Beginnings of the names of instructions that load variables and attributes.
_LOADS_OF_NAMES: Final = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_ATTR")


@contextmanager
def followed_ints(function: Callable[..., Any]) -> Iterator[None]:
    """Replace the code of the functions of a program temporarily."""
    replaced = []
    for one in program_functions(function):
        code = one.__code__
        if "int" not in one.__globals__ and (followed := with_followed_ints(code)) is not code:
            replaced.append((one, code, followed))
    try:
        for one, _, followed in replaced:
            one.__code__ = followed
        yield
    finally:
        for one, code, _ in replaced:
            one.__code__ = code


def run_script(path: Path) -> None:
    """Run a script as Python does, with followed ints in its own code."""
    code = compile(path.read_bytes(), str(path), "exec")
    if not any(one.argval == "int" and one.opname.startswith("STORE") for one in dis.get_instructions(code)):
        code = with_followed_ints(code)
    main, before = ModuleType("__main__"), sys.modules["__main__"]
    main.__file__ = str(path)
    sys.modules["__main__"] = main
    try:
        exec(code, vars(main))  # noqa: S102 - the user's script
    finally:
        sys.modules["__main__"] = before


def program_functions(function: Callable[..., Any]) -> Iterator[FunctionType]:
    """Yield the Python functions that a function can reach by names, without those of torch and cudalens."""
    pending: list[Any] = [function]
    seen = set[int]()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, FunctionType):
            pending += _contents(one)
            if not is_library(one.__code__.co_filename):
                yield one
                pending += _named(one)
        elif isinstance(one, MethodType):
            pending += [one.__func__, one.__self__]
        elif isinstance(one, partial):
            pending += [one.func, *one.args, *one.keywords.values()]
        elif isinstance(one, staticmethod | classmethod):
            pending.append(one.__func__)
        elif isinstance(one, property):
            pending += [one.fget, one.fset]
        elif isinstance(one, type):
            if _is_of_program(one.__module__):
                pending += [*vars(one).values(), *one.__bases__]
        elif _is_of_program(type(one).__module__):
            pending.append(type(one))


def _contents(function: FunctionType) -> list[Any]:
    """What a function encloses: a function that it wraps."""
    found = [getattr(function, "__wrapped__", None)]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    return found


def _named(function: FunctionType) -> list[Any]:
    """What the global names in a function refer to, and the attributes of modules with such a name."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [one for one in found if isinstance(one, ModuleType) and _is_of_program(one.__name__)]
    return found + [vars(module)[name] for module in modules for name in names if name in vars(module)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _is_of_program(module: str) -> bool:
    """Whether a module is neither of Python, nor installed."""
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None:
        return module == "__main__"
    return not is_library(path) and not path.startswith(sys.base_prefix) and "site-packages" not in path


def with_followed_ints(code: CodeType) -> CodeType:
    """Return code in which `to_int` is called in place of ``int``, and constant sets are tuples; or `code` itself.

    ``rank in {0, 3}`` compares the rank with the elements of a tuple, which is noted, and not only its hash. Code that
    does not name what differs between ranks keeps ``int``: torch.compile, which may compile it, refuses `to_int`.
    """
    if not _IS_KNOWN:
        return code
    consts = [_followed_constant(one) for one in code.co_consts]
    is_changed = any(new is not old for new, old in zip(consts, code.co_consts, strict=True))
    raw = bytearray(code.co_code)
    number = len(consts)
    reads_rank = not _READS.isdisjoint((*code.co_names, *filter(_is_text, code.co_consts)))
    for offset, end, is_load_of_null in _calls_of_int(code) if reads_rank else ():
        if number > _MOST_CONSTANTS:
            break
        load = bytes([dis.opmap["LOAD_CONST"], number])
        if is_load_of_null:
            null = bytes([dis.opmap["PUSH_NULL"], 0])
            load = null + load if _IS_NULL_FIRST else load + null
        raw[offset:end] = load + bytes([dis.opmap["NOP"], 0]) * ((end - offset - len(load)) // 2)
        is_changed = True
    if not is_changed:
        return code
    return code.replace(co_code=bytes(raw), co_consts=(*consts, to_int))


def _is_text(constant: Any) -> bool:
    return isinstance(constant, str)


def _followed_constant(constant: Any) -> Any:
    if isinstance(constant, CodeType):
        return with_followed_ints(constant)
    return tuple(constant) if isinstance(constant, frozenset) else constant


def _calls_of_int(code: CodeType) -> Iterator[tuple[int, int, bool]]:
    """Yield where instructions load ``int`` to call it: start, end, and whether they also load a NULL."""
    instructions = [*dis.get_instructions(code)]
    for before, one, after in zip(instructions, instructions[1:], instructions[2:], strict=False):
        if one.argval != "int" or before.opname == "EXTENDED_ARG":
            continue
        if one.opname == "LOAD_GLOBAL" and one.arg is not None and one.arg & 1:
            yield one.offset, after.offset, True
        elif one.opname == "LOAD_NAME" and (before if _IS_NULL_FIRST else after).opname == "PUSH_NULL":
            yield one.offset, after.offset, False


@lru_cache(maxsize=1024)
def checks_identity(code: CodeType) -> bool:
    """Return whether code asks whether something is a certain int, or whether its type is ``int``.

    A `RankNumber` is another object, of another type.
    """
    for before, one in pairwise(dis.get_instructions(code)):
        is_type = before.argval == "int" and before.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        is_number = before.opname.startswith("LOAD") and type(before.argval) is int
        if (one.opname == "IS_OP" and (is_type or is_number)) or (one.opname == "COMPARE_OP" and is_type):
            return True
    return False


@lru_cache(maxsize=1024)
def indexes_with_gpu(code: CodeType) -> bool:
    """Return whether code that reads the number of its GPU uses it as an index: ``sizes[local_rank]``.

    The number is what a line that reads it stores, or the result of a call on such a line.
    """
    lines = _lines(code)
    reading = [line for line in lines if any(_GPU_READS.intersection(_names(one)) for one in line)]
    stored = {name for line in reading for one in line if one.opname.startswith("STORE") for name in _names(one)}
    for line in lines:
        for index, one in pairwise(line):
            is_subscript = one.opname == "BINARY_SUBSCR" or (one.opname == "BINARY_OP" and one.argrepr == "[]")
            is_stored = index.opname.startswith(_LOADS_OF_NAMES) and _names(index)[-1] in stored
            is_result = index.opname.startswith("CALL") and line in reading
            if is_subscript and (is_stored or is_result):
                return True
    return False


def _lines(code: CodeType) -> list[list[dis.Instruction]]:
    """Return the instructions of each line of code and of the functions in it."""
    lines: list[list[dis.Instruction]] = []
    for each in _codes(code):
        starts = {offset for offset, _ in dis.findlinestarts(each)}
        for one in dis.get_instructions(each):
            if one.offset in starts or not lines:
                lines.append([])
            lines[-1].append(one)
    return lines


def _names(one: dis.Instruction) -> tuple[Any, ...]:
    """Return what an instruction names: two variables if it loads or stores two."""
    return one.argval if isinstance(one.argval, tuple) else (one.argval,)
