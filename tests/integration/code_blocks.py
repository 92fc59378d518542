"""Code blocks of Markdown pages and docstrings, as written."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"# not run in the tests: (?P<reason>\S.*)")


@dataclass(frozen=True)
class CodeBlock:
    """One code block.

    Attributes:
        path: The file that contains it.
        line: Line of its first line of code, from 1.
        language: The word after the fence; "python" in a docstring.
        text: The code, without the fence and the indentation.
    """

    path: Path
    line: int
    language: str
    text: str

    @property
    def reason_not_to_run(self) -> str:
        """The reason in the marker `# not run in the tests: REASON` on the first line; "" without a marker."""
        marker = NOT_RUN.search(self.text.partition("\n")[0])
        return marker["reason"] if marker else ""

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}"


def markdown_blocks(path: Path) -> Iterator[CodeBlock]:
    """The fenced blocks of a page, without the directives of MyST (```{toctree})."""
    page = path.read_text(encoding="utf-8")
    for fence in FENCE.finditer(page):
        if not fence["language"].startswith("{"):
            line = page[: fence.start("text")].count("\n") + 1
            yield CodeBlock(path, line, fence["language"], textwrap.dedent(fence["text"]))


def docstring_blocks(path: Path) -> Iterator[CodeBlock]:
    """The literal blocks (`::`) of a module's docstrings. Text that is no code is in `.. code-block:: text` instead."""
    source = path.read_text(encoding="utf-8")
    if "::\n" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for text in literal_blocks(inspect.cleandoc(ast.get_docstring(node, clean=False) or "")):
                yield CodeBlock(path, node.body[0].lineno, "python", text)


def literal_blocks(docstring: str) -> Iterator[str]:
    """The indented blocks that follow a line which ends with `::`."""
    lines = docstring.split("\n")
    for number, line in enumerate(lines):
        if line.rstrip().endswith("::") and not line.lstrip().startswith(".. "):
            margin = len(line) - len(line.lstrip())
            rest = lines[number + 1 :]
            ends = (i for i, other in enumerate(rest) if other.strip() and len(other) - len(other.lstrip()) <= margin)
            yield textwrap.dedent("\n".join(rest[: next(ends, len(rest))])).strip("\n") + "\n"
