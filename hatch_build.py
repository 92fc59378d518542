"""Build hook: compiles the optional extensions with the C compiler of the machine.

One reads Chrome traces, the other compares what graphed functions read. Without a compiler, without Python's headers or
with ``CUDALENS_PURE=1`` the wheel is pure, and Python code does both with the same result.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Targets are in the package, also for an editable install; .gitignore has them.
EXTENSIONS = {
    Path("cudalens/traces/chrome/native/scanner.c"): Path("cudalens/traces/chrome/_scanner.abi3.so"),
    Path("cudalens/graphs/guards/native/comparing.c"): Path("cudalens/graphs/guards/_comparing.abi3.so"),
}
FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")


class ExtensionsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled extensions to the wheel, if they can be compiled."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected."""
        if self.target_name != "wheel":
            return
        if reason := compiled(Path(self.root)):
            self.app.display_warning(f"cudalens is built without its compiled extensions: {reason}")
            return
        build_data["artifacts"] += [target.as_posix() for target in EXTENSIONS.values()]
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp311-abi3-{platform}"


def compiled(root: Path) -> str:
    """Compile the extensions below `root`; returns why not, or ""."""
    for target in EXTENSIONS.values():
        (root / target).unlink(missing_ok=True)
    if os.environ.get("CUDALENS_PURE") == "1":
        return "CUDALENS_PURE is 1"
    if sys.platform == "win32":
        return "they are not built on Windows"
    reasons = [_compiled_one(root / source, root / target) for source, target in EXTENSIONS.items()]
    return next(filter(None, reasons), "")


def _compiled_one(source: Path, target: Path) -> str:
    """With direct calls of Python's functions, a tenth faster, if the compiler supports the option."""
    return _compile(source, target, "-fno-plt") and _compile(source, target)


def _compile(source: Path, target: Path, *options: str) -> str:
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    headers = [f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")]
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    command = [*compiler, *FLAGS, *options, *headers, *undefined, str(source), "-o", str(target), "-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the machine's own compiler
    except OSError as error:
        return f"{compiler[0]}: {error.strerror}"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["the compiler failed"])[-1]
