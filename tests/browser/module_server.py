"""A server of our JavaScript modules on this machine, whose answers Chromium may keep."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

VIEWS = Path(__file__).parents[2] / "cudalens" / "views"
FOLDERS = ("/js/", "/css/")
TYPES = {".js": "text/javascript", ".json": "application/json", ".css": "text/css"}


class ModuleServer(ThreadingHTTPServer):
    """Serves the folders js and css of `cudalens.views`, and the `files` of the current test."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}

    @property
    def origin(self) -> str:
        """The address of the server, without a path."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Modules may be kept for an hour; files of a test are fetched each time."""

    protocol_version = "HTTP/1.1"  # keeps connections open
    server: ModuleServer

    def do_GET(self):
        """Answer with a module, a file of the test, or 404."""
        if self.path in self.server.files:
            kind = "text/html" if self.path == "/page" else "application/octet-stream"
            self.answer(200, self.server.files[self.path], kind, "no-store")
        elif self.path.startswith(FOLDERS) and (file := VIEWS / self.path.lstrip("/")).is_file():
            self.answer(200, file.read_bytes(), TYPES[file.suffix], "max-age=3600")
        else:
            self.answer(204 if self.path == "/favicon.ico" else 404, b"", "text/plain", "no-store")

    def answer(self, status: int, body: bytes, kind: str, cache: str) -> None:
        """Send one answer."""
        self.send_response(status)
        headers = {"Content-Type": kind, "Cache-Control": cache, "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Print nothing."""
