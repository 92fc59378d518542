"""Count what makes code dense, per package, and refuse nested conditional expressions.

``make check`` runs this with ``--check``. Without it, it prints a table over cudalens/: modules, lines, private
functions that occur once besides their definition, conditional expressions, and others. The figures are no limits:
they show where to look.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cudalens"
COLUMNS = ("modules", "short", "lines", "private", "once", "conditional", "nested", "comprehensions", "returned")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def nested_conditionals(tree: ast.AST) -> Iterator[ast.IfExp]:
    """Yield each conditional expression that is part of another one, but not of a function within it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            for part in (node.test, node.body, node.orelse):
                if isinstance(part, ast.IfExp) or any(isinstance(n, ast.IfExp) for n in ast.walk(part)):
                    yield node
                    break


def returned_at_once(tree: ast.AST) -> int:
    """Return how many functions annotate a variable in one statement and return it in the next one."""
    bodies = [f.body for f in ast.walk(tree) if isinstance(f, Function)]
    pairs = [body[-2:] for body in bodies if len(body) > 1]
    return sum(
        isinstance(assigned, ast.AnnAssign)
        and isinstance(last, ast.Return)
        and isinstance(last.value, ast.Name)
        and isinstance(assigned.target, ast.Name)
        and last.value.id == assigned.target.id
        for assigned, last in pairs
    )


def count_package(files: list[Path], words: Counter[str]) -> Counter[str]:
    """Return the counts of `COLUMNS` over `files`; `words` counts every word of the project."""
    counts: Counter[str] = Counter(modules=len(files))
    for file in files:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        num_lines = text.count("\n")
        counts["lines"] += num_lines
        counts["short"] += num_lines < 60 and file.name != "__init__.py"
        for node in ast.walk(tree):
            counts["conditional"] += isinstance(node, ast.IfExp)
            counts["comprehensions"] += isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
            if isinstance(node, Function) and node.name.startswith("_") and not node.name.startswith("__"):
                counts["private"] += 1
                counts["once"] += words[node.name] == 2
        counts["nested"] += sum(1 for _ in nested_conditionals(tree))
        counts["returned"] += returned_at_once(tree)
    return counts


def print_table() -> None:
    """Print a row of counts per package, and their sum."""
    files = sorted(PACKAGE.rglob("*.py"))
    words = Counter(w for file in files for w in re.findall(r"\w+", file.read_text(encoding="utf-8")))
    packages: dict[str, list[Path]] = {}
    for file in files:
        packages.setdefault(file.relative_to(PACKAGE).parts[0], []).append(file)
    rows = {name: count_package(of_package, words) for name, of_package in packages.items()}
    rows["(all)"] = sum(rows.values(), Counter())
    print(" ".join(["package".ljust(18), *(column.rjust(9) for column in COLUMNS)]))
    for name, counts in rows.items():
        print(" ".join([name.ljust(18), *(str(counts[column]).rjust(max(9, len(column))) for column in COLUMNS)]))


def refuse_nested(folders: list[Path]) -> int:
    """Print each nested conditional expression below `folders`; return the exit status."""
    places = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for folder in folders
        for file in sorted(folder.rglob("*.py"))
        for node in nested_conditionals(ast.parse(file.read_text(encoding="utf-8")))
    ]
    for place in places:
        print(f"{place}: a conditional expression inside another one: write an if statement, or name the inner value")
    return 1 if places else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="refuse nested conditional expressions")
    if parser.parse_args().check:
        return refuse_nested([PACKAGE])
    print_table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
