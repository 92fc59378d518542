"""Find import cycles in cudalens/, counting imports inside functions.

    python tools/import_cycles.py

A cycle fails the check. A cycle that needs an import under ``TYPE_CHECKING`` fails only if it leaves one folder.

Methods such as ``Trace.to_html`` are the exception: their functions are in packages above the class, and are imported
when the method is called. `METHODS` lists the modules with such methods. An import at the top of one of them still
counts.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from grimp import ImportGraph, build_graph

ROOT = Path(__file__).parents[1]
PACKAGE = "cudalens"
sys.path.insert(0, str(ROOT))

#: Modules with classes whose methods import functions of packages above.
METHODS = (
    "cudalens.device.inventory.devices",
    "cudalens.frames.exploration",
    "cudalens.frames.ranks",
    "cudalens.frames.trace",
    "cudalens.sanitizer.live.streams",
    "cudalens.sanitizer.live.sanitize",
)


def main() -> int:
    """Print every cycle and return the number of forbidden ones."""
    everything = build_graph(PACKAGE, cache_dir=None)
    at_runtime = build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
    for graph in (everything, at_runtime):
        for module in METHODS:
            remove_late_imports(graph, module)
    cycles = [("cycle", cycle) for cycle in components(at_runtime)]
    cycles += [("type-checking cycle across folders", c) for c in components(everything) if not in_one_folder(c)]
    for kind, cycle in cycles:
        print(f"{kind}: {len(cycle)} modules")
        for module in sorted(cycle):
            targets = sorted(everything.find_modules_directly_imported_by(module) & cycle)
            print(f"  {module} -> {', '.join(targets)}")
    if not cycles:
        print(f"No import cycle in {len(everything.modules)} modules.")
    return len(cycles)


def remove_late_imports(graph: ImportGraph, module: str) -> None:
    """Remove from `graph` the imports of `module` that none of its statements at the top makes when it is loaded."""
    tree = ast.parse((ROOT / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8"))
    at_load = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            at_load |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            at_load |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    for imported in graph.find_modules_directly_imported_by(module) - at_load:
        graph.remove_import(importer=module, imported=imported)


def components(graph: ImportGraph) -> list[set[str]]:
    """The sets of at least two modules that import each other, directly or through others."""
    imports = {module: graph.find_upstream_modules(module) for module in graph.modules}
    cycles: list[set[str]] = []
    for module in sorted(graph.modules):
        others = {other for other in imports[module] if other != module and module in imports[other]}
        if others and not any(module in cycle for cycle in cycles):
            cycles.append({module, *others})
    return cycles


def in_one_folder(modules: set[str]) -> bool:
    """Whether all modules are files of one folder."""
    return len({module.rpartition(".")[0] for module in modules}) == 1


if __name__ == "__main__":
    sys.exit(main())
