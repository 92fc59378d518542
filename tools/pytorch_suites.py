"""Run PyTorch's own CUDA test suites on a virtual device, each test in a process of its own with a time limit.

    python tools/pytorch_suites.py SOURCE [--suite test_cuda] [--only NAME] [--jobs 2] [--out FOLDER]

SOURCE is a folder with the sources of PyTorch 2.6 (Debian's source package ``pytorch``, for example). It stays outside
of this project. The suites also need the packages ``expecttest`` and ``psutil``. A virtual device is enabled before a
suite is imported, also in the Python processes that a test starts.

The tests that may fail are those in the tables of docs/virtual.md and docs/compile.md. ``test_cudagraph_trees``, of
torch.compile, needs Triton. Exit status 1: another test failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import traceback
import unittest
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypedDict

ROOT: Final = Path(__file__).parents[1]
_TREES: Final = "test_cudagraph_trees"
#: The device of each suite.
SUITES: Final = {
    "test_cuda": "h100",
    "test_cuda_multigpu": "h100x2",
    "test_cuda_primary_ctx": "h100x2",
    "test_cuda_trace": "h100",
    "test_cuda_sanitizer": "h100",
    _TREES: "h100x2",
}
#: The pages with tables of the tests that may fail.
_PAGES: Final = (ROOT / "docs" / "virtual.md", ROOT / "docs" / "compile.md")
#: Seconds for each test on an idle core.
_LIMIT_S: Final = 300
_FAILED: Final = ("failed", "crashed", "late")
_LISTING: Final = "(list)"
_DEVICE: Final = "CUDALENS_SUITE_DEVICE"
_SITE: Final = f"""\
import os, sys
if os.environ.get("{_DEVICE}"):
    import torch, cudalens
    cudalens.virtual.device(os.environ["{_DEVICE}"]).enable()
"""


class Outcome(TypedDict):
    """How one test ended: passed, failed, skipped, crashed (the process ended) or late (over the time limit)."""

    test: str
    result: str
    seconds: float
    detail: str


def main() -> int:
    """Run the suites, print their totals, and compare the failures with the table of the docs."""
    options = _options()
    os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"
    unexpected = 0
    with tempfile.TemporaryDirectory() as site:
        (Path(site) / "sitecustomize.py").write_text(_SITE)
        _prepare(options.source, site)
        if _TREES in (options.suite or SUITES):
            _warm_up_compiler()
        for suite in options.suite or SUITES:
            unexpected += _report(suite, list(_run(suite, options)), options.out)
    return 1 if unexpected else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, help="the folder with PyTorch's sources")
    parser.add_argument("--suite", action="append", choices=SUITES, help="a suite; by default all of them")
    parser.add_argument("--only", default="", help="run only the tests whose name contains this text")
    parser.add_argument("--jobs", type=int, default=2, help="how many tests run at the same time")
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="the folder for the results")
    return parser.parse_args()


def _prepare(source: Path, site: str) -> None:
    """Make the suites importable, and import what every test needs, so that a forked process has it."""
    tests = source.resolve() / "test"
    if not (tests / "test_cuda.py").is_file():
        sys.exit(f"{source} has no test/test_cuda.py: pass the folder of PyTorch's sources.")
    sys.path[:0] = [str(ROOT), str(tests), str(tests / "inductor")]
    os.environ["PYTHONPATH"] = os.pathsep.join([site, str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.chdir(tests)
    for name in ("torch", "cudalens", "numpy", "hypothesis", "expecttest", "torch._dynamo", "torch.ao.quantization"):
        importlib.import_module(name)


def _warm_up_compiler() -> None:
    """Compile a function, so that forked processes share the modules and patterns of torch.compile."""
    import torch

    import cudalens

    with cudalens.virtual.device("h100"):
        torch.compile(lambda x: x.sin() @ x, mode="reduce-overhead")(torch.ones(2, 2, device="cuda"))
    torch._dynamo.reset()


def _run(suite: str, options: argparse.Namespace) -> Iterator[Outcome]:
    listing = _in_process(suite, _LISTING)
    if listing["result"] != "passed":
        sys.exit(f"{suite} cannot be imported: {listing['result']} {listing['detail']}")
    names = [name for name in listing["detail"].split() if options.only in name]
    with ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(lambda name: _in_process(suite, name), names):
            if outcome["result"] in _FAILED:
                print(f"{outcome['result']:8} {outcome['test']}: {_last_line(outcome['detail'])}", flush=True)
            yield outcome


def _in_process(suite: str, name: str) -> Outcome:
    """Run one test in a forked process."""
    begun = time.monotonic()
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(suite, name, send))
    process.start()
    send.close()
    result, detail = _wait(process, receive)
    return Outcome(test=name, result=result, seconds=round(time.monotonic() - begun, 2), detail=detail)


def _wait(process: multiprocessing.process.BaseProcess, receive: Connection) -> tuple[str, str]:
    answer = ("late", f"no result within {_LIMIT_S} s")
    try:
        if receive.poll(_LIMIT_S):
            answer = receive.recv()
    except EOFError:
        process.join(_LIMIT_S)
        answer = ("crashed", f"exit status {process.exitcode}")
    if process.pid is not None:
        os.killpg(process.pid, signal.SIGKILL)
    process.join()
    return answer


def _child(suite: str, name: str, send: Connection) -> None:
    os.setpgid(0, 0)
    with open(os.devnull, "w") as sink:
        for stream in (1, 2):
            os.dup2(sink.fileno(), stream)
    import cudalens

    os.environ[_DEVICE] = SUITES[suite]
    try:
        cudalens.virtual.device(SUITES[suite]).enable()
        _count_modes()
        if suite == _TREES:
            _behave_as_before()
        found = {case.id().partition(".")[2]: case for case in _cases(suite)}
        send.send(("passed", " ".join(found)) if name == _LISTING else _outcome(found[name]))
    except BaseException:
        send.send(("failed", traceback.format_exc()))
    os._exit(0)


def _count_modes() -> None:
    """Make torch's check for modes that a test left start at those of the device, also for a test without ``setUp``."""
    import torch
    from torch.testing._internal.common_utils import TestCase

    TestCase._prev_torch_function_mode_stack_len = torch._C._len_torch_function_stack()


class _CurrentStderr:
    """Writes to what is ``sys.stderr`` at the time."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _behave_as_before() -> None:
    """Give later versions what the suite expects of PyTorch 2.6.

    A name of its helpers; messages of torch's logs on the ``sys.stderr`` that a test sets, where later versions keep
    the first one; graphs that Inductor does not cut into partitions; and graph breaks that interrupt all functions
    that are being traced, as by default, and not only the innermost one.
    """
    names = vars(importlib.import_module("torch.testing._internal.inductor_utils"))
    names.setdefault("HAS_CUDA", names.get("HAS_CUDA_AND_TRITON"))
    config = importlib.import_module("torch._inductor.config")
    if hasattr(config, "graph_partition"):
        config.graph_partition = False
    _break_outermost_graphs()
    for logger in [logging.getLogger(name) for name in logging.root.manager.loggerDict]:
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(_CurrentStderr())


def _break_outermost_graphs() -> None:
    case: Any = importlib.import_module("torch._dynamo.test_case").TestCase
    config: Any = importlib.import_module("torch._dynamo.config")
    set_up = case.setUp

    def set_up_as_before(self: Any) -> None:
        set_up(self)
        if hasattr(config, "nested_graph_breaks"):
            config.nested_graph_breaks = False

    case.setUp = set_up_as_before


def _cases(suite: str) -> Iterator[unittest.TestCase]:
    for kind in vars(importlib.import_module(suite)).values():
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase):
            for name in unittest.defaultTestLoader.getTestCaseNames(kind):
                yield kind(name)


def _outcome(case: unittest.TestCase) -> tuple[str, str]:
    result = unittest.TestResult()
    unittest.TestSuite([case]).run(result)
    wrong = result.errors + result.failures
    if wrong or result.unexpectedSuccesses:
        return "failed", wrong[0][1] if wrong else "unexpected success"
    return ("skipped", result.skipped[0][1]) if result.skipped else ("passed", "")


def _report(suite: str, outcomes: list[Outcome], out: Path) -> int:
    """Print and write the outcomes of a suite; returns the number of failures that the docs do not expect."""
    out.mkdir(exist_ok=True, parents=True)
    (out / f"{suite}.json").write_text(json.dumps(outcomes, indent=1))
    results: dict[str, set[str]] = {name: set() for name in ("passed", "skipped", *_FAILED)}
    for outcome in outcomes:
        results[outcome["result"]].add(outcome["test"].rpartition(".")[2])
    passed, failed = results["passed"], set().union(*(results[name] for name in _FAILED))
    counts = Counter(outcome["result"] for outcome in outcomes)
    print(
        f"{suite}: {counts['passed']} of {len(outcomes) - counts['skipped']} pass ({counts['skipped']} skipped)",
        flush=True,
    )
    expected = {name for page in _PAGES for name in re.findall(r"`(test_\w+)`", page.read_text())}
    for name in sorted(failed - expected):
        print(f"  not in the tables: {name}")
    for name in sorted(passed & expected):
        print(f"  in the tables, but passes: {name}")
    return len(failed - expected)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    return lines[-1][:200]


if __name__ == "__main__":
    sys.exit(main())
