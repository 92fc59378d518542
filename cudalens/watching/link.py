"""The line between a watched process and its viewers: a Unix socket that only its user can open, and a token.

A viewer sends one line of JSON, ``{"token": ..., "want": "state"}``, and reads one answer. No pickle is involved. The
watched loop never waits for a viewer.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import stat
import tempfile
from pathlib import Path
from typing import Any, Final

from cudalens.errors import WatchError

FOLDER: Final = "cudalens-watch"
#: Bytes of a request and of an answer.
MOST_REQUEST: Final = 1000
MOST_ANSWER: Final = 64_000_000
TIMEOUT_S: Final = 5.0
_TOKEN_BYTES: Final = 16


def runtime_folder() -> Path:
    """Return the folder of the sockets of this user, which other users cannot read.

    Raises:
        WatchError: It belongs to another user, or others can write to it.
    """
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = Path(base) / f"{FOLDER}-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise WatchError(f"{folder}: cannot be used for the socket of a watch ({error.strerror}).") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise WatchError(f"{folder}: expected a folder of this user that others cannot read; remove it.")
    return folder


def listen(pid: int) -> tuple[socket.socket, str]:
    """Return a listening socket for the process `pid`, and the token that a viewer has to send.

    Raises:
        WatchError: The folder of the sockets cannot be used.
        OSError: The socket cannot be made.
    """
    folder, token = runtime_folder(), secrets.token_urlsafe(_TOKEN_BYTES)
    for other in {pid, *(one for one in _with_files(folder) if not _runs(one))}:
        remove(other)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.bind(str(folder / f"{pid}.sock"))
        server.listen(4)
        path = folder / f"{pid}.token"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
    except BaseException:
        server.close()
        remove(pid)
        raise
    return server, token


def remove(pid: int) -> None:
    """Remove the files of the process `pid`."""
    for suffix in (".sock", ".token"):
        with contextlib.suppress(OSError, WatchError):
            (runtime_folder() / f"{pid}{suffix}").unlink()


def request_of(data: bytes, token: str) -> str | None:
    """Return what a viewer wants; None where the request is not valid or the token is wrong."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    given = str(found.get("token")).encode("utf-8", "replace")  # JSON can hold half of a surrogate pair
    return str(found.get("want")) if hmac.compare_digest(given, token.encode()) else None


def watched_processes() -> list[int]:
    """Return the processes of this user that are watched, and run."""
    return sorted(pid for pid in _with_files(runtime_folder()) if _runs(pid))


def _with_files(folder: Path) -> list[int]:
    """Return the processes that have a socket in `folder`; those that were killed have left theirs."""
    return [int(path.stem) for path in folder.glob("*.sock") if path.stem.isdecimal()]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def ask(pid: int, want: str, *, timeout_s: float = TIMEOUT_S) -> bytes:
    """Return what the process `pid` answers.

    Args:
        pid: The process.
        want: ``state``, ``record`` or ``stop``.
        timeout_s: Time to wait for the answer, s.

    Raises:
        WatchError: It is not watched, or it does not answer.
    """
    folder = runtime_folder()
    try:
        token = (folder / f"{pid}.token").read_text()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(timeout_s)
            client.connect(str(folder / f"{pid}.sock"))
            client.sendall(json.dumps({"token": token, "want": want}).encode() + b"\n")
            return _read(client)
    except OSError as error:
        raise WatchError(f"process {pid} is not watched, or does not answer ({error.strerror or error}).") from error


def _read(client: socket.socket) -> bytes:
    parts, size = [], 0
    while part := client.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > MOST_ANSWER:
            raise WatchError("the watched process sends more than 64 MB; this is not a watch.")
    return b"".join(parts)


def chosen_process(pid: int | None) -> int:
    """`pid`, or the only watched process of this user.

    Raises:
        WatchError: There is none, or there are several.
    """
    if pid is not None:
        return pid
    found: list[Any] = watched_processes()
    if len(found) == 1:
        return int(found[0])
    if not found:
        raise WatchError(
            "no process of this user is watched; start one with `with cudalens.watch():` or %cudawatch on."
        )
    raise WatchError(f"several processes are watched: {', '.join(map(str, found))}; give the number of one.")
