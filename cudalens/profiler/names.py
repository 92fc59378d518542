"""Mark the names of Python functions whose memory was freed before torch's profiler copied them.

torch keeps pointers to the texts of a code object (``python_tracer``), not copies. Python frees the code of a module
once the module is imported, and other texts take its memory. So a name may be bytes that are not UTF-8, or another
text of the program.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cudalens.frames.info import DAMAGED_NAMES
from cudalens.frames.problems import Problems
from cudalens.profiler.getters import Coded, factorized

#: What takes the place of a damaged file or function name.
DAMAGED_FILE: Final = "<damaged file>"
DAMAGED_NAME: Final = "<damaged name>"

#: As torch writes a Python function: ``file(line): function``.
_FUNCTION: Final = re.compile(r"(.*)\((\d+)\): (.*)", re.DOTALL)

#: Functions whose code never begins at line 0.
_INNER: Final = frozenset({"<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


def with_damage_marked(
    codes: NDArray[np.int32], names: list[str], is_python: NDArray[np.bool_], problems: Problems
) -> Coded:
    """Names with `DAMAGED_FILE` and `DAMAGED_NAME` in place of damaged parts, each name once.

    Args:
        codes: Code of the name of each event, shape (n,).
        names: The distinct names.
        is_python: True for rows of Python functions, shape (n,).
        problems: Where events with damaged names are counted.
    """
    # A range of the program may be named as a function is, so rows of functions get codes of their own.
    pairs = codes.astype(np.int64) * 2 + is_python
    counts = np.bincount(pairs, minlength=2 * len(names))
    used = np.flatnonzero(counts)
    texts = [_of_function(names[pair // 2]) if pair % 2 else _of_other(names[pair // 2]) for pair in used.tolist()]
    for pair, text in zip(used.tolist(), texts, strict=True):
        if text != names[pair // 2] or "\ufffd" in text:
            problems.add(DAMAGED_NAMES, f"'{text[:150]}'", int(counts[pair]))
    of_used, once = factorized(texts)
    new = np.full(len(counts), -1, np.int32)
    new[used] = of_used
    return new[pairs], once


def _of_function(name: str) -> str:
    match = _FUNCTION.fullmatch(name)
    if match is None:
        return _of_other(name)
    file, line, function = match.groups()
    if _is_garbage(function) or (line == "0" and not _is_outermost(function)):
        is_file = not _is_garbage(file) and file.endswith((".py", ">"))
        return f"{file if is_file else DAMAGED_FILE}({line}): {DAMAGED_NAME}"
    return f"{DAMAGED_FILE}({line}): {function}" if _is_garbage(file) else name


def _of_other(name: str) -> str:
    return DAMAGED_NAME if name == "\ufffd" else name


def _is_garbage(text: str) -> bool:
    """Whether `text` cannot be the name of a file or a function: it is empty, not UTF-8, or has control characters."""
    return not text or "\ufffd" in text or any(unicodedata.category(char) == "Cc" for char in text)


def _is_outermost(function: str) -> bool:
    """Whether the code of `function` may begin at line 0: that of a module, of ``exec``, or of a notebook's cell."""
    return function.startswith("<") and function.endswith(">") and function not in _INNER
