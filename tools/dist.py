"""Build the sdist and the wheels, and use each in an environment with nothing else, with and without a C compiler.

    python tools/dist.py [--out dist]

The environment gets the dependencies once, in the versions of requirements.lock, and then each of: the compiled wheel,
the pure wheel, and the sdist built by pip with and without a compiler. `tools/wheel_check.py` uses each outside of the
checkout, and the compiled extensions must be in use exactly where there was a compiler.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
#: A command that does not exist, instead of the machine's compiler.
NO_COMPILER: Final = {"CC": "no-such-compiler"}
IN_USE: Final = """
from cudalens.graphs.guards.comparing import is_comparing_in_use
from cudalens.traces.chrome.scanned import is_scanner_in_use
print(is_comparing_in_use(), is_scanner_in_use())
"""


def main() -> int:
    """Build, install and use; returns 1 if something does not work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the results")
    out = parser.parse_args().out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    has_compiler = shutil.which((os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]) is not None
    with tempfile.TemporaryDirectory(prefix="cudalens-dist-") as name:
        folder = Path(name)
        sdist = build("--sdist", out)
        pure = build("--wheel", folder / "pure", NO_COMPILER)
        compiled = build("--wheel", out) if has_compiler else None
        shutil.copy(pure, out)
        python = make_environment(folder / "environment", pure)
        use(python, "pure wheel", pure, False, folder)
        use(python, "sdist without a compiler", sdist, False, folder, NO_COMPILER)
        if compiled:
            use(python, "compiled wheel", compiled, True, folder)
            use(python, "sdist with a compiler", sdist, True, folder)
    print(*sorted(path.name for path in out.iterdir()), sep="\n")
    return 0


def build(kind: str, folder: Path, environment: dict[str, str] | None = None) -> Path:
    """Build an sdist or a wheel into a folder and return its path."""
    before = set(folder.glob("*"))
    command = [sys.executable, "-m", "build", kind, "--outdir", str(folder), str(ROOT)]
    run(command, environment, ROOT)
    [made] = set(folder.glob("*")) - before
    return made


def make_environment(folder: Path, wheel: Path) -> Path:
    """Make an environment with the dependencies of a wheel; returns its interpreter."""
    run([sys.executable, "-m", "venv", str(folder)], None, ROOT)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [str(python), str(ROOT / "tools" / "install.py"), "--no-compile", "--cpu-torch", "torch"]
    run([*install, "-c", str(ROOT / "requirements.lock"), str(wheel)], None, folder)
    return python


def use(
    python: Path, name: str, file: Path, is_compiled: bool, folder: Path, environment: dict[str, str] | None = None
) -> None:
    """Install a file in place of the cudalens that is there, and use it."""
    install = [str(python), str(ROOT / "tools" / "install.py"), "--force-reinstall", "--no-deps", "--no-cache-dir"]
    run([*install, str(file)], environment, folder)
    run([str(python), str(ROOT / "tools" / "wheel_check.py")], None, folder)
    in_use = run([str(python), "-c", IN_USE], None, folder).split()
    if in_use != [str(is_compiled)] * 2:
        sys.exit(f"{name}: expected {'' if is_compiled else 'no '}compiled extensions; in use: {in_use}")
    print(f"{name}: works", flush=True)


def run(command: list[str], environment: dict[str, str] | None, folder: Path) -> str:
    """Run a command and return its output; ends this process with the output if it fails."""
    variables = {**os.environ, **(environment or {})}
    done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
