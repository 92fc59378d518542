"""Call stacks of the user's program, and the source line that called an operator; fast enough for every operator.

A `Place` is the innermost stack frame that is neither torch's nor ours: a code object and an instruction in it. There
is one object per pair, so that places are compared by identity. (Hashing a code object hashes its bytecode; the table
is keyed by ``id`` and keeps the code alive.) ``torch._C._profiler.gather_traceback`` takes the whole stack, in 0.3 to
0.7 microseconds at any depth; its lines are resolved only for a report.
"""

from __future__ import annotations

import ast
import dis
import importlib.util
import linecache
import re
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Final, TypeAlias

import torch

Site: TypeAlias = "tuple[Place, object]"
CodeStack: TypeAlias = "tuple[tuple[CodeType, int], ...]"

_OWN: Final = str(Path(__file__).parents[1])
_TORCH: Final = str(Path(torch.__file__).parent)


def _folder(package: str) -> tuple[str, ...]:
    """Return the folder of a package, which is not imported; empty if it is not installed."""
    spec = importlib.util.find_spec(package)
    return (f"{Path(spec.origin).parent}/",) if spec is not None and spec.origin is not None else ()


def _files(*modules: str) -> tuple[str, ...]:
    """Return the files of modules that are not packages; those that are not installed are left out."""
    specs = [importlib.util.find_spec(module) for module in modules]
    return tuple(spec.origin for spec in specs if spec is not None and spec.origin is not None)


#: Modules whose functions call the functions that they are given: decorators, context managers, copies.
_WRAPPERS: Final = ("contextlib", "copy", "dataclasses", "functools", "typing", "typing_extensions", "warnings")


#: Files whose stack frames are never the user's.
_PASSED_BY: Final = (
    f"{_OWN}/",
    f"{_TORCH}/",
    *_folder("triton"),
    "<frozen ",
    *_files(*_WRAPPERS),
)


_STANDARD: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})


def is_own(filename: str) -> bool:
    """Return whether a file is this package's."""
    return filename.startswith(f"{_OWN}/")


def is_passed_by(filename: str) -> bool:
    """Whether a file's stack frames are never the user's: it is Python's machinery, torch's or this package's."""
    return filename.startswith(_PASSED_BY)


def is_users_file(filename: str) -> bool:
    """Return whether a source file belongs to the program, and not to Python, an installed package or this one."""
    if "site-packages" in filename or "dist-packages" in filename or is_passed_by(filename):
        return False
    return not filename.startswith(_STANDARD)


class Place:
    """A point in the user's source. There is one object per point, so that identity is equality.

    Attributes:
        code: The code object; None if there was no Python caller (an autograd thread).
        instruction: Offset of the call in its bytecode.
        note: Shown if there is no code.
    """

    __slots__ = ("code", "instruction", "note")

    def __init__(self, code: CodeType | None, instruction: int, note: str = "") -> None:
        self.code, self.instruction, self.note = code, instruction, note

    @property
    def filename(self) -> str:
        """The file, as Python names it; empty if there is no code."""
        return self.code.co_filename if self.code is not None else ""

    @property
    def line(self) -> int:
        """Line number, from 1; 0 if there is none."""
        return line_of(self.code, self.instruction) if self.code is not None else 0

    @property
    def function(self) -> str:
        """Name of the function."""
        return self.code.co_qualname if self.code is not None else ""

    @property
    def source(self) -> str:
        """The line of source, without its indent; empty if it is not available."""
        return linecache.getline(self.filename, self.line).strip() if self.code is not None else ""

    @property
    def span(self) -> tuple[int, int, int, int] | None:
        """Line, column, end line and end column of the expression (lines from 1, columns in bytes of UTF-8).

        None if unknown.
        """
        if self.code is None:
            return None
        positions = list(self.code.co_positions())[self.instruction // 2 : self.instruction // 2 + 1]
        for line, end_line, column, end_column in positions:
            if line is not None and end_line is not None and column is not None and end_column is not None:
                return line, column, end_line, end_column
        return None

    @property
    def expression(self) -> str:
        """The expression, on one line; of a statement its head (``if mask.any()``); empty if unknown."""
        span = self.span
        if span is None:
            return ""
        first, column, last, end_column = span
        lines = [linecache.getline(self.filename, number).encode() for number in range(first, last + 1)]
        before = lines[0][:column].decode(errors="replace").strip()
        lines[-1] = lines[-1][:end_column]
        lines[0] = lines[0][column:]
        texts = [line.decode(errors="replace").strip() for line in lines]
        if _STATEMENT.match(texts[0]):
            return _head(texts[0])
        text = " ".join(texts)
        # From Python 3.12, the branch of a statement has the position of its condition.
        is_condition = self._is_branch and _STATEMENT.fullmatch(before) is not None
        return f"{before.removeprefix('el')} {text}" if is_condition else text

    @property
    def _is_branch(self) -> bool:
        """Whether the instruction jumps, depending on a truth value."""
        return self.code is not None and dis.opname[self.code.co_code[self.instruction]].startswith("POP_JUMP")

    def __str__(self) -> str:
        return f"{file_label(self.filename)}:{self.line}" if self.code is not None else self.note

    def __repr__(self) -> str:
        return f"<place {self}>"


_STATEMENT: Final = re.compile(r"(?:el)?if\b|while\b|assert\b|for\b")


def _head(line: str) -> str:
    """``if mask.any()`` of ``if mask.any(): return``; the whole line if it cannot be parsed."""
    line = line.removeprefix("el").split("#")[0].rstrip()
    for end in (match.start() for match in re.finditer(":", line)):
        try:
            ast.parse(f"{line[:end]}: pass")
        except (SyntaxError, ValueError):
            continue
        return line[:end].rstrip()
    return line


#: Place of operations on torch's own threads.
NOWHERE: Final = Place(None, 0, "(no Python code: torch's own thread)")

#: By ``id`` of the code: the code, which must stay alive, and its places; None if its stack frames are skipped.
_known: Final[dict[int, tuple[CodeType, dict[int, Place] | None]]] = {}


def place(depth: int = 1) -> Place:
    """Return the innermost place of the user's program among the callers.

    Args:
        depth: Stack frames to skip, beginning with the caller's.
    """
    known = _known
    stack_frame: Any = sys._getframe(depth)
    while stack_frame is not None:
        code = stack_frame.f_code
        entry = known.get(id(code))
        if entry is None:
            entry = known[id(code)] = (code, None if code.co_filename.startswith(_PASSED_BY) else {})
        places = entry[1]
        if places is not None:
            at = stack_frame.f_lasti
            found = places.get(at)
            if found is None:
                found = places[at] = Place(code, at)
            return found
        stack_frame = stack_frame.f_back
    return NOWHERE


def place_of(code: CodeType, instruction: int) -> Place | None:
    """Return the place of an instruction; None if its code is not the user's."""
    entry = _known.get(id(code))
    if entry is None:
        entry = _known[id(code)] = (code, None if is_passed_by(code.co_filename) else {})
    places = entry[1]
    return (
        None if places is None else places.get(instruction) or places.setdefault(instruction, Place(code, instruction))
    )


def forget_places() -> None:
    """Forget code that only this module references, such as the code of notebook cells that have run.

    Called while no collector is active. A place that is still referenced (by a race, for example) is kept.
    """
    # A new entry without other references, as the baseline.
    code = compile(f"[{len(_known)}]", "<unreferenced>", "exec")
    num_code, num_place = _num_references({0: (code, {0: Place(code, 0)})})[0]
    for key, (of_code, of_places) in _num_references(_known).items():
        if of_code <= num_code and of_places <= num_place:
            del _known[key]


def _num_references(known: dict[int, tuple[CodeType, dict[int, Place] | None]]) -> dict[int, tuple[int, int]]:
    """Reference counts, which include temporary ones: of each code without its places, and the most of one place."""
    found = {}
    for key in list(known):
        places = known[key][1] or {}
        most = max((sys.getrefcount(places[at]) for at in list(places)), default=0)
        found[key] = (sys.getrefcount(known[key][0]) - len(places), most)
    return found


def line_of(code: CodeType, instruction: int) -> int:
    """Line of an instruction."""
    for start, end, line in code.co_lines():
        if start <= instruction < end:
            return line or code.co_firstlineno
    return code.co_firstlineno


def walk(depth: int = 1) -> CodeStack:
    """The call stack as code and instructions, innermost first: slower to take than with `gatherer`, fast to resolve.

    Resolving a stack of `gatherer` imports torch's compiler, which takes seconds. Taking this one takes about 3
    microseconds.

    Args:
        depth: Stack frames to skip, beginning with the caller's.
    """
    found: list[tuple[CodeType, int]] = []
    stack_frame: Any = sys._getframe(depth)
    while stack_frame is not None:
        found.append((stack_frame.f_code, stack_frame.f_lasti))
        stack_frame = stack_frame.f_back
    return tuple(found)


def named(stack: CodeStack) -> list[StackFrame]:
    """Return the entries of a stack that `walk` took, innermost first: the user's and torch's, without ours."""
    entries = [_named(code, instruction) for code, instruction in stack if not code.co_filename.startswith(f"{_OWN}/")]
    return _without_shell(entries)


def _named(code: CodeType, instruction: int) -> StackFrame:
    entry = {"filename": code.co_filename, "line": line_of(code, instruction), "name": code.co_qualname}
    return _stack_frame(entry)


def _no_stack(python: bool, script: bool, cpp: bool) -> None:
    return None


def gatherer() -> Callable[[bool, bool, bool], object]:
    """The function that takes a call stack: ``gather(True, False, False)``; it returns None if this torch has none."""
    found = getattr(getattr(torch._C, "_profiler", None), "gather_traceback", None)
    return found if found is not None else _no_stack


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One entry of a call stack.

    Attributes:
        file: As shown: ``In[7]`` for a notebook cell, else the path.
        line: Line number, from 1.
        function: Name of the function.
        source: The line of source; empty if it is not available.
        filename: As Python names it.
        is_user: Whether it is neither torch's nor ours.
    """

    file: str
    line: int
    function: str
    source: str
    filename: str
    is_user: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def frames_of(stack: object, *, depth: int | None = None, user_only: bool = False) -> list[StackFrame]:
    """Return a call stack, innermost first, beginning with the innermost entry of the user's program.

    Args:
        stack: Taken by `gatherer`, or an object whose `entries()` returns torch's resolved entries; None for none.
        depth: Maximum number of entries.
        user_only: Also leave out torch's entries among the outer ones.
    """
    named = [_stack_frame(entry) for entry in _entries(stack)]
    first = next((n for n, entry in enumerate(named) if entry.is_user), len(named))
    kept = [e for e in named[first:] if e.is_user or not (user_only or is_own(e.filename))]
    return _without_shell(kept)[:depth]


def _entries(stack: object) -> list[dict[str, Any]]:
    entries: Callable[[], list[dict[str, Any]]] | None = getattr(stack, "entries", None)
    if entries is not None:
        return entries()
    symbolize = getattr(getattr(torch._C, "_profiler", None), "symbolize_tracebacks", None)
    return [] if stack is None or symbolize is None else list(symbolize([stack])[0])


def _stack_frame(entry: dict[str, Any]) -> StackFrame:
    filename, line = str(entry["filename"]), int(entry["line"])
    return StackFrame(
        file=file_label(filename),
        line=line,
        function=str(entry["name"]),
        source=linecache.getline(filename, line).strip(),
        filename=filename,
        is_user=not filename.startswith(_PASSED_BY),
    )


def _without_shell(entries: Sequence[StackFrame]) -> list[StackFrame]:
    """Return the entries up to the outermost one in a notebook cell, without the shell that runs the cell."""
    cells = [n for n, entry in enumerate(entries) if entry.file != entry.filename]
    return list(entries[: cells[-1] + 1]) if cells else list(entries)


def file_label(filename: str, shell: Any = None) -> str:
    """Return a file as reports show it: ``In[7]`` for the source of a notebook cell, else its name unchanged.

    Args:
        filename: As Python names it.
        shell: IPython's shell, if it is not the one of this process.
    """
    ipython = sys.modules.get("IPython")
    if shell is None and ipython is not None and hasattr(ipython, "get_ipython"):
        shell = ipython.get_ipython()
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    number = numbers.get(filename) if isinstance(numbers, dict) else None
    return f"In[{number}]" if number is not None else filename
