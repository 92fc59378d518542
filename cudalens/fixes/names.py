"""Which names the statements of a cell read, assign and write into, and which effects its calls have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a cell's top level.

    Attributes:
        read: Those that it reads anywhere, in functions and comprehensions too.
        needed: Of those, the names that may have to exist before the cell: read before they are certainly assigned.
        assigned: Those that the cell binds.
        written: Those whose objects it writes into: ``x[0] = …``, ``x.flag = …``, ``x += …``, ``x.add_(…)``.
    """

    read: frozenset[str]
    needed: frozenset[str]
    assigned: frozenset[str]
    written: frozenset[str]


def names_of(body: Sequence[ast.stmt]) -> Names:
    """Return the names of `body`."""
    flow = _Flow()
    flow.block(body)
    return Names(frozenset(flow.read), frozenset(flow.needed), frozenset(flow.assigned), frozenset(flow.written))


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *_COMPREHENSIONS)


class _Flow(ast.NodeVisitor):
    """Visits the statements in order; `sure` are the names that are bound on every path to the current one."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.needed: set[str] = set()
        self.assigned: set[str] = set()
        self.written: set[str] = set()
        self.sure: set[str] = set()

    def block(self, body: Iterable[ast.AST]) -> None:
        for node in body:
            self.visit(node)

    def branches(self, *bodies: Sequence[ast.AST]) -> None:
        """Visit alternatives; only the names that all of them bind are sure afterwards."""
        before, after = set(self.sure), []
        for body in bodies:
            self.sure = set(before)
            self.block(body)
            after.append(self.sure)
        self.sure = set.intersection(*after)

    # Statements with alternatives.

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self.branches(node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self.branches([node.body], [node.orelse])

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.branches([node.target, *node.body, *node.orelse], [])

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self.branches([*node.body, *node.orelse], [])

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        self.branches([*node.body, *node.orelse], *([handler] for handler in node.handlers), [])
        self.block(node.finalbody)

    visit_TryStar = visit_Try  # noqa: N815

    def visit_ExceptHandler(self, node: ast.ExceptHandler | ast.MatchAs) -> None:
        self.bind_all([node.name])
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        self.branches(*([case.pattern, *case.body] for case in node.cases), [])

    # Statements that bind names, after what they read.

    def visit_Assign(self, node: ast.Assign) -> None:
        self.block([node.value, *node.targets])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.block([node.value, node.target])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self.use(node.target.id)
            self.write_to(node.target)
        self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.block([node.value, node.target])

    def visit_alias(self, node: ast.alias) -> None:
        self.bind_all([node.asname or node.name.partition(".")[0]])

    visit_MatchAs = visit_ExceptHandler  # noqa: N815

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self.bind_all([node.name])

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.bind_all([node.rest])
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.use(node.id)
        else:
            self.bind_all([node.id])

    # Inner scopes: names that they read and do not bind come from outside.

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, _SCOPES):
            self.inner(node)
        else:
            super().visit(node)

    def inner(self, node: ast.AST) -> None:
        parts = list(ast.walk(node))
        if isinstance(node, _COMPREHENSIONS):
            first = node.generators[0].iter  # evaluated outside: ``[x for x in x]``
            self.visit(first)
            outside = set(ast.walk(first))
            parts = [part for part in parts if part not in outside]
        bound = {n.arg for n in parts if isinstance(n, ast.arg)}
        names = [n for n in parts if isinstance(n, ast.Name)]
        bound |= {n.id for n in names if not isinstance(n.ctx, ast.Load)}
        if isinstance(node, _COMPREHENSIONS):  # ``[y := x for x in xs]`` binds y around it, unless xs is empty
            bound_outside = {n.target.id for n in parts if isinstance(n, ast.NamedExpr)}
            self.assigned |= bound_outside
            bound -= bound_outside
        for name in names:
            if isinstance(name.ctx, ast.Load) and name.id not in bound:
                self.use(name.id)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.bind_all([node.name])

    # Expressions that write into objects.

    def visit_Subscript(self, node: ast.Subscript | ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.write_to(node)
        self.generic_visit(node)

    visit_Attribute = visit_Subscript  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if isinstance(node.func, ast.Attribute) and name.endswith("_") and not name.startswith("_"):
            self.write_to(node.func.value)
        for keyword in node.keywords:
            if keyword.arg == "out":
                self.write_to(keyword.value)
        self.generic_visit(node)

    def write_to(self, node: ast.AST) -> None:
        """Record a write into the name at the root of ``x[0].data``, unless the cell itself created its object."""
        while isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        if isinstance(node, ast.Name) and node.id not in self.sure:
            self.written.add(node.id)

    def use(self, name: str) -> None:
        self.read.add(name)
        if name not in self.sure:
            self.needed.add(name)

    def bind_all(self, names: Iterable[str | None]) -> None:
        bound = {name for name in names if name is not None}
        self.assigned |= bound
        self.sure |= bound


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
