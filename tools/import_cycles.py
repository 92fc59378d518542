"""Find import cycles in cudalens/, counting imports inside functions.

    python tools/import_cycles.py

A cycle fails the check. A cycle that needs an import under ``TYPE_CHECKING`` fails only if it leaves one folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from grimp import ImportGraph, build_graph

ROOT = Path(__file__).parents[1]
PACKAGE = "cudalens"


def main() -> int:
    """Print every cycle and return the number of forbidden ones."""
    everything = build_graph(PACKAGE, cache_dir=None)
    at_runtime = build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
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


def components(graph: ImportGraph) -> list[set[str]]:
    """The strongly connected components of at least two modules, by Tarjan's algorithm without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[set[str]] = []
    for root in sorted(graph.modules):
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = [(root, iter(()))]
        while work:
            module, targets = work[-1]
            if module not in index:
                index[module] = low[module] = len(index)
                stack.append(module)
                on_stack.add(module)
                targets = iter(sorted(graph.find_modules_directly_imported_by(module)))
                work[-1] = (module, targets)
            for target in targets:
                if target not in index:
                    work.append((target, iter(())))
                    break
                if target in on_stack:
                    low[module] = min(low[module], index[target])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[module])
                if low[module] == index[module]:
                    component = set(stack[stack.index(module) :])
                    del stack[stack.index(module) :]
                    on_stack -= component
                    if len(component) > 1:
                        found.append(component)
    return found


def in_one_folder(modules: set[str]) -> bool:
    """Whether all modules are files of one folder."""
    return len({module.rpartition(".")[0] for module in modules}) == 1


if __name__ == "__main__":
    sys.exit(main())
