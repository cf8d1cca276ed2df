"""Messages through the HTTP proxy of a site: a real proxy, and real receivers behind it that only the proxy finds."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

import pytest
from aiohttp import web

from kajitori.controllers.messages.sending_process import SendingProcess
from kajitori.core.policy.notifications import Notifications
from kajitori.embedded.apiserver.certificates import ensure_certificates
from kajitori.messages.guard import Guard, Refusal, Rules
from kajitori.messages.proxy import announced
from kajitori.messages.sender import Delivery, Receipt
from kajitori.messages.webhook import new_key

OUTSIDE = "hooks.example.invalid"
"""A name that this machine cannot look up, as public names at a site that has only a proxy."""
KEY = new_key()


@dataclass
class Site:
    """A proxy that connects every name to the receivers, and what both of them saw."""

    proxy: str = ""
    asked: list[str] = field(default_factory=list)
    """First lines of the requests to the proxy, without the version."""
    taken: list[str] = field(default_factory=list)
    """Paths of the messages that receivers took."""
    ports: dict[str, int] = field(default_factory=dict)
    """Of the receivers, by scheme."""

    async def take(self, request: web.Request) -> web.Response:
        self.taken.append(request.path)
        return web.Response()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # the client was kept from asking
            writer.close()
            return
        method, target, _ = head.split(maxsplit=2)
        self.asked.append(b" ".join((method, target)).decode())
        scheme = "https" if method == b"CONNECT" else "http"
        above, below = await asyncio.open_connection("127.0.0.1", self.ports[scheme])
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            below.write(head.replace(target, b"/" + target.split(b"/", 3)[3], 1))
        await asyncio.gather(_copy(reader, below), _copy(above, writer))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(65536):
        target.write(piece)
    target.close()


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Site]:
    made = ensure_certificates(folder, names=(OUTSIDE,))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.server, made.server_key)
    found = Site()
    app = web.Application()
    app.router.add_post("/{path:.*}", found.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    for scheme, context in (("http", None), ("https", tls)):
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        found.ports[scheme] = runner.addresses[-1][1]
    proxy = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.proxy = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    yield found
    proxy.close()
    await runner.cleanup()


def delivery(url: str, key: str = "") -> Delivery:
    return Delivery(number=0, id="u.failed.1", url=url, key=key, kind="failed", title="bert has failed", body="boom")


async def test_messages_go_through_the_proxy_and_only_to_what_policy_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy's own address is private and not in `networks`: only HTTP requests may go to it."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.crt"))
    async with site(tmp_path) as there:
        rules = Rules(
            schemes=("json", "jsons", "mailto", "http", "webhook"), proxy=there.proxy, no_proxy=("localhost",)
        )
        sending_process = SendingProcess(lambda: rules)
        deliveries = {
            "service": delivery(f"jsons://{OUTSIDE}/service"),
            "webhook": delivery(f"https://{OUTSIDE}/webhook", KEY),
            "plain": delivery(f"json://{OUTSIDE}/plain"),
            "metadata": delivery("json://169.254.169.254/latest"),
            "hidden": delivery("https://0x7f.1/hidden", KEY),
            "to the proxy": delivery(f"{there.proxy.replace('http', 'json')}/admin"),
            "mail": delivery(f"{there.proxy.replace('http', 'mailto')}?from=kaji@example.org&to=ada@example.org"),
            "direct": delivery(f"https://localhost:{there.ports['https']}/direct", KEY),
        }
        try:
            receipts = dict(
                zip(deliveries, await asyncio.gather(*map(sending_process.send, deliveries.values())), strict=True)
            )
        finally:
            await sending_process.close()
    refused = {
        name: receipt.error.rpartition(" ")[2] for name, receipt in receipts.items() if receipt != _sent(receipt)
    }
    assert refused == {
        "metadata": "169.254.169.254",
        "hidden": "127.0.0.1",
        "to the proxy": "127.0.0.1",
        "mail": "127.0.0.1",
        "direct": refused["direct"],
    }
    assert refused["direct"] in ("127.0.0.1", "::1")
    assert sorted(there.taken) == ["/plain", "/service", "/webhook"]
    assert sorted(there.asked) == [f"CONNECT {OUTSIDE}:443"] * 2 + [f"POST http://{OUTSIDE}/plain"]


def _sent(receipt: Receipt) -> Receipt:
    return Receipt(number=receipt.number)


@contextmanager
def guarded(hosts: tuple[str, ...] = ()) -> Iterator[tuple[Guard, HTTPConnection]]:
    """A guard, and an HTTP client's connection to the proxy, which is not made."""
    guard = Guard(Rules(hosts=hosts, proxy="http://proxy.example.org:3128"))
    yield guard, HTTPConnection("Proxy.example.org", 3128)


def test_each_request_to_the_proxy_is_checked() -> None:
    """A kept connection serves another host next."""
    with guarded(("*.slack.com",)) as (guard, connection):
        guard.watch("http.client.send", (connection, b"POST http://hooks.slack.com/x HTTP/1.1\r\nhost: x\r\n\r\n"))
        guard.watch("http.client.send", (connection, b"the body"))
        with pytest.raises(Refusal):
            guard.watch("http.client.send", (connection, b"POST http://example.org/x HTTP/1.1\r\n\r\n"))
        assert "notifications.hosts does not allow the host example.org" in guard.take_refusal()


def test_only_an_http_client_that_connects_to_the_proxy_may_reach_its_address() -> None:
    """Other code may not, even if a method of such a client has called it."""
    with guarded() as (guard, connection), socket.socket() as sock:

        def connect(self: HTTPConnection) -> None:
            guard.watch("socket.connect", (sock, ("10.0.0.1", 3128)))

        with announced(connection):
            connect(connection)
        with pytest.raises(Refusal), announced(HTTPConnection("elsewhere.example.org")):
            connect(connection)
        with pytest.raises(Refusal):
            connect(connection)


@pytest.mark.parametrize("data", [b"POST /admin HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b"CONNECT :443 HTTP/1.1\r\n\r\n"])
def test_what_names_no_host_is_refused(data: bytes) -> None:
    with guarded() as (guard, connection):
        with pytest.raises(Refusal):
            guard.watch("http.client.send", (connection, data))
        assert "not understood" in guard.take_refusal()


def test_requests_without_a_proxy_are_not_looked_at() -> None:
    """Their connections were."""
    Guard(Rules()).watch("http.client.send", (HTTPConnection("example.org"), b"POST /x HTTP/1.1\r\n\r\n"))
    with guarded() as (guard, _):
        guard.watch("http.client.send", (HTTPConnection("example.org"), b"POST /x HTTP/1.1\r\n\r\n"))


def test_the_policy_names_a_proxy_without_secrets() -> None:
    assert Notifications.model_validate({"proxy": "http://Proxy.example.org:3128/"}).proxy == (
        "http://proxy.example.org:3128"
    )
    for text, why in (
        ("http://ada:s3cr3t@proxy:3128", "all users may read"),
        ("socks5://proxy:1080", "not the URL of a proxy"),
        ("http://proxy:99999", "not the URL of a proxy"),
        ("proxy:3128", "not the URL of a proxy"),
    ):
        with pytest.raises(ValueError, match=why) as caught:
            Notifications.model_validate({"proxy": text})
        assert "s3cr3t" not in str(caught.value.errors()[0]["msg"])  # type: ignore[attr-defined]
