"""A proxy with a program behind it, and browsers.

The program is a real HTTP server on loopback; the stream to it is a TCP connection instead of a port-forward.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
from aiohttp import WSMsgType, web
from tests.unit.api.conftest import World
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from kajitori.api.serving.server import ApiServer
from kajitori.errors import NotFound, Unavailable
from kajitori.kube.client import KubeClient

NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "accept": "text/html"}
FROM_LINK = {**NAVIGATION, "sec-fetch-site": "cross-site"}


class Wire:
    """A TCP connection as a port-forward stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(65_536)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def aclose(self) -> None:
        self._writer.close()


@dataclass
class Program:
    """A program of a run, and what it was asked."""

    port: int = 0
    asked: list[web.BaseRequest] = field(default_factory=list)
    opened: int = 0
    is_gone: bool = False
    """Whether the API server no longer has the Pod, while the proxy does not know that yet."""

    async def open(self, client: KubeClient, namespace: str, name: str, port: int) -> Wire:
        self.opened += 1
        if self.is_gone:
            raise NotFound(f"pods {name!r} not found")
        if not self.port:
            raise Unavailable(f"nothing listens on port {port}")
        return Wire(*await asyncio.open_connection("127.0.0.1", self.port))

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        match request.path.rpartition("/")[2]:
            case "socket":
                socket = web.WebSocketResponse(protocols=("kernel",))
                await socket.prepare(request)
                async for message in socket:
                    if message.type is WSMsgType.BINARY:
                        await socket.send_bytes(message.data)
                return socket
            case "idle":
                socket = web.WebSocketResponse(autoping=False)
                await socket.prepare(request)
                answers = [await socket.receive() for _ in range(2)]
                await socket.ping(b"mine")
                answers.append(await socket.receive())
                while answers[-1].data != b"mine":
                    answers.append(await socket.receive())
                await socket.send_str(" ".join(sorted({one.type.name for one in answers})))
                return socket
            case "upload":
                return web.json_response({"bytes": len(await request.content.read())})
            case "download":
                response = web.StreamResponse()
                await response.prepare(request)
                for _ in range(64):
                    await response.write(b"x" * 65_536)
                return response
            case "forever":
                response = web.StreamResponse()
                await response.prepare(request)
                await response.write(b"first")
                await asyncio.Event().wait()
                return response
            case "strange":
                return web.Response(status=799, headers={"Location": "http://[broken"})
            case "broken":
                return web.Response(status=302, headers={"Location": "http://[broken"})
            case "away":
                raise web.HTTPFound("/elsewhere")
        response = web.Response(text=request.raw_path, headers={"Strict-Transport-Security": "max-age=9"})
        response.headers.add("Set-Cookie", "theme=dark; Path=/; Domain=localhost")
        response.headers.add("Set-Cookie", "__Host-kaji-0=evil; Path=/; Secure")
        return response


@dataclass
class Browser:
    """A browser with a cookie jar for each host. It follows no redirect by itself."""

    http: httpx2.AsyncClient
    port: int
    jars: dict[str, dict[str, str]] = field(default_factory=dict)

    async def go(self, url: str, method: str = "GET", headers: dict[str, str] | None = None) -> httpx2.Response:
        parts = urlsplit(url)
        jar = self.jars.setdefault(parts.hostname or "", {})
        sent = {**(NAVIGATION if headers is None else headers), "host": parts.netloc}
        if jar:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in jar.items())
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        answer = await self.http.request(method, f"http://127.0.0.1:{self.port}{path}", headers=sent)
        for cookie in answer.headers.get_list("set-cookie"):
            pair, _, attributes = cookie.partition(";")
            name, _, value = pair.partition("=")
            jar.pop(name, None)
            if "max-age=0" not in attributes.lower():
                jar[name] = value
        return answer

    async def follow(self, url: str, headers: dict[str, str] | None = None) -> httpx2.Response:
        """Follow redirects."""
        for _ in range(6):
            answer = await self.go(url, headers=headers)
            if answer.status_code != 303:
                return answer
            to = answer.headers["location"]
            url = to if "://" in to else f"{urlsplit(url).scheme}://{urlsplit(url).netloc}{to}"
        raise AssertionError(f"redirected for ever: {url}")

    async def sign_in(self, world: World, user: str) -> None:
        code = world.api.callers.browsers.make_link(user)
        headers = {"Kajitori-Link": code, "sec-fetch-site": "same-origin"}
        assert (await self.go(f"{self.page}/sign-in/link", "POST", headers)).status_code == 204

    @property
    def page(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://8888--nb--team.localhost:{self.port}"


@dataclass
class Scene:
    world: World
    program: Program
    server: ApiServer
    http: httpx2.AsyncClient

    def browser(self) -> Browser:
        return Browser(self.http, self.server.port)


def ada(**headers: str) -> dict[str, str]:
    return {"Authorization": "Bearer ada", **headers}


async def dial(scene: Scene, origin: str, headers: dict[str, str], path: str = "/socket") -> Any:
    """Open a WebSocket at an origin of the server."""
    url = f"{origin.replace('http', 'ws', 1)}{path}"
    place: dict[str, Any] = {"host": "127.0.0.1", "port": scene.server.port}
    return await connect(
        url,
        subprotocols=[Subprotocol("kernel")],
        additional_headers=headers,
        proxy=None,
        max_size=None,
        **place,
    )
