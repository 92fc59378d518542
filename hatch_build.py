"""Build hook: compiles the optional scanner of Chrome traces with the C compiler of the machine.

Without a compiler, without Python's headers or with ``CUDALENS_PURE=1`` the wheel is pure, and traces are read by
Python code with the same result.
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

SOURCE = Path("cudalens/traces/chrome/native/scanner.c")
#: In the package, also for an editable install; .gitignore has it.
TARGET = Path("cudalens/traces/chrome/_scanner.abi3.so")
FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")


class ScannerHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled scanner to the wheel, if it can be compiled."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected."""
        if self.target_name != "wheel":
            return
        if reason := compiled(Path(self.root)):
            self.app.display_warning(f"cudalens is built without its compiled reader: {reason}")
            return
        build_data["artifacts"].append(TARGET.as_posix())
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp311-abi3-{platform}"


def compiled(root: Path) -> str:
    """Compile the scanner below `root`; returns why not, or ""."""
    (root / TARGET).unlink(missing_ok=True)
    if os.environ.get("CUDALENS_PURE") == "1":
        return "CUDALENS_PURE is 1"
    if sys.platform == "win32":
        return "it is not built on Windows"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    headers = [f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")]
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    command = [*compiler, *FLAGS, *headers, *undefined, str(root / SOURCE), "-o", str(root / TARGET), "-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the machine's own compiler
    except OSError as error:
        return f"{compiler[0]}: {error.strerror}"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["the compiler failed"])[-1]
