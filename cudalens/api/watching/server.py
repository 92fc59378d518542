"""Answer viewers of a watched run over a local socket, on a thread that the loop never waits for."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from cudalens.device.own_work import own_thread
from cudalens.errors import WatchError
from cudalens.frames.watching import link

_CLIENT_S: Final = 2.0


class WatchServer:
    """Serves the state of a run to viewers of the same user.

    Args:
        answers: What to answer for each thing that a viewer wants.
        on_spent: Called with the CPU time that an answer took, ns.
    """

    def __init__(self, answers: Mapping[str, Callable[[], bytes]], on_spent: Callable[[int], object]) -> None:
        self._answers, self._on_spent = answers, on_spent
        self._server: socket.socket | None = None
        self._token = ""
        self._thread: threading.Thread | None = None
        self._pid = 0

    def start(self) -> str | None:
        """Begin to listen; returns why that is not possible, or None. Not on systems without Unix sockets."""
        if not hasattr(socket, "AF_UNIX"):
            return None
        try:
            self._server, self._token = link.listen(os.getpid())
        except (OSError, WatchError) as error:
            return f"no viewer can attach: {error}"
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="cudalens-watch-server", daemon=True)
        self._thread.start()
        return None

    def stop(self) -> None:
        """End listening, and remove the socket."""
        server, self._server = self._server, None
        if server is None:
            return
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)  # ends a waiting accept()
        server.close()
        if self._pid == os.getpid():
            link.remove(self._pid)
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join()

    def forget(self) -> None:
        """Close the copy of the socket in a forked child, which answers no viewer."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _run(self) -> None:
        with own_thread():
            while (server := self._server) is not None:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                began = time.thread_time_ns()
                with client, contextlib.suppress(Exception):  # no request ends the thread that answers the next one
                    client.settimeout(_CLIENT_S)
                    self._answer(client)
                self._on_spent(time.thread_time_ns() - began)

    def _answer(self, client: socket.socket) -> None:
        data = b""
        while not data.endswith(b"\n") and len(data) <= link.MOST_REQUEST:
            part = client.recv(link.MOST_REQUEST)
            if not part:
                break
            data += part
        answer = self._answers.get(link.request_of(data, self._token) or "")
        if answer is not None:
            client.sendall(answer())
