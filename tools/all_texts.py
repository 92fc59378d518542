"""Print every text that a display, message, table header, tooltip or docs page of cudalens shows, one a line.

Texts come from the section models and messages in Python, the scripts of the page, and the paragraphs of the docs.
To read them in one list: ``python tools/all_texts.py [python|script|docs]``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]
_PACKAGE: Final = _ROOT / "cudalens"
#: What is not shown to a user of a display: constants of formats, code that is generated.
_LEFT_OUT: Final = ("views/static", "views/css")
_TOKEN: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`""", re.DOTALL
)
#: A text has a space and a word, or is a word that begins with a capital; keys, selectors and colours are neither.
_SHOWN: Final = re.compile(r"[A-Za-z]{2}.* \S|\S .*[A-Za-z]{2}|^[A-Z][a-z]+$")
_CODE: Final = re.compile(
    r"^[.#\[]|[{};]\s*$|^(?:M|<)|^\w+\[|--\w+:|^[\w-]+(?: (?:is|cl|mm|cg)-[\w-]+)+$|\.\w+(?:,| >) "
)


def texts_of_python(source: str) -> list[tuple[int, str]]:
    """Return the line and the text of each text of Python code that is not documentation; values are ``{}``."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner: set[int] = set()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner.update(id(part) for part in node.values)
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if id(node) not in documentation and id(node) not in inner:
            found.append((node.lineno, text))
    return _shown(found)


def texts_of_script(source: str) -> list[tuple[int, str]]:
    """Return the line and the text of each text of JavaScript; values are ``{}``."""
    found = []
    for token in _TOKEN.finditer(source):
        if token[0][0] in "\"'`":
            text = re.sub(r"\$\{(?:[^{}]|\{[^}]*\})*\}", "{}", token[0][1:-1])
            found.append((source.count("\n", 0, token.start()) + 1, text))
    return _shown(found)


def texts_of_docs(source: str) -> list[tuple[int, str]]:
    """Return the line and the text of each line of a page that is not code."""
    found, is_code = [], False
    for number, line in enumerate(source.splitlines(), 1):
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        if line.strip() and not is_fence and not is_code:
            found.append((number, line.strip()))
    return found


def _shown(found: list[tuple[int, str]]) -> list[tuple[int, str]]:
    lines = ((number, " ".join(text.split())) for number, text in found)
    return [(number, text) for number, text in lines if _SHOWN.search(text) and not _CODE.search(text)]


def all_texts(kinds: list[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the file, line and text of each text of `kinds`: ``python``, ``script``, ``docs``."""
    readers = {
        "python": (_PACKAGE, "*.py", texts_of_python),
        "script": (_PACKAGE / "views" / "js", "*.js", texts_of_script),
        "docs": (_ROOT / "docs", "*.md", texts_of_docs),
    }
    for kind in kinds:
        folder, pattern, read = readers[kind]
        for path in sorted(folder.rglob(pattern)):
            name = path.relative_to(_ROOT).as_posix()
            if not any(part in name for part in _LEFT_OUT):
                yield from ((name, number, text) for number, text in read(path.read_text("utf-8")))


if __name__ == "__main__":
    for name, number, text in all_texts(sys.argv[1:] or ["python", "script", "docs"]):
        print(f"{name}:{number}: {text}")
