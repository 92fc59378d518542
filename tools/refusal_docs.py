"""Write docs/refusals.md from the error messages of the virtual device; ``--check`` only compares."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from generated_page import write_or_compare

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "cudalens"
PACKAGES: Final = ("gpus", "virtual")
TARGET: Final = ROOT / "docs" / "refusals.md"
HEAD: Final = """# What a virtual device refuses

A virtual device raises `cudalens.VirtualDeviceError` for what it cannot do. Each message says what to do instead.
An operator without an implementation raises `cudalens.UnsupportedOperatorError`, which is a `NotImplementedError`, too.
"…" is a name that depends on the call. `tools/refusal_docs.py` makes this page from the messages in
`cudalens/virtual` and `cudalens/gpus`.
"""
#: Calls with a message as their argument.
_RAISE: Final = frozenset({"VirtualDeviceError", "UnsupportedOperatorError", "MissingObjectError", "refusal"})
#: Constants with a message for each name.
_TABLES: Final = frozenset({"_SIGNS", "_REFUSED", "_LACKS_DTYPE"})
#: Shorter texts are names and parts of torch's messages.
_MIN_LENGTH: Final = 40


def page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for folder in sorted({path.parent for package in PACKAGES for path in (SOURCE / package).rglob("*.py")}):
        messages = sorted({text for path in folder.glob("*.py") for text in messages_in(path)}, key=str.lower)
        if messages:
            title = folder.relative_to(SOURCE).as_posix()
            parts.append(f"\n## `{title}`\n\n" + "".join(f"- {escaped(text)}\n" for text in messages))
    return "".join(parts)


def messages_in(path: Path) -> Iterator[str]:
    """The messages of one module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {name: value for node in tree.body for name, value in _constant(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _RAISE:
            for argument in node.args:
                yield from _long(_texts(argument, constants))
    for name in _TABLES & constants.keys():
        yield from _long(_texts(constants[name], constants))


def _long(texts: Iterator[str]) -> Iterator[str]:
    return (text for text in texts if len(text) >= _MIN_LENGTH)


def _constant(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The name and the value of a constant of a module."""
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
    value = node.value if isinstance(node, ast.AnnAssign | ast.Assign) else None
    for target in targets:
        if isinstance(target, ast.Name) and value is not None:
            yield target.id, value


def _texts(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    """The texts that an expression may have."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield _blanked(node.value)
    elif isinstance(node, ast.JoinedStr):
        yield _blanked("".join(_piece(piece, constants) for piece in node.values))
    for part in _parts(node, constants):
        yield from _texts(part, constants)


def _parts(node: ast.expr, constants: dict[str, ast.expr]) -> list[ast.expr]:
    """The expressions that give an expression its text."""
    match node:
        case ast.Name(id=name) if name in constants:
            return [constants[name]]
        case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value)) | ast.DictComp(value=value):
            return [value]
        case ast.Dict(values=values):
            return values
    return []


def _piece(node: ast.expr, constants: dict[str, ast.expr]) -> str:
    """A part of an f-string: a text, a constant, or a blank."""
    if isinstance(node, ast.FormattedValue):
        return next(_texts(node.value, constants), "…") if isinstance(node.value, ast.Name) else "…"
    return str(node.value) if isinstance(node, ast.Constant) else "…"


def _blanked(text: str) -> str:
    """A text with a blank in the place of each ``{name}`` of `str.format`."""
    out, depth = "", 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if character == "{" and depth == 1:
            out += "…"
        elif not depth and character != "}":
            out += character
    return out


def escaped(text: str) -> str:
    """A message as Markdown text."""
    text = text.removeprefix("…: ")
    return "".join(f"\\{character}" if character in "_*`<>[]" else character for character in text.strip())


if __name__ == "__main__":
    sys.exit(write_or_compare(TARGET, page(), "the messages of the virtual device"))
