"""A service: answers over HTTP with its rank, and ends cleanly on SIGTERM.

`/` answers with this member's rank, `/healthz` with ok. SIGTERM lets requests that are under way finish.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._answer(200, "text/plain", b"ok\n")
        elif self.path == "/":
            read = os.environ.get
            who = {"run": read("KAJI_RUN", ""), "rank": int(read("KAJI_RANK", "0")), "host": socket.gethostname()}
            self._answer(200, "application/json", json.dumps(who).encode() + b"\n")
        else:
            self._answer(404, "text/plain", b"there is / and /healthz\n")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        print(f"{self.address_string()} {format % arguments}", flush=True)


class Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for requests that are under way


def main() -> None:
    parser = argparse.ArgumentParser(description="A small HTTP service.")
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8080")), help="0 takes a free one")
    options = parser.parse_args()
    with Server(("", options.port), Handler) as server:

        def stop(_number: int, _frame: FrameType | None) -> None:
            # shutdown() waits for the loop that this handler interrupts: it has to come from another thread.
            threading.Thread(target=server.shutdown).start()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        print(f"listening on port {server.server_address[1]}", flush=True)
        server.serve_forever()
    print("asked to stop: done", flush=True)


if __name__ == "__main__":
    main()
