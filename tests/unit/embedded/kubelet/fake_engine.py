"""A container engine in a few lines: each of its containers is a process of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

ID = "0123456789abcdef" * 4
"""Identifier of every container, which no control group of this machine has in its path."""


class FakeContainer:
    """What the engine knows of one container."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.process: asyncio.subprocess.Process | None = None
        self.exit_code: int | None = None
        self.attached: list[asyncio.StreamWriter] = []
        self.has_ended = asyncio.Event()

    @property
    def description(self) -> dict[str, Any]:
        running = self.process is not None and self.exit_code is None
        pid = self.process.pid if self.process is not None and running else 0
        state = {"Status": "running" if running else "exited", "Running": running, "Pid": pid}
        return {"Id": ID, "Image": "sha256:1", "State": state | {"ExitCode": self.exit_code or 0}}


class FakeEngine:
    """Serves the calls that a shim makes, at a Unix socket, in all versions of the API from `oldest` to `newest`."""

    def __init__(self, socket: Path, newest: str = "1.41", oldest: str = "1.24") -> None:
        self.socket = socket
        self._newest, self._oldest = newest, oldest
        self.containers: dict[str, FakeContainer] = {}
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.socket)

    async def stop(self) -> None:
        """Break all connections; containers keep running."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def end(self) -> None:
        await self.stop()
        for container in self.containers.values():
            await self._kill(container, 9)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("Content-Length:")), 0)
            content = await reader.readexactly(length)
            method, target, _ = head.split(" ", 2)
            target, _, query = target.partition("?")
            path = target.split("/")[1:]
            status, answer = (200, self._version()) if path == ["version"] else self._refused(path[0])
            if not answer:
                path = path[2:] if path[0].startswith("v1.") else path[1:]
                if path[-1] == "attach":
                    await self._attach(self.containers[path[0]], query, reader, writer)
                    return
                if path[-1] == "wait":  # Docker sends the head of its answer at once, and does not know its length
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    code = await self._wait(self.containers[path[0]])
                    writer.write(f"{len(code):x}\r\n{code}\r\n0\r\n\r\n".encode())
                    writer.close()
                    return
                status, answer = await self._answer(method, path, query, content)
            writer.write(f"HTTP/1.1 {status} x\r\nConnection: close\r\n\r\n{json.dumps(answer)}".encode())
            await writer.drain()
        writer.close()
        self._writers.discard(writer)

    def _version(self) -> dict[str, Any]:
        return {"Version": "9.1", "ApiVersion": self._newest, "MinAPIVersion": self._oldest}

    def _refused(self, first: str) -> tuple[int, dict[str, Any]]:
        """Return Docker's answer to a request in a version of the API that it does not serve."""
        asked = int(first.removeprefix("v1.")) if first.startswith("v1.") else 0
        if asked and asked < int(self._oldest[2:]):
            return 400, {
                "message": f"client version 1.{asked} is too old. Minimum supported API version is {self._oldest}"
            }
        if asked > int(self._newest[2:]):
            return 400, {
                "message": f"client version 1.{asked} is too new. Maximum supported API version is {self._newest}"
            }
        return 200, {}

    async def _wait(self, container: FakeContainer) -> str:
        await container.has_ended.wait()
        return json.dumps({"StatusCode": container.exit_code})

    async def _answer(self, method: str, path: list[str], query: str, content: bytes) -> tuple[int, dict[str, Any]]:
        name = query.removeprefix("name=") if path == ["create"] else path[0]
        if path == ["create"]:
            self.containers[name] = FakeContainer(json.loads(content))
            return 201, {"Id": ID}
        container = self.containers.get(name)
        if container is None:
            return 404, {"message": f"no such container: {name}"}
        if method == "DELETE":
            await self._kill(container, 9)
            del self.containers[name]
        elif path[1] == "json":
            return 200, container.description
        elif path[1] == "start":
            return await self._start(container)
        elif path[1] == "kill":
            await self._kill(container, int(query.removeprefix("signal=")))
        return 200, {}

    async def _start(self, container: FakeContainer) -> tuple[int, dict[str, Any]]:
        pipe = asyncio.subprocess.PIPE
        try:
            container.process = await asyncio.create_subprocess_exec(
                *container.body["Cmd"], stdin=pipe, stdout=pipe, stderr=pipe
            )
        except FileNotFoundError as error:
            return 500, {"message": f'exec: "{error.filename}": executable file not found in $PATH'}
        task = asyncio.create_task(self._follow(container, container.process))
        self._tasks.add(task)
        return 204, {}

    async def _follow(self, container: FakeContainer, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None and process.stderr is not None
        await asyncio.gather(_copy(container, 1, process.stdout), _copy(container, 2, process.stderr))
        code = await process.wait()
        container.exit_code = 128 - code if code < 0 else code
        container.has_ended.set()
        for writer in container.attached:
            writer.close()

    async def _attach(
        self,
        container: FakeContainer,
        query: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        container.attached.append(writer)
        writer.write(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n")
        while data := await reader.read(65536):
            assert "stdin=1" in query
            if container.process is not None and container.process.stdin is not None:
                container.process.stdin.write(data)
        if container.process is None or container.process.stdin is None or writer.is_closing():
            return
        if "stdin=1" in query:
            container.process.stdin.close()

    async def _kill(self, container: FakeContainer, number: int) -> None:
        if container.process is not None and container.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                container.process.send_signal(number)


async def _copy(container: FakeContainer, stream: int, source: asyncio.StreamReader) -> None:
    while data := await source.read(65536):
        for writer in container.attached:
            if writer.is_closing():
                continue
            writer.write(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data)
