"""S3 and Azure Blob Storage on this machine, for tests. Both listen on any free port, and keep nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
import secrets
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

FOLDER = Path(__file__).parents[1] / "emulators"
AZURITE = FOLDER / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The public key from azurite's manual."""


@dataclass(frozen=True)
class Emulator:
    """A server of blobs. `new_place` makes an empty bucket or container and returns its URL."""

    scheme: str
    options: dict[str, str]

    def new_place(self) -> str:
        name = f"kajitori-{secrets.token_hex(6)}"
        if self.scheme == "s3":
            _ask(urllib.request.Request(f"{self.options['endpoint']}/{name}", method="PUT"))
        else:
            _make_container(self.options["endpoint"], name)
        return f"{self.scheme}://{name}"


@contextmanager
def s3() -> Iterator[Emulator]:
    """moto's S3, in a thread of this process.

    It answers one request after the other. moto looks whether an object exists and stores it in two steps, so that of
    two requests at once that want to create it both would succeed; with S3 one does.
    """
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    assert server._server is not None
    server._server.app = _one_at_a_time(server._server.app)
    try:
        host, port = server.get_host_and_port()
        options = {"endpoint": f"http://{host}:{port}", "region": "us-east-1"}
        yield Emulator("s3", options | {"access_key_id": "ACCESSKEYID", "secret_access_key": "SECRETACCESSKEY"})
    finally:
        server.stop()


def _one_at_a_time(app: WSGIApplication) -> WSGIApplication:
    """Return an application that begins an answer when the one before is made."""
    turn = threading.Lock()

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with turn:
            return app(environ, start_response)

    return answer


@contextmanager
def azure(folder: Path) -> Iterator[Emulator]:
    """Run azurite in a process of its own. Skip the test if it is not installed, and say how to install it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("azurite, the emulator of Azure Blob Storage, needs Node.js: apt-get install nodejs npm")
    if not AZURITE.exists():
        pytest.skip("azurite, the emulator of Azure Blob Storage, is missing: make emulators")
    words = [node, str(AZURITE), "--blobPort", "0", "--inMemoryPersistence", "--silent", "--disableTelemetry"]
    process = subprocess.Popen([*words, "--skipApiVersionCheck"], stdout=subprocess.PIPE, text=True, cwd=folder)
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if listens := re.search(r"listens on (http://\S+)", line):
                break
        else:
            raise RuntimeError(f"azurite did not start: {''.join(said)}")
        options = {"account_name": AZURITE_ACCOUNT, "account_key": AZURITE_KEY}
        yield Emulator("az", options | {"endpoint": f"{listens.group(1)}/{AZURITE_ACCOUNT}"})
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


def _make_container(endpoint: str, name: str) -> None:
    """Azure's "Create Container", with its shared key signature."""
    headers = {
        "x-ms-date": datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "x-ms-version": "2021-08-06",
    }
    signed = "PUT" + "\n" * 12 + "".join(f"{key}:{value}\n" for key, value in sorted(headers.items()))
    signed += f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/{name}\nrestype:container"
    signature = hmac.new(base64.b64decode(AZURITE_KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {AZURITE_ACCOUNT}:{base64.b64encode(signature).decode()}"
    _ask(urllib.request.Request(f"{endpoint}/{name}?restype=container", headers=headers, method="PUT"))


def _ask(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status < 300
