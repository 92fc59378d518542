"""Run a Python program in a process of its own, without the seconds that its imports take."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SERVER = Path(__file__).with_name("fork_server.py")
LIBRARIES = ("torch", "pandas")
ALL = (*LIBRARIES, "cudalens", "cudalens.api.profile", "cudalens.sanitizer", "cudalens.virtual")


def run(
    *order: str | os.PathLike[str],
    input: str = "",
    env: dict[str, str] | None = None,
    cwd: str | os.PathLike[str] = ".",
    timeout: float = 300,
    imported: tuple[str, ...] = ALL,
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run([sys.executable, *order], capture_output=True, text=True, ...)``.

    The program starts with the modules `imported`. `LIBRARIES` are those without cudalens, for a program whose subject
    is what cudalens imports. A program whose subject is whether these are imported takes `subprocess.run` itself.

    Raises:
        subprocess.TimeoutExpired: The program takes longer than `timeout` seconds.
    """
    words = [os.fspath(word) for word in order]
    environment = dict(os.environ) if env is None else env
    if sys.platform != "linux":  # forks of a process with threads are safe there alone
        command = [sys.executable, *words]
        return subprocess.run(
            command, input=input, env=environment, cwd=cwd, timeout=timeout, capture_output=True, text=True, check=False
        )
    with tempfile.TemporaryDirectory(prefix="cudalens-program-") as folder:
        streams = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        for path, text in zip(streams, (input, "", ""), strict=True):
            path.write_text(text)
        where = {"order": words, "folder": os.path.abspath(cwd), "environment": environment}
        code = _answer(json.dumps(where | {"streams": list(map(str, streams))}), imported, timeout)
        return subprocess.CompletedProcess(words, code, streams[1].read_text(), streams[2].read_text())


def _answer(request: str, imported: tuple[str, ...], timeout: float) -> int:
    """The exit code of the program that a request asks for."""
    server = _server(imported)
    server.stdin.write(request + "\n")
    server.stdin.flush()
    if not select.select([server.stdout], [], [], timeout)[0]:
        os.killpg(server.pid, signal.SIGKILL)
        _server.cache_clear()
        raise subprocess.TimeoutExpired(request, timeout)
    return int(server.stdout.readline())


@functools.cache
def _server(imported: tuple[str, ...]) -> subprocess.Popen[str]:
    """The server of this process with these imports; it ends with it."""
    server = subprocess.Popen(
        [sys.executable, SERVER, *imported],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(_stop, server)
    return server


def _stop(server: subprocess.Popen[str]) -> None:
    server.stdin.close()
    server.wait()
    server.stdout.close()
