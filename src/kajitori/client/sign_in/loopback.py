"""The address on this machine to which a browser returns after sign-in (RFC 8252, 7.3)."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from kajitori.errors import Unauthenticated

PATH = "/callback"
_DONE = "You are signed in. You can close this page and return to your terminal."
_OTHER = "This address only takes the browser back to kaji."
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Kajitori</title>'
    '<body style="font-family:sans-serif;margin:4em">{}</body></html>'
)


class Loopback:
    """Listens on a free port of 127.0.0.1 until the browser comes back; a context manager."""

    def __init__(self) -> None:
        self._query: str | None = None
        self._came = threading.Event()
        self._server = HTTPServer(("127.0.0.1", 0), self._handler_class())

    @property
    def address(self) -> str:
        """The redirect URI."""
        return f"http://127.0.0.1:{self._server.server_port}{PATH}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="sign-in", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait(self, seconds: float) -> str:
        """Return the query with which the browser came back. Raises Unauthenticated if it did not."""
        if not self._came.wait(seconds) or self._query is None:
            message = f"nobody signed in within {seconds / 60:.0f} minutes"
            raise Unauthenticated(
                message, hint="sign in again: kaji login; without a browser here: kaji login --device"
            )
        return self._query

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                comes_back = parts.path == PATH and bool(parts.query)
                page = _PAGE.format(_DONE if comes_back else _OTHER).encode()
                self.send_response(200 if comes_back else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                self.wfile.write(page)
                if comes_back and loopback._query is None:
                    loopback._query = parts.query
                    loopback._came.set()

            def log_message(self, *_: Any) -> None:
                """Write nothing: the query holds the code."""

        return Handler
