"""Effects of a program on more than its own objects, by the names of its calls: files, prints, requests."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

#: The effect that a call probably has, by its name.
EFFECTS: Final = {
    "writes files": frozenset(
        {"open", "save", "dump", "write", "writelines", "write_text", "write_bytes", "to_csv", "to_parquet", "to_json"}
        | {"to_html", "to_pickle", "savez", "savetxt", "savefig", "save_pretrained", "save_file", "mkdir", "makedirs"}
        | {"unlink", "remove", "rename", "replace", "rmtree", "copyfile", "copytree", "move", "add_scalar"}
    ),
    "starts programs": frozenset({"system", "Popen", "check_call", "check_output", "spawn"}),
    "sends requests": frozenset({"urlopen", "urlretrieve", "request", "post", "put", "send", "sendall", "publish"}),
    "prints": frozenset({"print", "display", "pprint"}),
    "takes from an iterator": frozenset({"next"}),
}


def find_effects(body: Sequence[ast.stmt]) -> list[tuple[int, str, str]]:
    """Return calls with effects outside of the cell's tensors, by their names: line, effect, the call."""
    found = []
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            found += [(node.lineno, what, ast.unparse(node.func)) for what, names in EFFECTS.items() if name in names]
    return sorted(dict.fromkeys(found))
