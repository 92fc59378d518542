"""Change one operator or constant at a time, run the tests that execute its line, and report the mutants that survive.

    python tools/mutants.py [--most 100] [--seed 1] [--tests FOLDER]... [--line N] FILE...

Without files: those that differ from main. The tests of a package are in the folder of `tests/unit` with its name. They
run once to record which test executes which line; a mutant then runs these tests alone, in a fork of a process that has
imported torch and pandas. (mutmut starts from a run of all tests, cosmic-ray starts an interpreter for each mutant.)

Exit status 1: a mutant survived.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
OUT: Final = ROOT / "out" / "mutants"
#: Folders of tests besides the one with the package's name.
TESTS: Final = {"views": ["report"], "traces": ["frames"], "device": ["profiler"]}
#: A mutant whose tests take longer does not end, and is killed.
LIMIT_S: Final = 300
#: The first run of a mutant: tests of more than this number are tried if these pass.
FIRST_TESTS: Final = 12
SWAPPED: Final[dict[type, type]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the number of the node in the walk over its syntax tree, and a description."""

    file: Path
    node: int
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.text}"


def find_mutants(file: Path) -> Iterator[Mutant]:
    """Return each possible change of a file, except in annotations and docstrings."""
    tree = ast.parse(file.read_text())
    skipped = {id(inner) for node in ast.walk(tree) for part in annotations(node) for inner in ast.walk(part)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped or not hasattr(node, "lineno"):
            continue
        before = copy.deepcopy(node)
        if change(node):
            yield Mutant(file, number, node.lineno, f"{ast.unparse(before)}  ->  {ast.unparse(node)}")
            restore(node, before)


def annotations(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a node that are types."""
    parts = [getattr(node, name, None) for name in ("annotation", "returns")]
    return [part for part in parts if isinstance(part, ast.AST)]


def restore(node: ast.AST, before: ast.AST) -> None:
    """Set the fields of a node to those of another one."""
    for name in node._fields:
        setattr(node, name, getattr(before, name))


def change(node: ast.AST) -> bool:
    """Change a node in place; returns whether it has something to change."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        node.ops[0] = SWAPPED[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPPED:
        if isinstance(getattr(node, "right", None), ast.Constant) and isinstance(node.right.value, str):  # type: ignore[union-attr]
            return False
        node.op = SWAPPED[type(node.op)]()
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        value: Any = node.value
        node.value = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value * 2 + 1
    else:
        return False
    return True


def mutated_code(mutant: Mutant) -> Any:
    """Return the compiled module with the change."""
    tree = ast.parse(mutant.file.read_text())
    for number, node in enumerate(ast.walk(tree)):
        if number == mutant.node:
            change(node)
    return compile(ast.fix_missing_locations(tree), mutant.file, "exec")


class MutatingFinder(importlib.abc.MetaPathFinder):
    """Imports the module of a mutant with its change, and all other modules as always."""

    def __init__(self, mutant: Mutant) -> None:
        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> Any:
                return mutated_code(mutant)

        self.file, self.loader = mutant.file, Loader

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        """Return the spec of the mutant's module; None for others."""
        spec = PathFinder.find_spec(fullname, path) if fullname.startswith("cudalens") else None
        if spec is None or spec.origin is None or Path(spec.origin) != self.file:
            return None
        return importlib.util.spec_from_file_location(
            fullname,
            spec.origin,
            loader=self.loader(fullname, spec.origin),
            submodule_search_locations=spec.submodule_search_locations,
        )


class MutatingPlugin:
    """Puts a `MutatingFinder` before the importer of pytest, which rewrites cudalens as it does all plugins."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def pytest_load_initial_conftests(self) -> None:
        """Change what is imported from here on."""
        sys.meta_path.insert(0, MutatingFinder(self.mutant))


def record_tests(folders: list[str], packages: set[str]) -> dict[Path, dict[int, list[str]]]:
    """Run tests and return which of them executes each line, by file."""
    import coverage

    OUT.mkdir(parents=True, exist_ok=True)
    data = OUT / "coverage"
    sources = [f"--cov={ROOT / 'cudalens' / package}" for package in sorted(packages)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not browser", *folders, *sources]
    command += ["--cov-context=test", "--cov-report=", "--cov-fail-under=0"]
    done = subprocess.run(  # noqa: S603 - this interpreter
        command, cwd=ROOT, env=os.environ | {"COVERAGE_FILE": str(data)}, check=False
    )
    if done.returncode:
        sys.exit("the tests fail without a mutant")
    recorded = coverage.CoverageData(str(data))
    recorded.read()
    lines: dict[Path, dict[int, list[str]]] = {}
    for file in recorded.measured_files():
        contexts = recorded.contexts_by_lineno(file).items()
        lines[Path(file)] = {line: sorted({name.split("|")[0] for name in names if name}) for line, names in contexts}
    return lines


def is_killed(mutant: Mutant, tests: list[str]) -> bool:
    """Run tests in a fork with the mutant; returns whether one of them fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pyarrow has threads
        child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.setpgid(0, 0)
        import pytest

        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:cudalens", "--no-header"]
        os._exit(int(pytest.main([*options, *tests], plugins=[MutatingPlugin(mutant)])))
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return status != 0
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def survives(mutant: Mutant, tests: list[str]) -> bool:
    """Return whether all tests pass with a mutant: a few first, of the files with the most similar names."""
    stem = mutant.file.stem
    near = [test for test in tests if stem in test]
    others = [test for test in tests if stem not in test]
    first = (near + random.Random(mutant.node).sample(others, len(others)))[:FIRST_TESTS]  # noqa: S311
    rest = [test for test in tests if test not in set(first)]
    return not is_killed(mutant, first) and not (rest and is_killed(mutant, rest))


def choose(mutants: list[Mutant], most: int, seed: int) -> list[Mutant]:
    """Return at most so many mutants, spread evenly over the files."""
    random.Random(seed).shuffle(mutants)  # noqa: S311
    rank = {}
    counts: dict[Path, int] = {}
    for mutant in mutants:
        rank[mutant] = counts[mutant.file] = counts.get(mutant.file, 0) + 1
    return sorted(mutants, key=lambda mutant: rank[mutant])[:most]


def changed_files() -> list[str]:
    """Return the modules that differ from main."""
    command = ["git", "diff", "--name-only", "main", "--", "cudalens/*.py"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603


def main() -> int:
    """Run the mutants and print the survivors; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="files or folders of cudalens")
    parser.add_argument("--most", type=int, default=100, help="how many mutants at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--line", type=int, help="only mutants of this line")
    parser.add_argument("--tests", action="append", default=[], help="folders or files of tests")
    options = parser.parse_args()
    named = [(ROOT / name).resolve() for name in options.files or changed_files()]
    files = [file for name in named for file in ([name] if name.is_file() else sorted(name.rglob("*.py")))]
    packages = {file.relative_to(ROOT).parts[1] for file in files}
    names = [name for package in sorted(packages) for name in [package, *TESTS.get(package, [])]]
    folders = options.tests or [f"tests/unit/{name}" for name in names if (ROOT / "tests/unit" / name).is_dir()]
    if not files or not folders:
        parser.error("no files, or no folder of tests for them; name one with --tests")

    os.chdir(ROOT)
    executed = record_tests(folders, packages)
    import pandas  # noqa: F401 - imported once, for all forks
    import torch

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    every = [mutant for file in files for mutant in find_mutants(file)]
    mutants = [mutant for mutant in every if options.line in (None, mutant.line)]
    survivors, without = [], []
    chosen = choose(mutants, options.most, options.seed)
    for number, mutant in enumerate(chosen, 1):
        tests = executed.get(mutant.file, {}).get(mutant.line, [])
        if not tests and mutant.line in executed.get(mutant.file, {}):  # executed at import
            tests = sorted({test for found in executed[mutant.file].values() for test in found})
        if not tests:
            without.append(mutant)
            print(f"no test    {mutant}", flush=True)
        elif survives(mutant, tests):
            survivors.append(mutant)
            print(f"survived   {mutant}", flush=True)
        if number % 20 == 0:
            print(f"{number} of {len(chosen)}, {len(survivors)} survived", flush=True)
    killed = len(chosen) - len(survivors) - len(without)
    print(f"{len(chosen)} mutants, {killed} killed, {len(survivors)} survived, {len(without)} on lines without a test")
    return int(bool(survivors or without))


if __name__ == "__main__":
    sys.exit(main())
