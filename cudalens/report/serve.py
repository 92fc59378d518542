"""Serve one page on 127.0.0.1, at an address with a random token. Standard library only."""

from __future__ import annotations

import hmac
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

_TOKEN_BYTES: Final = 16


class PageServer(ThreadingHTTPServer):
    """An HTTP server with one page, for browsers on this machine.

    The token keeps other users of the machine out; the check of the ``Host`` header refuses pages of other sites whose
    name was made to point to this machine.

    Attributes:
        url: The address of the page.
    """

    daemon_threads = True

    def __init__(self, page: bytes, port: int = 0) -> None:
        """Listen, without answering yet.

        Args:
            page: The page, HTML in UTF-8.
            port: The port; 0 for any that is free.

        Raises:
            OSError: The port is not free.
        """
        self.page = page
        super().__init__(("127.0.0.1", port), _Handler)
        self.path = f"/{secrets.token_urlsafe(_TOKEN_BYTES)}/"
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}
        self.url = f"http://127.0.0.1:{self.server_port}{self.path}"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 30  # seconds that a connection may take to send its request

    def do_GET(self) -> None:
        """Answer with the page, or with 404."""
        if self._answers(len(self.server.page)):
            self.wfile.write(self.server.page)

    def do_HEAD(self) -> None:
        """Answer with the headers of the page, or with 404."""
        self._answers(len(self.server.page))

    def _answers(self, num_bytes: int) -> bool:
        asked = self.path.partition("?")[0].encode("utf-8", errors="replace")
        if self.headers.get("Host") not in self.server.hosts or not hmac.compare_digest(
            asked, self.server.path.encode()
        ):
            self.send_error(404)
            return False
        self.send_response(200)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(num_bytes)),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        return True

    def log_message(self, *arguments: Any) -> None:
        """Print nothing for each request."""
