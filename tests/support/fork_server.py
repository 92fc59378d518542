"""Run Python programs in forks of a process that has imported libraries, and cudalens if it is asked to.

`programs.run` starts this script with the names of the modules to import, and sends it a request per line: a JSON
object with the program and its surroundings.
A fork has nothing of other programs, and ends as any Python process does; it only has its imports done.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import sys
import types
import warnings
from pathlib import Path
from typing import Any


def preload(names: list[str]) -> None:
    """Import modules, once for all programs."""
    for name in names:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # forks share these objects' memory


def serve() -> dict[str, Any] | None:
    """Fork for each request and answer with the exit code; returns the request in the fork, None at the end."""
    for line in sys.stdin:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # pyarrow's allocator has a thread, and bears a fork
            child = os.fork()
        if not child:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def surround(request: dict[str, Any]) -> None:
    """Take on the standard streams, the folder and the environment of a request."""
    for number, path in enumerate(request["streams"]):
        opened = os.open(path, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])


def execute(order: list[str]) -> None:
    """Run what a Python command line names: ``-c CODE``, ``-m MODULE ...`` or ``PATH ...``."""
    if order[0] == "-c":
        sys.path[0], sys.argv = "", ["-c", *order[2:]]
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(order[1], "<string>", "exec"), vars(main))
    elif order[0] == "-m":
        sys.path[0], sys.argv = str(Path.cwd()), order[1:]
        runpy.run_module(order[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0], sys.argv = str(Path(order[0]).parent), order
        runpy.run_path(order[0], run_name="__main__")


if __name__ == "__main__":
    preload(sys.argv[1:])
    itself = sys.modules["__main__"]  # kept alive: a program becomes `__main__`
    if request := serve():
        surround(request)
        execute(request["order"])
