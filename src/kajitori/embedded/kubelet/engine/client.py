"""An asynchronous client of a container engine's API over its Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp

from kajitori.errors import KajitoriError, NotFound, Unavailable

Object = dict[str, Any]

CALL_SECONDS = 60.0
LIST_SECONDS = 10.0
"""Longest time for the list of images, for which the status of the Node waits."""
SILENCE_SECONDS = 600.0
"""Longest pause between two messages about a pull."""
NO_DETACH_KEYS = ",".join(["ctrl-^"] * 4)
"""Detach keys that are never typed, so that the engine does not remove Ctrl-P Ctrl-Q from the input."""
LIBPOD = "/v4.0.0/libpod"
"""Beginning of the paths of Podman's own API. Podman 5 serves version 4, too."""
OLDEST_API = (1, 40)
"""Version of the API with Docker 19.03. Older ones take no request for GPUs."""
NEWEST_API = (1, 44)
"""Version of the API that the requests here are written for: the one of Docker 25. Docker 29 serves it, too."""


class EngineError(KajitoriError):
    """The engine refused a request; the message is its own."""

    code = "EngineError"


@dataclass(frozen=True)
class EngineVersion:
    """The engine that answers at a socket."""

    name: str
    """`docker` or `podman`."""
    version: str
    api: str = ""
    """Beginning of the paths of requests, such as `/v1.41`: the version of the API that both sides know."""


class EngineClient:
    """Requests to the engine at one socket, in the version of the API that `version` returned.

    They raise Unavailable if it does not answer, NotFound or EngineError.
    """

    def __init__(self, socket: str, api: str = "") -> None:
        self.socket = socket
        self._api = api

    async def version(self, seconds: float = CALL_SECONDS) -> EngineVersion:
        """Return the engine's name and version. Raises Unavailable, also if it is too old."""
        found = await self._request_json("GET", "/version", seconds=seconds)
        components = {str(part.get("Name")): part for part in found.get("Components") or ()}
        podman = components.get("Podman Engine")
        name = "docker" if podman is None else "podman"
        version = str((podman or {}).get("Version") or found.get("Version") or "")
        newest, oldest = _version_numbers(found.get("ApiVersion")), _version_numbers(found.get("MinAPIVersion"))
        if newest < OLDEST_API:
            served, needed = (".".join(map(str, numbers)) for numbers in (newest, OLDEST_API))
            raise Unavailable(
                f"{name} {version} at {self.socket} is too old: it serves version {served} of the engine API, and "
                f"{needed} is needed (Docker 19.03 and later)"
            )
        major, minor = max(min(newest, NEWEST_API), oldest)
        return EngineVersion(name, version, f"/v{major}.{minor}")

    async def info(self) -> Object:
        found: Object = await self._request_json("GET", "/info")
        return found

    async def image(self, reference: str) -> Object:
        """Return the engine's description of an image that it has. Raises NotFound."""
        found: Object = await self._request_json("GET", f"/images/{quote(reference, safe='/:@')}/json")
        return found

    async def image_health(self, reference: str) -> Object:
        """Return the `Healthcheck` of an image that the engine has; empty if it brings none. Raises NotFound.

        Podman 4 tells it by its own API only.
        """
        found = (await self.image(reference)).get("Config") or {}
        if found.get("Healthcheck"):
            return dict(found["Healthcheck"])
        with contextlib.suppress(NotFound, EngineError):  # Docker has no such path
            path = f"{LIBPOD}/images/{quote(reference, safe='/:@')}/json"
            found = await EngineClient(self.socket)._request_json("GET", path)
            return dict(found.get("Healthcheck") or {})
        return {}

    async def images(self) -> list[Object]:
        """Return all images that the engine has."""
        found: list[Object] = await self._request_json("GET", "/images/json", seconds=LIST_SECONDS)
        return found

    async def pull(self, reference: str, registry_auth: str = "") -> AsyncIterator[Object]:
        """Yield the engine's messages about a pull. Raises EngineError with the registry's words."""
        name, tag = split_reference(reference)
        headers = {"X-Registry-Auth": registry_auth} if registry_auth else {}
        query = {"fromImage": name, "tag": tag}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=SILENCE_SECONDS)
        async with self._request("POST", "/images/create", params=query, headers=headers, timeout=timeout) as answer:
            async for line in answer.content:
                with contextlib.suppress(ValueError):
                    message = json.loads(line)
                    if message.get("error"):
                        raise EngineError(str(message["error"]))
                    yield message

    async def containers(self, label: str) -> list[Object]:
        """Return all containers, running or not, that have this label (`name=value`)."""
        filters = json.dumps({"label": [label]})
        found: list[Object] = await self._request_json(
            "GET", "/containers/json", params={"all": "true", "filters": filters}
        )
        return found

    async def remove(self, container: str) -> None:
        """Kill and remove a container; do nothing if there is none."""
        query = {"force": "true", "v": "true"}
        with contextlib.suppress(NotFound):
            async with self._request("DELETE", f"/containers/{quote(container)}", params=query):
                pass

    async def create_exec(self, container: str, body: Mapping[str, Any]) -> str:
        return str((await self._request_json("POST", f"/containers/{quote(container)}/exec", json=body))["Id"])

    async def exec_state(self, exec_id: str) -> Object:
        found: Object = await self._request_json("GET", f"/exec/{exec_id}/json")
        return found

    async def resize_exec(self, exec_id: str, rows: int, columns: int) -> None:
        async with self._request("POST", f"/exec/{exec_id}/resize", params={"h": str(rows), "w": str(columns)}):
            pass

    async def start_exec(self, exec_id: str, *, tty: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Start a command and return the connection, which carries its standard streams."""
        content = json.dumps({"Detach": False, "Tty": tty}).encode()
        head = (
            f"POST {self._api}/exec/{exec_id}/start HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        )
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        try:
            async with asyncio.timeout(CALL_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self.socket)
                writer.write(head.encode() + content)
                answer = await reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Unavailable(f"the container engine at {self.socket} does not answer: {error}") from error
        words = answer.split(b" ", 2)
        if len(words) > 1 and words[1] in (b"101", b"200"):
            return reader, writer
        try:
            async with asyncio.timeout(CALL_SECONDS):
                text = await reader.read(65536)
        finally:
            writer.close()
        raise EngineError(_error_message(text.decode(errors="replace")))

    async def _request_json(self, method: str, path: str, *, seconds: float = CALL_SECONDS, **options: Any) -> Any:
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with self._request(method, path, timeout=timeout, **options) as answer:
            return await answer.json(content_type=None)

    @contextlib.asynccontextmanager
    async def _request(self, method: str, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        options.setdefault("timeout", aiohttp.ClientTimeout(total=CALL_SECONDS))
        try:
            async with (
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(self.socket)) as session,
                session.request(method, f"http://engine{self._api}{path}", **options) as answer,
            ):
                if answer.status >= 400:
                    message = _error_message(await answer.text(errors="replace"))
                    raise NotFound(message) if answer.status == 404 else EngineError(message)
                yield answer
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise Unavailable(f"the container engine at {self.socket} does not answer: {reason}") from error


def split_reference(reference: str) -> tuple[str, str]:
    """Return an image's name and its tag or digest; the tag is `latest` if none is given."""
    name, at, digest = reference.partition("@")
    if at:
        return name, digest
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "latest")


def _version_numbers(version: Any) -> tuple[int, ...]:
    """Return the parts of a version of the API; (0, 0) if there is none."""
    major, _, minor = str(version or "").partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def _error_message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip() or "it gave no reason"
