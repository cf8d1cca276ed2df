"""The embedded API server for tests: in this process, in memory unless a folder is given."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from tests.harness.commands import Completed, kubectl
from tests.harness.servers.kube_server import KubeServer

from kajitori.embedded.apiserver.access.people_tokens import PeopleTokens
from kajitori.embedded.apiserver.auth import Authenticator, User
from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates, write_kubeconfig
from kajitori.embedded.apiserver.server import ApiServer
from kajitori.embedded.store import Store
from kajitori.kube.connection.config import KubeConfig
from kajitori.openid.authentication_config import AuthenticationConfiguration

TOKEN = "token-of-the-tests"
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass
class Answer:
    """A response of the server."""

    code: int
    body: Any
    headers: Mapping[str, str]

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])


@dataclass(frozen=True, kw_only=True)
class EmbeddedServer(KubeServer):
    """A running API server in this process, its store, and a client that sends requests as a test writes them."""

    is_real: bool = False
    store: Store
    server: ApiServer
    session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        """The server's address."""
        return self.server.url

    @property
    def token(self) -> str:
        """The administrator's token."""
        return TOKEN

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
        """Send a request with the administrator's token; `body` is sent as JSON unless it is bytes."""
        sent = {"Authorization": f"Bearer {self.token}", "User-Agent": "tests/1", **(headers or {})}
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
        """Watch a resource."""
        headers = {"Authorization": f"Bearer {self.token}", "User-Agent": "tests/1"}
        query = {"watch": "true", **params}
        async with self.session.get(self.url + path, params=query, headers=headers) as response:
            yield EventReader(response)

    async def kubectl(self, *arguments: str, stdin: str = "") -> Completed:
        """Run kubectl to its end."""
        return await asyncio.to_thread(kubectl, self.kubeconfig, *arguments, stdin=stdin)


class EventReader:
    """Reads the events of a watch one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self._rest = b""

    async def next(self, timeout: float = 10.0) -> Any:
        """Return the next event; None at the end of the stream."""
        async with asyncio.timeout(timeout):
            while b"\n" not in self._rest:
                piece = await self.response.content.readany()
                if not piece:
                    return None
                self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return msgspec.json.decode(line)

    async def take(self, count: int) -> list[Any]:
        """Return the next `count` events."""
        return [await self.next() for _ in range(count)]


@cache
def _certificates() -> Certificates:
    """Return the certificates of all servers in memory: creating them takes longer than the start of a server."""
    folder = Path(tempfile.mkdtemp(prefix="kajitori-test-pki-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return ensure_certificates(folder)


@asynccontextmanager
async def embedded_server(
    folder: Path | None = None,
    *,
    controllers: bool = True,
    users: Sequence[str] = (),
    authentication: AuthenticationConfiguration | None = None,
    roles: bool = False,
    encrypted: bool = True,
) -> AsyncIterator[EmbeddedServer]:
    """Run an API server on a free port of the loopback interface, in this process.

    Objects are stored in `folder`, or in memory without one. Without `controllers`, garbage is not collected. `users`
    have tokens besides the administrator. Roles decide what they may do if `roles` is true or `authentication` names
    providers whose ID tokens are accepted; otherwise everything is permitted.

    With `encrypted` false, `config` leads to a further port without TLS, which takes a fifth of the processor time of
    tests whose many clients are in this process. Processes that are given `kubeconfig` still use TLS.
    """
    own = Path(tempfile.mkdtemp(prefix="kajitori-test-"))
    try:
        certificates = ensure_certificates(folder / "pki") if folder else _certificates()
        store = await Store.open(folder / "store" if folder else None)
        signed = [PeopleTokens(authentication)] if authentication is not None else []
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
            url = server.url if encrypted else await _listen_without_tls(server)
            kubeconfig = own / "kubeconfig"
            write_kubeconfig(kubeconfig, server=server.url, certificates=certificates, token=TOKEN)
            trust = ssl.create_default_context(cafile=str(certificates.ca))
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=0)) as session:
                yield EmbeddedServer(
                    config=KubeConfig(server=url, ca_file=certificates.ca).with_token(TOKEN),
                    kubeconfig=kubeconfig,
                    tokens=tokens,
                    certificates=certificates,
                    store=store,
                    server=server,
                    session=session,
                )
        finally:
            await server.stop()
            await store.close()
    finally:
        shutil.rmtree(own, ignore_errors=True)


async def _listen_without_tls(server: ApiServer) -> str:
    """Let a running server listen on one more port, and return the URL. It ends with the server."""
    assert server._runner is not None
    site = web.TCPSite(server._runner, "127.0.0.1", 0)
    await site.start()
    return f"http://127.0.0.1:{server._runner.addresses[-1][1]}"
