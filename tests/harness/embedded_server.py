"""The embedded API server for tests: in this process, in memory unless a folder is given."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from kajitori.embedded.apiserver.access.authentication_config import AuthenticationConfiguration
from kajitori.embedded.apiserver.access.id_tokens import IdTokens
from kajitori.embedded.apiserver.auth import Authenticator, User
from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates, write_kubeconfig
from kajitori.embedded.apiserver.server import ApiServer
from kajitori.embedded.store import Store

TOKEN = "token-of-the-tests"
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass
class Answer:
    """What the server answered."""

    code: int
    body: Any
    headers: Mapping[str, str]

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])


@dataclass
class EmbeddedServer:
    """A running one, and how to reach it."""

    url: str
    token: str
    kubeconfig: Path
    store: Store
    server: ApiServer
    certificates: Certificates
    session: aiohttp.ClientSession
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Of users that are not the administrator."""
    user_agent: str = "tests/1"
    _headers: dict[str, str] = field(default_factory=dict)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request with the administrator's token; `body` is sent as JSON unless it is bytes."""
        import msgspec

        sent = {"Authorization": f"Bearer {self.token}", "User-Agent": self.user_agent, **(headers or {})}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else msgspec.json.encode(body)
            sent.setdefault("Content-Type", content_type)
        async with self.session.request(method, self.url + path, data=data, headers=sent, params=params) as response:
            content = await response.read()
            parsed: Any = content
            if response.content_type == JSON and content:
                parsed = msgspec.json.decode(content)
            return Answer(response.status, parsed, response.headers)

    @asynccontextmanager
    async def watch(self, path: str, **params: str) -> AsyncIterator[EventReader]:
        """Events of a watch, one by one."""
        headers = {"Authorization": f"Bearer {self.token}", "User-Agent": self.user_agent}
        query = {"watch": "true", **params}
        async with self.session.get(self.url + path, params=query, headers=headers) as response:
            yield EventReader(response)

    async def kubectl(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        """Exit code, output and errors of kubectl."""
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                "KUBECONFIG": str(self.kubeconfig),
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": str(self.kubeconfig.parent),
            },
        )
        out, err = await process.communicate(stdin.encode())
        return process.returncode or 0, out.decode(), err.decode()


class EventReader:
    """The lines of a watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self._rest = b""

    async def next(self, timeout: float = 10.0) -> Any:
        """The next event; None at the end of the stream."""
        import msgspec

        async with asyncio.timeout(timeout):
            while b"\n" not in self._rest:
                piece = await self.response.content.readany()
                if not piece:
                    return None
                self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return msgspec.json.decode(line)

    async def take(self, count: int) -> list[Any]:
        """The next few."""
        return [await self.next() for _ in range(count)]


@asynccontextmanager
async def embedded_server(
    folder: Path | None = None,
    *,
    controllers: bool = True,
    users: Sequence[str] = (),
    authentication: AuthenticationConfiguration | None = None,
    roles: bool = False,
) -> AsyncIterator[EmbeddedServer]:
    """An API server on a free port of the loopback interface; gone, with everything in it, at the end.

    With a `folder` what is stored lies in it and stays. Without `controllers` nobody collects garbage. `users`: who has
    a token besides the administrator. `authentication`: providers whose ID tokens are accepted; then roles decide,
    as with `roles`.
    """
    own = Path(tempfile.mkdtemp(prefix="kajitori-test-"))
    try:
        # Keys take a moment to make; a folder that is used again has them already.
        certificates = ensure_certificates((folder or own) / "pki")
        store = await Store.open(folder / "store" if folder else None)
        signed = [IdTokens(authentication.jwt)] if authentication is not None else []
        authenticator = Authenticator(signed=signed)
        authenticator.add_token(TOKEN)
        tokens = {user: f"token-of-{user}" for user in users}
        for user, token in tokens.items():
            authenticator.add_token(token, User(user, ("researchers",)))
        server = ApiServer(
            store,
            certificates=certificates,
            authenticator=authenticator,
            controllers=controllers,
            roles=roles or authentication is not None,
        )
        await server.start()
        try:
            kubeconfig = own / "kubeconfig"
            write_kubeconfig(kubeconfig, server=server.url, certificates=certificates, token=TOKEN)
            trust = ssl.create_default_context(cafile=str(certificates.ca))
            connector = aiohttp.TCPConnector(ssl=trust, limit=0)
            async with aiohttp.ClientSession(connector=connector) as session:
                yield EmbeddedServer(server.url, TOKEN, kubeconfig, store, server, certificates, session, tokens)
        finally:
            await server.stop()
            await store.close()
    finally:
        shutil.rmtree(own, ignore_errors=True)
