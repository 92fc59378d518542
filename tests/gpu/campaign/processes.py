"""Run a function in a forked process with a time limit.

The parent imports torch once and never initialises CUDA, which a fork would not survive. What a part prints goes to
the log. A part that crashes, hangs or is killed only ends its own process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

#: Seconds between the signal that asks a process to end and the one that ends it.
GRACE_S: Final = 5.0
_POLL_S: Final = 0.02


def forked(call: Callable[[], None], log: Path | None, seconds: float) -> str:
    """Run `call` in a process of its own; what it prints is appended to `log`.

    Args:
        call: The function. An exception is printed and makes the exit code 1.
        log: The file; None for where the parent prints.
        seconds: After this time the process and its children are killed.

    Returns:
        "" if it returned, else what went wrong.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _child(call, log)
    return _outcome(child, seconds)


def _child(call: Callable[[], None], log: Path | None) -> None:
    code = 1
    try:
        os.setsid()
        if log is not None:
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(file, 1)
            os.dup2(file, 2)
            sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
        call()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # without the parent's exit handlers


def _outcome(child: int, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    for sent, limit in ((signal.SIGTERM, deadline), (signal.SIGKILL, deadline + GRACE_S)):
        while time.monotonic() < limit:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return _described(status)
            time.sleep(_POLL_S)
        os.killpg(child, sent)
    os.waitpid(child, 0)
    return f"stopped after {seconds:.0f} s"


def _described(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    code = os.WEXITSTATUS(status)
    return "" if code == 0 else "failed; the log has the traceback"
