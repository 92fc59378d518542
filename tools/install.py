"""Install packages with pip into the environment of this interpreter, PyTorch's CPU build apart from the others.

    python tools/install.py [--cpu-torch REQUIREMENT] PIP_ARGUMENT...

``--cpu-torch torch==2.13.*`` installs this one package first: from files that are on this machine (pip's
``find-links``), or else from PyTorch's index of CPU builds. The other packages never come from that index. If it cannot
be reached, or has no such build, one line says so and torch is installed from the default index like the others.

The remaining arguments are those of ``pip install``. A constraints file (``-c FILE``) applies to torch, too.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
from typing import Final

CPU_INDEX: Final = "https://download.pytorch.org/whl/cpu"
#: For one package, whose index either answers or does not.
ONE_SHORT_TRY: Final = ("--timeout", "8", "--retries", "1")
#: Warnings without a cause in the project or in the user's command: an index of pip's configuration lacks a package.
_HARMLESS: Final = re.compile(r"WARNING: (Location .* is ignored|Skipping page .*|Running pip as the 'root' user)")


def main() -> int:
    """Install and return pip's exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu-torch", metavar="REQUIREMENT", help="torch, perhaps with a version")
    parser.add_argument("-c", dest="constraints", metavar="FILE", help="constraints file, as for pip")
    options, arguments = parser.parse_known_args()
    constraints = ["-c", options.constraints] if options.constraints else []
    if options.cpu_torch and importlib.util.find_spec("torch") is None:
        install_cpu_torch(options.cpu_torch, constraints)
    return install([*constraints, *arguments])


def install_cpu_torch(requirement: str, constraints: list[str]) -> None:
    """Install torch without its dependencies; print one line if only the default index remains."""
    alone = [*pip_install(), "--no-deps", *constraints, requirement]
    if run_quietly([*alone, "--no-index"]) is None:
        return
    if reason := run_quietly([*alone, *ONE_SHORT_TRY, "--index-url", CPU_INDEX]):
        print(f"{CPU_INDEX}: {reason}; PyTorch is installed from the default index", file=sys.stderr)


def pip_install() -> list[str]:
    """Return the beginning of each of pip's commands."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]


def run_quietly(command: list[str]) -> str | None:
    """Run a command without its output; returns None, or why it failed in one line."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - pip
    if done.returncode == 0:
        return None
    if re.search(r"Retrying|ConnectionError|NewConnectionError|Timeout|Could not fetch URL", done.stderr):
        return "cannot be reached"
    errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    return errors[-1] if errors else f"pip ended with code {done.returncode}"


def install(arguments: list[str]) -> int:
    """Run pip with these arguments; its messages are printed except for harmless ones."""
    process = subprocess.Popen([*pip_install(), *arguments], stderr=subprocess.PIPE, text=True)  # noqa: S603 - pip
    for line in process.stderr or ():
        if not _HARMLESS.match(line):
            print(line, end="", file=sys.stderr)
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
