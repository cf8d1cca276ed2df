"""`kaji docker`: Docker's Engine API, as the user who starts it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from aiohttp import web

from kajitori.client.target import Target
from kajitori.docker.engine import Engine
from kajitori.docker.events import RunWatcher
from kajitori.docker.platform import Platform
from kajitori.docker.server import build_app
from kajitori.docker.tls import tls_of, tls_served
from kajitori.entrypoints.logs import say
from kajitori.entrypoints.process import run_until_told, stop_signal
from kajitori.errors import AlreadyExists, InvalidInput

CLOSE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class DockerOptions:
    """Options of `kaji docker`."""

    socket: Path
    """Unix socket of the API; ignored with `tcp`."""
    is_usual_socket: bool = True
    """Whether `kaji docker context` finds the socket by itself."""
    tcp: str = ""
    """Address and port of the API over TLS; empty: the Unix socket."""
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None
    """PEM file of the authority that signs the certificates of clients."""
    log_level: str = "warning"
    log_format: str = "text"


def serve(options: DockerOptions, target: Target) -> int:
    """Serve the Engine API until told to stop."""
    return run_until_told(_run_platform(options, target), options)


async def _run_platform(options: DockerOptions, target: Target) -> None:
    stop = stop_signal()
    async with Platform(target) as platform:
        engine = Engine(platform)
        await platform.get("/v1/version")  # raises an error if this user cannot use the server
        await engine.adopt()
        watching = asyncio.create_task(RunWatcher(platform, engine.events).run())
        try:
            async with served(engine, options) as host:
                for line in ways_in(options, host, target.url):
                    say(line)
                await stop.wait()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await engine.close()


def ways_in(options: DockerOptions, host: str, url: str) -> list[str]:
    """Return the lines that explain how Docker's client connects. `host` is the value of DOCKER_HOST."""
    works = f"Docker's client works on {url} with: export DOCKER_HOST={host}"
    if not options.tcp:
        option = "" if options.is_usual_socket else f" --socket {quote(str(options.socket))}"
        return [works, f"  or once and for all: kaji docker context{option}"]
    return [
        f"{works} DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=FOLDER",
        "  FOLDER holds ca.pem, the authority of --tls-cert, and the client's own cert.pem and key.pem",
    ]


@asynccontextmanager
async def served(engine: Engine, options: DockerOptions) -> AsyncIterator[str]:
    """Serve the API and yield the value of DOCKER_HOST."""
    runner = web.AppRunner(
        build_app(engine), access_log=None, handler_cancellation=True, shutdown_timeout=CLOSE_SECONDS
    )
    await runner.setup()
    inode = -1
    try:
        if options.tcp:
            host, port = _host_and_port(options)
            assert options.certificate is not None and options.key is not None and options.client_authority is not None
            tls = tls_of(options.certificate, options.key, options.client_authority)
            assert runner.server is not None
            async with tls_served(runner.server, host, port, tls) as bound:
                yield f"tcp://{host}:{bound}"
        else:
            listening = _own_socket(options.socket)
            inode = options.socket.stat().st_ino
            await web.SockSite(runner, listening).start()
            yield f"unix://{options.socket}"
    finally:
        await runner.cleanup()
        with contextlib.suppress(OSError):
            if inode == options.socket.stat().st_ino:  # another bridge may serve a socket of its own there by now
                options.socket.unlink()


def _own_socket(path: Path) -> socket.socket:
    """Return a Unix socket at this path that only its user may open. Raises AlreadyExists if another bridge listens."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists() and not stat.S_ISSOCK(path.lstat().st_mode):
        raise InvalidInput.one("--socket", "is in the way, and no socket", value=str(path), hint="name another path")
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as other:
        other.connect(str(path))
        raise AlreadyExists(f"another kaji docker serves {path}", hint="use it, or name another path: --socket PATH")
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)  # the socket gets its mode when it is made, so that other users can never connect
    try:
        listening.bind(str(path))
    except OSError as error:
        raise InvalidInput.one("--socket", f"can't be made: {error.strerror}", value=str(path)) from error
    finally:
        os.umask(before)
    return listening


def _host_and_port(options: DockerOptions) -> tuple[str, int]:
    """Return host and port to listen on. Raises InvalidInput for an invalid address, or if certificates are missing."""
    host, _, port = options.tcp.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InvalidInput.one(
            "--tcp", "is not an address", value=options.tcp, hint="write HOST:PORT, for example 127.0.0.1:2376"
        )
    if options.certificate is None or options.key is None or options.client_authority is None:
        hint = "add --tls-cert, --tls-key and --tls-client-ca"
        message = "everybody who reaches the port could act as you, so TLS with client certificates is needed"
        raise InvalidInput.one("--tcp", message, value=options.tcp, hint=hint)
    return host, int(port)
